package layers

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/deltad/deltad/microbatch/spool"
)

// Log is the rows of one pane in key order: each key with the digest of its document, or as a tombstone. It is of one process and read by
// it alone.
type Log struct{ data *spool.Data }

// Close gives the memory and files of a Log back at once. It must not be read after. A nil Log has none.
func (l *Log) Close() {
	if l != nil {
		l.data.Close()
	}
}

// row is one row of a pane. Its key is encoded so that the order of bytes is that of keys.
type row struct {
	key  []byte
	dead bool // a tombstone
	digest
}

// An entry is the length of its key, the key, and what it is: stone, or a document, with its digest.
const (
	stone byte = iota
	paper
)

const buffered = 64 << 10

type logWriter struct {
	spool *spool.Spool
	out   *bufio.Writer
}

func newLogWriter(dir string, memory *spool.Budget) *logWriter {
	s := spool.New(dir, memory)
	return &logWriter{spool: s, out: bufio.NewWriterSize(s, buffered)}
}

func (w *logWriter) add(r row) error {
	b := append(binary.AppendUvarint(w.out.AvailableBuffer(), uint64(len(r.key))), r.key...)
	if r.dead {
		b = append(b, stone)
	} else {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(append(b, paper), r.digest[0]), r.digest[1])
	}
	_, err := w.out.Write(b)
	return err
}

func (w *logWriter) seal() (*Log, error) {
	if err := w.out.Flush(); err != nil {
		return nil, err
	}
	data, err := w.spool.Seal()
	if err != nil {
		return nil, err
	}
	return &Log{data}, nil
}

// logReader stands at a row of a Log, or is done. The key is overwritten by next.
type logReader struct {
	row
	in   *bufio.Reader
	left int64 // bytes not read yet
	done bool
	sum  [16]byte
}

var errLog = errors.New("it does not hold together")

// read stands at the first row of a log.
func (l *Log) read() (*logReader, error) {
	r := &logReader{in: bufio.NewReaderSize(l.data.Section(), buffered), left: l.data.Size()}
	return r, r.next()
}

func (r *logReader) next() error {
	if r.done = r.left == 0; r.done {
		return nil
	}
	if err := r.entry(); err != nil {
		r.done = true
		return fmt.Errorf("read the digests of the live pane's rows: %w", err)
	}
	return nil
}

func (r *logReader) entry() error {
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		return err
	}
	r.left -= int64(uvarintLen(n))
	if r.left < 1 || n > uint64(r.left-1) {
		return errLog
	}
	r.key = append(r.key[:0], make([]byte, n)...)
	if _, err := io.ReadFull(r.in, r.key); err != nil {
		return err
	}
	kind, err := r.in.ReadByte()
	if err != nil {
		return err
	}
	r.left -= int64(n) + 1
	if r.dead, r.digest = kind == stone, (digest{}); r.dead {
		return nil
	}
	if r.left -= int64(len(r.sum)); kind != paper || r.left < 0 {
		return errLog
	}
	_, err = io.ReadFull(r.in, r.sum[:])
	r.digest = digest{binary.LittleEndian.Uint64(r.sum[:8]), binary.LittleEndian.Uint64(r.sum[8:])}
	return err
}

// uvarintLen is how many bytes a number takes, written as a log is.
func uvarintLen(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }
