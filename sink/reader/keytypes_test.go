package reader_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/sink/sinktest"
)

// keyed are rows of a key column of the type, each with its place among them as n.
func keyed(t *testing.T, typ column.Type, keys ...string) ([]column.Field, *column.Batch) {
	t.Helper()
	fields := []column.Field{{Name: "item", Type: typ, Key: true}, {Name: "n", Type: column.Of(column.Int64)}}
	b := column.NewBatch(fields)
	for i, k := range keys {
		row, err := parquet.KeyRow(fields[:1], []string{k})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Columns[0].AppendFrom(row.Columns[0], 0); err != nil {
			t.Fatal(err)
		}
		b.Columns[1].AppendInt(int64(i))
		b.Len++
	}
	return fields, b
}

// typed publishes documents and tombstones of one type of key over a base of another, and returns CURRENT's base as it was written.
func (o *output) typed(base, delta column.Type, documents, dead, below []string) {
	t := o.t
	t.Helper()
	fields, rows := keyed(t, base, below...)
	b := sinktest.Base{Generation: sinktest.ID(8, 2), Cut: sinktest.Hour(2)}
	m := b.Manifest(me)
	m.Schema, m.Counts.Documents = parquet.SchemaFields(fields), int64(rows.Len)
	var err error
	m.Files, err = sinktest.Files(t.Context(), fields, "part", rows, func(ctx context.Context, p parquet.Part, body io.ReadSeeker) (string, error) {
		return o.s.PutFull(ctx, b.Generation, p.Name, body, p.SHA256)
	})
	if err != nil {
		t.Fatal(err)
	}
	body := []byte("accumulators")
	acc := sink.StateFile{Key: sink.FullStateKey(b.Generation, "accumulators.run"), Rows: int64(rows.Len), Bytes: int64(len(body)), SHA256: sink.Sum(body)}
	if err := o.s.PutState(t.Context(), acc.Key, bytes.NewReader(body), acc.SHA256); err != nil {
		t.Fatal(err)
	}
	m.Full.Accumulators = []sink.StateFile{acc}
	ref, err := o.s.WriteManifest(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}

	p := sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(3), From: sinktest.Hour(0), Base: &m, BaseSHA256: ref.SHA256}
	pane := p.Manifest(me, o.h)
	fields, rows = keyed(t, delta, documents...)
	pane.Schema, pane.Counts.Documents, pane.Counts.Tombstones = parquet.SchemaFields(fields), int64(rows.Len), int64(len(dead))
	put := func(ctx context.Context, part parquet.Part, body io.ReadSeeker) (string, error) {
		return o.s.PutData(ctx, p.RunID, part.Name, body, part.SHA256)
	}
	if pane.Files, err = sinktest.Files(t.Context(), fields, "part", rows, put); err != nil {
		t.Fatal(err)
	}
	_, gone := keyed(t, delta, dead...)
	gone.Columns = gone.Columns[:1]
	if pane.Tombstones, err = sinktest.Files(t.Context(), fields[:1], "tombstones", gone, put); err != nil {
		t.Fatal(err)
	}
	if ref, err = o.s.WriteManifest(t.Context(), pane); err != nil {
		t.Fatal(err)
	}
	if o.h, err = o.s.Commit(t.Context(), me, o.h, ref, pane, sink.CommitOptions{Now: sinktest.Hour(3)}); err != nil {
		t.Fatal(err)
	}
}

// A run that meets wider keys than the base has publishes them over it: integers of any width are one key, and so are floats. With keys
// that have no common order there is no index, and a base without documents says nothing of any key, whatever it takes the type to be.
func TestKeysOfTwoWidths(t *testing.T) {
	int32s, int64s := column.Of(column.Int32), column.Of(column.Int64)
	float32s, float64s := column.Of(column.Float32), column.Of(column.Float64)
	for _, tc := range []struct {
		name                   string
		base, delta            column.Type
		documents, dead, below []string
		want                   string // keys in order, those of the base in brackets
		refused                bool
	}{
		{name: "int32 under int64", base: int32s, delta: int64s, documents: []string{"-9", "2", "1099511627776"}, dead: []string{"3"},
			below: []string{"-2147483648", "2", "3", "4"}, want: "(-2147483648) -9 2 (4) 1099511627776"},
		{name: "int64 under int32", base: int64s, delta: int32s, documents: []string{"2"}, dead: []string{"3"},
			below: []string{"2", "3", "1099511627776"}, want: "2 (1099511627776)"},
		{name: "float under double", base: float32s, delta: float64s, documents: []string{"0.1", "1.5", "NaN"}, dead: []string{"2.5"},
			below: []string{"0.1", "1.5", "2.5", "+Inf", "NaN"}, want: "0.1 (0.10000000149011612) 1.5 (+Inf) NaN"},
		{name: "nothing seen under int64", base: column.Of(column.String), delta: int64s, documents: []string{"5"}, dead: []string{"6"}, want: "5"},
		{name: "text under int64", base: column.Of(column.String), delta: int64s, documents: []string{"5"}, below: []string{"5"}, refused: true},
		{name: "decimals of two scales", base: column.DecimalOf(9, 1), delta: column.DecimalOf(9, 2), documents: []string{"0.50"}, below: []string{"0.5"}, refused: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOutput(t)
			o.typed(tc.base, tc.delta, tc.documents, tc.dead, tc.below)
			r := reader.Open(o.mem, reader.Options{})
			if _, err := r.Poll(t.Context()); tc.refused {
				if !errors.Is(err, reader.ErrPair) || !errors.Is(err, reader.ErrKeyTypes) || r.Snapshot() != nil {
					t.Errorf("got %v", err)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			s := r.Snapshot()
			var all []string
			for d, err := range s.All(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				key := d.Key()[0]
				f, err := s.Find(t.Context(), key)
				if err != nil || !f.Found {
					t.Errorf("%s is listed and not found: %v", key, err)
				}
				if f.Layer == reader.InBase {
					key = "(" + key + ")"
				}
				all = append(all, key)
			}
			if got := strings.Join(all, " "); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			for _, k := range tc.dead {
				if f, err := s.Find(t.Context(), k); err != nil || f.Found || f.Layer != reader.Tombstone {
					t.Errorf("%s: %+v, %v", k, f, err)
				}
			}
		})
	}
}

// Panes whose keys have widened from one to the other are compared by value, and a pane without rows with any.
func TestDiffOfKeysOfTwoWidths(t *testing.T) {
	o := newOutput(t)
	pane := func(typ column.Type, keys ...string) *reader.Snapshot {
		t.Helper()
		fields, rows := keyed(t, typ, keys...)
		p := sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(3)}
		m := p.Manifest(me, o.h)
		m.Schema, m.Counts.Documents = parquet.SchemaFields(fields), int64(rows.Len)
		var err error
		m.Files, err = sinktest.Files(t.Context(), fields, "part", rows, func(ctx context.Context, part parquet.Part, body io.ReadSeeker) (string, error) {
			return o.s.PutData(ctx, p.RunID, part.Name, body, part.SHA256)
		})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := o.s.WriteManifest(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		s, err := reader.OpenPane(t.Context(), o.mem, ref, reader.Options{Lazy: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	diff := func(a, b *reader.Snapshot) (string, error) {
		var out []string
		for c, err := range reader.Diff(t.Context(), a, b) {
			if err != nil {
				return "", err
			}
			switch {
			case c.Before == nil:
				out = append(out, "+"+c.Key[0])
			case c.After == nil:
				out = append(out, "-"+c.Key[0])
			default:
				out = append(out, "~"+c.Key[0])
			}
		}
		return strings.Join(out, " "), nil
	}
	empty := pane(column.Of(column.String))
	narrow, wide := pane(column.Of(column.Int32), "1", "2", "3"), pane(column.Of(column.Int64), "1", "3", "1099511627776")
	text := pane(column.Of(column.String), "1")
	for _, tc := range []struct {
		name string
		a, b *reader.Snapshot
		want string
	}{
		{"wider", narrow, wide, "-2 ~3 +1099511627776"},
		{"narrower", wide, narrow, "+2 ~3 -1099511627776"},
		{"from nothing", empty, narrow, "+1 +2 +3"},
		{"to nothing", wide, empty, "-1 -3 -1099511627776"},
	} {
		if got, err := diff(tc.a, tc.b); err != nil || got != tc.want {
			t.Errorf("%s: %q, %v, want %q", tc.name, got, err, tc.want)
		}
	}
	if _, err := diff(text, wide); !errors.Is(err, reader.ErrKeyTypes) {
		t.Errorf("text and integers: %v", err)
	}
}
