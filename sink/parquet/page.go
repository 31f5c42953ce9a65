package parquet

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// pager makes pages out of the values of leaves. It is the room and the tools that this takes, for one goroutine, and nothing that it
// keeps from one page to the next shows in the bytes.
type pager struct {
	zstd    *zstd.Encoder
	body    []byte  // levels and values
	packed  []byte  // body, compressed
	scratch []byte  // what an encoder of the library made
	ids     []int32 // of a page by dictionary
	counts  []int32
}

// maxPage is how large a page may become, compressed or not; the format's own bound is that of an int32.
const maxPage = 1 << 30

func newPager() (*pager, error) {
	// No checksum in the frames: the pages have theirs.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, fmt.Errorf("make compressor: %w", err)
	}
	return &pager{zstd: z}, nil
}

// page ends the leaf's page: it goes to the leaf's chunk, and the leaf is empty.
func (p *pager) page(l *leaf) error {
	body, err := p.levels(p.body[:0], l)
	if err != nil {
		return fmt.Errorf("column %s: encode levels: %w", l.path, err)
	}
	levels := len(body)
	encoding := format.Plain
	if body, encoding, err = p.encode(body, l); err != nil {
		return fmt.Errorf("column %s: encode page: %w", l.path, err)
	}
	p.body = body
	if len(body) > maxPage {
		return fmt.Errorf("column %s: a page of %d bytes, the format allows %d", l.path, len(body), maxPage)
	}
	packed := p.compress(l, body, len(body)-levels)
	l.chunk.add(l, header(packed, len(body), l.values, encoding), packed, len(body), encoding)
	l.resetPage()
	return nil
}

// levels appends the repetition and definition levels as a data page of the first version has them: each a length and a hybrid of runs
// and bit-packed groups.
func (p *pager) levels(dst []byte, l *leaf) ([]byte, error) {
	var err error
	if l.rep > 0 {
		if dst, err = p.hybrid(dst, l.reps, l.rep); err != nil {
			return nil, err
		}
	}
	switch {
	case l.def == 0:
	case len(l.defs) == 0: // one run
		at := len(dst)
		dst = binary.AppendUvarint(append(dst, 0, 0, 0, 0), uint64(l.values)<<1)
		dst = append(dst, l.def)
		binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	default:
		dst, err = p.hybrid(dst, l.defs, l.def)
	}
	return dst, err
}

func (p *pager) hybrid(dst []byte, levels []uint8, most uint8) ([]byte, error) {
	e := rle.Encoding{BitWidth: bits.Len8(most)}
	out, err := e.EncodeLevels(p.scratch[:0], levels)
	if err != nil {
		return nil, err
	}
	p.scratch = out
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(out)))
	return append(dst, out...), nil
}

// encode appends the values and says how they are encoded.
func (p *pager) encode(dst []byte, l *leaf) ([]byte, format.Encoding, error) {
	switch l.physical {
	case format.Boolean:
		return appendBools(dst, l.bools), format.Plain, nil
	case format.Int32:
		dst, err := p.deltas(dst, l.int32s)
		return dst, format.DeltaBinaryPacked, err
	case format.Int64:
		var e delta.BinaryPackedEncoding
		out, err := e.EncodeInt64(p.scratch[:0], l.int64s)
		if err != nil {
			return nil, 0, err
		}
		p.scratch = out
		return append(dst, out...), format.DeltaBinaryPacked, nil
	case format.Float:
		dst = slices.Grow(dst, 4*len(l.floats))
		for _, f := range l.floats {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(f))
		}
		return dst, format.Plain, nil
	case format.Double:
		dst = slices.Grow(dst, 8*len(l.doubles))
		for _, f := range l.doubles {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
		}
		return dst, format.Plain, nil
	case format.FixedLenByteArray:
		return append(dst, l.fixed...), format.Plain, nil
	}
	return p.text(dst, l)
}

func appendBools(dst []byte, values []bool) []byte {
	for i, v := range values {
		if i%8 == 0 {
			dst = append(dst, 0)
		}
		if v {
			dst[len(dst)-1] |= 1 << (i % 8)
		}
	}
	return dst
}

func (p *pager) deltas(dst []byte, values []int32) ([]byte, error) {
	var e delta.BinaryPackedEncoding
	out, err := e.EncodeInt32(p.scratch[:0], values)
	if err != nil {
		return nil, err
	}
	p.scratch = out
	return append(dst, out...), nil
}

// text appends byte arrays: by dictionary while the chunk has one, those of a key by what they share with the value before, and others
// one after the other behind their lengths.
func (p *pager) text(dst []byte, l *leaf) ([]byte, format.Encoding, error) {
	if d := l.dictionary(); d != nil && len(l.lengths)+d.len() > 0 {
		if ids, ok := d.page(p.ids[:0], l); ok {
			p.ids = ids
			width := max(bits.Len32(uint32(d.len()-1)), 1)
			e := rle.Encoding{BitWidth: width}
			out, err := e.EncodeInt32(p.scratch[:0], ids)
			if err != nil {
				return nil, 0, err
			}
			p.scratch = out
			return append(append(dst, byte(width)), out...), format.RLEDictionary, nil
		}
		l.chunk.plain = true
	}
	if l.key {
		dst, err := p.prefixes(dst, l)
		return dst, format.DeltaByteArray, err
	}
	dst, err := p.deltas(dst, l.lengths)
	return append(dst, l.text...), format.DeltaLengthByteArray, err
}

// prefixes appends the length of what each value shares with the one before it, the length of the rest, and the rest.
func (p *pager) prefixes(dst []byte, l *leaf) ([]byte, error) {
	p.counts = p.counts[:0]
	at, before := 0, []byte(nil)
	for _, n := range l.lengths {
		value := l.text[at : at+int(n)]
		p.counts = append(p.counts, int32(shared(before, value)))
		at, before = at+int(n), value
	}
	dst, err := p.deltas(dst, p.counts)
	if err != nil {
		return nil, err
	}
	for i, n := range l.lengths {
		p.counts[i] = n - p.counts[i]
	}
	if dst, err = p.deltas(dst, p.counts); err != nil {
		return nil, err
	}
	at = 0
	for i, n := range l.lengths {
		at += int(n)
		dst = append(dst, l.text[at-int(p.counts[i]):at]...)
	}
	return dst, nil
}

// shared is the length of the longest common prefix.
func shared(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// compress returns the page's bytes as a frame of zstd. Binary fractions that compress badly cost more than all the rest: whether they
// do is seen from the first page of a chunk, and what follows it is stored.
func (p *pager) compress(l *leaf, body []byte, values int) []byte {
	fraction := l.physical == format.Float || l.physical == format.Double
	if fraction && l.chunk.stored {
		p.packed = storedFrame(p.packed[:0], body)
		return p.packed
	}
	p.packed = p.zstd.EncodeAll(body, p.packed[:0])
	if fraction && len(l.chunk.locations) == 0 && len(p.packed) > values/2 {
		l.chunk.stored = true
	}
	return p.packed
}

// storedFrame appends a frame of zstd that holds src as it is.
func storedFrame(dst, src []byte) []byte {
	const (
		magic = 0xFD2FB528
		block = 128 << 10
		sized = 0xA0 // one segment, its size in four bytes
	)
	dst = slices.Grow(dst, len(src)+3*(len(src)/block+1)+9)
	dst = append(binary.LittleEndian.AppendUint32(dst, magic), sized)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src)))
	for {
		n := min(len(src), block)
		head := uint32(n) << 3
		if n == len(src) {
			head |= 1 // the last
		}
		dst = append(dst, byte(head), byte(head>>8), byte(head>>16))
		dst = append(dst, src[:n]...)
		if src = src[n:]; len(src) == 0 {
			return dst
		}
	}
}

// pageHeader is the header of a page in thrift's compact form. The longest has 41 bytes.
type pageHeader struct {
	bytes [48]byte
	n     int
}

func (h *pageHeader) field(head byte, v int32) {
	h.bytes[h.n] = head
	h.n++
	h.n += binary.PutUvarint(h.bytes[h.n:], uint64(uint32(v)<<1^uint32(v>>31)))
}

func (h *pageHeader) byte(b byte) { h.bytes[h.n] = b; h.n++ }

// The heads of thrift fields: how far the number is from the one before, and the type.
const (
	thriftInt    = 0x15
	thriftStruct = 0x1C
	thriftStop   = 0
)

func newHeader(t format.PageType, packed []byte, size int) *pageHeader {
	h := &pageHeader{}
	h.field(thriftInt, int32(t))
	h.field(thriftInt, int32(size))
	h.field(thriftInt, int32(len(packed)))
	h.field(thriftInt, int32(crc32.ChecksumIEEE(packed)))
	return h
}

// header is that of a data page of the first version, without statistics: those are in the page index.
func header(packed []byte, size, values int, encoding format.Encoding) *pageHeader {
	h := newHeader(format.DataPage, packed, size)
	h.byte(thriftStruct)
	h.field(thriftInt, int32(values))
	h.field(thriftInt, int32(encoding))
	h.field(thriftInt, int32(format.RLE))
	h.field(thriftInt, int32(format.RLE))
	h.byte(thriftStop)
	h.byte(thriftStop)
	return h
}

// dictionaryHeader is that of the page of a dictionary.
func dictionaryHeader(packed []byte, size, values int) *pageHeader {
	h := newHeader(format.DictionaryPage, packed, size)
	h.byte(thriftStruct + 2<<4)
	h.field(thriftInt, int32(values))
	h.field(thriftInt, int32(format.Plain))
	h.byte(thriftStop)
	h.byte(thriftStop)
	return h
}
