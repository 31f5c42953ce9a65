package table_test

import (
	"encoding/hex"
	"flag"
	"os"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestGoldenRun holds the run format: a change here needs a new version.
func TestGoldenRun(t *testing.T) {
	shop, price := column.New(column.Of(column.String)), column.New(column.DecimalOf(9, 2))
	title, at := column.New(column.Of(column.String)), column.New(column.Of(column.Timestamp))
	for i, s := range []string{"ulm/b", "ulm/a", "ulm/b", "kiel"} {
		shop.AppendString(s)
		price.AppendDecimal(column.Int128From(int64(199 * (i + 1))))
		title.AppendString("title " + s)
		at.AppendTimestamp(1_796_000_000+int64(i), 500_000_000)
	}
	none := combine.Params{}
	shape := table.Shape{
		Keys: []column.Field{{Name: "shop", Type: shop.Type}},
		Fns: []combine.Fn{
			build(t, "count", none), build(t, "sum", none, price.Type),
			build(t, "latest", none, title.Type), build(t, "latest", none, price.Type),
		},
	}
	tab := table.New(shape)
	groups := make([]uint32, shop.Len())
	if err := tab.Groups([]*column.Vector{shop}, all(shop.Len()), groups); err != nil {
		t.Fatal(err)
	}
	for f, args := range [][]*column.Vector{nil, {price}, {title}, {price}} {
		in := &combine.Input{Groups: groups, Rows: all(shop.Len()), Args: args, Order: &order{time: at, record: title}}
		if err := tab.Columns()[f].Add(in); err != nil {
			t.Fatal(err)
		}
	}
	got := hex.Dump(write(t, tab, table.Options{}))
	const path = "testdata/run.golden"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the run changed:\n%s\nwant:\n%s", got, want)
	}
}
