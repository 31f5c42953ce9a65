package index_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
)

// TestWhatALifterInheritsDoesNotShow: lifters of several programs that work one
// after the other in the same memory, on batches of any length, gather what
// those do that have their own.
func TestWhatALifterInheritsDoesNotShow(t *testing.T) {
	kinds := map[string]column.Type{
		"id": column.Of(column.Int64), "at": column.Of(column.Timestamp), "title": column.Of(column.String),
		"op": column.Of(column.String), "n": column.Of(column.Int64),
	}
	latest := []index.FieldSpec{{Name: "title", Fn: "latest", Args: []string{"title"}}}
	var programs []*index.Program
	for _, spec := range []index.Spec{
		{Fields: latest},
		{Fields: latest, DeleteWhen: "op == 'D'"},
		{Fields: append(latest[:1:1], index.FieldSpec{Name: "n", Fn: "earliest", Args: []string{"n"}, Where: "n > 0"}), Where: "n < 2"},
		{Fields: []index.FieldSpec{{Name: "n", Fn: "sum", Args: []string{"n"}}}, DeleteWhen: "n > 1"},
	} {
		spec.Key, spec.EventTime = []string{"id"}, index.EventTime{Column: "at"}
		programs = append(programs, compile(t, spec))
	}
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var last *index.Lifter
		for range 2 + rng.IntN(4) {
			p := programs[rng.IntN(len(programs))]
			var batches []*column.Batch
			for range 1 + rng.IntN(3) {
				var rows []map[string]any
				for range 1 + rng.IntN(30) {
					rows = append(rows, drawRecord(rng))
				}
				b, _ := batch(t, p, kinds, rows...)
				batches = append(batches, b)
			}
			_, types := batch(t, p, kinds)
			bound, err := p.Bind(types)
			if err != nil {
				rt.Fatal(err)
			}
			own, tab := lift(rt, bound, batches...), table.New(bound.Shape())
			l, err := bound.NewLifter(tab, start)
			if err != nil {
				rt.Fatal(err)
			}
			if last != nil {
				l.Inherit(last)
			}
			last = l
			for _, b := range batches {
				if _, err := l.Add(b, 0); err != nil {
					rt.Fatal(err)
				}
			}
			if got, want := runOf(rt, tab), runOf(rt, own); !bytes.Equal(got, want) {
				rt.Fatalf("%x with the memory of another, %x with its own", got, want)
			}
		}
	})
}

// runOf is the run of a table.
func runOf(rt *rapid.T, tab *table.Table) []byte {
	var out bytes.Buffer
	if _, err := tab.WriteRun(&out, table.Options{}); err != nil {
		rt.Fatal(err)
	}
	return out.Bytes()
}
