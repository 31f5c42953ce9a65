package scan

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"unsafe"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/valyala/fastjson"
)

// cell is a value of a text format, parsed and not yet appended. kind is
// Null, Bool, Int64, Float64, String, List or Struct.
type cell struct {
	kind   column.Kind
	b      bool
	i      int64
	f      float64
	text   []byte          // String: the value. CSV: the cell's text whatever its kind
	nested *fastjson.Value // List, Struct
	typ    column.Type     // List, Struct: the value's type
}

func (c *cell) typeOf() column.Type {
	if c.nested != nil {
		return c.typ
	}
	return column.Of(c.kind)
}

// textColumn is the state of a column in a text scan.
type textColumn struct {
	name    string
	format  Format
	numeric bool
	as      column.Type // Null: as observed
	seen    column.Type // of the rows so far
	long    bool        // there was an integer that no double holds
	next    column.Type // seen after the row that was judged last
	arena   *arena
}

// textType says whether a text format can deliver the type.
func textType(f Format, t column.Type) error {
	switch t.Kind {
	case column.Null, column.Bool, column.Int64, column.Float64, column.String:
		return nil
	case column.List:
		if f == NDJSON {
			return textType(f, *t.Elem)
		}
	case column.Struct:
		if f == NDJSON {
			for _, field := range t.Fields {
				if err := textType(f, field.Type); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return fmt.Errorf("%s has no %s", f, t)
}

func (c *textColumn) target() column.Type {
	if c.as.Kind != column.Null {
		return c.as
	}
	return c.seen
}

// judge says, as an error, why the cell makes its row a bad one: no type
// holds it and the rows before, or it does not fit As.
func (c *textColumn) judge(x *cell) error {
	if x.kind == column.Null {
		c.next = c.seen
		return nil
	}
	if c.format == CSV && c.numeric && x.kind != column.Int64 && x.kind != column.Float64 {
		return fmt.Errorf("%.40q is not a number", x.text)
	}
	if x.nested == nil && c.seen.Kind == x.kind || x.nested != nil && c.seen.Equal(x.typ) {
		c.next = c.seen
	} else {
		var err error
		if c.next, err = Widen(c.format, c.seen, x.typeOf()); errors.Is(err, errFields) {
			return err
		} else if err != nil {
			return fmt.Errorf("%s after %s", x.typeOf(), c.seen)
		}
	}
	if c.format == CSV && !c.numeric && c.next.Kind == column.Float64 && (c.long || x.kind == column.Int64 && !isDouble(x.i)) {
		c.next = column.Of(column.String)
	}
	want := c.next
	if c.as.Kind != column.Null {
		want = c.as
		if x.nested != nil || want.Kind != x.kind {
			if err := fits(c.format, x.typeOf(), want); err != nil {
				return err
			}
		}
	}
	switch {
	case x.nested != nil:
		return exactJSON(x.nested, want)
	case x.kind == column.Int64 && want.Kind == column.Float64:
		return exact(x.i)
	}
	return nil
}

// exact says, as an error, whether a double would round the integer.
func exact(i int64) error {
	if !isDouble(i) {
		return fmt.Errorf("%d has no exact double, and as the column has fractions its values are doubles", i)
	}
	return nil
}

// isDouble says whether a double holds the integer.
func isDouble(i int64) bool {
	u := uint64(i)
	if i < 0 {
		u = -u
	}
	return bits.Len64(u)-bits.TrailingZeros64(u) <= 53
}

// see takes the judged row's type over and says whether the type changed.
func (c *textColumn) see(x *cell) bool {
	c.long = c.long || x.kind == column.Int64 && !isDouble(x.i)
	if x.kind == column.Null || x.nested == nil && c.next.Kind == c.seen.Kind || c.next.Equal(c.seen) {
		return false
	}
	c.seen = c.next
	return true
}

// appendTo adds the judged cell to a vector whose type holds it.
func (c *textColumn) appendTo(v *column.Vector, x *cell) {
	if x.nested != nil {
		appendJSON(v, x.nested, c.arena)
		return
	}
	switch {
	case x.kind == column.Null:
		v.AppendNull()
	case v.Type.Kind == column.String:
		v.AppendString(c.arena.keep(x.text))
	case v.Type.Kind == column.Float64 && x.kind == column.Int64:
		v.AppendFloat(float64(x.i)) // exact, see judge
	case v.Type.Kind == column.Float64:
		v.AppendFloat(x.f)
	case v.Type.Kind == column.Int64:
		v.AppendInt(x.i)
	default:
		v.AppendBool(x.b)
	}
}

// arena copies strings into blocks that are not written again once a string of
// them was handed out, until reset, if ever: else they are the garbage
// collector's.
type arena struct {
	block []byte
	full  [][]byte // blocks before it, since the reset
	free  [][]byte
	again bool // there will be a reset
}

const (
	arenaBlock = 32 << 10
	arenaFree  = batchBytes / arenaBlock // blocks that are kept, for a batch
)

func (a *arena) keep(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > arenaBlock/4 {
		return string(b)
	}
	if len(a.block)+len(b) > cap(a.block) {
		a.next()
	}
	at := len(a.block)
	a.block = append(a.block, b...)
	return unsafe.String(&a.block[at], len(b))
}

// next begins a block.
func (a *arena) next() {
	if a.again && a.block != nil {
		a.full = append(a.full, a.block)
	}
	n := len(a.free)
	if n == 0 {
		a.block = make([]byte, 0, arenaBlock)
		return
	}
	a.block, a.free = a.free[n-1][:0], a.free[:n-1]
}

// reset takes back the memory of all strings handed out.
func (a *arena) reset() {
	for i, b := range a.full {
		if len(a.free) < arenaFree {
			a.free = append(a.free, b)
		}
		a.full[i] = nil
	}
	a.full, a.block = a.full[:0], a.block[:0]
}

// number is the outcome of reading a literal.
type number uint8

const (
	notNumber  number = iota
	isInt             // an integer in int64
	isFloat           // a double; the literal has a fraction or an exponent
	outOfRange        // a number that neither int64 nor double holds
)

// parseNumber reads a JSON number, strictly.
func parseNumber(s []byte) (i int64, f float64, n number) {
	p := 0
	if p < len(s) && s[p] == '-' {
		p++
	}
	digits := p
	for p < len(s) && isDigit(s[p]) {
		p++
	}
	switch {
	case p == digits, s[digits] == '0' && p > digits+1:
		return 0, 0, notNumber
	case p == len(s):
		return parseInteger(s, digits)
	}
	point := p // where the fraction starts, or would
	if s[p] == '.' {
		p++
		from := p
		for p < len(s) && isDigit(s[p]) {
			p++
		}
		if p == from {
			return 0, 0, notNumber
		}
		if p == len(s) {
			if f, ok := shortDecimal(s, digits, point); ok {
				return 0, f, isFloat
			}
		}
	}
	if p < len(s) && (s[p] == 'e' || s[p] == 'E') {
		p++
		if p < len(s) && (s[p] == '+' || s[p] == '-') {
			p++
		}
		from := p
		for p < len(s) && isDigit(s[p]) {
			p++
		}
		if p == from {
			return 0, 0, notNumber
		}
	}
	if p != len(s) {
		return 0, 0, notNumber
	}
	f, err := strconv.ParseFloat(unsafe.String(&s[0], len(s)), 64)
	if err != nil {
		return 0, 0, outOfRange
	}
	return 0, f, isFloat
}

// shortDecimal reads s, a checked literal with a fraction and no exponent, whose
// digits start at from and whose point is at point. Where they are few, the digits
// are an integer that is a double, as is the power of ten that divides it: one
// division rounds as it should.
func shortDecimal(s []byte, from, point int) (float64, bool) {
	if len(s)-from > 16 { // 15 digits and the point
		return 0, false
	}
	var u uint64
	for _, c := range s[from:point] {
		u = u*10 + uint64(c-'0')
	}
	power := uint64(1)
	for _, c := range s[point+1:] {
		u, power = u*10+uint64(c-'0'), power*10
	}
	f := float64(u) / float64(power)
	if from > 0 {
		f = -f
	}
	return f, true
}

// parseInteger reads s, a checked integer literal whose digits start at from.
func parseInteger(s []byte, from int) (int64, float64, number) {
	if len(s)-from > 19 {
		return 0, 0, outOfRange
	}
	var u uint64
	for _, c := range s[from:] {
		u = u*10 + uint64(c-'0')
	}
	switch {
	case from == 1 && u == 1<<63:
		return math.MinInt64, 0, isInt
	case u > math.MaxInt64:
		return 0, 0, outOfRange
	case from == 1:
		return -int64(u), 0, isInt
	}
	return int64(u), 0, isInt
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
