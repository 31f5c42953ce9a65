package combine_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// TestAddOfManyIsOneByOne: what a column makes of many records at once, all of a
// batch or some of it, with nulls or without, is what it makes of the same
// records one after the other, in whatever order and among whatever groups.
func TestAddOfManyIsOneByOne(t *testing.T) {
	t.Parallel()
	str, dbl := column.Of(column.String), column.Of(column.Float64)
	fns := []combine.Fn{combine.Newest(), build(t, "count", combine.Params{}), build(t, "covariance", combine.Params{}, dbl, dbl), build(t, "arg_max", combine.Params{}, str, dbl)}
	for _, name := range []string{"sum", "mean", "max", "min"} {
		fns = append(fns, build(t, name, combine.Params{}, column.DecimalOf(38, 37)))
	}
	for _, b := range combine.Builtins() {
		if b.MinArgs < 2 && b.Name != "collect" {
			fns = append(fns, combinetest.Trials(b, nil, 1)...)
		}
	}
	for _, fn := range fns {
		t.Run(fn.TypeID(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) { manyAtOnce(rt, fn) })
		})
	}
}

// manyAtOnce adds a few batches to two columns; between them groups come to be
// and one is made the identity again.
func manyAtOnce(rt *rapid.T, fn combine.Fn) {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
	many, one := fn.NewColumn(), fn.NewColumn()
	groups := 0
	for range 1 + rng.IntN(4) {
		groups += rng.IntN(4)
		if groups == 0 {
			groups = 1
		}
		many.Grow(groups)
		one.Grow(groups)
		in := records(rng, fn.Args(), groups)
		if err := many.Add(in); err != nil {
			rt.Fatal(err)
		}
		for _, k := range rng.Perm(len(in.Rows)) {
			single := *in
			single.Rows = in.Rows[k : k+1]
			if err := one.Add(&single); err != nil {
				rt.Fatal(err)
			}
		}
		for g := range uint32(groups) {
			if got, want := many.AppendAcc(nil, g), one.AppendAcc(nil, g); !bytes.Equal(got, want) {
				rt.Fatalf("group %d of %d records: %x, one by one %x", g, len(in.Rows), got, want)
			}
		}
		if c, ok := many.(combine.Clearer); ok && rng.IntN(2) == 0 {
			g := uint32(rng.IntN(groups))
			c.Clear(g)
			one.(combine.Clearer).Clear(g)
		}
	}
}

// records draws a batch: with nulls or without, and all of it takes part or some
// of it does. Few times and values make ties the rule.
func records(rng *rand.Rand, args []column.Type, groups int) *combine.Input {
	n := rng.IntN(12)
	if rng.IntN(8) == 0 {
		n = rng.IntN(700)
	}
	o := &headed{headless{times: column.New(column.Of(column.Timestamp)), record: column.New(column.Of(column.Int64))}}
	in := &combine.Input{Order: o}
	nulls, deletes := rng.IntN(2) == 0, rng.IntN(2) == 0
	for _, t := range args {
		v, one := column.New(t), column.New(t)
		for v.Len() < n {
			one.Reset()
			if combinetest.AppendValue(rng, one); nulls || !one.Null(0) || t.Kind == column.Null {
				_ = v.AppendFrom(one, 0) // equal types always append
			}
		}
		in.Args = append(in.Args, v)
	}
	content := rng.Int64N(3) + 1
	for i := range n {
		if rng.IntN(8) == 0 && nulls {
			o.times.AppendNull()
		} else {
			o.times.AppendTimestamp(rng.Int64N(3)-1, rng.Int32N(2))
		}
		// Records of one rank are alike in all that the fn reads, or in what it
		// does not: both happen where a record has other columns too.
		o.record.AppendInt(rng.Int64N(content))
		o.deletes = append(o.deletes, deletes && rng.IntN(3) == 0)
		in.Groups = append(in.Groups, uint32(rng.IntN(groups)))
		if some := rng.IntN(4) > 0; some || n%2 == 0 {
			in.Rows = append(in.Rows, int32(i))
		}
	}
	return in
}
