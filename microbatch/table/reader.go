package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Run is an open run. It is safe for concurrent use; its cursors are not.
type Run struct {
	r       io.ReaderAt
	fns     int
	header  []byte
	blocks  []blockRef
	rows    int64
	sum     [sha256.Size]byte
	size    int64
	decoder func() (*zstd.Decoder, error)
}

// blockRef is an entry of the block index.
type blockRef struct {
	off, end int64
	rows     int64
	first    []byte
}

// OpenBytes opens a run that is in memory.
func OpenBytes(b []byte, shape Shape) (*Run, error) {
	return Open(bytes.NewReader(b), int64(len(b)), shape)
}

// Open reads and checks the header and the block index of the run of size
// bytes in r. A run of another shape is an error that names the difference.
func Open(r io.ReaderAt, size int64, shape Shape) (*Run, error) {
	run := &Run{r: r, fns: len(shape.Fns), size: size, decoder: sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxBlock), zstd.WithDecodeAllCapLimit(true))
	})}
	start, err := run.readHeader(shape)
	if err != nil {
		return nil, err
	}
	if err := run.readFooter(start); err != nil {
		return nil, fmt.Errorf("run footer: %w", err)
	}
	return run, nil
}

// read returns n bytes at off; n is checked against the size before memory is
// taken.
func (r *Run) read(buf []byte, off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || n > r.size-off {
		return nil, fmt.Errorf("%d bytes at %d lie outside of %d", n, off, r.size)
	}
	buf = slices.Grow(buf[:0], int(n))[:n]
	if k, err := r.r.ReadAt(buf, off); int64(k) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read run: %w", err)
	}
	return buf, nil
}

// checked parts b into a payload and the checksum that must end it.
func checked(b []byte) ([]byte, error) {
	payload, crc := b[:len(b)-crcBytes], b[len(b)-crcBytes:]
	if crc32.Checksum(payload, crcTable()) != binary.LittleEndian.Uint32(crc) {
		return nil, errors.New("checksum does not match")
	}
	return payload, nil
}

func (r *Run) readHeader(shape Shape) (end int64, err error) {
	const fixed = int64(len(magic) + 4)
	b, err := r.read(nil, 0, fixed)
	if err != nil {
		return 0, fmt.Errorf("run header: %w", err)
	}
	if string(b[:len(magic)]) != magic {
		return 0, errors.New("not a run: the magic is missing")
	}
	n := int64(binary.LittleEndian.Uint32(b[len(magic):]))
	if n > maxHeader {
		return 0, fmt.Errorf("run header of %d bytes exceeds %d", n, maxHeader)
	}
	if b, err = r.read(nil, fixed, n+crcBytes); err == nil {
		r.header, err = checked(b)
	}
	if err != nil {
		return 0, fmt.Errorf("run header: %w", err)
	}
	return fixed + n + crcBytes, shape.checkHeader(r.header)
}

func (r *Run) readFooter(start int64) error {
	tail, err := r.read(nil, r.size-int64(tailBytes), int64(tailBytes))
	if err != nil {
		return err
	}
	if string(tail[4:]) != magic {
		return errors.New("the magic is missing, the run is cut short")
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	end := r.size - int64(tailBytes) - crcBytes - n
	if n > MaxBlock || end < start {
		return fmt.Errorf("%d bytes do not fit", n)
	}
	b, err := r.read(nil, end, n+crcBytes)
	if err == nil {
		b, err = checked(b)
	}
	if err != nil {
		return err
	}
	if len(b) < sha256.Size {
		return errCut
	}
	copy(r.sum[:], b[len(b)-sha256.Size:])
	return r.parseIndex(b[:len(b)-sha256.Size], start, end)
}

func (r *Run) parseIndex(b []byte, start, end int64) error {
	in := bytesReader{b: b}
	rows, blocks := in.uvarint(), in.uvarint()
	if blocks > uint64(len(b))/3 {
		return errCut
	}
	r.blocks = make([]blockRef, 0, blocks)
	total, off := uint64(0), uint64(0)
	for range blocks {
		delta, n := in.uvarint(), in.uvarint()
		first := in.string()
		off += delta
		total += n
		switch k := len(r.blocks); {
		case in.err != nil:
			return in.err
		case delta > uint64(end) || off >= uint64(end) || n == 0 || n > MaxBlock || total > rows:
			return fmt.Errorf("block %d at %d with %d rows does not fit", k, off, n)
		case k == 0 && off != uint64(start):
			return fmt.Errorf("block 0 is at %d, not at %d", off, start)
		case k > 0 && (delta == 0 || bytes.Compare(first, r.blocks[k-1].first) <= 0):
			return fmt.Errorf("block %d is out of order", k)
		case k > 0:
			r.blocks[k-1].end = int64(off)
		}
		r.blocks = append(r.blocks, blockRef{off: int64(off), end: end, rows: int64(n), first: first})
	}
	if in.err != nil {
		return in.err
	}
	if len(in.b) > 0 || total != rows || len(r.blocks) == 0 && start != end {
		return errors.New("rows or bytes are left over")
	}
	r.rows = int64(rows)
	return nil
}

// Rows is the number of rows.
func (r *Run) Rows() int64 { return r.rows }

// Summary is what the writer of the run returned.
func (r *Run) Summary() Summary { return Summary{Rows: r.rows, Size: r.size, SHA256: r.sum} }

// Starts returns the first key of each block: natural borders for parallel
// work over key ranges. The keys must not be changed.
func (r *Run) Starts() [][]byte {
	out := make([][]byte, len(r.blocks))
	for i, b := range r.blocks {
		out[i] = b.first
	}
	return out
}

// Verify reads every row and checks it and the SHA-256 of the content.
func (r *Run) Verify() error {
	c := r.Cursor()
	sum := sha256.New()
	sum.Write(r.header)
	c.onBlock = func(rows []byte) { sum.Write(rows) }
	for c.Next() {
	}
	if c.err != nil {
		return c.err
	}
	if !bytes.Equal(sum.Sum(nil), r.sum[:]) {
		return errors.New("run content does not match its SHA-256")
	}
	return nil
}

// blockBufs are what blocks are read into; they grow as needed.
type blockBufs struct{ stored, unpacked []byte }

// block reads the rows of block i. They lie in bufs and are valid until bufs
// are used again.
func (r *Run) block(i int, bufs *blockBufs) (rows []byte, err error) {
	ref := r.blocks[i]
	if ref.end-ref.off > MaxBlock+frameBytes+crcBytes {
		return nil, fmt.Errorf("%d bytes exceed %d", ref.end-ref.off, MaxBlock)
	}
	if bufs.stored, err = r.read(bufs.stored, ref.off, ref.end-ref.off); err != nil {
		return nil, err
	}
	if len(bufs.stored) < frameBytes+crcBytes {
		return nil, errCut
	}
	b, err := checked(bufs.stored)
	if err != nil {
		return nil, err
	}
	n, raw, how := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]), b[8]
	b = b[frameBytes:]
	if int(n) != len(b) || raw > MaxBlock {
		return nil, fmt.Errorf("%d stored bytes of %d do not fit", n, raw)
	}
	switch {
	case how == storedRaw && n == raw:
		return b, nil
	case how == storedZstd && n < raw:
	default:
		return nil, fmt.Errorf("encoding %d of %d bytes in %d is unknown", how, raw, n)
	}
	dec, err := r.decoder()
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	// The capacity bounds what is decoded.
	bufs.unpacked = slices.Grow(bufs.unpacked[:0], int(raw))
	rows, err = dec.DecodeAll(b, bufs.unpacked[:0:raw])
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if len(rows) != int(raw) {
		return nil, fmt.Errorf("%d bytes decompressed to %d, not %d", n, len(rows), raw)
	}
	return rows, nil
}
