package bench_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/RoaringBitmap/roaring/v2/roaring64"
	"github.com/axiomhq/hyperloglog"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// value extracts a combine fn's value of all of v.
func value(t *testing.T, name string, options map[string]any, v *column.Vector) *column.Vector {
	t.Helper()
	fn, err := combine.Builtins()[name].New(combine.Params{Options: options}, []column.Type{v.Type})
	if err != nil {
		t.Fatal(err)
	}
	col, out := fn.NewColumn(), column.New(fn.Output())
	col.Grow(1)
	rows := make([]int32, v.Len())
	for i := range rows {
		rows[i] = int32(i)
	}
	if err := col.Add(&combine.Input{Groups: make([]uint32, v.Len()), Rows: rows, Args: []*column.Vector{v}}); err != nil {
		t.Fatal(err)
	}
	if err := col.Extract(0, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestBitmapsAreRoaringsOwn: the bytes are those of the library after
// RunOptimize, and it reads them.
func TestBitmapsAreRoaringsOwn(t *testing.T) {
	for round := range uint64(60) {
		rng := rand.New(rand.NewPCG(round, 1))
		v, library := column.New(column.Of(column.Int64)), roaring64.New()
		width := int64(1) << (4 + rng.IntN(44))
		for range 1 + rng.IntN(10_000) {
			x := rng.Int64N(width)
			for j := range 1 + rng.Int64N(1+int64(round)%9) {
				v.AppendInt(x + j)
				library.Add(uint64(x + j))
			}
		}
		image := []byte(value(t, "bitmap", nil, v).Strings[0])
		back := roaring64.New()
		if _, err := back.ReadFrom(bytes.NewReader(image)); err != nil || !back.Equals(library) {
			t.Fatalf("round %d: read back with %v, %d of %d numbers", round, err, back.GetCardinality(), library.GetCardinality())
		}
		library.RunOptimize()
		if want, err := library.ToBytes(); err != nil || !bytes.Equal(image, want) {
			t.Errorf("round %d: %d bytes, the library has %d, %v", round, len(image), len(want), err)
		}
	}
}

// TestEstimatesAgreeWithPeers: both sides keep their errors, so they are within
// the sum of both of each other.
func TestEstimatesAgreeWithPeers(t *testing.T) {
	d := draw(shape{1, 50_000})
	sketch, err := ddsketch.NewDefaultDDSketch(0.01)
	if err != nil {
		t.Fatal(err)
	}
	logs := hyperloglog.New14()
	for i, f := range d.floats.Floats {
		if err := sketch.Add(f); err != nil {
			t.Fatal(err)
		}
		x := uint64(d.ints.Ints[i])
		logs.Insert([]byte{byte(x), byte(x >> 8), byte(x >> 16), byte(x >> 24)})
	}
	for _, q := range []float64{0.01, 0.5, 0.99} {
		theirs, err := sketch.GetValueAtQuantile(q)
		if err != nil {
			t.Fatal(err)
		}
		if got := value(t, "quantile", map[string]any{"q": q}, d.floats).Floats[0]; math.Abs(got-theirs) > 0.03*theirs {
			t.Errorf("quantile %v: %v, DDSketch has %v", q, got, theirs)
		}
	}
	theirs := float64(logs.Estimate())
	if got := float64(value(t, "distinct", map[string]any{"precision": 14}, d.ints).Ints[0]); math.Abs(got-theirs) > 0.05*theirs {
		t.Errorf("%v distinct, axiomhq has %v", got, theirs)
	}
}
