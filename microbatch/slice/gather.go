package slice

import (
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
)

// builder gathers the records of one partition into a run. Its table stays
// within a budget: what is beyond goes out as a sorted run of its own, and the
// runs are merged in the end. The bytes are the same either way.
type gatherer struct {
	slicer  *Builder
	shape   table.Shape
	table   *table.Table
	lifter  *index.Lifter
	spilled []*spool.Data
}

func (s *Builder) newGatherer(bound *index.Bound, start time.Time) (*gatherer, error) {
	b := &gatherer{slicer: s, shape: bound.Shape()}
	b.table = table.New(b.shape)
	var err error
	b.lifter, err = bound.NewLifter(b.table, start)
	return b, err
}

// add lifts a batch; first is the number of its first row within the object.
func (b *gatherer) add(batch *column.Batch, first int64) (index.Stats, error) {
	stats, err := b.lifter.Add(batch, first)
	if err != nil || b.slicer.TableBytes <= 0 || b.table.Bytes() <= b.slicer.TableBytes {
		return stats, err
	}
	run, err := b.slicer.write(func(s *spool.Spool) error {
		_, err := b.table.WriteRun(s, table.Options{})
		return err
	})
	if err != nil {
		return stats, fmt.Errorf("spill: %w", err)
	}
	b.spilled = append(b.spilled, run)
	b.table.Reset()
	return stats, nil
}

// finish returns the run of all records.
func (b *gatherer) finish() (*spool.Data, error) {
	defer b.drop()
	return b.slicer.write(func(s *spool.Spool) error {
		if len(b.spilled) == 0 {
			_, err := b.table.WriteRun(s, table.Options{})
			return err
		}
		cursors := []table.Cursor{b.table.Cursor()}
		for _, d := range b.spilled {
			run, err := table.Open(d, d.Size(), b.shape)
			if err != nil {
				return err
			}
			cursors = append(cursors, run.Cursor())
		}
		_, err := table.MergeRuns(s, b.shape, table.Options{}, cursors...)
		return err
	})
}

// drop gives the spilled runs back.
func (b *gatherer) drop() {
	for _, d := range b.spilled {
		d.Close()
	}
	b.spilled = nil
}

// write seals what do has written into a new spool.
func (s *Builder) write(do func(*spool.Spool) error) (*spool.Data, error) {
	out := spool.New(s.Dir, s.Memory)
	if err := do(out); err != nil {
		out.Abort()
		return nil, err
	}
	return out.Seal()
}
