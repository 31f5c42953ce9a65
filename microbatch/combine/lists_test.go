package combine_test

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/tuple"
)

// lists are the fns that keep several values, and arg_min and arg_max, over
// types that differ in their encodings.
func lists(t testing.TB) []combine.Fn {
	t.Helper()
	str, dbl, none, null := column.Of(column.String), column.Of(column.Float64), combine.Params{}, column.Of(column.Null)
	keep := option("nulls", "keep")
	both := combine.Params{Options: map[string]any{"cap": 4, "limit": 2}}
	var fns []combine.Fn
	for _, typ := range []column.Type{str, dbl, column.DecimalOf(9, 2), nestedTypes()[2], null} {
		for _, by := range []column.Type{dbl, str} {
			fns = append(fns, build(t, "arg_min", none, typ, by), build(t, "arg_max", keep, typ, by),
				build(t, "top", option("n", 2), typ, by), build(t, "top", none, typ, by))
		}
		fns = append(fns, build(t, "newest", option("n", 1), typ), build(t, "newest", option("n", 3), typ),
			build(t, "newest", combine.Params{Options: map[string]any{"n": 3, "nulls": "keep"}}, typ), build(t, "newest", none, typ),
			build(t, "top", none, typ), build(t, "top", option("n", 3), typ),
			build(t, "counts", none, typ), build(t, "counts", both, typ), build(t, "mode", none, typ), build(t, "mode", option("cap", 3), typ))
	}
	fns = append(fns, build(t, "arg_min", none, str, null), build(t, "top", none, str, null))
	for _, typ := range []column.Type{column.Of(column.Int64), dbl, column.DecimalOf(9, 2), null} {
		fns = append(fns, build(t, "median_exact", none, typ), build(t, "median_exact", option("cap", 3), typ))
	}
	return fns
}

func TestListsOfValues(t *testing.T) {
	none, n2 := combine.Params{}, option("n", 2)
	bools := column.New(column.Of(column.Bool))
	bools.AppendBool(true)
	bools.AppendNull()
	bools.AppendBool(false)
	nan := math.NaN()
	tests := []struct {
		name string
		fn   string
		p    combine.Params
		args []*column.Vector
		want string
	}{
		{"arg_max", "arg_max", none, []*column.Vector{texts("a", "b", "c"), ints(1, 3, 2)}, "b"},
		{"arg_min", "arg_min", none, []*column.Vector{texts("a", "b", "c"), ints(2, 1, 3)}, "b"},
		{"of equals the newest", "arg_max", none, []*column.Vector{texts("c", "b", "a"), ints(1, 1, 1)}, "a"},
		{"of equals the newest, least", "arg_min", none, []*column.Vector{texts("c", "b", "a"), ints(1, 1, 2)}, "b"},
		{"a null is no candidate", "arg_max", none, []*column.Vector{texts("a", "null"), ints(1, 2)}, "a"},
		{"a null that is kept wins", "arg_max", option("nulls", "keep"), []*column.Vector{texts("a", "null"), ints(1, 2)}, "null"},
		{"without the second", "arg_max", none, []*column.Vector{texts("a", "b"), texts("null", "x")}, "b"},
		{"NaN is the greatest", "arg_max", none, []*column.Vector{texts("a", "b"), floats(nan, 1)}, "a"},
		{"least is no NaN", "arg_min", none, []*column.Vector{texts("a", "b"), floats(nan, 1)}, "b"},
		{"arg_max of nothing", "arg_max", none, []*column.Vector{texts("null"), ints(1)}, "null"},
		{"all_of", "all_of", none, []*column.Vector{bools}, "false"},
		{"any_of", "any_of", none, []*column.Vector{bools}, "true"},
		{"newest", "newest", n2, []*column.Vector{texts("a", "b", "null", "c")}, "[c b]"},
		{"newest keeps nulls", "newest", combine.Params{Options: map[string]any{"n": 2, "nulls": "keep"}}, []*column.Vector{texts("a", "b", "null", "c")}, "[c null]"},
		{"fewer than n", "newest", n2, []*column.Vector{texts("a")}, "[a]"},
		{"newest of nothing", "newest", n2, []*column.Vector{texts("null")}, "null"},
		{"top of one", "top", n2, []*column.Vector{ints(1, 3, 2, 3)}, "[3 2]"},
		{"top", "top", n2, []*column.Vector{texts("a", "b", "a", "c"), ints(1, 2, 9, 3)}, "[{value:a max:9} {value:c max:3}]"},
		{"top of equal scores", "top", n2, []*column.Vector{texts("c", "b", "a"), ints(1, 1, 1)}, "[{value:a max:1} {value:b max:1}]"},
		{"top of nothing", "top", n2, []*column.Vector{texts("a", "null"), texts("null", "x")}, "null"},
		{"counts", "counts", none, []*column.Vector{texts("b", "a", "b", "null", "c")}, "[{value:b count:2} {value:a count:1} {value:c count:1}]"},
		{"counts, first", "counts", option("limit", 1), []*column.Vector{texts("b", "a", "b", "null", "c")}, "[{value:b count:2}]"},
		{"counts over its cap", "counts", option("cap", 1), []*column.Vector{texts("b", "a")}, "null"},
		{"counts of nothing", "counts", none, []*column.Vector{texts("null")}, "null"},
		{"mode", "mode", none, []*column.Vector{texts("b", "a", "b", "null", "c")}, "b"},
		{"mode of equals is the least", "mode", none, []*column.Vector{texts("c", "b", "b", "c", "a")}, "b"},
		{"median of odd", "median_exact", none, []*column.Vector{ints(9, 1, 2)}, "2"},
		{"median of even", "median_exact", none, []*column.Vector{ints(9, 1, 2, 3)}, "2.5"},
		{"median in one value", "median_exact", none, []*column.Vector{ints(7, 7, 1, 7)}, "7"},
		{"median without overflow", "median_exact", none, []*column.Vector{floats(math.MaxFloat64, math.MaxFloat64)}, fmt.Sprint(math.MaxFloat64)},
		{"median of the least", "median_exact", none, []*column.Vector{floats(math.SmallestNonzeroFloat64, 0)}, "0"},
		{"median between infinities", "median_exact", none, []*column.Vector{floats(math.Inf(1), math.Inf(-1))}, "NaN"},
		{"median of large integers", "median_exact", none, []*column.Vector{ints(math.MaxInt64, math.MaxInt64-1)}, fmt.Sprint(float64(math.MaxInt64))},
		{"median over its cap", "median_exact", option("cap", 2), []*column.Vector{ints(1, 2, 3)}, "null"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var types []column.Type
			for _, a := range tt.args {
				types = append(types, a.Type)
			}
			if got := render(extract(t, build(t, tt.fn, tt.p, types...), tt.args...), 0); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAllOfAndAnyOfAreTheirDefinitions(t *testing.T) {
	typ := column.Of(column.Bool)
	for bits := range 27 { // three values each: true, false, null
		v, every, some, seen := column.New(typ), true, false, false
		for range 3 {
			if bits%3 == 2 {
				v.AppendNull()
			} else {
				b := bits%3 == 1
				v.AppendBool(b)
				every, some, seen = every && b, some || b, true
			}
			bits /= 3
		}
		for name, want := range map[string]bool{"all_of": every, "any_of": some} {
			got := extract(t, build(t, name, combine.Params{}, typ), v)
			if got.Null(0) == seen || seen && got.Bools[0] != want {
				t.Errorf("%s of %v %v: %v, want %v", name, v.Bools, v.Valid, got.Bools, want)
			}
		}
	}
}

// TestListsAgreeWithSorting computes newest, top, counts, mode and median from
// all values at once, with a sort.
func TestListsAgreeWithSorting(t *testing.T) {
	typ := column.Of(column.Int64)
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		n, keep, spread := rapid.IntRange(1, 200).Draw(rt, "n"), rapid.IntRange(1, 12).Draw(rt, "keep"), rapid.IntRange(1, 60).Draw(rt, "spread")
		item, score := column.New(typ), column.New(typ)
		best, times := map[int64]int64{}, map[int64]int64{}
		for range n {
			x, s := int64(rng.IntN(spread)), int64(rng.IntN(spread))
			item.AppendInt(x)
			score.AppendInt(s)
			if b, ok := best[x]; !ok || s > b {
				best[x] = s
			}
			times[x]++
		}
		newest := slices.Clone(item.Ints)
		slices.Reverse(newest)
		check := func(name, want string, p combine.Params, args ...*column.Vector) {
			types := slices.Repeat([]column.Type{typ}, len(args))
			if got := render(extract(t, build(t, name, p, types...), args...), 0); got != want {
				rt.Fatalf("%s of %v, %v: %s, want %s", name, item.Ints, score.Ints, got, want)
			}
		}
		check("newest", fmt.Sprint(newest[:min(keep, n)]), option("n", keep), item)

		items := slices.Sorted(func(yield func(int64) bool) {
			for x := range times {
				if !yield(x) {
					return
				}
			}
		})
		descending := slices.Clone(items)
		slices.Reverse(descending)
		check("top", fmt.Sprint(descending[:min(keep, len(items))]), option("n", keep), item)

		listed := func(name string, by map[int64]int64, most int) string {
			order := slices.Clone(items)
			slices.SortStableFunc(order, func(a, b int64) int { return int(by[b] - by[a]) })
			var parts []string
			for _, x := range order[:min(most, len(order))] {
				parts = append(parts, fmt.Sprintf("{value:%d %s:%d}", x, name, by[x]))
			}
			return "[" + strings.Join(parts, " ") + "]"
		}
		check("top", listed("max", best, keep), option("n", keep), item, score)
		check("counts", listed("count", times, keep), option("limit", keep), item)
		most := items[0]
		for _, x := range items {
			if times[x] > times[most] {
				most = x
			}
		}
		check("mode", fmt.Sprint(most), combine.Params{}, item)
		sorted := slices.Sorted(slices.Values(item.Ints))
		check("median_exact", fmt.Sprint(float64(sorted[(n-1)/2]+sorted[n/2])/2), combine.Params{}, item)
	})
}

func TestMedianIsRoundedOnce(t *testing.T) {
	types := []column.Type{column.Of(column.Int64), column.Of(column.Float64), column.DecimalOf(38, 5)}
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		v := column.New(types[rng.IntN(len(types))])
		for range rapid.IntRange(1, 9).Draw(rt, "n") {
			combinetest.AppendValue(rng, v)
		}
		var rats []*big.Rat
		for i := range v.Len() {
			if v.Null(i) {
				continue
			}
			r, ok := rational(v, i)
			if !ok {
				return
			}
			rats = append(rats, r)
		}
		got := extract(t, build(t, "median_exact", combine.Params{}, v.Type), v)
		if len(rats) == 0 {
			if !got.Null(0) {
				rt.Fatalf("median of nothing is %v", got)
			}
			return
		}
		slices.SortFunc(rats, (*big.Rat).Cmp)
		mid := new(big.Rat).Add(rats[(len(rats)-1)/2], rats[len(rats)/2])
		if want, _ := mid.Quo(mid, big.NewRat(2, 1)).Float64(); got.Floats[0] != want {
			rt.Fatalf("median of %v is %v, want %v", v, got.Floats[0], want)
		}
	})
}

// TestMedianBetweenInfinitiesIsTheOneNaN: as a sum of infinities it would have
// another sign on amd64 than on arm64.
func TestMedianBetweenInfinitiesIsTheOneNaN(t *testing.T) {
	inf := math.Inf(1)
	tests := []struct {
		name string
		v    *column.Vector
		want uint64
	}{
		{"both", floats(inf, -inf), 0x7ff8000000000000},
		{"both, the other way", floats(-inf, inf), 0x7ff8000000000000},
		{"a NaN of its own", floats(1, math.Float64frombits(0xfff8000000000001)), 0x7ff8000000000000},
		{"positive", floats(inf, inf), math.Float64bits(inf)},
		{"negative", floats(-inf, 1), math.Float64bits(-inf)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := math.Float64bits(extract(t, build(t, "median_exact", combine.Params{}, tt.v.Type), tt.v).Floats[0]); got != tt.want {
				t.Errorf("got %x, want %x", got, tt.want)
			}
		})
	}
}

// TestListsThatWereNeverWrittenAreRefused names what Validate looks at.
func TestListsThatWereNeverWrittenAreRefused(t *testing.T) {
	i64, none := column.Of(column.Int64), combine.Params{}
	num := func(x int64) []byte { return tuple.AppendInt(nil, x) }
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	ranked := func(rank byte, x int64) []byte { return append([]byte{1, rank}, num(x)...) }
	null := tuple.AppendNull(nil)
	top, newest := build(t, "top", option("n", 2), i64, i64), build(t, "newest", option("n", 2), i64)
	counts, argmax := build(t, "counts", option("cap", 2), i64), build(t, "arg_max", none, i64, i64)
	tests := []struct {
		name string
		fn   combine.Fn
		acc  []byte
		want string
	}{
		{"top", top, join(num(5), num(1), num(4), num(2)), ""},
		{"top ascending", top, join(num(4), num(2), num(5), num(1)), "not in strictly descending order"},
		{"top with equals in wrong order", top, join(num(4), num(2), num(4), num(1)), "not in strictly descending order"},
		{"top with an item twice", top, join(num(5), num(1), num(4), num(1)), "an item stands twice"},
		{"top too long", top, join(num(5), num(1), num(4), num(2), num(3), num(3)), "more than 2 entries"},
		{"top without score", top, join(null, num(1)), "value is null"},
		{"top cut short", top, num(5), "value is cut short"},
		{"newest", newest, join(ranked(2, 1), ranked(2, 1)), ""},
		{"newest, oldest first", newest, join(ranked(1, 1), ranked(2, 1)), "not the newest first"},
		{"newest too long", newest, join(ranked(3, 1), ranked(2, 1), ranked(1, 1)), "more than 2 entries"},
		{"newest of null", newest, append([]byte{1, 1}, null...), "value is null"},
		{"counts", counts, join([]byte{1}, num(1), []byte{2}, num(2), []byte{1}), ""},
		{"counts over", counts, []byte{2}, ""},
		{"counts descending", counts, join([]byte{1}, num(2), []byte{2}, num(1), []byte{1}), "not in strictly ascending order"},
		{"counts none", counts, join([]byte{1}, num(2), []byte{0}), "count is zero"},
		{"counts beyond the cap", counts, join([]byte{1}, num(1), []byte{1}, num(2), []byte{1}, num(3), []byte{1}), "more than 2 values"},
		{"counts without a list", counts, []byte{1}, "neither values nor over the cap"},
		{"arg_max", argmax, join(num(7), ranked(1, 3)), ""},
		{"arg_max without a rank", argmax, num(7), "number is cut short"},
		{"arg_max by null", argmax, join(null, ranked(1, 3)), "value is null"},
		{"arg_max with more", argmax, join(num(7), ranked(1, 3), []byte{0}), "left over"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.fn.Validate(tt.acc)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("err %v, want %q", err, tt.want)
			}
		})
	}
}

// TestShortlistsForgetWhatTheyDrop: a list of two that is always overtaken
// holds little more than two entries.
func TestShortlistsForgetWhatTheyDrop(t *testing.T) {
	fn := build(t, "top", option("n", 2), column.Of(column.String), column.Of(column.Int64))
	col := fn.NewColumn()
	col.Grow(1)
	name := strings.Repeat("x", 200)
	for i := range 4000 {
		in := &combine.Input{Groups: []uint32{0}, Rows: all(1), Args: []*column.Vector{texts(fmt.Sprint(name, i)), ints(int64(i))}}
		if err := col.Add(in); err != nil {
			t.Fatal(err)
		}
	}
	if held := col.Bytes(); held > 1<<18 {
		t.Errorf("%d bytes are held for two entries", held)
	}
}
