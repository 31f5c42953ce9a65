package index_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
)

func compile(t testing.TB, s index.Spec) *index.Program {
	t.Helper()
	p, err := index.Compile(s, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// batch makes a batch of the program's columns from rows by column name; a
// missing or nil value is null.
func batch(t testing.TB, p *index.Program, types map[string]column.Type, rows ...map[string]any) (*column.Batch, []column.Type) {
	t.Helper()
	var kinds []column.Type
	b := &column.Batch{Len: len(rows)}
	for _, c := range p.Columns() {
		v := column.New(types[c.Path])
		for _, r := range rows {
			switch x := r[c.Path].(type) {
			case nil:
				v.AppendNull()
			case int:
				v.AppendInt(int64(x))
			case float64:
				v.AppendFloat(x)
			case string:
				v.AppendString(x)
			case bool:
				v.AppendBool(x)
			case time.Time:
				v.AppendTimestamp(x.Unix(), int32(x.Nanosecond()))
			default:
				t.Fatalf("no column for a %T", x)
			}
		}
		kinds, b.Columns = append(kinds, types[c.Path]), append(b.Columns, v)
	}
	return b, kinds
}

// documents lifts the rows into one table and extracts every key.
func documents(t testing.TB, p *index.Program, types map[string]column.Type, rows ...map[string]any) (docs, dead *column.Batch, err error) {
	t.Helper()
	b, kinds := batch(t, p, types, rows...)
	bound, err := p.Bind(kinds)
	if err != nil {
		return nil, nil, err
	}
	tab := table.New(bound.Shape())
	l, err := bound.NewLifter(tab, start)
	if err != nil {
		return nil, nil, err
	}
	if _, err := l.Add(b, 0); err != nil {
		return nil, nil, err
	}
	x, err := bound.NewExtractor(nil)
	if err != nil {
		return nil, nil, err
	}
	keys := make([][]byte, tab.Len())
	for g := range keys {
		keys[g] = slices.Clone(tab.Key(uint32(g)))
	}
	docs, dead = column.NewBatch(bound.Schema()), column.NewBatch(bound.Shape().Keys)
	return docs, dead, x.Extract(keys, tab.Columns(), docs, dead)
}

var start = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

func types() map[string]column.Type {
	return map[string]column.Type{
		"k": column.Of(column.String), "ts": column.Of(column.Timestamp), "n": column.Of(column.Int64), "f": column.Of(column.Float64),
		"s": column.Of(column.String), "op": column.Of(column.String), "flag": column.Of(column.Bool),
	}
}

func TestCompileReportsEveryProblem(t *testing.T) {
	_, err := index.Compile(index.Spec{
		Key: []string{"k", "k"}, Where: "n >", DeleteWhen: "now() > ts",
		Fields: []index.FieldSpec{
			{Name: "a", Fn: "tdigest", Args: []string{"n"}},
			{Name: "b", Fn: "nothing", Args: []string{"n"}},
			{Name: "k", Fn: "count", Args: []string{"*"}},
			{Name: "c", Expr: "later + 1"},
			{Name: "d", Fn: "collect", Args: []string{"s"}, Fields: []index.FieldSpec{{Name: "e", Expr: "1"}}},
			{Name: "g", Fn: "sum", Args: []string{"n", "f"}},
			{Name: "h", Fn: "latest", Args: []string{"s"}, Params: map[string]any{"cap": 1}},
		},
	}, combine.Builtins())
	if err == nil {
		t.Fatal("everything was accepted")
	}
	for _, want := range []string{
		"k is named twice", `parse expression "n >"`, "now is not a function of the record", "tdigest is not offered: t-digest",
		`there is no combine fn "nothing"`, "index.fields.k: the name is taken", `"later" is neither a key column nor an earlier field`,
		"index.fields.d.fields.e", "index.fields.g: sum: 2 arguments given, it takes 1", "index.fields.h: latest: unknown option cap, it takes nulls",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestColumnsAreWhatIsReadAndSorted(t *testing.T) {
	p := compile(t, index.Spec{
		Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, Where: "offer.country == 'XX' and len(tags) > 0 and not (offer?.dead)",
		DeleteWhen: "op == 'D'",
		Fields: []index.FieldSpec{
			{Name: "a", Fn: "sum", Args: []string{"n"}, Where: "let z = n; z > 1", Optional: true},
			{Name: "b", Fn: "latest", Args: []string{"s"}, Optional: true},
			{Name: "c", Fn: "collect", Args: []string{"id"}, Fields: []index.FieldSpec{{Name: "x", Fn: "max", Args: []string{"f"}}}},
			{Name: "d", Expr: "a * 2"},
		},
	})
	var got []string
	for _, c := range p.Columns() {
		got = append(got, fmt.Sprintf("%s optional=%v numeric=%v", c.Path, c.Optional, c.Numeric))
	}
	want := []string{
		"f optional=false numeric=false", "id optional=false numeric=false", "k optional=false numeric=false",
		"n optional=false numeric=true", "offer.country optional=false numeric=false", "offer.dead optional=false numeric=false",
		"op optional=false numeric=false", "s optional=true numeric=false", "tags optional=false numeric=false", "ts optional=false numeric=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("columns\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNullInExpressions(t *testing.T) {
	p := compile(t, index.Spec{
		Key: []string{"k"}, Where: "n > 0",
		Fields: []index.FieldSpec{
			{Name: "rows", Fn: "count", Args: []string{"*"}},
			{Name: "f", Fn: "sum", Args: []string{"f"}},
			{Name: "twice", Expr: "f * 2"},
			{Name: "safe", Expr: "f == nil ? -1.0 : f"},
		},
	})
	docs, _, err := documents(t, p, types(), map[string]any{"k": "a", "n": 1}, map[string]any{"k": "a"}, map[string]any{"k": "b", "n": 0})
	if err != nil {
		t.Fatal(err)
	}
	if docs.Len != 1 || docs.Columns[1].Ints[0] != 1 {
		t.Fatalf("%d documents, %v rows: a filter that is null or false must not select", docs.Len, docs.Columns[1].Ints)
	}
	if !docs.Columns[3].Null(0) || docs.Columns[4].Floats[0] != -1 {
		t.Errorf("twice is null: %v, safe is %v", docs.Columns[3].Null(0), docs.Columns[4].Floats)
	}
}

// TestEqualityWithNull: == and != of null are null for every type, so they do
// not select, and a delete_when that compares a null does not say anything.
func TestEqualityWithNull(t *testing.T) {
	for _, c := range []struct {
		where string
		rows  int64
	}{
		{"s != 'no'", 1}, {"s == 'yes'", 1}, {"n != 3", 1}, {"n == 4", 1}, {"f != 0.5", 1}, {"flag != true", 1}, {"not (flag == true)", 1},
		{"s != op", 1}, {"s == nil", 1}, {"s != nil", 1}, {"n == nil or n != 3", 2}, {"(n != 3) and true", 1},
	} {
		t.Run(c.where, func(t *testing.T) {
			p := compile(t, index.Spec{Key: []string{"k"}, Where: c.where, Fields: []index.FieldSpec{{Name: "rows", Fn: "count", Args: []string{"*"}}}})
			docs, _, err := documents(t, p, types(), map[string]any{"k": "a"},
				map[string]any{"k": "a", "s": "yes", "op": "U", "n": 4, "f": 1.5, "flag": false})
			if err != nil || docs.Len != 1 || docs.Columns[1].Ints[0] != c.rows {
				t.Errorf("%d documents, %v, rows %v, want %d", docs.Len, err, docs.Columns[1].Ints, c.rows)
			}
		})
	}
	p := compile(t, index.Spec{Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "n == 1",
		Fields: []index.FieldSpec{{Name: "rows", Fn: "count", Args: []string{"*"}}}})
	docs, dead, err := documents(t, p, types(), map[string]any{"k": "a", "ts": start, "n": 1}, map[string]any{"k": "a", "ts": start.Add(time.Second)})
	if err != nil || docs.Len != 0 || dead.Len != 1 {
		t.Errorf("%d documents, %d tombstones, %v: a record that says nothing brought the key back", docs.Len, dead.Len, err)
	}
}

func TestExpressionThatFailsNamesKeyAndField(t *testing.T) {
	p := compile(t, index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{
		{Name: "s", Fn: "latest", Args: []string{"s"}}, {Name: "number", Expr: "int(s)"},
	}})
	_, _, err := documents(t, p, types(), map[string]any{"k": "bad one", "s": "twelve"})
	if err == nil || !strings.Contains(err.Error(), "k=bad one") || !strings.Contains(err.Error(), "field number") {
		t.Errorf("error %v", err)
	}
}

// TestOverflowNamesItsPlace: the field, or the filter, and the operation.
func TestOverflowNamesItsPlace(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		change     func(s *index.Spec)
	}{
		{"derived", `key k=a: field turned: evaluate expression "-least": -(-9223372036854775808) exceeds int64`, func(s *index.Spec) {
			s.Fields = append(s.Fields, index.FieldSpec{Name: "turned", Expr: "-least"})
		}},
		{"filter of a field", `row 1: index.fields.least.where: evaluate expression "abs(n) > 0": abs(-9223372036854775808) exceeds int64`, func(s *index.Spec) {
			s.Fields[0].Where = "abs(n) > 0"
		}},
		{"filter", `where: evaluate expression "-n > 0": `, func(s *index.Spec) { s.Where = "-n > 0" }},
		{"delete", `row 1: index.delete_when: evaluate expression "sum([n, n]) > 0": `, func(s *index.Spec) { s.DeleteWhen = "sum([n, n]) > 0" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := index.Spec{
				Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"},
				Fields: []index.FieldSpec{{Name: "least", Fn: "min", Args: []string{"n"}}},
			}
			tc.change(&s)
			_, _, err := documents(t, compile(t, s), types(), map[string]any{"k": "a", "ts": start, "n": math.MinInt64})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestExpressionTypes(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{"n + 1", "int64"}, {"f / 2", "double"}, {"n / 2", "double"}, {"n > 1 ? 'much' : 'little'", "string"}, {"n > 1", "bool"},
		{"n > 0 ? f / n : nil", "double"},
	} {
		t.Run(c.expr, func(t *testing.T) {
			p := compile(t, index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{
				{Name: "n", Fn: "sum", Args: []string{"n"}}, {Name: "f", Fn: "sum", Args: []string{"f"}}, {Name: "e", Expr: c.expr},
			}})
			docs, _, err := documents(t, p, types(), map[string]any{"k": "a", "n": 3, "f": 1.5})
			if err != nil {
				t.Fatal(err)
			}
			if got := docs.Columns[3].Type.String(); got != c.want {
				t.Errorf("type %s, want %s", got, c.want)
			}
		})
	}
}

func TestEventTimeForms(t *testing.T) {
	want := time.Date(2026, 11, 30, 3, 0, 0, 123e6, time.UTC)
	for _, c := range []struct {
		name, unit string
		typ        column.Type
		value      any
		bad        string
	}{
		{"timestamp", "", column.Of(column.Timestamp), want, ""},
		{"text", "", column.Of(column.String), "2026-11-30T05:00:00.123+02:00", ""},
		{"milliseconds", "ms", column.Of(column.Int64), int(want.UnixMilli()), ""},
		{"nanoseconds", "ns", column.Of(column.Int64), int(want.UnixNano()), ""},
		{"no unit", "", column.Of(column.Int64), 1, "an integer needs a unit"},
		{"not a time", "", column.Of(column.String), "noon", "not an RFC 3339 time"},
		{"a flag", "", column.Of(column.Bool), true, "a bool is not a time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compile(t, index.Spec{
				Key: []string{"k"}, EventTime: index.EventTime{Column: "ts", Unit: c.unit},
				Fields: []index.FieldSpec{{Name: "v", Fn: "latest", Args: []string{"n"}}},
			})
			ty := types()
			ty["ts"] = c.typ
			// Beside a null event time, which sorts first: the other row must win.
			docs, _, err := documents(t, p, ty, map[string]any{"k": "a", "ts": c.value, "n": 1}, map[string]any{"k": "a", "n": 2})
			if c.bad != "" {
				if err == nil || !strings.Contains(err.Error(), c.bad) || !strings.Contains(err.Error(), "row 1") {
					t.Errorf("error %v, want %q of row 1", err, c.bad)
				}
				return
			}
			if err != nil || docs.Columns[1].Ints[0] != 1 {
				t.Errorf("latest is %v, %v", docs, err)
			}
		})
	}
}

func TestRecordOrder(t *testing.T) {
	p := compile(t, index.Spec{
		Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "flag",
		Fields: []index.FieldSpec{{Name: "last", Fn: "latest", Args: []string{"s"}}, {Name: "first", Fn: "earliest", Args: []string{"s"}}},
	})
	r := func(offset int, s any, flag any) map[string]any {
		return map[string]any{"k": "a", "ts": start.Add(time.Duration(offset) * time.Second), "s": s, "flag": flag}
	}
	for _, c := range []struct {
		name        string
		rows        []map[string]any
		last, first string
		deleted     bool
	}{
		{"by event time", []map[string]any{r(2, "b", nil), r(1, "c", nil), r(3, "a", nil)}, "a", "c", false},
		{"ties by content", []map[string]any{r(1, "b", nil), r(1, "c", nil), r(1, "a", nil)}, "c", "a", false},
		{"nulls are skipped", []map[string]any{r(1, "b", nil), r(2, nil, nil)}, "b", "b", false},
		{"delete last among equals", []map[string]any{r(1, "z", true), r(1, "a", false)}, "", "", true},
		{"a later record undoes it", []map[string]any{r(1, "z", true), r(2, "a", false)}, "a", "a", false},
		{"one that does not say leaves it", []map[string]any{r(1, "z", true), r(2, "a", nil)}, "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			docs, dead, err := documents(t, p, types(), c.rows...)
			if err != nil {
				t.Fatal(err)
			}
			if c.deleted {
				if docs.Len != 0 || dead.Len != 1 {
					t.Errorf("%d documents, %d tombstones", docs.Len, dead.Len)
				}
				return
			}
			if got := docs.Columns[1].Strings[0] + docs.Columns[2].Strings[0]; got != c.last+c.first {
				t.Errorf("last and first are %q, want %q", got, c.last+c.first)
			}
		})
	}
}

func TestBadRowsAreNamed(t *testing.T) {
	p := compile(t, index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "n", Fn: "sum", Args: []string{"n"}}}})
	b, kinds := batch(t, p, types(), map[string]any{"k": "a", "n": 1}, map[string]any{"n": 2})
	bound, err := p.Bind(kinds)
	if err != nil {
		t.Fatal(err)
	}
	l, err := bound.NewLifter(table.New(bound.Shape()), start)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Add(b, 40); err == nil || !strings.Contains(err.Error(), "row 42: key column k is null") {
		t.Errorf("error %v", err)
	}
	var rejected []index.BadRow
	l.Reject = func(r index.BadRow) { rejected = append(rejected, r) }
	st, err := l.Add(b, 40)
	if err != nil || st.Rows != 1 || st.Rejected != 1 || len(rejected) != 1 || rejected[0].Row != 41 {
		t.Errorf("stats %+v, rejected %v, %v", st, rejected, err)
	}
}

func TestBindNamesTheField(t *testing.T) {
	p := compile(t, index.Spec{Key: []string{"k"}, Where: "s > 1", Fields: []index.FieldSpec{{Name: "total", Fn: "sum", Args: []string{"s"}}}})
	_, kinds := batch(t, p, types())
	_, err := p.Bind(kinds)
	if err == nil || !strings.Contains(err.Error(), "index.fields.total") || !strings.Contains(err.Error(), `"s > 1"`) {
		t.Errorf("error %v", err)
	}
}

// TestRunsDoNotDependOnSplit: the records of one partition, in any order and
// split over any batches, give the same run.
func TestRunsDoNotDependOnSplit(t *testing.T) {
	p := compile(t, index.Spec{
		Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "flag", Where: "n != 3",
		Fields: []index.FieldSpec{
			{Name: "n", Fn: "sum", Args: []string{"n"}}, {Name: "f", Fn: "sum", Args: []string{"f"}},
			{Name: "s", Fn: "latest", Args: []string{"s"}, Where: "n > 1"}, {Name: "o", Fn: "earliest", Args: []string{"op"}},
			{Name: "set", Fn: "set", Args: []string{"s"}},
		},
	})
	rapid.Check(t, func(rt *rapid.T) {
		one := rapid.Custom(func(rt *rapid.T) map[string]any {
			r := map[string]any{
				"k": rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "k"), "n": rapid.IntRange(0, 4).Draw(rt, "n"),
				"f": rapid.Float64().Draw(rt, "f"), "s": rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "s"), "op": "u",
			}
			if rapid.Bool().Draw(rt, "timed") {
				r["ts"] = start.Add(time.Duration(rapid.IntRange(0, 2).Draw(rt, "ts")) * time.Second)
			}
			if rapid.Bool().Draw(rt, "says") {
				r["flag"] = rapid.Bool().Draw(rt, "flag")
			}
			return r
		})
		rows := rapid.SliceOfN(one, 1, 30).Draw(rt, "rows")
		run := func(rows []map[string]any, cut int) []byte {
			var tab *table.Table
			var l *index.Lifter
			for len(rows) > 0 {
				n := min(cut, len(rows))
				b, kinds := batch(t, p, types(), rows[:n]...)
				if l == nil {
					bound, err := p.Bind(kinds)
					if err != nil {
						rt.Fatal(err)
					}
					tab = table.New(bound.Shape())
					if l, err = bound.NewLifter(tab, start); err != nil {
						rt.Fatal(err)
					}
				}
				if _, err := l.Add(b, 0); err != nil {
					rt.Fatal(err)
				}
				rows = rows[n:]
			}
			var out bytes.Buffer
			if _, err := tab.WriteRun(&out, table.Options{}); err != nil {
				rt.Fatal(err)
			}
			return out.Bytes()
		}
		want := run(rows, len(rows))
		shuffled := rapid.Permutation(rows).Draw(rt, "shuffled")
		if got := run(shuffled, rapid.IntRange(1, len(rows)).Draw(rt, "cut")); !bytes.Equal(got, want) {
			rt.Fatal("another order and split gave another run")
		}
	})
}

// TestDeletesCountTowardsNewestAlone: a delete hides a document and neither
// resets its aggregates nor adds to them.
func TestDeletesCountTowardsNewestAlone(t *testing.T) {
	p := compile(t, index.Spec{Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "op == 'D'",
		Fields: []index.FieldSpec{
			{Name: "rows", Fn: "count", Args: []string{"*"}}, {Name: "n", Fn: "sum", Args: []string{"n"}, Where: "n > 0"},
			{Name: "s", Fn: "earliest", Args: []string{"s"}},
		}})
	docs, dead, err := documents(t, p, types(),
		map[string]any{"k": "a", "ts": start, "op": "D", "n": 5, "s": "deleted"},
		map[string]any{"k": "a", "ts": start.Add(time.Second), "op": "U", "n": 1, "s": "alive"})
	if err != nil || docs.Len != 1 || dead.Len != 0 {
		t.Fatalf("%d documents, %d tombstones, %v", docs.Len, dead.Len, err)
	}
	if rows, n, s := docs.Columns[1].Ints[0], docs.Columns[2].Ints[0], docs.Columns[3].Strings[0]; rows != 1 || n != 1 || s != "alive" {
		t.Errorf("%d rows, a sum of %d, the earliest is %s: a delete was folded", rows, n, s)
	}
}
