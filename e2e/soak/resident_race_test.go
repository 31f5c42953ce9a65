//go:build integration && race

package soak

// rssGrowth is no bound here: the race detector's own memory is resident too,
// and it keeps what it has noted of goroutines and locks that are gone.
const rssGrowth = 1 << 40

// steps of a life are fewer, because each takes seven times as long: what they
// race with is in the first of them.
const steps = 15
