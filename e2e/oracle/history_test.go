package oracle

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/watermark"
)

// history is one random life of a pipeline, and what the oracle knows of it.
type history struct {
	t     *testing.T
	rng   *rand.Rand
	world *world
	rig   *rig
	// ties: records of one key may have equal event times. Which columns break
	// the tie depends on what the configuration reads, and while a field that
	// reads a new column is pending, a base has chosen among its records by
	// other columns than the pane over it. So a history has either ties or
	// configurations that read other columns, not both.
	ties    bool
	stamps  map[int]bool // event times given out, where there are no ties
	configs []*config    // that were in use, oldest first
	byHash  map[string]*config

	live        *pane
	panes       map[string]*pane // by run
	order       []*pane
	generations map[string]*base
	paused      bool
	keepBase    bool // the step in hand leaves candidates alone
	long        bool // see long_test.go
	keys        int  // how many items there are
	widens      bool // see widen_test.go
	wide        bool // level has fractions now
	within      bool // a rebuild goes on within a run

	counts map[string]int
	log    []string
}

func newHistory(t *testing.T, seed uint64, empty []byte, counts map[string]int) *history {
	t.Helper()
	h := &history{
		t: t, rng: rand.New(rand.NewPCG(seed, 4)), stamps: map[int]bool{}, byHash: map[string]*config{},
		panes: map[string]*pane{}, generations: map[string]*base{}, counts: counts,
	}
	h.world = newWorld(h.rng.IntN(2) == 0)
	h.long, h.widens = h.rng.IntN(4) == 0, h.rng.IntN(3) == 0
	h.keys = 8
	if h.long {
		h.keys = 2 + h.rng.IntN(7)
	}
	c := newConfig(h.rng, h.long)
	if h.widens && h.rng.IntN(3) == 0 {
		c.onlyFilterLevel(h.rng)
	}
	c.name = "first"
	h.ties = !c.timed || h.rng.IntN(2) == 0
	support := []int{0, 2 + h.rng.IntN(4), 5 + h.rng.IntN(20)}[h.rng.IntN(3)]
	h.rig = newRig(t, h.world, c, support, tiersOf(t, seed, counts), empty)
	h.use(c)
	h.rig.budgets(h.rng)
	h.note("granule %s, ties %t, support %d, on_gap %s, W %d, D %d, max %d, where %q, delete_when %q", h.world.granule, h.ties, support, c.onGap, c.window, c.longest(), c.limit, c.where, c.deleteWhen)
	return h
}

func (h *history) use(c *config) {
	h.configs = append(h.configs, c)
	h.byHash[sink.Sum([]byte(c.hash()))] = c
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%4d  %s", h.world.now, fmt.Sprintf(format, args...)))
}

func (h *history) count(kind string) { h.counts[kind]++ }

// fail ends the history and tells it.
func (h *history) fail(format string, args ...any) {
	h.t.Helper()
	h.t.Fatalf("%s\nconfiguration: %s\nhistory:\n%s", fmt.Sprintf(format, args...), h.rig.config.hash(), strings.Join(h.log, "\n"))
}

// want fails where rules are broken.
func (h *history) want(wrong []string) {
	h.t.Helper()
	if len(wrong) > 0 {
		h.fail("%s", strings.Join(wrong[:min(len(wrong), 12)], "\n"))
	}
}

// step takes one step and checks everything that came of it.
func (h *history) step(o microbatch.StepOptions) microbatch.Report {
	h.t.Helper()
	h.keepBase = o.KeepBase
	r := h.rig.step(o)
	h.note("step%s: %s (%s, %v)", options(o), r.Outcome, r.Why, r.Err)
	h.count("step " + string(r.Outcome))
	if r.StateErr != nil {
		h.fail("the state store could not be told: %v", r.StateErr)
	}
	for _, ref := range h.changes() {
		h.take(ref)
	}
	switch r.Outcome {
	case microbatch.Failed:
		h.checkFailed(r)
	case microbatch.Standby:
		h.fail("a step is %s: %v", r.Outcome, r.Err)
	case microbatch.WasIdle:
		h.checkIdle()
	case microbatch.WasHeld:
		h.checkHeld(r)
	case microbatch.Advanced, microbatch.Refined:
	}
	h.checkReader()
	return r
}

func options(o microbatch.StepOptions) string {
	out := ""
	if o.KeepBase {
		out += ", candidates wait"
	}
	if o.Force {
		out += ", forced"
	}
	return out
}

// changes are the manifests that CURRENT named since, oldest first.
func (h *history) changes() []sink.Ref {
	head, err := h.rig.sink.Head(h.t.Context())
	if err != nil {
		h.fail("read CURRENT: %v", err)
	}
	var out []sink.Ref
	if head.Delta == nil {
		return nil
	}
	for ref := head.Delta.Ref(); h.live == nil || ref != h.live.ref; {
		out = append(out, ref)
		m, err := h.rig.sink.ReadManifest(h.t.Context(), ref)
		if err != nil {
			h.fail("read a manifest: %v", err)
		}
		if m.Parent == nil {
			break
		}
		ref = *m.Parent
	}
	slices.Reverse(out)
	return out
}

// take checks one change of CURRENT and makes it the live pane.
func (h *history) take(ref sink.Ref) {
	h.t.Helper()
	m, err := h.rig.manifest(ref)
	if err != nil {
		h.fail("read manifest %s: %v", ref.Manifest, err)
	}
	p := &pane{ref: ref, m: m, n: h.world.partOf(m.Watermark.Time), from: h.world.partOf(m.Coverage.From.Time), inputs: map[id]bool{}, conf: h.byHash[m.ConfigHash]}
	p.progress = h.world.partOf(m.ProgressOr().Time)
	if p.conf == nil {
		h.fail("a pane with a configuration hash that nobody has")
	}
	for _, i := range m.Inputs {
		p.inputs[id{i.Key, i.ETag}] = true
	}
	if m.Base != nil {
		if p.base = h.generations[m.Base.Generation]; p.base == nil {
			h.fail("a pane over the unknown base %s", m.Base.Generation)
		}
	}
	h.count("pane " + string(m.Reason))
	h.note("  pane %s: %s (%d, %d], progress %d, base %s, %d inputs, supports %d", tail(m.RunID), m.Reason, p.from, p.n, p.progress, baseName(p.base), len(p.inputs), len(m.Supports))
	f := facts{conf: h.rig.config, parent: h.live, listed: h.rig.source.scanned}
	if f.listed {
		f.from = h.world.partOf(h.rig.source.from)
	}
	switch m.Reason {
	case sink.Reset:
		h.copyOf(p, h.live)
	case sink.Rollback:
		h.copyOf(p, h.rollbackTarget(m))
	default:
		h.computed(p, f)
	}
	h.want(h.checkSupports(p, f))
	h.checkDocuments(p)
	h.live = p
	h.panes[m.RunID] = p
	h.order = append(h.order, p)
}

func tail(id string) string { return id[max(0, len(id)-6):] }

func baseName(b *base) string {
	if b == nil {
		return "none"
	}
	return fmt.Sprintf("%s (cut %d)", tail(b.gen), b.cut)
}

// computed checks a pane that a run made.
func (h *history) computed(p *pane, f facts) {
	h.t.Helper()
	if p.conf != f.conf {
		h.fail("a pane was computed with another configuration than the one in use")
	}
	if old := h.live; old != nil && old.base != p.base && (p.m.Reason != sink.Promote || p.base == nil) {
		h.fail("the base changed from %s to %s by a %s", baseName(old.base), baseName(p.base), p.m.Reason)
	}
	h.want(h.checkPane(p, f))
	strict, loose := h.bases(p, f, true)
	p.want = h.world.answers(p.conf, p.n, p.base, p.inputs)
	p.touched = h.world.touched(p.conf, p.inputs, strict, p.conf.since)
	docs, tombstones, err := h.rig.pane(p.m)
	if err != nil {
		h.fail("read pane %s: %v", p.m.RunID, err)
	}
	may := h.world.touched(p.conf, p.inputs, loose, p.conf.since)
	for k := range p.touched {
		if _, ok := docs[k]; !ok && !tombstones[k] {
			h.fail("pane %s holds neither a document nor a tombstone of %s", p.m.RunID, k)
		}
	}
	for k := range docs {
		if !may[k] {
			h.fail("pane %s holds the document %s, which has no record in its inputs", p.m.RunID, k)
		}
	}
	for k := range tombstones {
		if !may[k] {
			h.fail("pane %s holds the tombstone %s, which has no record in its inputs", p.m.RunID, k)
		}
		p.touched[k] = true
	}
	h.want(compare(p.conf, p.want, nil, nil, docs, others(p.want, docs)))
	h.want(h.checkTypes(p))
	p.docs = docs
	h.checkCounts(p, h.live)
	h.slow(p, docs, tombstones)
	h.twin(p)
}

// checkCounts holds what a manifest counts of its documents to those of the pane
// before it, nil for none. Where the columns are others, what is changed is not
// held to anything: documents are told apart by their values, column by column.
func (h *history) checkCounts(p, before *pane) {
	h.t.Helper()
	want := sink.Counts{Documents: int64(len(p.docs))}
	if before == nil {
		before = &pane{m: p.m}
	}
	for k, doc := range p.docs {
		old, there := before.docs[k]
		switch {
		case !there:
			want.New++
		case show(old) != show(doc):
			want.Changed++
		}
	}
	for k := range before.docs {
		if _, there := p.docs[k]; !there {
			want.Left++
		}
	}
	got := p.m.Counts
	same := got.Changed == want.Changed || before.m.Schema.Hash != p.m.Schema.Hash
	if got.Documents != want.Documents || got.New != want.New || got.Left != want.Left || !same {
		h.fail("pane %s counts %+v, its documents and those before say %+v", p.m.RunID, got, want)
	}
}

// others are the keys whose documents the delta does not have.
func others(want map[string]answer, docs published) map[string]bool {
	out := map[string]bool{}
	for k := range want {
		if _, ok := docs[k]; !ok {
			out[k] = true
		}
	}
	return out
}

// slow checks readers that still have another supported base.
func (h *history) slow(p *pane, docs published, tombstones map[string]bool) {
	h.t.Helper()
	for _, s := range p.m.Supports {
		old := h.generations[s.Generation]
		if old == nil || old == p.base || !s.Until.After(h.world.clock()) || p.n < old.cut || p.conf.breaking(old.conf) {
			continue
		}
		got, _, err := h.rig.pane(old.m)
		if err != nil {
			h.fail("a supported base cannot be read: %v", err)
		}
		for k := range tombstones {
			delete(got, k)
		}
		maps.Copy(got, docs)
		h.count("slow reader")
		for _, line := range compare(p.conf.without(p.m.Pending), p.want, p.touched, old, got, h.readApart(p, old)) {
			h.fail("a reader with the supported base %s: %s", baseName(old), line)
		}
	}
}

// readApart are the keys about which two bases may differ for good: each keeps
// the version of an object that it read, and where that was replaced or went
// away between the two, it is stale and says so.
func (h *history) readApart(p *pane, old *base) map[string]bool {
	out := map[string]bool{}
	add := func(i id) {
		for _, r := range h.world.versions[i] {
			out[p.conf.keyOf(r)] = true
		}
	}
	for k, i := range old.keys {
		now, both := p.base.keys[k]
		if both && now == i || !both && p.inputs[i] {
			continue
		}
		add(i)
		if both {
			add(now)
		}
	}
	// What it lacks and is no input, because it was replaced, went away or lies
	// before full.since, is nowhere any more but in the newer base. Whether it
	// had to be an input is for checkInputs to say.
	for i := range p.base.reads {
		if !old.reads[i] && !p.inputs[i] {
			add(i)
		}
	}
	for k := range p.touched {
		delete(out, k)
	}
	return out
}

// copyOf checks a pane that publishes another one again.
func (h *history) copyOf(p, target *pane) {
	h.t.Helper()
	if target == nil {
		h.fail("a %s to a pane that never was", p.m.Reason)
	}
	same := p.n == target.n && p.from == target.from && maps.Equal(p.inputs, target.inputs) && p.base == target.base && p.conf == target.conf &&
		slices.EqualFunc(p.m.Files, target.m.Files, func(a, b sink.File) bool { return a.SHA256 == b.SHA256 })
	if !same {
		h.fail("a %s differs from pane %s", p.m.Reason, target.m.RunID)
	}
	p.want, p.touched, p.docs = target.want, target.touched, target.docs
	if p.m.Reason == sink.Rollback && !slices.Equal(h.world.jumps(p.m), h.world.jumps(target.m)) {
		h.fail("a rollback has jumps %v, its target %v", h.world.jumps(p.m), h.world.jumps(target.m))
	}
	if p.m.Reason == sink.Reset {
		var jumps []jump
		for _, j := range h.world.jumps(target.m) {
			if j.from = max(j.from, min(p.progress, j.at)); p.progress <= target.progress {
				j.from = h.world.jumps(target.m)[len(jumps)].from
			}
			jumps = append(jumps, j)
		}
		jumps = slices.DeleteFunc(jumps, func(j jump) bool { return j.from >= j.at })
		if got := h.world.jumps(p.m); !slices.Equal(got, jumps) {
			h.fail("a reset to %d has jumps %v, want %v", p.progress, got, jumps)
		}
	}
}

// rollbackTarget is the pane whose data a rollback has.
func (h *history) rollbackTarget(m sink.Manifest) *pane {
	in, err := h.rig.state.IntentByID(h.t.Context(), m.RunID)
	if err != nil {
		h.fail("a rollback that nobody decided: %v", err)
	}
	for _, p := range h.order {
		if p.ref.Manifest == in.Pane.Key {
			return p
		}
	}
	return nil
}

// checkDocuments reads one version as a reader does.
func (h *history) checkDocuments(p *pane) {
	h.t.Helper()
	s, err := reader.OpenPane(h.t.Context(), h.rig.out, p.ref, reader.Options{})
	if err != nil {
		h.fail("open %s: %v", p.ref.Manifest, err)
	}
	got, err := snapshot(h.t.Context(), s)
	if err != nil {
		h.fail("read %s: %v", p.ref.Manifest, err)
	}
	h.counts["document compared"] += len(got)
	h.want(compare(p.conf, p.want, p.touched, p.base, got, nil))
}

// checkReader: the reader that follows CURRENT has the live pane.
func (h *history) checkReader() {
	h.t.Helper()
	changed, err := h.rig.reader.Poll(h.t.Context())
	if errors.Is(err, reader.ErrNoIndex) && h.live == nil {
		return
	}
	if err != nil {
		h.fail("poll: %v", err)
	}
	s := h.rig.reader.Snapshot()
	if s.Manifest.RunID != h.live.m.RunID {
		h.fail("the reader has pane %s, CURRENT %s", s.Manifest.RunID, h.live.m.RunID)
	}
	if !changed {
		return
	}
	h.count("version read")
	got, err := snapshot(h.t.Context(), s)
	if err != nil {
		h.fail("read the index: %v", err)
	}
	h.want(compare(h.live.conf, h.live.want, h.live.touched, h.live.base, got, nil))
}

// checkIdle: nothing was due.
func (h *history) checkIdle() {
	h.t.Helper()
	c := h.rig.config
	newest, ok := h.world.newest(c.since)
	if h.live == nil {
		if ok {
			h.fail("idle although partition %d is there", newest)
		}
		return
	}
	if ok && newest > h.live.progress {
		h.fail("idle although partition %d is newer than %d", newest, h.live.progress)
	}
	if h.live.conf != c {
		h.fail("idle although the configuration is another one")
	}
	strict, loose := h.bases(h.live, facts{parent: h.live}, false)
	must, may := h.inputs(c, h.live.from, h.live.n, h.world.partOf(h.rig.source.from), h.live, strict, loose)
	for i := range may {
		must[i] = must[i] || h.live.inputs[i]
		if !must[i] {
			delete(must, i)
		}
	}
	h.want(h.differ(h.live.inputs, must, may, "idle"))
	if b := h.ready(); b != nil && !h.keepBase {
		h.fail("idle although %s is ready to be promoted", baseName(b))
	}
}

// ready is the candidate that the next run has to promote, if any. After a
// reset it waits for a partition beyond progress.
func (h *history) ready() *base {
	rb, err := h.rig.state.ReadyRebuild(h.t.Context(), pipeline)
	if errors.Is(err, watermark.ErrNotFound) {
		return nil
	}
	if err != nil {
		h.fail("look for candidates: %v", err)
	}
	b := h.generations[rb.ID]
	if b == nil || h.live == nil || h.live.n < b.cut || h.live.n != h.live.progress || h.rig.config.breaking(b.conf) || h.live.base == b || h.mayBeTooNarrow(b) {
		return nil
	}
	return b
}

// checkHeld: a step is held for a reason.
func (h *history) checkHeld(r microbatch.Report) {
	h.t.Helper()
	c := h.rig.config
	switch {
	case h.paused:
		h.count("held: paused")
	case h.live != nil && h.live.base != nil && c.breaking(h.live.base.conf):
		h.count("held: breaking")
		if b := h.ready(); b != nil && !h.keepBase && c.onGap != "fail" {
			h.fail("held although %s is ready to be promoted", baseName(b))
		}
	case strings.Contains(r.Why, "--accept-loss") && h.manyGone():
		h.count("held: many inputs gone")
		h.step(microbatch.StepOptions{AcceptLoss: true, KeepBase: h.keepBase})
	case c.onGap == "fail":
		h.count("held: gap")
		h.want(h.checkGap())
	default:
		h.fail("held: %s", r.Why)
	}
}

// rows makes the records of an object.
func (h *history) rows(part int) []record {
	rows := make([]record, 1+h.rng.IntN(4))
	for i := range rows {
		if i > 0 && h.rng.IntN(10) == 0 {
			rows[i] = rows[i-1]
			h.count("duplicate record")
			continue
		}
		rows[i] = h.row(part)
	}
	return rows
}

func (h *history) row(part int) record {
	r := record{
		"item": fmt.Sprintf("k%d", h.rng.IntN(h.keys)), "user_key": fmt.Sprintf("u%d", h.rng.IntN(2)), "op": "U", "ts": nil,
		"clicks": h.maybe(int64(h.rng.IntN(6))), "price": h.maybe(float64(h.rng.IntN(20)) + 0.25), "title": h.maybe(fmt.Sprintf("t%d", h.rng.IntN(9))),
		"user": h.maybe(fmt.Sprintf("u%d", h.rng.IntN(5))), "ad": h.maybe(fmt.Sprintf("a%d", h.rng.IntN(3))), "bid": h.maybe(int64(h.rng.IntN(9))),
		"country": h.maybe([]string{"DE", "FR", "XX"}[h.rng.IntN(3)]), "level": h.maybe(h.level()), "extra": h.maybe(int64(h.rng.IntN(9))), "note": h.maybe(fmt.Sprintf("n%d", h.rng.IntN(9))),
	}
	switch h.rng.IntN(8) {
	case 0, 1:
		r["op"] = "D"
		h.count("delete record")
	case 2:
		r["op"] = nil
	}
	if !h.ties || h.rng.IntN(15) > 0 {
		r["ts"] = h.stamp(part)
	} else {
		h.count("null event time")
	}
	return r
}

// stamp is an event time: mostly of the partition, at times of another.
func (h *history) stamp(part int) string {
	if h.rng.IntN(6) == 0 {
		part += h.rng.IntN(20) - 15
	}
	seconds := int(h.world.start(part).Sub(h.world.epoch) / time.Second)
	if h.ties {
		seconds += h.rng.IntN(3)
	} else {
		for seconds += h.rng.IntN(50); h.stamps[seconds]; seconds++ {
		}
		h.stamps[seconds] = true
	}
	return h.world.epoch.Add(time.Duration(seconds) * time.Second).Format(time.RFC3339)
}

func (h *history) maybe(v any) any {
	if h.rng.IntN(7) == 0 {
		return nil
	}
	return v
}
