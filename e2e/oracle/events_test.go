package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/watermark"
)

// run lives a history.
func (h *history) run() {
	h.t.Helper()
	if h.long {
		h.fill()
	}
	h.arrive(1 + h.rng.IntN(3))
	h.step(microbatch.StepOptions{})
	events := 5 + h.rng.IntN(36)
	if h.long {
		events = 5 + h.rng.IntN(18) // over windows that take their time
	}
	for range events {
		h.event()
	}
	if h.paused {
		h.resume()
	}
	h.step(microbatch.StepOptions{})
}

// event is one thing that happens.
func (h *history) event() {
	h.t.Helper()
	type choice struct {
		weight int
		do     func()
	}
	choices := []choice{
		{22, h.arrival}, {8, h.lateNear}, {8, h.lateFar}, {8, h.replace}, {6, h.vanish}, {4, h.retention}, {3, h.idle},
		{5, h.restart}, {5, h.reset}, {12, h.rebuild}, {3, h.rebuildWithin}, {4, h.approve}, {4, h.rollbackBase}, {3, h.rollbackPane},
		{6, h.reconfigure}, {2, h.moveSince}, {3, h.collect}, {3, h.recompute}, {3, h.pauseOrResume}, {3, h.wait},
	}
	if h.widens {
		choices = append(choices, choice{8, h.widen})
	}
	if h.long {
		choices = append(choices, choice{16, h.ticks})
	}
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := h.rng.IntN(total)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			c.do()
			return
		}
	}
}

// happens counts an event and tells it.
func (h *history) happens(kind, format string, args ...any) {
	h.count(kind)
	h.note("%s: %s", kind, fmt.Sprintf(format, args...))
}

func (h *history) drop(part int, kind string) {
	h.t.Helper()
	key := h.world.newKey(part)
	if err := h.world.put(h.t.Context(), key, part, h.rows(part)); err != nil {
		h.fail("put: %v", err)
	}
	h.happens(kind, "partition %d, %s: %s", part, h.world.objects[key].id, h.tell(h.world.objects[key].id))
}

// tell is an object's rows, for people.
func (h *history) tell(i id) string {
	out := ""
	for _, r := range h.world.versions[i] {
		out += fmt.Sprintf("%s/%v/%v ", h.rig.config.keyOf(r), r["op"], r["ts"])
	}
	return out
}

// arrive drops objects into the current partition.
func (h *history) arrive(objects int) {
	for range objects {
		h.drop(h.world.now, "new object")
	}
}

// arrival is the usual: a newer partition, at times after a gap.
func (h *history) arrival() {
	by := 1
	switch h.rng.IntN(12) {
	case 0, 1, 2:
		by += 1 + h.rng.IntN(3)
		h.count("skip")
	case 3:
		by += h.rig.config.window + h.rng.IntN(4)
		h.count("gap beyond the window")
	case 5, 6:
		if h.long {
			by += h.rig.config.window/2 + h.rng.IntN(h.rig.config.window/2)
			h.count("jump past half the window")
		}
	case 4:
		if h.rng.IntN(2) == 0 {
			by += h.rig.config.limit + h.rng.IntN(4)
			h.count("gap beyond window.max")
		}
	}
	for i := 1; i < by; i++ {
		if h.rng.IntN(2) == 0 && (i < 12 || h.long && i < 60) {
			h.drop(h.world.now+i, "new object")
		}
	}
	h.world.now += by
	h.arrive(1 + h.rng.IntN(2))
	h.maybeStep()
}

// maybeStep takes a step, mostly.
func (h *history) maybeStep() {
	h.t.Helper()
	if h.rng.IntN(6) > 0 {
		h.step(microbatch.StepOptions{KeepBase: h.rng.IntN(6) == 0, KeepGarbage: h.rng.IntN(2) == 0})
	}
}

func (h *history) lateNear() {
	h.drop(h.world.now-1-h.rng.IntN(max(h.rig.config.window, h.rig.config.longest())), "late object near")
	h.maybeStep()
}

func (h *history) lateFar() {
	h.drop(h.world.now-h.rig.config.window-h.rng.IntN(30), "late object far")
	h.maybeStep()
}

// any picks an object of the bucket, mostly a recent one.
func (h *history) any() (object, bool) {
	keys := h.world.keys()
	if len(keys) == 0 {
		return object{}, false
	}
	if h.rng.IntN(2) == 0 {
		keys = keys[max(0, len(keys)-6):]
	}
	return h.world.objects[keys[h.rng.IntN(len(keys))]], true
}

func (h *history) replace() {
	o, ok := h.any()
	if !ok {
		return
	}
	if err := h.world.put(h.t.Context(), o.key, o.part, h.rows(o.part)); err != nil {
		h.fail("put: %v", err)
	}
	h.happens("replaced object", "partition %d, %s by %s: %s", o.part, o.id, h.world.objects[o.key].id, h.tell(h.world.objects[o.key].id))
	h.maybeStep()
}

func (h *history) vanish() {
	o, ok := h.any()
	if !ok {
		return
	}
	if err := h.world.remove(h.t.Context(), o.key); err != nil {
		h.fail("delete: %v", err)
	}
	h.happens("vanished object", "partition %d, %s", o.part, o.id)
	h.maybeStep()
}

// retention deletes what is old at the source.
func (h *history) retention() {
	before := h.world.now - 3*h.rig.config.window - h.rig.config.longest() - h.rng.IntN(20)
	n := 0
	for _, k := range h.world.keys() {
		if o := h.world.objects[k]; o.part < before {
			if err := h.world.remove(h.t.Context(), k); err != nil {
				h.fail("delete: %v", err)
			}
			n++
		}
	}
	if n > 0 {
		h.happens("retention", "%d objects before %d", n, before)
		h.maybeStep()
	}
}

func (h *history) idle() {
	h.happens("step for nothing", "")
	h.step(microbatch.StepOptions{})
}

// wait lets time pass in which nothing comes.
func (h *history) wait() {
	h.world.now += 1 + h.rng.IntN(6)
	h.happens("quiet time", "")
	h.maybeStep()
}

func (h *history) restart() {
	h.happens("restart", "")
	h.rig.restart()
	if h.rng.IntN(2) == 0 {
		h.step(microbatch.StepOptions{})
	}
}

func (h *history) change(reason string) watermark.Change {
	return watermark.Change{ID: h.rig.set.NewID(), Actor: "oracle", Reason: reason}
}

func (h *history) pause() watermark.Pipeline {
	row, err := h.rig.state.Pause(h.t.Context(), pipeline, h.change("the history pauses here"))
	if err != nil {
		h.fail("pause: %v", err)
	}
	h.paused = true
	return row
}

func (h *history) resume() {
	if _, err := h.rig.state.Resume(h.t.Context(), pipeline, h.change("the history goes on")); err != nil {
		h.fail("resume: %v", err)
	}
	h.paused = false
	h.note("resume")
}

func (h *history) pauseOrResume() {
	if h.paused {
		h.resume()
	} else {
		h.pause()
		h.happens("pause", "")
	}
	h.maybeStep()
}

// reset moves progress, back or forward.
func (h *history) reset() {
	if h.live == nil {
		return
	}
	kind, to := "reset back", h.live.progress-1-h.rng.IntN(12)
	if h.rng.IntN(3) == 0 {
		kind, to = "reset forward", h.live.progress+1+h.rng.IntN(4)
	}
	if to > h.world.now {
		return
	}
	row := h.pause()
	in := watermark.Intent{
		ID: h.rig.set.NewID(), Pipeline: pipeline, Target: h.world.start(to), Digest: "d", Actor: "oracle", Reason: "the history asks for it", AcceptDataLoss: true,
	}
	if _, err := h.rig.state.CreateIntent(h.t.Context(), in, row.Version); err != nil {
		h.fail("ask for a reset: %v", err)
	}
	h.happens(kind, "to %d", to)
	h.step(microbatch.StepOptions{})
	if h.live.progress != to || h.live.m.Reason != sink.Reset {
		h.fail("a reset to %d left progress at %d", to, h.live.progress)
	}
	if h.rng.IntN(4) > 0 {
		h.resume()
		h.maybeStep()
	}
}

// rebuild makes a base, of what the bucket holds now.
func (h *history) rebuild() {
	if h.live == nil {
		return
	}
	h.makeBase()
	h.maybeStep()
}

func (h *history) makeBase() {
	h.t.Helper()
	var cut time.Time
	kind := "rebuild"
	if h.rng.IntN(5) == 0 {
		cut, kind = h.world.start(h.live.n-h.rng.IntN(8)), "rebuild with a cut"
	}
	if n := h.live.n; n < h.rig.config.since {
		return // there would be nothing in it, which is refused
	}
	if cut.Before(h.world.start(max(h.rig.config.since, 0))) {
		cut = time.Time{}
	}
	approve, wide := h.rng.IntN(4) > 0, h.rng.IntN(4) > 0
	rb, err := h.rig.rebuild(cut, approve, wide)
	if err != nil {
		h.fail("%s: %v", kind, err)
	}
	h.count(kind)
	m, err := h.rig.manifest(sink.Ref{Manifest: rb.Manifest.Key, SHA256: rb.Manifest.SHA256})
	if err != nil {
		h.fail("the manifest of a base: %v", err)
	}
	b := &base{gen: rb.ID, m: m, cut: h.world.partOf(m.Cut.Time), conf: h.rig.config, reads: map[id]bool{}, keys: map[string]id{}, since: h.rig.config.since}
	for _, i := range m.Inputs {
		b.reads[id{i.Key, i.ETag}], b.keys[i.Key] = true, id{i.Key, i.ETag}
	}
	h.typesOf(b)
	h.generations[rb.ID] = b
	h.note("%s: %s, %s, approved %t (%s)", kind, baseName(b), rb.State, rb.Approved, rb.Error)
	h.count("base " + string(rb.State))
	if want := h.live.n; !h.within && cut.IsZero() && rb.Cut.IsZero() && b.cut != want {
		h.fail("a base cut at %d, the live pane is at %d", b.cut, want)
	}
	h.want(h.checkBase(b))
}

// rebuildWithin makes a base while a run lies between two of its steps.
func (h *history) rebuildWithin() {
	if h.live == nil || h.paused {
		return
	}
	h.world.now++
	h.arrive(1)
	after, done := 1+h.rng.IntN(8), false
	h.rig.trace = func(step string) {
		if after--; after == 0 {
			done, h.within = true, true
			h.note("within a run, at %q", step)
			h.makeBase()
		}
	}
	h.step(microbatch.StepOptions{})
	h.rig.trace, h.within = nil, false
	if done {
		h.count("rebuild within a run")
	}
	h.maybeStep()
}

// approve lets a base be promoted that waits, is held, or is barred.
func (h *history) approve() {
	rebuilds, err := h.rig.state.Rebuilds(h.t.Context(), pipeline, 50, "")
	if err != nil {
		h.fail("list rebuilds: %v", err)
	}
	bars, err := h.rig.state.Bars(h.t.Context(), pipeline)
	if err != nil {
		h.fail("list bars: %v", err)
	}
	barred := func(gen string) bool {
		return slices.ContainsFunc(bars, func(b watermark.Bar) bool { return b.Generation == gen })
	}
	rebuilds = slices.DeleteFunc(rebuilds, func(rb watermark.Rebuild) bool {
		switch rb.State {
		case watermark.RebuildCandidate:
			return rb.Approved && !barred(rb.ID)
		case watermark.RebuildHeld:
			return false
		case watermark.RebuildPromoted:
			return !barred(rb.ID)
		default:
			return true
		}
	})
	if len(rebuilds) == 0 {
		return
	}
	rb := rebuilds[h.rng.IntN(len(rebuilds))]
	var overrides []string
	if rb.State == watermark.RebuildHeld {
		overrides = []string{"document_count", "null_rates", "fields"}
	}
	if _, err := h.rig.state.ApproveRebuild(h.t.Context(), pipeline, rb.ID, overrides, h.change("the history wants it live")); err != nil {
		h.fail("approve %s: %v", rb.ID, err)
	}
	kind := "approve " + string(rb.State)
	if barred(rb.ID) {
		kind = "approve a barred base"
	}
	h.happens(kind, "%s", tail(rb.ID))
	h.maybeStep()
}

// rollbackBase goes back to the last pane over a former base.
func (h *history) rollbackBase() {
	if h.live == nil || h.live.base == nil || len(h.live.m.History) == 0 {
		return
	}
	to := h.live.m.History[h.rng.IntN(min(2, len(h.live.m.History)))]
	kept := to == h.live.m.History[0]
	h.rollback("rollback to a base", to.Pane, watermark.Intent{Bar: h.live.base.gen}, kept)
}

// rollbackPane goes back to an older pane over the same base.
func (h *history) rollbackPane() {
	if h.live == nil || len(h.order) < 2 {
		return
	}
	back := 1 + h.rng.IntN(min(3, len(h.order)-1))
	to := h.order[len(h.order)-1-back]
	if to.base != h.live.base {
		return
	}
	h.rollback("rollback to a pane", to.ref, watermark.Intent{Pause: true}, back < 3)
}

// rollback decides one and lets it happen. kept says that what it goes to must
// still be there.
func (h *history) rollback(kind string, to sink.Ref, in watermark.Intent, kept bool) {
	h.t.Helper()
	row, err := h.rig.state.EnsurePipeline(h.t.Context(), pipeline)
	if err != nil {
		h.fail("read the row: %v", err)
	}
	in.ID, in.Pipeline, in.Kind, in.Pane = h.rig.set.NewID(), pipeline, watermark.IntentRollback, watermark.ManifestRef{Key: to.Manifest, SHA256: to.SHA256}
	in.Actor, in.Reason, in.Digest = "oracle", "the history goes back", "d"
	if _, err := h.rig.state.CreateIntent(h.t.Context(), in, row.Version); err != nil {
		h.fail("ask for a rollback: %v", err)
	}
	h.paused = h.paused || in.Pause
	h.happens(kind, "%s", to.Manifest)
	h.step(microbatch.StepOptions{KeepBase: h.rng.IntN(4) == 0})
	done, err := h.rig.state.IntentByID(h.t.Context(), in.ID)
	switch {
	case err != nil:
		h.fail("look for the rollback: %v", err)
	case done.State == watermark.IntentFailed && !kept:
		h.count(kind + ", collected")
		h.note("refused: %s", done.Note)
	case done.State != watermark.IntentApplied:
		h.fail("a %s is %s: %s", kind, done.State, done.Note)
	}
	if in.Pause && h.rng.IntN(3) > 0 {
		h.resume()
		h.maybeStep()
	}
}

// collect collects garbage; what readers need is still there.
func (h *history) collect() {
	if h.live == nil || h.paused {
		return
	}
	err := h.rig.p.Under(h.t.Context(), func(ctx context.Context, t microbatch.Term) error {
		_, err := t.Collect(ctx, false)
		return err
	})
	if err != nil {
		h.fail("collect garbage: %v", err)
	}
	h.happens("garbage collection", "")
	if h.rng.IntN(2) == 0 {
		h.rig.reader = reader.Open(h.rig.out, reader.Options{})
	}
	h.checkReader()
	docs, tombstones, err := h.rig.pane(h.live.m)
	if err != nil {
		h.fail("the live pane is gone: %v", err)
	}
	if h.live.m.Reason != sink.Rollback && h.live.m.Reason != sink.Reset {
		h.slow(h.live, docs, tombstones)
	}
}

// recompute makes the live pane again without any cache: the same bytes.
func (h *history) recompute() {
	if h.live == nil || h.paused || h.live.m.Reason == sink.Rollback || h.live.m.Reason == sink.Reset {
		return
	}
	h.happens("recompute without caches", "")
	before := h.step(microbatch.StepOptions{Force: true, KeepBase: true})
	was := h.live
	if before.Outcome == microbatch.WasHeld || before.Outcome == microbatch.Failed {
		return
	}
	h.rig.noCache = true
	h.rig.restart()
	h.step(microbatch.StepOptions{Force: true, KeepBase: true})
	h.rig.noCache = false
	h.rig.restart()
	if h.live == was {
		h.fail("a forced step made no pane")
	}
	hashes := func(files []sink.File) string {
		out := ""
		for _, f := range files {
			out += f.SHA256 + "\n"
		}
		return out
	}
	if hashes(was.m.Files) != hashes(h.live.m.Files) || hashes(was.m.Tombstones) != hashes(h.live.m.Tombstones) {
		h.fail("with and without caches: other bytes for the same inputs")
	}
}

// reconfigure restarts with another configuration, or with a former one.
func (h *history) reconfigure() {
	old := h.rig.config
	next, kind := h.another(old)
	if next == nil || h.byHash[sink.Sum([]byte(next.hash()))] != nil && kind != "configuration: a former one" {
		return
	}
	if h.ties && !slices.Equal(next.reads(), old.reads()) {
		return
	}
	if kind != "configuration: a former one" {
		h.use(next)
	}
	h.happens(kind, "%s", next.name)
	h.rig.configure(next)
	h.maybeStep()
}

func (h *history) another(old *config) (*config, string) {
	i := h.rng.IntN(len(old.fields))
	switch h.rng.IntN(7) {
	case 0, 1:
		c := old.copy("one more field over all")
		f := added[h.rng.IntN(len(added))]
		if _, ok := old.field(f.name); ok {
			return nil, ""
		}
		c.fields = slices.Insert(c.fields, h.rng.IntN(len(c.fields)), f)
		return c, "configuration: new field over all"
	case 2:
		return breaking(h.rng, old, i), "configuration: breaking"
	case 3:
		c := old.copy("one more duration")
		f := windowed(h.rng, h.duration())
		c.fields = slices.Insert(c.fields, h.rng.IntN(len(c.fields)), f)
		c.bound(h.rng)
		return c, "configuration: new duration"
	case 4:
		f := old.fields[i]
		if i == 0 || used(old, f.name) || len(old.fields) < 4 {
			return nil, ""
		}
		c := old.copy("without " + f.name)
		c.fields = slices.Delete(c.fields, i, i+1)
		return c, "configuration: field removed"
	case 5:
		if old.fields[i].over == 0 {
			return nil, ""
		}
		c := old.copy("another duration of " + old.fields[i].name)
		c.fields[i].over = h.duration()
		c.bound(h.rng)
		return c, "configuration: duration changed"
	default:
		former := h.configs[h.rng.IntN(len(h.configs))]
		if former == old {
			return nil, ""
		}
		return former, "configuration: a former one"
	}
}

// added are the fields over all that a changed configuration brings; some read
// columns that nothing has read before.
var added = append([]field{
	{name: "extra", fn: "sum", arg: "extra"}, {name: "extra_last", fn: "latest", arg: "extra"},
	{name: "note", fn: "latest", arg: "note"}, {name: "notes", fn: "set", arg: "note"}, {name: "noted", fn: "count", arg: "note"},
}, pool[1:]...)

func breaking(rng *rand.Rand, old *config, i int) *config {
	c := old.copy("breaking")
	switch rng.IntN(3) {
	case 0:
		c.where = []string{"", "country != 'XX'", "country != 'DE'"}[rng.IntN(3)]
	case 1:
		c.deleteWhen = []string{"", "op == 'D'", "op != 'U'"}[rng.IntN(3)]
	default:
		if f := &c.fields[i]; f.expr == "" && f.over == 0 && f.fn != "collect" {
			f.where = []string{"clicks > 2", "clicks <= 3"}[rng.IntN(2)]
		}
	}
	return c
}

func used(c *config, name string) bool {
	return slices.ContainsFunc(c.fields, func(f field) bool { return slices.Contains(f.ops, name) })
}

// moveSince changes full.since.
func (h *history) moveSince() {
	c := h.rig.config.copy("since")
	if c.since = h.world.now - 4 - h.rng.IntN(40); h.rng.IntN(3) == 0 {
		c.since = noSince
	}
	if h.byHash[sink.Sum([]byte(c.hash()))] != nil {
		return
	}
	h.use(c)
	h.happens("full.since", "%d", c.since)
	h.rig.configure(c)
	h.maybeStep()
}
