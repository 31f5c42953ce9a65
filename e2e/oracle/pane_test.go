package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deltad/deltad/sink"
)

// base is what the oracle knows of one generation.
type base struct {
	gen   string
	m     sink.Manifest
	cut   int
	conf  *config
	reads map[id]bool
	keys  map[string]id // of what it read
	since int
	// level as it stands in the base: typed, because an object that was read has
	// a value, wide because one has a fraction. Where an object beyond the cut
	// has one, it may be wide too.
	typed, wide, mayBeWide bool
}

// read says whether it read an object of this key, in whatever version.
func (b *base) read(key string) bool {
	if b == nil {
		return false
	}
	_, ok := b.keys[key]
	return ok
}

// pane is what the oracle knows of one publication.
type pane struct {
	ref      sink.Ref
	m        sink.Manifest
	n, from  int
	progress int
	conf     *config
	base     *base // nil without one
	inputs   map[id]bool
	want     map[string]answer
	docs     published       // in its files
	touched  map[string]bool // keys that the delta holds
}

// gather are the records that a pane over a base sees: what the base read, as
// it read it, and the inputs.
func (w *world) gather(b *base, inputs map[id]bool) []placed {
	var out []placed
	if b != nil {
		for _, i := range sorted(b.reads) {
			out = append(out, w.records(i, true, false)...)
		}
	}
	for _, i := range sorted(inputs) {
		out = append(out, w.records(i, !b.read(i.key), true)...)
	}
	return out
}

func sorted(ids map[id]bool) []id {
	return slices.SortedFunc(maps.Keys(ids), func(a, b id) int { return strings.Compare(a.key+"\x00"+a.etag, b.key+"\x00"+b.etag) })
}

// answers are the documents of a configuration at n over a base.
func (w *world) answers(c *config, n int, b *base, inputs map[id]bool) map[string]answer {
	pending := map[string]bool{}
	if b != nil {
		for _, name := range c.pending(b.conf) {
			pending[name] = true
		}
	}
	return c.documents(n, w.gather(b, inputs), pending)
}

// touched are the keys that the delta of a pane holds: those with a record in
// its inputs, and those that a supported base saw in (H − D, H] while an
// object that it read there is replaced or gone.
func (w *world) touched(c *config, inputs map[id]bool, bases []*base, since int) map[string]bool {
	out := map[string]bool{}
	add := func(by *config, i id) {
		for _, r := range w.versions[i] {
			if by.counts(r) {
				out[by.keyOf(r)] = true
			}
		}
	}
	for i := range inputs {
		add(c, i)
	}
	for _, b := range bases {
		var seen []id
		stale := false
		for i := range b.reads {
			if part := w.parts[i.key]; part > b.cut-b.conf.longest() {
				seen = append(seen, i)
				stale = stale || part < since || w.objects[i.key].id != i
			}
		}
		if stale {
			for _, i := range seen {
				add(b.conf, i)
			}
		}
	}
	return out
}

// compare holds what a reader has against the answers. Keys that are not in
// the delta are read from over: a field that it does not have with the same
// meaning is not there to be compared.
func compare(c *config, want map[string]answer, touched map[string]bool, over *base, got published, except map[string]bool) []string {
	var wrong []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		a := want[k]
		if a.deleted || except[k] {
			continue
		}
		doc, ok := got[k]
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s is not there, want %v", k, show(a.doc)))
			continue
		}
		for _, name := range names(c) {
			if over != nil && !touched[k] {
				f, isField := c.field(name)
				b, has := over.conf.field(name)
				if has && f.over > 0 && b.over > 0 && !f.same(b) {
					// Nothing is in either duration, whatever the fn makes of that.
					if v := text(doc[name]); v != "null" && v != "0" {
						wrong = append(wrong, fmt.Sprintf("%s: %s is %s, which is of another duration", k, name, v))
					}
					continue
				}
				if isField && (!has || !f.same(b) || f.expr != "" && !sameOperands(c, over.conf, f)) {
					continue
				}
			}
			value, ok := doc[name]
			if got, want := text(value), text(a.doc[name]); !ok || got != want {
				wrong = append(wrong, fmt.Sprintf("%s (in the delta: %t): %s is %s (present: %t), want %s; reader has %s, oracle %s", k, touched[k], name, got, ok, want, show(doc), show(a.doc)))
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(got)) {
		if a, ok := want[k]; (!ok || a.deleted) && !except[k] {
			wrong = append(wrong, fmt.Sprintf("%s is there (in the delta: %t, deleted: %t): %s", k, touched[k], a.deleted, show(got[k])))
		}
	}
	return wrong
}

// sameOperands: an expression means the same if its operands do.
func sameOperands(a, b *config, f field) bool {
	for _, name := range f.ops {
		x, _ := a.field(name)
		y, ok := b.field(name)
		if !ok || !x.same(y) {
			return false
		}
	}
	return true
}

func names(c *config) []string {
	out := slices.Clone(c.key)
	for _, f := range c.fields {
		out = append(out, f.name)
	}
	return out
}

func show(doc document) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(doc)) {
		parts = append(parts, k+"="+text(doc[k]))
	}
	return "{" + strings.Join(parts, " ") + "}"
}
