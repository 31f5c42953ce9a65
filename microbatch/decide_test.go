package microbatch_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// world is a source and the live pane over it, as a plan sees them.
type world struct {
	rule    window.Rule
	now     time.Time
	objects map[string]partition.Object
	skip    map[microbatch.ObjectID]string
	config  string
	live    *sink.Manifest
	serial  int
}

func (w *world) facts() microbatch.Facts {
	f := microbatch.Facts{Now: w.now, Live: w.live, Skip: w.skip, ConfigHash: w.config}
	f.Listed = partition.Range{From: at("00:00").Add(-time.Minute), To: w.now.Truncate(time.Minute)}
	for _, key := range slices.Sorted(maps.Keys(w.objects)) {
		o := w.objects[key]
		if !f.Listed.Contains(o.Partition) {
			continue
		}
		f.Objects = append(f.Objects, o)
		if o.Partition.After(f.Newest) {
			f.Newest = o.Partition
		}
	}
	if w.live != nil {
		f.Progress = w.live.ProgressOr().Time
	}
	return f
}

// publish makes the plan's pane the live one.
func (w *world) publish(p microbatch.Plan) {
	m := &sink.Manifest{
		Watermark: sink.AtPtr(p.Watermark), ConfigHash: w.config, Skipped: p.Skipped,
		Coverage: &sink.Range{From: sink.At(p.Coverage.From), To: sink.At(p.Coverage.To)},
	}
	if !p.Progress.Equal(p.Watermark) {
		m.Progress = sink.AtPtr(p.Progress)
	}
	for _, j := range p.Coverage.Jumps {
		m.Jumps = append(m.Jumps, sink.Jump{From: sink.At(j.From), At: sink.At(j.At)})
	}
	for _, g := range p.Coverage.Gaps {
		m.Gap = append(m.Gap, sink.Range{From: sink.At(g.From), To: sink.At(g.To)})
	}
	for _, in := range p.Inputs {
		for _, o := range in.Objects {
			m.Inputs = append(m.Inputs, sink.Input{Key: o.Key, Partition: sink.At(o.Partition), ETag: o.ETag, Bytes: o.Size})
		}
	}
	w.live = m
}

// happen is one thing that happens in the world.
func (w *world) happen(rt *rapid.T) {
	w.serial++
	keys := slices.Sorted(maps.Keys(w.objects))
	some := func() string { return rapid.SampledFrom(keys).Draw(rt, "key") }
	what := rapid.IntRange(0, 9).Draw(rt, "what")
	if len(keys) == 0 {
		what = 0
	}
	switch what {
	default:
		back := rapid.SampledFrom([]int{0, 0, 0, 1, 2, 5, 12, 40}).Draw(rt, "back")
		start := w.now.Truncate(time.Minute).Add(-time.Duration(back) * time.Minute)
		key := fmt.Sprintf("%s/%d", start.Format("15/04"), w.serial)
		w.objects[key] = partition.Object{Key: key, ETag: "e", Size: 1, Partition: start}
	case 5:
		o := w.objects[some()]
		o.ETag = fmt.Sprint("e", w.serial)
		w.objects[o.Key] = o
	case 6:
		delete(w.objects, some())
	case 7:
		o := w.objects[some()]
		w.skip[microbatch.ObjectID{Key: o.Key, ETag: o.ETag, Size: o.Size}] = "bad"
	case 8:
		clear(w.skip)
	case 9:
		w.config = fmt.Sprint("c", w.serial)
	}
}

// due is what the refine rule asks, computed another way: whether what the
// pane would be made of differs from what it was made of.
func (w *world) due(f microbatch.Facts, coverage partition.Range) bool {
	was, is := map[string]bool{}, map[string]bool{"config " + f.ConfigHash: true}
	was["config "+f.Live.ConfigHash] = true
	for _, in := range f.Live.Inputs {
		was[fmt.Sprintf("read %s %s %d", in.Key, in.ETag, in.Bytes)] = true
	}
	for _, s := range f.Live.Skipped {
		was[fmt.Sprintf("skipped %s %s %d", s.Key, s.ETag, s.Bytes)] = true
	}
	for _, o := range f.Objects {
		if !coverage.Contains(o.Partition) {
			continue
		}
		how := "read"
		if _, skipped := f.Skip[microbatch.ObjectID{Key: o.Key, ETag: o.ETag, Size: o.Size}]; skipped {
			how = "skipped"
		}
		is[fmt.Sprintf("%s %s %s %d", how, o.Key, o.ETag, o.Size)] = true
	}
	return !maps.Equal(was, is)
}

func checkPlan(rt *rapid.T, f microbatch.Facts, p microbatch.Plan) {
	if p.Kind == microbatch.Held && p.Inputs == nil {
		return
	}
	times := map[string]int{}
	for i, in := range p.Inputs {
		if i > 0 && !p.Inputs[i-1].Start.Before(in.Start) {
			rt.Fatalf("inputs are not in order: %s before %s", p.Inputs[i-1].Start, in.Start)
		}
		for j, o := range in.Objects {
			if !o.Partition.Equal(in.Start) || j > 0 && in.Objects[j-1].Key >= o.Key {
				rt.Fatalf("objects of %s: %v", in.Start, in.Objects)
			}
			times[o.Key]++
		}
	}
	for i, s := range p.Skipped {
		if i > 0 && p.Skipped[i-1].Key >= s.Key {
			rt.Fatalf("skipped are not in order: %v", p.Skipped)
		}
		times[s.Key]++
	}
	for _, o := range f.Objects {
		want := 0
		if p.Coverage.Contains(o.Partition) {
			want = 1
		}
		if times[o.Key] != want {
			rt.Fatalf("%s is %d times among inputs and skipped of %s, want %d", o.Key, times[o.Key], p.Coverage.Range, want)
		}
	}
}

// TestDecideProperties lives through random histories: a plan is a pure
// function of its facts, has every listed object of its coverage once, refines
// exactly when something changed, and leaves nothing to do once carried out.
func TestDecideProperties(t *testing.T) {
	layout, err := partition.ParseLayout("%Y/%m/%d/%H/%M", partition.LayoutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[microbatch.Kind]int{}
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{now: at("02:00"), objects: map[string]partition.Object{}, skip: map[microbatch.ObjectID]string{}, config: "c"}
		w.rule = window.Rule{
			Size:    time.Duration(rapid.IntRange(1, 8).Draw(rt, "window")) * time.Minute,
			Longest: time.Duration(rapid.IntRange(0, 10).Draw(rt, "over")) * time.Minute, OnGap: window.Skip,
		}
		w.rule.Max = max(w.rule.Size, w.rule.Longest) * time.Duration(rapid.IntRange(1, 4).Draw(rt, "max"))
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			for range rapid.IntRange(0, 4).Draw(rt, "events") {
				w.happen(rt)
			}
			f := w.facts()
			p, err := microbatch.Decide(w.rule, layout.Calendar, f)
			if err != nil {
				rt.Fatal(err)
			}
			kinds[p.Kind]++
			again := w.facts()
			slices.Reverse(again.Objects)
			if q, err := microbatch.Decide(w.rule, layout.Calendar, again); err != nil || !reflect.DeepEqual(withoutOrder(p), withoutOrder(q)) {
				rt.Fatalf("the same facts in another order: %+v, %v, want %+v", q, err, p)
			}
			if !reflect.DeepEqual(f, w.facts()) {
				rt.Fatal("the facts were changed")
			}
			checkPlan(rt, f, p)
			switch {
			case f.Live == nil && f.Newest.IsZero():
				if p.Kind != microbatch.Idle {
					rt.Fatalf("%s of nothing", p.Kind)
				}
			case f.Live == nil || f.Newest.After(f.Progress):
				if p.Kind != microbatch.Advance || !p.Watermark.Equal(f.Newest) {
					rt.Fatalf("%s to %s, want an advance to %s", p.Kind, p.Watermark, f.Newest)
				}
			default:
				if due := w.due(f, p.Coverage.Range); due != (p.Kind == microbatch.Refine) {
					rt.Fatalf("%s (%s), due: %v", p.Kind, p.Why, due)
				}
			}
			if p.Kind == microbatch.Advance || p.Kind == microbatch.Refine {
				if p.Why == "" {
					rt.Fatal("no reason given")
				}
				w.publish(p)
				if next, err := microbatch.Decide(w.rule, layout.Calendar, w.facts()); err != nil || next.Kind != microbatch.Idle {
					rt.Fatalf("after %s (%s): %s (%s), %v", p.Kind, p.Why, next.Kind, next.Why, err)
				}
			}
			w.now = w.now.Add(time.Duration(rapid.SampledFrom([]int{0, 20, 60, 60, 60, 180, 1800}).Draw(rt, "seconds")) * time.Second)
		}
	})
	if kinds[microbatch.Advance] == 0 || kinds[microbatch.Refine] == 0 || kinds[microbatch.Idle] == 0 {
		t.Errorf("kinds %v: not everything was seen", kinds)
	}
}

// withoutOrder forgets the order of what has none.
func withoutOrder(p microbatch.Plan) microbatch.Plan {
	byKey := func(a, b partition.Object) int { return strings.Compare(a.Key, b.Key) }
	p.Outside, p.Why = slices.SortedFunc(slices.Values(p.Outside), byKey), ""
	return p
}

// TestDecideHolds: exactly where the design says so.
func TestDecideHolds(t *testing.T) {
	layout, err := partition.ParseLayout("%Y/%m/%d/%H/%M", partition.LayoutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rule := window.Rule{Size: 10 * time.Minute, Max: 40 * time.Minute, OnGap: window.Skip}
	live := func(inputs, gone int) *world {
		w := &world{rule: rule, now: at("03:00"), objects: map[string]partition.Object{}, skip: map[microbatch.ObjectID]string{}, config: "c"}
		for i := range inputs {
			key := fmt.Sprintf("03/00/%04d", i)
			w.objects[key] = partition.Object{Key: key, ETag: "e", Size: 1, Partition: w.now}
		}
		p, err := microbatch.Decide(rule, layout.Calendar, w.facts())
		if err != nil {
			t.Fatal(err)
		}
		w.publish(p)
		for i := range gone {
			delete(w.objects, fmt.Sprintf("03/00/%04d", i))
		}
		return w
	}
	for _, c := range []struct {
		name   string
		world  *world
		change func(w *world, f *microbatch.Facts)
		want   microbatch.Kind
	}{
		{"20 gone of 100", live(100, 20), nil, microbatch.Refine},
		{"21 gone of 100", live(100, 21), nil, microbatch.Held},
		{"21 gone of 210: exactly a tenth", live(210, 21), nil, microbatch.Refine},
		{"21 gone of 209", live(209, 21), nil, microbatch.Held},
		{"accepted", live(100, 21), func(_ *world, f *microbatch.Facts) { f.AcceptLoss = true }, microbatch.Refine},
		{"an advance is held too", live(100, 21), func(w *world, f *microbatch.Facts) {
			f.Newest = at("03:01")
			f.Listed.To = at("03:01")
			f.Objects = append(f.Objects, partition.Object{Key: "03/01/a", ETag: "e", Partition: at("03:01")})
		}, microbatch.Held},
		{"gone from a range that was not listed", live(100, 100), func(_ *world, f *microbatch.Facts) { f.Listed.From = at("03:00") }, microbatch.Refine},
		{"a clock behind the watermark", live(1, 0), func(_ *world, f *microbatch.Facts) { f.Listed.To = at("02:00") }, microbatch.Held},
		{"coverage beyond window.max", live(1, 0), func(w *world, f *microbatch.Facts) {
			w.rule.OnGap = window.Fail
			f.Newest, f.Listed.To = at("04:00"), at("04:00")
		}, microbatch.Held},
		{"the same, to be cut", live(1, 0), func(_ *world, f *microbatch.Facts) {
			f.Newest, f.Listed.To = at("04:00"), at("04:00")
		}, microbatch.Advance},
		{"nothing", live(100, 0), nil, microbatch.Idle},
		{"asked for", live(100, 0), func(_ *world, f *microbatch.Facts) { f.Force = true }, microbatch.Refine},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.world.facts()
			if c.change != nil {
				c.change(c.world, &f)
			}
			p, err := microbatch.Decide(c.world.rule, layout.Calendar, f)
			if err != nil || p.Kind != c.want || p.Why == "" {
				t.Errorf("%s (%q), %v, want %s", p.Kind, p.Why, err, c.want)
			}
		})
	}
}
