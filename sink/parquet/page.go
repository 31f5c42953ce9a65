package parquet

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"
)

// pager makes pages out of the values of leaves. It is the room and the tools that this takes, for one goroutine, and nothing that it
// keeps from one page to the next shows in the bytes, nor does what frames keep.
type pager struct {
	zstd    *zstd.Encoder
	frames  *Frames // nil for none
	body    []byte  // levels and values
	packed  []byte  // body, compressed
	scratch []byte  // what an encoder of the library made
	counts  []int32
}

// maxPage is how large a page may become, compressed or not; the format's own bound is that of an int32.
const maxPage = 1 << 30

// pageWindow is how far back the compressor looks: most pages are shorter.
const pageWindow = 512 << 10

func newPager(frames *Frames) (*pager, error) {
	// No checksum in the frames: the pages have theirs.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithZeroFrames(true),
		zstd.WithEncoderCRC(false), zstd.WithWindowSize(pageWindow), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, fmt.Errorf("make compressor: %w", err)
	}
	return &pager{zstd: z, frames: frames}, nil
}

// page ends the leaf's page: it goes to the leaf's chunk, and the leaf is empty.
func (p *pager) page(l *leaf) error {
	body, err := p.levels(p.body[:0], l)
	if err != nil {
		return fmt.Errorf("column %s: encode levels: %w", l.path, err)
	}
	levels := len(body)
	body, encoding, err := p.encode(body, l)
	if err != nil {
		return fmt.Errorf("column %s: encode page: %w", l.path, err)
	}
	p.body = body
	if len(body) > maxPage {
		return fmt.Errorf("column %s: a page of %d bytes, the format allows %d", l.path, len(body), maxPage)
	}
	packed := p.compress(l, body, levels, encoding)
	l.chunk.add(l, header(packed, len(body), l.values, encoding), packed, len(body), encoding)
	if d := l.dictionary(); d != nil {
		d.endPage()
	}
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
		return p.integers(dst, l)
	case format.Float:
		dst = slices.Grow(dst, 4*len(l.floats))
		for _, f := range l.floats {
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(f))
		}
		return dst, format.Plain, nil
	case format.Double:
		if d := l.dictionary(); d != nil && len(l.doubles)+d.len() > 0 && l.nameNumbers(d) {
			return p.named(dst, l, d)
		}
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

// integers appends integers of eight bytes: as their differences, which take few bits where they are small or near each other, or by
// dictionary where that takes half of it.
func (p *pager) integers(dst []byte, l *leaf) ([]byte, format.Encoding, error) {
	d := l.dictionary()
	if d != nil && d.known > 0 && l.nameNumbers(d) {
		return p.named(dst, l, d)
	}
	var e delta.BinaryPackedEncoding
	out, err := e.EncodeInt64(p.scratch[:0], l.int64s)
	if err != nil {
		return nil, 0, err
	}
	if d != nil && d.known == 0 && len(l.int64s) > 0 && l.nameNumbers(d) {
		if bits.Len(uint(d.len()))*len(l.int64s)/8+d.size/dictionaryRepeats < len(out)/2 {
			return p.named(dst, l, d)
		}
		l.unname(d)
	}
	p.scratch = out
	return append(dst, out...), format.DeltaBinaryPacked, nil
}

// named appends the numbers of values in the dictionary.
func (p *pager) named(dst []byte, l *leaf, d *dictionary) ([]byte, format.Encoding, error) {
	width := max(bits.Len32(uint32(d.len()-1)), 1)
	return appendIDs(append(dst, byte(width)), l.ids, width), format.RLEDictionary, nil
}

// text appends byte arrays: by dictionary while the chunk has one, those of a key by what they share with the value before, and others
// one after the other behind their lengths.
func (p *pager) text(dst []byte, l *leaf) ([]byte, format.Encoding, error) {
	if d := l.dictionary(); d != nil && d.len() > 0 {
		if d.known > 0 || d.len()*dictionaryRepeats <= len(l.ids) {
			return p.named(dst, l, d)
		}
		l.unname(d)
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
