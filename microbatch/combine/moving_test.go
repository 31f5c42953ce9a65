package combine_test

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
)

// movers are fns with a column for windows, of parameters small enough to reach
// all their forms, each with what a group may have of memory.
func movers(t *testing.T) []combine.Fn {
	whole, double := column.Of(column.Int64), column.Of(column.Float64)
	var fns []combine.Fn
	for _, precision := range []int{4, 8, 10} {
		fns = append(fns, build(t, "distinct", options("precision", precision), whole),
			build(t, "distinct", options("precision", precision, "output", "sketch"), whole))
	}
	return append(fns, build(t, "median", combine.Params{}, double), build(t, "quantile", options("q", []any{0.0, 0.3, 1.0}), whole),
		build(t, "histogram", options("relative_error", 0.2), double), build(t, "histogram", options("boundaries", []any{-5, 0, 100}), whole))
}

// someOf are records of one group.
func someOf(rt *rapid.T, t column.Type) *column.Vector {
	n := rapid.SampledFrom([]int{1, 2, 5, 20, 80, 400, 3000}).Draw(rt, "records")
	of := rapid.SampledFrom([]int64{3, 40, 1000, math.MaxInt64}).Draw(rt, "of")
	x := rapid.Uint64().Draw(rt, "seed")
	v := column.New(t)
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
		y := int64(x>>1) % of
		switch {
		case x>>59 == 0:
			v.AppendNull()
		case t.Kind == column.Int64:
			v.AppendInt(y - of/3)
		case x>>59 == 1:
			v.AppendFloat([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 5e-324}[y%5])
		default:
			v.AppendFloat(float64(y-of/3) / 8)
		}
	}
	return v
}

// TestAMovingColumnIsTheFnsOwn: whatever is merged and taken out, the column of
// a window has the accumulators and the values that the fn's own column has of
// what is left; what cannot be taken out leaves it as it was.
func TestAMovingColumnIsTheFnsOwn(t *testing.T) {
	for _, fn := range movers(t) {
		name := fn.TypeID() + fn.Output().String()
		var out, kept int
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				const groups = 3
				// Groups of 512 slots and fewer have room in any case.
				col := fn.(combine.Mover).NewMoving(rapid.SampledFrom([]int64{0, 1 << 15, 1 << 30}).Draw(rt, "most"))
				col.Grow(groups)
				clearer := col.(combine.Clearer)
				var live [groups][][]byte
				var loose [groups]bool
				for range rapid.IntRange(1, 25).Draw(rt, "steps") {
					g := uint32(rapid.IntRange(0, groups-1).Draw(rt, "group"))
					switch rapid.SampledFrom([]string{"merge", "merge", "merge", "take", "take", "take", "damaged", "clear", "loosen", "never"}).Draw(rt, "event") {
					case "merge":
						acc := lifted(t, fn, someOf(rt, fn.Args()[0])).AppendAcc(nil, 0)
						if err := col.Merge(g, acc); err != nil {
							rt.Fatal(err)
						}
						live[g] = append(live[g], acc)
					case "take":
						if len(live[g]) == 0 {
							continue
						}
						i := rapid.IntRange(0, len(live[g])-1).Draw(rt, "which")
						gone, err := takeOut(col, g, live[g][i])
						if err != nil {
							rt.Fatal(err)
						}
						if gone {
							out++
							live[g] = slices.Delete(live[g], i, i+1)
						} else {
							kept++
						}
					case "damaged":
						acc := lifted(t, fn, someOf(rt, fn.Args()[0])).AppendAcc(nil, 0)
						if len(acc) > 0 {
							acc[rapid.IntRange(0, len(acc)-1).Draw(rt, "at")] ^= byte(1 << rapid.IntRange(0, 7).Draw(rt, "bit"))
						}
						if fn.Validate(acc) != nil {
							if col.Merge(g, acc) == nil {
								rt.Fatalf("%x is no accumulator and was merged", acc)
							}
							if gone, _ := takeOut(col, g, acc); gone {
								rt.Fatalf("%x is no accumulator and was taken out", acc)
							}
						}
					case "clear":
						clearer.Clear(g)
						live[g], loose[g] = nil, false
					case "loosen":
						clearer.Clear(g)
						live[g] = nil
						if l, ok := col.(combine.Loosener); ok {
							l.Loosen(g)
							loose[g] = true
						}
					case "never":
						if len(live[g]) > 0 {
							continue
						}
						if _, ok := col.(combine.Loosener); ok && loose[g] {
							continue
						}
						acc := lifted(t, fn, someOf(rt, fn.Args()[0])).AppendAcc(nil, 0)
						if gone, err := takeOut(col, g, acc); len(acc) > 0 && err == nil && gone {
							rt.Fatalf("%x was taken out and had never been there", acc)
						}
					}
					want := fn.NewColumn()
					want.Grow(1)
					for _, acc := range live[g] {
						if err := want.Merge(0, acc); err != nil {
							rt.Fatal(err)
						}
					}
					if a, b := col.AppendAcc(nil, g), want.AppendAcc(nil, 0); !bytes.Equal(a, b) {
						rt.Fatalf("accumulator %x, want %x", a, b)
					}
					dst := column.New(fn.Output())
					if err := col.Extract(g, dst); err != nil {
						rt.Fatal(err)
					}
					if a, b := tuple.Append(nil, dst, 0), tuple.Append(nil, extracted(t, fn, want), 0); !bytes.Equal(a, b) {
						rt.Fatalf("value %x, want %x", a, b)
					}
				}
			})
			if _, group := fn.NewColumn().(combine.Inverter); out == 0 || !group && kept == 0 || group && kept > 0 {
				t.Errorf("%d accumulators were taken out, %d could not be", out, kept)
			}
		})
	}
}

// takeOut takes an accumulator out; false says that it could not be.
func takeOut(col combine.Column, g uint32, acc []byte) (bool, error) {
	if c, ok := col.(combine.Inverter); ok {
		err := c.Unmerge(g, acc)
		return err == nil, err
	}
	return col.(combine.Retractor).Retract(g, acc)
}
