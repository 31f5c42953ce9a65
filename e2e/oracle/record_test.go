package oracle

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// record is one line of an object: a value (nil, int64, float64 or string) for
// each column. All records have all columns; extra and note are read only by
// fields that a changed configuration adds; level is of whole numbers until it
// widens (see widen_test.go).
type record map[string]any

// line is the record as NDJSON. Its columns come in an order of their own,
// which must not matter.
func (r record) line() string {
	b, err := json.Marshal(map[string]any(r))
	if err != nil {
		return err.Error() // what a record holds can be encoded
	}
	return string(b)
}

// placed is a record in its place: which object it came from matters for
// windows and for what a base read.
type placed struct {
	record
	start time.Time // of its partition
	// all: it feeds the fields over all and the register. recent: it feeds
	// windowed fields, if its partition lies in them.
	all, recent bool
	part        int
}

// compareValues orders two values of one column: null first.
func compareValues(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	switch a := a.(type) {
	case int64:
		return cmp.Compare(a, b.(int64))
	case float64:
		return cmp.Compare(a, b.(float64))
	default:
		return strings.Compare(a.(string), b.(string))
	}
}

// eventTime is nil where there is none.
func (c *config) eventTime(p *placed) any {
	if !c.timed {
		return p.start.Unix()
	}
	text, ok := p.record["ts"].(string)
	if !ok {
		return nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil
	}
	return t.Unix()
}

// compare is the order of records: event time, delete last, then the columns
// that the configuration reads, by name.
func (c *config) compare(a, b *placed) int {
	if n := compareValues(c.eventTime(a), c.eventTime(b)); n != 0 {
		return n
	}
	if x, y := c.deletes(a.record) == yes, c.deletes(b.record) == yes; x != y {
		if x {
			return 1
		}
		return -1
	}
	for _, name := range c.reads() {
		if n := compareValues(a.record[name], b.record[name]); n != 0 {
			return n
		}
	}
	return 0
}

// reads are the columns that the configuration reads, by name.
func (c *config) reads() []string {
	if c.read != nil {
		return c.read
	}
	seen := map[string]bool{}
	for _, k := range c.key {
		seen[k] = true
	}
	if c.timed {
		seen["ts"] = true
	}
	for _, p := range []string{c.where, c.deleteWhen} {
		if p != "" {
			seen[predicates[p].column] = true
		}
	}
	for _, f := range c.fields {
		f.reads(seen)
	}
	for name := range seen {
		c.read = append(c.read, name)
	}
	slices.Sort(c.read)
	return c.read
}

func (f *field) reads(seen map[string]bool) {
	if f.arg != "" && f.arg != "*" {
		seen[f.arg] = true
	}
	if f.where != "" {
		seen[predicates[f.where].column] = true
	}
	for _, s := range f.subs {
		s.reads(seen)
	}
}

// tri is what a condition says of a record.
type tri int

const (
	unsaid tri = iota // it is null
	no
	yes
)

// predicate is a condition: its text for the engine is the key of predicates.
type predicate struct {
	column string
	holds  func(v any) bool // of a value that is not null
}

var predicates = map[string]predicate{
	"country != 'XX'": {"country", func(v any) bool { return v.(string) != "XX" }},
	"country != 'DE'": {"country", func(v any) bool { return v.(string) != "DE" }},
	"clicks > 2":      {"clicks", func(v any) bool { return v.(int64) > 2 }},
	"clicks <= 3":     {"clicks", func(v any) bool { return v.(int64) <= 3 }},
	"level > 3":       {"level", func(v any) bool { return v.(float64) > 3 }},
	"level != 3":      {"level", func(v any) bool { return v.(float64) != 3 }},
	"op == 'D'":       {"op", func(v any) bool { return v.(string) == "D" }},
	"op != 'U'":       {"op", func(v any) bool { return v.(string) != "U" }},
}

func say(p string, r record) tri {
	v := r[predicates[p].column]
	switch {
	case v == nil:
		return unsaid
	case predicates[p].holds(v):
		return yes
	}
	return no
}

// counts says whether a record counts at all.
func (c *config) counts(r record) bool { return c.where == "" || say(c.where, r) == yes }

// deletes is delete_when.
func (c *config) deletes(r record) tri {
	if c.deleteWhen == "" {
		return unsaid
	}
	return say(c.deleteWhen, r)
}

// keyOf is a record's key as a reader has it.
func (c *config) keyOf(r record) string {
	parts := make([]string, len(c.key))
	for i, k := range c.key {
		parts[i], _ = r[k].(string)
	}
	return strings.Join(parts, "|")
}
