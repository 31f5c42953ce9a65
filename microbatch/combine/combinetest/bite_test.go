package combinetest_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/microbatch/tuple"
)

// naive is a fn as it is usually written: a lift and a merge on bytes.
type naive struct {
	id    string
	class combine.Class
	arg   column.Type
	lift  func(v *column.Vector, i int, rank []byte) []byte
	merge func(a, b []byte) []byte
	check func(acc []byte) bool
	unit  []byte // what an empty group holds; nothing unless the identity is wrong
}

func (f *naive) TypeID() string            { return f.id }
func (f *naive) Class() combine.Class      { return f.class }
func (f *naive) Args() []column.Type       { return []column.Type{f.arg} }
func (f *naive) Output() column.Type       { return column.Of(column.Bytes) }
func (f *naive) NewColumn() combine.Column { return &naiveColumn{fn: f} }

func (f *naive) Validate(acc []byte) error {
	if len(acc) > 0 && !f.check(acc) {
		return errors.New("not an accumulator")
	}
	return nil
}

type naiveColumn struct {
	fn   *naive
	accs [][]byte
}

func (c *naiveColumn) Len() int     { return len(c.accs) }
func (c *naiveColumn) Reset()       { c.accs = nil }
func (c *naiveColumn) Bytes() int64 { return 0 }

func (c *naiveColumn) Grow(n int) {
	for len(c.accs) < n {
		c.accs = append(c.accs, c.fn.unit)
	}
}

func (c *naiveColumn) put(g uint32, acc []byte) {
	switch {
	case len(acc) == 0:
	case len(c.accs[g]) == 0:
		c.accs[g] = bytes.Clone(acc)
	default:
		c.accs[g] = c.fn.merge(c.accs[g], acc)
	}
}

func (c *naiveColumn) Add(in *combine.Input) error {
	add := func(i int) {
		if !in.Args[0].Null(i) {
			c.put(in.Groups[i], c.fn.lift(in.Args[0], i, in.Order.Rank(i)))
		}
	}
	for _, i := range in.Rows {
		add(int(i))
	}
	return nil
}

func (c *naiveColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil {
		return err
	}
	c.put(g, acc)
	return nil
}

func (c *naiveColumn) AppendAcc(dst []byte, g uint32) []byte { return append(dst, c.accs[g]...) }

func (c *naiveColumn) Extract(g uint32, dst *column.Vector) error {
	dst.AppendString(string(c.accs[g]))
	return nil
}

func floatBytes(f float64) []byte { return binary.BigEndian.AppendUint64(nil, math.Float64bits(f)) }

func bytesFloat(b []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b)) }

func eight(acc []byte) bool { return len(acc) == 8 }

func unlawful() map[string]*naive {
	ints, floats, text := column.Of(column.Int64), column.Of(column.Float64), column.Of(column.String)
	liftInt := func(v *column.Vector, i int, _ []byte) []byte {
		return binary.BigEndian.AppendUint64(nil, uint64(v.Ints[i]))
	}
	liftFloat := func(v *column.Vector, i int, _ []byte) []byte { return floatBytes(v.Floats[i]) }
	liftMean := func(v *column.Vector, i int, _ []byte) []byte {
		return append(floatBytes(v.Floats[i]), floatBytes(1)...)
	}
	liftRank := func(v *column.Vector, i int, rank []byte) []byte {
		rest, err := tuple.Skip(rank) // event time alone
		if err != nil {
			return nil
		}
		at := rank[:len(rank)-len(rest)]
		return append(append([]byte{byte(len(at))}, at...), v.Strings[i]...)
	}
	return map[string]*naive{
		"mean of means": {id: "mean", arg: floats, lift: liftFloat, check: eight,
			merge: func(a, b []byte) []byte { return floatBytes((bytesFloat(a) + bytesFloat(b)) / 2) }},
		"running mean": {id: "running mean", arg: floats, lift: liftMean, check: func(acc []byte) bool { return len(acc) == 16 },
			merge: func(a, b []byte) []byte {
				na, nb := bytesFloat(a[8:]), bytesFloat(b[8:])
				m := bytesFloat(a) + (bytesFloat(b)-bytesFloat(a))*nb/(na+nb)
				return append(floatBytes(m), floatBytes(na+nb)...)
			}},
		"float sum": {id: "float sum", arg: floats, lift: liftFloat, check: eight,
			merge: func(a, b []byte) []byte { return floatBytes(bytesFloat(a) + bytesFloat(b)) }},
		"concatenation": {id: "concat", arg: text, check: func([]byte) bool { return true },
			lift:  func(v *column.Vector, i int, _ []byte) []byte { return []byte(v.Strings[i]) },
			merge: func(a, b []byte) []byte { return append(bytes.Clone(a), b...) }},
		"saturating sum": {id: "saturating sum", arg: ints, lift: liftInt, check: eight,
			merge: func(a, b []byte) []byte {
				x, y := int64(binary.BigEndian.Uint64(a)), int64(binary.BigEndian.Uint64(b))
				s := x + y
				switch {
				case x > 0 && y > 0 && s < 0:
					s = math.MaxInt64
				case x < 0 && y < 0 && s >= 0:
					s = math.MinInt64
				}
				return binary.BigEndian.AppendUint64(nil, uint64(s))
			}},
		"latest without a tie-break": {id: "latest", class: combine.Semilattice, arg: text, lift: liftRank,
			check: func(acc []byte) bool { return len(acc) > int(acc[0]) },
			merge: func(a, b []byte) []byte {
				if bytes.Compare(b[1:1+b[0]], a[1:1+a[0]]) >= 0 {
					return bytes.Clone(b)
				}
				return a
			}},
		"first seen": {id: "first", class: combine.Semilattice, arg: text, check: func([]byte) bool { return true },
			lift:  func(v *column.Vector, i int, _ []byte) []byte { return []byte(v.Strings[i]) },
			merge: func(a, _ []byte) []byte { return a }},
		"float minimum by <": {id: "min", class: combine.Semilattice, arg: floats, lift: liftFloat, check: eight,
			merge: func(a, b []byte) []byte {
				if bytesFloat(b) < bytesFloat(a) {
					return bytes.Clone(b)
				}
				return a
			}},
		"exclusive or as a semilattice": {id: "xor", class: combine.Semilattice, arg: ints, lift: liftInt, check: eight,
			merge: func(a, b []byte) []byte {
				return binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(a)^binary.BigEndian.Uint64(b))
			}},
		"wrapping sum as a group without inverse": {id: "sum", class: combine.Group, arg: ints, lift: liftInt, check: eight,
			merge: func(a, b []byte) []byte {
				return binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(a)+binary.BigEndian.Uint64(b))
			}},
		"truncated list": {id: "newest two kept", arg: text, check: func([]byte) bool { return true },
			lift: func(v *column.Vector, i int, _ []byte) []byte { return []byte(v.Strings[i]) },
			merge: func(a, b []byte) []byte {
				out := append(bytes.Clone(a), b...)
				return out[max(0, len(out)-2):]
			}},
		"maximum with an identity that is stored": {id: "max", arg: ints, lift: liftInt, check: eight, unit: make([]byte, 8),
			merge: func(a, b []byte) []byte {
				if bytes.Compare(a, b) > 0 {
					return a
				}
				return bytes.Clone(b)
			}},
	}
}

func TestBatteryCatchesUnlawfulFns(t *testing.T) {
	for name, fn := range unlawful() {
		t.Run(name, func(t *testing.T) {
			err := combinetest.Check(fn, 250, 1)
			var v *combinetest.Violation
			if !errors.As(err, &v) {
				t.Fatalf("no violation found, err %v", err)
			}
			if n := len(v.Records.Ranks); n > 4 {
				t.Errorf("%d records after reduction, want at most 4: %v", n, v)
			}
		})
	}
}

func TestLawfulNaiveFnPasses(t *testing.T) {
	least := &naive{id: "least", class: combine.Semilattice, arg: column.Of(column.String),
		check: func(acc []byte) bool { return acc[0] == 'v' },
		lift:  func(v *column.Vector, i int, _ []byte) []byte { return append([]byte("v"), v.Strings[i]...) },
		merge: func(a, b []byte) []byte {
			if bytes.Compare(a, b) <= 0 {
				return a
			}
			return bytes.Clone(b)
		}}
	if err := combinetest.Check(least, 250, 1); err != nil {
		t.Error(err)
	}
}

func TestCheckIsDeterministic(t *testing.T) {
	fn := unlawful()["float sum"]
	first, second := combinetest.Check(fn, 250, 7), combinetest.Check(fn, 250, 7)
	if first == nil || second == nil || first.Error() != second.Error() {
		t.Errorf("%v, then %v", first, second)
	}
}
