package combine

import (
	"math"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// The columns of min, max and any over values of fixed width hold the values
// themselves, in words whose order is the tuple order, so that a record costs a
// comparison of numbers. Their accumulators are the same bytes as ever.

// fixedWidth says whether values of the kind fit one word, or two.
func fixedWidth(k column.Kind) (one, two bool) {
	switch k {
	case column.Bool, column.Int32, column.Int64, column.Date, column.Time, column.Float32, column.Float64:
		return true, false
	case column.Timestamp, column.Decimal:
		return false, true
	}
	return false, false
}

// floatWord maps doubles to integers of their tuple order: one zero, one NaN,
// which is the greatest. It is its own inverse on what it returns.
func floatWord(x float64) int64 {
	b := math.Float64bits(x)
	switch abs := b &^ (1 << 63); {
	case abs > 0x7ff<<52:
		b = 0x7ff8 << 48
	case abs == 0:
		b = 0
	}
	return int64(b) ^ int64(uint64(int64(b)>>63)>>1)
}

// words is what holds for both widths. A group of no value holds the last one in
// the order, which every other replaces; that a value is that one itself is
// noted apart.
type words struct {
	fn      *extremeFn
	last    []bool         // groups whose value is the last; empty until there is one
	scratch *column.Vector // of one value
}

// mark notes that g has the last value.
func (w *words) mark(g uint32, n int) {
	w.last = grow(w.last, n)
	w.last[g] = true
}

func (w *words) isLast(g uint32) bool { return int(g) < len(w.last) && w.last[g] }

// decode reads an accumulator into scratch; ok is false for no bytes.
func (w *words) decode(acc []byte) (ok bool, err error) {
	if len(acc) == 0 {
		return false, nil
	}
	if err := w.fn.Validate(acc); err != nil {
		return false, err
	}
	if w.scratch == nil {
		w.scratch = column.New(w.fn.out)
	}
	w.scratch.Reset()
	_, err = tuple.Decode(acc, w.scratch)
	return err == nil, err
}

// wordColumn holds values of one word.
type wordColumn struct {
	words
	at   []int64
	none int64   // what a group without a value holds
	read []int64 // scratch: the words of a batch
}

func (c *wordColumn) Len() int { return len(c.at) }

func (c *wordColumn) Grow(n int) {
	from := len(c.at)
	c.at = grow(c.at, n)
	for i := from; i < len(c.at); i++ {
		c.at[i] = c.none
	}
}

func (c *wordColumn) Reset()       { c.last, c.at = c.last[:0], c.at[:0] }
func (c *wordColumn) Bytes() int64 { return int64(cap(c.last) + 8*cap(c.at) + 8*cap(c.read)) }

// has says whether g has a value.
func (c *wordColumn) has(g uint32) bool { return c.at[g] != c.none || c.isLast(g) }

// wordsOf returns a word for each row of v.
func (c *wordColumn) wordsOf(v *column.Vector) []int64 {
	switch v.Type.Kind {
	case column.Bool:
		c.read = c.read[:0]
		for _, b := range v.Bools {
			x := int64(0)
			if b {
				x = 1
			}
			c.read = append(c.read, x)
		}
		return c.read
	case column.Float32, column.Float64:
		c.read = c.read[:0]
		for _, f := range v.Floats {
			c.read = append(c.read, floatWord(f))
		}
		return c.read
	}
	return v.Ints
}

func (c *wordColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	if arg.Type.Kind == column.Null {
		return nil
	}
	if arg.Valid == nil && in.whole() && arg.Type.Kind != column.Bool {
		if arg.Type.IsFloat() {
			c.addFloats(in.Groups, arg.Floats)
		} else {
			c.addInts(in.Groups, arg.Ints)
		}
		return nil
	}
	from, valid := c.wordsOf(arg), arg.Valid
	if c.fn.greatest {
		for _, i := range in.Rows {
			if valid != nil && !valid[i] {
				continue
			}
			if have, x := &c.at[in.Groups[i]], from[i]; x > *have {
				*have = x
			} else if x == c.none {
				c.mark(in.Groups[i], len(c.at))
			}
		}
		return nil
	}
	for _, i := range in.Rows {
		if valid != nil && !valid[i] {
			continue
		}
		if have, x := &c.at[in.Groups[i]], from[i]; x < *have {
			*have = x
		} else if x == c.none {
			c.mark(in.Groups[i], len(c.at))
		}
	}
	return nil
}

// addInts offers a word to each of the groups. Which is kept is not a branch: it
// could not be foretold.
func (c *wordColumn) addInts(groups []uint32, xs []int64) {
	at, none, xs := c.at, c.none, xs[:len(groups)]
	if c.fn.greatest {
		for i, g := range groups {
			x := xs[i]
			at[g] = max(at[g], x)
			if x == none {
				c.mark(g, len(at))
			}
		}
		return
	}
	for i, g := range groups {
		x := xs[i]
		at[g] = min(at[g], x)
		if x == none {
			c.mark(g, len(at))
		}
	}
}

// addFloats is addInts for the words of doubles, of which none is the last.
func (c *wordColumn) addFloats(groups []uint32, xs []float64) {
	at, xs := c.at, xs[:len(groups)]
	if c.fn.greatest {
		for i, g := range groups {
			at[g] = max(at[g], floatWord(xs[i]))
		}
		return
	}
	for i, g := range groups {
		at[g] = min(at[g], floatWord(xs[i]))
	}
}

func (c *wordColumn) Merge(g uint32, acc []byte) error {
	ok, err := c.decode(acc)
	if !ok {
		return err
	}
	x := c.wordsOf(c.scratch)[0]
	if have := c.at[g]; x != have && (x > have) == c.fn.greatest {
		c.at[g] = x
	} else if x == c.none {
		c.mark(g, len(c.at))
	}
	return nil
}

func (c *wordColumn) AppendAcc(dst []byte, g uint32) []byte {
	if !c.has(g) {
		return dst
	}
	x := c.at[g]
	switch c.fn.out.Kind {
	case column.Bool:
		return tuple.AppendBool(dst, x == 1)
	case column.Float32, column.Float64:
		return tuple.AppendFloat(dst, wordFloat(x))
	case column.Date:
		return tuple.AppendDate(dst, x)
	case column.Time:
		return tuple.AppendTime(dst, x)
	}
	return tuple.AppendInt(dst, x)
}

func wordFloat(x int64) float64 {
	return math.Float64frombits(uint64(x ^ int64(uint64(x>>63)>>1)))
}

func (c *wordColumn) Extract(g uint32, dst *column.Vector) error {
	x := c.at[g]
	switch k := c.fn.out.Kind; {
	case !c.has(g):
		dst.AppendNull()
	case k == column.Bool:
		dst.AppendBool(x == 1)
	case k == column.Float32 || k == column.Float64:
		dst.AppendFloat(wordFloat(x))
	default:
		dst.AppendInt(x)
	}
	return nil
}

// pair is a value of two words: a timestamp's seconds and nanoseconds, or the
// halves of a decimal.
type pair struct {
	hi int64
	lo uint64
}

func (p pair) less(q pair) bool { return p.hi < q.hi || p.hi == q.hi && p.lo < q.lo }

// pairColumn holds values of two words.
type pairColumn struct {
	words
	at   []pair
	none pair // what a group without a value holds
}

func (c *pairColumn) Len() int { return len(c.at) }

func (c *pairColumn) Grow(n int) {
	from := len(c.at)
	c.at = grow(c.at, n)
	for i := from; i < len(c.at); i++ {
		c.at[i] = c.none
	}
}

func (c *pairColumn) Reset()            { c.last, c.at = c.last[:0], c.at[:0] }
func (c *pairColumn) Bytes() int64      { return int64(cap(c.last) + 16*cap(c.at)) }
func (c *pairColumn) has(g uint32) bool { return c.at[g] != c.none || c.isLast(g) }

func (c *pairColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	if arg.Type.Kind == column.Null {
		return nil
	}
	if valid := arg.Valid; arg.Type.Kind == column.Timestamp {
		for _, i := range in.Rows {
			if valid == nil || valid[i] {
				c.offer(in.Groups[i], pair{arg.Ints[i], uint64(arg.Nanos[i])})
			}
		}
	} else {
		for _, i := range in.Rows {
			if valid == nil || valid[i] {
				c.offer(in.Groups[i], pair{arg.Decimals[i].Hi, arg.Decimals[i].Lo})
			}
		}
	}
	return nil
}

func (c *pairColumn) offer(g uint32, x pair) {
	have := &c.at[g]
	if c.fn.greatest && have.less(x) || !c.fn.greatest && x.less(*have) {
		*have = x
	} else if x == c.none {
		c.mark(g, len(c.at))
	}
}

func (c *pairColumn) Merge(g uint32, acc []byte) error {
	ok, err := c.decode(acc)
	if !ok {
		return err
	}
	c.offer(g, c.pair())
	return nil
}

// pair is the value that decode read.
func (c *pairColumn) pair() pair {
	if s := c.scratch; s.Type.Kind == column.Timestamp {
		return pair{s.Ints[0], uint64(s.Nanos[0])}
	}
	return pair{c.scratch.Decimals[0].Hi, c.scratch.Decimals[0].Lo}
}

func (c *pairColumn) AppendAcc(dst []byte, g uint32) []byte {
	switch x := c.at[g]; {
	case !c.has(g):
		return dst
	case c.fn.out.Kind == column.Timestamp:
		return tuple.AppendTimestamp(dst, x.hi, int32(x.lo))
	default:
		return tuple.AppendDecimal(dst, column.Int128{Hi: x.hi, Lo: x.lo}, int(c.fn.out.Scale))
	}
}

func (c *pairColumn) Extract(g uint32, dst *column.Vector) error {
	switch x := c.at[g]; {
	case !c.has(g):
		dst.AppendNull()
	case c.fn.out.Kind == column.Timestamp:
		dst.AppendTimestamp(x.hi, int32(x.lo))
	default:
		dst.AppendDecimal(column.Int128{Hi: x.hi, Lo: x.lo})
	}
	return nil
}
