package table_test

import (
	"io"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
)

// TestWritingARunKeepsToItsRoom: what a table holds once a run was written is what it held, 32 bytes a group, the rows of a block, and no
// more of rows that were written ahead than Options.Room.
func TestWritingARunKeepsToItsRoom(t *testing.T) {
	const groups, rest = 8_000, 384 << 10
	number := column.Of(column.Int64)
	shape := table.Shape{Keys: []column.Field{{Name: "k", Type: number, Key: true}}}
	for range 12 {
		shape.Fns = append(shape.Fns, build(t, "sum", combine.Params{}, number))
	}
	key, value := column.New(number), column.New(number)
	for i := range groups {
		key.AppendInt(int64(i * 7919))
		value.AppendInt(int64(i)<<20 + 1)
	}
	tab, ids := table.New(shape), make([]uint32, groups)
	if err := tab.Groups([]*column.Vector{key}, all(groups), ids); err != nil {
		t.Fatal(err)
	}
	for _, c := range tab.Columns() {
		if err := c.Add(&combine.Input{Groups: ids, Rows: all(groups), Args: []*column.Vector{value}}); err != nil {
			t.Fatal(err)
		}
	}
	before, ahead := tab.Bytes(), 0
	for room := int64(512 << 10); room <= 4<<20; room += 128 << 10 {
		if _, err := tab.WriteRun(io.Discard, table.Options{Room: room}); err != nil {
			t.Fatal(err)
		}
		took := tab.Bytes() - before - 32*groups - rest
		if took > room {
			t.Errorf("room for %d bytes, %d were taken", room, took)
		}
		if took > 512<<10 {
			ahead++
		}
	}
	if ahead == 0 {
		t.Error("no row was written ahead: the test is too tame")
	}
}
