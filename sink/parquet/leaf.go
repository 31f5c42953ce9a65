package parquet

import (
	"fmt"
	"math"
	"math/big"

	"github.com/parquet-go/parquet-go/format"

	"github.com/deltad/deltad/microbatch/column"
)

// leaf is one Parquet column: the values of the page that is being filled, as the file will have them and without nulls, and the chunk
// that finished pages go to. Of the slices of values the one of its physical type is in use.
type leaf struct {
	path     string   // for messages
	names    []string // in the schema
	typ      column.Type
	physical format.Type
	key      bool // a key column
	first    bool // the first of them, whose values ascend
	sole     bool // the only one, whose values are all different
	def, rep uint8

	rows   int     // of the page
	values int     // of the page, nulls among them
	nulls  int     // of the page
	defs   []uint8 // levels of the values; nil while all are there
	reps   []uint8 // of a column below a list

	bools   []bool
	int32s  []int32
	int64s  []int64
	floats  []float32
	doubles []float64
	fixed   []byte  // 16 a value
	text    []byte  // byte arrays, one after the other
	lengths []int32 // of those in text
	ids     []int32 // or their numbers in the chunk's dictionary

	labour int // how many bytes the compressor was given for the last page
	chunk  chunk
}

// wide is the size of a decimal that does not fit eight bytes.
const wide = 16

func physicalOf(t column.Type) format.Type {
	switch t.Kind {
	case column.Bool:
		return format.Boolean
	case column.Int32, column.Date:
		return format.Int32
	case column.Int64, column.Time, column.Timestamp:
		return format.Int64
	case column.Float32:
		return format.Float
	case column.Float64:
		return format.Double
	case column.Decimal:
		switch {
		case t.Precision <= 9:
			return format.Int32
		case t.Precision <= 18:
			return format.Int64
		}
		return format.FixedLenByteArray
	}
	return format.ByteArray
}

// resetPage forgets the page's values and keeps the room they took.
func (l *leaf) resetPage() {
	l.rows, l.values, l.nulls = 0, 0, 0
	l.defs, l.reps = l.defs[:0], l.reps[:0]
	l.bools, l.int32s, l.int64s, l.floats, l.doubles = l.bools[:0], l.int32s[:0], l.int64s[:0], l.floats[:0], l.doubles[:0]
	l.fixed, l.text, l.lengths, l.ids = l.fixed[:0], l.text[:0], l.lengths[:0], l.ids[:0]
}

// spell makes room for definition levels of the values so far, all of which are there.
func (l *leaf) spell() {
	if len(l.defs) == 0 && l.values > 0 {
		l.defs = append(l.defs, make([]uint8, l.values)...)
		for i := range l.defs {
			l.defs[i] = l.def
		}
	}
}

// addFlat adds rows i to j of a column that is not nested.
func (l *leaf) addFlat(v *column.Vector, i, j int) error {
	if nulls := countNulls(v, i, j); nulls > 0 || len(l.defs) > 0 {
		l.spell()
		for k := i; k < j; k++ {
			d := l.def
			if v.Null(k) {
				d--
			}
			l.defs = append(l.defs, d)
		}
		l.nulls += nulls
	}
	l.rows, l.values = l.rows+j-i, l.values+j-i
	return l.add(v, i, j)
}

func countNulls(v *column.Vector, i, j int) int {
	switch {
	case v.Type.Kind == column.Null:
		return j - i
	case v.Valid == nil:
		return 0
	}
	n := 0
	for _, ok := range v.Valid[i:j] {
		if !ok {
			n++
		}
	}
	return n
}

// add appends the values of rows i to j that are there.
func (l *leaf) add(v *column.Vector, i, j int) error {
	if v.Type.Kind == column.Null {
		return nil
	}
	if v.Valid == nil {
		return l.addThere(v, i, j)
	}
	for i < j {
		if !v.Valid[i] {
			i++
			continue
		}
		k := i + 1
		for k < j && v.Valid[k] {
			k++
		}
		if err := l.addThere(v, i, k); err != nil {
			return err
		}
		i = k
	}
	return nil
}

// addThere appends the values of rows i to j, none of which is null.
func (l *leaf) addThere(v *column.Vector, i, j int) error {
	switch l.typ.Kind {
	case column.Bool:
		l.bools = append(l.bools, v.Bools[i:j]...)
	case column.Int64:
		l.int64s = append(l.int64s, v.Ints[i:j]...)
	case column.Float64:
		l.doubles = append(l.doubles, v.Floats[i:j]...)
	case column.Float32:
		for _, f := range v.Floats[i:j] {
			l.floats = append(l.floats, float32(f))
		}
	case column.String, column.Bytes, column.Null:
		texts := v.Strings[i:j]
		if d := l.dictionary(); d != nil {
			texts = texts[l.nameTexts(d, texts):]
		}
		for _, s := range texts {
			l.text = append(l.text, s...)
			l.lengths = append(l.lengths, int32(len(s)))
		}
	case column.Decimal:
		return l.addDecimals(v, i, j)
	case column.Int32, column.Date:
		for k, n := range v.Ints[i:j] {
			if n != int64(int32(n)) {
				return l.misfit(v, i+k)
			}
			l.int32s = append(l.int32s, int32(n))
		}
	case column.Time:
		for k, n := range v.Ints[i:j] {
			if n%1000 != 0 {
				return fmt.Errorf("column %s: time %s has nanoseconds, the output has microseconds", l.path, KeyText(v, i+k))
			}
			l.int64s = append(l.int64s, n/1000)
		}
	case column.Timestamp:
		return l.addTimestamps(v, i, j)
	}
	return nil
}

func (l *leaf) misfit(v *column.Vector, i int) error {
	if l.typ.Kind == column.Date {
		return fmt.Errorf("column %s: date %d days from 1970 does not fit", l.path, v.Ints[i])
	}
	return fmt.Errorf("column %s: %d does not fit int32", l.path, v.Ints[i])
}

func (l *leaf) addTimestamps(v *column.Vector, i, j int) error {
	seconds, nanos := v.Ints[i:j], v.Nanos[i:j]
	for k, s := range seconds {
		n := nanos[k]
		switch {
		case n%1000 != 0:
			return fmt.Errorf("column %s: timestamp %s: has nanoseconds, the output has microseconds", l.path, KeyText(v, i+k))
		case s > math.MaxInt64/1_000_000-1 || s < math.MinInt64/1_000_000+1:
			return fmt.Errorf("column %s: timestamp %s: does not fit microseconds", l.path, KeyText(v, i+k))
		}
		l.int64s = append(l.int64s, s*1_000_000+int64(n)/1000)
	}
	return nil
}

func (l *leaf) addDecimals(v *column.Vector, i, j int) error {
	precision := int(l.typ.Precision)
	limit := pow10[min(precision, 18)]
	for k, d := range v.Decimals[i:j] {
		n := int64(d.Lo)
		if d.Hi != n>>63 || n >= limit || n <= -limit { // not what eight bytes and the precision hold
			if precision <= 18 || !fits(d, precision) {
				return fmt.Errorf("column %s: %s does not fit %s", l.path, KeyText(v, i+k), l.typ)
			}
		}
		switch l.physical {
		case format.Int32:
			l.int32s = append(l.int32s, int32(n))
		case format.Int64:
			l.int64s = append(l.int64s, n)
		default:
			l.fixed = appendWide(l.fixed, d)
		}
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
