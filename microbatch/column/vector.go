package column

import (
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Int128 is a signed 128-bit integer, Hi its upper half in two's complement.
// It holds the unscaled value of a decimal of up to 38 digits.
type Int128 struct {
	Hi int64
	Lo uint64
}

// Int128From widens v.
func Int128From(v int64) Int128 { return Int128{Hi: v >> 63, Lo: uint64(v)} }

// Big returns the value as a big.Int of its own.
func (x Int128) Big() *big.Int {
	b := big.NewInt(x.Hi)
	b.Lsh(b, 64)
	return b.Add(b, new(big.Int).SetUint64(x.Lo))
}

// Int128FromBig narrows b; ok is false where it does not fit.
func Int128FromBig(b *big.Int) (x Int128, ok bool) {
	if b.BitLen() > 127 {
		return Int128{}, false
	}
	lo := new(big.Int).And(b, new(big.Int).SetUint64(^uint64(0)))
	hi := new(big.Int).Rsh(b, 64)
	return Int128{Hi: hi.Int64(), Lo: lo.Uint64()}, true
}

// Cmp compares as signed integers.
func (x Int128) Cmp(y Int128) int {
	switch {
	case x.Hi != y.Hi && x.Hi < y.Hi, x.Hi == y.Hi && x.Lo < y.Lo:
		return -1
	case x == y:
		return 0
	}
	return 1
}

// Vector is a column of Len values of one Type. It doubles as its own builder:
// the Append methods add one row. The zero Vector with a Type is empty.
type Vector struct {
	Type Type

	// Valid has one entry per row, or is nil where no row is null.
	Valid []bool

	Bools    []bool    // Bool
	Ints     []int64   // Int32, Int64, Date, Time, Timestamp (seconds)
	Nanos    []int32   // Timestamp
	Floats   []float64 // Float32, Float64
	Decimals []Int128  // Decimal
	Strings  []string  // String, Bytes
	Offsets  []int32   // List: row i holds Elem rows Offsets[i] to Offsets[i+1]; len = rows+1, or nil when empty
	Elem     *Vector   // List
	Fields   []*Vector // Struct, in the order of Type.Fields

	// Codes and Dict say again what the storage says, where the values came of
	// a dictionary: row i, unless it is null, is row Codes[i] of Dict. They hold
	// as long as Codes has an entry for every row; who adds rows by the Append
	// methods leaves them behind. Dict is never changed, and another dictionary
	// is another vector.
	Codes []uint32
	Dict  *Vector

	n     int
	spare []bool // storage for Valid
}

// New returns an empty vector of the type, its children made.
func New(t Type) *Vector {
	v := &Vector{Type: t}
	switch t.Kind {
	case List:
		v.Elem = New(*t.Elem)
		v.Offsets = []int32{0}
	case Struct:
		for _, f := range t.Fields {
			v.Fields = append(v.Fields, New(f.Type))
		}
	}
	return v
}

// Len is the number of rows.
func (v *Vector) Len() int { return v.n }

// SetLen declares the number of rows after the storage was filled directly.
// The caller keeps invariant 1.
func (v *Vector) SetLen(n int) { v.n = n }

// Null says whether row i is null.
func (v *Vector) Null(i int) bool {
	return v.Type.Kind == Null || v.Valid != nil && !v.Valid[i]
}

// Reset empties the vector and keeps its storage for reuse.
func (v *Vector) Reset() {
	v.n = 0
	if v.Valid != nil {
		v.spare, v.Valid = v.Valid[:0], nil
	}
	v.Bools, v.Ints, v.Nanos, v.Floats = v.Bools[:0], v.Ints[:0], v.Nanos[:0], v.Floats[:0]
	v.Decimals, v.Strings = v.Decimals[:0], v.Strings[:0]
	v.Codes, v.Dict = v.Codes[:0], nil
	if v.Elem != nil {
		v.Offsets = append(v.Offsets[:0], 0)
		v.Elem.Reset()
	}
	for _, f := range v.Fields {
		f.Reset()
	}
}

// MakeValid gives Valid, if it is nil, an entry that says true for every row, and
// room for so many rows in all.
func (v *Vector) MakeValid(rows int) {
	if v.Valid != nil {
		return
	}
	if cap(v.spare) < max(rows, v.n, 1) {
		v.spare = make([]bool, 0, max(rows, v.n, 1))
	}
	v.Valid, v.spare = v.spare[:v.n], nil
	for i := range v.Valid {
		v.Valid[i] = true
	}
}

func (v *Vector) push(valid bool) {
	if !valid {
		v.MakeValid(max(64, 2*v.n))
	}
	if v.Valid != nil {
		v.Valid = append(v.Valid, valid)
	}
	v.n++
}

// AppendNull adds a null row; in a struct its fields get one too.
func (v *Vector) AppendNull() {
	switch v.Type.Kind {
	case Bool:
		v.Bools = append(v.Bools, false)
	case Int32, Int64, Date, Time:
		v.Ints = append(v.Ints, 0)
	case Timestamp:
		v.Ints, v.Nanos = append(v.Ints, 0), append(v.Nanos, 0)
	case Float32, Float64:
		v.Floats = append(v.Floats, 0)
	case Decimal:
		v.Decimals = append(v.Decimals, Int128{})
	case String, Bytes:
		v.Strings = append(v.Strings, "")
	case List:
		v.Offsets = append(v.Offsets, int32(v.Elem.Len()))
	case Struct:
		for _, f := range v.Fields {
			f.AppendNull()
		}
	}
	v.push(false)
}

// AppendBool adds a row to a Bool vector.
func (v *Vector) AppendBool(b bool) { v.Bools = append(v.Bools, b); v.push(true) }

// AppendInt adds a row to an Int32, Int64, Date or Time vector.
func (v *Vector) AppendInt(i int64) { v.Ints = append(v.Ints, i); v.push(true) }

// AppendFloat adds a row to a Float32 or Float64 vector.
func (v *Vector) AppendFloat(f float64) { v.Floats = append(v.Floats, f); v.push(true) }

// AppendDecimal adds a row to a Decimal vector, unscaled at the type's scale.
func (v *Vector) AppendDecimal(d Int128) { v.Decimals = append(v.Decimals, d); v.push(true) }

// AppendString adds a row to a String or Bytes vector.
func (v *Vector) AppendString(s string) { v.Strings = append(v.Strings, s); v.push(true) }

// AppendTimestamp adds a row to a Timestamp vector; nanos is 0..999,999,999.
func (v *Vector) AppendTimestamp(seconds int64, nanos int32) {
	v.Ints, v.Nanos = append(v.Ints, seconds), append(v.Nanos, nanos)
	v.push(true)
}

// EndList closes a row of a List vector: its elements are those appended to
// Elem since the row before.
func (v *Vector) EndList() { v.Offsets = append(v.Offsets, int32(v.Elem.Len())); v.push(true) }

// EndStruct closes a row of a Struct vector whose fields got one row each.
func (v *Vector) EndStruct() { v.push(true) }

// Instant returns row i of a Timestamp vector.
func (v *Vector) Instant(i int) time.Time { return time.Unix(v.Ints[i], int64(v.Nanos[i])).UTC() }

// AppendFrom adds row i of src, whose type must have the same Repr, or be
// Null, or widen to v's type; anything else is an error naming both types.
func (v *Vector) AppendFrom(src *Vector, i int) error {
	if src.Null(i) {
		v.AppendNull()
		return nil
	}
	if src.Type.Kind == v.Type.Kind && v.appendPlain(src, i) {
		return nil
	}
	from, to := src.Type, v.Type
	switch {
	case from.IsInt() && to.Kind == Decimal:
		return v.appendScaled(Int128From(src.Ints[i]), int(to.Scale))
	case from.Kind == Decimal && to.Kind == Decimal && from.Scale <= to.Scale:
		return v.appendScaled(src.Decimals[i], int(to.Scale-from.Scale))
	case from.Kind == Date && to.Kind == Timestamp:
		v.AppendTimestamp(src.Ints[i]*86400, 0)
		return nil
	case from.Kind == Struct && to.Kind == Struct:
		return v.appendStruct(src, i)
	case from.Kind == List && to.Kind == List:
		for j := src.Offsets[i]; j < src.Offsets[i+1]; j++ {
			if err := v.Elem.AppendFrom(src.Elem, int(j)); err != nil {
				return err
			}
		}
		v.EndList()
		return nil
	case to.Kind == Null, !from.SameRepr(to), !v.appendPlain(src, i):
		return fmt.Errorf("%s does not widen to %s", from, to)
	}
	return nil
}

// appendPlain adds row i of src, which is not null and has the same Repr, where
// that takes no more than copying the value.
func (v *Vector) appendPlain(src *Vector, i int) bool {
	switch v.Type.Kind {
	case Bool:
		v.AppendBool(src.Bools[i])
	case Int32, Int64, Date, Time:
		v.AppendInt(src.Ints[i])
	case Timestamp:
		v.AppendTimestamp(src.Ints[i], src.Nanos[i])
	case Float32, Float64:
		v.AppendFloat(src.Floats[i])
	case String, Bytes:
		v.AppendString(src.Strings[i])
	default:
		return false
	}
	return true
}

// AppendRows adds rows of src, as AppendFrom does one by one.
func (v *Vector) AppendRows(src *Vector, rows []int32) error {
	kind := v.Type.Kind
	if src.Type.Kind != kind || src.Valid != nil || kind == Null || kind == Decimal || kind == List || kind == Struct {
		for _, i := range rows {
			if err := v.AppendFrom(src, int(i)); err != nil {
				return err
			}
		}
		return nil
	}
	switch kind {
	case Bool:
		v.Bools = pick(v.Bools, src.Bools, rows)
	case Int32, Int64, Date, Time:
		v.Ints = pick(v.Ints, src.Ints, rows)
	case Timestamp:
		v.Ints, v.Nanos = pick(v.Ints, src.Ints, rows), pick(v.Nanos, src.Nanos, rows)
	case Float32, Float64:
		v.Floats = pick(v.Floats, src.Floats, rows)
	case String, Bytes:
		v.Strings = pick(v.Strings, src.Strings, rows)
	}
	if v.Valid != nil {
		for range rows {
			v.Valid = append(v.Valid, true)
		}
	}
	v.n += len(rows)
	return nil
}

// pick adds some of the values of from.
func pick[T any](to, from []T, rows []int32) []T {
	to = slices.Grow(to, len(rows))
	for _, i := range rows {
		to = append(to, from[i])
	}
	return to
}

func (v *Vector) appendScaled(d Int128, by int) error {
	if by == 0 {
		v.AppendDecimal(d)
		return nil
	}
	b := d.Big()
	b.Mul(b, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(by)), nil))
	out, ok := Int128FromBig(b)
	if !ok {
		return fmt.Errorf("%s does not fit %s", d.Big(), v.Type)
	}
	v.AppendDecimal(out)
	return nil
}

func (v *Vector) appendStruct(src *Vector, i int) error {
	for j, f := range v.Type.Fields {
		k := fieldNamed(src.Type.Fields, f.Name)
		if k < 0 {
			v.Fields[j].AppendNull()
			continue
		}
		if err := v.Fields[j].AppendFrom(src.Fields[k], i); err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
	}
	v.EndStruct()
	return nil
}

func fieldNamed(fields []Field, name string) int {
	for i, f := range fields {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// Batch is a set of equally long columns.
type Batch struct {
	Len     int
	Columns []*Vector
}

// NewBatch returns an empty batch of the fields' types.
func NewBatch(fields []Field) *Batch {
	b := &Batch{Columns: make([]*Vector, len(fields))}
	for i, f := range fields {
		b.Columns[i] = New(f.Type)
	}
	return b
}

// Reset empties the batch and keeps its storage.
func (b *Batch) Reset() {
	b.Len = 0
	for _, c := range b.Columns {
		c.Reset()
	}
}
