// Package datafile writes the Parquet files of panes and of bases: within the
// memory that spools share, stored one by one as they are finished, and listed
// the way a manifest has them.
package datafile

import (
	"context"
	"io"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
)

// memory is how much of a file waits in memory for its upload, unless Waiting
// has room for more.
const memory = 8 << 20

// Put stores a finished file and returns its key: one file at a time, beside
// the writing of the next. It may keep body no longer than the call.
type Put func(ctx context.Context, name string, body io.ReadSeeker, hash string) (key string, err error)

// Options are what a writer needs.
type Options struct {
	// Fields is the schema; Name is what the files are called before their
	// number: part, or tombstones.
	Fields []column.Field
	Name   string
	// Dir and Memory are those of the spools.
	Dir    string
	Memory *spool.Budget
	// Waiting is memory for files that wait for their upload, as far as it goes:
	// what slices, which stay, have not filled. nil is none.
	Waiting *spool.Budget
	// Frames keeps compressed pages; nil keeps none.
	Frames *parquet.Frames
	// Workers is how many columns are encoded at a time.
	Workers int
	Put     Put
	// Files gets an entry for each file that was put. It is complete when the
	// writer was closed, and not to be looked at before.
	Files *[]sink.File
}

// NewWriter returns a writer of files of one kind.
func NewWriter(o Options) (*parquet.Writer, error) {
	return parquet.NewWriter(parquet.Options{
		Fields: o.Fields, Name: o.Name, Frames: o.Frames, Workers: o.Workers,
		Spool: func() parquet.Spool { return waiting{o.spool()} },
		Put: func(ctx context.Context, part parquet.Part, body io.ReadSeeker) error {
			key, err := o.Put(ctx, part.Name, body, part.SHA256)
			if err != nil {
				return err
			}
			*o.Files = append(*o.Files, part.File(key))
			return nil
		},
	})
}

func (o Options) spool() *spool.Spool {
	if o.Waiting != nil {
		if left := o.Waiting.Left(); left > memory {
			return spool.NewSmall(o.Dir, o.Waiting, int(left))
		}
	}
	return spool.NewSmall(o.Dir, o.Memory, memory)
}

// waiting is a spool as the writer of files knows it.
type waiting struct{ *spool.Spool }

// Seal implements parquet.Spool.
func (w waiting) Seal() (parquet.Body, error) { return w.Spool.Seal() }
