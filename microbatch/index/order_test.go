package index_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
)

// TestBatchesDoNotShow: fields that go by the order of records have the bytes
// that they have when every record comes in a batch of its own, whether one or
// several of them ask for ranks, and however long these are.
func TestBatchesDoNotShow(t *testing.T) {
	kinds := map[string]column.Type{
		"id": column.Of(column.Int64), "at": column.Of(column.Timestamp), "title": column.Of(column.String),
		"price": column.DecimalOf(18, 4), "op": column.Of(column.String), "n": column.Of(column.Int64),
	}
	keep := map[string]any{"nulls": "keep"}
	shapes := map[string]index.Spec{
		"one":      {Fields: []index.FieldSpec{{Name: "title", Fn: "latest", Args: []string{"title"}}}},
		"oldest":   {Fields: []index.FieldSpec{{Name: "title", Fn: "earliest", Args: []string{"title"}, Params: keep}}},
		"nulls":    {Fields: []index.FieldSpec{{Name: "price", Fn: "latest", Args: []string{"price"}, Params: keep}, {Name: "n", Fn: "sum", Args: []string{"n"}}}},
		"first":    {Fields: []index.FieldSpec{{Name: "key", Fn: "latest", Args: []string{"id"}}, {Name: "title", Fn: "max", Args: []string{"title"}}}},
		"computed": {Fields: []index.FieldSpec{{Name: "n", Fn: "latest", Args: []string{"=n + 1"}}}},
		"filtered": {Fields: []index.FieldSpec{{Name: "title", Fn: "latest", Args: []string{"title"}, Where: "n > 0"}}},
		"two":      {Fields: []index.FieldSpec{{Name: "title", Fn: "latest", Args: []string{"title"}}, {Name: "n", Fn: "latest", Args: []string{"n"}}}},
		"deletes":  {DeleteWhen: "op == 'D'", Fields: []index.FieldSpec{{Name: "title", Fn: "latest", Args: []string{"title"}}, {Name: "count", Fn: "count", Args: []string{"*"}}}},
		"register": {DeleteWhen: "op == 'D'", Fields: []index.FieldSpec{{Name: "n", Fn: "sum", Args: []string{"n"}}}},
	}
	for name, spec := range shapes {
		t.Run(name, func(t *testing.T) {
			spec.Key, spec.EventTime = []string{"id"}, index.EventTime{Column: "at"}
			p := compile(t, spec)
			// One more that asks for ranks, of a column that is read already.
			spec.Fields = append(slices.Clone(spec.Fields), index.FieldSpec{Name: "again", Fn: "earliest", Args: []string{"id"}})
			q := compile(t, spec)
			rapid.Check(t, func(rt *rapid.T) {
				rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
				var rows []map[string]any
				for range 1 + rng.IntN(30) {
					rows = append(rows, drawRecord(rng))
				}
				whole, types := batch(t, p, kinds, rows...)
				var each []*column.Batch
				for _, i := range rng.Perm(len(rows)) {
					b, _ := batch(t, p, kinds, rows[i])
					each = append(each, b)
				}
				bound, err := p.Bind(types)
				if err != nil {
					rt.Fatal(err)
				}
				more, err := q.Bind(types)
				if err != nil {
					rt.Fatal(err)
				}
				many, one := lift(rt, bound, whole), lift(rt, more, each...)
				for g := range uint32(many.Len()) {
					other := one.Group(many.Key(g))
					for f, c := range many.Columns() {
						if err := bound.Shape().Fns[f].Validate(c.AppendAcc(nil, g)); err != nil {
							rt.Fatal(err)
						}
						if got, want := c.AppendAcc(nil, g), one.Columns()[f].AppendAcc(nil, other); !bytes.Equal(got, want) {
							rt.Fatalf("key %x, column %d: %x, one by one %x", many.Key(g), f, got, want)
						}
					}
				}
			})
		})
	}
}

// TestRanksAreThoseOfCombine: a record is ranked as combine.AppendRank says,
// whether one field or several ask for it, and whether it deletes or not.
func TestRanksAreThoseOfCombine(t *testing.T) {
	kinds := map[string]column.Type{"id": column.Of(column.Int64), "at": column.Of(column.Timestamp), "op": column.Of(column.String), "n": column.Of(column.Int64)}
	n := index.FieldSpec{Name: "n", Fn: "latest", Args: []string{"n"}}
	for name, spec := range map[string]index.Spec{
		"one":     {Fields: []index.FieldSpec{n}},
		"two":     {Fields: []index.FieldSpec{n, {Name: "op", Fn: "earliest", Args: []string{"op"}}}},
		"deletes": {Fields: []index.FieldSpec{n}, DeleteWhen: "op == 'D'"},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Key, spec.EventTime = []string{"id"}, index.EventTime{Column: "at"}
			p := compile(t, spec)
			for i, row := range []map[string]any{
				{"id": 1, "at": start, "op": "U", "n": 5}, {"id": -1, "at": nil, "op": nil, "n": -700},
				{"id": 0, "at": start.Add(1500 * time.Millisecond), "op": "D", "n": 0},
			} {
				b, types := batch(t, p, kinds, row)
				bound, err := p.Bind(types)
				if err != nil {
					t.Fatal(err)
				}
				tab := table.New(bound.Shape())
				l, err := bound.NewLifter(tab, start)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := l.Add(b, 0); err != nil {
					t.Fatal(err)
				}
				var times, value *column.Vector
				for c, col := range p.Columns() {
					switch col.Path {
					case "at":
						times = b.Columns[c]
					case "n":
						value = b.Columns[c]
					}
				}
				deleted := name == "deletes" && row["op"] == "D"
				rank := combine.AppendRank(nil, times, 0, deleted, tuple.AppendRow(nil, b.Columns, 0))
				at, acc := 1, append([]byte{byte(len(rank))}, rank...)
				if acc = tuple.Append(acc, value, 0); deleted {
					// No field has it: the register does, behind the count.
					at, acc = 0, tuple.AppendBool(append([]byte{1, byte(len(rank))}, rank...), true)
				}
				if got := tab.Columns()[at].AppendAcc(nil, 0); !bytes.Equal(got, acc) {
					t.Fatalf("record %d: %x, want %x", i, got, acc)
				}
			}
		})
	}
}

// lift gathers the batches into a table.
func lift(rt *rapid.T, bound *index.Bound, batches ...*column.Batch) *table.Table {
	tab := table.New(bound.Shape())
	l, err := bound.NewLifter(tab, start)
	if err != nil {
		rt.Fatal(err)
	}
	for _, b := range batches {
		if _, err := l.Add(b, 0); err != nil {
			rt.Fatal(err)
		}
	}
	return tab
}

// drawRecord draws a record of few keys and times, with ranks of less and more
// than 128 bytes, and of more than 2^14.
func drawRecord(rng *rand.Rand) map[string]any {
	r := map[string]any{
		"id": rng.IntN(3), "at": start.Add(time.Duration(rng.IntN(3)) * time.Second), "op": []string{"D", "U"}[rng.IntN(2)],
		"title": strings.Repeat("x", rng.IntN(120)) + strings.Repeat("\x00", rng.IntN(2)), "n": rng.IntN(5) - 2,
	}
	switch rng.IntN(20) {
	case 0:
		r["title"] = strings.Repeat("long", 1<<12)
	case 1:
		r["at"] = nil
	case 2, 3:
		r["title"] = nil
	case 4:
		r["n"] = nil
	}
	return r
}
