package combine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
)

// bucketing says how the values of a type fall into numbered buckets, whose order
// is that of the values.
type bucketing interface {
	// of returns the bucket of row i, which is not null.
	of(v *column.Vector, i int) int32
	// valid says whether a value can have the bucket.
	valid(bucket int32) bool
}

// logLinear cuts each power of two into 2^precision buckets of equal width.
// Two values of one bucket differ by at most 2^-precision of the smaller, so the
// harmonic mean of its bounds is off by at most 1/(2^(precision+1)+1). There is
// no logarithm in it: a bucket is the exponent and the leading bits of the
// magnitude, which every architecture reads alike. The idea is HdrHistogram's;
// it is the linearly interpolated mapping of DDSketch.
//
// Magnitudes are counted from 1 up, in units of 2^-1074 for floats as for
// integers; those of negative values are negated, zero is 0. The infinities are
// where their exponent puts them, NaN comes after.
type logLinear struct {
	precision uint8
	kind      column.Kind
}

const (
	leastExponent  = -1074
	finiteExponent = 1024 // the first that no double has
)

// bucket numbers a magnitude m·2^exp that is not 0, m being hi and lo.
func (l logLinear) bucket(hi, lo uint64, exp int) int32 {
	n := bits.Len64(lo)
	if hi > 0 {
		n = 64 + bits.Len64(hi)
	}
	p := int(l.precision)
	var top uint64 // precision+1 leading bits
	switch down := n - 1 - p; {
	case down <= 0:
		top = lo << -down
	case down >= 64:
		top = hi >> (down - 64)
	default:
		top = hi<<(64-down) | lo>>down
	}
	return int32((n-1+exp-leastExponent)<<p) + int32(top&(1<<p-1)) + 1
}

func (l logLinear) of(v *column.Vector, i int) int32 {
	switch v.Type.Kind {
	case column.Float32, column.Float64:
		return l.ofFloat(v.Floats[i])
	case column.Decimal:
		hi, lo := uint64(v.Decimals[i].Hi), v.Decimals[i].Lo
		if hi>>63 == 0 {
			if hi|lo == 0 {
				return 0
			}
			return l.bucket(hi, lo, 0)
		}
		lo, borrow := bits.Sub64(0, lo, 0)
		hi, _ = bits.Sub64(0, hi, borrow)
		return -l.bucket(hi, lo, 0)
	}
	switch x := v.Ints[i]; {
	case x > 0:
		return l.bucket(0, uint64(x), 0)
	case x < 0:
		return -l.bucket(0, -uint64(x), 0)
	}
	return 0
}

func (l logLinear) ofFloat(f float64) int32 {
	b := math.Float64bits(f)
	mag := b &^ (1 << 63)
	var at int32
	switch {
	case mag>>52 > 0 && f == f:
		// Exponent and leading bits stand together as they do in the number.
		at = int32(mag>>(52-l.precision)) + (-leastExponent-1023)<<l.precision + 1
	case f != f:
		return l.nan()
	case mag == 0:
		return 0
	default:
		at = l.bucket(0, mag, leastExponent)
	}
	if b>>63 == 1 {
		return -at
	}
	return at
}

// infinity is the bucket of +Inf, nan that of NaN.
func (l logLinear) infinity() int32 {
	return int32(finiteExponent-leastExponent)<<l.precision + 1
}
func (l logLinear) nan() int32 { return l.infinity() + 1 }

// parts returns a bucket's exponent and its leading bits, for magnitudes.
func (l logLinear) parts(bucket int32) (exp int, top uint64) {
	at := max(bucket, -bucket) - 1
	return int(at>>l.precision) + leastExponent, 1<<l.precision | uint64(at)&(1<<l.precision-1)
}

func (l logLinear) valid(bucket int32) bool {
	if bucket == 0 {
		return true
	}
	exp, top := l.parts(bucket)
	least, most := 0, 62
	switch l.kind {
	case column.Float32, column.Float64:
		if inf := l.infinity(); bucket == inf || bucket == -inf || bucket == l.nan() {
			return true
		}
		least, most = leastExponent, finiteExponent-1
	case column.Decimal:
		most = 126
	case column.Null:
		return false
	}
	if exp == most+1 && bucket < 0 && l.kind != column.Decimal && least == 0 {
		return top == 1<<l.precision // the least integer
	}
	if exp < least || exp > most {
		return false
	}
	// A magnitude of few bits has no more of them.
	spare := int(l.precision) - (exp - least)
	return spare <= 0 || top&(1<<spare-1) == 0
}

// bucketColumn is the column of a fn that counts values by bucket: a table of buckets
// for each group. It lacks Extract.
//
// Its accumulator is the first bucket as a zigzag uvarint and its count, then
// for each further one, ascending, a uvarint of twice the count, plus one if the
// bucket does not follow the one before at once; then after it the number of
// buckets between less one, as a uvarint. No count is 0.
type bucketColumn struct {
	groupTallies
	fn      *bucketFn
	list    []tally
	foreign []tally
}

// tally is a bucket and its count. The key of a bucket is never 0, that of a
// free slot is; a count may be 0 after values were taken out.
type tally struct {
	key uint32
	n   uint64
}

func keyOf(bucket int32) uint32 { return uint32(bucket) ^ 1<<31 }

func (t tally) bucket() int32 { return int32(t.key ^ 1<<31) }

// bucketFn is what the fns over buckets share.
type bucketFn struct {
	base
	bucketing
}

func (f *bucketFn) Validate(acc []byte) error {
	_, _, err := f.parse(nil, acc)
	return err
}

// parse appends what an accumulator counts to list.
func (f *bucketFn) parse(list []tally, acc []byte) (_ []tally, total uint64, err error) {
	if len(acc) == 0 {
		return list, 0, nil
	}
	if list, total, err = f.parseTallies(list, acc); err != nil {
		return nil, 0, fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return list, total, nil
}

var errCounts = errors.New("counts exceed 63 bits")

func (f *bucketFn) parseTallies(list []tally, b []byte) (_ []tally, total uint64, err error) {
	zigzag, b, err := uvarint(b)
	if err != nil {
		return nil, 0, err
	}
	if zigzag >= 1<<32 {
		return nil, 0, errors.New("bucket is out of range")
	}
	at := int64(zigzag>>1) ^ -int64(zigzag&1)
	for first := true; first || len(b) > 0; first = false {
		var n, gap uint64
		if n, b, err = uvarint(b); err != nil {
			return nil, 0, err
		}
		if !first {
			if n&1 == 1 {
				if gap, b, err = uvarint(b); err != nil {
					return nil, 0, err
				}
				gap++
			}
			if gap >= 1<<32 {
				return nil, 0, errors.New("bucket is out of range")
			}
			at += int64(gap) + 1
			n >>= 1
		}
		switch {
		case at > math.MaxInt32 || at <= math.MinInt32 || !f.valid(int32(at)):
			return nil, 0, fmt.Errorf("no value has bucket %d", at)
		case n == 0:
			return nil, 0, errors.New("count is zero")
		case n > math.MaxInt64-total:
			return nil, 0, errCounts
		}
		total += n
		list = append(list, tally{keyOf(int32(at)), n})
	}
	return list, total, nil
}

// groupTallies is what each group has counted.
type groupTallies struct {
	table slots[tally]
	used  []uint32 // of each group: slots with a key
	total []uint64
}

func (c *groupTallies) Len() int { return len(c.total) }

func (c *groupTallies) Grow(n int) {
	c.table.Grow(n)
	c.used, c.total = grow(c.used, n), grow(c.total, n)
}

func (c *groupTallies) Reset() {
	c.table.Reset()
	c.used, c.total = c.used[:0], c.total[:0]
}

func (c *groupTallies) Clear(g uint32) {
	c.table.drop(g)
	c.used[g], c.total[g] = 0, 0
}

// sum is how many values a group has counted.
func (c *groupTallies) sum(g uint32) uint64 { return c.total[g] }

// held is the memory in bytes.
func (c *groupTallies) held() int64 {
	return c.table.held(16) + int64(4*cap(c.used)+8*cap(c.total))
}

func (c *bucketColumn) Bytes() int64 {
	return c.held() + int64(16*(cap(c.list)+cap(c.foreign)))
}

func (c *bucketColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	for _, i := range in.Rows {
		if !arg.Null(int(i)) {
			g := in.Groups[i]
			c.at(g, keyOf(c.fn.of(arg, int(i)))).n++
			c.total[g]++
		}
	}
	return nil
}

// at returns the slot of a key in g, made if need be, valid until the next
// call.
func (c *bucketColumn) at(g, key uint32) *tally {
	table := c.table.get(g)
	if len(table) > 0 {
		if s := probe(table, key); s.key == key {
			return s
		}
	}
	if 4*(int(c.used[g])+1) > 3*len(table) {
		lg := max(leastSet-1, bits.Len(uint(len(table))))
		var old []tally
		old, table = c.table.replace(g, lg)
		c.used[g] = 0
		for _, t := range old {
			if t.n > 0 {
				*probe(table, t.key) = t
				c.used[g]++
			}
		}
	}
	s := probe(table, key)
	s.key = key
	c.used[g]++
	return s
}

// probe returns the slot that has the key, or the free one where it would be.
func probe(table []tally, key uint32) *tally {
	mask := uint64(len(table) - 1)
	i := home(uint64(key), uint8(bits.Len64(mask)))
	for table[i].key != 0 && table[i].key != key {
		i = (i + 1) & mask
	}
	return &table[i]
}

func (c *bucketColumn) Merge(g uint32, acc []byte) error {
	list, total, err := c.fn.parse(c.foreign[:0], acc)
	if err != nil {
		return err
	}
	c.foreign = list
	if total > math.MaxInt64-c.total[g] {
		return fmt.Errorf("%s accumulator: %w", c.fn.id, errCounts)
	}
	c.total[g] += total
	table := c.table.get(g)
	for _, t := range list {
		if len(table) > 0 {
			if s := probe(table, t.key); s.key == t.key {
				s.n += t.n
				continue
			}
		}
		c.at(g, t.key).n += t.n
		table = c.table.get(g)
	}
	return nil
}

func (c *bucketColumn) Unmerge(g uint32, acc []byte) error {
	list, total, err := c.fn.parse(c.foreign[:0], acc)
	if err != nil {
		return err
	}
	c.foreign = list
	for _, t := range list {
		if c.at(g, t.key).n < t.n {
			return fmt.Errorf("%s: what is taken out was never merged", c.fn.id)
		}
	}
	c.total[g] -= total
	for _, t := range list {
		c.at(g, t.key).n -= t.n
	}
	return nil
}

// ascending returns what g counts by bucket, valid until the next call.
func (c *bucketColumn) ascending(g uint32) []tally {
	c.list = c.list[:0]
	for _, t := range c.table.get(g) {
		if t.n > 0 {
			c.list = append(c.list, t)
		}
	}
	slices.SortFunc(c.list, func(a, b tally) int { return int(int64(a.key) - int64(b.key)) })
	return c.list
}

func (c *bucketColumn) AppendAcc(dst []byte, g uint32) []byte {
	return appendTallies(dst, c.ascending(g))
}

// appendTallies writes tallies, which are in order.
func appendTallies(dst []byte, list []tally) []byte {
	for i, t := range list {
		if i == 0 {
			at := t.bucket()
			dst = binary.AppendUvarint(dst, uint64(uint32(at<<1^at>>31)))
			dst = binary.AppendUvarint(dst, t.n)
			continue
		}
		gap := t.key - list[i-1].key - 1
		if gap == 0 {
			dst = binary.AppendUvarint(dst, t.n<<1)
			continue
		}
		dst = binary.AppendUvarint(dst, t.n<<1|1)
		dst = binary.AppendUvarint(dst, uint64(gap-1))
	}
	return dst
}
