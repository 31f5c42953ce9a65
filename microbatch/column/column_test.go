package column_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// anyType draws a type at most two levels deep.
func anyType(depth int) *rapid.Generator[column.Type] {
	return rapid.Custom(func(t *rapid.T) column.Type {
		k := column.Kind(rapid.IntRange(int(column.Null), int(column.Struct)).Draw(t, "kind"))
		switch {
		case k == column.Decimal:
			p := rapid.IntRange(1, 38).Draw(t, "precision")
			return column.DecimalOf(p, rapid.IntRange(0, p).Draw(t, "scale"))
		case k == column.List && depth > 0:
			return column.ListOf(anyType(depth-1).Draw(t, "elem"))
		case k == column.Struct && depth > 0:
			var fields []column.Field
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID).Draw(t, "names") {
				fields = append(fields, column.Field{Name: name, Type: anyType(depth-1).Draw(t, name)})
			}
			return column.StructOf(fields...)
		case k >= column.List:
			k = column.Int64
		}
		return column.Of(k)
	})
}

// TestWidenLaws: widening is a join. The order of struct fields is the one
// thing that the order of its arguments decides, and Canonical takes it out.
func TestWidenLaws(t *testing.T) {
	joined := 0
	rapid.Check(t, func(rt *rapid.T) {
		a, b, c := anyType(2).Draw(rt, "a"), anyType(2).Draw(rt, "b"), anyType(2).Draw(rt, "c")
		ab, err := column.Widen(a, b)
		ba, rerr := column.Widen(b, a)
		if (err == nil) != (rerr == nil) {
			rt.Fatalf("%s and %s: %v; the other way round: %v", a, b, err, rerr)
		}
		if same, err := column.Widen(a, a); err != nil || !same.Equal(a) {
			rt.Fatalf("%s with itself is %s, %v", a, same, err)
		}
		if with, err := column.Widen(column.Type{}, a); err != nil || !with.Equal(a) {
			rt.Fatalf("%s with null is %s, %v", a, with, err)
		}
		if err != nil {
			return
		}
		joined++
		if !ab.Canonical().Equal(ba.Canonical()) {
			rt.Fatalf("%s and %s: %s; the other way round: %s", a, b, ab, ba)
		}
		if again, err := column.Widen(ab, a); err != nil || !again.Equal(ab) {
			rt.Fatalf("%s does not hold %s: %s, %v", ab, a, again, err)
		}
		left, err := column.Widen(ab, c)
		if err != nil {
			return
		}
		if bc, err := column.Widen(b, c); err == nil {
			if right, err := column.Widen(a, bc); err == nil && !left.Canonical().Equal(right.Canonical()) {
				rt.Fatalf("%s, %s, %s: %s or %s", a, b, c, left, right)
			}
		}
	})
	if joined == 0 {
		t.Error("no pair widened")
	}
}

func TestWidenTable(t *testing.T) {
	of := column.Of
	for _, c := range []struct {
		a, b column.Type
		want string // empty: refused
	}{
		{of(column.Int32), of(column.Int64), "int64"},
		{of(column.Float32), of(column.Float64), "double"},
		{of(column.Date), of(column.Timestamp), "timestamp"},
		{of(column.Int32), column.DecimalOf(5, 2), "decimal(12,2)"},
		{of(column.Int64), column.DecimalOf(20, 2), "decimal(21,2)"},
		{of(column.Int64), column.DecimalOf(38, 20), ""},
		{column.DecimalOf(10, 2), column.DecimalOf(12, 6), "decimal(14,6)"},
		{column.DecimalOf(38, 0), column.DecimalOf(38, 38), ""},
		{of(column.Int64), of(column.Float64), ""},
		{of(column.String), of(column.Int64), ""},
		{of(column.String), of(column.Bytes), ""},
		{of(column.Bool), of(column.Int32), ""},
		{column.ListOf(column.Type{}), column.ListOf(of(column.String)), "list<string>"},
		{column.ListOf(of(column.Int64)), of(column.Int64), ""},
		{column.StructOf(column.Field{Name: "a", Type: of(column.Int32)}), column.StructOf(column.Field{Name: "b", Type: of(column.Bool)}), "struct<a:int32,b:bool>"},
		{column.StructOf(column.Field{Name: "a", Type: of(column.Int32)}), column.StructOf(column.Field{Name: "a", Type: of(column.String)}), ""},
	} {
		t.Run(c.a.String()+" and "+c.b.String(), func(t *testing.T) {
			got, err := column.Widen(c.a, c.b)
			if c.want == "" {
				if err == nil {
					t.Errorf("became %s", got)
				}
				return
			}
			if err != nil || got.String() != c.want {
				t.Errorf("%s, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestCanonicalSortsEveryLevel(t *testing.T) {
	inner := func(names ...string) column.Type {
		var fields []column.Field
		for _, n := range names {
			fields = append(fields, column.Field{Name: n, Type: column.Of(column.Int64)})
		}
		return column.StructOf(fields...)
	}
	typ := column.StructOf(column.Field{Name: "z", Type: column.ListOf(inner("b", "a"))}, column.Field{Name: "c", Type: inner("y", "x")})
	const want = "struct<c:struct<x:int64,y:int64>,z:list<struct<a:int64,b:int64>>>"
	if got := typ.Canonical().String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if typ.Fields[0].Name != "z" || typ.Fields[0].Type.Elem.Fields[0].Name != "b" {
		t.Error("the argument was changed")
	}
}

func TestInt128RoundTrip(t *testing.T) {
	limit := new(big.Int).Lsh(big.NewInt(1), 127)
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) *big.Int {
			b := new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 17).Draw(rt, name))
			if rapid.Bool().Draw(rt, name+" negative") {
				b.Neg(b)
			}
			return b
		}
		a, b := draw("a"), draw("b")
		x, ok := column.Int128FromBig(a)
		// The least value of two's complement is left out: no decimal needs it.
		if inside := new(big.Int).Abs(a).Cmp(limit) < 0; ok != inside {
			rt.Fatalf("%s: fits %v, want %v", a, ok, inside)
		}
		y, both := column.Int128FromBig(b)
		if !ok || !both {
			return
		}
		if x.Big().Cmp(a) != 0 || x.Cmp(y) != a.Cmp(b) {
			rt.Fatalf("%s became %s; compared to %s: %d, want %d", a, x.Big(), b, x.Cmp(y), a.Cmp(b))
		}
	})
	for _, v := range []int64{0, 1, -1, 1<<63 - 1, -1 << 63} {
		if got := column.Int128From(v).Big(); !got.IsInt64() || got.Int64() != v {
			t.Errorf("%d became %s", v, got)
		}
	}
}

// fill appends a row of the type, null now and then, and returns its text.
func fill(t *rapid.T, v *column.Vector) string {
	if rapid.IntRange(0, 4).Draw(t, "null") == 0 || v.Type.Kind == column.Null {
		v.AppendNull()
		return "null"
	}
	n := rapid.Int64Range(-1000, 1000).Draw(t, "value")
	switch v.Type.Kind {
	case column.Bool:
		v.AppendBool(n > 0)
		return fmt.Sprint(n > 0)
	case column.Float32, column.Float64:
		v.AppendFloat(float64(n))
	case column.Decimal:
		v.AppendDecimal(column.Int128From(n))
	case column.String, column.Bytes:
		v.AppendString(fmt.Sprint(n))
	case column.Timestamp:
		v.AppendTimestamp(n, int32(n*n))
		return fmt.Sprint(n, n*n)
	case column.List:
		var parts []string
		for range rapid.IntRange(0, 2).Draw(t, "length") {
			parts = append(parts, fill(t, v.Elem))
		}
		v.EndList()
		return "[" + strings.Join(parts, " ") + "]"
	case column.Struct:
		var parts []string
		for i, f := range v.Type.Fields {
			parts = append(parts, f.Name+":"+fill(t, v.Fields[i]))
		}
		v.EndStruct()
		return "{" + strings.Join(parts, " ") + "}"
	default:
		v.AppendInt(n)
	}
	return fmt.Sprint(n)
}

// show is the text of a row.
func show(v *column.Vector, i int) string {
	if v.Null(i) {
		return "null"
	}
	switch v.Type.Kind {
	case column.Bool:
		return fmt.Sprint(v.Bools[i])
	case column.Float32, column.Float64:
		return fmt.Sprint(v.Floats[i])
	case column.Decimal:
		return v.Decimals[i].Big().String()
	case column.String, column.Bytes:
		return v.Strings[i]
	case column.Timestamp:
		return fmt.Sprint(v.Ints[i], v.Nanos[i])
	case column.List:
		var parts []string
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			parts = append(parts, show(v.Elem, int(j)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case column.Struct:
		var parts []string
		for k, f := range v.Type.Fields {
			parts = append(parts, f.Name+":"+show(v.Fields[k], i))
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	return fmt.Sprint(v.Ints[i])
}

// TestVectorKeepsWhatIsAppended, copies it row by row, and is empty after
// Reset.
func TestVectorKeepsWhatIsAppended(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		typ := anyType(2).Draw(rt, "type")
		v, copied := column.New(typ), column.New(typ)
		for range 2 {
			var want []string
			for range rapid.IntRange(0, 8).Draw(rt, "rows") {
				want = append(want, fill(rt, v))
			}
			for i := range want {
				if err := copied.AppendFrom(v, i); err != nil {
					rt.Fatal(err)
				}
			}
			if v.Len() != len(want) || copied.Len() != len(want) {
				rt.Fatalf("%d and %d rows, want %d", v.Len(), copied.Len(), len(want))
			}
			for i := range want {
				if show(v, i) != want[i] || show(copied, i) != want[i] {
					rt.Fatalf("%s row %d: %s, copied %s, want %s", typ, i, show(v, i), show(copied, i), want[i])
				}
			}
			v.Reset()
			copied.Reset()
			if v.Len() != 0 {
				rt.Fatal("not empty after Reset")
			}
		}
	})
}

func TestAppendFromWidens(t *testing.T) {
	ints, dates := column.New(column.Of(column.Int32)), column.New(column.Of(column.Date))
	ints.AppendInt(-7)
	dates.AppendInt(1)
	small := column.New(column.DecimalOf(3, 1))
	small.AppendDecimal(column.Int128From(-125))
	grown := column.New(column.StructOf(column.Field{Name: "a", Type: column.Of(column.Int64)}))
	grown.Fields[0].AppendInt(5)
	grown.EndStruct()
	for _, c := range []struct {
		name string
		from *column.Vector
		to   column.Type
		want string // empty: refused
	}{
		{"int32 to int64", ints, column.Of(column.Int64), "-7"},
		{"int32 to decimal", ints, column.DecimalOf(12, 2), "-700"},
		{"date to timestamp", dates, column.Of(column.Timestamp), "86400 0"},
		{"decimal to a larger scale", small, column.DecimalOf(10, 3), "-12500"},
		{"decimal to a smaller scale", small, column.DecimalOf(10, 0), ""},
		{"decimal beyond 128 bits", small, column.DecimalOf(38, 38), ""},
		{"struct with a new field", grown, column.StructOf(column.Field{Name: "b", Type: column.Of(column.Bool)}, column.Field{Name: "a", Type: column.DecimalOf(20, 1)}), "{b:null a:50}"},
		{"int to string", ints, column.Of(column.String), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := column.New(c.to)
			err := to.AppendFrom(c.from, 0)
			if c.want == "" {
				if err == nil {
					t.Errorf("became %s", show(to, 0))
				}
				return
			}
			if err != nil || show(to, 0) != c.want {
				t.Errorf("%v, %v, want %s", to, err, c.want)
			}
		})
	}
}

// TestAppendRowsIsAppendFrom holds adding several rows at once to adding one after
// the other, between types of all pairs and into vectors with and without nulls.
func TestAppendRowsIsAppendFrom(t *testing.T) {
	refused, taken := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		from := anyType(1).Draw(rt, "from")
		to := from
		if rapid.IntRange(0, 2).Draw(rt, "other") == 0 {
			to = anyType(1).Draw(rt, "to")
		}
		src, one, all := column.New(from), column.New(to), column.New(to)
		full := from.Kind != column.Null && rapid.Bool().Draw(rt, "no nulls")
		for n := rapid.IntRange(1, 5).Draw(rt, "rows"); src.Len() < n; {
			if fill(rt, src) == "null" && full {
				src.Reset()
			}
		}
		for range rapid.IntRange(1, 3).Draw(rt, "calls") {
			rows := rapid.SliceOfN(rapid.Int32Range(0, int32(src.Len()-1)), 0, 9).Draw(rt, "picked")
			var err error
			for _, i := range rows {
				if err = one.AppendFrom(src, int(i)); err != nil {
					break
				}
			}
			if got := all.AppendRows(src, rows); fmt.Sprint(got) != fmt.Sprint(err) {
				rt.Fatalf("%s to %s: %v, want %v", from, to, got, err)
			}
			if err != nil {
				refused++
				return
			}
			taken++
			if one.Len() != all.Len() || (one.Valid == nil) != (all.Valid == nil) {
				rt.Fatalf("%s to %s: %d rows, want %d", from, to, all.Len(), one.Len())
			}
			for i := range one.Len() {
				if show(all, i) != show(one, i) {
					rt.Fatalf("%s to %s, row %d: %s, want %s", from, to, i, show(all, i), show(one, i))
				}
			}
			if rapid.Bool().Draw(rt, "reset") {
				one.Reset()
				all.Reset()
			}
		}
	})
	if refused == 0 || taken == 0 {
		t.Errorf("%d refused, %d taken: nothing was compared", refused, taken)
	}
}
