//go:build integration && !race

package soak

// rssGrowth is what may be resident at the end of the last life beyond what was
// at the end of the second.
const rssGrowth = 24 << 20

// steps of a life, each over a new partition.
const steps = 100
