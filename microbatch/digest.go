package microbatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/sink"
)

// digests are the documents of the live pane in key order, each as its key and
// a hash of its content: what the next pane is counted against (new, changed,
// left). They serve the counts alone.
type digests struct {
	hasher window.Hasher
	ref    sink.Ref
	log    *spool.Data // nil for a pane without documents
	ok     bool
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

// digestBlock is documents whose digests are written together: how many they
// are and how long their keys are, where each key ends, the keys, the hashes.
type digestBlock struct {
	ends    []uint32
	keys    []byte
	content []uint64
}

// A block ends with so many documents, or with the key that makes it so long.
const (
	digestDocuments = 1 << 12
	digestBytes     = 1 << 20
	digestHead      = 8
)

func (b *digestBlock) reset() { b.ends, b.keys, b.content = b.ends[:0], b.keys[:0], b.content[:0] }

func (b *digestBlock) full() bool {
	return len(b.ends) >= digestDocuments || len(b.keys) >= digestBytes
}

func (b *digestBlock) add(key []byte, content uint64) {
	b.keys = append(b.keys, key...)
	b.ends = append(b.ends, uint32(len(b.keys)))
	b.content = append(b.content, content)
}

func (b *digestBlock) append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.ends)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.keys)))
	for _, end := range b.ends {
		dst = binary.LittleEndian.AppendUint32(dst, end)
	}
	dst = append(dst, b.keys...)
	for _, sum := range b.content {
		dst = binary.LittleEndian.AppendUint64(dst, sum)
	}
	return dst
}

// digester writes the digests of a pane and counts its documents against
// those of the pane before, both in one pass over key order.
type digester struct {
	hasher window.Hasher
	keys   int // columns
	spool  *spool.Spool
	block  digestBlock
	out    []byte
	before *digestReader
	key    []byte
	hashes []window.Hash
	counts struct{ added, changed, left int64 }
}

// add takes documents in ascending order of key.
func (d *digester) add(b *column.Batch) error {
	d.hashes = d.hasher.Append(d.hashes[:0], b.Columns[d.keys:], b.Len)
	for i, content := range d.hashes {
		d.key = tuple.AppendRow(d.key[:0], b.Columns[:d.keys], i)
		if err := d.digest(d.key, content[0]); err != nil {
			return err
		}
	}
	return nil
}

// documents is add of what a fold emits, which has keys and mostly hashes at
// hand. Most keys are those of the pane before, and are seen to be in place.
func (d *digester) documents(out window.Documents) error {
	hashes := out.Hashes
	if len(hashes) != out.Docs.Len {
		d.hashes = d.hasher.Append(d.hashes[:0], out.Docs.Columns[d.keys:], out.Docs.Len)
		hashes = d.hashes
	}
	r := d.before
	for i, key := range out.Keys {
		content := hashes[i][0]
		if !r.ok || !bytes.Equal(r.key(), key) {
			if err := d.digest(key, content); err != nil {
				return err
			}
			continue
		}
		if r.content() != content {
			d.counts.changed++
		}
		if r.step(); !r.ok {
			if err := r.load(); err != nil {
				return err
			}
		}
		if err := d.note(key, content); err != nil {
			return err
		}
	}
	return nil
}

// digest takes one document.
func (d *digester) digest(key []byte, content uint64) error {
	if err := d.count(key, content); err != nil {
		return err
	}
	return d.note(key, content)
}

// note writes the digest of a document.
func (d *digester) note(key []byte, content uint64) error {
	if d.block.add(key, content); d.block.full() {
		return d.flush()
	}
	return nil
}

func (d *digester) flush() error {
	if len(d.block.ends) == 0 {
		return nil
	}
	d.out = d.block.append(d.out[:0])
	d.block.reset()
	_, err := d.spool.Write(d.out)
	return err
}

// count compares one document with the pane before.
func (d *digester) count(key []byte, content uint64) error {
	r := d.before
	for r.ok && !bytes.Equal(r.key(), key) {
		if bytes.Compare(r.key(), key) > 0 {
			d.counts.added++
			return nil
		}
		d.counts.left++
		if err := r.next(); err != nil {
			return err
		}
	}
	if !r.ok {
		d.counts.added++
		return nil
	}
	if r.content() != content {
		d.counts.changed++
	}
	return r.next()
}

// finish counts what is left of the pane before and returns the digests.
func (d *digester) finish() (*spool.Data, error) {
	for d.before.ok {
		d.counts.left++
		if err := d.before.next(); err != nil {
			return nil, err
		}
	}
	if err := d.flush(); err != nil {
		return nil, err
	}
	return d.spool.Seal()
}

// digestReader walks digests; ok says that it stands at one.
type digestReader struct {
	in   *io.SectionReader
	left int64  // bytes of in behind the block
	raw  []byte // the block but for its head: ends, keys, hashes
	n    int    // documents of the block
	size int    // bytes of their keys
	at   int    // the one it stands at
	from int    // where its key begins
	ok   bool
}

func readDigests(log *spool.Data) (*digestReader, error) {
	r := &digestReader{}
	if log == nil {
		return r, nil
	}
	r.in = log.Section()
	r.left = r.in.Size()
	return r, r.load()
}

func (r *digestReader) end() int { return int(binary.LittleEndian.Uint32(r.raw[4*r.at:])) }

// key is that of the document it stands at, until the next one.
func (r *digestReader) key() []byte { return r.raw[4*r.n+r.from : 4*r.n+r.end()] }

func (r *digestReader) content() uint64 {
	return binary.LittleEndian.Uint64(r.raw[4*r.n+r.size+8*r.at:])
}

// step goes on within the block; ok is false at its end, where load goes on.
func (r *digestReader) step() {
	r.from = r.end()
	r.at++
	r.ok = r.at < r.n
}

func (r *digestReader) next() error {
	if r.step(); r.ok {
		return nil
	}
	return r.load()
}

var errDigests = errors.New("they do not hold together")

// load takes in a block, if there is another.
func (r *digestReader) load() error {
	r.ok = false
	if r.left == 0 {
		return nil
	}
	if err := r.read(); err != nil {
		return fmt.Errorf("read digests of the live pane: %w", err)
	}
	r.ok = true
	return nil
}

func (r *digestReader) read() error {
	var head [digestHead]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return err
	}
	n, size := int64(binary.LittleEndian.Uint32(head[:])), int64(binary.LittleEndian.Uint32(head[4:]))
	if r.left -= digestHead + 12*n + size; n == 0 || r.left < 0 {
		return errDigests
	}
	r.raw = slices.Grow(r.raw[:0], int(12*n+size))[:12*n+size]
	if _, err := io.ReadFull(r.in, r.raw); err != nil {
		return err
	}
	r.n, r.size, r.at, r.from = int(n), int(size), 0, 0
	last := uint32(0)
	for i := range n {
		end := binary.LittleEndian.Uint32(r.raw[4*i:])
		if end < last || int64(end) > size {
			return errDigests
		}
		last = end
	}
	return nil
}

// newDigester starts the digests of a pane with so many key columns, counted
// against before (nil for nothing).
func (p *Pipeline) newDigester(keys int, before *spool.Data) (*digester, error) {
	r, err := readDigests(before)
	if err != nil {
		return nil, err
	}
	s := spool.New(p.set.TempDir, p.set.Memory)
	return &digester{hasher: p.digests.hasher, keys: keys, spool: s, before: r}, nil
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
