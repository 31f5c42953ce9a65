package oracle

import (
	"fmt"
	"maps"
	"slices"

	"github.com/deltad/deltad/sink"
)

// jump is an entry of a manifest's jumps, in partitions.
type jump struct{ from, at int }

func (w *world) jumps(m sink.Manifest) []jump {
	var out []jump
	for _, j := range m.Jumps {
		out = append(out, jump{w.partOf(j.From.Time), w.partOf(j.At.Time)})
	}
	return out
}

// facts are what a computed pane is held against: the state of things when it
// was computed.
type facts struct {
	conf   *config
	parent *pane // nil for the first
	from   int   // listed: (from, now]
	listed bool
}

// checkPane holds the manifest of a computed pane against the rules.
func (h *history) checkPane(p *pane, f facts) []string {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	n, d := p.n, f.conf.longest()
	advance := f.parent == nil || n > f.parent.progress && p.progress == n
	switch {
	case advance && p.progress != n:
		say("advanced to %d, progress is %d", n, p.progress)
	case !advance && (n != f.parent.n || p.progress != f.parent.progress):
		say("refined at %d with progress %d, the live pane is at %d with progress %d", n, p.progress, f.parent.n, f.parent.progress)
	}
	newest, _ := h.world.newest(f.conf.since)
	if advance && n != newest {
		say("advanced to %d, the newest is %d", n, newest)
	}
	jumps := h.wantJumps(p, f, advance)
	if got := h.world.jumps(p.m); !slices.Equal(got, jumps) {
		say("jumps are %v, want %v", got, jumps)
	}
	strict, loose := h.bases(p, f, advance)
	c := n - max(f.conf.window, d)
	for _, j := range jumps {
		c = min(c, j.from)
	}
	cs := []int{h.coverage(c, n, d, f.conf, p, strict), h.coverage(c, n, d, f.conf, p, loose)}
	if !slices.Contains(cs, p.from) {
		say("coverage begins at %d, want %v (N %d, W %d, D %d, jumps %v, bases %s)", p.from, cs, n, f.conf.window, d, jumps, cuts(strict))
	}
	if advance && f.conf.onGap == "fail" && n-p.from > f.conf.limit {
		say("published (%d, %d] although on_gap is fail and window.max %d", p.from, n, f.conf.limit)
	}
	if p.base != nil {
		if f.conf.breaking(p.base.conf) {
			say("published over base %s of another meaning", p.base.gen)
		}
		if got, want := p.m.Pending, f.conf.pending(p.base.conf); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			say("pending is %v, want %v", got, want)
		}
		if n < p.base.cut && p.m.Reason == sink.Promote {
			say("promoted a base cut at %d under a pane at %d", p.base.cut, n)
		}
		wrong = append(wrong, h.checkStale(p, f)...)
	}
	if !f.listed {
		say("a pane was computed without a listing")
	}
	reach := p.from - 2*f.conf.window
	for _, b := range strict {
		reach = min(reach, b.cut-max(d, b.conf.longest())-f.conf.window)
	}
	reach = max(reach, f.conf.since-1) // what is before it does not exist
	if f.from > reach {
		say("listed from %d, want from %d or before (coverage from %d, W %d, D %d, bases %s)", f.from, reach, p.from, f.conf.window, d, cuts(strict))
	}
	return append(wrong, h.checkInputs(p, f, strict, loose)...)
}

func (h *history) wantJumps(p *pane, f facts, advance bool) []jump {
	var out []jump
	if f.parent == nil {
		return nil
	}
	for _, j := range h.world.jumps(f.parent.m) {
		if j.at > p.n-f.conf.window {
			out = append(out, j)
		}
	}
	if advance && p.n > f.parent.progress+1 {
		out = append(out, jump{f.parent.progress, p.n})
	}
	return out
}

// coverage is c, given what it would be without bases. The documents of a base
// hold values over durations of its own configuration: where those are longer,
// they are D of that base, or readers would go on seeing them.
func (h *history) coverage(c, n, d int, conf *config, p *pane, bases []*base) int {
	if p.base == nil {
		if n-c > conf.limit && conf.onGap != "fail" {
			return n - conf.limit
		}
		return c
	}
	for _, b := range bases {
		c = min(c, b.cut-max(d, b.conf.longest()))
	}
	return c
}

// checkGap: a step that on_gap holds would cover more than window.max, without
// any help of a candidate.
func (h *history) checkGap() []string {
	conf := h.rig.config
	n, ok := h.world.newest(conf.since)
	if h.live == nil || !ok || n <= h.live.progress {
		return []string{"held by on_gap although there is nothing to advance to"}
	}
	next := &pane{n: n, base: h.live.base, progress: n}
	next.m.Supports = h.live.m.Supports
	f := facts{conf: conf, parent: h.live}
	c := n - max(conf.window, conf.longest())
	for _, j := range h.wantJumps(next, f, true) {
		c = min(c, j.from)
	}
	strict, _ := h.bases(next, f, true)
	if c = h.coverage(c, n, conf.longest(), conf, next, strict); n-c <= conf.limit {
		return []string{fmt.Sprintf("held by on_gap although (%d, %d] is within window.max %d", c, n, conf.limit)}
	}
	return nil
}

// bases are those that a pane has to fit: its own and those still supported. A
// refinement may keep those whose time has just run out: loose has them too.
func (h *history) bases(p *pane, f facts, advance bool) (strict, loose []*base) {
	now := h.world.clock()
	if p.base != nil {
		strict = append(strict, p.base)
	}
	loose = slices.Clone(strict)
	for _, s := range p.m.Supports {
		b := h.generations[s.Generation]
		if b == nil || b == p.base {
			continue
		}
		loose = append(loose, b)
		if s.Until.After(now) {
			strict = append(strict, b)
		}
	}
	if !advance && f.parent != nil {
		for _, s := range f.parent.m.Supports {
			if b := h.generations[s.Generation]; b != nil && !slices.Contains(loose, b) {
				loose = append(loose, b)
			}
		}
	}
	return strict, loose
}

func cuts(bases []*base) string {
	out := ""
	for _, b := range bases {
		out += fmt.Sprintf("[%s cut %d D %d]", b.gen[len(b.gen)-4:], b.cut, b.conf.longest())
	}
	return out
}

// unread says that an object lies at or before the cut of a base that did not
// read it.
func (h *history) unread(key string, part int, bases []*base) bool {
	return slices.ContainsFunc(bases, func(b *base) bool { return part <= b.cut && !b.read(key) })
}

// inputs are those that a pane at (from, n] has to have, and those that it may
// have besides.
func (h *history) inputs(conf *config, from, n, listedFrom int, former *pane, strict, loose []*base) (must, may map[id]bool) {
	must, may = map[id]bool{}, map[id]bool{}
	for _, o := range h.world.listed(listedFrom, h.world.now, conf.since) {
		switch {
		case o.part > from && o.part <= n, o.part <= n && h.unread(o.key, o.part, strict):
			must[o.id] = true
		case o.part <= n && h.unread(o.key, o.part, loose):
			may[o.id] = true
		}
	}
	h.found(conf, listedFrom, must, may, strict)
	if former == nil {
		return must, may
	}
	fits := former.conf.same(conf) && !h.retyped(conf, former, must, strict)
	for i := range former.inputs {
		part := h.world.parts[i.key]
		if part > listedFrom || part < conf.since {
			continue
		}
		// What it kept of one that is gone serves its own configuration alone, at
		// the types it was read at.
		kept := fits || h.world.objects[i.key].id == i
		if h.unread(i.key, part, strict) && kept && !h.otherVersion(i, strict) {
			must[i] = true
		} else if h.unread(i.key, part, loose) {
			may[i] = true
		}
	}
	return must, may
}

// retyped says that a pane with these inputs, and what the one before it kept,
// reads the column that widens at another type than that one did.
func (h *history) retyped(conf *config, former *pane, inputs map[id]bool, bases []*base) bool {
	if !slices.Contains(conf.reads(), widening) {
		return false
	}
	now := h.world.anyFractions(inputs)
	for i := range former.inputs {
		now = now || h.unread(i.key, h.world.parts[i.key], bases) && h.world.fractions(i)
	}
	return now != h.world.anyFractions(former.inputs)
}

// found are the objects that one base has read and another has not, which its
// rebuild found wherever they are: they must be inputs as long as they are
// there to be read.
func (h *history) found(conf *config, listedFrom int, must, may map[id]bool, bases []*base) {
	for _, b := range bases {
		for i := range b.reads {
			part := h.world.parts[i.key]
			switch {
			case part > listedFrom || part < conf.since || !h.unread(i.key, part, bases):
			case h.world.objects[i.key].id == i && !h.otherVersion(i, bases):
				must[i] = true
			default:
				may[i] = true
			}
		}
	}
}

// otherVersion says that a base read another version of an object than this.
func (h *history) otherVersion(i id, bases []*base) bool {
	return slices.ContainsFunc(bases, func(b *base) bool { v, ok := b.keys[i.key]; return ok && v != i })
}

func (h *history) checkInputs(p *pane, f facts, strict, loose []*base) []string {
	must, may := h.inputs(f.conf, p.from, p.n, f.from, f.parent, strict, loose)
	return h.differ(p.inputs, must, may, fmt.Sprintf("pane at (%d, %d], listed from %d, bases %s", p.from, p.n, f.from, cuts(strict)))
}

func (h *history) differ(got, must, may map[id]bool, what string) []string {
	var wrong []string
	for i := range must {
		if !got[i] {
			wrong = append(wrong, fmt.Sprintf("%s: %s (partition %d) is no input", what, i, h.world.parts[i.key]))
		}
	}
	for i := range got {
		if !must[i] && !may[i] {
			wrong = append(wrong, fmt.Sprintf("%s: %s (partition %d) is an input", what, i, h.world.parts[i.key]))
		}
	}
	return wrong
}

func (i id) String() string { return i.key + "@" + i.etag[:4] }

// checkStale: the manifest names what the base read in the listed range and
// that was replaced or is gone.
func (h *history) checkStale(p *pane, f facts) []string {
	want := map[string]bool{}
	for k, i := range p.base.keys {
		if part := h.world.parts[k]; part > f.from && part >= f.conf.since && h.world.objects[k].id != i {
			want[k] = true
		}
	}
	var wrong []string
	for _, k := range p.m.Base.Stale {
		if !want[k] && h.world.parts[k] >= f.conf.since {
			wrong = append(wrong, fmt.Sprintf("%s is named stale", k))
		}
		delete(want, k)
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		wrong = append(wrong, fmt.Sprintf("%s was replaced or is gone since base %s read it, and is not named stale", k, p.base.gen))
	}
	return wrong
}

// checkSupports: each pane copies its parent's entries while they last; a
// promotion or a rollback to another base enters the one it leaves.
func (h *history) checkSupports(p *pane, f facts) []string {
	if f.parent == nil {
		return nil
	}
	now := h.world.clock()
	want, may := map[string]bool{}, map[string]bool{}
	for _, s := range f.parent.m.Supports {
		may[s.Generation] = true
		if s.Until.After(now) {
			want[s.Generation] = true
		}
	}
	if f.parent.base != nil && f.parent.base != p.base {
		clear(want) // one previous base is promised; those before it may go
		if h.rig.support > 0 && !h.endsHold(p, f) {
			want[f.parent.base.gen] = true
		}
	}
	if p.base != nil {
		delete(want, p.base.gen)
		delete(may, p.base.gen)
	}
	var wrong []string
	for _, s := range p.m.Supports {
		if !want[s.Generation] && !may[s.Generation] {
			wrong = append(wrong, fmt.Sprintf("supports %s", s.Generation))
		}
		delete(want, s.Generation)
	}
	for g := range want {
		wrong = append(wrong, fmt.Sprintf("does not support %s", g))
	}
	return wrong
}

// endsHold says that on_gap: fail forbids the pane over the base before: the
// promotion that ends this does not support it.
func (h *history) endsHold(p *pane, f facts) bool {
	if f.conf.onGap != "fail" || p.n <= f.parent.progress {
		return false
	}
	c := p.n - max(f.conf.window, f.conf.longest())
	for _, j := range h.wantJumps(p, f, true) {
		c = min(c, j.from)
	}
	return p.n-h.coverage(c, p.n, f.conf.longest(), f.conf, p, []*base{p.base, f.parent.base}) > f.conf.limit
}

// checkBase holds a generation against the rules: it read every object up to
// its cut, and its documents are those of the records it read.
func (h *history) checkBase(b *base) []string {
	must := map[id]bool{}
	for _, o := range h.world.listed(noSince, b.cut, b.since) {
		must[o.id] = true
	}
	wrong := h.differ(b.reads, must, nil, "base "+b.gen)
	docs, _, err := h.rig.pane(b.m)
	if err != nil {
		return append(wrong, err.Error())
	}
	want := b.conf.documents(b.cut, h.world.gather(nil, b.reads), nil)
	for _, line := range compare(b.conf, want, nil, nil, docs, nil) {
		wrong = append(wrong, "base "+b.gen+": "+line)
	}
	return wrong
}
