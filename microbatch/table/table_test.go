package table_test

import (
	"bytes"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
)

// order ranks records by an event time column and a record column.
type order struct {
	time, record *column.Vector
	buf          []byte
}

func (o *order) Rank(i int) []byte {
	o.buf = combine.AppendRank(o.buf[:0], o.time, i, false, tuple.Append(nil, o.record, i))
	return o.buf
}

func build(t testing.TB, name string, p combine.Params, args ...column.Type) combine.Fn {
	t.Helper()
	fn, err := combine.Builtins()[name].New(p, args)
	if err != nil {
		t.Fatal(err)
	}
	return fn
}

func TestCountSumLatestThroughTableRunAndMerge(t *testing.T) {
	key := column.New(column.Of(column.String))
	clicks := column.New(column.Of(column.Int64))
	title := column.New(column.Of(column.String))
	at := column.New(column.Of(column.Timestamp))
	for i, k := range []string{"b", "a", "b", "a", "c"} {
		key.AppendString(k)
		clicks.AppendInt(int64(10 * (i + 1)))
		title.AppendString(k + string(rune('0'+i)))
		at.AppendTimestamp(int64(100-i), 0)
	}
	shape := table.Shape{
		Keys: []column.Field{{Name: "id", Type: key.Type}},
		Fns: []combine.Fn{
			build(t, "count", combine.Params{}),
			build(t, "sum", combine.Params{}, clicks.Type),
			build(t, "latest", combine.Params{}, title.Type),
		},
	}
	add := func(rows []int32) []byte {
		tab := table.New(shape)
		groups := make([]uint32, key.Len())
		if err := tab.Groups([]*column.Vector{key}, rows, groups); err != nil {
			t.Fatal(err)
		}
		args := [][]*column.Vector{nil, {clicks}, {title}}
		for f, c := range tab.Columns() {
			in := &combine.Input{Groups: groups, Rows: rows, Args: args[f], Order: &order{time: at, record: title}}
			if err := c.Add(in); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if _, err := tab.WriteRun(&out, table.Options{}); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	whole := add(all(5))
	var cursors []table.Cursor
	for _, part := range [][]int32{{4, 0, 1}, {3, 2}} {
		run, err := table.OpenBytes(add(part), shape)
		if err != nil {
			t.Fatal(err)
		}
		cursors = append(cursors, run.Cursor())
	}
	var merged bytes.Buffer
	if _, err := table.MergeRuns(&merged, shape, table.Options{}, cursors...); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(whole, merged.Bytes()) {
		t.Fatalf("merged runs differ from the run of all records:\n%x\n%x", merged.Bytes(), whole)
	}
	run, err := table.OpenBytes(whole, shape)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for c := run.Cursor(); c.Next(); {
		got += string(c.Key()[1])
		for f, fn := range shape.Fns {
			col, dst := fn.NewColumn(), column.New(fn.Output())
			col.Grow(1)
			if err := col.Merge(0, c.Acc(f)); err != nil {
				t.Fatal(err)
			}
			if err := col.Extract(0, dst); err != nil {
				t.Fatal(err)
			}
			if dst.Type.Kind == column.String {
				got += " " + dst.Strings[0] + ";"
			} else {
				got += " " + string(rune('0'+dst.Ints[0]/10)) + string(rune('0'+dst.Ints[0]%10))
			}
		}
	}
	if want := "a 02 60 a1;b 02 40 b0;c 01 50 c4;"; got != want {
		t.Errorf("documents: %s, want %s", got, want)
	}
}
