package verify

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/datafile"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
)

// recompute computes the pane again.
func (v *verifier) recompute(ctx context.Context, ev *evidence) error {
	f := find(CheckRecompute)
	began := time.Now()
	v.Progress("compute the pane again", 0, 0)
	maker := ev.pane
	if ev.pane.Reason == sink.Reset || ev.pane.Reason == sink.Rollback {
		// It has the rows of another run's pane.
		run := ev.pane.Maker()
		_, m, err := sink.FindPane(ctx, v.Out, run)
		if err == nil {
			err = v.inputs(ctx, &m)
		}
		if err != nil {
			if err := f.settle(ctx, fmt.Errorf("the files were made by run %s: %w", run, err)); err != nil {
				return err
			}
			return v.end(f, "not computed")
		}
		maker = m
	}
	detail := ""
	again, err := v.Engine.Recompute(ctx, maker)
	if err == nil {
		err = v.same(ctx, f, again, maker, ev.pane)
	}
	if err == nil && f.n > 0 {
		f, detail, err = v.differing(ctx, f, ev.pane, func(emit func(docs, tombstones *column.Batch) error) error {
			_, err := v.Engine.RecomputeRows(ctx, maker, emit)
			return err
		})
	}
	if err != nil {
		if err := f.settle(ctx, err); err != nil {
			return err
		}
		return v.end(f, "not computed")
	}
	if len(again.Kept) > 0 {
		detail += fmt.Sprintf("; the kept slices of %d objects that are gone served, %s among them", len(again.Kept), again.Kept[0])
	}
	if n := ev.pane.Top(); n > 0 {
		detail += fmt.Sprintf("; what %d layers come to was written whole", n+1)
	}
	return v.end(f, "%d files from %d objects, %d rows, without any cache, in %s%s",
		len(again.Files)+len(again.Tombstones), len(maker.Inputs), again.Counts.Rows, time.Since(began).Round(time.Millisecond), detail)
}

// same compares what came out with the pane. One that is not whole by itself
// has the same rows if these, written whole, have the same bytes.
func (v *verifier) same(ctx context.Context, f *finder, again microbatch.Recomputed, maker, pane sink.Manifest) error {
	if ids := pane.DataIDs(); pane.Top() == 0 && (len(ids) == 0 || slices.Equal(ids, []string{maker.RunID})) {
		compare(f, again.Files, pane.Files)
		compare(f, again.Tombstones, pane.Tombstones)
		return nil
	}
	fields, err := parquet.Fields(pane.Schema)
	if err != nil {
		return err
	}
	rows := func(emit func(docs, tombstones *column.Batch) error) error {
		return reader.Rows(ctx, v.Out, pane, emit)
	}
	files, tombstones, err := datafile.Whole(ctx, maker.RunID, fields, "", spool.NewBudget(spoolMemory), 1, rows)
	if err != nil {
		return fmt.Errorf("put the layers together: %w", err)
	}
	compare(f, again.Files, files)
	compare(f, again.Tombstones, tombstones)
	return nil
}

// differing are the findings of files that do not come out as they are, after
// those of the rows in which they differ, which say what is wrong.
func (v *verifier) differing(ctx context.Context, files *finder, m sink.Manifest, again computing) (f *finder, note string, err error) {
	v.Progress("look for the rows that differ", 0, 0)
	f = find(files.name)
	if err = v.rows(ctx, f, m, again); err == nil && f.n == 0 {
		note = "; the rows are the same: the files were written in another way, or a second computation made them as they are"
	}
	for _, text := range files.found {
		f.add("%s", text)
	}
	f.n += files.n - len(files.found)
	return f, note, err
}

// recomputeBase computes the base again.
func (v *verifier) recomputeBase(ctx context.Context, ev *evidence) error {
	f := find(CheckRecomputeBase)
	b := ev.base()
	if b == nil {
		return v.end(f, "there is no base")
	}
	began := time.Now()
	v.Progress("compute the base again", 0, 0)
	again, err := v.Engine.RecomputeBase(ctx, *b, v.Tombstones)
	if err != nil {
		if err := f.settle(ctx, err); err != nil {
			return err
		}
		return v.end(f, "not computed")
	}
	compare(f, again.Files, b.Files)
	detail := ""
	if f.n > 0 {
		f, detail, err = v.differing(ctx, f, *b, func(emit func(docs, tombstones *column.Batch) error) error {
			_, err := v.Engine.RecomputeBaseRows(ctx, *b, v.Tombstones, func(docs *column.Batch) error { return emit(docs, column.NewBatch(nil)) })
			return err
		})
		if err := f.settle(ctx, err); err != nil {
			return err
		}
	}
	compare(f, stateFiles(again), stateFiles(*b))
	return v.end(f, "%d files from %d objects, %d rows, in %s%s",
		len(again.Files)+len(again.StateFiles()), len(b.Inputs), again.Counts.Rows, time.Since(began).Round(time.Millisecond), detail)
}

// stateFiles are private files in the form of others.
func stateFiles(m sink.Manifest) (out []sink.File) {
	for _, s := range m.StateFiles() {
		out = append(out, sink.File{Key: s.Key, Rows: s.Rows, Bytes: s.Bytes, SHA256: s.SHA256})
	}
	return out
}

// compare wants two lists of files to be equal in name and content.
func compare(f *finder, made, listed []sink.File) {
	want := map[string]sink.File{}
	for _, file := range listed {
		want[file.Key] = file
	}
	for _, got := range made {
		file, ok := want[got.Key]
		switch {
		case !ok:
			f.add("%s comes out, and is not in the manifest", got.Key)
		case got.SHA256 != file.SHA256 || got.Bytes != file.Bytes:
			f.add("%s comes out with sha256 %s and %d rows, the manifest has %s and %d", got.Key, got.SHA256, got.Rows, file.SHA256, file.Rows)
		}
		delete(want, got.Key)
	}
	for _, file := range listed {
		if _, left := want[file.Key]; left {
			f.add("%s is in the manifest, and does not come out", file.Key)
		}
	}
}
