package layers

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/window"
)

// Log is the rows of one pane in key order: each key with the hash of its document, or as a tombstone. A Log that is not whole serves counts
// alone: it has documents, with half of their hashes. It is of one process and read by it alone.
//
// It is in parts: the rows of an earlier pane, and over them what became of some in each pane since. Logs of panes that follow each other share
// parts.
type Log struct {
	parts []*part // the oldest first
	whole bool
}

// part is a log on its own, or what became of rows below it.
type part struct {
	data *spool.Data
	logs int // that have it
}

// Whole says whether a layer may be put over the pane. A nil Log is not whole.
func (l *Log) Whole() bool { return l != nil && l.whole }

// Close gives the memory and files of a Log back at once, but for those that others share. It must not be read after. A nil Log has none.
func (l *Log) Close() {
	if l == nil {
		return
	}
	for _, p := range l.parts {
		if p.logs--; p.logs == 0 {
			p.data.Close()
		}
	}
	l.parts = nil
}

// over is a Log of what data says, over a Log before, nil for none.
func over(before *Log, data *spool.Data, whole bool) *Log {
	l := &Log{whole: whole}
	if before != nil {
		l.parts = slices.Clone(before.parts)
	}
	l.parts = append(l.parts, &part{data: data})
	for _, p := range l.parts {
		p.logs++
	}
	return l
}

// row is what a pane has of a key, whose encoding is such that the order of bytes is that of keys. A part that is over others says too that it
// has nothing.
type row struct {
	key  []byte
	is   window.Row
	hash window.Hash // of a document
}

// A part is blocks: how many rows one has and how many bytes their keys are, where each key ends, the keys, the hashes. The end of a key is
// four times what it is, and what the row is is added. A block ends with so many rows, or with the key that makes it so long.
const (
	blockHead = 8
	blockRows = 1 << 12
	blockKeys = 1 << 20
	blockMost = 1 << 30 // that a uint32 has room for
)

// width is how many bytes of each hash a log has.
func width(whole bool) int {
	if whole {
		return 16
	}
	return 8
}

type logWriter struct {
	spool  *spool.Spool
	whole  bool
	ends   []uint32 // as they are in the block
	keys   []byte
	hashes []window.Hash
	out    []byte
	last   []byte // the last key of the block before
	any    bool   // there is such a block
}

func newLogWriter(dir string, memory *spool.Budget, whole bool) *logWriter {
	return &logWriter{spool: spool.New(dir, memory), whole: whole}
}

// follows says whether a key comes after all that were added.
func (w *logWriter) follows(key []byte) bool {
	last := w.last
	switch n := len(w.ends); {
	case n > 1:
		last = w.keys[w.ends[n-2]>>2:]
	case n == 1:
		last = w.keys
	case !w.any:
		return true
	}
	return bytes.Compare(last, key) < 0
}

func (w *logWriter) add(r row) error {
	w.keys = append(w.keys, r.key...)
	if len(w.keys) >= blockMost {
		return fmt.Errorf("compare rows: a key of %d bytes", len(r.key))
	}
	end := uint32(len(w.keys))<<2 | uint32(r.is)
	w.ends, w.hashes = append(w.ends, end), append(w.hashes, r.hash)
	if len(w.ends) < blockRows && len(w.keys) < blockKeys {
		return nil
	}
	return w.flush()
}

func (w *logWriter) flush() error {
	n := len(w.ends)
	if n == 0 {
		return nil
	}
	b := binary.LittleEndian.AppendUint32(w.out[:0], uint32(n))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(w.keys)))
	for _, end := range w.ends {
		b = binary.LittleEndian.AppendUint32(b, end)
	}
	b = append(b, w.keys...)
	for _, h := range w.hashes {
		if b = binary.LittleEndian.AppendUint64(b, h[0]); w.whole {
			b = binary.LittleEndian.AppendUint64(b, h[1])
		}
	}
	from := uint32(0)
	if n > 1 {
		from = w.ends[n-2] >> 2
	}
	w.last, w.any = append(w.last[:0], w.keys[from:]...), true
	w.out, w.ends, w.keys, w.hashes = b, w.ends[:0], w.keys[:0], w.hashes[:0]
	_, err := w.spool.Write(b)
	return err
}

func (w *logWriter) seal() (*spool.Data, error) {
	if err := w.flush(); err != nil {
		return nil, err
	}
	return w.spool.Seal()
}

// logReader walks a part; ok says that it stands at a row.
type logReader struct {
	in    *io.SectionReader
	whole bool
	left  int64  // bytes of in behind the block
	raw   []byte // the block but for its head
	n     int    // rows of the block
	size  int    // bytes of their keys
	at    int    // the one it stands at
	from  int    // where its key begins
	ok    bool
}

// read stands at the first row of a part.
func (p *part) read(whole bool) (*logReader, error) {
	r := &logReader{in: p.data.Section(), left: p.data.Size(), whole: whole}
	return r, r.load()
}

func (r *logReader) end() uint32 { return binary.LittleEndian.Uint32(r.raw[4*r.at:]) }

// key is that of the row it stands at, until the next one.
func (r *logReader) key() []byte { return r.raw[4*r.n+r.from : 4*r.n+int(r.end()>>2)] }

// is says what the row is.
func (r *logReader) is() window.Row { return window.Row(r.end() & 3) }

// hash is that of the row, as far as the log has it.
func (r *logReader) hash() (h window.Hash) {
	b := r.raw[4*r.n+r.size+width(r.whole)*r.at:]
	if h[0] = binary.LittleEndian.Uint64(b); r.whole {
		h[1] = binary.LittleEndian.Uint64(b[8:])
	}
	return h
}

// same says whether the row is the same as another of its key, as far as the log can tell.
func (r *logReader) same(is row) bool {
	h := r.hash()
	return r.is() == is.is && h[0] == is.hash[0] && (!r.whole || h[1] == is.hash[1])
}

func (r *logReader) next() error {
	r.from = int(r.end() >> 2)
	r.at++
	if r.ok = r.at < r.n; r.ok {
		return nil
	}
	return r.load()
}

var errLog = errors.New("it does not hold together")

// load takes in a block, if there is another.
func (r *logReader) load() error {
	if r.ok = false; r.left == 0 {
		return nil
	}
	if err := r.block(); err != nil {
		return fmt.Errorf("read the log of the live pane's rows: %w", err)
	}
	r.ok = true
	return nil
}

func (r *logReader) block() error {
	var head [blockHead]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return err
	}
	n, size := int64(binary.LittleEndian.Uint32(head[:])), int64(binary.LittleEndian.Uint32(head[4:]))
	all := n*int64(4+width(r.whole)) + size
	if r.left -= blockHead + all; n == 0 || r.left < 0 {
		return errLog
	}
	r.raw = slices.Grow(r.raw[:0], int(all))[:all]
	if _, err := io.ReadFull(r.in, r.raw); err != nil {
		return err
	}
	r.n, r.size, r.at, r.from = int(n), int(size), 0, 0
	last := uint32(0)
	for i := range n {
		end := binary.LittleEndian.Uint32(r.raw[4*i:])
		is := window.Row(end & 3)
		if end >>= 2; end < last || int64(end) > size || is > window.TombstoneRow {
			return errLog
		}
		last = end
	}
	if int64(last) != size {
		return errLog
	}
	return nil
}
