//go:build race

package oracle

// usual is lower under the race detector, which makes ten of one.
const usual = 40
