package reader

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink/parquet"
)

// Change is a key whose documents differ between two snapshots: added where Before is nil, removed where After is, changed otherwise.
type Change struct {
	Key           []string
	Before, After *Document
}

// Diff iterates over what changed from a to b, in key order, reading each once and at most one file of each layer at a time where they
// are lazy. Documents are equal if every column has the same value in both; a column that one of them lacks counts as null there. It
// stops after the first error. Keys of different columns, or of types that have no common order, cannot be compared: ErrKeyTypes.
func Diff(ctx context.Context, a, b *Snapshot) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if !parquet.SameKey(a.delta.keyFields, b.delta.keyFields) && !a.empty() && !b.empty() {
			yield(Change{}, fmt.Errorf("diff %s and %s: %w", a.Manifest.RunID, b.Manifest.RunID, ErrKeyTypes))
			return
		}
		shared := a.base != nil && sameBase(a.Current.Base, b.Current.Base)
		for was, is := a.merge(), b.merge(); ; {
			x, err := was.at(ctx)
			if err != nil {
				yield(Change{}, err)
				return
			}
			y, err := is.at(ctx)
			if err != nil {
				yield(Change{}, err)
				return
			}
			if x == nil && y == nil {
				return
			}
			c, same, err := change(x, y, shared && x == was.base && y == is.base)
			if err != nil || !same && !yield(c, nil) {
				if err != nil {
					yield(Change{}, err)
				}
				return
			}
		}
	}
}

// change compares the documents that two piles stand at, either of which may be at its end, and moves on those it has dealt with. With
// shared, what has one key is one document.
func change(x, y *pile, shared bool) (c Change, same bool, err error) {
	order := 0
	switch {
	case x == nil:
		order = 1
	case y == nil:
		order = -1
	default:
		order = x.compare(y)
	}
	if order <= 0 {
		d := x.doc()
		c.Before, c.Key = &d, d.Key()
		x.next()
	}
	if order >= 0 {
		d := y.doc()
		c.After, c.Key = &d, d.Key()
		y.next()
	}
	if same = order == 0 && shared; order == 0 && !shared {
		same, err = equal(*c.Before, *c.After)
	}
	return c, same, err
}

// equal compares two documents by what they say.
func equal(a, b Document) (bool, error) {
	for _, err := range Differences(a, b) {
		return false, err
	}
	return true, nil
}

// Difference is a column in which two documents differ. A and B are its values as MarshalJSON writes them, null where a document lacks the
// column.
type Difference struct {
	Column string
	A, B   []byte
}

// Differences iterates over the columns in which two documents differ, those of a first. It stops after the first error.
func Differences(a, b Document) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		for i, f := range a.Fields {
			w, _ := b.Column(f.Name)
			if d, same, err := difference(f.Name, a.Batch.Columns[i], a.Row, w, b.Row); !same && !yield(d, err) || err != nil {
				return
			}
		}
		for i, f := range b.Fields {
			if _, ok := a.Column(f.Name); ok {
				continue
			}
			if d, same, err := difference(f.Name, nil, 0, b.Batch.Columns[i], b.Row); !same && !yield(d, err) || err != nil {
				return
			}
		}
	}
}

// difference compares the values of a column in two documents; a nil vector is that of a document that lacks it.
func difference(name string, v *column.Vector, i int, w *column.Vector, j int) (d Difference, same bool, err error) {
	d.Column = name
	if d.A, err = valueJSON(v, i); err != nil {
		return d, false, fmt.Errorf("column %s: %w", name, err)
	}
	if d.B, err = valueJSON(w, j); err != nil {
		return d, false, fmt.Errorf("column %s: %w", name, err)
	}
	return d, bytes.Equal(d.A, d.B), nil
}

func valueJSON(v *column.Vector, i int) ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	return appendJSON(nil, v, i)
}
