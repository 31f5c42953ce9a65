package window_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/window"
)

// canaryFields has every builtin at least once.
func canaryFields() []index.FieldSpec {
	type params = map[string]any
	bids := []index.FieldSpec{{Name: "bid", Fn: "latest", Args: []string{"f"}}, {Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "spent", Fn: "sum", Args: []string{"g"}}}
	return []index.FieldSpec{
		{Fn: "count", Args: []string{"*"}}, {Fn: "sum", Args: []string{"i"}}, {Fn: "sum", Args: []string{"f"}}, {Fn: "sum", Args: []string{"d"}},
		{Fn: "mean", Args: []string{"f"}}, {Fn: "variance", Args: []string{"f"}}, {Fn: "stddev", Args: []string{"i"}}, {Fn: "covariance", Args: []string{"f", "g"}},
		{Fn: "all_of", Args: []string{"b"}}, {Fn: "any_of", Args: []string{"b"}}, {Fn: "min", Args: []string{"f"}}, {Fn: "max", Args: []string{"s"}},
		{Fn: "any", Args: []string{"d"}}, {Fn: "latest", Args: []string{"s"}}, {Fn: "earliest", Args: []string{"f"}, Params: params{"nulls": "keep"}},
		{Fn: "arg_min", Args: []string{"s", "i"}}, {Fn: "arg_max", Args: []string{"s", "f"}}, {Fn: "newest", Args: []string{"s"}, Params: params{"n": 3}},
		{Fn: "top", Args: []string{"s", "f"}, Params: params{"n": 2}}, {Fn: "counts", Args: []string{"s"}, Params: params{"cap": 9}}, {Fn: "mode", Args: []string{"i"}},
		{Fn: "median_exact", Args: []string{"i"}}, {Fn: "set", Args: []string{"s"}, Params: params{"cap": 3}}, {Fn: "distinct_exact", Args: []string{"f"}},
		{Fn: "collect", Args: []string{"s"}, Fields: bids, DeleteWhen: "b"}, {Fn: "distinct", Args: []string{"s"}}, {Fn: "theta", Args: []string{"f"}},
		{Fn: "quantile", Args: []string{"f"}, Params: params{"q": 0.9}}, {Fn: "median", Args: []string{"g"}}, {Fn: "histogram", Args: []string{"f"}, Params: params{"relative_error": 0.05}},
		{Fn: "bloom", Args: []string{"s"}, Params: params{"expected": 100, "fpp": 0.01}}, {Fn: "bitmap", Args: []string{"u"}},
	}
}

// bind compiles an index over the columns of the canary's tests; each field is
// there twice where over is not 0.
func bind(tb testing.TB, fields []index.FieldSpec, over time.Duration) *index.Bound {
	tb.Helper()
	spec := index.Spec{Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "op"}
	for i, f := range fields {
		f.Name = fmt.Sprint(f.Fn, i)
		spec.Fields = append(spec.Fields, f)
		if over != 0 {
			f.Name, f.Over = f.Name+"_over", over
			spec.Fields = append(spec.Fields, f)
		}
	}
	program, err := index.Compile(spec, combine.Builtins())
	if err != nil {
		tb.Fatal(err)
	}
	var types []column.Type
	for _, c := range program.Columns() {
		types = append(types, columnType(c.Path))
	}
	bound, err := program.Bind(types)
	if err != nil {
		tb.Fatal(err)
	}
	return bound
}

func columnType(name string) column.Type {
	switch name {
	case "b", "op":
		return column.Of(column.Bool)
	case "d":
		return column.DecimalOf(12, 2)
	case "f", "g":
		return column.Of(column.Float64)
	case "i":
		return column.Of(column.Int32)
	case "u":
		return column.Of(column.Int64)
	case "ts":
		return column.Of(column.Timestamp)
	}
	return column.Of(column.String)
}

// leaves makes the slices of minutes 1 to n out of random records, some of them
// hard, of so many keys.
func leaves(tb testing.TB, bound *index.Bound, rng *rand.Rand, n, records, keys int) []window.Source {
	tb.Helper()
	var out []window.Source
	for at := 1; at <= n; at++ {
		var batch column.Batch
		for _, c := range bound.Program().Columns() {
			v := column.New(columnType(c.Path))
			for range records {
				switch c.Path {
				case "k":
					v.AppendString(fmt.Sprintf("key-%06d", rng.IntN(keys)))
				case "u":
					v.AppendInt(int64(rng.IntN(1000)))
				case "ts":
					v.AppendTimestamp(int64(rng.IntN(4)), 0)
				default:
					combinetest.AppendValue(rng, v)
				}
			}
			batch.Columns = append(batch.Columns, v)
		}
		batch.Len = records
		out = append(out, leaf(tb, bound, minute(at), &batch))
	}
	return out
}

func leaf(tb testing.TB, bound *index.Bound, start time.Time, batch *column.Batch) window.Source {
	tb.Helper()
	tab := table.New(bound.Shape())
	lifter, err := bound.NewLifter(tab, start)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := lifter.Add(batch, 0); err != nil {
		tb.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := tab.WriteRun(&out, table.Options{}); err != nil {
		tb.Fatal(err)
	}
	run, err := table.OpenBytes(out.Bytes(), bound.Shape())
	if err != nil {
		tb.Fatal(err)
	}
	return window.Source{Start: start, Run: run, All: true, Windowed: true}
}

// sampled folds and returns what the sampler took.
func sampled(tb testing.TB, bound *index.Bound, sources []window.Source, base *window.Base, n time.Time, seed string) []window.Sample {
	tb.Helper()
	s := window.NewSampler(seed)
	if err := window.FoldSampled(bound, sources, base, n, s, func(window.Documents) error { return nil }); err != nil {
		tb.Fatal(err)
	}
	return s.Samples()
}

// TestCanaryAgreesOnEveryBuiltin: over hard values, with and without a base,
// whatever the durations, both folds have the same bytes.
func TestCanaryAgreesOnEveryBuiltin(t *testing.T) {
	for name := range combine.Builtins() {
		if !slices.ContainsFunc(canaryFields(), func(f index.FieldSpec) bool { return f.Fn == name }) {
			t.Errorf("no field has %s", name)
		}
	}
	windowed, all := bind(t, canaryFields(), 3*time.Minute), bind(t, canaryFields(), 0)
	join, err := all.JoinBase(all)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		n, keys := rapid.IntRange(1, 6).Draw(rt, "slices"), rapid.SampledFrom([]int{2, 12, 120}).Draw(rt, "keys")
		bound, base := windowed, (*window.Base)(nil)
		if rapid.Bool().Draw(rt, "base") {
			bound = all
			base = &window.Base{Run: leaves(t, all, rng, 1, 60, keys)[0].Run, Join: join}
		}
		sources := rapid.Permutation(leaves(t, bound, rng, n, 24, keys)).Draw(rt, "order")
		sources[0].All = base == nil || rapid.Bool().Draw(rt, "read")
		samples := sampled(t, bound, sources, base, minute(n), rapid.String().Draw(rt, "run"))
		if len(samples) == 0 {
			rt.Fatal("nothing was sampled")
		}
		if err := window.Canary(bound, sources, base, minute(n), samples); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestCanaryFindsEveryChangedAccumulator: whichever sampled key and fn has
// other bytes than its slices make, by a bit, cut short or not at all there,
// the canary names them.
func TestCanaryFindsEveryChangedAccumulator(t *testing.T) {
	bound := bind(t, canaryFields(), 3*time.Minute)
	rng := rand.New(rand.NewPCG(1, 2))
	sources := leaves(t, bound, rng, 7, 60, 50)
	samples := sampled(t, bound, sources, nil, minute(7), "run")
	fns := bound.Shape().Fns
	rapid.Check(t, func(rt *rapid.T) {
		s, j := rapid.IntRange(0, len(samples)-1).Draw(rt, "sample"), rapid.IntRange(0, len(fns)-1).Draw(rt, "fn")
		was := samples[s].Accs[j]
		changed := append(bytes.Clone(was), 7)
		if len(was) > 0 {
			switch at := rapid.IntRange(0, len(was)-1).Draw(rt, "at"); rapid.IntRange(0, 2).Draw(rt, "how") {
			case 0:
				changed = bytes.Clone(was)
				changed[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
			case 1:
				changed = was[:at]
			default:
			}
		}
		samples[s].Accs[j] = changed
		err := window.Canary(bound, sources, nil, minute(7), slices.Clone(samples))
		samples[s].Accs[j] = was
		var d *window.Difference
		if !errors.As(err, &d) {
			rt.Fatalf("found %v", err)
		}
		if !bytes.Equal(d.Key, samples[s].Key) || d.TypeID != fns[j].TypeID() || !bytes.Equal(d.One, changed) || !bytes.Equal(d.Other, was) {
			rt.Errorf("found %v", d)
		}
		if text := d.Error(); !strings.Contains(text, "key k=key-0000") || len(text) > 1000 || j > 0 && !strings.Contains(text, "field ") {
			rt.Errorf("it says %d bytes: %s", len(text), text)
		}
	})
}

// TestCanaryFindsASliceThatTheFoldMissed: as a folded state would that has
// missed what entered, left or changed.
func TestCanaryFindsASliceThatTheFoldMissed(t *testing.T) {
	bound := bind(t, []index.FieldSpec{{Fn: "sum", Args: []string{"i"}}, {Fn: "count", Args: []string{"*"}}}, 3*time.Minute)
	sources := leaves(t, bound, rand.New(rand.NewPCG(3, 4)), 6, 40, 20)
	for at := range sources {
		without := slices.Delete(slices.Clone(sources), at, at+1)
		err := window.Canary(bound, sources, nil, minute(6), sampled(t, bound, without, nil, minute(6), "run"))
		var d *window.Difference
		if !errors.As(err, &d) || bytes.Equal(d.One, d.Other) {
			t.Errorf("without slice %d it finds %v", at, err)
		}
	}
}

// TestAShortCanaryLeavesOutWhatManySlicesFeed, and nothing else.
func TestAShortCanaryLeavesOutWhatManySlicesFeed(t *testing.T) {
	bound := bind(t, []index.FieldSpec{{Fn: "sum", Args: []string{"i"}}}, 3*time.Minute)
	sources := leaves(t, bound, rand.New(rand.NewPCG(3, 4)), 6, 40, 5)
	for _, c := range []struct {
		name string
		fn   int
		most int
		sees bool
	}{
		{"all, with all", 1, 6, true},
		{"all, with fewer", 1, 5, false},
		{"three minutes, with three", 2, 3, true},
		{"three minutes, with two", 2, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			samples := sampled(t, bound, sources, nil, minute(6), "run")
			if err := window.CanaryShort(bound, sources, nil, minute(6), samples, c.most); err != nil {
				t.Fatal(err)
			}
			samples[0].Accs[c.fn] = append(samples[0].Accs[c.fn], 1)
			if err := window.CanaryShort(bound, sources, nil, minute(6), samples, c.most); (err != nil) != c.sees {
				t.Errorf("found %v", err)
			}
		})
	}
}

// TestCanarySaysThatASliceCannotBeRead, which is no difference.
func TestCanarySaysThatASliceCannotBeRead(t *testing.T) {
	bound := bind(t, []index.FieldSpec{{Fn: "count", Args: []string{"*"}}}, 0)
	sources := leaves(t, bound, rand.New(rand.NewPCG(3, 4)), 3, 40, 20)
	samples := sampled(t, bound, sources, nil, minute(3), "run")
	sources[1].Run = damaged(t, bound)
	err := window.Canary(bound, sources, nil, minute(3), samples)
	var d *window.Difference
	if !errors.Is(err, window.ErrUnreadable) || errors.As(err, &d) {
		t.Errorf("found %v", err)
	}
	if err := window.Fold(bound, sources, nil, minute(3), func(window.Documents) error { return nil }); !errors.Is(err, window.ErrUnreadable) {
		t.Errorf("fold: %v", err)
	}
}

// damaged is a run whose block has a byte of its rows changed.
func damaged(t *testing.T, bound *index.Bound) *table.Run {
	t.Helper()
	tab := table.New(bound.Shape())
	lifter, err := bound.NewLifter(tab, minute(1))
	if err != nil {
		t.Fatal(err)
	}
	batch := &column.Batch{Len: 1}
	for _, c := range bound.Program().Columns() {
		v := column.New(columnType(c.Path))
		if c.Path == "k" {
			v.AppendString("key-000003 with a long name")
		} else {
			v.AppendNull()
		}
		batch.Columns = append(batch.Columns, v)
	}
	if _, err := lifter.Add(batch, 0); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := tab.WriteRun(&out, table.Options{}); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()
	b[bytes.Index(b, []byte("with a long"))] ^= 1
	run, err := table.OpenBytes(b, bound.Shape())
	if err != nil {
		t.Fatal(err)
	}
	return run
}
