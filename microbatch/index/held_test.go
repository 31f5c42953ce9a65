package index_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
)

// lifted lifts the rows in batches of the given size and returns the documents
// and the bad rows.
func lifted(t testing.TB, s index.Spec, size int, reject bool, rows ...map[string]any) (docs *column.Batch, bad []index.BadRow, stats index.Stats, err error) {
	t.Helper()
	p := compile(t, s)
	_, kinds := batch(t, p, types())
	bound, err := p.Bind(kinds)
	if err != nil {
		t.Fatal(err)
	}
	tab := table.New(bound.Shape())
	l, err := bound.NewLifter(tab, start)
	if err != nil {
		t.Fatal(err)
	}
	if reject {
		l.Reject = func(b index.BadRow) { bad = append(bad, b) }
	}
	for from := 0; from < len(rows); from += size {
		b, _ := batch(t, p, types(), rows[from:min(from+size, len(rows))]...)
		st, err := l.Add(b, int64(from))
		if err != nil {
			return nil, bad, stats, err
		}
		stats.Rows, stats.Filtered, stats.Rejected = stats.Rows+st.Rows, stats.Filtered+st.Filtered, stats.Rejected+st.Rejected
		stats.NullEventTime += st.NullEventTime
	}
	x, err := bound.NewExtractor(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([][]byte, tab.Len())
	for g := range keys {
		keys[g] = slices.Clone(tab.Key(uint32(g)))
	}
	docs, dead := column.NewBatch(bound.Schema()), column.NewBatch(bound.Shape().Keys)
	return docs, bad, stats, x.Extract(keys, tab.Columns(), docs, dead)
}

// TestTimesThatNoDocumentHoldsAreBadRows: exactly the records whose own value of
// a field, or key, has nanoseconds are bad, and the rest is what it is without
// them.
func TestTimesThatNoDocumentHoldsAreBadRows(t *testing.T) {
	s := index.Spec{
		Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, Where: "n != 7", DeleteWhen: "op == 'D'",
		Fields: []index.FieldSpec{
			{Name: "seen", Fn: "latest", Args: []string{"ts"}, Where: "flag"},
			{Name: "title", Fn: "arg_max", Args: []string{"s", "ts"}},
			{Name: "odd", Fn: "min", Args: []string{"=n % 2 == 1 ? ts : nil"}},
			{Name: "parts", Fn: "collect", Args: []string{"s"}, DeleteWhen: "n == 4", Fields: []index.FieldSpec{
				{Name: "first", Fn: "earliest", Args: []string{"ts"}, Where: "n > 8"}, {Name: "updates", Fn: "count", Args: []string{"*"}},
			}},
		},
	}
	rapid.Check(t, func(rt *rapid.T) {
		var rows, good []map[string]any
		var want []int64
		for i := range rapid.IntRange(0, 40).Draw(rt, "rows") {
			nanos := rapid.SampledFrom([]int{0, 1000, 1, 1999, 999_999_999}).Draw(rt, "nanos")
			r := map[string]any{
				"k": rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "k"), "s": rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "s"),
				"n": rapid.IntRange(0, 12).Draw(rt, "n"), "op": rapid.SampledFrom([]string{"U", "U", "U", "D"}).Draw(rt, "op"),
				"flag": rapid.Bool().Draw(rt, "flag"), "ts": start.Add(time.Duration(i)*time.Second + time.Duration(nanos)),
			}
			rows = append(rows, r)
			n := r["n"].(int)
			if nanos%1000 != 0 && n != 7 && r["op"] != "D" && (r["flag"].(bool) || n%2 == 1 || n > 8) {
				want = append(want, int64(i))
			} else {
				good = append(good, r)
			}
		}
		size := rapid.IntRange(1, 41).Draw(rt, "batch")
		docs, bad, stats, err := lifted(t, s, size, true, rows...)
		expected, none, without, wrong := lifted(t, s, size, false, good...)
		if err != nil || wrong != nil || len(none) > 0 {
			rt.Fatalf("%v, %v", err, wrong)
		}
		var got []int64
		for _, b := range bad {
			got = append(got, b.Row)
			if !strings.Contains(b.Reason, "has nanoseconds, documents have microseconds (key k=") || !strings.Contains(b.Reason, "index.fields.") {
				rt.Fatalf("reason %s", b.Reason)
			}
		}
		if !slices.Equal(got, want) || stats.Rejected != int64(len(want)) || stats.Rows != without.Rows || stats.Filtered != without.Filtered {
			rt.Fatalf("bad are %v, want %v; %v and %v", got, want, stats, without)
		}
		if a, b := fmt.Sprint(all(docs)), fmt.Sprint(all(expected)); a != b {
			rt.Fatalf("documents\n%s\nwant\n%s", a, b)
		}
		_, _, _, err = lifted(t, s, size, false, rows...)
		if (err != nil) != (len(want) > 0) || err != nil && !strings.HasPrefix(err.Error(), fmt.Sprintf("row %d: index.fields.", want[0]+1)) {
			rt.Fatalf("error %v for bad rows %v", err, want)
		}
	})
}

func all(b *column.Batch) (out []string) {
	for i := range b.Len {
		for _, c := range b.Columns {
			out = append(out, text(c, i))
		}
	}
	return out
}

// TestTimesThatNoDocumentHoldsAreNamed with setting, column and key.
func TestTimesThatNoDocumentHoldsAreNamed(t *testing.T) {
	far := time.Unix(1<<50, 0)
	fine := start.Add(1)
	const nanos = "timestamp 2026-11-30T03:00:00.000000001Z has nanoseconds, documents have microseconds"
	field := func(f index.FieldSpec) index.Spec {
		f.Name = "f"
		return index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{f}}
	}
	count := index.FieldSpec{Name: "n", Fn: "count", Args: []string{"*"}}
	for _, c := range []struct {
		name string
		spec index.Spec
		ts   time.Time
		want string
	}{
		{"column", field(index.FieldSpec{Fn: "max", Args: []string{"ts"}}), fine, "row 1: index.fields.f: column ts: " + nanos + " (key k=a)"},
		{"key that is a number", index.Spec{Key: []string{"n", "k"}, Fields: []index.FieldSpec{{Name: "f", Fn: "max", Args: []string{"ts"}}}}, fine, "row 1: index.fields.f: column ts: " + nanos + " (key n=1,k=a)"},
		{"expression", field(index.FieldSpec{Fn: "max", Args: []string{"=n > 0 ? ts : nil"}}), fine, "row 1: index.fields.f: n > 0 ? ts : nil: " + nanos + " (key k=a)"},
		{"key", index.Spec{Key: []string{"ts"}, Fields: []index.FieldSpec{count}}, fine, "row 1: key column ts: " + nanos},
		{"sub-key", field(index.FieldSpec{Fn: "collect", Args: []string{"ts"}, Fields: []index.FieldSpec{count}}), fine, "row 1: index.fields.f: column ts: " + nanos + " (key k=a)"},
		{"far away", field(index.FieldSpec{Fn: "max", Args: []string{"ts"}}), far, "row 1: index.fields.f: column ts: timestamp "},
		{"of a document", index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{count, {Name: "e", Expr: "date('2026-11-30T03:00:00.000000001Z')"}}}, start, "key k=a: field e: " + nanos},
		{"not in a document", index.Spec{Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, Fields: []index.FieldSpec{count}}, fine, ""},
		{"cut", field(index.FieldSpec{Fn: "max", Args: []string{"=ts.Truncate(duration('1us'))"}}), fine, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, _, err := lifted(t, c.spec, 8, false, map[string]any{"k": "a", "n": 1, "ts": c.ts})
			if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}
