package table_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
)

// fixture is a shape over every class of fn and records for it.
type fixture struct {
	shape   table.Shape
	keys    []*column.Vector
	args    [][]*column.Vector
	records combinetest.Records
}

func shapeOf(t testing.TB) table.Shape {
	t.Helper()
	str, num, dbl := column.Of(column.String), column.Of(column.Int64), column.Of(column.Float64)
	none := combine.Params{}
	capped := combine.Params{Options: map[string]any{"cap": 2}}
	ads := combine.Params{By: "ad", Fields: []combine.Sub{{Name: "bid", Fn: build(t, "latest", none, dbl)}, {Name: "n", Fn: build(t, "count", none)}}}
	return table.Shape{
		Keys: []column.Field{{Name: "shop", Type: str}, {Name: "item", Type: num}},
		Fns: []combine.Fn{
			combine.Newest(), build(t, "count", none), build(t, "sum", none, dbl), build(t, "latest", none, str),
			build(t, "latest", none, num), build(t, "min", none, dbl), build(t, "set", capped, str),
			build(t, "distinct_exact", none, num), build(t, "collect", ads, num, dbl),
		},
	}
}

func newFixture(t testing.TB, rng *rand.Rand, n, spread int) fixture {
	t.Helper()
	f := fixture{shape: shapeOf(t)}
	shop, item, del := column.New(column.Of(column.String)), column.New(column.Of(column.Int64)), column.New(column.Of(column.Bool))
	s, i, d := column.New(column.Of(column.String)), column.New(column.Of(column.Int64)), column.New(column.Of(column.Float64))
	at := column.New(column.Of(column.Timestamp))
	for r := range n {
		shop.AppendString(strings.Repeat("tenant/", rng.IntN(3)) + string(rune('a'+rng.IntN(3))))
		item.AppendInt(int64(rng.IntN(spread)) * 1009)
		for _, v := range []*column.Vector{del, s, i, d} {
			combinetest.AppendValue(rng, v)
		}
		at.AppendTimestamp(int64(rng.IntN(3)), 0)
		f.records.Ranks = append(f.records.Ranks, combine.AppendRank(nil, at, r, !del.Null(r) && del.Bools[r], tuple.AppendRow(nil, []*column.Vector{d, i, s}, r)))
	}
	f.keys = []*column.Vector{shop, item}
	f.args = [][]*column.Vector{{del}, nil, {d}, {s}, {i}, {d}, {s}, {i}, {i, d}}
	return f
}

// add adds the records in rows to the table.
func (f fixture) add(t testing.TB, tab *table.Table, rows []int32) {
	t.Helper()
	groups := make([]uint32, f.keys[0].Len())
	if err := tab.Groups(f.keys, rows, groups); err != nil {
		t.Fatal(err)
	}
	for j, c := range tab.Columns() {
		if err := c.Add(&combine.Input{Groups: groups, Rows: rows, Args: f.args[j], Order: f.records}); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t testing.TB, tab *table.Table, o table.Options) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := tab.WriteRun(&out, o); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func open(t testing.TB, run []byte, shape table.Shape) *table.Run {
	t.Helper()
	r, err := table.OpenBytes(run, shape)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mergeRuns(t testing.TB, shape table.Shape, o table.Options, runs ...[]byte) []byte {
	t.Helper()
	var cursors []table.Cursor
	for _, r := range runs {
		cursors = append(cursors, open(t, r, shape).Cursor())
	}
	var out bytes.Buffer
	if _, err := table.MergeRuns(&out, shape, o, cursors...); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func all(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

func random(rt *rapid.T) *rand.Rand { return rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3)) }

func TestAnyOrderSplitSpillAndMergeTreeGiveTheSameRun(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := random(rt)
		n := rapid.IntRange(0, 150).Draw(rt, "records")
		f := newFixture(t, rng, n, rapid.SampledFrom([]int{1, 5, 1000}).Draw(rt, "spread"))
		whole := table.New(f.shape)
		f.add(t, whole, all(n))
		want := write(t, whole, table.Options{})

		// One table, spilled whenever chance says that the budget is used up.
		rows := all(n)
		rng.Shuffle(n, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		tab := table.New(f.shape)
		var runs [][]byte
		for len(rows) > 0 {
			k := 1 + rng.IntN(len(rows))
			f.add(t, tab, rows[:k])
			rows = rows[k:]
			if rng.IntN(2) == 0 {
				runs = append(runs, write(t, tab, table.Options{Compress: rng.IntN(2) == 0}))
				tab.Reset()
			}
		}
		// What was not spilled takes part as it is.
		var out bytes.Buffer
		cursors := []table.Cursor{tab.Cursor()}
		for len(runs) > 1 && rng.IntN(3) > 0 { // some other tree
			i := rng.IntN(len(runs) - 1)
			runs[i] = mergeRuns(t, f.shape, table.Options{}, runs[i], runs[i+1])
			runs = slices.Delete(runs, i+1, i+2)
		}
		for _, r := range runs {
			cursors = append(cursors, open(t, r, f.shape).Cursor())
		}
		rng.Shuffle(len(cursors), func(i, j int) { cursors[i], cursors[j] = cursors[j], cursors[i] })
		if _, err := table.MergeRuns(&out, f.shape, table.Options{}, cursors...); err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(out.Bytes(), want) {
			rt.Fatalf("%d spilled runs give other bytes", len(runs))
		}
	})
}

func TestCompressionChangesNoContent(t *testing.T) {
	f := newFixture(t, rand.New(rand.NewPCG(1, 1)), 5000, 3000)
	tab := table.New(f.shape)
	f.add(t, tab, all(f.keys[0].Len()))
	plain, packed := write(t, tab, table.Options{}), write(t, tab, table.Options{Compress: true})
	a, b := open(t, plain, f.shape), open(t, packed, f.shape)
	if len(packed) >= len(plain) || a.Summary().SHA256 != b.Summary().SHA256 || a.Rows() != b.Rows() {
		t.Errorf("%d bytes, compressed %d, %d and %d rows", len(plain), len(packed), a.Rows(), b.Rows())
	}
	if len(a.Starts()) < 3 {
		t.Errorf("only %d blocks: the test reaches too little", len(a.Starts()))
	}
	for _, r := range []*table.Run{a, b} {
		if err := r.Verify(); err != nil {
			t.Error(err)
		}
	}
	if again := mergeRuns(t, f.shape, table.Options{}, packed); !bytes.Equal(again, plain) {
		t.Error("the compressed run does not come back as the plain one")
	}
}

func TestRunsOfManyBlocksMerge(t *testing.T) {
	const n = 6000
	f := newFixture(t, rand.New(rand.NewPCG(9, 1)), n, 4000)
	whole := table.New(f.shape)
	f.add(t, whole, all(n))
	want := write(t, whole, table.Options{})
	var runs [][]byte
	for p := range int32(3) {
		var rows []int32
		for i := p; i < n; i += 3 {
			rows = append(rows, i)
		}
		tab := table.New(f.shape)
		f.add(t, tab, rows)
		runs = append(runs, write(t, tab, table.Options{}))
		run := open(t, runs[p], f.shape)
		if len(run.Starts()) < 2 {
			t.Fatal("one block only: the test reaches too little")
		}
		var last []byte
		for c := run.Cursor(); c.Next(); last = bytes.Clone(c.Key()) {
			if s := c.Shared(); !bytes.HasPrefix(last, c.Key()[:s]) || s < len(last) && last[s] == c.Key()[s] {
				t.Fatalf("%x shares not %d bytes with %x", c.Key(), s, last)
			}
		}
	}
	if !bytes.Equal(mergeRuns(t, f.shape, table.Options{}, runs...), want) {
		t.Error("three runs give other bytes than one")
	}
}

func TestSeekFindsTheFirstKeyNotBelow(t *testing.T) {
	f := newFixture(t, rand.New(rand.NewPCG(2, 1)), 6000, 4000)
	tab := table.New(f.shape)
	f.add(t, tab, all(f.keys[0].Len()))
	run := open(t, write(t, tab, table.Options{Compress: true}), f.shape)
	var keys [][]byte
	for c := run.Cursor(); c.Next(); {
		keys = append(keys, bytes.Clone(c.Key()))
	}
	if !slices.IsSortedFunc(keys, bytes.Compare) || int64(len(keys)) != run.Rows() {
		t.Fatalf("%d keys of %d rows", len(keys), run.Rows())
	}
	rng := rand.New(rand.NewPCG(3, 1))
	c := run.Cursor()
	for range 500 {
		target := bytes.Clone(keys[rng.IntN(len(keys))])
		switch rng.IntN(4) {
		case 0:
			target = append(target, 1)
		case 1:
			target = target[:rng.IntN(len(target))]
		}
		i, _ := slices.BinarySearchFunc(keys, target, bytes.Compare)
		c.Seek(target)
		for k := range 3 {
			ok := c.Next()
			if ok != (i+k < len(keys)) || ok && !bytes.Equal(c.Key(), keys[i+k]) {
				t.Fatalf("seek %x, row %d: %x, want row %d of %d", target, k, c.Key(), i+k, len(keys))
			}
		}
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// listCursor walks keys; each has its number as the only accumulator.
type listCursor struct {
	keys   [][]byte
	at     int
	broken error
}

func (c *listCursor) Next() bool { c.at++; return c.at <= len(c.keys) }

func (c *listCursor) Key() []byte { return c.keys[c.at-1] }

func (c *listCursor) Shared() int {
	if c.at < 2 {
		return 0
	}
	a, b, n := c.keys[c.at-2], c.keys[c.at-1], 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func (c *listCursor) Acc(int) []byte { return []byte{1} }

func (c *listCursor) Err() error {
	if c.at > len(c.keys) {
		return c.broken
	}
	return nil
}

// TestMergeYieldsEveryKeyOnceWithItsHolders uses keys made to defeat
// offset-value codes: long shared prefixes, zeros, prefixes of one another.
func TestMergeYieldsEveryKeyOnceWithItsHolders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := random(rt)
		alphabet := rapid.SampledFrom([]string{"\x00", "\x00\x01", "\x00a\xff", "ab"}).Draw(rt, "alphabet")
		longest := rapid.SampledFrom([]int{3, 8, 30}).Draw(rt, "longest")
		want := map[string][]int{}
		var cursors []table.Cursor
		for i := range rapid.IntRange(0, 9).Draw(rt, "cursors") {
			set := map[string]bool{}
			for range rng.IntN(40) {
				b := make([]byte, rng.IntN(longest))
				for j := range b {
					b[j] = alphabet[rng.IntN(len(alphabet))]
				}
				set[strings.Repeat("\xff", 6*rng.IntN(3))+string(b)] = true
			}
			c := &listCursor{}
			for k := range set {
				want[k] = append(want[k], i)
				c.keys = append(c.keys, []byte(k))
			}
			slices.SortFunc(c.keys, bytes.Compare)
			cursors = append(cursors, c)
		}
		m := table.Merge(cursors)
		last, n := "", 0
		for ; m.Next(); n++ {
			k := string(m.Key())
			if n > 0 && k <= last {
				rt.Fatalf("%q after %q", k, last)
			}
			if !slices.Equal(m.Holders(), want[k]) {
				rt.Fatalf("%q held by %v, want %v", k, m.Holders(), want[k])
			}
			last = k
		}
		if n != len(want) || m.Err() != nil {
			rt.Fatalf("%d keys of %d, err %v", n, len(want), m.Err())
		}
	})
}

func TestMergeStopsAtABrokenInput(t *testing.T) {
	broken := errors.New("disk gone")
	m := table.Merge([]table.Cursor{&listCursor{keys: [][]byte{{1}, {3}}}, &listCursor{keys: [][]byte{{2}}, broken: broken}})
	n := 0
	for m.Next() {
		n++
	}
	if !errors.Is(m.Err(), broken) || n != 2 {
		t.Errorf("%d keys, err %v", n, m.Err())
	}
}

func TestMergeAllocatesNothingPerKey(t *testing.T) {
	f := newFixture(t, rand.New(rand.NewPCG(4, 1)), 4000, 300)
	simple := table.Shape{Keys: f.shape.Keys, Fns: f.shape.Fns[:6]}
	var runs [][]byte
	for p := range int32(8) {
		tab := table.New(simple)
		var rows []int32
		for i := p; i < 4000; i += 8 {
			rows = append(rows, i)
		}
		part := f
		part.shape = simple
		part.add(t, tab, rows)
		runs = append(runs, write(t, tab, table.Options{}))
	}
	opened := make([]*table.Run, len(runs))
	for i, r := range runs {
		opened[i] = open(t, r, simple)
	}
	keys := 0
	allocs := testing.AllocsPerRun(3, func() {
		cursors := make([]table.Cursor, len(opened))
		for i, r := range opened {
			cursors[i] = r.Cursor()
		}
		s, err := table.MergeRuns(io.Discard, simple, table.Options{}, cursors...)
		if err != nil {
			t.Fatal(err)
		}
		keys = int(s.Rows)
	})
	if keys < 600 || allocs > float64(keys)/2 {
		t.Errorf("%v allocations for %d keys", allocs, keys)
	}
}

func TestRunsOfAnotherShapeAreRefused(t *testing.T) {
	f := newFixture(t, rand.New(rand.NewPCG(5, 1)), 10, 10)
	tab := table.New(f.shape)
	f.add(t, tab, all(f.keys[0].Len()))
	run := write(t, tab, table.Options{})
	fns := func(change func(s *table.Shape)) table.Shape {
		s := table.Shape{Keys: slices.Clone(f.shape.Keys), Fns: slices.Clone(f.shape.Fns)}
		change(&s)
		return s
	}
	tests := []struct {
		name  string
		shape table.Shape
		want  string
	}{
		{"another parameter", fns(func(s *table.Shape) {
			s.Fns[6] = build(t, "set", combine.Params{Options: map[string]any{"cap": 3}}, column.Of(column.String))
		}),
			"run has fn set(string,cap=2)/1, want fn set(string,cap=3)/1"},
		{"a fn less", fns(func(s *table.Shape) { s.Fns = s.Fns[:8] }), `run has fn collect(by=int,"bid":latest(float,nulls=skip)/1,"n":count(*)/1)/1 besides`},
		{"a fn more", fns(func(s *table.Shape) { s.Fns = append(s.Fns, combine.Newest()) }), "run lacks fn newest_record()/1"},
		{"another key", fns(func(s *table.Shape) { s.Keys[1].Type = column.Of(column.String) }), "run has key item of type int, want key item of type string"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := table.OpenBytes(run, tt.shape); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestEveryDamagedByteIsFound(t *testing.T) {
	f := newFixture(t, rand.New(rand.NewPCG(6, 1)), 25, 10)
	tab := table.New(f.shape)
	f.add(t, tab, all(f.keys[0].Len()))
	run := write(t, tab, table.Options{Compress: true})
	verify := func(b []byte) error {
		r, err := table.OpenBytes(b, f.shape)
		if err != nil {
			return err
		}
		return r.Verify()
	}
	if err := verify(run); err != nil {
		t.Fatal(err)
	}
	for i := range run {
		b := bytes.Clone(run)
		b[i] ^= 0x20
		if verify(b) == nil {
			t.Errorf("byte %d changed unseen", i)
		}
		if verify(run[:i]) == nil {
			t.Errorf("cut at %d unseen", i)
		}
	}
}

func TestWriterRefusesWhatIsNoRun(t *testing.T) {
	shape := table.Shape{Keys: []column.Field{{Name: "k", Type: column.Of(column.Int64)}}, Fns: []combine.Fn{build(t, "count", combine.Params{})}}
	tests := []struct {
		name string
		rows func(w *table.Writer) error
		want string
	}{
		{"a key twice", func(w *table.Writer) error {
			return errors.Join(w.Append([]byte{1}, [][]byte{{1}}), w.Append([]byte{1}, [][]byte{{1}}))
		}, "key 01 does not come after 01"},
		{"too few accumulators", func(w *table.Writer) error { return w.Append([]byte{1}, nil) }, "0 accumulators given, a row has 1"},
		{"a row too large", func(w *table.Writer) error { return w.Append([]byte{1}, [][]byte{make([]byte, table.MaxBlock/2)}) },
			fmt.Sprintf("accumulators of key 01 take %d bytes, more than a run holds (%d)", table.MaxBlock/2+1, table.MaxBlock/2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, err := table.NewWriter(io.Discard, shape, table.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := tt.rows(w); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if _, err := w.Close(); err == nil {
				t.Error("a failed writer closed a run")
			}
		})
	}
}

func TestRowsOfIdentitiesAreAbsent(t *testing.T) {
	shape := table.Shape{Keys: []column.Field{{Name: "k", Type: column.Of(column.Int64)}}, Fns: []combine.Fn{build(t, "count", combine.Params{})}}
	tab := table.New(shape)
	tab.Group(tuple.AppendInt(nil, 1))
	if tab.Len() != 1 {
		t.Fatalf("%d groups", tab.Len())
	}
	if r := open(t, write(t, tab, table.Options{}), shape); r.Rows() != 0 || tab.Cursor().Next() {
		t.Errorf("%d rows", r.Rows())
	}
}

func TestResetLetsGoOfMemory(t *testing.T) {
	f := newFixture(t, rand.New(rand.NewPCG(8, 1)), 3000, 3000)
	tab := table.New(f.shape)
	empty := tab.Bytes()
	f.add(t, tab, all(f.keys[0].Len()))
	full := tab.Bytes()
	tab.Reset()
	if got := tab.Bytes(); full < 100*1000 || got > empty+1000 || tab.Len() != 0 {
		t.Errorf("%d bytes empty, %d full, %d after", empty, full, got)
	}
}

func TestNullKeyIsAnError(t *testing.T) {
	shape := table.Shape{Keys: []column.Field{{Name: "id", Type: column.Of(column.Int64)}}}
	k := column.New(column.Of(column.Int64))
	k.AppendInt(1)
	k.AppendNull()
	err := table.New(shape).Groups([]*column.Vector{k}, all(2), make([]uint32, 2))
	if err == nil || err.Error() != "key column id is null in record 1" {
		t.Error(err)
	}
}

func FuzzRun(f *testing.F) {
	fix := newFixture(f, rand.New(rand.NewPCG(7, 1)), 12, 4)
	tab := table.New(fix.shape)
	fix.add(f, tab, all(12))
	f.Add(write(f, tab, table.Options{}))
	f.Add(write(f, tab, table.Options{Compress: true}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := table.OpenBytes(b, fix.shape)
		if err != nil || r.Verify() != nil {
			return
		}
		var plain, again bytes.Buffer
		s, err := table.MergeRuns(&plain, fix.shape, table.Options{}, r.Cursor())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := table.MergeRuns(&again, fix.shape, table.Options{}, open(t, plain.Bytes(), fix.shape).Cursor()); err != nil || !bytes.Equal(plain.Bytes(), again.Bytes()) {
			t.Fatalf("a verified run of %d rows is not stable, err %v", s.Rows, err)
		}
	})
}
