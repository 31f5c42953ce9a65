package sink_test

import (
	"bytes"
	"context"
	"errors"

	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

// retained is an output with a history chosen by a property test, and what the test knows of it by itself: the time of every change of
// CURRENT, every manifest, the rebuilds.
type retained struct {
	*rapid.T
	clock  time.Time
	mem    *mem.Store
	s      *sink.Sink
	c      *sink.Collector
	me     sink.Owner
	head   sink.Head
	runs   func() string
	hour   int
	retain sink.Retain

	panes      []time.Time // when CURRENT named them
	refs       []sink.Ref
	manifests  map[sink.Ref]sink.Manifest
	pins       map[string]bool
	bases      map[string]sink.ManifestBase
	rebuilt    map[string]time.Time
	candidates []string
	running    string // a rebuild
	pending    *sink.Collection
}

func newRetained(t *rapid.T) *retained {
	o := &retained{
		T: t, clock: sinktest.Hour(0), runs: sinktest.IDs(20), me: owner(1, "n1"),
		retain:    sink.Retain{For: 2 * time.Hour, Panes: 2, Bases: rapid.IntRange(0, 3).Draw(t, "bases")},
		manifests: map[sink.Ref]sink.Manifest{}, pins: map[string]bool{}, bases: map[string]sink.ManifestBase{},
		rebuilt: map[string]time.Time{},
	}
	o.mem = mem.NewAt("out", func() time.Time { return o.clock })
	o.s = sinktest.New(o.mem, 5)
	o.c = sink.NewCollector(o.s)
	var err error
	if o.head, err = o.s.Claim(o.Context(), o.me, sink.ClaimOptions{Now: o.clock}); err != nil {
		t.Fatal(err)
	}
	o.publish(nil)
	return o
}

func (o *retained) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

func (o *retained) took(h sink.Head) {
	m, err := o.s.ReadManifest(o.Context(), h.Delta.Ref())
	o.must(err)
	o.head, o.manifests[h.Delta.Ref()] = h, m
	o.panes, o.refs = append(o.panes, o.clock), append(o.refs, h.Delta.Ref())
}

// publish commits a pane of one file, or a layer of one or none over the pane before, over the live base or another, and carries what a
// collection planned.
func (o *retained) publish(base *sink.ManifestBase) {
	o.hour++
	p := sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(o.hour), SupportUntil: o.supportUntil()}
	m := p.Manifest(o.me, o.head)
	m.CreatedAt, m.Reason = sink.At(o.clock), sink.Publish
	if base != nil {
		m.Base, m.Reason = base, sink.Promote
	}
	if o.head.Delta != nil {
		parent := o.manifests[o.head.Delta.Ref()]
		if base == nil {
			m.Base = parent.Base
			m = sink.Inherit(m, parent, o.clock)
		} else {
			m = sink.Leave(m, parent, *m.Parent, o.clock, p.SupportUntil)
		}
		for _, f := range parent.UnreadSlices {
			if rapid.IntRange(0, 3).Draw(o.T, "read") > 0 {
				m.UnreadSlices = append(m.UnreadSlices, f)
			}
		}
	}
	if m.Base != nil && rapid.Bool().Draw(o.T, "unread") {
		f, err := sinktest.WriteSlice(o.Context(), o.s, p.RunID)
		o.must(err)
		m.UnreadSlices = append(m.UnreadSlices, f)
	}
	layers := []string{"snapshot"}
	below, ok := o.manifests[refOf(o.head)]
	if ok && base == nil && below.Top() < sink.MaxLayer {
		layers = []string{"snapshot", "layer", "layer", "layer", "the same rows"}
	}
	layer := rapid.SampledFrom(layers).Draw(o.T, "written as")
	if layer != "the same rows" {
		body := []byte(p.RunID)
		key, err := o.s.PutData(o.Context(), p.RunID, "part-00000.parquet", bytes.NewReader(body), sink.Sum(body))
		o.must(err)
		m.Files = []sink.File{{Key: key, Format: "parquet", Bytes: int64(len(body)), SHA256: sink.Sum(body)}}
	}
	if layer != "snapshot" {
		var err error
		m, err = m.Over(below)
		o.must(err)
	}
	ref, err := o.s.WriteManifest(o.Context(), m)
	o.must(err)
	opts := sink.CommitOptions{Now: o.clock}
	if o.pending != nil && base == nil {
		opts.Condemn = o.pending.Condemned(o.head, true)
	}
	o.pending = nil
	h, err := o.s.Commit(o.Context(), o.me, o.head, ref, m, opts)
	o.must(err)
	o.took(h)
}

func refOf(h sink.Head) sink.Ref {
	if h.Delta == nil {
		return sink.Ref{}
	}
	return h.Delta.Ref()
}

func (o *retained) supportUntil() time.Time {
	return o.clock.Add(time.Duration(rapid.SampledFrom([]int{0, 6, 60}).Draw(o.T, "support hours")) * time.Hour)
}

// rebuild begins a generation, or ends the one that was begun.
func (o *retained) rebuild() {
	if o.running == "" {
		o.running = o.runs()
		_, err := o.s.PutFull(o.Context(), o.running, "part-00000.parquet", strings.NewReader("a"), sink.Sum([]byte("a")))
		o.must(err)
		return
	}
	b := sinktest.Base{Generation: o.running, Cut: sinktest.Hour(1)}
	m, hash, err := b.Write(o.Context(), o.s, owner(7, "full"))
	o.must(err)
	o.bases[m.RunID] = sink.ManifestBase{Generation: m.RunID, Cut: *m.Cut, Manifest: m.Key(), SHA256: hash}
	o.rebuilt[m.RunID] = o.clock
	o.candidates, o.running = append(o.candidates, m.RunID), ""
}

func (o *retained) promote() {
	if n := len(o.candidates); n > 0 {
		b := o.bases[o.candidates[n-1]]
		o.candidates = nil
		o.publish(&b)
	}
}

// rollback goes to a former base or to any pane there was. It must succeed where retention says so; else it may be refused.
func (o *retained) rollback(target sink.Ref, must bool) {
	h, _, err := o.s.Rollback(o.Context(), o.me, o.head, sink.RollbackOptions{Target: target, RunID: o.runs(), Now: o.clock, SupportUntil: o.supportUntil()})
	switch {
	case err == nil:
		o.took(h)
		o.hour = max(o.hour, int(h.Progress.Sub(sinktest.Hour(0))/time.Hour))
	case must, !errors.Is(err, sink.ErrCondemned) && !errors.Is(err, sink.ErrTransition):
		o.Fatal(err)
	}
	o.pending = nil
}

func (o *retained) options() sink.CollectOptions {
	opts := sink.CollectOptions{Retain: o.retain, Candidates: o.candidates}
	if o.running != "" {
		opts.Live = []string{o.running}
	}
	for id := range o.pins {
		opts.Pins = append(opts.Pins, id)
	}
	return opts
}

// collect collects, by itself or along with the next publish, and checks that nothing is gone that anybody needs.
func (o *retained) collect() {
	plan, err := o.c.Plan(o.Context(), o.head, o.options())
	o.must(err)
	if len(plan.Held) > 0 {
		o.Fatalf("condemned and needed: %v", plan.Held)
	}
	if rapid.Bool().Draw(o.T, "carried") {
		o.must(o.c.Delete(o.Context(), o.head, plan))
		o.pending = &plan
	} else {
		o.head, err = o.c.Do(o.Context(), o.me, o.head, plan)
		o.must(err)
		o.pending = nil
	}
	o.check()
}

// kept are the panes that readers, rollbacks or pins may need.
func (o *retained) kept() map[sink.Ref]string {
	kept := map[sink.Ref]string{}
	n := len(o.refs)
	for i, ref := range o.refs {
		switch {
		case i >= n-max(1, o.retain.Panes):
			kept[ref] = "one of the newest"
		case o.clock.Sub(o.panes[i+1]) < o.retain.For:
			kept[ref] = "within retain.for"
		case o.pins[o.manifests[ref].RunID]:
			kept[ref] = "pinned"
		}
	}
	for i, f := range o.manifests[o.head.Delta.Ref()].History {
		if i < o.retain.Bases-1 || o.pins[f.Generation] {
			kept[f.Pane] = "a former base's"
		}
	}
	return kept
}

func (o *retained) check() {
	condemned := func(id string) bool { return o.head.Condemns(id) }
	for ref, why := range o.kept() {
		if err := sinktest.Whole(o.Context(), o.mem, ref, condemned); err != nil {
			o.Fatalf("%s, %s: %v", ref.Manifest, why, err)
		}
	}
	bases := map[string]string{}
	for _, s := range o.manifests[o.head.Delta.Ref()].Supports {
		if s.Until.After(o.clock) {
			bases[s.Generation] = "supported"
		}
	}
	for id, at := range o.rebuilt {
		if o.clock.Sub(at) < sink.OrphanAge {
			bases[id] = "young"
		}
	}
	if n := len(o.candidates); n > 0 {
		bases[o.candidates[n-1]] = "candidate"
	}
	for id := range o.pins {
		if _, ok := o.bases[id]; ok {
			bases[id] = "pinned"
		}
	}
	for id, why := range bases {
		b := o.bases[id]
		if err := sinktest.Whole(o.Context(), o.mem, sink.Ref{Manifest: b.Manifest, SHA256: b.SHA256}, condemned); err != nil {
			o.Fatalf("base %s, %s: %v", id, why, err)
		}
	}
	if o.running != "" {
		if _, err := o.mem.Head(o.Context(), sink.FullKey(o.running, "part-00000.parquet")); err != nil {
			o.Fatalf("rebuild going on: %v", err)
		}
	}
}

func (o *retained) act() {
	switch rapid.SampledFrom([]string{"publish", "publish", "collect", "collect", "collect", "collect", "rebuild", "rebuild", "promote", "new base", "new base",
		"new base", "back to a base", "back to a base", "back to a pane", "pin", "pin", "unpin", "restart", "orphan", "hours", "day"}).Draw(o.T, "act") {
	case "publish":
		o.publish(nil)
	case "collect":
		o.collect()
	case "rebuild":
		o.rebuild()
	case "promote":
		o.promote()
	case "new base":
		o.rebuild()
		if o.running != "" {
			o.rebuild()
		}
		o.promote()
	case "back to a base":
		if h := o.manifests[o.head.Delta.Ref()].History; len(h) > 0 {
			i := rapid.IntRange(0, len(h)-1).Draw(o.T, "base")
			o.rollback(h[i].Pane, i < o.retain.Bases-1 || o.pins[h[i].Generation])
		}
	case "back to a pane":
		o.rollback(rapid.SampledFrom(o.refs).Draw(o.T, "pane"), false)
	case "pin":
		ref := rapid.SampledFrom(o.refs).Draw(o.T, "pane")
		m := o.manifests[ref]
		if sinktest.Whole(o.Context(), o.mem, ref, o.head.Condemns) == nil {
			o.pending = nil // a pin is asked for before what was planned without it is carried out
			o.pins[m.RunID] = true
			if m.Base != nil && rapid.Bool().Draw(o.T, "its base alone") {
				delete(o.pins, m.RunID)
				if m.Base.Generation == o.manifests[o.head.Delta.Ref()].Base.Generation {
					o.pins[m.Base.Generation] = true
				}
			}
		}
	case "unpin":
		clear(o.pins)
	case "restart":
		o.c, o.pending = sink.NewCollector(o.s), nil
	case "orphan":
		_, err := o.s.PutData(o.Context(), o.runs(), "part-00000.parquet", strings.NewReader("a"), sink.Sum([]byte("a")))
		o.must(err)
	case "hours":
		o.clock = o.clock.Add(time.Duration(rapid.IntRange(1, 300).Draw(o.T, "minutes")) * time.Minute)
	case "day":
		o.clock = o.clock.Add(25 * time.Hour)
	}
}

// end lets everything grow old, and says what must be left.
func (o *retained) end() map[string]bool {
	clear(o.pins)
	o.pending, o.running = nil, ""
	if n := len(o.candidates); n > 0 {
		o.candidates = o.candidates[n-1:]
	}
	for _, wait := range []int{30 * 24, 3, 25, 3} { // the store's clock is its newest object
		o.clock = o.clock.Add(time.Duration(wait) * time.Hour)
		o.publish(nil)
	}
	for range 10 {
		plan, err := o.c.Plan(o.Context(), o.head, o.options())
		o.must(err)
		o.head, err = o.c.Do(o.Context(), o.me, o.head, plan)
		o.must(err)
		o.check()
	}
	want := map[string]bool{}
	base := func(b *sink.ManifestBase) {
		if b != nil {
			want[sink.FullKey(b.Generation, "")], want[sink.FullStateKey(b.Generation, "")] = true, true
		}
	}
	for ref := range o.kept() {
		m := o.manifests[ref]
		for _, id := range m.DataIDs() {
			want[sink.DataKey(id, "")] = true
		}
		for _, f := range m.UnreadSlices {
			want[f.Key] = true
		}
		base(m.Base)
	}
	for _, s := range o.manifests[o.head.Delta.Ref()].Supports {
		base(&sink.ManifestBase{Generation: s.Generation})
	}
	for _, id := range o.candidates {
		base(&sink.ManifestBase{Generation: id})
	}
	for _, m := range o.manifests { // what lies below a layer that is kept can still be gone back to
		there := m.Base == nil || want[sink.FullKey(m.Base.Generation, "")]
		for _, id := range m.DataIDs() {
			there = there && want[sink.DataKey(id, "")]
		}
		for _, f := range m.UnreadSlices {
			want[f.Key] = want[f.Key] || there
		}
	}
	return want
}

// TestRetention: nothing that a kept pane, a supported base, a reader within retain.for, a rebuild that is going on or a rollback needs is
// ever deleted, whatever happens in whatever order; and everything else is gone in the end.
func TestRetention(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newRetained(t)
		for range rapid.IntRange(1, 40).Draw(t, "acts") {
			o.act()
		}
		want := o.end()
		records := 0
		for p, err := range store.Pages(t.Context(), o.mem, store.ListOptions{}) {
			o.must(err)
			for _, obj := range p.Objects {
				parts := strings.SplitAfter(obj.Key, "/")
				switch {
				case obj.Key == sink.CurrentKey:
				case parts[0] == "manifests/":
					records++
				case strings.HasSuffix(obj.Key, "/manifest.json") && o.clock.Sub(obj.LastModified) < sink.RecordAge+o.retain.For:
				case parts[0] == "delta/" && want[strings.Join(parts[:2], "")]:
				case parts[0] == "full/" && want[strings.Join(parts[:2], "")]:
				case strings.HasPrefix(obj.Key, "state/full/") && want[strings.Join(parts[:3], "")]:
				case strings.HasPrefix(obj.Key, "state/slices/"):
					if young := o.clock.Sub(obj.LastModified) < sink.OrphanAge+3*time.Hour; !want[obj.Key] && !young {
						t.Errorf("%s is left, of %s", obj.Key, o.clock.Sub(obj.LastModified))
					}
				default:
					t.Errorf("%s is left, of %s ago", obj.Key, o.clock.Sub(obj.LastModified))
				}
			}
		}
		if most := 16 + len(o.kept()) + len(want); records > most { // of data that is there the record is
			t.Errorf("%d manifests are left, at most %d may be", records, most)
		}
	})
}

// B38: a daemon that starts reads as many manifests as retention keeps, whatever history there is; and a day of half-minute steps leaves
// what retention keeps.
func TestB38StartReadsWhatIsKept(t *testing.T) {
	o := newOutput(t)
	clock := sinktest.Hour(0)
	o.mem = mem.NewAt("out", func() time.Time { return clock })
	count := &counting{Store: o.mem}
	o.s = sinktest.New(count, 5)
	me := owner(1, "n1")
	h, err := o.s.Claim(t.Context(), me, sink.ClaimOptions{Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	c, retain := sink.NewCollector(o.s), sink.Retain{For: 2 * time.Hour, Panes: 20, Bases: 3}
	step := func(i int) {
		clock = clock.Add(30 * time.Second)
		m := sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(i + 1)}.Manifest(me, h)
		body := []byte(m.RunID)
		key, err := o.s.PutData(t.Context(), m.RunID, "part-00000.parquet", bytes.NewReader(body), sink.Sum(body))
		if err != nil {
			t.Fatal(err)
		}
		m.Files = []sink.File{{Key: key, Format: "parquet", Bytes: int64(len(body)), SHA256: sink.Sum(body)}}
		ref, err := o.s.WriteManifest(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if h, err = o.s.Commit(t.Context(), me, h, ref, m, sink.CommitOptions{Now: clock}); err != nil {
			t.Fatal(err)
		}
	}
	collect := func() {
		plan, err := c.Plan(t.Context(), h, sink.CollectOptions{Retain: retain})
		if err != nil {
			t.Fatal(err)
		}
		if h, err = c.Do(t.Context(), me, h, plan); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2880 {
		if step(i); i%10 == 0 {
			collect()
		}
	}
	collect()
	collect()
	data, err := sinktest.Keys(t.Context(), o.mem, "delta/")
	if kept := 241; err != nil || len(data) > kept+10 {
		t.Errorf("%d data files are left, %d panes are kept, %v", len(data), kept, err)
	}
	c, count.manifests = sink.NewCollector(o.s), 0
	collect()
	if count.manifests > 242 {
		t.Errorf("a start read %d manifests of 2,880", count.manifests)
	}
	c, count.manifests, retain = sink.NewCollector(o.s), 0, sink.Retain{Panes: 1}
	plan, err := c.Plan(t.Context(), h, sink.CollectOptions{Retain: retain})
	if err != nil || count.manifests != sink.MaxCondemned+1 || len(plan.Condemn) != sink.MaxCondemned || plan.Waiting == 0 {
		t.Errorf("shorter retention: %d read, %d condemned, %d waiting, %v", count.manifests, len(plan.Condemn), plan.Waiting, err)
	}
}

// counting counts reads of manifests.
type counting struct {
	store.Store
	manifests int
}

func (c *counting) Get(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	if strings.HasPrefix(key, "manifests/") {
		c.manifests++
	}
	return c.Store.Get(ctx, key, o)
}
