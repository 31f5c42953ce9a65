package window_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/window"
)

// TestTheOldestRungIsBeatenInItsOwnPartition: of five values, each worse than
// the one before, the fifth is not kept. When the first three have left, the
// fourth is the only one that is known; then its partition gets a better one.
func TestTheOldestRungIsBeatenInItsOwnPartition(t *testing.T) {
	program, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "most", Fn: "max", Args: []string{"v"}}}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	bound, err := program.Bind([]column.Type{column.Of(column.String), column.Of(column.Int64)})
	if err != nil {
		t.Fatal(err)
	}
	source := func(at int, v int64) window.Source {
		tab := table.New(bound.Shape())
		lifter, err := bound.NewLifter(tab, minute(at))
		if err != nil {
			t.Fatal(err)
		}
		batch := &column.Batch{Len: 1, Columns: []*column.Vector{column.New(column.Of(column.String)), column.New(column.Of(column.Int64))}}
		batch.Columns[0].AppendString("k")
		batch.Columns[1].AppendInt(v)
		if _, err := lifter.Add(batch, 0); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := tab.WriteRun(&out, table.Options{}); err != nil {
			t.Fatal(err)
		}
		run, err := table.OpenBytes(out.Bytes(), bound.Shape())
		if err != nil {
			t.Fatal(err)
		}
		return window.Source{ID: fmt.Sprint(at, "/", v), Start: minute(at), Run: run, All: true, Windowed: true}
	}
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
	var sources []window.Source
	for at := 1; at <= 12; at++ {
		sources = append(sources, source(at, int64(100-at)))
	}
	for step, change := range []func(){
		func() {},
		func() { sources = sources[1:] },
		func() { sources = sources[1:] },
		func() { sources = sources[1:] },
		func() { sources[0] = source(4, 98) },
	} {
		change()
		want, err := pane(func(emit func(window.Documents) error) error {
			return window.Fold(bound, sources, nil, minute(12), emit)
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := pane(func(emit func(window.Documents) error) error {
			_, err := r.Fold(bound, sources, nil, minute(12), nil, emit)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("step %d: %s, want %s", step, got, want)
		}
	}
}
