package combiners

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
)

func params(kv ...any) map[string]any {
	p := map[string]any{}
	for i := 0; i < len(kv); i += 2 {
		p[fmt.Sprint(kv[i])] = kv[i+1]
	}
	return p
}

// agreement is a field and what DuckDB says of it: a query that gives k and v,
// of which v is cast to text, or an expression over the rows of a key.
type agreement struct {
	field index.FieldSpec
	expr  string
	query string
}

// agreements are the aggregates of which DuckDB has every digit.
func agreements() []agreement {
	one := func(fn, arg, expr string) agreement {
		return agreement{field: index.FieldSpec{Fn: fn, Args: []string{arg}}, expr: expr}
	}
	list := []agreement{
		one("count", "*", "count(*)"), one("count", "i", "count(i)"),
		one("sum", "i", "sum(i)"), one("sum", "d", "sum(d)"),
		one("any", "s", "min(s)"), one("distinct_exact", "s", "count(distinct s)"), one("distinct_exact", "w", "count(distinct w)"),
		one("set", "s", "array_to_string(list_sort(list(distinct s)), ' ')"),
		one("latest", "s", "arg_max(s, ts)"), one("earliest", "d", "arg_min(d, ts)"),
		one("all_of", "b", "bool_and(b)"), one("any_of", "b", "bool_or(b)"),
		{field: index.FieldSpec{Fn: "latest", Args: []string{"s"}, Params: params("nulls", "keep")}, expr: "arg_max_null(s, ts)"},
		{field: index.FieldSpec{Fn: "arg_max", Args: []string{"s", "u"}}, expr: "arg_max(s, u)"},
		{field: index.FieldSpec{Fn: "arg_min", Args: []string{"d", "u"}}, expr: "arg_min(d, u)"},
		{field: index.FieldSpec{Fn: "arg_max", Args: []string{"s", "u"}, Params: params("nulls", "keep")}, expr: "arg_max_null(s, u)"},
		{field: index.FieldSpec{Fn: "sum", Args: []string{"i"}, Where: "b"}, expr: "sum(i) filter (where b)"},
		{field: index.FieldSpec{Fn: "newest", Args: []string{"s"}, Params: params("n", 5)}, expr: "array_to_string(arg_max(s, ts, 5) filter (where s is not null), ' ')"},
		{field: index.FieldSpec{Fn: "top", Args: []string{"u"}, Params: params("n", 4)}, expr: "array_to_string(max(u, 4), ' ')"},
		{
			field: index.FieldSpec{Fn: "top", Args: []string{"s", "i"}, Params: params("n", 6)},
			query: `select k, string_agg(s || ':' || best, ' ' order by best desc, s) v from
				(select k, s, max(i) best from r where s is not null and i is not null group by k, s
				 qualify row_number() over (partition by k order by best desc, s) <= 6) group by k`,
		},
		{
			field: index.FieldSpec{Fn: "counts", Args: []string{"s"}},
			query: `select k, string_agg(s || ':' || n, ' ' order by n desc, s) v from
				(select k, s, count(*) n from r where s is not null group by k, s) group by k`,
		},
		{
			field: index.FieldSpec{Fn: "mode", Args: []string{"s"}},
			query: `select k, arg_max(s, n) v from (select k, s, n, row_number() over (partition by k order by n desc, s) place from
				(select k, s, count(*) n from r where s is not null group by k, s)) where place = 1 group by k`,
		},
		{
			field: index.FieldSpec{Fn: "collect", Args: []string{"ad"}, DeleteWhen: "op == 'D'", Fields: []index.FieldSpec{
				{Name: "rows", Fn: "count", Args: []string{"*"}},
				{Name: "paid", Fn: "sum", Args: []string{"d"}, Where: "b"},
				{Name: "bid", Fn: "latest", Args: []string{"i"}},
			}},
			query: `select k, string_agg(ad || ':' || n || ':' || coalesce(paid::varchar, 'null') || ':' || coalesce(bid::varchar, 'null'), ' ' order by ad) filter (where not gone) v from
				(select k, ad, count(*) filter (where op <> 'D') n, sum(d) filter (where op <> 'D' and b) paid,
					arg_max(i, ts) filter (where op <> 'D') bid, arg_max(op = 'D', ts) gone from r group by k, ad) group by k`,
		},
	}
	for _, c := range []string{"i", "d", "f", "w", "s"} {
		list = append(list, one("min", c, "min("+c+")"), one("max", c, "max("+c+")"))
	}
	for i := range list {
		list[i].field.Name = fmt.Sprintf("x%d", i)
	}
	return list
}

func TestDuckDBAgreesToTheLastDigit(t *testing.T) {
	ctx := t.Context()
	db, err := duck.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	n := rowCount(t)
	file := generate(ctx, t, db, n)
	var specs []index.FieldSpec
	for _, a := range agreements() {
		specs = append(specs, a.field)
	}
	for _, a := range roundings() {
		specs = append(specs, a.field)
	}
	sums := newSums()
	got := fold(ctx, t, file, specs, sums.add)
	for _, a := range agreements() {
		name := fmt.Sprintf("%s of %v %v", a.field.Fn, a.field.Args, a.field.Params)
		t.Run(name, func(t *testing.T) { agree(ctx, t, db, got, a) })
	}
	t.Logf("%d rows, %d keys; units in the last place, over all keys", n, got.docs.Len)
	t.Logf("%-28s %10s %14s %14s", "", "deltad", "DuckDB wrong", "DuckDB worst")
	for _, a := range roundings() {
		compare(ctx, t, db, got, sums, a)
	}
}

// agree compares a field of every key.
func agree(ctx context.Context, t *testing.T, db *duck.DB, got *deltad, a agreement) {
	t.Helper()
	query := a.query
	if query == "" {
		query = "select k, " + a.expr + " v from r group by k"
	}
	want, err := db.Query(ctx, "select k, coalesce(v::varchar, 'null') v from ("+query+") order by k")
	if err != nil {
		t.Fatal(err)
	}
	if len(want) != got.docs.Len {
		t.Fatalf("%d keys, want %d", got.docs.Len, len(want))
	}
	for i, row := range want {
		v := got.fields[a.field.Name]
		if have := text(v, i); got.keys()[i] != row["k"] || have != normalText(v.Type, fmt.Sprint(row["v"])) {
			t.Fatalf("key %v: %s, DuckDB has %v", row["k"], have, row["v"])
		}
	}
}

// normalText gives a float of DuckDB the form that Go writes.
func normalText(t column.Type, s string) string {
	if !t.IsFloat() {
		return s
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
