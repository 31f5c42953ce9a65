package table_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
)

// TestGroupsAreThoseOfTheEncodedKeys: however a table finds its groups, two
// records have one group exactly if their keys have one encoding. Keys come
// from a dictionary or not, and a cleared table is as good as a new one.
func TestGroupsAreThoseOfTheEncodedKeys(t *testing.T) {
	texts := []string{"", "a", "ab", "abc", "abcd", "abcde", "a\x00", "\x00", "a\x00\xff", strings.Repeat("x", 8), strings.Repeat("x", 16), strings.Repeat("x", 17),
		strings.Repeat("x", 24), strings.Repeat("x", 25), strings.Repeat("x", 12) + "y" + strings.Repeat("x", 12), strings.Repeat("x", 12) + "z" + strings.Repeat("x", 12),
		strings.Repeat("x", 12) + "\x00" + strings.Repeat("x", 13), strings.Repeat("x", 12) + "\x00\xff" + strings.Repeat("x", 12)}
	// Many that differ in one of the words that a slot has, or in their length
	// alone: some of them have one slot.
	for n := range 26 {
		x, y := strings.Repeat("x", 8), strings.Repeat(string(rune('a'+n)), 8)
		texts = append(texts, strings.Repeat("x", n), y+x+x, x+y+x, x+x+y)
	}
	rapid.Check(t, func(rt *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom([]column.Kind{column.Int32, column.Int64, column.String, column.Bytes, column.Float64}), 1, 2).Draw(rt, "kinds")
		shape := table.Shape{Fns: []combine.Fn{build(t, "count", combine.Params{})}}
		for i, k := range kinds {
			shape.Keys = append(shape.Keys, column.Field{Name: fmt.Sprint(i), Type: column.Of(k)})
		}
		tab := table.New(shape)
		for range rapid.IntRange(1, 2).Draw(rt, "uses") {
			known := map[string]uint32{}
			for range rapid.IntRange(1, 4).Draw(rt, "batches") {
				n := rapid.IntRange(0, 200).Draw(rt, "records")
				var keys []*column.Vector
				for _, f := range shape.Keys {
					keys = append(keys, keysOf(rt, f.Type, n, texts))
				}
				groups, rows := make([]uint32, n), all(n)
				if rapid.Bool().Draw(rt, "some") {
					rows = slices.DeleteFunc(rows, func(i int32) bool { return i%3 == 1 })
				}
				if err := tab.Groups(keys, rows, groups); err != nil {
					rt.Fatal(err)
				}
				for _, i := range rows {
					i, g := int(i), groups[i]
					key := tuple.AppendRow(nil, keys, i)
					if want, ok := known[string(key)]; ok && g != want || !ok && int(g) != len(known) {
						rt.Fatalf("key %x has group %d, known as %d (%v)", key, g, want, ok)
					}
					known[string(key)] = g
					if !bytes.Equal(tab.Key(g), key) {
						rt.Fatalf("group %d has key %x, want %x", g, tab.Key(g), key)
					}
				}
			}
			for key, g := range known {
				if got := tab.Group([]byte(key)); got != g {
					rt.Fatalf("encoded key %x has group %d, want %d", key, got, g)
				}
			}
			var last []byte
			for _, g := range tab.Sorted() {
				if bytes.Compare(last, tab.Key(g)) >= 0 {
					rt.Fatalf("key %x after %x", tab.Key(g), last)
				}
				last = tab.Key(g)
			}
			tab.Clear()
			if tab.Len() != 0 {
				rt.Fatal("a cleared table has groups")
			}
		}
	})
}

// keysOf draws keys of the type, with the codes of a dictionary or without.
func keysOf(rt *rapid.T, typ column.Type, n int, texts []string) *column.Vector {
	v, dict := column.New(typ), column.New(typ)
	for range rapid.IntRange(1, 2000).Draw(rt, "values") {
		x := rapid.Int64().Draw(rt, "value")
		switch {
		case typ.Kind == column.Int64 && x%2 == 0:
			dict.AppendInt([]int64{0, math.MinInt64, math.MaxInt64, -1, x, -x}[uint64(x)/2%6])
		case typ.IsInt():
			dict.AppendInt(int64(int32(x)))
		case typ.IsFloat():
			dict.AppendFloat(float64(int32(x)))
		case x%3 == 0:
			dict.AppendString(fmt.Sprintf("shop-%02d/ad-%010x", x%100, x))
		default:
			dict.AppendString(texts[uint64(x)%uint64(len(texts))])
		}
	}
	coded := rapid.Bool().Draw(rt, "coded")
	x := rapid.Uint64().Draw(rt, "seed")
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
		c := int(x >> 33 % uint64(dict.Len()))
		if err := v.AppendFrom(dict, c); err != nil {
			rt.Fatal(err)
		}
		if coded {
			v.Codes, v.Dict = append(v.Codes, uint32(c)), dict
		}
	}
	return v
}

// TestColumnsWriteWhatRowsDo: a run is the same bytes whether a table's columns
// write many rows at once or it is written row by row.
func TestColumnsWriteWhatRowsDo(t *testing.T) {
	shape := table.Shape{
		Keys: []column.Field{{Name: "k", Type: column.Of(column.Int64)}},
		Fns:  []combine.Fn{build(t, "count", combine.Params{}, column.Of(column.Int64)), build(t, "set", combine.Params{}, column.Of(column.Int64)), build(t, "max", combine.Params{}, column.Of(column.Int64))},
	}
	for _, groups := range []int{0, 1, 255, 256, 257, 3000} {
		tab := table.New(shape)
		key, value := column.New(shape.Keys[0].Type), column.New(column.Of(column.Int64))
		for i := range groups {
			key.AppendInt(int64(i*7919%groups) - 100)
			if i%5 == 0 {
				value.AppendNull() // a group of identities: the row is left out
			} else {
				value.AppendInt(int64(i * i))
			}
		}
		ids := make([]uint32, groups)
		if err := tab.Groups([]*column.Vector{key}, all(groups), ids); err != nil {
			t.Fatal(err)
		}
		for _, c := range tab.Columns() {
			if err := c.Add(&combine.Input{Groups: ids, Rows: all(groups), Args: []*column.Vector{value}}); err != nil {
				t.Fatal(err)
			}
		}
		want := write(t, tab, table.Options{})
		var rows bytes.Buffer
		w, err := table.NewWriter(&rows, shape, table.Options{})
		if err != nil {
			t.Fatal(err)
		}
		accs, n := make([][]byte, len(shape.Fns)), 0
		for c := tab.Cursor(); c.Next(); n++ {
			for f := range accs {
				accs[f] = c.Acc(f)
			}
			if err := w.Append(c.Key(), accs); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(rows.Bytes(), want) {
			t.Errorf("%d groups: another run of %d rows", groups, n)
		}
	}
}

// TestColumnsWriteWhatRowsDoOfAnyLength: as above, of accumulators of whatever
// length, by columns that had others.
func TestColumnsWriteWhatRowsDoOfAnyLength(t *testing.T) {
	text := column.Of(column.String)
	shape := table.Shape{
		Keys: []column.Field{{Name: "k", Type: column.Of(column.Int64)}},
		Fns:  []combine.Fn{build(t, "max", combine.Params{}, text), build(t, "count", combine.Params{}, text), build(t, "set", combine.Params{}, text)},
	}
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
		n, longest := rapid.IntRange(0, 700).Draw(rt, "records"), rapid.SampledFrom([]int{1, 12, 40, 300, 5000}).Draw(rt, "longest")
		tab := table.New(shape)
		for range 2 { // the second time in memory that had other rows
			tab.Clear()
			key, value := column.New(shape.Keys[0].Type), column.New(text)
			for range n {
				key.AppendInt(rng.Int64N(500))
				if rng.IntN(3) == 0 {
					value.AppendNull()
				} else {
					value.AppendString(strings.Repeat(string(rune('a'+rng.IntN(26))), rng.IntN(longest)))
				}
			}
			groups := make([]uint32, n)
			if err := tab.Groups([]*column.Vector{key}, all(n), groups); err != nil {
				rt.Fatal(err)
			}
			for _, c := range tab.Columns() {
				if err := c.Add(&combine.Input{Groups: groups, Rows: all(n), Args: []*column.Vector{value}}); err != nil {
					rt.Fatal(err)
				}
			}
			want := write(t, tab, table.Options{})
			var rows bytes.Buffer
			if _, err := table.MergeRuns(&rows, shape, table.Options{}, tab.Cursor()); err != nil {
				rt.Fatal(err)
			}
			if !bytes.Equal(rows.Bytes(), want) {
				rt.Fatalf("%d records of %d bytes: another run row by row", n, longest)
			}
			if err := open(t, want, shape).Verify(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}
