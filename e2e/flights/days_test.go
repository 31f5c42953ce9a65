//go:build integration && !race

package flights_test

// days are those that are driven over on servers. So long a ride meets
// everything.
const (
	days     = 14
	longRide = true
)
