package window

import (
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
)

// emitter hands the documents of a Rolling over, a block at a time.
type emitter struct {
	r         *Rolling
	extractor *index.Extractor
	shown     *views // of the groups that are extracted
	sampled   *views // of the one that the sampler takes
	keyed     int    // key columns
	spare     int64  // bytes that documents may hold
	keeps     bool

	asked []uint32 // the groups that are extracted
	keys  [][]byte // of these
	fresh Documents
	out   Documents

	proofs  []uint32 // groups of the block that are extracted to see that what is kept is that
	touched []uint32 // and all that are to be extracted
	docs    []uint32 // those that are documents
	stones  []uint32 // and those that are tombstones
}

// emit hands the documents over in key order. It extracts those that were
// touched since it last did, and those that the sampler takes: the canary
// compares accumulators, and what is kept must be what they make.
func (r *Rolling) emit(bound *index.Bound, base *Base, sampler *Sampler, emit func(Documents) error) error {
	e, err := r.newEmitter(bound, base)
	if err != nil {
		return err
	}
	one := make([]uint32, 1)
	for rest := r.order; len(rest) > 0; {
		groups := rest[:min(foldBlock, len(rest))]
		rest = rest[len(groups):]
		for _, g := range groups {
			key := r.keys.Bytes(g)
			if sampler.wants(key, r.based[g] || r.holders[g] > 1) {
				one[0] = g
				e.sampled.show(one)
				sampler.keep(key, e.sampled.columns, 0)
				e.proofs = append(e.proofs, g)
			}
		}
		if err := e.block(groups); err != nil {
			return err
		}
		if err := emit(e.out); err != nil {
			return err
		}
	}
	return r.documents.compact()
}

func (r *Rolling) newEmitter(bound *index.Bound, base *Base) (*emitter, error) {
	var pending []bool
	if base != nil {
		pending = base.Join.Pending
	}
	schema, keys := bound.Schema(), bound.Shape().Keys
	e := &emitter{r: r, keyed: len(keys), spare: r.budget() - r.accumulated(), keeps: r.documents.welcome(r.keys.Len())}
	var err error
	if e.extractor, err = bound.NewExtractor(pending); err != nil {
		return nil, err
	}
	e.extractor.Absent = func(i uint32) bool { return !r.based[e.asked[i]] && r.unnamed[e.asked[i]] == 0 }
	if e.shown, err = newViews(r.cells); err != nil {
		return nil, err
	}
	if e.sampled, err = newViews(r.cells); err != nil {
		return nil, err
	}
	e.fresh = Documents{Docs: column.NewBatch(schema), Tombstones: column.NewBatch(keys)}
	e.out = Documents{Docs: column.NewBatch(schema), Tombstones: column.NewBatch(keys)}
	if e.keeps {
		r.documents.begin(schema, len(keys), r.keys.Len(), pending)
		e.within()
	}
	return e, nil
}

// within lets the documents go if they take more memory than there may be.
func (e *emitter) within() {
	if e.r.documents.bytes() > e.spare {
		e.keeps = false
		e.r.documents.refuse(e.r.keys.Len())
	}
}

// block makes out the documents of the groups.
func (e *emitter) block(groups []uint32) error {
	e.out.Docs.Reset()
	e.out.Tombstones.Reset()
	e.out.Keys, e.out.Hashes = e.out.Keys[:0], e.out.Hashes[:0]
	proofs := e.proofs
	e.proofs = e.proofs[:0]
	if !e.keeps {
		return e.extract(groups, &e.out)
	}
	d := &e.r.documents
	e.touched = e.touched[:0]
	for _, g := range groups {
		proof := len(proofs) > 0 && proofs[0] == g
		if proof {
			proofs = proofs[1:]
		}
		if proof || !d.clean[g] {
			e.touched = append(e.touched, g)
		}
	}
	if err := e.renew(); err != nil {
		return err
	}
	e.docs, e.stones = e.docs[:0], e.stones[:0]
	for _, g := range groups {
		if d.stone[g] {
			e.stones = append(e.stones, g)
			continue
		}
		e.docs = append(e.docs, g)
		e.out.Keys = append(e.out.Keys, e.r.keys.Bytes(g))
		if e.r.o.Hasher.Valid() {
			e.out.Hashes = append(e.out.Hashes, d.hashes[g])
		}
	}
	if err := d.append(&e.out, e.docs, e.stones); err != nil {
		return err
	}
	e.within()
	return nil
}

// renew extracts the groups that were touched and keeps what they make.
func (e *emitter) renew() error {
	if len(e.touched) == 0 {
		return nil
	}
	d := &e.r.documents
	e.fresh.Docs.Reset()
	e.fresh.Tombstones.Reset()
	e.fresh.Keys, e.fresh.Hashes = e.fresh.Keys[:0], e.fresh.Hashes[:0]
	if err := e.extract(e.touched, &e.fresh); err != nil {
		return err
	}
	e.split(e.touched)
	if g, ok := d.stale(e.docs, e.fresh.Hashes, e.stones); ok {
		return fmt.Errorf("%w: what was kept of the document of key %x is not what its accumulators make", ErrUnreadable, e.r.keys.Bytes(g))
	}
	return d.keep(e.docs, e.fresh.Docs, e.fresh.Hashes, e.stones, e.fresh.Tombstones)
}

// split parts groups that were extracted into documents and tombstones.
func (e *emitter) split(groups []uint32) {
	e.docs, e.stones = e.docs[:0], e.stones[:0]
	alive := e.extractor.Alive()
	for i, g := range groups {
		if len(alive) > 0 && alive[0] == uint32(i) {
			e.docs, alive = append(e.docs, g), alive[1:]
		} else {
			e.stones = append(e.stones, g)
		}
	}
}

// extract appends the documents of the groups as their accumulators have them.
func (e *emitter) extract(groups []uint32, into *Documents) error {
	e.asked, e.keys = groups, e.keys[:0]
	for _, g := range groups {
		e.keys = append(e.keys, e.r.keys.Bytes(g))
	}
	e.shown.show(groups)
	if err := e.extractor.Extract(e.keys, e.shown.columns, into.Docs, into.Tombstones); err != nil {
		return err
	}
	for _, i := range e.extractor.Alive() {
		into.Keys = append(into.Keys, e.keys[i])
	}
	into.Hashes = e.r.o.Hasher.documents(into.Hashes, into.Docs, e.keyed)
	return nil
}
