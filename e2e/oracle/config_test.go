package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch/index"
)

// config is a configuration as the oracle understands it. It is immutable once
// a run has used it.
type config struct {
	name       string // for people
	key        []string
	timed      bool
	where      string
	deleteWhen string
	fields     []field
	since      int // the first partition that exists; noSince for all
	window     int // W, in granules
	limit      int // window.max
	onGap      string

	read []string // see reads
}

const noSince = -1 << 30

// field is one field of a document.
type field struct {
	name  string
	fn    string
	arg   string
	over  int // granules; 0 is all
	where string
	cap   int  // set
	keep  bool // latest, earliest: nulls: keep
	subs  []field
	// expr and its operands, fields before this one
	expr string
	ops  []string
}

// same says that both mean the same values; names aside.
func (f field) same(o field) bool { return f.definition() == o.definition() }

func (f field) definition() string {
	var subs []string
	for _, s := range f.subs {
		subs = append(subs, s.name+"="+s.definition())
	}
	return fmt.Sprintf("%s(%s) over %d where %q cap %d keep %t [%s] expr %s %v", f.fn, f.arg, f.over, f.where, f.cap, f.keep, strings.Join(subs, " "), f.expr, f.ops)
}

func (c *config) field(name string) (field, bool) {
	i := slices.IndexFunc(c.fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return c.fields[i], true
}

// longest is D in granules.
func (c *config) longest() int {
	d := 0
	for _, f := range c.fields {
		d = max(d, f.over)
	}
	return d
}

// hash tells configurations apart, as the engine is told.
func (c *config) hash() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %t %q %q since %d window %d %d %s", c.key, c.timed, c.where, c.deleteWhen, c.since, c.window, c.limit, c.onGap)
	for _, f := range c.fields {
		fmt.Fprintf(&b, "\n%s: %s", f.name, f.definition())
	}
	return b.String()
}

// same says that both are one index, whatever the windows around it.
func (c *config) same(o *config) bool {
	return slices.EqualFunc(c.fields, o.fields, func(a, b field) bool { return a.name == b.name && a.same(b) }) &&
		slices.Equal(c.key, o.key) && c.timed == o.timed && c.where == o.where && c.deleteWhen == o.deleteWhen
}

// breaking says whether panes of c do not belong over a base of o.
func (c *config) breaking(o *config) bool {
	if !slices.Equal(c.key, o.key) || c.timed != o.timed || c.where != o.where || c.deleteWhen != o.deleteWhen {
		return true
	}
	for _, f := range c.fields {
		if b, ok := o.field(f.name); ok && f.expr == "" && f.over == 0 && b.expr == "" && b.over == 0 && !f.same(b) {
			return true
		}
	}
	return false
}

// pending are the fields over all that a base of o has no accumulators of.
func (c *config) pending(o *config) []string {
	var out []string
	for _, f := range c.fields {
		if f.expr != "" || f.over > 0 {
			continue
		}
		if b, ok := o.field(f.name); !ok || b.expr != "" || b.over > 0 {
			out = append(out, f.name)
		}
	}
	return out
}

// spec is the index as the engine takes it.
func (c *config) spec(granule time.Duration) index.Spec {
	s := index.Spec{Key: c.key, Where: c.where, DeleteWhen: c.deleteWhen}
	if c.timed {
		s.EventTime.Column = "ts"
	}
	for _, f := range c.fields {
		s.Fields = append(s.Fields, f.spec(granule))
	}
	return s
}

func (f field) spec(granule time.Duration) index.FieldSpec {
	s := index.FieldSpec{Name: f.name, Fn: f.fn, Where: f.where, Over: time.Duration(f.over) * granule, Expr: f.text()}
	if f.arg != "" {
		s.Args = []string{f.arg}
	}
	if f.cap > 0 {
		s.Params = map[string]any{"cap": f.cap}
	}
	if f.keep {
		s.Params = map[string]any{"nulls": "keep"}
	}
	for _, sub := range f.subs {
		s.Fields = append(s.Fields, sub.spec(granule))
	}
	return s
}

// text is an expr field's expression.
func (f field) text() string {
	switch f.expr {
	case "twice":
		return f.ops[0] + " * 2"
	case "plus":
		return f.ops[0] + " + " + f.ops[1]
	case "many":
		return f.ops[0] + " > 2 ? string(" + f.ops[1] + ") : nil"
	}
	return ""
}

// pool are the fields that configurations are made of.
var pool = []field{
	{name: "updates", fn: "count", arg: "*"},
	{name: "clicked", fn: "count", arg: "clicks"},
	{name: "clicks", fn: "sum", arg: "clicks"},
	{name: "spent", fn: "sum", arg: "price"},
	{name: "clicks_mean", fn: "mean", arg: "clicks"},
	{name: "price_mean", fn: "mean", arg: "price"},
	{name: "clicks_min", fn: "min", arg: "clicks"},
	{name: "title_max", fn: "max", arg: "title"},
	{name: "title", fn: "latest", arg: "title"},
	{name: "title_kept", fn: "latest", arg: "title", keep: true},
	{name: "title_first", fn: "earliest", arg: "title"},
	{name: "price", fn: "latest", arg: "price"},
	{name: "users", fn: "set", arg: "user", cap: 3},
	{name: "users_all", fn: "set", arg: "user"},
	{name: "big", fn: "sum", arg: "clicks", where: "clicks > 2"},
	{name: "ads", fn: "collect", arg: "ad", subs: []field{
		{name: "bid", fn: "latest", arg: "bid"}, {name: "n", fn: "count", arg: "*"}, {name: "bids", fn: "sum", arg: "bid"},
	}},
	{name: "level", fn: "latest", arg: "level"},
	{name: "level_sum", fn: "sum", arg: "level"},
	{name: "level_max", fn: "max", arg: "level"},
	{name: "level_mean", fn: "mean", arg: "level"},
	{name: "levels", fn: "set", arg: "level", cap: 4},
	{name: "high", fn: "count", arg: "*", where: "level > 3"},
}

// newConfig makes a configuration at random; a long one has a window of 20
// partitions and more, and durations of every size in it.
func newConfig(rng *rand.Rand, long bool) *config {
	c := &config{key: []string{"item"}, timed: rng.IntN(8) > 0, since: noSince, window: 2 + rng.IntN(5)}
	durations := []int{1 + rng.IntN(3), 2 + rng.IntN(8)}
	if long {
		c.window = longest(rng)
		durations = []int{1 + rng.IntN(5), 6 + rng.IntN(12), 16 + rng.IntN(c.window)}
	}
	if rng.IntN(6) == 0 {
		c.key = []string{"item", "user_key"}
	}
	if rng.IntN(3) == 0 {
		c.where = "country != 'XX'"
	}
	if rng.IntN(6) > 0 {
		c.deleteWhen = "op == 'D'"
	}
	c.fields = append(c.fields, pool[0])
	for _, f := range pool[1:] {
		if rng.IntN(3) == 0 {
			c.fields = append(c.fields, f)
		}
	}
	if rng.IntN(6) > 0 {
		for _, d := range durations {
			c.fields = append(c.fields, windowed(rng, d))
		}
	}
	c.fields = append(c.fields, field{name: "twice", expr: "twice", ops: []string{"updates"}})
	if last := c.fields[len(c.fields)-2]; last.over > 0 && last.fn == "count" {
		c.fields = append(c.fields, field{name: "both", expr: "plus", ops: []string{"updates", last.name}})
	}
	if rng.IntN(3) == 0 {
		if f, ok := c.field("title"); ok {
			c.fields = append(c.fields, field{name: "shown", expr: "many", ops: []string{"updates", f.name}})
		}
	}
	c.onGap = []string{"skip", "rebuild", "rebuild", "fail"}[rng.IntN(4)]
	c.bound(rng)
	return c
}

// windowed is a field over d granules whose name no other has.
func windowed(rng *rand.Rand, d int) field {
	f := pool[rng.IntN(len(pool))]
	if f.fn == "collect" {
		f = pool[2]
	}
	f.over = d
	f.name = fmt.Sprintf("%s_%dg_%d", f.name, d, rng.IntN(1000))
	return f
}

// bound chooses window.max, which is never below max(W, D).
func (c *config) bound(rng *rand.Rand) {
	c.limit = max(c.window, c.longest()) * (1 + rng.IntN(4))
	if c.onGap == "fail" {
		c.limit += 20
	}
}

// without leaves out fields, and what is computed from them: where a rollback
// has made a field pending, a base that was left may have it.
func (c *config) without(fields []string) *config {
	if len(fields) == 0 {
		return c
	}
	n := c.copy(c.name)
	n.fields = slices.DeleteFunc(n.fields, func(f field) bool {
		return slices.Contains(fields, f.name) || slices.ContainsFunc(f.ops, func(o string) bool { return slices.Contains(fields, o) })
	})
	return n
}

// copy is a configuration to change.
func (c *config) copy(name string) *config {
	n := *c
	n.name, n.read = name, nil
	n.fields = slices.Clone(c.fields)
	return &n
}
