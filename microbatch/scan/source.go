package scan

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// ratioFloor is the decompressed size below which no ratio is suspicious:
// a short object of blanks is no bomb.
const ratioFloor = 64 << 20

// openText returns the object's text, decompressed, of the raw bytes of the object
// of that key, through m. It streams: neither the object (beyond Limits.Whole) nor
// its text is ever held as a whole. A truncated or corrupt stream is an error of Read.
func openText(raw *stream, m *reading, key string, lim Limits) (io.Reader, func(), error) {
	if m.raw == nil {
		m.raw = bufio.NewReaderSize(nil, 64<<10)
	}
	in := m.raw
	in.Reset(raw)
	head, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	none := func() {}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		if m.gzip == nil {
			m.gzip = new(gzip.Reader)
		}
		if err := m.gzip.Reset(in); err != nil {
			m.gzip = nil
			return nil, nil, fmt.Errorf("gzip: %w", cut(err))
		}
		return &bounded{in: m.gzip, raw: raw, lim: lim, name: "gzip"}, none, nil
	case isZstd(head):
		// One goroutine: the decoder then works inside Read, under its caller's recover.
		zr, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(lim.Window)), zstd.WithDecoderMaxMemory(uint64(lim.Text)))
		if err != nil {
			return nil, nil, fmt.Errorf("zstd: %w", err)
		}
		return &bounded{in: zr, raw: raw, lim: lim, name: "zstd"}, zr.Close, nil
	case strings.HasSuffix(key, ".gz"):
		return nil, nil, errors.New("the key says gzip but the bytes are not")
	case strings.HasSuffix(key, ".zst"):
		return nil, nil, errors.New("the key says zstd but the bytes are not")
	}
	return &bounded{in: in, raw: raw, lim: lim, name: "text"}, none, nil
}

// isZstd knows the magic of a frame and of a skippable frame.
func isZstd(head []byte) bool {
	if len(head) < 4 {
		return false
	}
	return bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}) || head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18})
}

// cut turns an early end of input into its name: to a decompressor the plain
// io.EOF would mean a clean end.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bounded enforces Limits.Text and Limits.Ratio on decompressed bytes and
// names the layer that failed.
type bounded struct {
	in   io.Reader
	raw  *stream
	lim  Limits
	name string
	out  int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	b.out += int64(n)
	switch {
	case b.out > b.lim.Text:
		return 0, fmt.Errorf("%s: more than %d bytes of text", b.name, b.lim.Text)
	case b.out > ratioFloor && b.out/b.lim.Ratio > b.raw.taken:
		return 0, fmt.Errorf("%s: %d bytes out of %d read, more than %d to one", b.name, b.out, b.raw.taken, b.lim.Ratio)
	case err != nil && err != io.EOF:
		return n, fmt.Errorf("%s: %w", b.name, err)
	}
	return n, err
}

// held is a blob that was read: a second pass over it costs no request.
type held struct {
	Blob
	bytes []byte
}

func (h *held) ReadAll(context.Context) ([]byte, error) { return h.bytes, nil }

// readAll reads the blob and checks that it got all of it.
func readAll(ctx context.Context, blob Blob) ([]byte, error) {
	b, err := blob.ReadAll(ctx)
	if err == nil && int64(len(b)) != blob.Size() {
		err = fmt.Errorf("got %d bytes of an object of %d: %w", len(b), blob.Size(), io.ErrUnexpectedEOF)
	}
	return b, err
}

// readRange reads a range and checks that it got all of it.
func readRange(ctx context.Context, blob Blob, off, n int64) ([]byte, error) {
	b, err := blob.ReadRange(ctx, off, n)
	if err == nil && int64(len(b)) != n {
		err = fmt.Errorf("got %d bytes of %d at offset %d: %w", len(b), n, off, io.ErrUnexpectedEOF)
	}
	return b, err
}

// lineReader yields lines without their end (\n or \r\n); the last needs none.
type lineReader struct {
	in    io.Reader
	limit int
	buf   []byte
	r, w  int // buf[r:w] is unread
	no    int64
	taken int64 // bytes of the lines yielded
	eof   bool
	bom   bool // the start was looked at
}

// newLineReader returns one that works in buf, if that is of any size.
func newLineReader(in io.Reader, buf []byte, limit int) *lineReader {
	if len(buf) == 0 {
		buf = make([]byte, 64<<10)
	}
	return &lineReader{in: in, limit: limit, buf: buf}
}

// next returns the next line, valid until the next call, or io.EOF. Of a line
// longer than the limit it returns the start, and long is true.
func (l *lineReader) next() (line []byte, long bool, err error) {
	from := 0 // bytes of buf[r:w] known to hold no newline
	for {
		if i := bytes.IndexByte(l.buf[l.r+from:l.w], '\n'); i >= 0 {
			line = l.buf[l.r : l.r+from+i]
			l.r += from + i + 1
			return l.end(line, long)
		}
		from = l.w - l.r
		if from > l.limit+2 { // room for \r\n
			long = true
			copy(l.buf[l.r+l.limit+1:], l.buf[l.w-1:l.w]) // drop all but the start
			l.w = l.r + l.limit + 1
			from = l.w - l.r
		}
		if l.eof {
			if l.r == l.w {
				return nil, false, io.EOF
			}
			line = l.buf[l.r:l.w]
			l.r = l.w
			return l.end(line, long)
		}
		if err := l.fill(); err != nil {
			return nil, false, err
		}
	}
}

func (l *lineReader) end(line []byte, long bool) ([]byte, bool, error) {
	l.no++
	l.taken += int64(len(line))
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > l.limit {
		return line[:l.limit], true, nil
	}
	return line, long, nil
}

// fill reads more behind the unread bytes.
func (l *lineReader) fill() error {
	if l.r > 0 {
		copy(l.buf, l.buf[l.r:l.w])
		l.w -= l.r
		l.r = 0
	}
	if l.w == len(l.buf) {
		bigger := make([]byte, min(2*len(l.buf), max(len(l.buf)+1, l.limit+(64<<10))))
		copy(bigger, l.buf[:l.w])
		l.buf = bigger
	}
	for tries := 0; ; tries++ {
		n, err := l.in.Read(l.buf[l.w:])
		l.w += n
		if err == io.EOF {
			l.eof = true
		} else if err != nil {
			return err
		}
		if n > 0 || l.eof {
			break
		}
		if tries > 100 {
			return io.ErrNoProgress
		}
	}
	if !l.bom && (l.w >= 3 || l.eof) {
		l.bom = true
		if bytes.HasPrefix(l.buf[:l.w], []byte{0xef, 0xbb, 0xbf}) {
			l.r = 3
		}
	}
	return nil
}
