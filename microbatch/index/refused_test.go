package index_test

import (
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
)

// TestWhatNoColumnCanMendIsRefusedAtOnce: what is wrong whatever the columns hold
// is found when the configuration is read, all of it, each under the name of its
// setting.
func TestWhatNoColumnCanMendIsRefusedAtOnce(t *testing.T) {
	count := func(where string) index.FieldSpec {
		return index.FieldSpec{Fn: "count", Args: []string{"*"}, Where: where}
	}
	for _, c := range []struct {
		name string
		spec index.Spec
		want string
	}{
		{"a number as where", index.Spec{Where: "1+1"}, `index.where: expression "1+1": it is of type int64, not a condition`},
		{"a text as where", index.Spec{Where: "'a'"}, `index.where: expression "'a'": it is of type string, not a condition`},
		{"null as where", index.Spec{Where: "nil"}, `index.where: expression "nil": `},
		{"a list as where", index.Spec{Where: "split(s, ',')"}, `index.where: expression "split(s, ',')": it is of type []string, not a condition`},
		{"a sum of a column as where", index.Spec{Where: "a + 1"}, `index.where: expression "a + 1": it is not a condition, whatever its columns hold`},
		{"a difference of columns as where", index.Spec{Where: "a - b"}, "it is not a condition, whatever its columns hold"},
		{"a text of a column as delete_when", index.Spec{DeleteWhen: "lower(s)"}, `index.delete_when: expression "lower(s)": it is of type string, not a condition`},
		{"what compares a number with a text", index.Spec{Where: "1 == 'a'"}, `index.where: expression "1 == 'a'": invalid operation: == (mismatched types int and string) (1:3)`},
		{"what parses to anything", index.Spec{Where: "fromJSON(s)"}, "index.where: "},
		{"an element of anything", index.Spec{Where: "first(flags)"}, "its type is not known before it runs, so it is not a condition; compare it, with == true"},
		{"a field's where", index.Spec{Fields: []index.FieldSpec{count("len(s)")}}, `index.fields.f.where: expression "len(s)": it is of type int64, not a condition`},
		{"a sub-field's where", index.Spec{Fields: []index.FieldSpec{{Fn: "collect", Args: []string{"s"}, Fields: []index.FieldSpec{{Name: "n", Fn: "count", Args: []string{"*"}, Where: "2"}}}}},
			`index.fields.f.fields.n.where: expression "2": it is of type int64, not a condition`},
		{"a collect's delete_when", index.Spec{Fields: []index.FieldSpec{{Fn: "collect", Args: []string{"s"}, DeleteWhen: "upper(s)", Fields: []index.FieldSpec{{Name: "n", Fn: "count", Args: []string{"*"}}}}}},
			`index.fields.f.delete_when: expression "upper(s)": it is of type string, not a condition`},
		{"a sum of texts", index.Spec{Fields: []index.FieldSpec{{Fn: "sum", Args: []string{"=lower(s)"}}}}, "index.fields.f: sum: string is not a number"},
		{"all_of numbers", index.Spec{Fields: []index.FieldSpec{{Fn: "all_of", Args: []string{"=1"}}}}, "index.fields.f: all_of: int64 is not a boolean"},
		{"an argument without a type", index.Spec{Fields: []index.FieldSpec{{Fn: "latest", Args: []string{"=fromJSON(s)"}}}}, "index.fields.f: latest: expression"},
		{"a count and a text", index.Spec{Fields: []index.FieldSpec{count(""), {Name: "e", Expr: "f + 'x'"}}}, `index.fields.e: expression "f + 'x'"`},
		{"a number or a text", index.Spec{Fields: []index.FieldSpec{count(""), {Name: "e", Expr: "f > 1 ? f : 'x'"}}}, "index.fields.e: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Key = []string{"k"}
			if len(c.spec.Fields) == 0 {
				c.spec.Fields = []index.FieldSpec{count("")}
			}
			c.spec.Fields[0].Name = "f"
			_, err := index.Compile(c.spec, combine.Builtins())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("one fault in several lines: %q", err.Error())
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		_, err := index.Compile(index.Spec{Key: []string{"k", "k"}, Where: "1", DeleteWhen: "2", Fields: []index.FieldSpec{
			{Name: "f", Fn: "count", Args: []string{"*"}, Where: "3"}, {Name: "g", Fn: "sum", Args: []string{"=n *"}}, {Name: "h", Fn: "sum", Args: []string{"='x'"}},
		}}, combine.Builtins())
		for _, want := range []string{"index.key: k", "index.where", "index.delete_when", "index.fields.f.where", "index.fields.g.sum", "index.fields.h: sum"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s is missing in:\n%v", want, err)
			}
		}
	})
}

// TestWhatAColumnMayMendIsAccepted: before any value was seen nothing is refused
// that some values suit, and a column of nulls suits all.
func TestWhatAColumnMayMendIsAccepted(t *testing.T) {
	derived := func(e string) index.Spec {
		return index.Spec{Fields: []index.FieldSpec{
			{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "total", Fn: "sum", Args: []string{"p"}}, {Name: "title", Fn: "latest", Args: []string{"s"}},
			{Name: "ads", Fn: "collect", Args: []string{"id"}, Fields: []index.FieldSpec{{Name: "bid", Fn: "sum", Args: []string{"b"}}}},
			{Name: "twice", Expr: "total * 2"}, {Name: "e", Expr: e},
		}}
	}
	arg := func(fn, a string) index.Spec {
		return index.Spec{Fields: []index.FieldSpec{{Name: "n", Fn: fn, Args: []string{"=" + a}}}}
	}
	for _, s := range []index.Spec{
		{Where: "flag"}, {Where: "not flag"}, {Where: "offer.live"}, {Where: "flags[0]"}, {Where: "items[0].live"}, {Where: "a == b"}, {Where: "true"},
		{Where: "country in ['DE', 'AT'] and price > 1.5"}, {Where: "flag ? a > 1 : other"}, {Where: "flag ?? true"}, {DeleteWhen: "get(offer, 'dead')"},
		{Where: "any(tags, # == 'x')"}, {Where: "a ? b : c ? d : e"}, {Where: "first(flags) == true"}, {Where: "ts > date('2026-01-01T00:00:00Z')"},
		arg("latest", "flag ? n + 1 : nil"), arg("latest", "flag ? name : other"), arg("set", "tags[0]"), arg("set", "items[0].name"), arg("sum", "a * b - c"),
		arg("latest", "upper(flag ? name : other)"), arg("latest", "d > 1 ? a : b"), arg("max", "ts"), arg("sum", "a + b + c + d"), arg("sum", "len(tags)"),
		derived("total == nil ? -1.0 : total"), derived("twice == nil ? -1.5 : twice"), derived("total / n"), derived("title + '!'"), derived("title + 1"),
		derived("len(ads) == 0 ? -1.0 : ads[0].bid"), derived("sum(map(ads, #.bid))"), derived("total > 1 ? title : nil"),
	} {
		s.Key = []string{"k"}
		if len(s.Fields) == 0 {
			s.Fields = []index.FieldSpec{{Name: "n", Fn: "count", Args: []string{"*"}}}
		}
		p, err := index.Compile(s, combine.Builtins())
		if err != nil {
			t.Errorf("where %q, delete_when %q, fields %v: %v", s.Where, s.DeleteWhen, s.Fields, err)
			continue
		}
		b, err := p.Bind(make([]column.Type, len(p.Columns())))
		if err == nil {
			_, err = b.NewExtractor(nil)
		}
		if err != nil {
			t.Errorf("bound to nulls: %v", err)
		}
	}
}

// What a fn cannot take is said with the column that has it.
func TestABoundFieldNamesItsColumns(t *testing.T) {
	spec := index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{
		{Name: "s", Fn: "sum", Args: []string{"title"}},
		{Name: "v", Fn: "covariance", Args: []string{"a", "b"}},
		{Name: "c", Fn: "collect", Args: []string{"k"}, Fields: []index.FieldSpec{{Name: "n", Fn: "mean", Args: []string{"title"}}}},
	}}
	p, err := index.Compile(spec, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	types := make([]column.Type, len(p.Columns()))
	for i := range types {
		types[i] = column.Of(column.String)
	}
	_, err = p.Bind(types)
	for _, want := range []string{
		"index.fields.s: sum: string is not a number (column title)",
		"index.fields.v: covariance: string is not a number (column a, column b)",
		"index.fields.c: fields.n: mean: string is not a number (column title)",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
