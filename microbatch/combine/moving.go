package combine

// Mover is implemented by fns that have another column for a window that moves:
// what it takes accumulators out of again. Its column has the accumulators and
// the values of the fn's own, byte for byte.
type Mover interface {
	// NewMoving returns a column of no groups to which no records are added. What
	// of it is only to take accumulators out again has no more than about most
	// bytes.
	NewMoving(most int64) Column
}

// Loosener is implemented by columns of a Mover that take an accumulator out of
// a group only where it was merged as it is.
type Loosener interface {
	// Loosen says that what will be merged into group g, which is the identity,
	// is not what is going to be taken out: nothing is, until it is cleared.
	Loosen(g uint32)
}
