package parquet

import (
	"reflect"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
)

func TestTypesReadBack(t *testing.T) {
	for _, f := range everyType() {
		got, err := ParseType(f.Type.String())
		if err != nil || !got.Equal(f.Type) {
			t.Errorf("%s: got %s, %v", f.Type, got, err)
		}
	}
	for _, s := range []string{"", "int", "list<", "list<int64", "struct<a>", "struct<:int64>", "decimal(39,1)", "decimal(3,4)", "int64x", "list<int64>>"} {
		if got, err := ParseType(s); err == nil {
			t.Errorf("%q taken for %s", s, got)
		}
	}
	schema := SchemaFields(everyType())
	back, err := Fields(schema)
	if err != nil || !reflect.DeepEqual(back, everyType()) {
		t.Errorf("%v, %v", back, err)
	}
	schema.Fields[2].Name = "zz"
	if _, err := Fields(schema); err == nil {
		t.Error("a schema with another hash was taken")
	}
}

func TestKeyTexts(t *testing.T) {
	for _, tc := range []struct {
		typ         column.Type
		in, want    string
		unwritable  bool
		otherwrites []string
	}{
		{typ: column.Of(column.Bool), in: "true", want: "true"},
		{typ: column.Of(column.Int64), in: "+5", want: "5"},
		{typ: column.Of(column.Int32), in: "2147483648", unwritable: true},
		{typ: column.Of(column.Float64), in: "1e3", want: "1000"},
		{typ: column.Of(column.Float64), in: "-0", want: "0"},
		{typ: column.Of(column.Float64), in: "0.1", want: "0.1"},
		{typ: column.Of(column.Float32), in: "0.1", want: "0.10000000149011612"},
		{typ: column.Of(column.Float32), in: "0.10000000149011612", want: "0.10000000149011612"},
		{typ: column.Of(column.Float32), in: "1e39", unwritable: true},
		{typ: column.Of(column.Float64), in: "nan", want: "NaN"},
		{typ: column.DecimalOf(12, 2), in: "12.5", want: "12.50"},
		{typ: column.DecimalOf(12, 2), in: "-.05", want: "-0.05"},
		{typ: column.DecimalOf(12, 2), in: "1.005", unwritable: true},
		{typ: column.DecimalOf(3, 0), in: "1000", unwritable: true},
		{typ: column.DecimalOf(3, 0), in: "", unwritable: true},
		{typ: column.Of(column.String), in: "a=b c%", want: "a=b c%"},
		{typ: column.Of(column.Bytes), in: "00FF", want: "00ff"},
		{typ: column.Of(column.Date), in: "1969-12-31", want: "1969-12-31"},
		{typ: column.Of(column.Time), in: "23:59:59.5", want: "23:59:59.5"},
		{typ: column.Of(column.Timestamp), in: "2026-11-30T10:00:00+01:00", want: "2026-11-30T09:00:00Z"},
		{typ: column.Of(column.Timestamp), in: "0001-01-01T00:00:00.000001Z", want: "0001-01-01T00:00:00.000001Z"},
		{typ: column.Of(column.Timestamp), in: "10 o'clock", unwritable: true},
	} {
		got, err := keyText(tc.typ, tc.in)
		if tc.unwritable != (err != nil) || got != tc.want {
			t.Errorf("%s %q: %q, %v", tc.typ, tc.in, got, err)
		}
	}
}

// keyText brings what someone wrote for a key column of the type into the form
// that KeyText gives.
func keyText(typ column.Type, written string) (string, error) {
	row, err := KeyRow([]column.Field{{Name: "k", Type: typ, Key: true}}, []string{written})
	if err != nil {
		return "", err
	}
	return KeyText(row.Columns[0], 0), nil
}

func FuzzParseType(f *testing.F) {
	for _, fl := range everyType() {
		f.Add(fl.Type.String())
	}
	f.Fuzz(func(t *testing.T, s string) {
		typ, err := ParseType(s)
		if err != nil {
			return
		}
		back, err := ParseType(typ.String())
		if err != nil || !back.Equal(typ) {
			t.Errorf("%q reads as %s, which reads as %s, %v", s, typ, back, err)
		}
	})
}
