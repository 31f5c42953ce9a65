package combine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/deltad/deltad/microbatch/column"
)

// DefaultNominal is the number of hashes that theta keeps unless it says
// otherwise.
const DefaultNominal = 4096

// thetaFn keeps the least nominal hashes of the distinct non-null values, and
// theta, the least hash that it does not keep: a bottom-k sample. From it the
// number of values is estimated, and readers can intersect and subtract. The
// sketches of DataSketches keep some more until they are trimmed, by an order
// of arrival; here exactly nominal stay at every step, so the state is a
// function of the set of values and the fn a semilattice.
//
// Its accumulator is the ordered compact image of DataSketches, serial version
// 3: eight bytes of preamble (its length in words, 3, family 3, 0, 0, flags, the
// hash of the seed), the number of hashes and four zeros unless it is one and
// theta is not in use, theta if in use, and the hashes in ascending order, all
// little-endian. theta is in use exactly if there are nominal hashes and more
// have been seen.
type thetaFn struct {
	base
	nominal int
	sketch  bool
}

const (
	thetaVersion  = 3
	thetaFamily   = 3
	thetaFlags    = 2 | 8 | 16 // read only, compact, ordered
	thetaSeedHash = 0x93cc     // the lower half of MurmurHash3 of 9001 with seed 0
	thetaNone     = math.MaxInt64
)

func buildTheta(p Params, args []column.Type) (Fn, error) {
	nominal, err := intOption(p, "nominal", DefaultNominal, 16, 1<<20)
	if err != nil {
		return nil, err
	}
	if nominal&(nominal-1) != 0 {
		return nil, fmt.Errorf("option nominal: want a power of two, got %d", nominal)
	}
	sketch, out, err := sketchOutput(p)
	if err != nil {
		return nil, err
	}
	b := base{
		id:    typeID("theta", repr(args[0]), "nominal="+strconv.FormatInt(nominal, 10), hashName),
		class: Semilattice, args: args, out: out,
	}
	return &thetaFn{base: b, nominal: int(nominal), sketch: sketch}, nil
}

func (f *thetaFn) NewColumn() Column { return &thetaColumn{fn: f} }

func (f *thetaFn) Validate(acc []byte) error {
	_, _, err := f.parse(acc)
	return err
}

// parse returns theta and the bytes of the hashes.
func (f *thetaFn) parse(acc []byte) (theta uint64, hashes []byte, err error) {
	if len(acc) == 0 {
		return thetaNone, nil, nil
	}
	if theta, hashes, err = f.parseImage(acc); err != nil {
		return 0, nil, fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return theta, hashes, nil
}

func (f *thetaFn) parseImage(acc []byte) (theta uint64, hashes []byte, err error) {
	if len(acc) < 16 || len(acc)%8 != 0 {
		return 0, nil, errors.New("image is cut short")
	}
	words := int(acc[0])
	head := thetaHead(words)
	if words < 1 || words > 3 || 8*words >= len(acc) || string(acc[:8]) != string(head[:]) {
		return 0, nil, errors.New("preamble is not that of an ordered compact sketch")
	}
	theta, hashes = thetaNone, acc[8*words:]
	n := len(hashes) / 8
	switch {
	case words > 1 && binary.LittleEndian.Uint64(acc[8:]) != uint64(n):
		return 0, nil, fmt.Errorf("it does not have %d hashes", n)
	case words == 3:
		theta = binary.LittleEndian.Uint64(acc[16:])
	}
	if (words == 1) != (n == 1) || n > f.nominal || words == 3 && n != f.nominal || theta > thetaNone || words == 3 && theta == thetaNone {
		return 0, nil, fmt.Errorf("%d hashes and %d words of preamble do not agree", n, words)
	}
	last := uint64(0)
	for b := hashes; len(b) > 0; b = b[8:] {
		h := binary.LittleEndian.Uint64(b)
		if h <= last || h >= theta {
			return 0, nil, errors.New("hashes are not in strictly ascending order below theta")
		}
		last = h
	}
	return theta, hashes, nil
}

func thetaHead(words int) [8]byte {
	return [8]byte{byte(words), thetaVersion, thetaFamily, 0, 0, thetaFlags, thetaSeedHash & 0xff, thetaSeedHash >> 8}
}

// thetaColumn holds hashes in tables. A table may hold more than nominal
// hashes, and hashes that theta has passed since; settle takes them out.
type thetaColumn struct {
	fn    *thetaFn
	kept  sets[uint64]
	theta []uint64 // less one, so that a new group has none: see limit
	hash  hasher
	list  []uint64
}

func (c *thetaColumn) Len() int   { return len(c.theta) }
func (c *thetaColumn) Grow(n int) { c.kept.Grow(n); c.theta = grow(c.theta, n) }
func (c *thetaColumn) Reset()     { c.kept.Reset(); c.theta = c.theta[:0] }

func (c *thetaColumn) Bytes() int64 {
	return c.kept.held(8) + int64(4*cap(c.kept.n)+8*(cap(c.theta)+cap(c.list))+cap(c.hash.buf))
}

// limit is g's theta. It is stored as its distance from none.
func (c *thetaColumn) limit(g uint32) uint64 { return thetaNone - c.theta[g] }

func (c *thetaColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	for _, i := range in.Rows {
		if arg.Null(int(i)) {
			continue
		}
		h, _ := c.hash.murmur(arg, int(i))
		c.put(in.Groups[i], h>>1)
	}
	return nil
}

func (c *thetaColumn) put(g uint32, h uint64) {
	if h == 0 || h >= c.limit(g) { // DataSketches leaves out 0 too
		return
	}
	// Three quarters of a table of twice nominal.
	if c.kept.put(g, h) && 2*int(c.kept.n[g]) > 3*c.fn.nominal-2 {
		c.settle(g)
	}
}

// settle brings g to its canonical state and returns its hashes in order, valid
// until the next call.
func (c *thetaColumn) settle(g uint32) []uint64 {
	c.list = c.list[:0]
	limit := c.limit(g)
	for _, h := range c.kept.get(g) {
		if h != 0 && h < limit {
			c.list = append(c.list, h)
		}
	}
	slices.Sort(c.list)
	if len(c.list) > c.fn.nominal {
		c.theta[g] = thetaNone - c.list[c.fn.nominal]
		c.list = c.list[:c.fn.nominal]
	}
	if table := c.kept.get(g); len(c.list) < int(c.kept.n[g]) {
		clear(table)
		for _, h := range c.list {
			insert(table, h)
		}
		c.kept.n[g] = uint32(len(c.list))
	}
	return c.list
}

func (c *thetaColumn) Merge(g uint32, acc []byte) error {
	theta, hashes, err := c.fn.parse(acc)
	if err != nil {
		return err
	}
	if theta < c.limit(g) {
		c.theta[g] = thetaNone - theta
	}
	for limit := c.limit(g); len(hashes) > 0; hashes = hashes[8:] {
		h := binary.LittleEndian.Uint64(hashes)
		if h >= limit {
			break // so are all that follow
		}
		c.put(g, h)
	}
	return nil
}

func (c *thetaColumn) AppendAcc(dst []byte, g uint32) []byte {
	list := c.settle(g)
	words := 2
	switch {
	case len(list) == 0:
		return dst
	case c.theta[g] > 0:
		words = 3
	case len(list) == 1:
		words = 1
	}
	head := thetaHead(words)
	dst = slices.Grow(dst, 8*(words+len(list)))
	dst = append(dst, head[:]...)
	if words > 1 {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(list)))
	}
	if words > 2 {
		dst = binary.LittleEndian.AppendUint64(dst, c.limit(g))
	}
	for _, h := range list {
		dst = binary.LittleEndian.AppendUint64(dst, h)
	}
	return dst
}

func (c *thetaColumn) Extract(g uint32, dst *column.Vector) error {
	n := uint64(len(c.settle(g)))
	switch {
	case n == 0:
		dst.AppendNull()
	case c.fn.sketch:
		dst.AppendString(string(c.AppendAcc(nil, g)))
	case c.theta[g] == 0:
		dst.AppendInt(int64(n))
	default:
		// n · 2^63 / theta, to the nearest. theta exceeds n: it exceeds as many
		// hashes that are not 0.
		limit := c.limit(g)
		estimate, rest := bits.Div64(n>>1, n<<63, limit)
		if rest >= limit-rest {
			estimate++
		}
		if estimate > math.MaxInt64 {
			return errors.New("estimate exceeds int64: no set of values has this sketch")
		}
		dst.AppendInt(int64(estimate))
	}
	return nil
}
