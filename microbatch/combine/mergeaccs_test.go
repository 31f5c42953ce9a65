package combine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/tuple"
)

// timed are records whose heads are at hand.
type timed struct{ combinetest.Records }

// Heads implements combine.Headed.
func (r timed) Heads() []combine.Head {
	var out []combine.Head
	times := column.New(column.Of(column.Timestamp))
	for _, rank := range r.Ranks {
		times.Reset()
		rest, err := tuple.Decode(rank, times)
		if err != nil {
			panic(err)
		}
		if times.Null(0) {
			out = append(out, combine.NullHead(tuple.IsTrue(rest)))
		} else {
			out = append(out, combine.HeadAt(times.Ints[0], times.Nanos[0], tuple.IsTrue(rest)))
		}
	}
	return out
}

// accsOf puts accumulators one after the other.
func accsOf(list [][]byte) (a combine.Accs) {
	for _, acc := range list {
		a.Bytes = append(a.Bytes, acc...)
		a.Ends = append(a.Ends, uint32(len(a.Bytes)))
	}
	return a
}

// twin is a column that is treated in bulk, and one that is one by one.
type twin struct {
	t          *testing.T
	fn         combine.Fn
	rng        *rand.Rand
	bulk, each combine.Column
	damaged    int // accumulators that were refused
	left       int // groups whose accumulators could not be retracted
	won        int // accumulators that a column said it keeps
}

const twinGroups = 40

// accumulator is that of random records: of many, few, one or none.
func (w *twin) accumulator() []byte {
	rec := combinetest.Generate(w.rng, w.fn.Args())
	col := w.fn.NewColumn()
	col.Grow(1)
	if err := col.Add(inputOf(rec, rec, func() uint32 { return 0 })); err != nil {
		w.t.Fatal(err)
	}
	acc := col.AppendAcc(nil, 0)
	for range w.rng.IntN(12) * w.rng.IntN(2) {
		if err := col.Merge(0, acc); err != nil { // counts of more than a byte
			w.t.Fatal(err)
		}
		acc = col.AppendAcc(acc[:0], 0)
	}
	return acc
}

func inputOf(rec combinetest.Records, order combine.Order, group func() uint32) *combine.Input {
	in := &combine.Input{Args: rec.Args, Order: order}
	for i := range rec.Ranks {
		in.Groups, in.Rows = append(in.Groups, group()), append(in.Rows, int32(i))
	}
	return in
}

// damage changes a byte or the length.
func (w *twin) damage(acc []byte) []byte {
	b := bytes.Clone(acc)
	switch k := w.rng.IntN(4); {
	case k == 0 || len(b) == 0:
		return append(b, byte(w.rng.IntN(256)))
	case k == 1:
		return b[:w.rng.IntN(len(b))]
	case k == 2:
		b[w.rng.IntN(len(b))] ^= byte(1 << w.rng.IntN(8))
		return b
	default:
		i := w.rng.IntN(len(b))
		return append(b[:i:i], append([]byte{byte(w.rng.IntN(3))}, b[i:]...)...)
	}
}

// rows are accumulators for some of the groups, in random order.
func (w *twin) rows() (groups []uint32, list [][]byte) {
	for _, g := range w.rng.Perm(twinGroups)[:w.rng.IntN(twinGroups)] {
		groups = append(groups, uint32(g))
		acc := w.accumulator()
		if w.rng.IntN(20) == 0 {
			acc = w.damage(acc)
		}
		list = append(list, acc)
	}
	return groups, list
}

// both does the same in bulk and one by one, and says how many rows it took.
func (w *twin) both(what string, groups []uint32, list [][]byte, bulk func([]uint32, combine.Accs) error, each func(uint32, []byte) error) {
	w.t.Helper()
	for len(groups) > 0 {
		err := bulk(groups, accsOf(list))
		row := len(groups)
		var want error
		for i, g := range groups {
			if len(list[i]) == 0 {
				continue
			}
			if want = each(g, list[i]); want != nil {
				row = i
				break
			}
		}
		var got *combine.RowError
		switch {
		case want == nil && err != nil, want != nil && !errors.As(err, &got), want != nil && (got.Row != row || got.Err.Error() != want.Error()):
			w.t.Fatalf("%s: %v in bulk, row %d: %v one by one", what, err, row, want)
		}
		w.same(what)
		if want == nil {
			return
		}
		w.damaged++
		groups, list = groups[row+1:], list[row+1:]
	}
}

func (w *twin) same(what string) {
	w.t.Helper()
	for g := range uint32(twinGroups) {
		if a, b := w.bulk.AppendAcc(nil, g), w.each.AppendAcc(nil, g); !bytes.Equal(a, b) {
			w.t.Fatalf("%s: group %d is %x in bulk, %x one by one", what, g, a, b)
		}
	}
}

// selects merges, and holds what the column says is kept now to what it has.
func (w *twin) selects(s combine.BulkSelector, groups []uint32, list [][]byte) {
	w.t.Helper()
	var won, want []uint32
	bulk := func(g []uint32, a combine.Accs) error {
		rows, err := s.SelectAccs(g, a, nil)
		for _, row := range rows {
			won = append(won, g[row])
		}
		return err
	}
	w.both("select", groups, list, bulk, func(g uint32, acc []byte) error {
		was := w.each.AppendAcc(nil, g)
		err := w.each.Merge(g, acc)
		if !bytes.Equal(was, w.each.AppendAcc(nil, g)) {
			want = append(want, g)
		}
		return err
	})
	if !slices.Equal(won, want) {
		w.t.Fatalf("select: %v are kept, %v changed", won, want)
	}
	w.won += len(won)
}

// step merges, takes out what was merged or was not, or adds records.
func (w *twin) step(merged *[][][]byte, into *[][]uint32) {
	w.t.Helper()
	switch w.rng.IntN(6) {
	case 0, 1, 2:
		groups, list := w.rows()
		if s, ok := w.bulk.(combine.BulkSelector); ok && w.rng.IntN(2) == 0 {
			w.selects(s, groups, list)
		} else {
			w.both("merge", groups, list, func(g []uint32, a combine.Accs) error { return combine.MergeAccs(w.bulk, g, a) }, w.each.Merge)
		}
		*merged, *into = append(*merged, list), append(*into, groups)
	case 3, 4:
		groups, list := w.rows() // of which nothing has been merged
		if n := len(*merged); n > 0 && w.rng.IntN(8) > 0 {
			groups, list = (*into)[n-1], (*merged)[n-1]
			*merged, *into = (*merged)[:n-1], (*into)[:n-1]
		}
		w.takeOut(groups, list)
	default:
		rec := combinetest.Generate(w.rng, w.fn.Args())
		var order combine.Order = rec
		if w.rng.IntN(2) == 0 {
			order = timed{rec}
		}
		in := inputOf(rec, order, func() uint32 { return uint32(w.rng.IntN(twinGroups)) })
		if err := w.bulk.Add(in); err != nil {
			w.t.Fatal(err)
		}
		if err := w.each.Add(in); err != nil {
			w.t.Fatal(err)
		}
		w.same("add")
	}
}

func (w *twin) takeOut(groups []uint32, list [][]byte) {
	w.t.Helper()
	if inverse, ok := w.bulk.(combine.Inverter); ok {
		w.both("unmerge", groups, list, func(g []uint32, a combine.Accs) error { return combine.UnmergeAccs(inverse, g, a) }, w.each.(combine.Inverter).Unmerge)
	}
	if r, ok := w.bulk.(combine.Retractor); ok {
		var left, want []uint32
		bulk := func(g []uint32, a combine.Accs) (err error) {
			left, err = combine.RetractAccs(r, g, a, left)
			return err
		}
		w.both("retract", groups, list, bulk, func(g uint32, acc []byte) error {
			ok, err := w.each.(combine.Retractor).Retract(g, acc)
			if err == nil && !ok {
				want = append(want, g)
			}
			return err
		})
		if !slices.Equal(left, want) {
			w.t.Fatalf("retract: %v are left in bulk, %v one by one", left, want)
		}
		w.left += len(want)
	}
}

// TestManyAccumulatorsAreEach: many accumulators that are merged, unmerged or
// retracted at once do what they do one by one, byte for byte and error for
// error, whatever went before; those that are none leave everything alone.
func TestManyAccumulatorsAreEach(t *testing.T) {
	t.Parallel()
	fns := every(t)
	for _, typ := range scalarTypes() {
		for _, name := range []string{"min", "any", "latest", "earliest"} {
			fns = append(fns, build(t, name, combine.Params{}, typ))
		}
	}
	for i, fn := range fns {
		t.Run(fn.TypeID(), func(t *testing.T) {
			t.Parallel()
			w := &twin{t: t, fn: fn, rng: rand.New(rand.NewPCG(uint64(i), 1))}
			_, retracts := fn.NewColumn().(combine.Retractor)
			for range 6 {
				w.bulk, w.each = fn.NewColumn(), fn.NewColumn()
				w.bulk.Grow(twinGroups)
				w.each.Grow(twinGroups)
				var merged [][][]byte
				var into [][]uint32
				for range 12 {
					w.step(&merged, &into)
				}
			}
			nothing := slices.ContainsFunc(fn.Args(), func(a column.Type) bool { return a.Kind == column.Null })
			_, selects := fn.NewColumn().(combine.BulkSelector)
			if w.damaged == 0 || (retracts && w.left == 0 || selects && w.won == 0) && !nothing {
				t.Errorf("%d accumulators were refused, %d kept, %d won: the test is too tame", w.damaged, w.left, w.won)
			}
		})
	}
}

// TestManySumsRunIntoTheirSign: a sum that grows by additions of two words
// outgrows its three, at every place of a double.
func TestManySumsRunIntoTheirSign(t *testing.T) {
	fn := build(t, "sum", combine.Params{}, column.Of(column.Float64))
	for e := -1074; e < 900; e += 5 {
		for _, x := range []float64{1<<53 - 1, -1<<53 + 1} {
			w := &twin{t: t, fn: fn, bulk: fn.NewColumn(), each: fn.NewColumn()}
			w.bulk.Grow(twinGroups)
			w.each.Grow(twinGroups)
			for k, exp := range []int{e, e + 64, e + 64, e + 64, e + 64, e + 70, e + 70, e + 70} {
				col := fn.NewColumn()
				col.Grow(1)
				rec := combinetest.Records{Args: []*column.Vector{floats(math.Ldexp(x, exp))}, Ranks: [][]byte{nil}}
				if err := col.Add(inputOf(rec, rec, func() uint32 { return 0 })); err != nil {
					t.Fatal(err)
				}
				acc := col.AppendAcc(nil, 0)
				groups, list := []uint32{0, 7}, [][]byte{acc, acc}
				for range 9 {
					w.both("merge", groups, list, func(g []uint32, a combine.Accs) error { return combine.MergeAccs(w.bulk, g, a) }, w.each.Merge)
				}
				if k%3 == 2 {
					w.both("unmerge", groups, list, func(g []uint32, a combine.Accs) error {
						return combine.UnmergeAccs(w.bulk.(combine.Inverter), g, a)
					}, w.each.(combine.Inverter).Unmerge)
				}
			}
		}
	}
}

// TestTextsAreChecked: texts of any length, with any byte changed, are
// accumulators in bulk where they are to Validate.
func TestTextsAreChecked(t *testing.T) {
	fn := build(t, "latest", combine.Params{}, column.Of(column.String))
	accepted, refused := 0, 0
	for size := range 20 {
		times := column.New(column.Of(column.Timestamp))
		times.AppendTimestamp(1<<31, 5)
		rank := combine.AppendRank(nil, times, 0, false, nil)
		whole := append([]byte{byte(len(rank))}, rank...)
		whole = tuple.AppendString(whole, "abcdefghijklmnopqrstuvwxyz"[:size])
		for at := 1 + len(rank); at < len(whole); at++ {
			for _, c := range []byte{0, 1, 0x7f, 0x80, 0xc3, 0xff, tuple.AppendString(nil, "")[0]} {
				acc := bytes.Clone(whole)
				acc[at] = c
				col := fn.NewColumn()
				col.Grow(1)
				err, want := combine.MergeAccs(col, []uint32{0}, accsOf([][]byte{acc})), fn.Validate(acc)
				if (err == nil) != (want == nil) {
					t.Fatalf("%x: %v in bulk, Validate says %v", acc, err, want)
				}
				if want == nil {
					accepted++
				} else {
					refused++
				}
			}
		}
	}
	if accepted == 0 || refused == 0 {
		t.Errorf("%d accepted, %d refused", accepted, refused)
	}
}

// BenchmarkMergeAccs: the accumulators of a minute, some 55,000 of 220,000
// groups, merged at once and one by one.
func BenchmarkMergeAccs(b *testing.B) {
	const all, rows = 220_000, 55_000
	rng := rand.New(rand.NewPCG(1, 1))
	number := func(v *column.Vector) {
		switch v.Type.Kind {
		case column.Int64:
			v.AppendInt(rng.Int64N(200) - 20)
		case column.Float64:
			v.AppendFloat(float64(rng.IntN(100_000)) / 100)
		case column.Timestamp:
			v.AppendTimestamp(1_700_000_000+rng.Int64N(60), int32(rng.IntN(1e9)))
		case column.Decimal:
			v.AppendDecimal(column.Int128{Lo: uint64(rng.IntN(100_000))})
		default:
			v.AppendString("title " + strconv.Itoa(rng.IntN(1000)))
		}
	}
	for _, c := range []struct {
		name string
		typ  column.Type
	}{
		{"count", column.Of(column.Int64)}, {"sum", column.Of(column.Int64)}, {"sum", column.Of(column.Float64)}, {"sum", column.DecimalOf(18, 2)},
		{"max", column.Of(column.Int64)}, {"max", column.Of(column.Float64)}, {"max", column.Of(column.Timestamp)}, {"max", column.DecimalOf(18, 2)},
		{"max", column.Of(column.String)}, {"latest", column.Of(column.String)},
	} {
		fn := build(b, c.name, combine.Params{}, c.typ)
		rec := combinetest.Records{Args: []*column.Vector{column.New(c.typ)}}
		times, in := column.New(column.Of(column.Timestamp)), &combine.Input{}
		for i := range 4 * rows {
			number(rec.Args[0])
			number(times)
			rec.Ranks = append(rec.Ranks, combine.AppendRank(nil, times, i, false, binary.BigEndian.AppendUint64(nil, uint64(i))))
			in.Groups, in.Rows = append(in.Groups, uint32(rng.IntN(rows))), append(in.Rows, int32(i))
		}
		in.Args, in.Order = rec.Args, rec
		minute := fn.NewColumn()
		minute.Grow(rows)
		if err := minute.Add(in); err != nil {
			b.Fatal(err)
		}
		var list [][]byte
		for g := range uint32(rows) {
			list = append(list, minute.AppendAcc(nil, g))
		}
		accs := accsOf(list)
		var groups []uint32
		for _, g := range rng.Perm(all)[:rows] {
			groups = append(groups, uint32(g))
		}
		slices.Sort(groups)
		for _, how := range []string{"bulk", "each"} {
			b.Run(c.name+"/"+c.typ.String()+"/"+how, func(b *testing.B) {
				col := fn.NewColumn()
				col.Grow(all)
				for b.Loop() {
					if how == "bulk" {
						if err := combine.MergeAccs(col, groups, accs); err != nil {
							b.Fatal(err)
						}
						continue
					}
					for i, g := range groups {
						if err := col.Merge(g, accs.At(i)); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
			})
		}
	}
}
