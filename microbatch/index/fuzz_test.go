package index

import (
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
)

// FuzzExpression: any text is an error or an expression, and that one an error
// or a value of its type, for values and for nulls.
func FuzzExpression(f *testing.F) {
	for _, s := range []string{
		"country != 'XX'", "views > 0 ? clicks / views : nil", "op == 'D'", "offer.price * 2 + int(a)", `let x = a; x ?? "none"`,
		"date(s).Year()", "tags[0] in ['a', 'b']", "filter(tags, # != '')", "s matches '^a+$'", "-9223372036854775808 % a", "a.b?.c", "len(s) ** 2", "now()",
	} {
		f.Add(s, int64(3), "x", 1.5)
	}
	f.Fuzz(func(t *testing.T, source string, i int64, s string, d float64) {
		if len(source) > 64 { // a long one can ask for work without end
			return
		}
		e, err := parseExpression(source)
		if err != nil {
			return
		}
		if len(e.paths) > 8 || strings.Contains(source, "repeat") || strings.Contains(source, "..") {
			return
		}
		c, err := e.bind(func(path string) column.Type { return operand(path).Type }, false)
		if err != nil {
			return
		}
		for _, null := range []bool{false, true} {
			for k, p := range e.paths {
				v := operand(p)
				switch {
				case null:
					v.AppendNull()
				case v.Type.Kind == column.Int64:
					v.AppendInt(i)
				case v.Type.Kind == column.Float64:
					v.AppendFloat(d)
				case v.Type.Kind == column.String:
					v.AppendString(strings.ToValidUTF8(s, ""))
				case v.Type.Kind == column.Timestamp:
					v.AppendTimestamp(i%(1<<33), 0)
				default:
					v.Elem.AppendString(strings.ToValidUTF8(s, ""))
					v.EndList()
				}
				c.set(k, v, 0)
			}
			value, err := c.eval()
			if err != nil {
				continue
			}
			if out := column.New(c.out); unbox(value, out) == nil && out.Len() != 1 {
				t.Fatalf("%q gave %d values", source, out.Len())
			}
		}
	})
}

// operand makes up an empty column of a type for a name.
func operand(path string) *column.Vector {
	types := []column.Type{column.Of(column.Int64), column.Of(column.Float64), column.Of(column.String), column.Of(column.Timestamp), column.ListOf(column.Of(column.String))}
	n := 0
	for _, b := range []byte(path) {
		n += int(b)
	}
	return column.New(types[n%len(types)])
}

// FuzzEventTime: any text is an error or an instant that its canonical text
// gives again.
func FuzzEventTime(f *testing.F) {
	for _, s := range []string{"2026-11-30T03:04:05Z", "2026-11-30T03:04:05.123456789+05:30", "0001-01-01T00:00:00Z", "9999-12-31T23:59:60Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v := column.New(column.Of(column.String))
		v.AppendString(s)
		seconds, nanos, err := instant(v, 0, "")
		if err != nil {
			return
		}
		if nanos < 0 || nanos > 999_999_999 {
			t.Fatalf("%q has %d nanoseconds", s, nanos)
		}
		at := column.New(column.Of(column.Timestamp))
		at.AppendTimestamp(seconds, nanos)
		back := column.New(column.Of(column.String))
		back.AppendString(at.Instant(0).Format("2006-01-02T15:04:05.999999999Z07:00"))
		if year := at.Instant(0).Year(); year < 0 || year > 9999 {
			return // an offset took it over the edge of what the text can say
		}
		if s2, n2, err := instant(back, 0, ""); err != nil || s2 != seconds || n2 != nanos {
			t.Fatalf("%q is %d.%09d, its text %q is %d.%09d, %v", s, seconds, nanos, back.Strings[0], s2, n2, err)
		}
	})
}
