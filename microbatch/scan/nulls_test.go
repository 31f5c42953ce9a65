package scan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/deltad/deltad/microbatch/column"
)

// TestTypesWithoutValuesFitAnything: As must hold what values have of a column's
// type, and nothing else of it.
func TestTypesWithoutValuesFitAnything(t *testing.T) {
	type in struct {
		A *int64   `parquet:"a,optional"`
		B *[]byte  `parquet:"b,optional"`
		L []*int32 `parquet:"l,list"`
	}
	type row struct {
		Int  *int64  `parquet:"int,optional"`
		Text *string `parquet:"text,optional,dict"`
		List []int64 `parquet:"list,list"`
		In   *in     `parquet:"in,optional"`
		Rows int64   `parquet:"rows"`
	}
	one, word := int64(1), "w"
	nulls := make([]row, 2*batchRows)
	late := slices.Clone(nulls)
	late[len(late)-1] = row{Int: &one, Text: &word, List: []int64{1}, In: &in{A: &one}}
	sparse := slices.Clone(nulls)
	sparse[3].In = &in{L: []*int32{nil}}
	whole := column.StructOf(column.Field{Name: "a", Type: column.Of(column.Int64)}, column.Field{Name: "b", Type: column.Of(column.Bytes)},
		column.Field{Name: "l", Type: column.ListOf(column.Of(column.Int32))})
	fields := func(a, b, l column.Type) column.Type {
		out := column.StructOf(slices.Clone(whole.Fields)...)
		out.Fields[0].Type, out.Fields[1].Type, out.Fields[2].Type = a, b, l
		return out
	}
	text, null := column.Of(column.String), column.Type{}
	for _, tt := range []struct {
		name, path string
		rows       []row
		as         column.Type
		nulls      bool
		seen       column.Type
		misfit     string
	}{
		{"nulls as another type", "int", nulls, text, false, null, ""},
		{"nulls as a list", "int", nulls, column.ListOf(text), false, null, ""},
		{"nulls as a struct", "text", nulls, whole, false, null, ""},
		{"nulls as a narrower type", "int", nulls, column.Of(column.Int32), false, null, ""},
		{"nulls as nothing", "int", nulls, null, true, null, ""},
		{"empty lists are values", "list", nulls, text, false, null, "is list<int64>, which does not widen to string"},
		{"empty lists of another type", "list", nulls, column.ListOf(text), false, column.ListOf(null), ""},
		{"a null struct", "in", nulls, text, false, null, ""},
		{"a struct of nulls", "in", sparse, fields(text, text, column.ListOf(whole)), false, fields(null, null, column.ListOf(null)), ""},
		{"a struct is a value", "in", sparse, text, false, null, "which does not widen to string"},
		{"a value in the last row", "int", late, text, false, null, "column int: is int64, which does not widen to string"},
		{"a value that would wrap", "int", late, column.Of(column.Int32), false, null, "column int: is int64, which does not fit int32"},
		{"a value of a dictionary", "text", late, column.Of(column.Int64), false, null, "column text: is string, which does not widen to int64"},
		{"a value and nothing", "int", late, null, true, null, "column int: is int64, where no value was expected"},
		{"an element", "list", late, column.ListOf(text), false, null, "is list<int64>, which does not widen to list<string>"},
		{"a field with a value beside others", "in", late, fields(column.Of(column.Int64), text, column.ListOf(text)), false,
			fields(column.Of(column.Int64), null, column.ListOf(null)), ""},
		{"a field with a value", "in", late, fields(text, text, column.ListOf(text)), false, null, "which does not widen to struct"},
		{"as it is", "in", late, null, false, fields(column.Of(column.Int64), null, column.ListOf(null)), ""},
		{"nothing but values", "rows", late, null, false, column.Of(column.Int64), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := write(t, tt.rows)
			req := Request{Format: Parquet, Columns: []Column{{Path: tt.path, As: tt.as, Nulls: tt.nulls}}}
			out, res, err := rows(&memBlob{key: "f", data: data}, req)
			if tt.misfit != "" {
				wantError(t, err, "scan f", tt.misfit)
				if !errors.Is(err, ErrMisfit) {
					t.Errorf("%v is no misfit", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			plain, _ := mustRows(t, &memBlob{key: "f", data: data}, Request{Format: Parquet, Columns: paths(tt.path)})
			if len(out) != len(plain) || tt.path != "in" && strings.Join(out, "\n") != strings.Join(plain, "\n") {
				t.Errorf("%q, want %q", out, plain)
			}
			if !res.Seen[0].Equal(tt.seen) {
				t.Errorf("seen %s, want %s", res.Seen[0], tt.seen)
			}
		})
	}
}

// TestColumnsOfTypeNull: as writers have them, beside any type.
func TestColumnsOfTypeNull(t *testing.T) {
	crafted := func(phys format.Type) []byte {
		return oneColumn(t, logical(leafElem("n", phys, format.Optional), &format.NullType{}), 3, []byte{2, 0, 0, 0, 3 << 1, 0})
	}
	var buf strings.Builder
	w := parquet.NewWriter(&buf, parquet.NewSchema("row", parquet.Group{"n": parquet.Optional(parquet.Leaf(parquet.NullType))}))
	for range 3 {
		if _, err := w.WriteRows([]parquet.Row{{parquet.NullValue()}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	struc := column.StructOf(column.Field{Name: "a", Type: column.Of(column.String)})
	for name, data := range map[string][]byte{"int32": crafted(format.Int32), "bytes": crafted(format.ByteArray), "parquet-go": []byte(buf.String())} {
		for _, as := range []column.Type{{}, column.Of(column.String), column.DecimalOf(9, 2), column.ListOf(struc), struc} {
			t.Run(fmt.Sprint(name, " as ", as), func(t *testing.T) {
				out, res := mustRows(t, &memBlob{key: "f", data: data}, Request{Format: Parquet, Columns: []Column{{Path: "n", As: as}}})
				if strings.Join(out, " ") != "null null null" || res.Observed[0].Kind != column.Null || res.Seen[0].Kind != column.Null {
					t.Errorf("%q, observed %s, seen %s", out, res.Observed[0], res.Seen[0])
				}
			})
		}
	}
}
