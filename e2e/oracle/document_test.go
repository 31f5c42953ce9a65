package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// document is a field's value by name: nil, int64, float64, string, or a list.
type document map[string]any

// answer is what the records at hand say about a key.
type answer struct {
	doc     document
	deleted bool
}

// documents computes the document of every key with a record, directly: group
// by key, then evaluate each field over the records that it is about.
func (c *config) documents(n int, records []placed, pending map[string]bool) map[string]answer {
	groups := map[string][]*placed{}
	for i := range records {
		if r := &records[i]; c.counts(r.record) {
			k := c.keyOf(r.record)
			groups[k] = append(groups[k], r)
		}
	}
	out := make(map[string]answer, len(groups))
	for k, group := range groups {
		out[k] = answer{doc: c.document(n, group, pending), deleted: c.deleted(group)}
	}
	return out
}

// deleted: the newest record with a non-null delete_when says true.
func (c *config) deleted(group []*placed) bool {
	var newest *placed
	for _, r := range group {
		if r.all && c.deletes(r.record) != unsaid && (newest == nil || c.compare(r, newest) > 0) {
			newest = r
		}
	}
	return newest != nil && c.deletes(newest.record) == yes
}

func (c *config) document(n int, group []*placed, pending map[string]bool) document {
	doc := document{}
	for _, k := range c.key {
		doc[k] = group[0].record[k]
	}
	for _, f := range c.fields {
		switch {
		case f.expr != "":
			doc[f.name] = f.evaluate(doc)
		case pending[f.name]:
			doc[f.name] = nil
		default:
			doc[f.name] = c.value(f, n, group)
		}
	}
	return doc
}

// value is a field over the records that it is about.
func (c *config) value(f field, n int, group []*placed) any {
	var about []*placed
	for _, r := range group {
		in := r.all
		if f.over > 0 {
			in = r.recent && r.part > n-f.over && r.part <= n
		}
		if in && c.deletes(r.record) != yes {
			about = append(about, r)
		}
	}
	return c.aggregate(f, about)
}

func (c *config) aggregate(f field, about []*placed) any {
	var in []*placed
	for _, r := range about {
		if f.where != "" && say(f.where, r.record) != yes {
			continue
		}
		if f.arg == "*" || f.keep || r.record[f.arg] != nil {
			in = append(in, r)
		}
	}
	if f.fn == "count" {
		return int64(len(in))
	}
	if len(in) == 0 {
		return nil
	}
	switch f.fn {
	case "sum":
		return sum(f.arg, in)
	case "mean":
		return mean(f.arg, in)
	case "min", "max":
		best := in[0].record[f.arg]
		for _, r := range in[1:] {
			if n := compareValues(r.record[f.arg], best); n < 0 == (f.fn == "min") && n != 0 {
				best = r.record[f.arg]
			}
		}
		return best
	case "latest":
		return slices.MaxFunc(in, c.compare).record[f.arg]
	case "earliest":
		return slices.MinFunc(in, c.compare).record[f.arg]
	case "set":
		return set(f, in)
	case "collect":
		return c.collect(f, in)
	}
	return fmt.Sprintf("unknown fn %s", f.fn)
}

// sum is exact: prices are quarters.
func sum(column string, in []*placed) any {
	if _, ok := in[0].record[column].(int64); ok {
		total := int64(0)
		for _, r := range in {
			total += r.record[column].(int64)
		}
		return total
	}
	total := 0.0
	for _, r := range in {
		total += r.record[column].(float64)
	}
	return total
}

func mean(column string, in []*placed) any {
	switch total := sum(column, in).(type) {
	case int64:
		return float64(total) / float64(len(in))
	case float64:
		return total / float64(len(in))
	}
	return nil
}

func set(f field, in []*placed) any {
	var values []any
	for _, r := range in {
		if !slices.Contains(values, r.record[f.arg]) {
			values = append(values, r.record[f.arg])
		}
	}
	if f.cap > 0 && len(values) > f.cap {
		return nil
	}
	slices.SortFunc(values, compareValues)
	return values
}

func (c *config) collect(f field, in []*placed) any {
	by := map[string][]*placed{}
	for _, r := range in {
		k := r.record[f.arg].(string)
		by[k] = append(by[k], r)
	}
	keys := make([]string, 0, len(by))
	for k := range by {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var out []any
	for _, k := range keys {
		entry := map[string]any{f.arg: k}
		for _, s := range f.subs {
			entry[s.name] = c.aggregate(s, by[k])
		}
		out = append(out, entry)
	}
	return out
}

// evaluate is an expr field: an operation on null is null.
func (f field) evaluate(doc document) any {
	a, ok := doc[f.ops[0]].(int64)
	if !ok {
		return nil
	}
	switch f.expr {
	case "twice":
		return a * 2
	case "plus":
		if b, ok := doc[f.ops[1]].(int64); ok {
			return a + b
		}
	case "many":
		if a > 2 {
			return doc[f.ops[1]]
		}
	}
	return nil
}

// text is a value in one form, whether it was computed here or read from a
// reader's JSON.
func text(v any) string {
	switch v := v.(type) {
	case int64:
		return number(float64(v))
	case float64:
		return number(v)
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return number(f)
	case []any:
		parts := []string{}
		for _, e := range v {
			parts = append(parts, text(e))
		}
		return fmt.Sprint(parts)
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		out := "{"
		for _, k := range keys {
			out += k + "=" + text(v[k]) + ";"
		}
		return out + "}"
	case string:
		return strconv.Quote(v)
	case nil:
		return "null"
	}
	return fmt.Sprintf("%T %v", v, v)
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
