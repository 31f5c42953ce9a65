package index_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
)

// collectSpec is an index of ads of an item, each with filtered fields, of
// which records delete some.
func collectSpec() index.Spec {
	return index.Spec{
		Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "op == 'D'",
		Fields: []index.FieldSpec{{
			Name: "ads", Fn: "collect", Args: []string{"s"}, Where: "n >= 0", DeleteWhen: "op == 'gone'",
			Fields: []index.FieldSpec{
				{Name: "rows", Fn: "count", Args: []string{"*"}},
				{Name: "large", Fn: "sum", Args: []string{"n"}, Where: "n > 5"},
				{Name: "flagged", Fn: "count", Args: []string{"*"}, Where: "flag"},
			},
		}},
	}
}

// adsOf renders the list of ads of the only document.
func adsOf(docs *column.Batch) string {
	v := docs.Columns[1]
	if v.Null(0) {
		return "null"
	}
	var parts []string
	for i := v.Offsets[0]; i < v.Offsets[1]; i++ {
		f := v.Elem.Fields
		large := "null"
		if !f[2].Null(int(i)) {
			large = fmt.Sprint(f[2].Ints[i])
		}
		parts = append(parts, fmt.Sprintf("%s:%d/%s/%d", f[0].Strings[i], f[1].Ints[i], large, f[3].Ints[i]))
	}
	return strings.Join(parts, " ")
}

func TestCollectWithFiltersAndDeletes(t *testing.T) {
	p := compile(t, collectSpec())
	row := func(second int, s, op string, n int, flag any) map[string]any {
		return map[string]any{"k": "a", "ts": start.Add(time.Duration(second) * time.Second), "s": s, "op": op, "n": n, "flag": flag}
	}
	tests := []struct {
		name string
		rows []map[string]any
		want string
	}{
		{"filters of fields", []map[string]any{row(1, "x", "U", 3, true), row(2, "x", "U", 7, nil), row(3, "y", "U", 1, false)}, "x:2/7/1 y:1/null/0"},
		{"the collect's own filter comes first", []map[string]any{row(1, "x", "U", -3, true), row(2, "y", "U", 7, nil)}, "y:1/7/0"},
		{"a deleted ad", []map[string]any{row(1, "x", "U", 7, true), row(2, "x", "gone", 9, true), row(1, "y", "U", 7, nil)}, "y:1/7/0"},
		{"an ad that came back", []map[string]any{row(1, "x", "U", 7, true), row(2, "x", "gone", 9, true), row(3, "x", "U", 8, nil)}, "x:2/15/1"},
		{"a late delete", []map[string]any{row(3, "x", "U", 7, true), row(2, "x", "gone", 9, true)}, "x:1/7/1"},
		{"all deleted", []map[string]any{row(1, "x", "gone", 7, true)}, "null"},
		{"a delete that the collect's filter leaves out", []map[string]any{row(1, "x", "U", 7, nil), row(2, "x", "gone", -1, nil)}, "x:1/7/0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, reversed := range []bool{false, true} {
				rows := slices.Clone(tt.rows)
				if reversed {
					slices.Reverse(rows)
				}
				docs, _, err := documents(t, p, types(), rows...)
				if err != nil {
					t.Fatal(err)
				}
				if got := adsOf(docs); docs.Len != 1 || got != tt.want {
					t.Errorf("%d documents, ads %s, want %s", docs.Len, got, tt.want)
				}
			}
		})
	}
}

func TestCollectReadsWhatItsExpressionsRead(t *testing.T) {
	var got []string
	for _, c := range compile(t, collectSpec()).Columns() {
		got = append(got, c.Path)
	}
	if want := []string{"flag", "k", "n", "op", "s", "ts"}; !slices.Equal(got, want) {
		t.Errorf("columns %v, want %v", got, want)
	}
}

// TestCollectExpressionsAreOfTheSignature: with another filter or delete_when
// the accumulators are others.
func TestCollectExpressionsAreOfTheSignature(t *testing.T) {
	bind := func(s index.Spec) *index.Bound {
		p := compile(t, s)
		_, kinds := batch(t, p, types())
		b, err := p.Bind(kinds)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	base := bind(collectSpec())
	raw, err := base.Signature().Encode(base.Program())
	if err != nil {
		t.Fatal(err)
	}
	if base, err = index.DecodeSignature(raw, combine.Builtins()); err != nil {
		t.Fatal(err)
	}
	if c := base.Program().Since(base); len(c.Breaking) > 0 {
		t.Errorf("the same index is breaking: %v", c.Breaking)
	}
	for name, change := range map[string]func(f *index.FieldSpec){
		"another filter": func(f *index.FieldSpec) { f.Fields[1].Where = "n > 6" },
		"no filter":      func(f *index.FieldSpec) { f.Fields[1].Where = "" },
		"no deletes":     func(f *index.FieldSpec) { f.DeleteWhen = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := collectSpec()
			change(&s.Fields[0])
			if c := compile(t, s).Since(base); len(c.Breaking) != 1 {
				t.Errorf("breaking: %v", c.Breaking)
			}
		})
	}
}

func TestCollectProblems(t *testing.T) {
	tests := []struct {
		name   string
		change func(s *index.Spec)
		want   string
	}{
		{"delete_when elsewhere", func(s *index.Spec) {
			s.Fields = []index.FieldSpec{{Name: "x", Fn: "sum", Args: []string{"n"}, DeleteWhen: "flag"}}
		}, "index.fields.x: delete_when belongs to collect"},
		{"over within", func(s *index.Spec) { s.Fields[0].Fields[0].Over = time.Hour }, "index.fields.ads.fields.rows: over belongs to the collect, for all its fields"},
		{"a filter that does not parse", func(s *index.Spec) { s.Fields[0].Fields[0].Where = "n >" }, `index.fields.ads.fields.rows.where: parse expression "n >"`},
		{"deletes that do not parse", func(s *index.Spec) { s.Fields[0].DeleteWhen = "(" }, `index.fields.ads.delete_when: parse expression "("`},
		{"a filter that is no boolean", func(s *index.Spec) { s.Fields[0].Fields[2].Where = "n" }, "index.fields.ads.fields.flagged.where: "},
		{"deletes that are no boolean", func(s *index.Spec) { s.Fields[0].DeleteWhen = "s" }, "index.fields.ads.delete_when: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := collectSpec()
			tt.change(&s)
			p, err := index.Compile(s, combine.Builtins())
			if err == nil {
				_, kinds := batch(t, p, types())
				_, err = p.Bind(kinds)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// TestCollectExpressionThatFailsNamesItsField and its part.
func TestCollectExpressionThatFailsNamesItsField(t *testing.T) {
	s := collectSpec()
	s.Fields[0].Fields[1].Where = "int(s) > 1"
	_, _, err := documents(t, compile(t, s), types(), map[string]any{"k": "a", "ts": start, "s": "x", "n": 1})
	if err == nil || !strings.Contains(err.Error(), "row 1: index.fields.ads.fields.large.where: ") {
		t.Errorf("err %v", err)
	}
}
