package slice

import (
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
)

// gatherer gathers the records of one partition into a run. Its table stays
// within a budget: what is beyond goes out as a sorted run of its own, and the
// runs are merged, so many at a time that what a merge holds of each stays
// within bounds. The bytes are the same either way.
type gatherer struct {
	slicer  *Builder
	tools   *tools
	shape   table.Shape
	table   *table.Table
	lifter  *index.Lifter
	spilled []spilled // levels never rise
	lead    func() int
	done    bool
}

// spilled is a sorted run that waits to be merged. A run of level n+1 was
// merged from fanIn of level n, so a record is written once a level.
type spilled struct {
	data  *spool.Data
	level int
}

// fanIn is how many runs of a level are merged into one. A merge holds a
// block of each, which is a row at least, and rows may be megabytes.
const fanIn = 8

func (s *Builder) newGatherer(bound *index.Bound, start time.Time) (*gatherer, error) {
	b := &gatherer{slicer: s, tools: s.Reuse.take(), shape: bound.Shape()}
	b.table = b.tools.tableFor(bound, s.TableBytes)
	var err error
	if b.lifter, err = bound.NewLifter(b.table, start); err != nil {
		return nil, err
	}
	if last := b.tools.lifter; last != nil {
		b.lifter.Inherit(last)
	}
	b.tools.lifter = b.lifter
	return b, nil
}

// add lifts a batch; first is the number of its first row within the object.
func (b *gatherer) add(batch *column.Batch, first int64) (index.Stats, error) {
	stats, err := b.lifter.Add(batch, first)
	if err != nil || b.slicer.TableBytes <= 0 || b.table.Bytes() <= b.slicer.TableBytes {
		return stats, err
	}
	run, err := b.slicer.write(nil, func(s *spool.Spool) error {
		_, err := b.table.WriteRun(s, table.Options{})
		return err
	})
	if err != nil {
		return stats, &spillError{err}
	}
	b.spilled = append(b.spilled, spilled{data: run})
	b.table.Reset()
	if err := b.compact(); err != nil {
		return stats, &spillError{err}
	}
	return stats, nil
}

// spillError is a run that could not be spilled, because the disk is full, say.
// The object whose rows are being added is not to blame: it would be left out.
type spillError struct{ err error }

func (e *spillError) Error() string { return fmt.Sprintf("spill: %v", e.err) }
func (e *spillError) Unwrap() error { return e.err }

// compact merges the newest runs for as long as there are fanIn of a level.
func (b *gatherer) compact() error {
	for {
		from := len(b.spilled) - fanIn
		if from < 0 || b.spilled[from].level != b.spilled[len(b.spilled)-1].level {
			return nil
		}
		merged, err := b.merge(nil, b.spilled[from:])
		if err != nil {
			return fmt.Errorf("merge spilled runs: %w", err)
		}
		level := b.spilled[from].level + 1
		for _, s := range b.spilled[from:] {
			s.data.Close()
		}
		b.spilled = append(b.spilled[:from], spilled{data: merged, level: level})
	}
}

// merge makes one run of several, and of what the cursors yield.
func (b *gatherer) merge(lead func() int, runs []spilled, cursors ...table.Cursor) (*spool.Data, error) {
	for _, s := range runs {
		run, err := table.Open(s.data, s.data.Size(), b.shape)
		if err != nil {
			return nil, err
		}
		cursors = append(cursors, run.Cursor())
	}
	return b.slicer.write(lead, func(out *spool.Spool) error {
		_, err := table.MergeRuns(out, b.shape, table.Options{}, cursors...)
		return err
	})
}

// finish returns the run of all records, with the room before it that lead says.
func (b *gatherer) finish() (run *spool.Data, err error) {
	defer b.drop()
	if len(b.spilled) > 0 {
		run, err = b.merge(b.lead, b.spilled, b.table.Cursor())
	} else {
		run, err = b.slicer.write(b.lead, func(s *spool.Spool) error {
			_, err := b.table.WriteRun(s, table.Options{})
			return err
		})
	}
	b.done = err == nil
	return run, err
}

// drop gives the spilled runs and the tools back. The gatherer must not be used
// again.
func (b *gatherer) drop() {
	if b.tools != nil {
		if !b.done {
			b.tools.table, b.tools.lifter = nil, nil // columns are undefined after an error
		}
		b.slicer.Reuse.give(b.tools)
		b.tools, b.table, b.lifter = nil, nil, nil
	}
	for _, s := range b.spilled {
		s.data.Close()
	}
	b.spilled = nil
}

// write seals what do has written into a new spool, of which lead says how much
// room a file is to have before it; nil is none.
func (s *Builder) write(lead func() int, do func(*spool.Spool) error) (*spool.Data, error) {
	out := spool.New(s.Dir, s.Memory)
	out.Lead(lead)
	if err := do(out); err != nil {
		out.Abort()
		return nil, err
	}
	return out.Seal()
}
