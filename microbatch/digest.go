package microbatch

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/sink"
)

// digest is a document's key and content as hashes, 16 bytes a document.
type digest struct{ key, content uint64 }

// digests are the documents of one pane, sorted by key hash: what the next
// pane is counted against (new, changed, left). They serve the counts alone.
type digests struct {
	seed maphash.Seed
	ref  sink.Ref
	docs []digest
	ok   bool
	// pending are those of the pane being written.
	pending []digest
}

// digester gathers the digests of a pane that is being written.
type digester struct {
	seed    maphash.Seed
	keys    int
	docs    []digest
	scratch []byte
}

func (d *digester) add(b *column.Batch) {
	for i := range b.Len {
		d.scratch = d.scratch[:0]
		for _, v := range b.Columns[:d.keys] {
			d.scratch = tuple.Append(d.scratch, v, i)
		}
		key := maphash.Bytes(d.seed, d.scratch)
		for _, v := range b.Columns[d.keys:] {
			d.scratch = tuple.Append(d.scratch, v, i)
		}
		d.docs = append(d.docs, digest{key, maphash.Bytes(d.seed, d.scratch)})
	}
}

func (d *digester) sorted() []digest {
	slices.SortFunc(d.docs, func(a, b digest) int { return cmp.Compare(a.key, b.key) })
	return d.docs
}

// compare counts the documents that are new, changed and gone between two
// sorted lists.
func compare(before, after []digest) (added, changed, left int64) {
	i, j := 0, 0
	for i < len(before) || j < len(after) {
		switch {
		case j == len(after) || i < len(before) && before[i].key < after[j].key:
			left++
			i++
		case i == len(before) || before[i].key > after[j].key:
			added++
			j++
		default:
			if before[i].content != after[j].content {
				changed++
			}
			i++
			j++
		}
	}
	return added, changed, left
}

// liveDigests returns the digests of the live pane; after a restart they are
// read back from it.
func (p *Pipeline) liveDigests(ctx context.Context) ([]digest, error) {
	if p.seen.live == nil || p.digests.ok && p.digests.ref == p.seen.ref {
		return p.digests.docs, nil
	}
	keys := 0
	for _, f := range p.seen.live.Schema.Fields {
		if f.Key {
			keys++
		}
	}
	d := p.newDigester(keys)
	err := p.set.Documents(ctx, *p.seen.live, func(b *column.Batch) error {
		d.add(b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.digests.ref, p.digests.docs, p.digests.ok = p.seen.ref, d.sorted(), true
	return p.digests.docs, nil
}

func (p *Pipeline) newDigester(keys int) *digester {
	if p.digests.seed == (maphash.Seed{}) {
		p.digests.seed = maphash.MakeSeed()
	}
	return &digester{seed: p.digests.seed, keys: keys}
}
