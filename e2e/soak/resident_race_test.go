//go:build integration && race

package soak

// rssGrowth is no bound here: the race detector's own memory is resident too,
// and it keeps what it has noted of goroutines and locks that are gone.
const rssGrowth = 1 << 40
