package index

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
)

// Signature is what the accumulators of a base were made with: the Spec, and
// the types that its columns had. A base carries it, so that a later run knows
// what it may join.
type Signature struct {
	Spec  Spec
	Types []column.Type // by Program.Columns of the Spec
}

// signatureFormat is the major version of a Signature as JSON.
const signatureFormat = 1

type signatureJSON struct {
	Format  int          `json:"format"`
	Spec    Spec         `json:"spec"`
	Columns []columnJSON `json:"columns"`
}

// columnJSON is a column and its type; the path is for people.
type columnJSON struct {
	Path string       `json:"path"`
	Type *column.Type `json:"type"`
}

// Signature is what accumulators of this program are made with.
func (b *Bound) Signature() Signature { return Signature{Spec: b.program.spec, Types: b.types} }

// Encode returns the signature as JSON. It is meaningful for a signature made
// by Bound.Signature.
func (s Signature) Encode(p *Program) (json.RawMessage, error) {
	out := signatureJSON{Format: signatureFormat, Spec: s.Spec}
	for i, c := range p.columns {
		out.Columns = append(out.Columns, columnJSON{Path: c.Path, Type: &s.Types[i]})
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode index signature: %w", err)
	}
	return b, nil
}

// DecodeSignature reads what Encode wrote and returns it bound again: with the
// shapes that its accumulators have.
func DecodeSignature(raw json.RawMessage, builders map[string]combine.Builder) (*Bound, error) {
	var in signatureJSON
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&in); err != nil {
		return nil, fmt.Errorf("decode index signature: %w", err)
	}
	if err := numbers(in.Spec.Fields); err != nil {
		return nil, fmt.Errorf("decode index signature: %w", err)
	}
	if in.Format != signatureFormat {
		return nil, fmt.Errorf("decode index signature: format %d, want %d", in.Format, signatureFormat)
	}
	p, err := Compile(in.Spec, builders)
	if err != nil {
		return nil, fmt.Errorf("compile the base's index: %w", err)
	}
	if len(in.Columns) != len(p.columns) {
		return nil, fmt.Errorf("decode index signature: %d columns, its index reads %d", len(in.Columns), len(p.columns))
	}
	types := make([]column.Type, len(p.columns))
	for i, c := range in.Columns {
		if c.Path != p.columns[i].Path || c.Type == nil {
			return nil, fmt.Errorf("decode index signature: column %d is %s, its index reads %s", i, c.Path, p.columns[i].Path)
		}
		types[i] = *c.Type
	}
	b, err := p.Bind(types)
	if err != nil {
		return nil, fmt.Errorf("bind the base's index: %w", err)
	}
	return b, nil
}

// numbers gives the parameters of fields the Go types that a configuration
// has: int64 where they are whole, else float64, in lists too.
func numbers(fields []FieldSpec) error {
	for i := range fields {
		for name, v := range fields[i].Params {
			typed, err := number(v)
			if err != nil {
				return fmt.Errorf("field %s: parameter %s: %w", fields[i].Name, name, err)
			}
			fields[i].Params[name] = typed
		}
		if err := numbers(fields[i].Fields); err != nil {
			return err
		}
	}
	return nil
}

func number(v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return whole, nil
		}
		return v.Float64()
	case []any:
		for i := range v {
			var err error
			if v[i], err = number(v[i]); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// Change is how a configuration differs from that of a base.
type Change struct {
	// Breaking are the differences under which delta and base do not belong
	// together: key, event_time, where, delete_when, or an existing field over
	// all. Empty means that they do.
	Breaking []string
	// Pending are the fields over all that the base has no accumulators of.
	Pending []string
}

// Since says how p differs from the program of a base.
func (p *Program) Since(base *Bound) Change {
	var c Change
	was, now := base.program.spec, p.spec
	differ := func(what string, a, b any) {
		if !reflect.DeepEqual(a, b) {
			c.Breaking = append(c.Breaking, fmt.Sprintf("%s: the base has %v, the configuration %v", what, a, b))
		}
	}
	differ("index.key", was.Key, now.Key)
	differ("index.event_time", was.EventTime, now.EventTime)
	differ("index.where", was.Where, now.Where)
	differ("index.delete_when", was.DeleteWhen, now.DeleteWhen)
	for _, f := range now.Fields {
		if f.Expr != "" || f.Over != 0 {
			continue
		}
		i := slices.IndexFunc(was.Fields, func(o FieldSpec) bool { return o.Name == f.Name })
		switch {
		case i < 0 || was.Fields[i].Expr != "" || was.Fields[i].Over != 0:
			// What was windowed or derived has no accumulators to go on from.
			c.Pending = append(c.Pending, f.Name)
		case !sameFold(was.Fields[i], f):
			c.Breaking = append(c.Breaking, fmt.Sprintf("index.fields.%s: the base has it as %s, the configuration as %s", f.Name, foldText(was.Fields[i]), foldText(f)))
		}
	}
	return c
}

// sameFold says whether two fields fold records alike.
func sameFold(a, b FieldSpec) bool { return foldText(a) == foldText(b) }

// foldText is all of a field that its accumulators depend on; encoding/json
// sorts the parameters. Whether a column may be missing is not of it.
func foldText(f FieldSpec) string {
	f.Name, f.Over, f.Optional = "", 0, false
	f.Fields = slices.Clone(f.Fields)
	for i := range f.Fields {
		f.Fields[i].Optional = false
	}
	b, err := json.Marshal(f)
	if err != nil {
		return fmt.Sprintf("%+v", f)
	}
	return string(b)
}

// BaseShape is the shape of the accumulators that a base keeps: the record
// register and one for each field over all, in configuration order.
func (b *Bound) BaseShape() table.Shape {
	s := table.Shape{Keys: b.keys, Fns: []combine.Fn{b.fns[0]}}
	for n, i := range b.folded {
		if b.program.fields[i].Over == 0 {
			s.Fns = append(s.Fns, b.fns[n+1])
		}
	}
	return s
}

// SeenShape is the shape of the keys that a base remembers: the register alone.
func (b *Bound) SeenShape() table.Shape {
	return table.Shape{Keys: b.keys, Fns: []combine.Fn{b.fns[0]}}
}

// BaseFields are the names of the fields in BaseShape after the register.
func (b *Bound) BaseFields() []string {
	var names []string
	for _, i := range b.folded {
		if f := b.program.fields[i]; f.Over == 0 {
			names = append(names, f.Name)
		}
	}
	return names
}

// RetypedError says that the accumulators of a base cannot be joined with
// those of a run because a column has another type now.
type RetypedError struct {
	What      string
	Base, Now string
}

func (e *RetypedError) Error() string {
	return fmt.Sprintf("%s: the base was built at %s, the objects since need %s", e.What, e.Base, e.Now)
}

// Join is where the accumulators of a run find theirs in a base.
type Join struct {
	// At is, for each fn of Shape, its index in the base's BaseShape: -1 for a
	// field that a base has no accumulators of.
	At []int
	// Pending says for each fn of Shape that it is over all and the base does
	// not have it: its values are null until one does.
	Pending []bool
}

// JoinBase says how accumulators of b, whose types are no narrower than those
// of base, are joined with the base's. A *RetypedError if they cannot be.
func (b *Bound) JoinBase(base *Bound) (Join, error) {
	j := Join{At: make([]int, len(b.fns)), Pending: make([]bool, len(b.fns))}
	for i, k := range b.keys {
		if was := base.keys[i].Type; !k.Type.SameRepr(was) && base.recordType(k.Name).Kind != column.Null {
			return j, &RetypedError{What: "key column " + k.Name, Base: was.String(), Now: k.Type.String()}
		}
	}
	shape, names := base.BaseShape(), base.BaseFields()
	for n, i := range b.folded {
		f := b.program.fields[i]
		j.At[n+1] = -1
		if f.Over != 0 {
			continue
		}
		at := slices.Index(names, f.Name)
		if at < 0 {
			j.Pending[n+1] = true
			continue
		}
		was, now := shape.Fns[at+1], b.fns[n+1]
		if was.TypeID() != now.TypeID() && !sameRepr(was.Args(), now.Args()) {
			return j, &RetypedError{What: "field " + f.Name, Base: fmt.Sprint(was.Args()), Now: fmt.Sprint(now.Args())}
		}
		j.At[n+1] = at + 1
	}
	return j, nil
}

// sameRepr says whether accumulators over columns of types was are
// accumulators over columns of types now. Where nothing was seen they hold
// nothing that a type could be wrong for.
func sameRepr(was, now []column.Type) bool {
	return slices.EqualFunc(was, now, func(a, b column.Type) bool { return a.SameRepr(b) })
}

// TypesFor returns the types of a base's columns in the order of p's columns,
// Null for a column that the base did not read.
func (p *Program) TypesFor(base *Bound) []column.Type {
	out := make([]column.Type, len(p.columns))
	for i, c := range p.columns {
		if k := base.program.column(c.Path); k < len(base.program.columns) && base.program.columns[k].Path == c.Path {
			out[i] = base.types[k]
		}
	}
	return out
}
