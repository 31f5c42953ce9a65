package scan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/valyala/fastjson"
)

// errBeyond marks a number that no type of a text format holds exactly enough.
var errBeyond = errors.New("number out of range")

// cell stages a JSON value.
func (p *jsonParser) cell(v *fastjson.Value, x *cell) error {
	*x = cell{}
	switch v.Type() {
	case fastjson.TypeNull:
	case fastjson.TypeTrue, fastjson.TypeFalse:
		x.kind, x.b = column.Bool, v.Type() == fastjson.TypeTrue
	case fastjson.TypeString:
		x.kind, x.text = column.String, v.GetStringBytes()
	case fastjson.TypeNumber:
		p.number = v.MarshalTo(p.number[:0])
		i, f, n := parseNumber(p.number)
		switch n {
		case isInt:
			x.kind, x.i = column.Int64, i
		case isFloat:
			x.kind, x.f = column.Float64, f
		default:
			return fmt.Errorf("%.40s: %w", p.number, errBeyond)
		}
	default:
		t, err := jsonType(v, maxNested)
		if err != nil {
			return err
		}
		x.kind, x.nested, x.typ = t.Kind, v, t
	}
	return nil
}

// maxNested bounds the lists and structs around a value: as many as a slice at
// rest may tell of.
const maxNested = 63

var errNested = fmt.Errorf("nested more than %d levels deep", maxNested)

// jsonType returns the type of a value, all of its parts considered, with at most
// so many lists and structs around one.
func jsonType(v *fastjson.Value, most int) (column.Type, error) {
	if t := v.Type(); most == 0 && (t == fastjson.TypeArray || t == fastjson.TypeObject) {
		return column.Type{}, errNested
	}
	switch v.Type() {
	case fastjson.TypeTrue, fastjson.TypeFalse:
		return column.Of(column.Bool), nil
	case fastjson.TypeString:
		return column.Of(column.String), nil
	case fastjson.TypeNumber:
		var buf [32]byte
		s := v.MarshalTo(buf[:0])
		switch _, _, n := parseNumber(s); n {
		case isInt:
			return column.Of(column.Int64), nil
		case isFloat:
			return column.Of(column.Float64), nil
		}
		return column.Type{}, fmt.Errorf("%.40s: %w", s, errBeyond)
	case fastjson.TypeArray:
		var elem column.Type
		for _, x := range v.GetArray() {
			t, err := jsonType(x, most-1)
			if err != nil {
				return column.Type{}, err
			}
			if elem, err = Widen(NDJSON, elem, t); err != nil {
				return column.Type{}, fmt.Errorf("list element: %w", err)
			}
		}
		return column.ListOf(elem), nil
	case fastjson.TypeObject:
		return structType(v.GetObject(), most-1)
	}
	return column.Type{}, nil
}

func structType(o *fastjson.Object, most int) (column.Type, error) {
	if o.Len() > maxFields {
		return column.Type{}, errFields
	}
	fields := make([]column.Field, 0, o.Len())
	names := make(map[string]bool, o.Len())
	var err error
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil {
			return
		}
		name := string(key)
		if names[name] {
			err = fmt.Errorf("key %q occurs twice", name)
			return
		}
		names[name] = true
		var t column.Type
		if t, err = jsonType(v, most); err != nil && !errors.Is(err, errNested) {
			err = fmt.Errorf("field %s: %w", name, err)
		}
		fields = append(fields, column.Field{Name: name, Type: t})
	})
	return column.StructOf(fields...), err
}

// exactJSON is exact for every integer of a value that is to be a double in
// type t, which holds the value.
func exactJSON(v *fastjson.Value, t column.Type) error {
	if v == nil || !holdsDouble(t) {
		return nil
	}
	switch v.Type() {
	case fastjson.TypeNumber:
		var buf [32]byte
		if i, _, n := parseNumber(v.MarshalTo(buf[:0])); n == isInt {
			return exact(i)
		}
	case fastjson.TypeArray:
		for _, e := range v.GetArray() {
			if err := exactJSON(e, *t.Elem); err != nil {
				return fmt.Errorf("list element: %w", err)
			}
		}
	case fastjson.TypeObject:
		o := v.GetObject()
		for _, f := range t.Fields {
			if err := exactJSON(o.Get(f.Name), f.Type); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
		}
	default: // no numbers
	}
	return nil
}

// holdsDouble says whether values of the type hold doubles.
func holdsDouble(t column.Type) bool {
	switch t.Kind {
	case column.Float64:
		return true
	case column.List:
		return holdsDouble(*t.Elem)
	case column.Struct:
		return slices.ContainsFunc(t.Fields, func(f column.Field) bool { return holdsDouble(f.Type) })
	default:
		return false
	}
}

// appendJSON adds a value to a vector whose type holds it.
func appendJSON(v *column.Vector, x *fastjson.Value, a *arena) {
	if x == nil || x.Type() == fastjson.TypeNull {
		v.AppendNull()
		return
	}
	switch v.Type.Kind {
	case column.Bool:
		v.AppendBool(x.Type() == fastjson.TypeTrue)
	case column.String:
		v.AppendString(a.keep(x.GetStringBytes()))
	case column.Int64, column.Float64:
		var buf [32]byte
		i, f, n := parseNumber(x.MarshalTo(buf[:0]))
		switch {
		case v.Type.Kind == column.Int64:
			v.AppendInt(i)
		case n == isInt:
			v.AppendFloat(float64(i)) // exact, see exactJSON
		default:
			v.AppendFloat(f)
		}
	case column.List:
		for _, e := range x.GetArray() {
			appendJSON(v.Elem, e, a)
		}
		v.EndList()
	case column.Struct:
		o := x.GetObject()
		for i, f := range v.Type.Fields {
			appendJSON(v.Fields[i], o.Get(f.Name), a)
		}
		v.EndStruct()
	}
}
