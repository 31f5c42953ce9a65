package microbatch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/shelf"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// TestWhatIsKeptMakesTheSamePane lives histories of late, replaced and vanished
// objects, failed writes, restarts and columns that get wider, and computes
// every pane again from its objects alone.
func TestWhatIsKeptMakesTheSamePane(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{105, 118, 143, 171} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			h := newKept(t, seed)
			for range 60 {
				h.event()
				h.step()
			}
			if h.failed == 0 || h.compared < 10 {
				t.Errorf("%d writes failed, %d panes were compared: the test is too tame", h.failed, h.compared)
			}
		})
	}
}

// flaky is a store that fails the put that it is told to.
type flaky struct {
	store.Store
	h *kept
}

func (f flaky) Put(ctx context.Context, key string, body io.ReadSeeker, o store.PutOptions) (string, error) {
	if f.h.failing > 0 && !strings.HasPrefix(key, "state/") {
		if f.h.failing--; f.h.failing == 0 {
			f.h.failed++
			return "", fmt.Errorf("put %s: %w", key, store.ErrUnavailable)
		}
	}
	return f.Store.Put(ctx, key, body, o)
}

// kept is a history.
type kept struct {
	*bench
	rng              *rand.Rand
	keys, now        int
	wide             string // the value of a column that only a filter reads
	objects          []string
	failing          int // the put that is to fail, from 1; 0 is none
	failed, compared int
	bulky            bool // some objects are large
	layers           int  // most layers that a pane had
}

func newKept(t *testing.T, seed uint64) *kept {
	t.Helper()
	h := &kept{rng: rand.New(rand.NewPCG(seed, 7)), wide: "1"}
	over := func(name, fn string, args ...string) index.FieldSpec {
		return index.FieldSpec{Name: name, Fn: fn, Args: args, Over: time.Duration(1+h.rng.IntN(14)) * time.Minute}
	}
	spec := index.Spec{
		Key: []string{"item"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "op == 'D'", Where: "w != 3",
		Fields: []index.FieldSpec{
			{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "title", Fn: "latest", Args: []string{"title"}},
			{Name: "last_title", Fn: "max", Args: []string{"title"}},
			over("recent", "latest", "title"), over("first", "earliest", "title"), over("low", "min", "clicks"), over("high", "max", "clicks"),
			over("best", "arg_max", "title", "clicks"), over("users", "distinct", "user"), over("seen", "set", "user"),
			over("three", "newest", "title"), over("sum", "sum", "clicks"), over("spread", "stddev", "price"),
		},
	}
	h.bench = newBench(t, benchOptions{
		spec: spec, rule: window.Rule{Size: 20 * time.Minute, Longest: 14 * time.Minute, Max: 40 * time.Minute, OnGap: window.Skip},
		change: func(s *microbatch.Settings) {
			s.Log = zap.NewNop()
			s.WindowBytes = []int64{64 << 20, 64 << 20, 100 << 10, 250 << 10}[h.rng.IntN(4)]
			s.BuildBytes = []int64{0, 0, 200 << 10, 64 << 20}[h.rng.IntN(4)]
			s.CacheBytes = []int64{64 << 20, 64 << 20, 1, 20 << 10}[h.rng.IntN(4)]
			if h.rng.IntN(2) == 0 {
				s.KeepSlices, s.SliceDir = true, shelf.NewDir(t.TempDir(), 1<<20, zap.NewNop()).Scope("ads")
			}
		},
	})
	h.set.Sink = sink.New(sink.Settings{Store: flaky{h.out, h}, Pipeline: "ads", NewID: h.set.NewID})
	h.restart()
	h.keys = 1 + h.rng.IntN(12)
	h.drop(0)
	return h
}

func (h *kept) minute(n int) time.Time { return at("03:00").Add(time.Duration(n) * time.Minute) }

// drop puts an object into a partition, or replaces one of any.
func (h *kept) drop(minute int) {
	h.t.Helper()
	rows := make([]string, 1+h.rng.IntN(2*h.keys))
	for i := range rows {
		ts, title := h.minute(minute-h.rng.IntN(3)), fmt.Sprintf(`"t%d"`, h.rng.IntN(5))
		if h.rng.IntN(5) == 0 {
			title = "null"
		}
		op := []string{`"U"`, `"U"`, `"U"`, `"U"`, `null`, `"D"`}[h.rng.IntN(6)]
		rows[i] = fmt.Sprintf(`{"item":"i%d","ts":%q,"clicks":%d,"title":%s,"op":%s,"w":%s,"user":"u%d","price":%.2f}`,
			h.rng.IntN(h.keys), ts.Format(time.RFC3339), h.rng.IntN(40), title, op, h.wide, h.rng.IntN(9), h.rng.NormFloat64()*100)
	}
	var large []string
	if h.bulky && (len(h.objects) == 0 || h.rng.IntN(5) == 0) {
		for i := range 40 {
			title := "" // that does not compress
			for n := range 16 {
				title += sink.Sum([]byte(fmt.Sprint(i, n)))
			}
			large = append(large, fmt.Sprintf(`{"item":"bulk%03d","ts":%q,"clicks":1,"title":%q,"op":"U","w":%s,"user":"u","price":1.5}`,
				i, h.minute(minute).Format(time.RFC3339), title, h.wide))
		}
	}
	key := h.minute(minute).Format("2006/01/02/15/04/") + fmt.Sprintf("%d.json", len(h.objects))
	if n := len(h.objects); n > 0 && h.rng.IntN(6) == 0 {
		key = h.objects[max(0, n-1-h.rng.IntN(15))]
	} else {
		h.objects = append(h.objects, key)
	}
	h.putKey(key, append(large, rows...)...)
}

// event is one thing that happens.
func (h *kept) event() {
	h.t.Helper()
	switch what := h.rng.IntN(12); {
	case what == 0:
		h.now += 2 + h.rng.IntN(4)
		h.drop(h.now)
	case what < 5:
		h.now++
		h.drop(h.now)
	case what < 9:
		for range 1 + h.rng.IntN(2) {
			h.drop(max(0, h.now-h.rng.IntN(16)))
		}
	case what == 9 && len(h.objects) > 1:
		i := max(0, len(h.objects)-1-h.rng.IntN(12))
		if err := h.raw.Delete(h.t.Context(), h.objects[i]); err != nil {
			h.t.Fatal(err)
		}
		h.objects = append(h.objects[:i:i], h.objects[i+1:]...)
	case what == 10:
		h.wide = []string{"1", "2.5", "1"}[h.rng.IntN(3)]
	case h.rng.IntN(4) == 0:
		h.restart()
	}
}

// step takes a step and computes its pane again.
func (h *kept) step() {
	h.t.Helper()
	ctx := h.t.Context()
	if h.failing = 0; h.rng.IntN(5) == 0 {
		h.failing = 1 + h.rng.IntN(4)
	}
	r := h.p.Once(ctx, h.minute(h.now), microbatch.StepOptions{Force: h.rng.IntN(8) == 0, Retry: true})
	h.failing = 0
	if r.Err != nil && !errors.Is(r.Err, store.ErrUnavailable) {
		h.t.Fatal(r.Err)
	}
	if r.Outcome != microbatch.Advanced && r.Outcome != microbatch.Refined {
		return
	}
	head, err := h.set.Sink.Head(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	m, err := h.set.Sink.ReadManifest(ctx, head.Delta.Ref())
	if err == nil {
		err = h.set.Sink.LoadInputs(ctx, &m)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	anew := h.set
	anew.NoCache, anew.KeepSlices, anew.SliceDir = true, false, nil
	want, err := microbatch.New(anew).Recompute(ctx, m)
	if err != nil {
		h.t.Fatal(err)
	}
	files, tombstones := m.Files, m.Tombstones
	if ids := m.DataIDs(); m.Top() > 0 || len(ids) > 0 && ids[0] != m.RunID {
		files, tombstones = h.whole(m)
		h.layers = max(h.layers, m.Top())
	}
	if fmt.Sprint(files, tombstones) != fmt.Sprint(want.Files, want.Tombstones) {
		h.t.Fatalf("run %s of %d layers: %v %v\nfrom nothing: %v %v", m.RunID, m.Top()+1, files, tombstones, want.Files, want.Tombstones)
	}
	if m.Counts.Documents != want.Counts.Documents || m.Counts.Tombstones != want.Counts.Tombstones {
		h.t.Fatalf("run %s of %d layers counts %+v, from nothing %+v", m.RunID, m.Top()+1, m.Counts, want.Counts)
	}
	h.compared++
}
