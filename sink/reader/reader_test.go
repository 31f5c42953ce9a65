package reader_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/store/mem"
)

var me = sink.Owner{Epoch: 1, Nonce: "n", State: "s", Instance: "i"}

type output struct {
	t    *testing.T
	mem  *mem.Store
	s    *sink.Sink
	h    sink.Head
	runs func() string
}

func newOutput(t *testing.T) *output {
	o := &output{t: t, mem: mem.New("out"), runs: sinktest.IDs(3)}
	o.s = sinktest.New(o.mem, 4)
	var err error
	if o.h, err = o.s.Claim(t.Context(), me, sink.ClaimOptions{Now: sinktest.Hour(0)}); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *output) publish(p sinktest.Pane) {
	o.t.Helper()
	if p.RunID == "" {
		p.RunID = o.runs()
	}
	var err error
	if o.h, err = sinktest.Publish(o.t.Context(), o.s, me, o.h, p); err != nil {
		o.t.Fatal(err)
	}
}

func get(t *testing.T, s *reader.Snapshot, item string) string {
	t.Helper()
	d, found, err := s.Get(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		return "absent"
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func poll(t *testing.T, r *reader.Reader, want bool) {
	t.Helper()
	if changed, err := r.Poll(t.Context()); err != nil || changed != want {
		t.Fatalf("changed %t, %v", changed, err)
	}
}

func TestFollowsPanes(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lazy %t", lazy), func(t *testing.T) {
			o := newOutput(t)
			f := fault.New(o.mem)
			r := reader.Open(f, reader.Options{Lazy: lazy})
			for range 2 {
				if _, err := r.Poll(t.Context()); !errors.Is(err, reader.ErrNoIndex) {
					t.Fatalf("before the first pane: %v", err)
				}
			}
			o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: map[string]int64{"a": 1, "b": 0}})
			poll(t, r, true)
			first := r.Snapshot()
			if got := get(t, first, "b"); got != `{"item":"b","n":0}` {
				t.Errorf("b is %s", got)
			}
			if got := get(t, first, "aa"); got != "absent" {
				t.Errorf("aa is %s", got)
			}
			before := len(f.Calls())
			poll(t, r, false)
			if n := len(f.Calls()) - before; n != 1 {
				t.Errorf("a poll without change took %d requests", n)
			}
			o.publish(sinktest.Pane{Watermark: sinktest.Hour(2), Documents: map[string]int64{"a": 2}})
			poll(t, r, true)
			if get(t, r.Snapshot(), "b") != "absent" || get(t, first, "b") == "absent" {
				t.Error("snapshots are not apart")
			}
			if _, _, err := first.Get(t.Context(), "a", "b"); err == nil {
				t.Error("a key of two values was taken for one of one")
			}
		})
	}
}

func TestClaimsReuseWhatWasLoaded(t *testing.T) {
	o := newOutput(t)
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: map[string]int64{"a": 1}})
	f := fault.New(o.mem)
	r := reader.Open(f, reader.Options{})
	poll(t, r, true)
	next := me
	next.Epoch = 2
	if _, err := o.s.Claim(t.Context(), next, sink.ClaimOptions{}); err != nil {
		t.Fatal(err)
	}
	before := len(f.Calls())
	poll(t, r, true)
	if n := len(f.Calls()) - before; n != 1 || r.Snapshot().Current.Owner.Epoch != 2 {
		t.Errorf("%d requests for a claim, epoch %d", n, r.Snapshot().Current.Owner.Epoch)
	}
}

func TestDeltaOverBase(t *testing.T) {
	o := newOutput(t)
	base, hash, err := sinktest.WriteBase(t.Context(), o.mem, me, sinktest.ID(8, 1), sinktest.Hour(4), map[string]int64{"a": 1, "b": 2, "c": 3, "e": 5})
	if err != nil {
		t.Fatal(err)
	}
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(6), From: sinktest.Hour(4), Base: &base, BaseSHA256: hash,
		Documents: map[string]int64{"b": 20, "d": 40}, Tombstones: []string{"0", "c", "x"}})
	r := reader.Open(o.mem, reader.Options{})
	poll(t, r, true)
	s := r.Snapshot()
	want := map[string]int64{"a": 1, "b": 20, "d": 40, "e": 5}
	got, err := sinktest.DocumentsOf(t.Context(), s)
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("all %v, %v", got, err)
	}
	for _, item := range []string{"0", "a", "b", "c", "d", "e", "x"} {
		n, there := want[item]
		if got := get(t, s, item); there && got != fmt.Sprintf(`{"item":%q,"n":%d}`, item, n) || !there && got != "absent" {
			t.Errorf("%s is %s", item, got)
		}
	}
	delta, dead, full := s.Files()
	if len(delta) != 1 || len(dead) != 1 || len(full) != 1 || !strings.HasPrefix(full[0], "full/") {
		t.Errorf("files %v %v %v", delta, dead, full)
	}
	if sql := s.SQL("s3://out/ads/"); !strings.Contains(sql, "read_parquet(['s3://out/ads/"+dead[0]+"'])") || !strings.Contains(sql, `h."item" = b."item"`) {
		t.Errorf("sql %s", sql)
	}
}

func TestPairsThatDoNotBelongTogether(t *testing.T) {
	base := func(o *output) (sink.Manifest, string) {
		m, hash, err := sinktest.WriteBase(t.Context(), o.mem, me, sinktest.ID(8, 1), sinktest.Hour(4), map[string]int64{"a": 1})
		if err != nil {
			t.Fatal(err)
		}
		return m, hash
	}
	for _, tc := range []struct {
		name string
		make func(o *output)
		want error
	}{
		{"delta does not reach the base", func(o *output) {
			b, hash := base(o)
			o.publish(sinktest.Pane{Watermark: sinktest.Hour(6), From: sinktest.Hour(5), Base: &b, BaseSHA256: hash})
		}, reader.ErrPair},
		{"another cut", func(o *output) {
			b, hash := base(o)
			b.Cut = sink.AtPtr(sinktest.Hour(3))
			o.publish(sinktest.Pane{Watermark: sinktest.Hour(6), From: sinktest.Hour(2), Base: &b, BaseSHA256: hash})
		}, reader.ErrPair},
		{"another base manifest", func(o *output) {
			b, _ := base(o)
			o.publish(sinktest.Pane{Watermark: sinktest.Hour(6), From: sinktest.Hour(2), Base: &b, BaseSHA256: strings.Repeat("0", 64)})
		}, sink.ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOutput(t)
			tc.make(o)
			r := reader.Open(o.mem, reader.Options{})
			if _, err := r.Poll(t.Context()); !errors.Is(err, tc.want) || r.Snapshot() != nil {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNeverGoesBack(t *testing.T) {
	o := newOutput(t)
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: map[string]int64{"a": 1}})
	old, _, err := store.ReadAll(t.Context(), o.mem, sink.CurrentKey, 1<<20, store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(2), Documents: map[string]int64{"a": 2}})
	r := reader.Open(o.mem, reader.Options{})
	poll(t, r, true)
	for name, restore := range map[string]func() error{
		"an older CURRENT": func() error {
			_, err := store.PutBytes(t.Context(), o.mem, sink.CurrentKey, old, store.PutOptions{})
			return err
		},
		"no CURRENT": func() error { return o.mem.Delete(t.Context(), sink.CurrentKey) },
	} {
		if err := restore(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Poll(t.Context()); !errors.Is(err, reader.ErrOlder) || get(t, r.Snapshot(), "a") != `{"item":"a","n":2}` {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDamageIsRefused(t *testing.T) {
	for _, which := range []string{"manifests/", "delta/"} {
		o := newOutput(t)
		o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: map[string]int64{"a": 1}})
		r := reader.Open(fault.New(o.mem, fault.Rule{Kind: fault.Corrupt, Op: "get", Key: which, N: 40}), reader.Options{})
		if _, err := r.Poll(t.Context()); !errors.Is(err, sink.ErrCorrupt) {
			t.Errorf("%s: %v", which, err)
		}
	}
}

// A file that goes away while a pane is loaded was collected: the poll starts again and reads what is there by then.
func TestMissingFileStartsAgain(t *testing.T) {
	o := newOutput(t)
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: map[string]int64{"a": 1}})
	doomed := o.h
	moved := false
	f := fault.New(o.mem, fault.Rule{Kind: fault.Delay, Op: "get", Key: "delta/", Times: 1, OnHit: func() {
		o.publish(sinktest.Pane{Watermark: sinktest.Hour(2), Documents: map[string]int64{"a": 2}})
		if err := o.mem.Delete(context.Background(), sink.DataKey(doomed.RunID, "part-00000.parquet")); err != nil {
			t.Error(err)
		}
		moved = true
	}})
	r := reader.Open(f, reader.Options{Pause: time.Nanosecond})
	poll(t, r, true)
	if got := get(t, r.Snapshot(), "a"); !moved || got != `{"item":"a","n":2}` {
		t.Errorf("a is %s", got)
	}
	if err := o.mem.Delete(t.Context(), sink.DataKey(o.h.RunID, "part-00000.parquet")); err != nil {
		t.Fatal(err)
	}
	gone := reader.Open(o.mem, reader.Options{Pause: time.Nanosecond})
	if _, err := gone.Poll(t.Context()); !errors.Is(err, store.ErrNotFound) || gone.Snapshot() != nil {
		t.Errorf("a pane without its file: %v", err)
	}
}

func TestDocumentAsJSON(t *testing.T) {
	fields := []column.Field{
		{Name: "k", Type: column.Of(column.Bytes), Key: true},
		{Name: "d", Type: column.DecimalOf(12, 2)},
		{Name: "t", Type: column.Of(column.Timestamp)},
		{Name: "f", Type: column.ListOf(column.Of(column.Float64))},
		{Name: "s", Type: column.StructOf(column.Field{Name: "x", Type: column.Of(column.Bool)}, column.Field{Name: `y"`, Type: column.Of(column.Date)})},
		{Name: "empty", Type: column.ListOf(column.Of(column.String))},
		{Name: "null", Type: column.ListOf(column.Of(column.String))},
	}
	b := column.NewBatch(fields)
	row, err := parquet.KeyRow(fields[:3], []string{"00ff", "-12.5", "2026-11-30T10:00:00.000001Z"})
	if err != nil {
		t.Fatal(err)
	}
	copy(b.Columns, row.Columns)
	for _, f := range []string{"1", "0.5", "NaN", "+Inf"} {
		v, err := parquet.KeyRow([]column.Field{{Name: "f", Type: column.Of(column.Float64)}}, []string{f})
		if err != nil {
			t.Fatal(err)
		}
		b.Columns[3].Elem.AppendFloat(v.Columns[0].Floats[0])
	}
	b.Columns[3].EndList()
	b.Columns[4].Fields[0].AppendBool(true)
	b.Columns[4].Fields[1].AppendNull()
	b.Columns[4].EndStruct()
	b.Columns[5].EndList()
	b.Columns[6].AppendNull()
	b.Len = 1
	got, err := json.Marshal(reader.Document{Fields: fields, Batch: b})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"k":"00ff","d":-12.50,"t":"2026-11-30T10:00:00.000001Z","f":[1,0.5,"NaN","+Inf"],"s":{"x":true,"y\"":null},"empty":[],"null":null}`
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSnapshotsServeManyAtOnce(t *testing.T) {
	o := newOutput(t)
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: map[string]int64{"a": 1, "b": 2}})
	r := reader.Open(o.mem, reader.Options{Lazy: true})
	poll(t, r, true)
	errs := make(chan error)
	for range 8 {
		go func() {
			for range 50 {
				if _, found, err := r.Snapshot().Get(context.Background(), "b"); err != nil || !found {
					errs <- fmt.Errorf("found %t, %w", found, err)
					return
				}
			}
			errs <- nil
		}()
	}
	for i := 2; i < 6; i++ {
		o.publish(sinktest.Pane{Watermark: sinktest.Hour(i), Documents: map[string]int64{"b": int64(i)}})
		poll(t, r, true)
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestPaneGivesTheDocumentsOfOneManifest(t *testing.T) {
	o := newOutput(t)
	o.publish(sinktest.Pane{Watermark: sinktest.Hour(1), Documents: map[string]int64{"a": 1, "b": 2}, Tombstones: []string{"c"}})
	m, err := o.s.ReadManifest(t.Context(), o.h.Delta.Ref())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	err = reader.Pane(t.Context(), o.mem, m, func(b *column.Batch) error { got = append(got, b.Columns[0].Strings...); return nil })
	if err != nil || strings.Join(got, " ") != "a b" {
		t.Errorf("%v, %v", got, err)
	}
	stop := errors.New("enough")
	if err := reader.Pane(t.Context(), o.mem, m, func(*column.Batch) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("emit's error: %v", err)
	}
	m.Files[0].SHA256 = strings.Repeat("0", 64)
	if err := reader.Pane(t.Context(), o.mem, m, func(*column.Batch) error { return nil }); !errors.Is(err, sink.ErrCorrupt) {
		t.Errorf("damage: %v", err)
	}
}
