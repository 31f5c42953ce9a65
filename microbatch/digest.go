package microbatch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/sink"
)

// digests are the documents of the live pane in key order, each as its key and
// a hash of its content: what the next pane is counted against (new, changed,
// left). They serve the counts alone.
type digests struct {
	seed maphash.Seed
	ref  sink.Ref
	log  *spool.Data // nil for a pane without documents
	ok   bool
	// pending are those of the pane being written.
	pending *spool.Data
}

// replace makes the pending digests those of the live pane.
func (d *digests) replace(ref sink.Ref) {
	if d.log != nil {
		d.log.Close()
	}
	d.ref, d.log, d.ok, d.pending = ref, d.pending, true, nil
}

// forget lets them go: those of the live pane are read back.
func (d *digests) forget() {
	if d.log != nil {
		d.log.Close()
	}
	d.ref, d.log, d.ok = sink.Ref{}, nil, false
}

// digester writes the digests of a pane and counts its documents against
// those of the pane before, both in one pass over key order.
type digester struct {
	seed    maphash.Seed
	keys    int
	spool   *spool.Spool
	out     *bufio.Writer
	before  *digestReader
	scratch []byte
	counts  struct{ added, changed, left int64 }
}

// add takes documents in ascending order of key.
func (d *digester) add(b *column.Batch) error {
	for i := range b.Len {
		d.scratch = d.scratch[:0]
		for _, v := range b.Columns[:d.keys] {
			d.scratch = tuple.Append(d.scratch, v, i)
		}
		n := len(d.scratch)
		for _, v := range b.Columns[d.keys:] {
			d.scratch = tuple.Append(d.scratch, v, i)
		}
		content := maphash.Bytes(d.seed, d.scratch[n:])
		if err := d.count(d.scratch[:n], content); err != nil {
			return err
		}
		head := binary.AppendUvarint(d.out.AvailableBuffer(), uint64(n))
		head = append(head, d.scratch[:n]...)
		head = binary.LittleEndian.AppendUint64(head, content)
		if _, err := d.out.Write(head); err != nil {
			return err
		}
	}
	return nil
}

// count compares one document with the pane before.
func (d *digester) count(key []byte, content uint64) error {
	for d.before.ok && bytes.Compare(d.before.key, key) < 0 {
		d.counts.left++
		if err := d.before.next(); err != nil {
			return err
		}
	}
	switch {
	case !d.before.ok || !bytes.Equal(d.before.key, key):
		d.counts.added++
		return nil
	case d.before.content != content:
		d.counts.changed++
	}
	return d.before.next()
}

// finish counts what is left of the pane before and returns the digests.
func (d *digester) finish() (*spool.Data, error) {
	for d.before.ok {
		d.counts.left++
		if err := d.before.next(); err != nil {
			return nil, err
		}
	}
	if err := d.out.Flush(); err != nil {
		return nil, err
	}
	return d.spool.Seal()
}

// digestReader walks digests; ok says that key and content are those of one.
type digestReader struct {
	in      *bufio.Reader
	key     []byte
	content uint64
	ok      bool
}

func readDigests(log *spool.Data) (*digestReader, error) {
	r := &digestReader{}
	if log == nil {
		return r, nil
	}
	r.in = bufio.NewReaderSize(log.Section(), 64<<10)
	return r, r.next()
}

func (r *digestReader) next() error {
	n, err := binary.ReadUvarint(r.in)
	if r.ok = err == nil; errors.Is(err, io.EOF) {
		return nil
	}
	var tail [8]byte
	if err == nil {
		r.key = append(r.key[:0], make([]byte, n)...)
		if _, err = io.ReadFull(r.in, r.key); err == nil {
			_, err = io.ReadFull(r.in, tail[:])
		}
	}
	if err != nil {
		return fmt.Errorf("read digests of the live pane: %w", err)
	}
	r.content = binary.LittleEndian.Uint64(tail[:])
	return nil
}

// newDigester starts the digests of a pane with so many key columns, counted
// against before (nil for nothing).
func (p *Pipeline) newDigester(keys int, before *spool.Data) (*digester, error) {
	if p.digests.seed == (maphash.Seed{}) {
		p.digests.seed = maphash.MakeSeed()
	}
	r, err := readDigests(before)
	if err != nil {
		return nil, err
	}
	s := spool.New(p.set.TempDir, p.set.Memory)
	return &digester{seed: p.digests.seed, keys: keys, spool: s, out: bufio.NewWriterSize(s, 64<<10), before: r}, nil
}

// errTooLarge says that the live pane is too large to be read back for counts.
var errTooLarge = errors.New("the live pane is too large to be read back after a restart")

// maxReadBack is the most bytes of a live pane that are read back.
const maxReadBack = 64 << 20

// liveDigests returns the digests of the live pane; after a restart they are
// read back from it, if it is not large.
func (p *Pipeline) liveDigests(ctx context.Context) (*spool.Data, error) {
	if p.seen.live == nil || p.digests.ok && p.digests.ref == p.seen.ref {
		return p.digests.log, nil
	}
	keys, size := 0, int64(0)
	for _, f := range p.seen.live.Schema.Fields {
		if f.Key {
			keys++
		}
	}
	for _, f := range p.seen.live.Files {
		size += f.Bytes
	}
	if size > maxReadBack {
		return nil, errTooLarge
	}
	d, err := p.newDigester(keys, nil)
	if err != nil {
		return nil, err
	}
	if err := p.set.Documents(ctx, *p.seen.live, d.add); err != nil {
		d.spool.Abort()
		return nil, err
	}
	log, err := d.finish()
	if err != nil {
		return nil, err
	}
	p.digests.ref, p.digests.log, p.digests.ok = p.seen.ref, log, true
	return log, nil
}
