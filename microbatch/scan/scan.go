// Package scan turns one object of a partition into column batches: Parquet,
// newline-delimited JSON or CSV in, column.Batch of about 2,048 rows out.
//
// It promises that the rows it yields are exactly the rows of the object: a
// value that it cannot carry over exactly, and a byte that it cannot explain,
// is an error that names the object and the column, page or line. It does not
// list, retry, cache or decide what a bad object means for a run.
//
// Invariants:
//
//  1. The types of a run are the caller's. Scan reports what it Observed in
//     this object; the caller widens over all objects and scans again with
//     Column.As where an object's type has another Repr. Which rows are bad
//     does not depend on Column.As, except where As cannot hold the value. A
//     type that no value has (Parquet says one of every column) clashes with
//     nothing: what counts is what was read, never what statistics say.
//  2. All or nothing: unless Scan returns nil, everything it passed to emit
//     and to Request.Reject is to be thrown away.
//  3. Nothing is allocated from a size that a file merely claims. Counts and
//     sizes are checked against the bytes at hand first, values are decoded a
//     batch at a time, and a decompressed page, line or window never exceeds
//     its limit.
//  4. Hostile bytes never end the process: decoders check bounds, run in the
//     caller's goroutine, and a panic that still gets out of them becomes an
//     error of that object.
//
// A batch has about 2 MiB of text, of Parquet of strings and lists, or less, or
// is one row.
//
// A batch and its vectors are reused: they belong to emit's callee until it
// returns. Strings in them are immutable and stay valid after that (unless
// Request.Scratch says otherwise), but may share memory with a whole page: who
// keeps many for long clones them.
package scan

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
)

// Format is the format of an object's bytes.
type Format uint8

// The formats. The text formats may be compressed with gzip or zstd, told by
// the key's suffix (.gz, .zst) or by the first bytes.
const (
	Parquet Format = iota + 1
	NDJSON
	CSV
)

// ParseFormat returns the format of the name that configuration uses.
func ParseFormat(name string) (Format, error) {
	for f := Parquet; f <= CSV; f++ {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("format %q is none of parquet, ndjson, csv", name)
}

func (f Format) String() string {
	switch f {
	case Parquet:
		return "parquet"
	case NDJSON:
		return "ndjson"
	case CSV:
		return "csv"
	}
	return fmt.Sprintf("format(%d)", uint8(f))
}

// Blob is one immutable object. Every read must be of the same bytes: the
// implementer makes reads conditional on one ETag and fails otherwise. A
// slice that was returned must never change afterwards; strings of a batch
// may share its memory.
type Blob interface {
	Key() string
	Size() int64
	// ReadAll returns the whole object, Size bytes.
	ReadAll(ctx context.Context) ([]byte, error)
	// ReadRange returns n bytes from offset off; the range is inside the object.
	ReadRange(ctx context.Context, off, n int64) ([]byte, error)
}

// Column is a column that a scan is to yield.
type Column struct {
	// Path is the column's name in exact case, or names joined by dots that
	// lead through structs. At each level the longest name that exists wins,
	// so a column whose own name has dots comes before a nested one.
	Path string
	// Optional makes a missing column a column of nulls. A column that is
	// there in another case is an error all the same.
	Optional bool
	// Numeric says that only numbers will do (sum, mean). In CSV, a value
	// that is not a number is then a bad row instead of making the column a
	// string column. Other formats type their values themselves.
	Numeric bool
	// As is the type to deliver. Null (the zero Type) delivers what is in
	// the object. The object's type must widen to As (see Widen), or as much of
	// it as values have.
	As column.Type
	// Nulls says of Parquet, where As is Null, that the type null is to be
	// delivered: a value is then ErrMisfit.
	Nulls bool
}

// RowPolicy says what a bad row of a text format means.
type RowPolicy uint8

// The row policies.
const (
	Fail   RowPolicy = iota // the scan fails and names object and line
	Reject                  // the row is counted, passed to Request.Reject and left out
)

// RejectedRow is a row that a scan left out.
type RejectedRow struct {
	Line   int64  // where the row starts, from 1, in the decompressed text
	Reason string // what is wrong with it
	Text   []byte // the row's bytes, cut at 4 KiB; valid until the callback returns
}

// Limits bounds what one object may use. A zero field means its default.
type Limits struct {
	Line     int   // bytes of a line or CSV record; longer is a bad row; 8 MiB
	Text     int64 // bytes of decompressed text; 64 GiB
	Ratio    int64 // decompressed to compressed bytes, judged beyond the first 64 MiB; 1,000
	Window   int   // bytes of a zstd window; 32 MiB
	Footer   int   // bytes of a Parquet footer; 16 MiB
	Page     int   // bytes of a decompressed Parquet page; 64 MiB
	RowGroup int64 // compressed bytes of the wanted columns of a Parquet row group; 512 MiB
	Values   int   // list elements of a leaf in one batch; 4 Mi
	Whole    int64 // objects up to this size are read by one ReadAll; 8 MiB
	// Ahead, where it is not nil, has bytes for row groups of a large object, or pieces
	// of a large text, to be read while those before them are decoded. ReadRange is
	// then called by several goroutines at a time, all of which have ended when Scan
	// returns.
	Ahead *Ahead

	piece int64 // bytes of a large text that one request reads at most; pieceBytes
}

// DefaultWhole is the default of Limits.Whole.
const DefaultWhole = 8 << 20

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set64 := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.Line, 8<<20)
	set64(&l.Text, 64<<30)
	set64(&l.Ratio, 1000)
	set(&l.Window, 32<<20)
	set(&l.Footer, 16<<20)
	set(&l.Page, 64<<20)
	set64(&l.RowGroup, 512<<20)
	set(&l.Values, 4<<20)
	set64(&l.Whole, DefaultWhole)
	set64(&l.piece, pieceBytes)
	return l
}

// Request says what to read of an object, and how.
type Request struct {
	Format  Format
	Columns []Column
	// PathValues are values that the object's key carries (hive style, such
	// as country=de). They are strings, used where the object lacks the
	// column; a column that is there wins, in NDJSON row by row.
	PathValues map[string]string
	Row        RowPolicy
	Limits     Limits
	// Scratch, where it is not nil, is used and left for the next scan. Strings
	// of a batch are then the batch's as well: they change after emit returns.
	Scratch *Scratch
	// Reject gets every row left out under the policy Reject; nil is allowed.
	Reject func(RejectedRow)
}

// Result is what a scan found.
type Result struct {
	Rows     int64 // rows emitted
	Rejected int64 // bad rows left out
	// Observed has the type of each requested column in this object, before
	// As; Null where there is no value (and, in Parquet, no column).
	Observed []column.Type
	// Seen is Observed as far as values have the types: Null wherever there is
	// none, in the fields of structs and the elements of lists, too. Only a text
	// format tells no types without values. It is set where Scan returns nil.
	Seen []column.Type
}

// ErrRetype is returned by a Scan of a text format in which a column without
// As turned out to need another type after batches had been emitted (an
// integer column in which a fraction appears). Result.Observed is complete:
// scan again with As set from it, and throw away what was emitted.
var ErrRetype = errors.New("a column's type changed within the object")

// ErrMisfit is returned by a Scan of Parquet whose Column.As does not hold what
// is in the object.
var ErrMisfit = errors.New("a column's type does not fit the one asked for")

// batchRows is the number of rows of a batch: large enough to amortize a call
// per column, small enough for vectors to stay in the second-level cache.
const batchRows = 2048

// batchBytes is the size of values from which a batch has fewer rows, down to
// one: who is given a batch may hold its values several times over.
const batchBytes = 2 << 20

// Scan reads the object and calls emit with batches that hold the requested
// columns in order. With As Null, a column's type may turn from null into
// another between two batches, and does not change otherwise. An empty object
// has no rows and is no error. The context is looked at between batches. An
// error is an *Error.
func Scan(ctx context.Context, blob Blob, req Request, emit func(*column.Batch) error) (res Result, err error) {
	g := guard{blob: blob}
	defer g.recover(&err)
	if emit == nil {
		return Result{}, &Error{blob.Key(), errors.New("no emit")}
	}
	if reject := req.Reject; reject != nil {
		req.Reject = func(r RejectedRow) {
			g.callee = true
			reject(r)
			g.callee = false
		}
	}
	return run(ctx, blob, req, func(b *column.Batch) error {
		g.callee = true
		err := emit(b)
		g.callee = false
		return err
	})
}

// Observe returns the type of each requested column in the object: from the
// footer alone in Parquet, from a full pass over the rows in a text format.
// As is ignored.
func Observe(ctx context.Context, blob Blob, req Request) (types []column.Type, err error) {
	g := guard{blob: blob}
	defer g.recover(&err)
	req.Columns, req.Reject = untyped(req.Columns), nil
	res, err := run(ctx, blob, req, nil)
	return res.Observed, err
}

// run scans, or with a nil emit observes.
func run(ctx context.Context, blob Blob, req Request, emit func(*column.Batch) error) (Result, error) {
	req.Limits = req.Limits.withDefaults()
	if blob.Size() == 0 {
		none := make([]column.Type, len(req.Columns))
		return Result{Observed: none, Seen: none}, nil
	}
	var res Result
	var err error
	switch req.Format {
	case Parquet:
		res, err = scanParquet(ctx, blob, req, emit)
	case NDJSON, CSV:
		res, err = scanText(ctx, blob, req, emit)
		res.Seen = res.Observed
	default:
		err = fmt.Errorf("unknown %s", req.Format)
	}
	if err != nil {
		err = &Error{blob.Key(), err}
	}
	return res, err
}

// Error is an object that could not be scanned.
type Error struct {
	Key string
	Err error // without the key
}

func (e *Error) Error() string { return fmt.Sprintf("scan %s: %v", e.Key, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// guard turns a panic of a decoder into an error of the object. A panic of the
// callee is not the object's fault: it passes.
type guard struct {
	blob   Blob
	callee bool // control is with emit or Reject
}

// recover must be deferred itself.
func (g *guard) recover(err *error) {
	if g.callee {
		return
	}
	if p := recover(); p != nil {
		*err = &Error{g.blob.Key(), fmt.Errorf("malformed: %v\n%s", p, frames(debug.Stack()))}
	}
}

// frames keeps the part of a stack that names the decoder.
func frames(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	const skip, keep = 7, 8 // goroutine header, debug.Stack, guard, panic; four frames
	if len(lines) <= skip {
		return ""
	}
	return strings.Join(lines[skip:min(len(lines), skip+keep)], "\n")
}
