package scan

import (
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
)

// Widen returns the type that holds the values of both types of objects of
// the format. It is column.Widen, and besides, because the text formats have
// literals and not types: in NDJSON and CSV an int64 and a double make a
// double (an integer that no double holds then makes its row bad), and in CSV
// anything and a string make a string (the cell's text as it stands).
func Widen(f Format, a, b column.Type) (column.Type, error) {
	if f != NDJSON && f != CSV {
		return column.Widen(a, b)
	}
	switch {
	case a.Kind == column.Null:
		return b, nil
	case b.Kind == column.Null:
		return a, nil
	case a.IsInt() && b.Kind == column.Float64, a.Kind == column.Float64 && b.IsInt():
		return column.Of(column.Float64), nil
	case f == CSV && a.Kind != b.Kind && csvScalar(a) && csvScalar(b):
		return column.Of(column.String), nil
	case a.Kind == column.List && b.Kind == column.List:
		elem, err := Widen(f, *a.Elem, *b.Elem)
		if err != nil {
			return column.Type{}, fmt.Errorf("list element: %w", err)
		}
		return column.ListOf(elem), nil
	case a.Kind == column.Struct && b.Kind == column.Struct:
		return widenStruct(f, a, b)
	}
	return column.Widen(a, b)
}

// csvScalar says whether the type is one that a CSV cell can show.
func csvScalar(t column.Type) bool {
	return t.Kind == column.Bool || t.Kind == column.Int64 || t.Kind == column.Float64 || t.Kind == column.String
}

// maxFields bounds the fields of a struct in a text format: an object whose
// keys are data (a map) would otherwise grow its type without end.
const maxFields = 4096

var errFields = fmt.Errorf("a struct of more than %d fields", maxFields)

// widenStruct joins fields by name, those of a first.
func widenStruct(f Format, a, b column.Type) (column.Type, error) {
	at := make(map[string]int, len(a.Fields)+len(b.Fields))
	out := make([]column.Field, len(a.Fields), len(a.Fields)+len(b.Fields))
	copy(out, a.Fields)
	for i, x := range out {
		at[x.Name] = i
	}
	for _, y := range b.Fields {
		i, ok := at[y.Name]
		if !ok {
			if len(out) == maxFields {
				return column.Type{}, errFields
			}
			at[y.Name] = len(out)
			out = append(out, y)
			continue
		}
		t, err := Widen(f, out[i].Type, y.Type)
		if err != nil {
			return column.Type{}, fmt.Errorf("field %s: %w", y.Name, err)
		}
		out[i].Type = t
	}
	return column.StructOf(out...), nil
}

// fits says, as an error, why values of type have cannot be delivered as want.
func fits(f Format, have, want column.Type) error {
	if want.Kind == column.Null {
		return nil
	}
	w, err := Widen(f, want, have)
	if err != nil {
		return fmt.Errorf("is %s, which does not widen to %s", have, want)
	}
	if !w.Equal(want) {
		return fmt.Errorf("is %s, which does not fit %s", have, want)
	}
	return nil
}
