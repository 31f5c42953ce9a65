package table_test

import (
	"io"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
)

// TestWritingARunTakesTheRowsOfABlock: what a table holds once a run was written
// is what it held, 32 bytes a group, and a few times the rows of a block, or a
// row that is larger. That is so from the first row on.
func TestWritingARunTakesTheRowsOfABlock(t *testing.T) {
	text := column.Of(column.String)
	for _, tt := range []struct {
		name         string
		groups, size int
		most         int64
	}{
		{"short rows", 8_000, 10, 1 << 20},
		{"rows of a block", 100, 64 << 10, 1 << 20},
		{"large rows", 40, 1 << 20, 6 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shape := table.Shape{Keys: []column.Field{{Name: "k", Type: column.Of(column.Int64), Key: true}}}
			for range 3 {
				shape.Fns = append(shape.Fns, build(t, "count", combine.Params{}, text))
			}
			shape.Fns = append(shape.Fns, build(t, "max", combine.Params{}, text))
			key, value := column.New(shape.Keys[0].Type), column.New(text)
			for i := range tt.groups {
				key.AppendInt(int64(i * 7919))
				value.AppendString(strings.Repeat("x", tt.size))
			}
			tab, ids := table.New(shape), make([]uint32, tt.groups)
			if err := tab.Groups([]*column.Vector{key}, all(tt.groups), ids); err != nil {
				t.Fatal(err)
			}
			for _, c := range tab.Columns() {
				if err := c.Add(&combine.Input{Groups: ids, Rows: all(tt.groups), Args: []*column.Vector{value}}); err != nil {
					t.Fatal(err)
				}
			}
			before := tab.Bytes()
			if _, err := tab.WriteRun(io.Discard, table.Options{}); err != nil {
				t.Fatal(err)
			}
			if took := tab.Bytes() - before - 32*int64(tt.groups); took > tt.most {
				t.Errorf("%d bytes were taken, more than %d", took, tt.most)
			}
		})
	}
}
