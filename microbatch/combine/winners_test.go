package combine_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
)

// headless is an order of ranks without heads, headed one with them.
type headless struct {
	times, record *column.Vector
	deletes       []bool
}

func (o *headless) Rank(i int) []byte {
	return combine.AppendRank(nil, o.times, i, o.deletes[i], tuple.Append(nil, o.record, i))
}

type headed struct{ headless }

func (o *headed) Heads() (heads []combine.Head) {
	for i := range o.times.Len() {
		if o.times.Null(i) {
			heads = append(heads, combine.NullHead(o.deletes[i]))
		} else {
			heads = append(heads, combine.HeadAt(o.times.Ints[i], o.times.Nanos[i], o.deletes[i]))
		}
	}
	return heads
}

// TestHeadsDoNotShow: a fn that goes by the order of records keeps the same
// bytes whether it was told the heads of their ranks or not, in whatever turns
// and with merges in between. Few times and values make ties the rule.
func TestHeadsDoNotShow(t *testing.T) {
	fns := map[string]combine.Fn{"newest_record": combine.Newest()}
	for _, name := range []string{"latest", "earliest"} {
		for _, nulls := range []string{"skip", "keep"} {
			fn, err := combine.Builtins()[name].New(combine.Params{Options: map[string]any{"nulls": nulls}}, []column.Type{column.Of(column.Bool)})
			if err != nil {
				t.Fatal(err)
			}
			fns[name+"/"+nulls] = fn
		}
	}
	for n := 1; n <= 3; n++ {
		fn, err := combine.Builtins()["newest"].New(combine.Params{Options: map[string]any{"n": n}}, []column.Type{column.Of(column.Bool)})
		if err != nil {
			t.Fatal(err)
		}
		fns[fmt.Sprintf("newest/%d", n)] = fn
	}
	for name, fn := range fns {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				plain, quick := fn.NewColumn(), fn.NewColumn()
				plain.Grow(4)
				quick.Grow(4)
				for range rapid.IntRange(1, 5).Draw(rt, "batches") {
					o := &headed{headless{times: column.New(column.Of(column.Timestamp)), record: column.New(column.Of(column.Int64))}}
					arg := column.New(column.Of(column.Bool))
					in := combine.Input{Args: []*column.Vector{arg}}
					for i := range rapid.IntRange(0, 12).Draw(rt, "records") {
						if s := rapid.Int64Range(-2, 2).Draw(rt, "second"); s == -2 {
							o.times.AppendNull()
						} else {
							o.times.AppendTimestamp(s, int32(rapid.IntRange(0, 1).Draw(rt, "nanos")))
						}
						o.record.AppendInt(rapid.Int64Range(0, 2).Draw(rt, "record"))
						o.deletes = append(o.deletes, rapid.Bool().Draw(rt, "delete"))
						if rapid.IntRange(0, 3).Draw(rt, "null") == 0 {
							arg.AppendNull()
						} else {
							arg.AppendBool(rapid.Bool().Draw(rt, "value"))
						}
						in.Groups = append(in.Groups, uint32(rapid.IntRange(0, 3).Draw(rt, "group")))
						in.Rows = append(in.Rows, int32(i))
					}
					in.Order = &o.headless
					if err := plain.Add(&in); err != nil {
						rt.Fatal(err)
					}
					if rapid.IntRange(0, 3).Draw(rt, "headed") > 0 {
						in.Order = o
					}
					other := quick
					merged := rapid.Bool().Draw(rt, "merged")
					if merged {
						other = fn.NewColumn()
						other.Grow(4)
					}
					if err := other.Add(&in); err != nil {
						rt.Fatal(err)
					}
					for g := range uint32(4) {
						if merged {
							if err := quick.Merge(g, other.AppendAcc(nil, g)); err != nil {
								rt.Fatal(err)
							}
						}
						if a, b := plain.AppendAcc(nil, g), quick.AppendAcc(nil, g); !bytes.Equal(a, b) {
							rt.Fatalf("group %d: %x without heads, %x with", g, a, b)
						}
					}
				}
			})
		})
	}
}

// TestBulkIsOneByOne: what is written for many groups is what is written for
// each.
func TestBulkIsOneByOne(t *testing.T) {
	for name, b := range combine.Builtins() {
		if b.MaxArgs != 1 || len(b.Options) > 0 && name != "latest" && name != "earliest" {
			continue
		}
		for _, k := range []column.Kind{column.Bool, column.Int64, column.Float64, column.Date, column.Time, column.Timestamp, column.String, column.Decimal} {
			typ := column.Of(k)
			if k == column.Decimal {
				typ = column.DecimalOf(38, 3)
			}
			fn, err := b.New(combine.Params{}, []column.Type{typ})
			if err != nil {
				continue // it takes no such values
			}
			t.Run(name+"/"+typ.String(), func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) { oneByOne(rt, fn, typ) })
			})
		}
	}
}

func oneByOne(rt *rapid.T, fn combine.Fn, typ column.Type) {
	arg := column.New(typ)
	o := &headed{headless{times: column.New(column.Of(column.Timestamp)), record: column.New(column.Of(column.Int64))}}
	in := combine.Input{Args: []*column.Vector{arg}, Order: o}
	const groups = 5
	for i := range rapid.IntRange(0, 30).Draw(rt, "records") {
		extreme := rapid.SampledFrom([]int64{-1 << 63, 1<<63 - 1, 0, 1, -1, 255, 256, -256}).Draw(rt, "number")
		switch {
		case rapid.IntRange(0, 4).Draw(rt, "null") == 0:
			arg.AppendNull()
		case typ.Kind == column.Bool:
			arg.AppendBool(extreme > 0)
		case typ.IsFloat():
			x := rapid.Float64().Draw(rt, "double")
			switch rapid.IntRange(0, 12).Draw(rt, "special") {
			case 0:
				x = math.NaN()
			case 1:
				x = math.Inf(int(extreme >> 63))
			case 2:
				x = math.Copysign(0, x)
			}
			arg.AppendFloat(x)
		case typ.Kind == column.Decimal:
			arg.AppendDecimal(column.Int128{Hi: extreme % 1e18, Lo: uint64(extreme)})
		case typ.Kind == column.Timestamp:
			arg.AppendTimestamp(extreme, int32(uint64(extreme)%1e9))
		case typ.Kind == column.String:
			arg.AppendString(rapid.String().Draw(rt, "text"))
		default:
			arg.AppendInt(extreme)
		}
		o.times.AppendTimestamp(int64(i%3), 0)
		o.record.AppendInt(int64(i))
		o.deletes = append(o.deletes, false)
		in.Groups, in.Rows = append(in.Groups, uint32(rapid.IntRange(0, groups-1).Draw(rt, "group"))), append(in.Rows, int32(i))
	}
	c := fn.NewColumn()
	c.Grow(groups)
	if err := c.Add(&in); err != nil {
		rt.Fatal(err)
	}
	order := []uint32{3, 0, 4, 4, 2, 1}
	all, ends := combine.AppendAccs(c, []byte("x"), []int{7}, order)
	at := 1
	for i, g := range order {
		want := c.AppendAcc(nil, g)
		if got := all[at:ends[i+1]]; !bytes.Equal(got, want) {
			rt.Fatalf("group %d: %x among many, %x alone", g, got, want)
		}
		if err := fn.Validate(want); err != nil {
			rt.Fatalf("group %d: %x: %v", g, want, err)
		}
		at = ends[i+1]
	}
	if len(ends) != len(order)+1 || at != len(all) {
		rt.Fatalf("%d ends, the last at %d of %d", len(ends), at, len(all))
	}
}
