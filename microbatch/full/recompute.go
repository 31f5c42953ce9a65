package full

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// files is where a rebuild puts what it makes, and returns the key that it has
// there: an attempt, or nowhere.
type files interface {
	PutFull(ctx context.Context, generation, name string, body io.ReadSeeker, sha256 string) (string, error)
	PutState(ctx context.Context, key string, body io.ReadSeeker, sha256 string) (string, error)
}

// nowhere keeps nothing. It has the keys of files that were made before, by
// what they hash to.
type nowhere map[string]string

func nowhereBut(m sink.Manifest) nowhere {
	n := nowhere{}
	for _, f := range m.Files {
		n[f.SHA256] = f.Key
	}
	for _, f := range m.StateFiles() {
		n[f.SHA256] = f.Key
	}
	return n
}

func (n nowhere) PutFull(_ context.Context, generation, name string, _ io.ReadSeeker, sha256 string) (string, error) {
	return cmp.Or(n[sha256], sink.FullKey(generation, name)), nil
}

func (n nowhere) PutState(_ context.Context, key string, _ io.ReadSeeker, sha256 string) (string, error) {
	return cmp.Or(n[sha256], key), nil
}

// Recompute makes the generation of a manifest again, from exactly the objects
// that it lists, and writes nothing. It returns a manifest with what that
// makes: files, accumulators, keys, counts and nulls. Inputs must be loaded;
// types are those of its signature, nil where no later object had wider ones. An
// object that is not as it was read any more is an error that names it.
func (r *Rebuilder) Recompute(ctx context.Context, m sink.Manifest, types []column.Type) (sink.Manifest, error) {
	var inputs []slice.Input
	for _, in := range m.Inputs { // by partition, then key
		if n := len(inputs); n == 0 || !inputs[n-1].Start.Equal(in.Partition.Time) {
			inputs = append(inputs, slice.Input{Start: in.Partition.Time})
		}
		last := &inputs[len(inputs)-1]
		last.Objects = append(last.Objects, partition.Object{Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: in.Partition.Time})
	}
	p := &progress{began: time.Now(), observe: r.set.Observe, report: Report{Pipeline: r.set.Name, ID: m.RunID}}
	p.phase("read", int64(len(m.Inputs)))
	again := &Rebuilder{set: r.set}
	again.set.SkipObjects = false
	rd := &reader{Rebuilder: again, cut: m.Cut.Time, builder: r.set.Builder, tell: p.add, out: nowhereBut(m)}
	g, err := rd.read(ctx, inputs, types)
	if err != nil {
		return sink.Manifest{}, fmt.Errorf("recompute base %s: %w", m.RunID, err)
	}
	defer g.close()
	out := sink.Manifest{Kind: sink.Full, RunID: m.RunID, Cut: m.Cut, Full: &sink.FullIndex{Nulls: map[string]int64{}}}
	out.Counts.Rows, out.Counts.Rejected = g.rows, g.rejected
	if err := rd.write(ctx, g, &out, p); err != nil {
		return sink.Manifest{}, fmt.Errorf("recompute base %s: %w", m.RunID, err)
	}
	return out, nil
}
