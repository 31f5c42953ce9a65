package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// The run format, version 2. Numbers without a width are uvarints of minimal
// length, fixed ones little-endian; a string is its length and its bytes; a
// digest is the XXH64 of bytes, 8 B.
//
//	magic      8 B "deltadr2"
//	header     length 4 B, payload, its digest; the payload: run version, tuple
//	           version, number of key columns, each one's name and type, number
//	           of fns, each one's type id
//	blocks     one after the other, see below
//	footer     payload, its digest; the payload: rows, blocks, for each block
//	           the bytes it is stored in, its bytes, its rows, its first key, its
//	           digest and, if it is compressed, that of the stored bytes; the
//	           content's SHA-256
//	trailer    length of the footer payload 4 B, 8 B "deltadr2"
//
// A block stored in fewer bytes than it has is compressed with zstd. The content's
// SHA-256 is over the header payload and the digests of all blocks: it does not
// depend on compression.
//
// A block is some whole rows, column by column:
//
//	directory  rows 4 B, for the keys and then for each fn the bytes of its
//	           section 4 B
//	keys       lengths: of what each shares with the key before, of what
//	           follows; what follows, of all rows
//	fn         form 1 B, then
//	           0, as they are: lengths; the accumulators, of all rows
//	           1, beside the fn of number n: n; lengths: of what each shares with
//	           the accumulator of fn n in its row, of what follows; what follows,
//	           of all rows
//	lengths    bits for each 1 B, the least of them; unless it is of 0 bits what
//	           each has above the least, in as many bits, from the lowest bit of
//	           a byte on; what is left of the last byte is zero
//
// All this has one form. A block ends with the row with which it has blockRows,
// or with which its keys and accumulators, in full, have blockBytes. Shared
// prefixes are as long as they can be. Lengths have 0, 1, 2, 4, 8, 16 or 32 bits,
// the fewest that do. Which fn another one stands beside is said at beside.
const (
	magic      = "deltadr2"
	version    = 2
	blockBytes = 64 << 10
	blockRows  = 2048
	sumBytes   = 8
	tailBytes  = 4 + len(magic)

	formPlain  = 0
	formBeside = 1
)

// MaxBlock bounds a block; a row is no larger than half of it. A writer refuses
// a larger row, a reader a larger claim.
const MaxBlock = 64 << 20

// maxHeader bounds the header's payload.
const maxHeader = 1 << 20

// appendSum appends the digest of b to dst.
func appendSum(dst, b []byte) []byte {
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(b))
}

func appendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// header is the header's payload for the shape.
func (s Shape) header() []byte {
	b := binary.AppendUvarint(nil, version)
	b = binary.AppendUvarint(b, tuple.Version)
	b = binary.AppendUvarint(b, uint64(len(s.Keys)))
	for _, k := range s.Keys {
		b = appendString(b, k.Name)
		b = appendString(b, keyRepr(k.Type))
	}
	b = binary.AppendUvarint(b, uint64(len(s.Fns)))
	for _, f := range s.Fns {
		b = appendString(b, f.TypeID())
	}
	return b
}

// keyRepr names a key type by what its encoding depends on. Decimals are free
// of scale there, but one scale is one key type all the same.
func keyRepr(t column.Type) string {
	switch {
	case t.IsInt():
		return "int"
	case t.IsFloat():
		return "float"
	case t.Kind == column.Decimal:
		return fmt.Sprintf("decimal/%d", t.Scale)
	}
	return t.String()
}

// checkHeader says what differs between a run's header and the shape.
func (s Shape) checkHeader(got []byte) error {
	want := s.header()
	if slices.Equal(got, want) {
		return nil
	}
	a, err := parseHeader(got)
	if err != nil {
		return fmt.Errorf("run header: %w", err)
	}
	b, err := parseHeader(want)
	if err != nil {
		return err
	}
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Errorf("run lacks %s", b[i])
		case i >= len(b):
			return fmt.Errorf("run has %s besides", a[i])
		case a[i] != b[i]:
			return fmt.Errorf("run has %s, want %s", a[i], b[i])
		}
	}
	return errors.New("run header is not canonical")
}

// parseHeader describes a header's parts in order.
func parseHeader(b []byte) ([]string, error) {
	r := bytesReader{b: b}
	out := []string{fmt.Sprintf("run version %d", r.uvarint()), fmt.Sprintf("tuple version %d", r.uvarint())}
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		name := r.string()
		out = append(out, fmt.Sprintf("key %s of type %s", name, r.string()))
	}
	for n := r.uvarint(); n > 0 && r.err == nil; n-- {
		out = append(out, "fn "+string(r.string()))
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("bytes are left over")
	}
	return out, r.err
}

var (
	errCut    = errors.New("cut short or not minimal")
	errLength = errors.New("lengths are not minimal or too large")
)

// bytesReader reads numbers and strings from b until the first error.
type bytesReader struct {
	b   []byte
	err error
}

func (r *bytesReader) uvarint() uint64 {
	x, n := binary.Uvarint(r.b)
	if n <= 0 || n > 1 && r.b[n-1] == 0 {
		r.err, r.b = errCut, nil
		return 0
	}
	r.b = r.b[n:]
	return x
}

func (r *bytesReader) take(n uint64) []byte {
	if r.err != nil || n > uint64(len(r.b)) {
		r.err, r.b = errCut, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *bytesReader) string() []byte { return r.take(r.uvarint()) }

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
