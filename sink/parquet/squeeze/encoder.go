package squeeze

import (
	"encoding/binary"
	"errors"

	"github.com/klauspost/compress/huff0"
)

// Most is how long the content of a frame may be.
const Most = 8 << 20

// blockSize is the most that a block of the format holds.
const blockSize = 128 << 10

// Encoder makes frames. It is the room that this takes, for one goroutine.
type Encoder struct {
	finder finder
	huff   huff0.Scratch
}

// New returns an Encoder.
func New() *Encoder {
	// Trees that the library keeps for the next block would show in its bytes.
	return &Encoder{huff: huff0.Scratch{Reuse: huff0.ReusePolicyNone}}
}

// Append appends the frame of src, which is of at most Most bytes.
func (e *Encoder) Append(dst, src []byte) []byte {
	const magic, oneSegment = 0xFD2FB528, 0xA0 // its size in four bytes
	dst = append(binary.LittleEndian.AppendUint32(dst, magic), oneSegment)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src)))
	e.finder.reset()
	for from := 0; ; {
		to := min(from+blockSize, len(src))
		dst = e.block(dst, src[:to], from, to == len(src))
		if from = to; to == len(src) {
			return dst
		}
	}
}

// block appends the block of all of src behind from.
func (e *Encoder) block(dst, src []byte, from int, last bool) []byte {
	const stored, compressed = 0, 2
	before := e.finder.distance
	e.finder.find(src, from)
	at := len(dst)
	dst = e.literals(append(dst, 0, 0, 0), e.finder.literals)
	dst = e.finder.appendSequences(dst)
	size, kind := len(dst)-at-3, compressed
	if plain := src[from:]; size >= len(plain) {
		dst, size, kind = append(dst[:at+3], plain...), len(plain), stored
		e.finder.distance = before // a decoder sees none of its sequences
	}
	head := uint32(size)<<3 | uint32(kind)<<1
	if last {
		head |= 1
	}
	dst[at], dst[at+1], dst[at+2] = byte(head), byte(head>>8), byte(head>>16)
	return dst
}

// How many literals are stored without looking, how many are in four streams, and how many of those have longer sizes in their header.
const (
	fewLiterals  = 32
	manyLiterals = 1 << 10
	mostLiterals = 16 << 10
)

// literals appends the section of a block's literals.
func (e *Encoder) literals(dst, b []byte) []byte {
	const raw, repeated, tree = 0, 1, 2
	n := len(b)
	if n < fewLiterals {
		return append(append(dst, byte(raw|n<<3)), b...)
	}
	compress := huff0.Compress1X
	if n >= manyLiterals {
		compress = huff0.Compress4X
	}
	packed, _, err := compress(b, &e.huff)
	m := len(packed)
	switch {
	case errors.Is(err, huff0.ErrUseRLE):
		return append(appendPlainHead(dst, repeated, n), b[0])
	case err != nil || m+5 >= n: // there is nothing to gain
		return append(appendPlainHead(dst, raw, n), b...)
	case n < manyLiterals:
		head := uint32(tree | n<<4 | m<<14)
		dst = append(dst, byte(head), byte(head>>8), byte(head>>16))
	case n < mostLiterals:
		dst = binary.LittleEndian.AppendUint32(dst, uint32(tree|2<<2|n<<4|m<<18))
	default:
		head := uint64(tree|3<<2) | uint64(n)<<4 | uint64(m)<<22
		dst = append(binary.LittleEndian.AppendUint32(dst, uint32(head)), byte(head>>32))
	}
	return append(dst, packed...)
}

// appendPlainHead appends the header of literals that are stored or all the same byte, fewLiterals of them or more.
func appendPlainHead(dst []byte, kind, n int) []byte {
	if n < 4096 {
		return binary.LittleEndian.AppendUint16(dst, uint16(kind|1<<2|n<<4))
	}
	head := kind | 3<<2 | n<<4
	return append(dst, byte(head), byte(head>>8), byte(head>>16))
}
