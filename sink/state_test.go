package sink_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
)

func TestPrivateFilesComeBackVerified(t *testing.T) {
	o := newOutput(t)
	body := bytes.Repeat([]byte("run of accumulators "), 10_000)
	f := sink.StateFile{Key: sink.FullStateKey(sinktest.ID(9, 1), "accumulators.run"), Rows: 1, Bytes: int64(len(body)), SHA256: sink.Sum(body)}
	put := func(b []byte) error { return o.s.PutState(t.Context(), f.Key, bytes.NewReader(b), sink.Sum(b)) }
	if _, err := o.s.ReadState(t.Context(), f); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("before it was written: %v", err)
	}
	for range 2 {
		if err := put(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := put([]byte("others")); !errors.Is(err, sink.ErrExists) {
		t.Errorf("other bytes under the same key: %v", err)
	}
	read := func(s *sink.Sink, f sink.StateFile) (whole, streamed error) {
		b, whole := s.ReadState(t.Context(), f)
		if whole == nil && !bytes.Equal(b, body) {
			t.Error("read other bytes")
		}
		r, err := s.OpenState(t.Context(), f)
		if err != nil {
			return whole, err
		}
		defer r.Close()
		b, streamed = io.ReadAll(r)
		if streamed == nil && !bytes.Equal(b, body) {
			t.Error("streamed other bytes")
		}
		if _, again := r.Read(make([]byte, 1)); streamed != nil && !errors.Is(again, sink.ErrCorrupt) {
			t.Errorf("after the error: %v", again)
		}
		return whole, streamed
	}
	if a, b := read(o.s, f); a != nil || b != nil {
		t.Fatalf("%v, %v", a, b)
	}
	for _, tc := range []struct {
		name   string
		s      *sink.Sink
		change func(f *sink.StateFile)
	}{
		{"another hash", o.s, func(f *sink.StateFile) { f.SHA256 = strings.Repeat("0", 64) }},
		{"shorter", o.s, func(f *sink.StateFile) { f.Bytes++ }},
		{"longer", o.s, func(f *sink.StateFile) { f.Bytes-- }},
		{"damaged", sinktest.New(fault.New(o.mem, fault.Rule{Kind: fault.Corrupt, Op: "get", Key: "state/", N: 4000}), 3), func(*sink.StateFile) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := f
			tc.change(&f)
			if a, b := read(tc.s, f); !errors.Is(a, sink.ErrCorrupt) || !errors.Is(b, sink.ErrCorrupt) {
				t.Errorf("%v, %v", a, b)
			}
		})
	}
}

func TestKeysThatAreNotWritten(t *testing.T) {
	o, id := newOutput(t), sinktest.ID(9, 1)
	for _, key := range []string{"state/full/x/a", "state/full/" + id, "state/full/" + id + "/../a", "state/slices/", "state/slices/../a", "state/other/a", "delta/" + id + "/a", "full/" + id + "/a", "/state/slices/a", ""} {
		if err := o.s.PutState(t.Context(), key, strings.NewReader(""), sink.Sum(nil)); err == nil {
			t.Errorf("put %q", key)
		}
	}
	for _, tc := range []struct{ generation, name string }{{"x", "a"}, {id, ""}, {id, "../a"}, {id, "manifest.json"}, {id, "manifest.inputs-00.json"}} {
		if key, err := o.s.PutFull(t.Context(), tc.generation, tc.name, strings.NewReader(""), sink.Sum(nil)); err == nil {
			t.Errorf("put %q", key)
		}
	}
	if key, err := o.s.PutFull(t.Context(), id, "part-00000.parquet", strings.NewReader("a"), sink.Sum([]byte("a"))); err != nil || key != "full/"+id+"/part-00000.parquet" {
		t.Errorf("%q, %v", key, err)
	}
	if _, err := o.s.PutFull(t.Context(), id, "part-00000.parquet", strings.NewReader("b"), sink.Sum([]byte("b"))); !errors.Is(err, sink.ErrExists) {
		t.Errorf("other bytes under the same key: %v", err)
	}
}
