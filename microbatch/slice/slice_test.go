package slice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/partition"
)

var sliceStart = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

// texts are the objects of one partition, by key.
type texts struct {
	bodies map[string]string
	passes atomic.Int64
}

func (x *texts) input() Input {
	in := Input{Start: sliceStart}
	for i := range len(x.bodies) {
		key := fmt.Sprintf("%d", i)
		in.Objects = append(in.Objects, partition.Object{Key: key, ETag: key, Size: int64(len(x.bodies[key])), Partition: sliceStart})
	}
	return in
}

func (x *texts) slicer(t testing.TB, format scan.Format, row scan.RowPolicy) Builder {
	t.Helper()
	program, err := index.Compile(index.Spec{Key: []string{"k"}, Where: "s != 'no'", Fields: []index.FieldSpec{
		{Name: "rows", Fn: "count", Args: []string{"*"}}, {Name: "n", Fn: "sum", Args: []string{"n"}},
		{Name: "low", Fn: "min", Args: []string{"n"}}, {Name: "s", Fn: "latest", Args: []string{"s"}},
		{Name: "all", Fn: "set", Args: []string{"s"}},
	}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	return Builder{Program: program, Format: format, Row: row, Open: func(o partition.Object) (scan.Blob, map[string]string) {
		return textBlob{x, o.Key}, nil
	}}
}

type textBlob struct {
	x   *texts
	key string
}

func (b textBlob) Key() string { return b.key }
func (b textBlob) Size() int64 { return int64(len(b.x.bodies[b.key])) }
func (b textBlob) ReadAll(context.Context) ([]byte, error) {
	b.x.passes.Add(1)
	return []byte(b.x.bodies[b.key]), nil
}
func (b textBlob) ReadRange(_ context.Context, off, n int64) ([]byte, error) {
	b.x.passes.Add(1)
	return []byte(b.x.bodies[b.key][off : off+n]), nil
}

// randomTexts draws objects whose columns are of one type, another, or none.
func randomTexts(rt *rapid.T, format scan.Format) *texts {
	x := &texts{bodies: map[string]string{}}
	for i := range rapid.IntRange(1, 3).Draw(rt, "objects") {
		numbers := rapid.SampledFrom([][]string{{"1", "-7", "30"}, {"1", "2.5", "-0"}, {"null"}, {"1", "null", "4"}}).Draw(rt, "numbers")
		words := rapid.SampledFrom([][]string{{"a", "no", "b"}, {"null"}, {"z", "null"}}).Draw(rt, "words")
		var b strings.Builder
		if format == scan.CSV {
			b.WriteString("k,n,s\n")
		}
		for range rapid.IntRange(0, 6).Draw(rt, "rows") {
			key := rapid.SampledFrom([]string{"x", "y", "null"}).Draw(rt, "key")
			n, s := rapid.SampledFrom(numbers).Draw(rt, "n"), rapid.SampledFrom(words).Draw(rt, "s")
			if format == scan.CSV {
				fmt.Fprintln(&b, strings.ReplaceAll(key+","+n+","+s, "null", ""))
				continue
			}
			fmt.Fprintln(&b, strings.ReplaceAll(fmt.Sprintf(`{"k":%q,"n":%s,"s":%q}`, key, n, s), `"null"`, "null"))
		}
		if rapid.IntRange(0, 9).Draw(rt, "torn") == 0 {
			b.WriteString("{\"k\":\n")
		}
		x.bodies[fmt.Sprint(i)] = b.String()
	}
	return x
}

// TestOnePassEqualsTwo: where the hint's types are the objects', one pass
// gives the slice that two do, rejected rows included; elsewhere it says so.
func TestOnePassEqualsTwo(t *testing.T) {
	fitted := 0
	rapid.Check(t, func(rt *rapid.T) {
		format := rapid.SampledFrom([]scan.Format{scan.NDJSON, scan.CSV}).Draw(rt, "format")
		s := randomTexts(rt, format)
		slicer := s.slicer(t, format, rapid.SampledFrom([]scan.RowPolicy{scan.Fail, scan.Reject}).Draw(rt, "row"))
		hint := make([]column.Type, 0, 3)
		for _, c := range slicer.Program.Columns() {
			kinds := []column.Kind{column.String}
			if c.Path == "n" {
				kinds = []column.Kind{column.Int64, column.Float64, column.Null}
			}
			hint = append(hint, column.Of(rapid.SampledFrom(kinds).Draw(rt, "hint")))
		}
		one, err := slicer.buildAt(t.Context(), s.input(), hint, nil)
		two, wrong := slicer.buildObserved(t.Context(), s.input(), hint, nil)
		if errors.Is(err, errMisfit) {
			return
		}
		fitted++
		if (err == nil) != (wrong == nil) {
			rt.Fatalf("one pass: %v, two passes: %v", err, wrong)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(runOf(rt, one), runOf(rt, two)) || !SameTypes(one.Built, two.Built) {
			rt.Fatalf("one pass built %v (%d bytes), two %v (%d bytes)", one.Built, one.Run.Size(), two.Built, two.Run.Size())
		}
		one.Run, two.Run, one.Built, two.Built = nil, nil, nil, nil
		if !reflect.DeepEqual(one, two) {
			rt.Fatalf("one pass %+v\ntwo passes %+v", one, two)
		}
	})
	if fitted == 0 {
		t.Error("no object fitted: nothing was compared")
	}
}

func TestPassesOverText(t *testing.T) {
	whole, mixed := `{"k":"x","n":1,"s":"a"}`+"\n", `{"k":"x","n":1.5,"s":"a"}`+"\n"
	types := []column.Type{column.Of(column.String), column.Of(column.Int64), column.Of(column.String)}
	for _, c := range []struct {
		name, body string
		hint       []column.Type
		passes     int64
	}{
		{"no hint", whole, nil, 2},
		{"it fits", whole, types, 1},
		{"it does not", mixed, types, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &texts{bodies: map[string]string{"0": c.body}}
			s := x.slicer(t, scan.NDJSON, scan.Fail)
			s.Limits.Whole = 1 // what is read whole is kept for the next pass
			if _, err := s.Build(t.Context(), x.input(), c.hint); err != nil {
				t.Fatal(err)
			}
			if got := x.passes.Load(); got != c.passes {
				t.Errorf("%d passes, want %d", got, c.passes)
			}
		})
	}
}

// TestRetypeLateInAnObject: a column that changes its type after batches were
// handed out falls back to two passes.
func TestRetypeLateInAnObject(t *testing.T) {
	body := strings.Repeat(`{"k":"x","n":1,"s":"a"}`+"\n", 5000) + `{"k":"x","n":0.5,"s":"a"}` + "\n"
	x := &texts{bodies: map[string]string{"0": body}}
	s := x.slicer(t, scan.NDJSON, scan.Fail)
	types := []column.Type{column.Of(column.String), column.Of(column.Int64), column.Of(column.String)}
	got, err := s.Build(t.Context(), x.input(), types)
	if err != nil {
		t.Fatal(err)
	}
	want, err := s.buildObserved(t.Context(), x.input(), nil, nil)
	if err != nil || !bytes.Equal(runOf(t, got), runOf(t, want)) || got.Objects[0].Rows != 5001 {
		t.Errorf("%d rows, %v, the cold build's bytes: %v", got.Objects[0].Rows, err, bytes.Equal(runOf(t, got), runOf(t, want)))
	}
}

// fataler is what *testing.T and *rapid.T have in common here.
type fataler interface{ Fatal(args ...any) }

// runOf returns the bytes of a slice's run.
func runOf(t fataler, s *Slice) []byte {
	b, err := io.ReadAll(io.NewSectionReader(s.Run, 0, s.Run.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dataOf(t fataler, n int) *spool.Data {
	s := spool.New("", nil)
	if _, err := s.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	d, err := s.Seal()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSpilledSlicesHaveTheSameBytes: a slice built under any table budget, and
// kept in memory or in a file, is the slice built with room for everything.
func TestSpilledSlicesHaveTheSameBytes(t *testing.T) {
	var body strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&body, `{"k":"k%d","n":%d,"s":"s%d"}`+"\n", i*7919%5000, i, i%13)
	}
	x := &texts{bodies: map[string]string{"0": body.String(), "1": body.String()}}
	roomy := x.slicer(t, scan.NDJSON, scan.Fail)
	want, err := roomy.Build(t.Context(), x.input(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, budget := range []int64{1, 300 << 10, 1 << 20} {
		tight := x.slicer(t, scan.NDJSON, scan.Fail)
		tight.TableBytes, tight.Memory, tight.Dir = budget, spool.NewBudget(budget), t.TempDir()
		got, err := tight.Build(t.Context(), x.input(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(runOf(t, got), runOf(t, want)) {
			t.Errorf("a table of %d bytes: another run", budget)
		}
	}
}

// TestCacheKeepsToItsBudget: what is used least goes first, and the newest
// slice stays whatever it weighs.
func TestCacheKeepsToItsBudget(t *testing.T) {
	c := NewCache(3000)
	id := func(i byte) ID { return ID{i} }
	for i := range byte(5) {
		c.Put(id(i), &Slice{Run: dataOf(t, 400)}) // 912 each by weight
	}
	if c.Get(id(0)) != nil || c.Get(id(1)) != nil || c.Get(id(2)) == nil || c.Get(id(4)) == nil {
		t.Error("want the three newest")
	}
	c.Get(id(2))
	c.Put(id(5), &Slice{Run: dataOf(t, 400)})
	if c.Get(id(2)) == nil || c.Get(id(3)) != nil {
		t.Error("want the one used lately kept")
	}
	c.Put(id(5), &Slice{Run: dataOf(t, 1<<20)})
	if c.Get(id(5)) == nil || c.mu.order.Len() != 1 || c.mu.used < 1<<20 {
		t.Errorf("%d slices of %d bytes, want only the newest", c.mu.order.Len(), c.mu.used)
	}
	c.Put(id(5), &Slice{Run: dataOf(t, 0)})
	if c.mu.used != weight(&Slice{Run: dataOf(t, 0)}) {
		t.Errorf("%d bytes in use after a replacement", c.mu.used)
	}
}

// TestCacheHoldsTheWindowAlone: partitions that left and former versions of
// those that are left would fill the budget with what no run can use.
func TestCacheHoldsTheWindowAlone(t *testing.T) {
	c := NewCache(1 << 20)
	input := func(minute int, etag string) Input {
		start := time.Date(2026, 11, 30, 3, minute, 0, 0, time.UTC)
		return Input{Start: start, Objects: []partition.Object{{Key: "a", ETag: etag, Partition: start}}}
	}
	left, former, now := input(0, "1"), input(1, "1"), input(1, "2")
	for _, in := range []Input{left, former, now} {
		c.Put(IDOf(in), &Slice{Start: in.Start, Run: &spool.Data{}})
	}
	c.Keep([]Input{now})
	if c.Get(IDOf(left)) != nil || c.Get(IDOf(former)) != nil || c.Get(IDOf(now)) == nil {
		t.Errorf("the cache holds %d slices", c.mu.order.Len())
	}
	if c.mu.used != weight(&Slice{Run: &spool.Data{}}) {
		t.Errorf("%d bytes are counted", c.mu.used)
	}
}
