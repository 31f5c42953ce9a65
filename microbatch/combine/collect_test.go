package combine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
)

// collects are collects whose sub-entities are deleted and whose fields are
// filtered.
func collects(t testing.TB) []combine.Fn {
	t.Helper()
	none, str, dbl, flag := combine.Params{}, column.Of(column.String), column.Of(column.Float64), column.Of(column.Bool)
	latest := combine.Sub{Name: "status", Fn: build(t, "latest", none, str)}
	sum := combine.Sub{Name: "paid", Fn: build(t, "sum", none, dbl), Filtered: true}
	count := combine.Sub{Name: "n", Fn: build(t, "count", none), Filtered: true}
	return []combine.Fn{
		build(t, "collect", combine.Params{By: "ad", Deletes: true, Fields: []combine.Sub{latest}}, str, flag, str),
		build(t, "collect", combine.Params{By: "ad", Fields: []combine.Sub{sum, latest, count}}, str, flag, dbl, str, flag),
		build(t, "collect", combine.Params{By: "ad", Deletes: true, Fields: []combine.Sub{count, sum}}, column.Of(column.Int64), flag, flag, flag, dbl),
		build(t, "collect", combine.Params{By: "ad", Deletes: true, Fields: []combine.Sub{count}}, str, column.Of(column.Null), flag),
	}
}

// times ranks records by their times, one after the other in their content.
type times []time.Time

func (o times) Rank(i int) []byte {
	v := column.New(column.Of(column.Timestamp))
	v.AppendTimestamp(o[i].Unix(), 0)
	return combine.AppendRank(nil, v, 0, false, []byte{byte(i)})
}

func flags(values ...string) *column.Vector {
	v := column.New(column.Of(column.Bool))
	for _, s := range values {
		if s == "null" {
			v.AppendNull()
		} else {
			v.AppendBool(s == "yes")
		}
	}
	return v
}

func TestCollectDeletesSubEntities(t *testing.T) {
	at := func(seconds ...int64) (o times) {
		for _, s := range seconds {
			o = append(o, time.Unix(s, 0))
		}
		return o
	}
	fields := []combine.Sub{
		{Name: "n", Fn: build(t, "count", combine.Params{})},
		{Name: "bid", Fn: build(t, "latest", combine.Params{}, column.Of(column.Int64))},
	}
	fn := build(t, "collect", combine.Params{By: "ad", Deletes: true, Fields: fields}, column.Of(column.String), column.Of(column.Bool), column.Of(column.Int64))
	tests := []struct {
		name     string
		order    times
		ads      *column.Vector
		verdicts *column.Vector
		bids     *column.Vector
		want     string
	}{
		{"a delete hides", at(1, 2, 1), texts("x", "x", "y"), flags("no", "yes", "no"), ints(1, 2, 3), "[{ad:y n:1 bid:3}]"},
		{"all deleted is nothing", at(1, 2), texts("x", "x"), flags("no", "yes"), ints(1, 2), "null"},
		{"a delete alone", at(1), texts("x"), flags("yes"), ints(1), "null"},
		{"back again, nothing forgotten", at(1, 2, 3), texts("x", "x", "x"), flags("no", "yes", "no"), ints(1, 2, 3), "[{ad:x n:2 bid:3}]"},
		{"an older delete comes late", at(3, 2), texts("x", "x"), flags("no", "yes"), ints(1, 2), "[{ad:x n:1 bid:1}]"},
		{"at one time the delete wins", at(1, 1, 1), texts("x", "x", "y"), flags("yes", "no", "no"), ints(1, 2, 3), "[{ad:y n:1 bid:3}]"},
		{"a record that says nothing", at(1, 2), texts("x", "x"), flags("yes", "null"), ints(1, 2), "null"},
		{"no verdict at all", at(1), texts("x"), flags("null"), ints(1), "[{ad:x n:1 bid:1}]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			col, dst := fn.NewColumn(), column.New(fn.Output())
			col.Grow(1)
			n := tt.ads.Len()
			in := &combine.Input{Groups: make([]uint32, n), Rows: all(n), Args: []*column.Vector{tt.ads, tt.verdicts, tt.bids}, Order: tt.order}
			if err := col.Add(in); err != nil {
				t.Fatal(err)
			}
			if err := col.Extract(0, dst); err != nil {
				t.Fatal(err)
			}
			if got := render(dst, 0); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestCollectFiltersFields(t *testing.T) {
	fields := []combine.Sub{
		{Name: "all", Fn: build(t, "count", combine.Params{})},
		{Name: "some", Fn: build(t, "count", combine.Params{}), Filtered: true},
		{Name: "sum", Fn: build(t, "sum", combine.Params{}, column.Of(column.Int64)), Filtered: true},
	}
	flag := column.Of(column.Bool)
	fn := build(t, "collect", combine.Params{By: "ad", Fields: fields}, column.Of(column.String), flag, flag, column.Of(column.Int64))
	got := render(extract(t, fn, texts("x", "x", "y", "x"), flags("yes", "no", "null", "yes"), flags("no", "yes", "yes", "yes"), ints(1, 2, 4, 8)), 0)
	if want := "[{ad:x all:3 some:2 sum:10} {ad:y all:1 some:0 sum:4}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCollectErrors(t *testing.T) {
	str, flag := column.Of(column.String), column.Of(column.Bool)
	count := combine.Sub{Name: "n", Fn: build(t, "count", combine.Params{})}
	filtered := count
	filtered.Filtered = true
	tests := []struct {
		name string
		p    combine.Params
		args []column.Type
		want string
	}{
		{"no verdict", combine.Params{By: "a", Deletes: true, Fields: []combine.Sub{count}}, []column.Type{str}, "collect: deletes: no argument given"},
		{"a verdict of text", combine.Params{By: "a", Deletes: true, Fields: []combine.Sub{count}}, []column.Type{str, str}, "collect: deletes: string is not a boolean"},
		{"a filter of text", combine.Params{By: "a", Fields: []combine.Sub{filtered}}, []column.Type{str, str}, "collect: field n: its filter: string is not a boolean"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := combine.Builtins()["collect"].New(tt.p, tt.args); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	fn := build(t, "collect", combine.Params{By: "a", Deletes: true, Fields: []combine.Sub{count}}, str, flag)
	key := tuple.AppendString(nil, "x")
	for _, part := range []string{"", "\x01\x03", "\x01\x01", "\x01\x03\x00", "\x01", "\x03"} {
		acc := append(append(append([]byte(nil), key...), byte(len(part))), part...)
		acc = append(acc, 1, 5)
		if err := fn.Validate(acc); (err == nil) != (part == "" || part == "\x01\x03") {
			t.Errorf("verdict %x: %v", part, err)
		} else if err != nil && !strings.Contains(err.Error(), "deletes: ") {
			t.Error(err)
		}
	}
}
