package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// builtins are the names of the combine fns that deltad comes with. They serve
// one purpose: to tell the fn of a field from its parameters in whatever order
// the keys are written. Whether a fn exists is for Validate.
func builtins() []string {
	return []string{
		FnExpr, FnCollect, FnCount, "sum", "mean", "variance", "stddev", "covariance", "min", "max", "earliest", "latest",
		"arg_min", "arg_max", "any", "all_of", "any_of", "set", "distinct", "distinct_exact", "theta",
		"quantile", "median", "median_exact", "histogram", "top", "newest", "counts", "mode", "bloom", "bitmap",
	}
}

// fields decodes index.fields, or those of a collect, in file order.
func (d *decoder) fields(e entry, depth int) []Field {
	list, ok := d.entries(e.value, e.path, depth)
	if !ok {
		return nil
	}
	fields := make([]Field, 0, len(list))
	for _, e := range list {
		if f, ok := d.field(e, depth+1); ok {
			fields = append(fields, f)
		}
	}
	return fields
}

// field decodes {fn: columns, option: value, …}.
func (d *decoder) field(e entry, depth int) (Field, bool) {
	f := Field{Name: e.key}
	list, ok := d.entries(e.value, e.path, depth)
	if !ok {
		return f, false
	}
	var others []entry
	for _, e := range list {
		switch e.key {
		case "over":
			d.over(e, &f, depth+1)
		case "where":
			f.Where, _ = d.text(e, depth+1)
		case "optional":
			if s, ok := d.text(e, depth+1); ok {
				v, err := parseBool(s)
				if err != nil {
					d.problem(e.value, e.path, err.Error(), shown(e.value))
				}
				f.Optional = v
			}
		case "nulls":
			if s, ok := d.text(e, depth+1); ok {
				if f.NullsKeep = s == "keep"; s != "keep" && s != "skip" {
					d.problem(e.value, e.path, "must be keep or skip", shown(e.value))
				}
			}
		default:
			others = append(others, e)
		}
	}
	fn, ok := d.pickFn(e, others)
	if !ok {
		return f, false
	}
	f.Fn = fn.key
	d.fnValue(fn, &f, depth+1)
	for _, o := range others {
		if o.key != fn.key {
			d.param(o, &f, depth+1)
		}
	}
	return f, true
}

func (d *decoder) over(e entry, f *Field, depth int) {
	s, ok := d.text(e, depth)
	if !ok {
		return
	}
	if f.OverSet = true; s == "all" {
		return
	}
	over, err := ParseDuration(s)
	if err != nil || over <= 0 {
		d.problem(e.value, e.path, "must be all or a positive duration such as 30s, 5h or 30d", shown(e.value))
		return
	}
	f.Over = over
}

// pickFn finds the key that names the combine fn. The only key is it; else it
// is the one built-in fn that is given something to read; else, for a fn of
// the user's own, the first key.
func (d *decoder) pickFn(e entry, keys []entry) (entry, bool) {
	const rule = "must have exactly one combine fn"
	switch len(keys) {
	case 0:
		d.problem(e.node, e.path, rule, "none")
		return entry{}, false
	case 1:
		return keys[0], true
	}
	known := builtins()
	var found []entry
	var names []string
	for _, k := range keys {
		if slices.Contains(known, k.key) && readsColumns(k.value) {
			found, names = append(found, k), append(names, k.key)
		}
	}
	switch len(found) {
	case 0:
		return keys[0], true
	case 1:
		return found[0], true
	}
	d.problem(found[1].node, e.path, rule, strings.Join(names, " and "))
	return entry{}, false
}

// readsColumns tells what a fn reads from what a parameter is: numbers and
// booleans are never columns.
func readsColumns(n ast.Node) bool {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		return false
	}
	return true
}

// fnValue decodes what the combine fn reads.
func (d *decoder) fnValue(e entry, f *Field, depth int) {
	n := d.resolve(e.value, e.path, depth)
	if n == nil {
		return
	}
	switch {
	case f.Fn == FnExpr:
		f.Expr, _ = d.text(e, depth)
	case f.Fn == FnCollect:
		d.collect(e, f, depth)
	default:
		columns := d.texts(e, depth)
		if len(columns) == 1 && columns[0] == "*" {
			f.Star = true
			return
		}
		f.Columns = columns
	}
}

func (d *decoder) collect(e entry, f *Field, depth int) {
	list, ok := d.entries(e.value, e.path, depth)
	if !ok {
		return
	}
	for _, e := range list {
		switch e.key {
		case "by":
			f.By = d.texts(e, depth+1)
		case "fields":
			f.Fields = d.fields(e, depth+1)
		case "delete_when":
			f.DeleteWhen, _ = d.text(e, depth+1)
		default:
			d.problem(e.node, e.path, "unknown key (a collect has by, fields and delete_when)", "")
		}
	}
}

// param keeps one parameter of the combine fn.
func (d *decoder) param(e entry, f *Field, depth int) {
	n := d.resolve(e.value, e.path, depth)
	if n == nil {
		return
	}
	var value any
	if seq, isList := n.(*ast.SequenceNode); isList {
		list := make([]any, 0, len(seq.Values))
		for i, item := range seq.Values {
			s, _, ok := d.scalar(entry{path: fmt.Sprintf("%s[%d]", e.path, i), node: e.node, value: item}, depth+1)
			if !ok {
				return
			}
			list = append(list, s.typed())
		}
		value = list
	} else {
		s, _, ok := d.scalar(e, depth)
		if !ok {
			return
		}
		value = s.typed()
	}
	if f.Params == nil {
		f.Params = make(map[string]any)
	}
	f.Params[e.key] = value
}

// typed gives a parameter the type its text has: bool, int64 or float64 where
// it is not quoted and reads as one, else string.
func (s scalar) typed() any {
	if s.quoted {
		return s.text
	}
	if b, err := parseBool(s.text); err == nil {
		return b
	}
	if n, err := parseInt(s.text, 64); err == nil {
		return n
	}
	if x, ok := parseFinite(s.text); ok {
		return x
	}
	return s.text
}
