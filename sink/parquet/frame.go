package parquet

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go/format"
)

// What becomes of the fractions of a chunk, which are compressed if that makes them squeezeGain times smaller.
const (
	undecided = iota
	squeezing
	storing

	squeezeGain = 4
)

// compress returns the page's bytes as a frame of zstd. Fractions compress badly, at a cost above that of all else: the first page of them
// in a chunk shows whether it is worth it, and if not they are stored from there on. Wide decimals compress well, and their frame is
// known beforehand.
func (p *pager) compress(l *leaf, body []byte, levels int, encoding format.Encoding) []byte {
	values := len(body) - levels
	fractions := encoding == format.Plain && (l.physical == format.Float || l.physical == format.Double)
	l.labour = 0
	switch {
	case fractions && l.chunk.squeeze == storing:
		p.packed = storedFrame(p.packed[:0], body)
		return p.packed
	case l.physical == format.FixedLenByteArray:
		if out, ok := wideFrame(p.packed[:0], body, levels); ok {
			p.packed = out
			return out
		}
	}
	p.squeeze(l, body, encoding)
	if fractions && values > 0 && l.chunk.squeeze == undecided {
		l.chunk.squeeze = squeezing
		if len(p.packed) > values/squeezeGain {
			l.chunk.squeeze = storing
		}
	}
	return p.packed
}

// squeeze compresses the page, or takes the bytes that it was compressed to before.
func (p *pager) squeeze(l *leaf, body []byte, encoding format.Encoding) {
	if !p.frames.keeps(l.path, len(l.chunk.index), body, encoding) {
		l.labour = len(body)
		p.packed = p.zstd.EncodeAll(body, p.packed[:0])
		return
	}
	k := p.frames.key(body)
	if packed, ok := p.frames.get(l.path, k); ok {
		p.packed = append(p.packed[:0], packed...)
		return
	}
	l.labour = len(body)
	p.packed = p.zstd.EncodeAll(body, p.packed[:0])
	p.frames.put(k, p.packed)
}

// The parts of a frame of zstd (RFC 8878) that are made here.
const (
	zstdMagic   = 0xFD2FB528
	zstdSegment = 0xA0 // one segment, its size in four bytes
	zstdBlock   = 128 << 10

	zstdRaw, zstdCompressed = 0, 2
)

func appendFrame(dst []byte, size int) []byte {
	dst = append(binary.LittleEndian.AppendUint32(dst, zstdMagic), zstdSegment)
	return binary.LittleEndian.AppendUint32(dst, uint32(size))
}

func appendBlock(dst []byte, kind, size int, last bool) []byte {
	head := uint32(size)<<3 | uint32(kind)<<1
	if last {
		head |= 1
	}
	return append(dst, byte(head), byte(head>>8), byte(head>>16))
}

// storedFrame appends a frame that holds src as it is.
func storedFrame(dst, src []byte) []byte {
	dst = appendFrame(slices.Grow(dst, len(src)+3*(len(src)/zstdBlock+1)+9), len(src))
	for {
		n := min(len(src), zstdBlock)
		dst = append(appendBlock(dst, zstdRaw, n, n == len(src)), src[:n]...)
		if src = src[n:]; len(src) == 0 {
			return dst
		}
	}
}

// How many wide decimals a block has, and of how many equal bytes at their beginning it makes use: a match of zstd has three at least,
// and some byte must be left between two of them.
const (
	wideBlock = zstdBlock / wide
	wideLeast = 4
	wideMost  = wide - 1
)

// wideFrame appends a frame of the values of sixteen bytes that follow the levels in body, if the first bytes of all of them are the same,
// as they are of amounts with one sign. It is a compressor that knows its matches: each value is the bytes it shares with the one before,
// then the others as they are. As every match has one length and one distance, none takes any room.
func wideFrame(dst, body []byte, levels int) ([]byte, bool) {
	values := body[levels:]
	n := len(values) / wide
	same := sharedByAll(values)
	if n < 2 || same < wideLeast || levels+same > zstdBlock {
		return dst, false
	}
	dst = appendFrame(slices.Grow(dst, len(body)/2), len(body))
	dst = append(appendBlock(dst, zstdRaw, levels+same, false), body[:levels+same]...)
	// What is left is the rest of the first value, the shared bytes and the rest of the second, and so on. The first match says its
	// distance, the others that it is the same.
	dst = appendMatches(dst, values, same, 1, true, n == 2)
	for at := 1; at < n-1; {
		m := min(n-1-at, wideBlock-1)
		dst = appendMatches(dst, values[at*wide:], same, m, false, at+m == n-1)
		at += m
	}
	return dst, true
}

// sharedByAll is how many bytes all values begin with, at most wideMost.
func sharedByAll(values []byte) int {
	if len(values) < wide {
		return 0
	}
	upper, lower := binary.BigEndian.Uint64(values), binary.BigEndian.Uint64(values[8:])
	var u, w uint64 // bits that differ somewhere
	for at := wide; at+wide <= len(values); at += wide {
		u |= binary.BigEndian.Uint64(values[at:]) ^ upper
		w |= binary.BigEndian.Uint64(values[at+8:]) ^ lower
	}
	if u != 0 {
		return bits.LeadingZeros64(u) / 8
	}
	return min(8+bits.LeadingZeros64(w)/8, wideMost)
}

// appendMatches appends a block of n matches: before each are the bytes of a value that are its own, and it has those of the next value
// that are shared. After the last match of the frame come the bytes of one more value.
func appendMatches(dst, values []byte, same, n int, first, last bool) []byte {
	const (
		literals  = 3 << 2 // as they are, their number in 20 bits
		repeats   = 0x54   // each of the three parts of a match is the same in all
		lengthOf3 = 0      // the code of the shortest match
		distance4 = 4      // the code of distances from 13 to 28, which 4 bits tell apart
		distance0 = 0      // the code of the distance before, in no bits
		end       = 1      // the bit behind the last
	)
	own := wide - same
	values16 := n
	if last {
		values16++
	}
	head := len(dst)
	dst = appendBlock(dst, zstdCompressed, 0, last)
	size := values16*own<<4 | literals
	dst = append(dst, byte(size), byte(size>>8), byte(size>>16))
	for i := range values16 {
		dst = append(dst, values[i*wide+same:(i+1)*wide]...)
	}
	if n < 128 {
		dst = append(dst, byte(n))
	} else {
		dst = append(dst, byte(n>>8+128), byte(n))
	}
	if first {
		dst = append(dst, repeats, byte(own), distance4, byte(lengthOf3+same-3), end<<4|(wide+3-16))
	} else {
		dst = append(dst, repeats, byte(own), distance0, byte(lengthOf3+same-3), end)
	}
	block := appendBlock(nil, zstdCompressed, len(dst)-head-3, last)
	copy(dst[head:], block)
	return dst
}
