// Package combine holds the combine fns: how records become accumulators,
// accumulators merge, and values come out. It is pure: no I/O, no clock.
//
// A Fn is a function with its parameters and argument types; a Column holds its
// accumulators for many groups at once. Invariants, each held by the law
// battery of package combinetest, which works on bytes:
//
//  1. Equal multisets of records give equal accumulator bytes, whatever the
//     order, the split and the tree of merges. Ties are broken by the content
//     of records (Order), never by file, line or arrival.
//  2. The identity is absence: an accumulator of no records is no bytes.
//  3. No accumulator holds a float. Floats are summed exactly and rounded once,
//     in Extract; integers widen, and their range is checked in Extract alone.
//  4. Merge accepts canonical bytes and nothing else; foreign bytes are an
//     error and leave the column as it was. Merge never changes its argument.
//  5. A Group can take an accumulator out again (Inverter) and is back at the
//     bytes before; a Semilattice does not change when merged with itself.
//  6. TypeID names all that the bytes depend on. Accumulators of one TypeID
//     merge; those of two never do.
//
// A null argument takes no part, unless a parameter says so. The count of
// nothing is 0, every other aggregate of nothing is null.
package combine

import "github.com/deltad/deltad/microbatch/column"

// Version is the version of the accumulator formats; it ends every TypeID.
const Version = 1

// Class is the algebra of a Fn beyond that of a commutative monoid.
type Class uint8

// The classes. What a window may do depends on them: a Group subtracts what
// leaves it, a Semilattice may be covered twice.
const (
	Monoid Class = iota
	Group
	Semilattice
)

func (c Class) String() string {
	switch c {
	case Group:
		return "group"
	case Semilattice:
		return "semilattice"
	case Monoid:
	}
	return "monoid"
}

// Order is the order of a batch's records. All fns of a batch share one, and
// it is expected to keep what it has made.
type Order interface {
	// Rank returns bytes whose order is the records' order: event time, delete
	// last, canonical bytes of the record (AppendRank writes them). Greater is
	// newer. Equal ranks mean that no content tells the records apart, save
	// what the fn itself reads. The bytes may be overwritten by the next call.
	Rank(i int) []byte
}

// Input is a batch of records for Add.
type Input struct {
	// Groups is the group of each record, by record number. Groups must have
	// been made with Grow.
	Groups []uint32
	// Rows are the numbers of the records that take part, each at most once.
	// There is no shorthand for all: none and all must not look alike.
	Rows []int32
	// Args are the columns of the fn's arguments, with a row for each record.
	// Their types must have the Repr of Fn.Args.
	Args []*column.Vector
	// Order is read by latest, earliest, newest and what is built of them; it
	// may be nil for the rest.
	Order Order
}

// whole says that every record takes part: then a loop may run over Groups
// alone, since no accumulator depends on the order of records.
func (in *Input) whole() bool { return len(in.Rows) == len(in.Groups) }

// Fn is a combine fn with its parameters and argument types. It is immutable
// and safe for concurrent use.
type Fn interface {
	// TypeID names the accumulator: fn, every parameter, the Repr of the
	// arguments, the codec version.
	TypeID() string
	// Class is the algebra that the law battery holds it to.
	Class() Class
	// Args are the types of the arguments, in order.
	Args() []column.Type
	// Output is the type of extracted values.
	Output() column.Type
	// NewColumn returns a column of no groups.
	NewColumn() Column
	// Validate says whether acc is a canonical accumulator. Nothing is one.
	Validate(acc []byte) error
}

// Column holds one fn's accumulators for the groups 0 to Len()-1. It is not
// safe for concurrent use. After an error of Add its state is undefined.
type Column interface {
	Len() int
	// Grow makes groups up to n, each the identity. It never shrinks.
	Grow(n int)
	// Reset forgets every group and keeps storage for reuse.
	Reset()
	// Add lifts the records and merges them into their groups.
	Add(in *Input) error
	// Merge merges a canonical accumulator into group g; no bytes are the
	// identity. Bytes that Validate refuses are an error and leave the group as
	// it was. So are counts that no 2^64 records have; a group whose total has
	// them is undefined.
	Merge(g uint32, acc []byte) error
	// AppendAcc appends the canonical accumulator of group g; the identity
	// appends nothing.
	AppendAcc(dst []byte, g uint32) []byte
	// Extract appends group g's value to dst, a vector of type Fn.Output. An
	// error says what did not fit; dst must then be discarded.
	Extract(g uint32, dst *column.Vector) error
	// Bytes is the memory held, for budgets.
	Bytes() int64
}

// Inverter is implemented by the columns of every Group.
type Inverter interface {
	// Unmerge takes out of group g an accumulator that was merged into it, or
	// the accumulator of records that were. One that cannot have been is an
	// error where the counts show it, and the group is as it was.
	Unmerge(g uint32, acc []byte) error
}
