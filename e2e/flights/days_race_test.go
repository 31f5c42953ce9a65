//go:build integration && race

package flights_test

// days are fewer under the race detector, which takes four times as long.
const (
	days     = 5
	longRide = false
)
