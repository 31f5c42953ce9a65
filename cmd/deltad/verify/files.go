package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/store"
)

// spoolMemory is what files being looked at hold in memory; what is beyond goes
// to temporary files.
const spoolMemory = 64 << 20

// data is the check of everything that pane and bases consist of.
type data struct {
	*verifier
	files, keys, state *finder
	memory             *spool.Budget
	done, total        int64 // bytes
	count              int
	rows, runs         int64
}

// data reads every file to its end.
func (v *verifier) data(ctx context.Context, ev *evidence) error {
	d := &data{verifier: v, files: find(CheckFiles), keys: find(CheckKeys), state: find(CheckState), memory: spool.NewBudget(spoolMemory)}
	all := append([]sink.Manifest{ev.pane}, ev.bases...)
	for _, m := range all {
		for _, f := range m.DataFiles() {
			d.total += f.Bytes
		}
		for _, f := range m.StateFiles() {
			d.total += f.Bytes
		}
	}
	for _, m := range all {
		if err := d.documents(ctx, m); err != nil {
			return err
		}
	}
	for _, b := range ev.bases {
		if err := d.accumulators(ctx, b); err != nil {
			return err
		}
	}
	if err := d.slices(ctx, ev); err != nil {
		return err
	}
	if err := v.end(d.files, "%d files, %d bytes", d.count, d.done); err != nil {
		return err
	}
	if err := v.end(d.keys, "%d rows", d.rows); err != nil {
		return err
	}
	return v.end(d.state, "%d runs", d.runs)
}

// fetch reads a file whole and compares size and hash. A nil result is a
// finding that was noted.
func (d *data) fetch(ctx context.Context, key string, size int64, hash string) (*spool.Data, error) {
	defer func() {
		d.done += size
		d.Progress("read files", d.done, d.total)
	}()
	d.count++
	obj, err := d.Out.Get(ctx, key, store.GetOptions{})
	if errors.Is(err, store.ErrNotFound) {
		d.files.add("%s is gone", key)
		return nil, nil
	}
	if err != nil {
		return nil, d.files.settle(ctx, fmt.Errorf("read %s: %w", key, err))
	}
	defer obj.Body.Close()
	out, sum := spool.New("", d.memory), sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), io.LimitReader(obj.Body, size+1))
	if err != nil {
		out.Abort()
		return nil, d.files.settle(ctx, fmt.Errorf("read %s: %w", key, err))
	}
	switch got := hex.EncodeToString(sum.Sum(nil)); {
	case n > size || obj.Info.Size != size:
		d.files.add("%s has %d bytes, its manifest says %d", key, obj.Info.Size, size)
	case n != size:
		d.files.add("%s ended after %d of %d bytes", key, n, size)
	case got != hash:
		d.files.add("%s has sha256 %s, its manifest says %s", key, got, hash)
	default:
		return out.Seal()
	}
	out.Abort()
	return nil, nil
}

// walk yields the keys of some files, in the form whose byte order is key
// order, and checks them on the way. Errors are those of looking.
func (d *data) walk(ctx context.Context, files []sink.File, fields []column.Field) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		w := &walker{data: d, fields: fields}
		for _, f := range files {
			body, err := d.fetch(ctx, f.Key, f.Bytes, f.SHA256)
			if err != nil {
				yield(nil, err)
				return
			}
			if body == nil {
				w.last = nil // what follows is compared with nothing
				continue
			}
			more := w.file(f, body, yield)
			body.Close()
			if !more {
				return
			}
		}
	}
}

// walker walks the rows of files.
type walker struct {
	*data
	fields []column.Field
	last   []byte
}

// file walks one file; more is false where the consumer has enough.
func (w *walker) file(f sink.File, body *spool.Data, yield func([]byte, error) bool) (more bool) {
	rd, err := parquet.NewReader(body, body.Size(), w.fields)
	if err != nil {
		w.keys.add("%s: %v", f.Key, err)
		return true
	}
	rows := int64(0)
	var first, last []string
	for {
		b, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			w.keys.add("%s: %v", f.Key, err)
			return true
		}
		if first == nil && b.Len > 0 {
			first = parquet.KeyTexts(w.fields, b, 0)
		}
		if b.Len > 0 {
			last = parquet.KeyTexts(w.fields, b, b.Len-1)
		}
		for i := range b.Len {
			var key []byte
			for j, field := range w.fields {
				if field.Key {
					key = tuple.Append(key, b.Columns[j], i)
				}
			}
			if w.last != nil && bytes.Compare(w.last, key) >= 0 {
				w.keys.add("%s: row %d does not come after the one before it: %q", f.Key, rows+1, parquet.KeyTexts(w.fields, b, i))
			}
			w.last = key
			rows++
			w.rows++
			if !yield(key, nil) {
				return false
			}
		}
	}
	if rows != f.Rows {
		w.keys.add("%s has %d rows, its manifest says %d", f.Key, rows, f.Rows)
	}
	if rows > 0 && (!slices.Equal(first, f.MinKey) || !slices.Equal(last, f.MaxKey)) {
		w.keys.add("%s has keys from %q to %q, its manifest says from %q to %q", f.Key, first, last, f.MinKey, f.MaxKey)
	}
	return true
}

// accumulators reads the private runs of a base.
func (d *data) accumulators(ctx context.Context, m sink.Manifest) error {
	g, err := microbatch.NewGeneration(sink.Ref{Manifest: m.Key()}, m, d.Combiners)
	if err != nil {
		d.state.add("%v", err)
		return nil
	}
	for _, part := range []struct {
		files []sink.StateFile
		shape table.Shape
	}{{m.Full.Accumulators, g.Bound.BaseShape()}, {m.Full.Seen, g.Bound.SeenShape()}} {
		for _, f := range part.files {
			if err := d.run(ctx, f, part.shape); err != nil {
				return err
			}
		}
	}
	if len(m.Full.Accumulators) == 0 {
		d.state.add("%s names no accumulators", m.Key())
	}
	return nil
}

func (d *data) run(ctx context.Context, f sink.StateFile, shape table.Shape) error {
	d.runs++
	body, err := d.fetch(ctx, f.Key, f.Bytes, f.SHA256)
	if err != nil || body == nil {
		return err
	}
	defer body.Close()
	run, err := table.Open(body, body.Size(), shape)
	if err == nil {
		err = run.Verify()
	}
	switch {
	case err != nil:
		d.state.add("%s: %v", f.Key, err)
	case run.Rows() != f.Rows:
		d.state.add("%s has %d keys, its manifest says %d", f.Key, run.Rows(), f.Rows)
	}
	return nil
}

// slices reads the kept slices of unread objects, of which each input outside
// the coverage has one.
func (d *data) slices(ctx context.Context, ev *evidence) error {
	kept := map[string]bool{}
	for _, f := range ev.pane.UnreadSlices {
		d.runs++
		body, err := d.fetch(ctx, f.Key, f.Bytes, f.SHA256)
		if err != nil {
			return err
		}
		if body == nil {
			continue
		}
		s, err := slice.Decode(body, body.Size(), "", d.memory)
		body.Close()
		if err != nil {
			d.state.add("%s: %v", f.Key, err)
			continue
		}
		for _, o := range s.Objects {
			kept[version(o.Key, o.ETag)] = true
		}
		s.Run.Close()
	}
	for _, in := range ev.pane.Inputs {
		if !ev.covers(in.Partition.Time) && !kept[version(in.Key, in.ETag)] {
			d.state.add("%s is an input from outside the coverage, and no slice of it is kept", in.Key)
		}
	}
	return nil
}
