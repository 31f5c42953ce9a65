package combine_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// TestExtractAllIsExtract holds the values of many groups at once to those of
// one after the other, for every fn, with groups of nothing among them.
func TestExtractAllIsExtract(t *testing.T) {
	t.Parallel()
	for _, fn := range every(t) {
		t.Run(fn.TypeID(), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(lawCases(t) / 5) {
				rng := rand.New(rand.NewPCG(seed, 3))
				col := fn.NewColumn()
				groups := 1 + rng.IntN(20)
				col.Grow(groups)
				rec := combinetest.Generate(rng, fn.Args())
				in := &combine.Input{Args: rec.Args, Order: rec}
				for i := range rec.Ranks {
					in.Rows, in.Groups = append(in.Rows, int32(i)), append(in.Groups, uint32(rng.IntN(groups)))
				}
				if err := col.Add(in); err != nil {
					t.Fatal(err)
				}
				these := make([]uint32, rng.IntN(2*groups))
				for i := range these {
					these[i] = uint32(rng.IntN(groups))
				}
				sameValues(t, fn, col, these)
			}
		})
	}
}

// sameValues extracts groups at once and one by one, onto a row that is there.
func sameValues(t *testing.T, fn combine.Fn, col combine.Column, groups []uint32) {
	t.Helper()
	want, got := column.New(fn.Output()), column.New(fn.Output())
	failed, why := -1, error(nil)
	for _, v := range []*column.Vector{want, got} {
		if err := col.Extract(0, v); err != nil {
			failed, why = 0, err
		}
	}
	if why != nil {
		return
	}
	for i, g := range groups {
		if why = col.Extract(g, want); why != nil {
			failed = i
			break
		}
	}
	err := combine.ExtractAll(col, groups, got)
	if row := (&combine.RowError{}); errors.As(err, &row) != (why != nil) || err != nil && (row.Row != failed || row.Err.Error() != why.Error()) {
		t.Fatalf("groups %v: at once %v, one by one %v at %d", groups, err, why, failed)
	}
	if why != nil {
		return
	}
	if !sameVector(want, got) {
		t.Fatalf("groups %v: at once %s, one by one %s", groups, describe(got), describe(want))
	}
}

func describe(v *column.Vector) string { return fmt.Sprintf("%+v", *v) }

// sameVector compares to the last bit; which room a vector has does not matter.
func sameVector(a, b *column.Vector) bool {
	if a.Len() != b.Len() || !slices.Equal(a.Valid, b.Valid) || !slices.Equal(a.Bools, b.Bools) || !slices.Equal(a.Ints, b.Ints) ||
		!slices.Equal(a.Nanos, b.Nanos) || !slices.Equal(a.Decimals, b.Decimals) || !slices.Equal(a.Strings, b.Strings) ||
		!slices.Equal(a.Offsets, b.Offsets) || len(a.Floats) != len(b.Floats) || len(a.Fields) != len(b.Fields) {
		return false
	}
	for i, x := range a.Floats {
		if math.Float64bits(x) != math.Float64bits(b.Floats[i]) {
			return false
		}
	}
	for i, f := range a.Fields {
		if !sameVector(f, b.Fields[i]) {
			return false
		}
	}
	return a.Elem == nil || sameVector(a.Elem, b.Elem)
}

// TestExtractAllOfSums rounds sums at the bounds of doubles and of windows.
func TestExtractAllOfSums(t *testing.T) {
	fn := build(t, "sum", combine.Params{}, column.Of(column.Float64))
	rng := rand.New(rand.NewPCG(9, 9))
	const groups = 5000
	col, v := fn.NewColumn(), column.New(column.Of(column.Float64))
	col.Grow(groups)
	in := &combine.Input{Args: []*column.Vector{v}}
	for g := range uint32(groups) {
		scale := rng.IntN(2150) - 1080
		for range rng.IntN(6) {
			x := float64(rng.Int64()) - math.MaxInt64/2
			if rng.IntN(3) == 0 {
				x = float64(int64(1) << rng.IntN(60)) // for ties
			}
			x = math.Ldexp(x, min(scale+rng.IntN(60)-30, 955))
			if rng.IntN(2) == 0 {
				x = -x
			}
			v.AppendFloat(x)
			in.Rows, in.Groups = append(in.Rows, int32(len(in.Rows))), append(in.Groups, g)
		}
	}
	if err := col.Add(in); err != nil {
		t.Fatal(err)
	}
	these := make([]uint32, groups)
	for i := range these {
		these[i] = uint32(i)
	}
	sameValues(t, fn, col, these)
}

// TestExtractAllNamesTheRow: what does not fit is said of the group it is of.
func TestExtractAllNamesTheRow(t *testing.T) {
	fn := build(t, "sum", combine.Params{}, column.Of(column.Int64))
	col, v := fn.NewColumn(), column.New(column.Of(column.Int64))
	col.Grow(3)
	for _, x := range []int64{1, math.MaxInt64, math.MaxInt64, 2} {
		v.AppendInt(x)
	}
	if err := col.Add(&combine.Input{Args: []*column.Vector{v}, Rows: []int32{0, 1, 2, 3}, Groups: []uint32{0, 1, 1, 2}}); err != nil {
		t.Fatal(err)
	}
	err := combine.ExtractAll(col, []uint32{0, 2, 1, 0}, column.New(fn.Output()))
	if row := (&combine.RowError{}); !errors.As(err, &row) || row.Row != 2 {
		t.Fatalf("got %v, want an error of row 2", err)
	}
	sameValues(t, fn, col, []uint32{0, 2, 1, 0})
	if reflect.TypeOf(err) != reflect.TypeFor[*combine.RowError]() {
		t.Fatalf("got a %T", err)
	}
}
