package oracle

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/sink"
)

// The column level is of integers. In one of three histories fractions come and
// go: a pane with an input that has one makes its fields doubles, and one
// without makes them integers again. A base keeps the types it was built at, so
// that what needs wider ones cannot be joined with it: runs fail, and only a
// rebuild helps.

const widening = "level"

// onlyFilterLevel leaves the column to a filter: a field that it does not feed
// has no other type when it widens, and other accumulators all the same, for
// the column is in the order of records.
func (c *config) onlyFilterLevel(rng *rand.Rand) {
	c.fields = slices.DeleteFunc(c.fields, func(f field) bool { return f.arg == widening })
	if rng.IntN(2) == 0 {
		c.where = "level != 3"
	} else if _, there := c.field("high"); !there {
		high := pool[slices.IndexFunc(pool, func(f field) bool { return f.name == "high" })]
		c.fields = slices.Insert(c.fields, 1, high)
	}
}

// level is a value of the column.
func (h *history) level() float64 {
	v := float64(h.rng.IntN(9))
	if h.wide {
		v += float64(h.rng.IntN(4)) / 4
	}
	return v
}

// widen lets fractions begin or end.
func (h *history) widen() {
	h.wide = !h.wide
	h.happens("column widens or ends to", "fractions %t", h.wide)
	h.drop(h.world.now, "new object")
	h.maybeStep()
}

// fractions says whether a version of an object has one, which decides how the
// whole object is read: what a filter leaves out counts too.
func (w *world) fractions(i id) bool {
	return slices.ContainsFunc(w.versions[i], func(r record) bool {
		v, ok := r[widening].(float64)
		return ok && v != math.Trunc(v)
	})
}

func (w *world) anyFractions(of map[id]bool) bool {
	for i := range of {
		if w.fractions(i) {
			return true
		}
	}
	return false
}

// typesOf finds out the types of a base that was made just now.
func (h *history) typesOf(b *base) {
	if !slices.Contains(b.conf.reads(), widening) {
		return
	}
	b.wide = h.world.anyFractions(b.reads)
	b.mayBeWide = b.wide
	for i := range b.reads {
		b.typed = b.typed || slices.ContainsFunc(h.world.versions[i], func(r record) bool { return r[widening] != nil })
	}
	for _, o := range h.world.objects {
		b.mayBeWide = b.mayBeWide || h.world.fractions(o.id)
	}
}

// levelled are the fields over all whose accumulators are of the column.
func (c *config) levelled() []field {
	var out []field
	for _, f := range c.fields {
		if f.arg == widening && f.over == 0 && f.fn != "count" {
			out = append(out, f)
		}
	}
	return out
}

// joined says that a pane of c joins accumulators of the column with those of a
// base.
func (c *config) joined(b *base) bool {
	return b != nil && slices.ContainsFunc(c.levelled(), func(f field) bool {
		o, ok := b.conf.field(f.name)
		return ok && o.over == 0 && o.expr == ""
	})
}

// mayBeTooNarrow says that a pane over the base may need wider accumulators.
func (h *history) mayBeTooNarrow(b *base) bool {
	if !h.rig.config.joined(b) || b.wide {
		return false
	}
	for _, o := range h.world.objects {
		if h.world.fractions(o.id) {
			return true
		}
	}
	return h.live != nil && h.world.anyFractions(h.live.inputs)
}

// checkFailed: a step fails only where the base has narrower accumulators than
// its pane needs, and then a rebuild is asked for.
func (h *history) checkFailed(r microbatch.Report) {
	h.t.Helper()
	var narrow *index.RetypedError
	if !errors.As(r.Err, &narrow) || h.live == nil || !h.mayBeTooNarrow(h.live.base) {
		h.fail("a step is %s: %v", r.Outcome, r.Err)
	}
	h.count("step failed: the base is too narrow")
	asked, err := h.rig.state.Rebuilds(h.t.Context(), pipeline, 1, "")
	if err != nil || len(asked) == 0 {
		h.fail("a base is too narrow, and no rebuild was asked for (%v)", err)
	}
}

// checkTypes holds the types of a computed pane's fields against its inputs and
// its base.
func (h *history) checkTypes(p *pane) []string {
	fractions := h.world.anyFractions(p.inputs)
	var wrong []string
	if fractions && p.conf.joined(p.base) && p.base.typed && !p.base.mayBeWide {
		wrong = append(wrong, "published fractions over a base of integers")
	}
	if fractions {
		h.count("pane with fractions")
	}
	must := fractions || p.base != nil && p.base.wide
	may := must || p.base != nil && p.base.mayBeWide
	for _, f := range p.conf.fields {
		if f.arg != widening || !slices.Contains([]string{"latest", "earliest", "sum", "min", "max"}, f.fn) {
			continue
		}
		i := slices.IndexFunc(p.m.Schema.Fields, func(s sink.SchemaField) bool { return s.Name == f.name })
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("the schema has no field %s", f.name))
			continue
		}
		if t := p.m.Schema.Fields[i].Type; must && t != "double" || !may && t == "double" {
			wrong = append(wrong, fmt.Sprintf("field %s is %s; fractions among the inputs: %t; base %s", f.name, t, fractions, baseName(p.base)))
		}
	}
	return wrong
}
