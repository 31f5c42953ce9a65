// Package column holds typed column vectors: what a scan yields, what combine
// fns read, and what documents are before they are written.
//
// It promises exactness and nothing else: a value keeps its type, a null is
// never a zero, and a type changes only by Widen, which never loses a value.
// It does no I/O and knows nothing of files, keys or combine fns.
//
// Invariants:
//
//  1. In a Vector exactly one storage slice is used, chosen by Type.Kind, and
//     it has one entry per row, nulls included (a null's entry is the zero of
//     the storage; readers must ask Null first).
//  2. Timestamps are UTC instants as (seconds, nanoseconds), so that years 1
//     to 9999 are exact at nanosecond precision.
//  3. Two types of one Repr hold equal values in equal storage, so data never
//     needs conversion inside a Repr.
package column

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of a Type.
type Kind uint8

// The kinds. Null is the type of a column in which no value was seen; it
// widens to every other kind.
const (
	Null      Kind = iota
	Bool           // Vector.Bools
	Int32          // Vector.Ints; also smaller and unsigned 8/16-bit integers
	Int64          // Vector.Ints; also unsigned 32-bit
	Float32        // Vector.Floats, widened exactly
	Float64        // Vector.Floats
	Decimal        // Vector.Decimals, unscaled at Type.Scale; Precision at most 38
	String         // Vector.Strings, valid UTF-8
	Bytes          // Vector.Strings, any bytes
	Date           // Vector.Ints, days since 1970-01-01
	Time           // Vector.Ints, nanoseconds since midnight
	Timestamp      // Vector.Ints seconds since 1970-01-01T00:00:00Z, Vector.Nanos 0..999,999,999
	List           // Vector.Offsets, Vector.Elem
	Struct         // Vector.Fields
)

var kindNames = [...]string{"null", "bool", "int32", "int64", "float", "double", "decimal", "string", "bytes", "date", "time", "timestamp", "list", "struct"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) {
	if int(k) >= len(kindNames) {
		return nil, fmt.Errorf("there is no type of kind %d", uint8(k))
	}
	return []byte(kindNames[k]), nil
}

// UnmarshalText reads the kind's name.
func (k *Kind) UnmarshalText(b []byte) error {
	i := slices.Index(kindNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("there is no type %q", b)
	}
	*k = Kind(i)
	return nil
}

// Type is the type of a column. Elem is set for a List, Fields for a Struct,
// Precision and Scale for a Decimal.
type Type struct {
	Kind      Kind    `json:"kind"`
	Precision uint8   `json:"precision,omitempty"`
	Scale     uint8   `json:"scale,omitempty"`
	Elem      *Type   `json:"elem,omitempty"`
	Fields    []Field `json:"fields,omitempty"`
}

// Field is a named column of a Schema or of a Struct. Key marks the columns of
// the index key in a document schema; those are never null.
type Field struct {
	Name string `json:"name"`
	Type Type   `json:"type"`
	Key  bool   `json:"key,omitempty"`
}

// Of returns the type of a kind without parameters.
func Of(k Kind) Type { return Type{Kind: k} }

// DecimalOf returns decimal(precision, scale).
func DecimalOf(precision, scale int) Type {
	return Type{Kind: Decimal, Precision: uint8(precision), Scale: uint8(scale)}
}

// ListOf returns list<elem>.
func ListOf(elem Type) Type { return Type{Kind: List, Elem: &elem} }

// StructOf returns struct<fields>.
func StructOf(fields ...Field) Type { return Type{Kind: Struct, Fields: fields} }

// String is the type's name as it stands in manifests and messages, such as
// "int64", "decimal(12,2)", "list<string>", "struct<bid:double,status:string>".
func (t Type) String() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	case List:
		return "list<" + t.Elem.String() + ">"
	case Struct:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = f.Name + ":" + f.Type.String()
		}
		return "struct<" + strings.Join(parts, ",") + ">"
	}
	return t.Kind.String()
}

// Equal says whether the two are the same type, parameters included.
func (t Type) Equal(u Type) bool {
	if t.Kind != u.Kind || t.Precision != u.Precision || t.Scale != u.Scale || len(t.Fields) != len(u.Fields) {
		return false
	}
	if (t.Elem == nil) != (u.Elem == nil) || t.Elem != nil && !t.Elem.Equal(*u.Elem) {
		return false
	}
	for i := range t.Fields {
		if t.Fields[i].Name != u.Fields[i].Name || !t.Fields[i].Type.Equal(u.Fields[i].Type) {
			return false
		}
	}
	return true
}

// SameRepr says whether values of t and u have the same storage, the same
// order and the same canonical bytes: data of one serves as data of the other
// without conversion (int32 and int64, float and double, equal types). A
// Null column serves as any type.
func (t Type) SameRepr(u Type) bool {
	switch {
	case t.Kind == Null || u.Kind == Null:
		return true
	case t.IsInt() && u.IsInt(), t.IsFloat() && u.IsFloat():
		return true
	case t.Kind == Decimal && u.Kind == Decimal:
		return t.Scale == u.Scale
	case t.Kind == List && u.Kind == List:
		return t.Elem.SameRepr(*u.Elem)
	case t.Kind == Struct && u.Kind == Struct:
		if len(t.Fields) != len(u.Fields) {
			return false
		}
		for i := range t.Fields {
			if t.Fields[i].Name != u.Fields[i].Name || !t.Fields[i].Type.SameRepr(u.Fields[i].Type) {
				return false
			}
		}
		return true
	}
	return t.Kind == u.Kind
}

// Canonical is the type with the fields of its structs in the order of their
// names: the same for a set of values in whatever order they were met.
func (t Type) Canonical() Type {
	switch t.Kind {
	case List:
		return ListOf(t.Elem.Canonical())
	case Struct:
		fields := make([]Field, len(t.Fields))
		for i, f := range t.Fields {
			f.Type = f.Type.Canonical()
			fields[i] = f
		}
		slices.SortFunc(fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
		return StructOf(fields...)
	}
	return t
}

// IsInt says whether the kind is an integer.
func (t Type) IsInt() bool { return t.Kind == Int32 || t.Kind == Int64 }

// IsFloat says whether the kind is a binary floating-point number.
func (t Type) IsFloat() bool { return t.Kind == Float32 || t.Kind == Float64 }

// IsNumeric says whether the kind can be summed.
func (t Type) IsNumeric() bool { return t.IsInt() || t.IsFloat() || t.Kind == Decimal }

// Widen returns the narrowest type that holds every value of both without
// loss: null to anything, int32 to int64 to decimal, float to double, date to
// timestamp, decimals to the larger scale and integer part, lists and structs
// part by part. Any other pair is an error that names both types.
func Widen(a, b Type) (Type, error) {
	if a.Kind > b.Kind {
		a, b = b, a
	}
	no := func() (Type, error) { return Type{}, fmt.Errorf("%s and %s have no common type", a, b) }
	switch {
	case a.Kind == Null:
		return b, nil
	case a.Kind == Decimal && b.Kind == Decimal:
		return widenDecimal(int(a.Precision)-int(a.Scale), int(b.Precision)-int(b.Scale), int(a.Scale), int(b.Scale))
	case a.IsInt() && b.Kind == Decimal:
		digits := 19
		if a.Kind == Int32 {
			digits = 10
		}
		return widenDecimal(digits, int(b.Precision)-int(b.Scale), 0, int(b.Scale))
	case a.Kind == List && b.Kind == List:
		elem, err := Widen(*a.Elem, *b.Elem)
		if err != nil {
			return no()
		}
		return ListOf(elem), nil
	case a.Kind == Struct && b.Kind == Struct:
		return widenStruct(a, b)
	case a.Kind == b.Kind:
		return a, nil
	case a.Kind == Int32 && b.Kind == Int64, a.Kind == Float32 && b.Kind == Float64, a.Kind == Date && b.Kind == Timestamp:
		return b, nil
	}
	return no()
}

func widenDecimal(ia, ib, sa, sb int) (Type, error) {
	whole, scale := max(ia, ib), max(sa, sb)
	if whole+scale > 38 {
		return Type{}, fmt.Errorf("decimals with %d whole and %d fractional digits do not fit decimal(38,s)", whole, scale)
	}
	return DecimalOf(whole+scale, scale), nil
}

// widenStruct joins the fields by name, in the order of a, then those of b
// alone; a field that one side lacks is null there.
func widenStruct(a, b Type) (Type, error) {
	out := make([]Field, 0, len(a.Fields))
	for _, f := range a.Fields {
		for _, g := range b.Fields {
			if g.Name == f.Name {
				t, err := Widen(f.Type, g.Type)
				if err != nil {
					return Type{}, fmt.Errorf("field %s: %w", f.Name, err)
				}
				f.Type = t
			}
		}
		out = append(out, f)
	}
	for _, g := range b.Fields {
		known := false
		for _, f := range a.Fields {
			known = known || f.Name == g.Name
		}
		if !known {
			out = append(out, g)
		}
	}
	return StructOf(out...), nil
}
