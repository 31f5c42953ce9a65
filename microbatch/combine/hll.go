package combine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"github.com/deltad/deltad/microbatch/column"
)

// DefaultPrecision is the precision of distinct unless it says otherwise.
const DefaultPrecision = 12

// distinctFn estimates the number of distinct non-null values by HyperLogLog
// as Apache DataSketches has it. A value's MurmurHash3 gives a coupon: a
// 26-bit address and a rank, which is one more than the zeros that lead the
// second word of the hash. As long as there are few distinct coupons they are
// the state, and the estimate is their number; more than limit are folded into
// 2^precision registers, each the greatest rank of its addresses. The number
// of distinct coupons only grows, so the state is a function of the set of
// values and the fn a semilattice. Nothing here is in order of arrival: the HIP
// estimator of DataSketches is not used.
//
// Its accumulator is one byte of form and what the form says. formCoupons: the
// coupons as appendPair writes them, ascending by address and rank. The shorter
// of the other two, and the former where they are equal: formSparse, the
// registers that are not 0 as pairs ascending by number; formDense, the least
// register, a nibble for each register's excess over it, the even one low, and
// for each nibble of 15, in order, a byte with what is left.
type distinctFn struct {
	base
	precision uint8
	limit     int // coupons
	sketch    bool
}

const (
	formCoupons = 1
	formSparse  = 2
	formDense   = 3

	addressBits = 26
	maxRank     = 63
)

func buildHLL(p Params, args []column.Type) (Fn, error) {
	precision, err := intOption(p, "precision", DefaultPrecision, 4, 18)
	if err != nil {
		return nil, err
	}
	sketch, out, err := sketchOutput(p)
	if err != nil {
		return nil, err
	}
	// These are the numbers at which DataSketches changes its form too.
	limit := 7
	if precision >= 8 {
		limit = 3 << (precision - 5)
	}
	b := base{
		id:    typeID("distinct", repr(args[0]), "precision="+strconv.FormatInt(precision, 10), hashName),
		class: Semilattice, args: args, out: out,
	}
	return &distinctFn{base: b, precision: uint8(precision), limit: limit, sketch: sketch}, nil
}

const hashName = "hash=murmur3/9001"

// sketchOutput reads the option that chooses between an estimate and the bytes
// of a sketch.
func sketchOutput(p Params) (sketch bool, out column.Type, err error) {
	switch v := p.Options["output"]; v {
	case nil, "estimate":
		return false, column.Of(column.Int64), nil
	case "sketch":
		return true, column.Of(column.Bytes), nil
	default:
		return false, out, fmt.Errorf("option output: want estimate or sketch, got %v", v)
	}
}

func (f *distinctFn) NewColumn() Column {
	return &distinctColumn{fn: f, scratch: make([]byte, 1<<f.precision)}
}

func (f *distinctFn) Validate(acc []byte) error {
	_, err := f.parse(acc, nil, nil)
	return err
}

// distinctColumn holds coupons in tables and registers, a byte each, in slabs.
type distinctColumn struct {
	fn      *distinctFn
	coupons sets[uint32]
	slab    []uint32 // of each group: its slab plus one, 0 while it has coupons
	slabs   [][]byte
	used    int
	spare   []uint32 // slabs that a Clear gave back
	hash    hasher
	scratch []byte
	list    []uint32
}

func (c *distinctColumn) Len() int   { return len(c.slab) }
func (c *distinctColumn) Grow(n int) { c.coupons.Grow(n); c.slab = grow(c.slab, n) }

func (c *distinctColumn) Reset() {
	c.coupons.Reset()
	c.slab, c.used, c.spare = c.slab[:0], 0, c.spare[:0]
}

func (c *distinctColumn) Bytes() int64 {
	return c.coupons.held(4) + int64(4*(cap(c.coupons.n)+cap(c.slab)+cap(c.list)+cap(c.spare))+24*cap(c.slabs)+(len(c.slabs)+1)<<c.fn.precision+cap(c.hash.buf))
}

// registers returns g's registers, nil while it has coupons.
func (c *distinctColumn) registers(g uint32) []byte {
	if c.slab[g] == 0 {
		return nil
	}
	return c.slabs[c.slab[g]-1]
}

func (c *distinctColumn) Add(in *Input) error {
	if err := c.fn.checkArgs(in); err != nil {
		return err
	}
	arg := in.Args[0]
	for _, i := range in.Rows {
		if arg.Null(int(i)) {
			continue
		}
		h1, h2 := c.hash.murmur(arg, int(i))
		rank := uint32(min(bits.LeadingZeros64(h2)+1, maxRank))
		c.put(in.Groups[i], uint32(h1)&(1<<addressBits-1)<<6|rank)
	}
	return nil
}

// put adds a coupon: the address times 64, plus the rank.
func (c *distinctColumn) put(g, coupon uint32) {
	if r := c.registers(g); r != nil {
		raise(r, coupon)
		return
	}
	if c.coupons.put(g, coupon) && int(c.coupons.n[g]) > c.fn.limit {
		c.fold(g)
	}
}

// raise applies a coupon to registers, whose number is a power of two.
func raise(registers []byte, coupon uint32) {
	r := &registers[coupon>>6&uint32(len(registers)-1)]
	*r = max(*r, byte(coupon&63))
}

// fold turns g's coupons into registers.
func (c *distinctColumn) fold(g uint32) []byte {
	if n := len(c.spare); n > 0 {
		c.slab[g], c.spare = c.spare[n-1]+1, c.spare[:n-1]
	} else {
		if c.used == len(c.slabs) {
			c.slabs = append(c.slabs, make([]byte, 1<<c.fn.precision))
		}
		c.used++
		c.slab[g] = uint32(c.used)
	}
	r := c.slabs[c.slab[g]-1]
	clear(r)
	for _, x := range c.coupons.get(g) {
		if x != 0 {
			raise(r, x)
		}
	}
	c.coupons.empty(g)
	return r
}

// read reads an accumulator: coupons into list, registers into scratch.
func (c *distinctColumn) read(acc []byte) (form byte, err error) {
	c.list = c.list[:0]
	if len(acc) > 0 && acc[0] != formCoupons {
		clear(c.scratch)
	}
	return c.fn.parse(acc, c.scratch, &c.list)
}

func (c *distinctColumn) Merge(g uint32, acc []byte) error {
	form, err := c.read(acc)
	if err != nil || form == 0 {
		return err
	}
	if form == formCoupons {
		for _, x := range c.list {
			c.put(g, x)
		}
		return nil
	}
	r := c.registers(g)
	if r == nil {
		r = c.fold(g)
	}
	raiseAll(r, c.scratch)
	return nil
}

// raiseAll takes the greater of each two registers, eight at a time: they are
// below 128, so the top bit of each byte is free to tell which is greater.
func raiseAll(registers, others []byte) {
	const top = 0x8080808080808080
	for len(registers) >= 8 && len(others) >= 8 {
		a, b := binary.LittleEndian.Uint64(registers), binary.LittleEndian.Uint64(others)
		keep := (a | top) - b&^top // its top bits: a is not less
		keep = (keep & top >> 7) * 255
		binary.LittleEndian.PutUint64(registers, a&keep|b&^keep)
		registers, others = registers[8:], others[8:]
	}
}

// ascending returns g's coupons in order, valid until the next call.
func (c *distinctColumn) ascending(g uint32) []uint32 {
	c.list = c.coupons.list(c.list[:0], g)
	slices.Sort(c.list)
	return c.list
}

func (c *distinctColumn) AppendAcc(dst []byte, g uint32) []byte {
	if r := c.registers(g); r != nil {
		return appendRegisters(dst, r)
	}
	return appendCoupons(dst, c.ascending(g))
}

// appendCoupons writes coupons, which are in order.
func appendCoupons(dst []byte, list []uint32) []byte {
	if len(list) == 0 {
		return dst
	}
	dst = append(dst, formCoupons)
	last := uint32(0)
	for _, x := range list {
		dst = appendPair(dst, x>>6-last, byte(x&63))
		last = x >> 6
	}
	return dst
}

func (c *distinctColumn) Extract(g uint32, dst *column.Vector) error {
	r, n := c.registers(g), int(c.coupons.n[g])
	if r == nil && c.fn.sketch {
		return c.fn.extract(nil, c.ascending(g), n, dst)
	}
	return c.fn.extract(r, nil, n, dst)
}

// extract appends the value of a group that has registers, or else so many
// coupons; in order, where it is a sketch.
func (f *distinctFn) extract(registers []byte, coupons []uint32, n int, dst *column.Vector) error {
	switch {
	case registers == nil && n == 0:
		dst.AppendNull()
	case f.sketch && registers != nil:
		dst.AppendString(string(hllImage(registers)))
	case f.sketch:
		dst.AppendString(string(couponImage(coupons, f.precision)))
	case registers != nil:
		n, err := hllEstimate(registers)
		if err != nil {
			return err
		}
		dst.AppendInt(n)
	default:
		dst.AppendInt(int64(n))
	}
	return nil
}

// parse reads an accumulator: coupons into list, registers into registers,
// which are zero and may be nil, as may list. The form is 0 for no bytes.
func (f *distinctFn) parse(acc, registers []byte, list *[]uint32) (form byte, err error) {
	if len(acc) == 0 {
		return 0, nil
	}
	if acc[0] == formCoupons {
		if err = f.parseCoupons(acc[1:], list); err != nil {
			return 0, fmt.Errorf("%s accumulator: %w", f.id, err)
		}
		return formCoupons, nil
	}
	if registers == nil {
		registers = make([]byte, 1<<f.precision)
	}
	switch form = acc[0]; form {
	case formSparse:
		err = parseSparse(acc[1:], registers)
	case formDense:
		err = parseDense(acc[1:], registers)
	default:
		err = fmt.Errorf("there is no form %d", form)
	}
	// A pair takes a byte at least, so where few registers are 0 the dense form
	// is the shorter one in any case.
	if full := len(registers) - bytes.Count(registers, []byte{0}); err == nil && (form == formSparse || full < len(acc)) {
		if sparse, dense := registerSizes(registers); sparse <= dense != (form == formSparse) {
			err = fmt.Errorf("form %d is not the shorter one", form)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("%s accumulator: %w", f.id, err)
	}
	return form, nil
}

func (f *distinctFn) parseCoupons(b []byte, list *[]uint32) error {
	n, last := 0, uint32(0)
	for ; len(b) > 0; n++ {
		gap, rank, rest, err := parsePair(b)
		if err != nil {
			return err
		}
		if gap >= 1<<addressBits {
			return fmt.Errorf("address is out of range")
		}
		x := (last>>6+uint32(gap))<<6 | uint32(rank)
		if x>>6 >= 1<<addressBits || x <= last {
			return fmt.Errorf("coupons are out of range or of order")
		}
		if list != nil {
			*list = append(*list, x)
		}
		last, b = x, rest
	}
	if n == 0 || n > f.limit {
		return fmt.Errorf("%d coupons, want 1 to %d", n, f.limit)
	}
	return nil
}

// appendPair writes a gap and a rank of at least 1: a uvarint of four times
// the gap plus the rank less one, three standing for three or more, then a byte
// with what is left of it.
func appendPair(dst []byte, gap uint32, rank byte) []byte {
	low := min(rank-1, 3)
	dst = binary.AppendUvarint(dst, uint64(gap)<<2|uint64(low))
	if low == 3 {
		dst = append(dst, rank-4)
	}
	return dst
}

// pairSize is the length of what appendPair writes.
func pairSize(gap uint32, rank byte) int {
	n := (bits.Len32(gap<<2|1) + 6) / 7
	if rank > 3 {
		n++
	}
	return n
}

func parsePair(b []byte) (gap uint64, rank byte, rest []byte, err error) {
	x, rest, err := uvarint(b)
	if err != nil {
		return 0, 0, nil, err
	}
	rank = byte(x&3) + 1
	if rank == 4 {
		if len(rest) == 0 || rest[0] > maxRank-4 {
			return 0, 0, nil, fmt.Errorf("rank is cut short or out of range")
		}
		rank += rest[0]
		rest = rest[1:]
	}
	return x >> 2, rank, rest, nil
}

// registerSizes are the lengths of both forms of registers.
func registerSizes(registers []byte) (sparse, dense int) {
	least := slices.Min(registers)
	sparse, dense = 1, 2+len(registers)/2
	next := 0 // the number after the last register that is not 0
	for i, r := range registers {
		if r > 0 {
			sparse += pairSize(uint32(i-next), r)
			next = i + 1
		}
		if r-least >= 15 {
			dense++
		}
	}
	return sparse, dense
}

func appendRegisters(dst, registers []byte) []byte {
	sparse, dense := registerSizes(registers)
	if sparse <= dense {
		dst = append(dst, formSparse)
		next := 0
		for i, r := range registers {
			if r > 0 {
				dst = appendPair(dst, uint32(i-next), r)
				next = i + 1
			}
		}
		return dst
	}
	least := slices.Min(registers)
	dst = append(dst, formDense, least)
	for i := 0; i < len(registers); i += 2 {
		dst = append(dst, min(registers[i]-least, 15)|min(registers[i+1]-least, 15)<<4)
	}
	for _, r := range registers {
		if r-least >= 15 {
			dst = append(dst, r-least-15)
		}
	}
	return dst
}

func parseSparse(b, registers []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("no register is set")
	}
	next := uint64(0)
	for len(b) > 0 {
		gap, rank, rest, err := parsePair(b)
		if err != nil {
			return err
		}
		if next >= uint64(len(registers)) || gap >= uint64(len(registers))-next {
			return fmt.Errorf("register is out of range")
		}
		registers[next+gap] = rank
		next, b = next+gap+1, rest
	}
	return nil
}

func parseDense(b, registers []byte) error {
	half := len(registers) / 2
	if len(b) < 1+half || b[0] > maxRank {
		return fmt.Errorf("registers are cut short or out of range")
	}
	least, nibbles, excess := b[0], b[1:1+half], b[1+half:]
	for i, pair := range nibbles {
		registers[2*i], registers[2*i+1] = least+pair&15, least+pair>>4
	}
	if bytes.Count(registers, []byte{least + 15}) != len(excess) {
		return fmt.Errorf("there are not %d registers in excess", len(excess))
	}
	most := least + 14
	for at := 0; len(excess) > 0; excess = excess[1:] {
		at += bytes.IndexByte(registers[at:], least+15)
		if excess[0] > maxRank {
			return fmt.Errorf("excess is out of range")
		}
		registers[at] += excess[0]
		most = max(most, registers[at])
		at++
	}
	switch {
	case most > maxRank && slices.Max(registers) > maxRank:
		return fmt.Errorf("a register is out of range")
	case bytes.IndexByte(registers, least) < 0:
		return fmt.Errorf("the least register is not %d", least)
	}
	return nil
}
