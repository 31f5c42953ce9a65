package index

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
)

// Bound is a Program with the column types of a run: it knows its combine fns
// and the documents' schema. It is immutable; a Lifter or Extractor made from
// it serves one goroutine.
type Bound struct {
	program *Program
	types   []column.Type
	keys    []column.Field
	// fns are the accumulators of a row of a run: the record register first,
	// then one per field that is not derived, in configuration order.
	fns    []combine.Fn
	folded []int // per fn after the register: its index in program.fields
	schema []column.Field
}

// Bind types the program. types[i] is the type of Columns()[i], a Null type
// for a column in which nothing was seen. It reports every problem, each
// naming its field.
func (p *Program) Bind(types []column.Type) (*Bound, error) {
	b := &Bound{program: p, types: types, fns: []combine.Fn{combine.Newest()}}
	var errs []error
	for _, k := range p.spec.Key {
		t := types[p.column(k)]
		switch t.Kind {
		case column.List, column.Struct:
			errs = append(errs, fmt.Errorf("index.key: %s is a %s, which cannot be a key", k, t))
		}
		b.keys = append(b.keys, column.Field{Name: k, Type: keyType(t), Key: true})
	}
	b.schema = append(b.schema, b.keys...)
	for i := range p.fields {
		f := &p.fields[i]
		if f.derived != nil {
			var t column.Type
			if c, err := b.bindDerived(f); err != nil {
				errs = append(errs, fmt.Errorf("index.fields.%s: %w", f.Name, err))
			} else {
				t = c.out
			}
			if err := writable(t, mostLevels); err != nil {
				errs = append(errs, fmt.Errorf("index.fields.%s: %w", f.Name, err))
			}
			b.schema = append(b.schema, column.Field{Name: f.Name, Type: t})
			continue
		}
		fn, err := b.build(f.FieldSpec, f.args, f.collect.args)
		if err == nil {
			err = writable(fn.Output(), mostLevels)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("index.fields.%s: %w", f.Name, err))
			continue
		}
		b.fns, b.folded = append(b.fns, fn), append(b.folded, i)
		b.schema = append(b.schema, column.Field{Name: f.Name, Type: fn.Output()})
	}
	for _, f := range []struct {
		name string
		expr *expression
	}{{"where", p.where}, {"delete_when", p.deletes}} {
		if err := b.checkFilter(f.expr); err != nil {
			errs = append(errs, fmt.Errorf("index.%s: %w", f.name, err))
		}
	}
	for _, f := range p.fields {
		exprs, names := f.collect.all(f.FieldSpec)
		for i, e := range append(exprs, f.where) {
			if err := b.checkFilter(e); err != nil {
				errs = append(errs, fmt.Errorf("index.fields.%s.%s: %w", f.Name, append(names, "where")[i], err))
			}
		}
	}
	return b, errors.Join(errs...)
}

// mostLevels is how many lists and structs may be around a value of a document.
const mostLevels = 32

// writable says, as an error, why documents cannot have a field of the type, with
// at most so many levels: its name, as it stands in manifests, would not tell it.
func writable(t column.Type, most int) error {
	switch {
	case t.Kind != column.List && t.Kind != column.Struct:
		return nil
	case most == 0:
		return fmt.Errorf("values nested more than %d levels deep cannot be written", mostLevels)
	case t.Kind == column.List:
		return writable(*t.Elem, most-1)
	}
	for _, f := range t.Fields {
		if f.Name == "" || strings.ContainsAny(f.Name, ":,<>") {
			return fmt.Errorf("a struct with a field named %q cannot be written: a name is not empty and free of the characters : , < and >", f.Name)
		}
		if err := writable(f.Type, most-1); err != nil {
			return err
		}
	}
	return nil
}

// keyType is the type of a key column in documents. A key column in which
// nothing was seen has no documents; it is written as a string column.
func keyType(t column.Type) column.Type {
	if t.Kind == column.Null {
		return column.Of(column.String)
	}
	return t
}

// build makes the fn of a field; exprs are its computed arguments, subs those
// of the sub-fields of a collect.
func (b *Bound) build(f FieldSpec, exprs []*expression, subs [][]*expression) (combine.Fn, error) {
	params := combine.Params{Options: f.Params}
	args, err := b.argTypes(f, exprs)
	if err != nil {
		return nil, err
	}
	if f.Fn == collectFn {
		params.By, params.Deletes = f.Args[0], f.DeleteWhen != ""
		if params.Deletes {
			args = append(args, column.Of(column.Bool))
		}
		for i, s := range f.Fields {
			fn, err := b.build(s, subs[i], nil)
			if err != nil {
				return nil, fmt.Errorf("fields.%s: %w", s.Name, err)
			}
			params.Fields = append(params.Fields, combine.Sub{Name: s.Name, Fn: fn, Filtered: s.Where != ""})
			if s.Where != "" {
				args = append(args, column.Of(column.Bool))
			}
			args = append(args, fn.Args()...)
		}
	}
	fn, err := b.program.builders[f.Fn].New(params, args)
	if read := b.typed(f, exprs); err != nil && read != nil {
		err = fmt.Errorf("%w (column %s)", err, strings.Join(read, ", column "))
	}
	return fn, err
}

// typed are the columns among the arguments whose types are known.
func (b *Bound) typed(f FieldSpec, exprs []*expression) (paths []string) {
	for i, a := range f.Args {
		if a != wholeRecord && exprs[i] == nil && b.recordType(a).Kind != column.Null {
			paths = append(paths, a)
		}
	}
	return paths
}

// argTypes are the types of a fn's arguments; a whole record has none.
func (b *Bound) argTypes(f FieldSpec, exprs []*expression) ([]column.Type, error) {
	var types []column.Type
	for i, a := range f.Args {
		switch {
		case a == wholeRecord:
		case exprs[i] != nil:
			c, err := exprs[i].bind(b.recordType, false)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Fn, err)
			}
			types = append(types, c.out)
		default:
			types = append(types, b.types[b.program.column(a)])
		}
	}
	return types, nil
}

func (b *Bound) recordType(path string) column.Type { return b.types[b.program.column(path)] }

func (b *Bound) checkFilter(e *expression) error {
	if e == nil {
		return nil
	}
	_, err := e.bind(b.recordType, true)
	return err
}

// documentType is the type of a field or key column among the first n columns
// of the schema, for expressions over extracted values.
func (b *Bound) documentType(path string) column.Type {
	for _, f := range b.schema {
		if f.Name == path {
			return f.Type
		}
	}
	return column.Type{}
}

// bindDerived binds an expression over extracted values. A field over columns
// without values may be of another type once they have some: it does not refuse
// what that could mend.
func (b *Bound) bindDerived(f *field) (*compiled, error) {
	c, err := f.derived.bind(b.documentType, false)
	if err == nil {
		return c, nil
	}
	unsettled := b.unsettled()
	if len(unsettled) == 0 {
		return nil, err
	}
	c, again := f.derived.bind(func(path string) column.Type {
		if slices.Contains(unsettled, rootOf(path)) {
			return column.Type{}
		}
		return b.documentType(path)
	}, false)
	if again != nil {
		return nil, err
	}
	return c, nil
}

// unsettled are the fields, among those bound so far, whose type follows from
// columns without values.
func (b *Bound) unsettled() (names []string) {
	folded := 0
	for i := range b.program.fields {
		f := &b.program.fields[i]
		var is bool
		switch {
		case f.derived != nil:
			is = slices.ContainsFunc(f.derived.paths, func(path string) bool { return slices.Contains(names, rootOf(path)) })
		case folded < len(b.folded) && b.folded[folded] == i:
			folded++
			is = b.hangs(f, b.fns[folded])
		}
		if is {
			names = append(names, f.Name)
		}
	}
	return names
}

// hangs says whether a field's fn may give values of another type once its
// columns have some.
func (b *Bound) hangs(f *field, fn combine.Fn) bool {
	if !slices.ContainsFunc(fn.Args(), func(t column.Type) bool { return t.Kind == column.Null }) {
		return false
	}
	if f.Fn == collectFn {
		return true
	}
	return slices.ContainsFunc(assumedScalars, func(seen column.Type) bool {
		args := slices.Clone(fn.Args())
		for k, t := range args {
			if t.Kind == column.Null {
				args[k] = seen
			}
		}
		other, err := b.program.builders[f.Fn].New(combine.Params{Options: f.Params}, args)
		return err == nil && !other.Output().Equal(fn.Output())
	})
}

// Shape is the shape of the tables and runs this program fills.
func (b *Bound) Shape() table.Shape { return table.Shape{Keys: b.keys, Fns: b.fns} }

// Schema is the documents' schema: key columns, then fields in order.
func (b *Bound) Schema() []column.Field { return b.schema }

// TypeID names everything the accumulators' bytes depend on beside the
// records: key types and combine fns with their parameters.
func (b *Bound) TypeID() string {
	var s strings.Builder
	for _, k := range b.keys {
		fmt.Fprintf(&s, "%s:%s;", k.Name, k.Type)
	}
	for _, fn := range b.fns {
		s.WriteString(fn.TypeID())
		s.WriteByte(';')
	}
	return s.String()
}

// Program is what was bound.
func (b *Bound) Program() *Program { return b.program }
