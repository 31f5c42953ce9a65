package configs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
)

func (x Index) validate(ps *Problems, path string, granule time.Duration, fns Fns) {
	if len(x.Key) == 0 {
		ps.add(path+".key", "must name at least one column", "none")
	}
	validColumns(ps, path+".key", x.Key)
	for i, k := range x.Key {
		if isExpr(k) || k == "*" {
			ps.add(fmt.Sprintf("%s.key[%d]", path, i), "must be a column, not an expression", short(k))
		}
	}
	if c := x.EventTime.Column; isExpr(c) || c == "*" {
		ps.add(path+".event_time", "must be a column, not an expression", short(c))
	} else if c != "" && slices.Contains(strings.Split(c, "."), "") {
		ps.add(path+".event_time", "must be a column name or a path such as offer.price", fmt.Sprintf("%q", c))
	}
	if x.EventTime.Unit != "" {
		oneOf(ps, path+".event_time.unit", x.EventTime.Unit, UnitSeconds, UnitMillis, UnitMicros, UnitNanos)
	}
	if x.Windowing != WindowingGlobal {
		ps.add(path+".windowing", "must be global (fixed, sliding and session are not built yet)", x.Windowing)
	}
	if len(x.Fields) == 0 {
		ps.add(path+".fields", "must hold at least one field", "none")
	}
	for i, f := range x.Fields {
		at := join(path+".fields", f.Name)
		if slices.Contains(x.Key, f.Name) {
			ps.add(at, "must not have the name of a key column (documents carry those already)", f.Name)
		}
		f.validateName(ps, at, x.Fields[:i])
		f.validate(ps, at, granule, fns)
	}
}

// isExpr says that what a combine fn reads is computed from the record.
func isExpr(arg string) bool { return strings.HasPrefix(arg, "=") }

// validColumns checks names of columns, or paths of nested ones, each once.
func validColumns(ps *Problems, path string, columns []string) {
	for i, c := range columns {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case isExpr(c):
		case c == "" || slices.Contains(strings.Split(c, "."), ""):
			ps.add(at, "must be a column name or a path such as offer.price", fmt.Sprintf("%q", c))
		case slices.Contains(columns[:i], c):
			ps.add(at, "must not be listed twice", c)
		}
	}
}

// validateName checks a name of a field among those before it. It must be a
// name in every sink and in expressions.
func (f Field) validateName(ps *Problems, path string, before []Field) {
	for i, r := range f.Name {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || r != '-' && !unicode.IsDigit(r)) {
			ps.add(path, "must be named with letters, digits, _ and -, a letter or _ first", fmt.Sprintf("%q", short(f.Name)))
			break
		}
	}
	if f.Name == "" {
		ps.add(path, "must have a name", `""`)
	}
	if slices.ContainsFunc(before, func(o Field) bool { return o.Name == f.Name }) {
		ps.add(path, "must not be listed twice", f.Name)
	}
}

func (f Field) validate(ps *Problems, path string, granule time.Duration, fns Fns) {
	if rule, broken := fns.problem(f.Fn); broken {
		ps.add(path, rule, f.Fn)
		return
	}
	if f.Over < 0 {
		ps.add(path+".over", "must be all or positive", FormatDuration(f.Over))
	} else {
		wholeGranules(ps, path+".over", f.Over, granule)
	}
	switch f.Fn {
	case FnExpr:
		f.validateExpr(ps, path)
	case FnCollect:
		f.validateCollect(ps, path+".collect", fns)
	default:
		if !f.Star && len(f.Columns) == 0 {
			ps.add(join(path, f.Fn), `must be a column, a list of columns or "*"`, "none")
		}
		if slices.Contains(f.Columns, "*") {
			ps.add(join(path, f.Fn), `must have "*" alone or columns`, strings.Join(f.Columns, ", "))
		}
		if len(f.Columns) == 1 {
			if c := f.Columns[0]; !isExpr(c) && slices.Contains(strings.Split(c, "."), "") {
				ps.add(join(path, f.Fn), "must be a column name or a path such as offer.price", fmt.Sprintf("%q", c))
			}
			return
		}
		validColumns(ps, join(path, f.Fn), f.Columns)
	}
}

// validateExpr refuses the options of combine fns: an expression is computed
// from the document and reads no record.
func (f Field) validateExpr(ps *Problems, path string) {
	required(ps, path+".expr", f.Expr)
	const rule = "must not be set on an expr, which reads the document's other fields"
	if f.OverSet {
		ps.add(path+".over", rule, overText(f))
	}
	if f.Where != "" {
		ps.add(path+".where", rule, short(f.Where))
	}
	if f.Optional {
		ps.add(path+".optional", rule, "true")
	}
	if f.NullsKeep {
		ps.add(path+".nulls", rule, "keep")
	}
	for _, k := range sortedKeys(f.Params) {
		ps.add(join(path, k), rule, short(fmt.Sprint(f.Params[k])))
	}
}

func (f Field) validateCollect(ps *Problems, path string, fns Fns) {
	if len(f.By) != 1 {
		got := "none"
		if len(f.By) > 1 {
			got = strings.Join(f.By, ", ")
		}
		ps.add(path+".by", "must name exactly one column", got)
	}
	validColumns(ps, path+".by", f.By)
	if len(f.Fields) == 0 {
		ps.add(path+".fields", "must hold at least one field", "none")
	}
	for i, sub := range f.Fields {
		at := join(path+".fields", sub.Name)
		if slices.Contains(f.By, sub.Name) {
			ps.add(at, "must not have the name of a by column (entries carry those already)", sub.Name)
		}
		if sub.OverSet {
			ps.add(at+".over", "must be set on the collect, for all its fields", overText(sub))
			sub.Over = 0
		}
		if sub.Fn == FnExpr || sub.Fn == FnCollect {
			ps.add(at, "must have a combine fn over columns", sub.Fn)
			continue
		}
		sub.validateName(ps, at, f.Fields[:i])
		sub.validate(ps, at, 0, fns)
	}
}

func overText(f Field) string {
	if f.Over == 0 {
		return "all"
	}
	return FormatDuration(f.Over)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
