package parquet

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	pq "github.com/parquet-go/parquet-go"

	"github.com/deltad/deltad/microbatch/column"
)

// leaf collects the values of one Parquet column until the page is full.
type leaf struct {
	index int
	vals  []pq.Value
	arena []byte // holds the strings of vals; what it outgrows stays valid
}

func (l *leaf) reset() { l.vals, l.arena = l.vals[:0], l.arena[:0] }

func (l *leaf) push(v pq.Value, rep, def int) { l.vals = append(l.vals, v.Level(rep, def, l.index)) }

func (l *leaf) pushBytes(s string, rep, def int) {
	at := len(l.arena)
	l.arena = append(l.arena, s...)
	l.push(pq.ByteArrayValue(l.arena[at:]), rep, def)
}

// shredder splits the rows of one column into leaves, with repetition and definition levels as Dremel has them.
type shredder struct {
	path     string
	typ      column.Type
	optional bool
	def      int // definition level of a value that is there
	rep      int // repetition level of a list's second element
	leaf     *leaf
	parts    []*shredder // element of a list, fields of a struct
}

func newShredder(f column.Field, path string, def, rep int, leaves *[]*leaf) *shredder {
	s := &shredder{path: path + f.Name, typ: f.Type, optional: !f.Key, def: def, rep: rep}
	if s.optional {
		s.def++
	}
	switch f.Type.Kind {
	case column.List:
		s.rep++
		elem := column.Field{Name: "element", Type: *f.Type.Elem}
		s.parts = []*shredder{newShredder(elem, s.path+".", s.def+1, s.rep, leaves)}
	case column.Struct:
		for _, g := range f.Type.Fields {
			g.Key = false
			s.parts = append(s.parts, newShredder(g, s.path+".", s.def, s.rep, leaves))
		}
	default:
		s.leaf = &leaf{index: len(*leaves)}
		*leaves = append(*leaves, s.leaf)
	}
	return s
}

// rows adds rows i to j of a top-level column.
func (s *shredder) rows(v *column.Vector, i, j int) error {
	if s.common(v, i, j) {
		return nil
	}
	for ; i < j; i++ {
		if err := s.row(v, i, 0); err != nil {
			return fmt.Errorf("column %s: %w", s.path, err)
		}
	}
	return nil
}

// common adds the rows of the kinds that cannot fail and that most columns have, without asking the kind for each value.
func (s *shredder) common(v *column.Vector, i, j int) bool {
	if s.leaf == nil || v.Type.Kind == column.Null || !s.optional {
		return false
	}
	l, null := s.leaf, pq.Value{}.Level(0, s.def-1, s.leaf.index)
	switch s.typ.Kind {
	case column.Int64:
		for ; i < j; i++ {
			if v.Valid != nil && !v.Valid[i] {
				l.vals = append(l.vals, null)
			} else {
				l.vals = append(l.vals, pq.Int64Value(v.Ints[i]).Level(0, s.def, l.index))
			}
		}
	case column.Float64:
		for ; i < j; i++ {
			if v.Valid != nil && !v.Valid[i] {
				l.vals = append(l.vals, null)
			} else {
				l.vals = append(l.vals, pq.DoubleValue(v.Floats[i]).Level(0, s.def, l.index))
			}
		}
	case column.String:
		for ; i < j; i++ {
			if v.Valid != nil && !v.Valid[i] {
				l.vals = append(l.vals, null)
			} else {
				l.pushBytes(v.Strings[i], 0, s.def)
			}
		}
	default:
		return false
	}
	return true
}

func (s *shredder) row(v *column.Vector, i, rep int) error {
	if v.Null(i) {
		if !s.optional {
			return fmt.Errorf("null in a key column")
		}
		s.null(rep, s.def-1)
		return nil
	}
	switch s.typ.Kind {
	case column.List:
		return s.list(v, i, rep)
	case column.Struct:
		for k, p := range s.parts {
			if err := p.row(v.Fields[k], i, rep); err != nil {
				return fmt.Errorf("%s: %w", p.path, err)
			}
		}
		return nil
	}
	return s.value(v, i, rep)
}

func (s *shredder) null(rep, def int) {
	if s.leaf != nil {
		s.leaf.push(pq.Value{}, rep, def)
		return
	}
	for _, p := range s.parts {
		p.null(rep, def)
	}
}

func (s *shredder) list(v *column.Vector, i, rep int) error {
	from, to := v.Offsets[i], v.Offsets[i+1]
	if from == to {
		s.parts[0].null(rep, s.def)
		return nil
	}
	for k := from; k < to; k++ {
		if err := s.parts[0].row(v.Elem, int(k), rep); err != nil {
			return fmt.Errorf("element %d: %w", k-from, err)
		}
		rep = s.rep
	}
	return nil
}

func (s *shredder) value(v *column.Vector, i, rep int) error {
	l, def := s.leaf, s.def
	switch s.typ.Kind {
	case column.Bool:
		l.push(pq.BooleanValue(v.Bools[i]), rep, def)
	case column.Int32:
		n := v.Ints[i]
		if n != int64(int32(n)) {
			return fmt.Errorf("%d does not fit int32", n)
		}
		l.push(pq.Int32Value(int32(n)), rep, def)
	case column.Int64:
		l.push(pq.Int64Value(v.Ints[i]), rep, def)
	case column.Date:
		n := v.Ints[i]
		if n != int64(int32(n)) {
			return fmt.Errorf("date %d days from 1970 does not fit", n)
		}
		l.push(pq.Int32Value(int32(n)), rep, def)
	case column.Float32:
		l.push(pq.FloatValue(float32(v.Floats[i])), rep, def)
	case column.Float64:
		l.push(pq.DoubleValue(v.Floats[i]), rep, def)
	case column.String, column.Bytes:
		l.pushBytes(v.Strings[i], rep, def)
	case column.Time:
		n := v.Ints[i]
		if n%1000 != 0 {
			return fmt.Errorf("time %s has nanoseconds, the output has microseconds", KeyText(v, i))
		}
		l.push(pq.Int64Value(n/1000), rep, def)
	case column.Timestamp:
		micros, err := microsOf(v.Ints[i], v.Nanos[i])
		if err != nil {
			return fmt.Errorf("timestamp %s: %w", KeyText(v, i), err)
		}
		l.push(pq.Int64Value(micros), rep, def)
	case column.Decimal:
		return s.decimal(v.Decimals[i], rep)
	}
	return nil
}

func microsOf(seconds int64, nanos int32) (int64, error) {
	switch {
	case nanos%1000 != 0:
		return 0, fmt.Errorf("has nanoseconds, the output has microseconds")
	case seconds > math.MaxInt64/1_000_000-1 || seconds < math.MinInt64/1_000_000+1:
		return 0, fmt.Errorf("does not fit microseconds")
	}
	return seconds*1_000_000 + int64(nanos)/1000, nil
}

func (s *shredder) decimal(d column.Int128, rep int) error {
	if !fits(d, int(s.typ.Precision)) {
		return fmt.Errorf("%s does not fit %s", decimalText(d.Big(), int(s.typ.Scale)), s.typ)
	}
	switch {
	case s.typ.Precision <= 9:
		s.leaf.push(pq.Int32Value(int32(d.Lo)), rep, s.def)
	case s.typ.Precision <= 18:
		s.leaf.push(pq.Int64Value(int64(d.Lo)), rep, s.def)
	default:
		at := len(s.leaf.arena)
		s.leaf.arena = binary.BigEndian.AppendUint64(s.leaf.arena, uint64(d.Hi))
		s.leaf.arena = binary.BigEndian.AppendUint64(s.leaf.arena, d.Lo)
		s.leaf.push(pq.FixedLenByteArrayValue(s.leaf.arena[at:]), rep, s.def)
	}
	return nil
}

var pow10 = [19]int64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// fits says whether d has at most precision digits.
func fits(d column.Int128, precision int) bool {
	if precision <= 18 {
		limit := pow10[precision]
		return d.Hi == int64(d.Lo)>>63 && int64(d.Lo) < limit && int64(d.Lo) > -limit
	}
	limit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	return d.Big().CmpAbs(limit) < 0
}

// weight is about how many bytes row i takes, by its content alone.
func weight(v *column.Vector, i int) int {
	if v.Null(i) {
		return 1
	}
	switch v.Type.Kind {
	case column.String, column.Bytes:
		return 4 + len(v.Strings[i])
	case column.List:
		n := 4
		for k := v.Offsets[i]; k < v.Offsets[i+1]; k++ {
			n += weight(v.Elem, int(k))
		}
		return n
	case column.Struct:
		n := 1
		for _, f := range v.Fields {
			n += weight(f, i)
		}
		return n
	case column.Decimal:
		return 16
	}
	return 8
}
