//go:build !race

package oracle

// usual is how many histories run where nobody says otherwise.
const usual = 300
