package combine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// The portable format of Roaring bitmaps (RoaringFormatSpec), in one form for a
// set: every container of 2^16 numbers is a list of runs where that is shorter,
// else an array of up to 4096 numbers, else bits. The 64-bit form is the number
// of 32-bit bitmaps, then each after its upper half.
const (
	roaringArrays    = 12346 // cookie without runs
	roaringRuns      = 12347 // cookie with runs
	roaringNoOffsets = 4     // with runs and fewer containers there are no offsets
	roaringArrayMost = 4096
	roaringWords     = 1 << 16 / 64
)

// container is the members of a set that share all but their lowest 16 bits:
// words, or else numbers in ascending order, as many as an array takes.
type container struct {
	key     uint64
	numbers []uint64
	words   *[roaringWords]uint64
}

// measure returns the number of members and of runs of consecutive ones.
func (c container) measure() (members, runs int) {
	if c.words == nil {
		for i, x := range c.numbers {
			if i == 0 || x != c.numbers[i-1]+1 {
				runs++
			}
		}
		return len(c.numbers), runs
	}
	return measureWords(c.words)
}

func measureWords(words *[roaringWords]uint64) (members, runs int) {
	last := uint64(0)
	for _, w := range words {
		members += bits.OnesCount64(w)
		runs += bits.OnesCount64(w &^ (w<<1 | last))
		last = w >> 63
	}
	return members, runs
}

// runsAreShorter says whether a container is written as runs.
func runsAreShorter(members, runs int) bool { return 2+4*runs < min(2*members, 8*roaringWords) }

// each calls f for each member's lowest 16 bits, ascending.
func (c container) each(f func(low uint16)) {
	if c.words == nil {
		for _, x := range c.numbers {
			f(uint16(x))
		}
		return
	}
	for i, w := range c.words {
		for ; w != 0; w &= w - 1 {
			f(uint16(64*i + bits.TrailingZeros64(w)))
		}
	}
}

// appendRoaring64 writes containers in ascending order of key; none are no
// bytes.
func appendRoaring64(dst []byte, list []container) []byte {
	if len(list) == 0 {
		return dst
	}
	at, n := len(dst), uint64(0)
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	for ; len(list) > 0; n++ {
		high := list[0].key >> 16
		end := slices.IndexFunc(list, func(c container) bool { return c.key>>16 != high })
		if end < 0 {
			end = len(list)
		}
		dst = binary.LittleEndian.AppendUint32(dst, uint32(high))
		dst = appendRoaring32(dst, list[:end])
		list = list[end:]
	}
	binary.LittleEndian.PutUint64(dst[at:], n)
	return dst
}

// appendRoaring32 writes one 32-bit bitmap.
func appendRoaring32(dst []byte, list []container) []byte {
	start := len(dst)
	flags := make([]byte, (len(list)+7)/8)
	heads := make([]byte, 0, 4*len(list))
	sizes := make([]int, len(list))
	anyRuns := false
	for i, c := range list {
		members, runs := c.measure()
		heads = binary.LittleEndian.AppendUint16(heads, uint16(c.key))
		heads = binary.LittleEndian.AppendUint16(heads, uint16(members-1))
		sizes[i] = min(2*members, 8*roaringWords)
		if runsAreShorter(members, runs) {
			flags[i/8] |= 1 << (i % 8)
			anyRuns, sizes[i] = true, 2+4*runs
		}
	}
	if anyRuns {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(list)-1)<<16|roaringRuns)
		dst = append(dst, flags...)
	} else {
		dst = binary.LittleEndian.AppendUint32(dst, roaringArrays)
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(list)))
	}
	dst = append(dst, heads...)
	if !anyRuns || len(list) >= roaringNoOffsets {
		offset := len(dst) - start + 4*len(list)
		for _, size := range sizes {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(offset))
			offset += size
		}
	}
	for i, c := range list {
		dst = c.append(dst, flags[i/8]>>(i%8)&1 == 1)
	}
	return dst
}

func (c container) append(dst []byte, asRuns bool) []byte {
	if asRuns {
		return c.appendRuns(dst)
	}
	if members, _ := c.measure(); members <= roaringArrayMost {
		c.each(func(low uint16) { dst = binary.LittleEndian.AppendUint16(dst, low) })
		return dst
	}
	for _, w := range c.words {
		dst = binary.LittleEndian.AppendUint64(dst, w)
	}
	return dst
}

func (c container) appendRuns(dst []byte) []byte {
	at, runs := len(dst), 0
	dst = append(dst, 0, 0)
	from, to := -1, -2
	end := func() {
		if from >= 0 {
			dst = binary.LittleEndian.AppendUint16(dst, uint16(from))
			dst = binary.LittleEndian.AppendUint16(dst, uint16(to-from))
			runs++
		}
	}
	c.each(func(low uint16) {
		if int(low) != to+1 {
			end()
			from = int(low)
		}
		to = int(low)
	})
	end()
	binary.LittleEndian.PutUint16(dst[at:], uint16(runs))
	return dst
}

// packed is a container as it was written: form says how body is to be read.
type packed struct {
	key  uint64
	form byte // packedArray, packedWords, packedRuns
	body []byte
}

const (
	packedArray = iota
	packedWords
	packedRuns
)

// parseRoaring64 appends the containers of what appendRoaring64 wrote to list,
// and refuses every other form.
func parseRoaring64(b []byte, list []packed) ([]packed, error) {
	if len(b) < 8 {
		return nil, errors.New("bitmap is cut short")
	}
	n := binary.LittleEndian.Uint64(b)
	b = b[8:]
	if n == 0 || n > uint64(len(b)) {
		return nil, errors.New("number of bitmaps is out of range")
	}
	last := int64(-1)
	for range n {
		if len(b) < 4 {
			return nil, errors.New("bitmap is cut short")
		}
		high := binary.LittleEndian.Uint32(b)
		if int64(high) <= last {
			return nil, errors.New("bitmaps are not in strictly ascending order")
		}
		last = int64(high)
		var err error
		if list, b, err = parseRoaring32(b[4:], uint64(high)<<16, list); err != nil {
			return nil, err
		}
	}
	if len(b) > 0 {
		return nil, errLeft
	}
	return list, nil
}

// parseRoaring32 reads one 32-bit bitmap whose keys are based on base.
func parseRoaring32(b []byte, base uint64, list []packed) (_ []packed, rest []byte, err error) {
	whole := len(b)
	if len(b) < 8 {
		return nil, nil, errors.New("bitmap is cut short")
	}
	cookie := binary.LittleEndian.Uint32(b)
	var flags []byte
	var n int
	switch {
	case cookie == roaringArrays:
		if size := binary.LittleEndian.Uint32(b[4:]); size >= 1 && size <= 1<<16 {
			n = int(size)
		}
		b = b[8:]
	case cookie&0xffff == roaringRuns:
		n = int(cookie>>16) + 1
		if len(b) < 4+(n+7)/8 {
			return nil, nil, errors.New("bitmap is cut short")
		}
		flags, b = b[4:4+(n+7)/8], b[4+(n+7)/8:]
		if flags[len(flags)-1]>>((n-1)%8+1) != 0 || !slices.ContainsFunc(flags, func(f byte) bool { return f != 0 }) {
			return nil, nil, errors.New("flags of runs are none or too many")
		}
	}
	offsets := flags == nil || n >= roaringNoOffsets
	heads, size := b, 4*n
	if offsets {
		size = 8 * n
	}
	if n == 0 || len(b) < size {
		return nil, nil, errors.New("bitmap has no known head or is cut short")
	}
	b = b[size:]
	for i := range n {
		key, members := binary.LittleEndian.Uint16(heads[4*i:]), int(binary.LittleEndian.Uint16(heads[4*i+2:]))+1
		if i > 0 && key <= binary.LittleEndian.Uint16(heads[4*i-4:]) {
			return nil, nil, errors.New("containers are not in strictly ascending order")
		}
		if offsets && binary.LittleEndian.Uint32(heads[4*n+4*i:]) != uint32(whole-len(b)) {
			return nil, nil, fmt.Errorf("container %d is not at its offset", i)
		}
		p := packed{key: base | uint64(key)}
		if b, err = p.parse(b, members, flags != nil && flags[i/8]>>(i%8)&1 == 1); err != nil {
			return nil, nil, fmt.Errorf("container %d: %w", i, err)
		}
		list = append(list, p)
	}
	return list, b, nil
}

var errContainer = errors.New("members are cut short, out of order or not in the shortest form")

// parse takes the body from the front of b.
func (p *packed) parse(b []byte, members int, asRuns bool) (rest []byte, err error) {
	var size, count, runs int
	switch {
	case asRuns:
		if len(b) < 2 {
			return nil, errContainer
		}
		p.form, size = packedRuns, 2+4*int(binary.LittleEndian.Uint16(b))
	case members <= roaringArrayMost:
		p.form, size = packedArray, 2*members
	default:
		p.form, size = packedWords, 8*roaringWords
	}
	if len(b) < size {
		return nil, errContainer
	}
	p.body, rest = b[:size], b[size:]
	last := -2 // the last member
	switch p.form {
	case packedRuns:
		for r := p.body[2:]; len(r) > 0; r = r[4:] {
			from, more := int(binary.LittleEndian.Uint16(r)), int(binary.LittleEndian.Uint16(r[2:]))
			if from <= last+1 || from+more >= 1<<16 {
				return nil, errContainer
			}
			last, count, runs = from+more, count+more+1, runs+1
		}
	case packedArray:
		for r := p.body; len(r) > 0; r = r[2:] {
			x := int(binary.LittleEndian.Uint16(r))
			if x <= last {
				return nil, errContainer
			}
			if x != last+1 {
				runs++
			}
			last, count = x, count+1
		}
	default:
		before := uint64(0)
		for r := p.body; len(r) > 0; r = r[8:] {
			w := binary.LittleEndian.Uint64(r)
			count += bits.OnesCount64(w)
			runs += bits.OnesCount64(w &^ (w<<1 | before))
			before = w >> 63
		}
	}
	if count != members || runsAreShorter(members, runs) != asRuns {
		return nil, errContainer
	}
	return rest, nil
}
