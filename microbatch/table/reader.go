package table

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// Run is an open run. It keeps its reader. It is safe for concurrent use; its cursors are not.
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
	off, stored, size int64
	rows              int
	first             []byte
	sum, storedSum    uint64
}

// inMemory are bytes that are read where they lie.
type inMemory []byte

// ReadAt implements io.ReaderAt.
func (b inMemory) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(b).ReadAt(p, off) }

// View implements Viewer.
func (b inMemory) View(off, n int64) []byte { return b[off : off+n : off+n] }

// Viewer is implemented by readers that can show what they have in memory. Runs
// are read from one without copying.
type Viewer interface {
	// View returns the n bytes at off, which are there, or nil if it cannot show
	// them. They never change.
	View(off, n int64) []byte
}

// OpenBytes opens a run that is in memory.
func OpenBytes(b []byte, shape Shape) (*Run, error) {
	return Open(inMemory(b), int64(len(b)), shape)
}

// Open reads and checks the header and the block index of the run of size
// bytes in r. A run of another shape is an error that names the difference.
func Open(r io.ReaderAt, size int64, shape Shape) (*Run, error) {
	run, err := open(r, size, shape.checkHeader)
	if err != nil {
		return nil, err
	}
	run.fns = len(shape.Fns)
	return run, nil
}

// Inspect reads and checks the header and the block index of a run of any shape:
// what its blocks must be, but not the blocks.
func Inspect(r io.ReaderAt, size int64) (Summary, error) {
	run, err := open(r, size, anyShape)
	if err != nil {
		return Summary{}, err
	}
	return run.Summary(), nil
}

func anyShape([]byte) error { return nil }

// Check is Inspect that reads the blocks too: without an error all of the run is
// as it was written.
func Check(r io.ReaderAt, size int64) (Summary, error) {
	run, err := open(r, size, anyShape)
	if err != nil {
		return Summary{}, err
	}
	var bufs blockBufs
	for i := range run.blocks {
		if _, err := run.block(i, &bufs); err != nil {
			return Summary{}, blockError(i, err)
		}
	}
	return run.Summary(), nil
}

func open(r io.ReaderAt, size int64, fits func(header []byte) error) (*Run, error) {
	run := &Run{r: r, size: size, decoder: sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxBlock), zstd.WithDecodeAllCapLimit(true))
	})}
	start, err := run.readHeader()
	if err != nil {
		return nil, err
	}
	if err := fits(run.header); err != nil {
		return nil, err
	}
	if err := run.readFooter(start); err != nil {
		return nil, fmt.Errorf("run footer: %w", err)
	}
	return run, nil
}

// read returns n bytes at off; n is checked against the size before memory is
// taken. They lie in buf or in what is read from.
func (r *Run) read(buf *[]byte, off, n int64) ([]byte, error) {
	if off < 0 || n < 0 || n > r.size-off {
		return nil, fmt.Errorf("%d bytes at %d lie outside of %d", n, off, r.size)
	}
	if v, ok := r.r.(Viewer); ok {
		if b := v.View(off, n); b != nil {
			return b, nil
		}
	}
	*buf = slices.Grow((*buf)[:0], int(n))[:n]
	if k, err := r.r.ReadAt(*buf, off); int64(k) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read run: %w", err)
	}
	return *buf, nil
}

var errDigest = errors.New("digest does not match")

// checked parts b into a payload and the digest that must end it.
func checked(b []byte) ([]byte, error) {
	payload, sum := b[:len(b)-sumBytes], b[len(b)-sumBytes:]
	if xxhash.Sum64(payload) != binary.LittleEndian.Uint64(sum) {
		return nil, errDigest
	}
	return payload, nil
}

func (r *Run) readHeader() (end int64, err error) {
	const fixed = int64(len(magic) + 4)
	var buf []byte
	b, err := r.read(&buf, 0, fixed)
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
	buf = nil
	if b, err = r.read(&buf, fixed, n+sumBytes); err == nil {
		r.header, err = checked(b)
	}
	if err != nil {
		return 0, fmt.Errorf("run header: %w", err)
	}
	return fixed + n + sumBytes, nil
}

func (r *Run) readFooter(start int64) error {
	var buf []byte
	tail, err := r.read(&buf, r.size-int64(tailBytes), int64(tailBytes))
	if err != nil {
		return err
	}
	if string(tail[4:]) != magic {
		return errors.New("the magic is missing, the run is cut short")
	}
	n := int64(binary.LittleEndian.Uint32(tail))
	end := r.size - int64(tailBytes) - sumBytes - n
	if end < start {
		return fmt.Errorf("%d bytes do not fit", n)
	}
	buf = nil
	b, err := r.read(&buf, end, n+sumBytes)
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
	if in.err != nil || blocks > uint64(len(b))/(4+sumBytes) {
		return errCut
	}
	r.blocks = make([]blockRef, 0, blocks)
	content := sha256.New()
	content.Write(r.header)
	total, off := uint64(0), uint64(start)
	for k := range int(blocks) {
		stored, size, n := in.uvarint(), in.uvarint(), in.uvarint()
		first, sum := in.string(), in.take(sumBytes)
		storedSum := sum
		if stored < size {
			storedSum = in.take(sumBytes)
		}
		total += n
		switch {
		case in.err != nil:
			return in.err
		case stored == 0 || stored > size || size > MaxBlock || stored > uint64(end)-off || n == 0 || n > blockRows || total > rows:
			return fmt.Errorf("block %d of %d bytes with %d rows at %d does not fit", k, stored, n, off)
		case k > 0 && bytes.Compare(first, r.blocks[k-1].first) <= 0:
			return fmt.Errorf("block %d is out of order", k)
		}
		content.Write(sum)
		r.blocks = append(r.blocks, blockRef{
			int64(off), int64(stored), int64(size), int(n), first, binary.LittleEndian.Uint64(sum), binary.LittleEndian.Uint64(storedSum),
		})
		off += stored
	}
	if len(in.b) > 0 || total != rows || off != uint64(end) {
		return errors.New("rows or bytes are left over")
	}
	if !bytes.Equal(content.Sum(nil), r.sum[:]) {
		return errors.New("digests do not match their SHA-256")
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

// Verify reads every row, and checks that each block is what a writer makes of
// its rows: beside what a cursor knows, which fn stands beside which.
func (r *Run) Verify() error {
	var (
		bufs blockBufs
		u    unpacked
		p    packer
		made []byte
	)
	for i := range r.blocks {
		b, err := r.unpack(i, &bufs, &u)
		if err == nil {
			again := u.rows()
			made, err = p.pack(made[:0], &again, u.n)
		}
		if err == nil && !bytes.Equal(made, b) {
			err = errors.New("it is not in canonical form")
		}
		if err != nil {
			return blockError(i, err)
		}
	}
	return nil
}

func blockError(i int, err error) error { return fmt.Errorf("run block %d: %w", i, err) }

// blockBufs are what blocks are read into; they grow as needed.
type blockBufs struct{ stored, unpacked []byte }

// unpack reads block i into u and returns its bytes, in which u lies.
func (r *Run) unpack(i int, bufs *blockBufs, u *unpacked) ([]byte, error) {
	b, err := r.block(i, bufs)
	if err != nil {
		return nil, err
	}
	if err := u.unpack(b, r.fns); err != nil {
		return nil, err
	}
	switch {
	case u.n != r.blocks[i].rows || !bytes.Equal(u.key(0), r.blocks[i].first):
		err = errors.New("rows or the first key differ from the index")
	case i+1 < len(r.blocks) && bytes.Compare(u.key(u.n-1), r.blocks[i+1].first) >= 0:
		err = errKeys
	case i+1 < len(r.blocks) && !u.full():
		err = errEarly
	}
	if err != nil {
		u.n = 0
	}
	return b, err
}

// block reads block i, and verifies it. It lies in bufs or in what is read from,
// and is valid until bufs are used again.
func (r *Run) block(i int, bufs *blockBufs) ([]byte, error) {
	ref := &r.blocks[i]
	b, err := r.read(&bufs.stored, ref.off, ref.stored)
	if err != nil {
		return nil, err
	}
	if xxhash.Sum64(b) != ref.storedSum {
		return nil, errDigest
	}
	if ref.stored == ref.size {
		return b, nil
	}
	if b, err = r.decompress(b, int(ref.size), bufs); err != nil {
		return nil, err
	}
	if xxhash.Sum64(b) != ref.sum {
		return nil, errDigest
	}
	return b, nil
}

// decompress returns the size bytes that b was made of.
func (r *Run) decompress(b []byte, size int, bufs *blockBufs) ([]byte, error) {
	dec, err := r.decoder()
	if err != nil {
		return nil, fmt.Errorf("make zstd decoder: %w", err)
	}
	// The capacity bounds what is decoded.
	bufs.unpacked = slices.Grow(bufs.unpacked[:0], size)
	out, err := dec.DecodeAll(b, bufs.unpacked[:0:size])
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if len(out) != size {
		return nil, fmt.Errorf("%d bytes decompressed to %d, not %d", len(b), len(out), size)
	}
	return out, nil
}
