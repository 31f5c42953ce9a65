package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// The run format, version 1. Numbers without a width are uvarints of minimal
// length, fixed ones little-endian; a string is its length and its bytes.
//
//	magic      8 B "deltadr1"
//	header     length 4 B, payload, CRC-32C of the payload 4 B; the payload:
//	           run version, tuple version, number of key columns, each one's
//	           name and type, number of fns, each one's type id
//	blocks     length of the stored bytes 4 B, length of the rows 4 B,
//	           encoding 1 B (0 as they are, 1 zstd), the stored bytes,
//	           CRC-32C of all that 4 B
//	footer     payload, CRC-32C of the payload 4 B; the payload: rows, blocks,
//	           for each block its offset less the one before's, its rows and
//	           its first key; the content's SHA-256
//	trailer    length of the footer payload 4 B, 8 B "deltadr1"
//
// A block holds whole rows, at least blockSize of them but for the last, or
// one row:
//
//	row        bytes shared with the key before (0 in a block's first row),
//	           bytes that follow, these bytes; then for each fn the length of
//	           its accumulator, 0 if absent, and unless 0 the bytes shared with
//	           the row's last accumulator before it (left out if there is
//	           none) and the bytes that follow
//
// Shared prefixes are as long as they can be, so that rows have one form. The
// content's SHA-256 covers the header payload and the rows of every block,
// uncompressed: it does not depend on whether blocks are compressed.
const (
	magic      = "deltadr1"
	version    = 1
	blockSize  = 64 << 10
	frameBytes = 9
	crcBytes   = 4
	tailBytes  = 4 + len(magic)
	hashBytes  = 32

	storedRaw  = 0
	storedZstd = 1
)

// MaxBlock bounds the rows of a block, hence a row: a writer refuses a larger
// row, a reader a larger claim.
const MaxBlock = 64 << 20

// maxHeader bounds the header's payload.
const maxHeader = 1 << 20

func crcTable() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func appendString(dst []byte, s string) []byte {
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

var errCut = errors.New("cut short or not minimal")

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
		if binary.LittleEndian.Uint64(a[i:]) != binary.LittleEndian.Uint64(b[i:]) {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
