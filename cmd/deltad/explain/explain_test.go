package explain_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/cmd/deltad/explain"
	"github.com/deltad/deltad/cmd/deltad/indextest"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/sink/reader"
)

func subject(x *indextest.Index) explain.Subject {
	return explain.Subject{Out: x.Out, ConfigHash: x.Set.ConfigHash, Builder: x.Pipeline().Builder(), Combiners: x.Set.Combiners, Workers: 2}
}

func explained(t *testing.T, x *indextest.Index, o explain.Options, key string) explain.Explanation {
	t.Helper()
	e, err := explain.Key(t.Context(), subject(x), o, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(e); err != nil {
		t.Fatal(err)
	}
	return e
}

// field is one field in a line: records + records of the base, whether the base
// is in it, and where the value is from.
func field(e explain.Explanation, name string) string {
	for _, f := range e.Fields {
		if f.Name == name {
			line := fmt.Sprintf("%s %s %d+%d", f.Value, f.Over, f.Records, f.BaseRecords)
			if f.Base {
				line += " base"
			}
			if f.From != nil {
				line += fmt.Sprintf(" %s:%d", f.From.Object[11:], f.From.Row)
			}
			return line
		}
	}
	return ""
}

func TestWhatMadeADocument(t *testing.T) {
	x := indextest.Grown(t)
	for _, tt := range []struct {
		key    string
		layer  reader.Layer
		why    string
		fields map[string]string
	}{
		// 02:00, 03:00 and 03:20 are the base's, 03:40 the delta's.
		{"x", reader.InDelta, "joins what base", map[string]string{
			"updates": "4 all 1+3 base", "clicks": "12 all 1+3 base", "title": `"three" all 1+3 base 03/40/a.ndjson:1`,
			"least": "1 all 1+3 base 02/00/a.ndjson:2", "clicks_5m": "null 5m0s 0+0", "big": "1 all 0+1 base", "double": "24  0+0",
		}},
		{"old", reader.InDelta, "joins what base", map[string]string{
			"updates": "2 all 1+1 base", "title": `"less ancient" all 1+1 base 02/50/late.ndjson:1`, "least": "1 all 1+1 base 02/50/late.ndjson:1",
		}},
		{"z", reader.InDelta, "has records of it", map[string]string{
			"updates": "2 all 2+0", "title": `"zet" all 2+0 05/00/a.ndjson:1`, "least": "1 all 2+0 03/40/a.ndjson:2", "clicks_5m": "6 5m0s 1+0", "big": "1 all 1+0",
		}},
		{"deep", reader.InBase, "no object that came since", map[string]string{
			"updates": "1 all 0+1 base", "title": `"untouched" all 0+1 base 02/00/a.ndjson:4`, "clicks_5m": "null 5m0s 0+0",
		}},
		{"seen", reader.InDelta, "joins what base", map[string]string{"title": `"three" all 0+1 base 02/58/a.ndjson:1`}},
		{"y", reader.Tombstone, "newest record deletes it: row 3 of 2026/11/30/03/40/a.ndjson", nil},
		{"gone", reader.Tombstone, "remembers it as deleted at 2026-11-30T03:20:00Z", nil},
		{"lost", reader.Nowhere, "remembers it as deleted at 2026-11-30T02:01:00Z", nil},
		{"hidden", reader.Nowhere, "left out by index.where", nil},
		{"nobody", reader.Nowhere, "no object that base or pane have read", nil},
	} {
		t.Run(tt.key, func(t *testing.T) {
			e := explained(t, x, explain.Options{}, tt.key)
			if e.Layer != tt.layer || !strings.Contains(e.Why, tt.why) || len(e.Notes) > 0 || (e.Document != nil) != (tt.layer == reader.InDelta || tt.layer == reader.InBase) {
				t.Errorf("%q, why %q, notes %q, document %s", e.Layer, e.Why, e.Notes, e.Document)
			}
			if e.Scanned != e.Inputs || e.Base == nil {
				t.Errorf("scanned %d of %d, base %+v", e.Scanned, e.Inputs, e.Base)
			}
			for name, want := range tt.fields {
				if got := field(e, name); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
		})
	}
}

// TestObjectsOfAKey: newest first, with what each adds, and the newest record.
func TestObjectsOfAKey(t *testing.T) {
	x := indextest.Grown(t)
	e := explained(t, x, explain.Options{}, "x")
	var got []string
	for _, o := range e.Objects {
		got = append(got, fmt.Sprintf("%s %t %t %d %d %d", o.Object[11:], o.Pane, o.Base, o.Records, o.LeftOut, o.Fields["clicks"]))
	}
	want := []string{"03/40/a.ndjson true false 1 0 1", "03/20/a.ndjson true true 1 0 1", "03/00/a.ndjson true true 1 0 1", "02/00/a.ndjson false true 1 0 1"}
	if !slices.Equal(got, want) {
		t.Errorf("objects %q, want %q", got, want)
	}
	if e.Newest == nil || e.Newest.Object != indextest.Key("03:40", "a.ndjson") || e.Newest.Row != 1 {
		t.Errorf("newest %+v", e.Newest)
	}
}

// TestAnExplanationIsBounded: the newest objects first, saying so.
func TestAnExplanationIsBounded(t *testing.T) {
	x := indextest.Grown(t)
	calls := 0
	e := explained(t, x, explain.Options{Limit: 2, Progress: func(int, int) { calls++ }}, "x")
	if e.Scanned != 2 || e.Inputs <= 2 || len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "--limit") || calls != 3 {
		t.Errorf("scanned %d of %d, notes %q, %d calls", e.Scanned, e.Inputs, e.Notes, calls)
	}
	if got := field(e, "title"); got != `"three" all 1+0 base 03/40/a.ndjson:1` {
		t.Errorf("title %s", got)
	}
	if got := field(e, "least"); got != "1 all 1+0 base" { // the record is in the base, and was not read
		t.Errorf("least %s", got)
	}
}

// TestWhatIsGoneIsSaid: an object that the base read and that is not there any more.
func TestWhatIsGoneIsSaid(t *testing.T) {
	x := indextest.Grown(t)
	if err := x.Raw.Delete(t.Context(), indextest.Key("02:00", "a.ndjson")); err != nil {
		t.Fatal(err)
	}
	x.Put("03:00", "a.ndjson", indextest.Row("x", "03:00", 9, "replaced"))
	e := explained(t, x, explain.Options{}, "x")
	if text := strings.Join(e.Notes, "\n"); !strings.Contains(text, "02/00/a.ndjson cannot be read") || !strings.Contains(text, "03/00/a.ndjson cannot be read") {
		t.Errorf("notes %q", e.Notes)
	}
	if got := field(e, "clicks"); got != "12 all 1+1 base" {
		t.Errorf("clicks %s", got)
	}
}

// TestWithoutABase: what lies outside the coverage has no part in it.
func TestWithoutABase(t *testing.T) {
	x := indextest.New(t, false)
	x.Put("03:00", "a.ndjson", indextest.Row("x", "03:00", 2, "one"), indextest.Row("left", "03:00", 2, "one"))
	x.Step("03:01", microbatch.Advanced)
	x.Put("03:09", "a.ndjson", indextest.Row("x", "03:09", 3, "two"), indextest.Row("x", "03:09", 3, "two"), indextest.Del("dead", "03:09"))
	x.Step("03:10", microbatch.Advanced)
	x.Put("03:15", "a.ndjson", indextest.Row("other", "03:15", 3, "two"))
	x.Step("03:16", microbatch.Advanced)
	e := explained(t, x, explain.Options{}, "x")
	if got := field(e, "clicks"); e.Layer != reader.InDelta || e.Base != nil || len(e.Notes) > 0 || !strings.HasPrefix(got, "6 all 2+0") && !strings.HasPrefix(got, "8 all 3+0") {
		t.Errorf("%s, %+v", got, e)
	}
	if e := explained(t, x, explain.Options{}, "dead"); e.Layer != reader.Tombstone || !strings.Contains(e.Why, "deletes it: row 3") {
		t.Errorf("dead: %+v", e)
	}
	if e := explained(t, x, explain.Options{}, "nobody"); e.Layer != reader.Nowhere || !strings.Contains(e.Why, "partitions that the index speaks for") {
		t.Errorf("nobody: %+v", e)
	}
}

// TestAnIndexThatIsWrong: a document that its records do not make is said to be so.
func TestAnIndexThatIsWrong(t *testing.T) {
	x := indextest.Grown(t)
	s := subject(x)
	s.Builder.Row = 0
	other := indextest.Spec()
	other.Fields[1].Fn = "max"
	e, err := explain.Key(t.Context(), with(t, s, other), explain.Options{}, "z")
	if err != nil || !strings.Contains(strings.Join(e.Notes, "\n"), "another document") {
		t.Errorf("notes %q, %v", e.Notes, err)
	}
	s.ConfigHash = "c2"
	if e, err = explain.Key(t.Context(), s, explain.Options{}, "z"); err != nil || !strings.Contains(strings.Join(e.Notes, "\n"), "another configuration") {
		t.Errorf("notes %q, %v", e.Notes, err)
	}
	if _, err := explain.Key(t.Context(), subject(x), explain.Options{}, "z", "too many"); err == nil {
		t.Error("a key of two columns was explained")
	}
	if _, err := explain.Key(t.Context(), subject(indextest.New(t, false)), explain.Options{}, "z"); err == nil {
		t.Error("an index that is not there was explained")
	}
}

// with is the subject with another index.
func with(t *testing.T, s explain.Subject, spec index.Spec) explain.Subject {
	t.Helper()
	program, err := index.Compile(spec, s.Combiners)
	if err != nil {
		t.Fatal(err)
	}
	s.Builder.Program = program
	return s
}

// TestNewestRecordIsNotTheLastOneRead: objects are read newest first, and each
// record counts.
func TestNewestRecordIsNotTheLastOneRead(t *testing.T) {
	x := indextest.New(t, false)
	for _, clock := range []string{"03:00", "03:01", "03:02"} {
		x.Put(clock, "a.ndjson", indextest.Row("x", clock, 1, "t"+clock))
	}
	x.Step("03:03", microbatch.Advanced)
	e := explained(t, x, explain.Options{}, "x")
	if e.Newest == nil || e.Newest.Object != indextest.Key("03:02", "a.ndjson") {
		t.Errorf("newest %+v", e.Newest)
	}
}
