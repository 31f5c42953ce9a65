package index

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// Column is a column that a Program reads from every object.
type Column struct {
	// Path is the dotted path as configured.
	Path string
	// Optional: an object may lack it; its values are null there.
	Optional bool
	// Numeric: a combine fn needs numbers, so text formats parse them.
	Numeric bool
}

// Program is a Spec whose names and expressions are checked. It is immutable.
type Program struct {
	spec     Spec
	builders map[string]combine.Builder
	// columns are sorted by path: their order is that of the canonical record.
	columns []Column
	where   *expression
	deletes *expression
	fields  []field
}

// field is a FieldSpec with its expressions parsed.
type field struct {
	FieldSpec
	where   *expression
	derived *expression
	// args are the arguments that are computed, by their place; nil is a column.
	args    []*expression
	collect collectExprs
}

// collectExprs are the expressions within a collect.
type collectExprs struct {
	deletes *expression
	where   []*expression   // of each sub-field; nil takes every record
	args    [][]*expression // of each sub-field, as field.args
}

// all lists them with their names for messages.
func (c collectExprs) all(f FieldSpec) (exprs []*expression, names []string) {
	exprs, names = append(exprs, c.deletes), append(names, "delete_when")
	for i, e := range c.where {
		exprs, names = append(exprs, e), append(names, "fields."+f.Fields[i].Name+".where")
	}
	return exprs, names
}

// numericFns need numbers; text formats parse their columns as such.
var numericFns = []string{"sum", "mean", "variance", "stddev", "covariance", "median_exact", "quantile", "median", "histogram"}

// Compile checks a Spec against the combine fns there are. It reports every
// problem, each naming its field.
func Compile(spec Spec, builders map[string]combine.Builder) (*Program, error) {
	p := &Program{spec: spec, builders: builders}
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(spec.Key) == 0 {
		fail("index.key: at least one column")
	}
	seen := map[string]bool{}
	for _, k := range spec.Key {
		if seen[k] {
			fail("index.key: %s is named twice", k)
		}
		seen[k] = true
		p.read(k, Column{})
	}
	if c := spec.EventTime.Column; c != "" {
		p.read(c, Column{})
	}
	p.where = p.filter("index.where", spec.Where, &errs)
	p.deletes = p.filter("index.delete_when", spec.DeleteWhen, &errs)
	for _, f := range spec.Fields {
		if seen[f.Name] {
			fail("index.fields.%s: the name is taken by a key column or an earlier field", f.Name)
		}
		p.field(f, seen, &errs)
		seen[f.Name] = true
	}
	slices.SortFunc(p.columns, func(a, b Column) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	// Columns without values suit all that some column suits, so what does not
	// bind to them binds to nothing.
	if _, err := p.Bind(make([]column.Type, len(p.columns))); err != nil {
		errs = append(errs, err)
	}
	return p, errors.Join(errs...)
}

// field adds one field, reading what it reads.
func (p *Program) field(f FieldSpec, seen map[string]bool, errs *[]error) {
	where := "index.fields." + f.Name
	if f.Expr != "" {
		e, err := parseExpression(f.Expr)
		if err != nil {
			*errs = append(*errs, fmt.Errorf("%s: %w", where, err))
			return
		}
		for _, path := range e.paths {
			if !seen[path] && !seen[rootOf(path)] {
				*errs = append(*errs, fmt.Errorf("%s: %q is neither a key column nor an earlier field", where, path))
			}
		}
		p.fields = append(p.fields, field{FieldSpec: f, derived: e})
		return
	}
	if err := p.checkFn(where, f); err != nil {
		*errs = append(*errs, err)
		return
	}
	p.readArgs(f, f.Optional)
	before := len(*errs)
	out := field{FieldSpec: f, where: p.filter(where+".where", f.Where, errs), args: p.computed(where, f, f.Optional, errs)}
	if f.Fn == collectFn {
		out.collect.deletes = p.filter(where+".delete_when", f.DeleteWhen, errs)
		for _, sub := range f.Fields {
			name := where + ".fields." + sub.Name
			out.collect.where = append(out.collect.where, p.filter(name+".where", sub.Where, errs))
			out.collect.args = append(out.collect.args, p.computed(name, sub, f.Optional || sub.Optional, errs))
		}
	}
	if len(*errs) == before {
		p.fields = append(p.fields, out)
	}
}

func (p *Program) checkFn(where string, f FieldSpec) error {
	if reason, refused := combine.Refused(f.Fn); refused {
		return fmt.Errorf("%s: %s is not offered: %s", where, f.Fn, reason)
	}
	builder, ok := p.builders[f.Fn]
	if !ok {
		return fmt.Errorf("%s: there is no combine fn %q", where, f.Fn)
	}
	if f.Fn == collectFn && len(f.Args) != 1 {
		return fmt.Errorf("%s: collect needs exactly one column in by", where)
	}
	if f.Fn == collectFn && isExpr(f.Args[0]) {
		return fmt.Errorf("%s: by is a column, not an expression", where)
	}
	if f.Fn != collectFn && f.DeleteWhen != "" {
		return fmt.Errorf("%s: delete_when belongs to collect", where)
	}
	columns := slices.DeleteFunc(slices.Clone(f.Args), func(a string) bool { return a == wholeRecord })
	if err := builder.Accepts(combine.Params{Options: f.Params}, len(columns)); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if f.Fn != collectFn {
		// Columns of nulls suit every fn, so what fails is an option.
		nulls := slices.Repeat([]column.Type{column.Of(column.Null)}, len(columns))
		if _, err := builder.New(combine.Params{Options: f.Params}, nulls); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	for _, sub := range f.Fields {
		if sub.Fn == collectFn || sub.Expr != "" {
			return fmt.Errorf("%s.fields.%s: only combine fns over columns can stand inside collect", where, sub.Name)
		}
		if sub.Over != 0 {
			// A list has one window: else an entry would exist for one field
			// and not for another.
			return fmt.Errorf("%s.fields.%s: over belongs to the collect, for all its fields", where, sub.Name)
		}
		if err := p.checkFn(where+".fields."+sub.Name, sub); err != nil {
			return err
		}
	}
	return nil
}

func (p *Program) readArgs(f FieldSpec, optional bool) {
	for _, a := range f.Args {
		if a != wholeRecord && !isExpr(a) {
			p.read(a, Column{Optional: optional, Numeric: slices.Contains(numericFns, f.Fn)})
		}
	}
	for _, sub := range f.Fields {
		p.readArgs(sub, optional || sub.Optional)
	}
}

// recordExpr returns the expression that an argument is, if it is one: it
// begins with an equals sign.
func recordExpr(arg string) (source string, is bool) { return strings.CutPrefix(arg, "=") }

func isExpr(arg string) bool { _, is := recordExpr(arg); return is }

// computed parses the arguments that are expressions over records.
func (p *Program) computed(where string, f FieldSpec, optional bool, errs *[]error) []*expression {
	out := make([]*expression, len(f.Args))
	for i, a := range f.Args {
		source, is := recordExpr(a)
		if !is {
			continue
		}
		e, err := parseExpression(strings.TrimSpace(source))
		if err != nil {
			*errs = append(*errs, fmt.Errorf("%s.%s: %w", where, f.Fn, err))
			continue
		}
		for _, path := range e.paths {
			p.read(path, Column{Optional: optional})
		}
		out[i] = e
	}
	return out
}

// filter parses an expression over record columns, which may be empty.
func (p *Program) filter(where, source string, errs *[]error) *expression {
	if source == "" {
		return nil
	}
	e, err := parseExpression(source)
	if err != nil {
		*errs = append(*errs, fmt.Errorf("%s: %w", where, err))
		return nil
	}
	for _, path := range e.paths {
		p.read(path, Column{})
	}
	return e
}

// read notes that a column is read: it is optional only if every use is, and
// numeric if any use is.
func (p *Program) read(path string, use Column) {
	for i := range p.columns {
		if c := &p.columns[i]; c.Path == path {
			c.Optional = c.Optional && use.Optional
			c.Numeric = c.Numeric || use.Numeric
			return
		}
	}
	use.Path = path
	p.columns = append(p.columns, use)
}

// Columns lists what the program reads from every object, sorted by path.
func (p *Program) Columns() []Column { return slices.Clone(p.columns) }

// Spec returns what the program was compiled from.
func (p *Program) Spec() Spec { return p.spec }

func (p *Program) column(path string) int {
	i, _ := slices.BinarySearchFunc(p.columns, path, func(c Column, path string) int {
		if c.Path < path {
			return -1
		} else if c.Path > path {
			return 1
		}
		return 0
	})
	return i
}

const (
	collectFn   = "collect"
	wholeRecord = "*"
)

func rootOf(path string) string {
	for i := range path {
		if path[i] == '.' {
			return path[:i]
		}
	}
	return path
}
