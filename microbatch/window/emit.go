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
	lost      bool // it did when the emission began

	asked []uint32 // the groups that are extracted
	keys  [][]byte // of these
	fresh Documents
	out   Documents

	teller *teller // nil where nobody asks for what has changed, or nobody can tell
	one    [1]uint32

	proofs  []uint32 // groups of the block that are extracted to see that what is kept is that
	touched []uint32 // and all that are to be extracted
	docs    []uint32 // those that are documents
	stones  []uint32 // and those that are tombstones
}

// emit hands the documents over in key order. It extracts those that were
// touched since it last did, and those that the sampler takes: the canary
// compares accumulators, and what is kept must be what they make.
func (r *Rolling) emit(bound *index.Bound, base *Base, sampler *Sampler, to Receiver, did *Rolled) error {
	e, err := r.newEmitter(bound, base)
	if err != nil {
		return err
	}
	d := &r.documents
	defer func() {
		if e.lost {
			d.refuse(r.keys.Len())
		}
	}()
	last := d.mark
	d.mark = nil // until all rows were taken
	if to.Since != nil && to.Since == last {
		if e.teller, err = r.newTeller(to.Changes, e.fresh.Docs, e.fresh.Tombstones); err != nil {
			return err
		}
	}
	did.Told = e.teller != nil
	if did.Told && to.Alone {
		err = e.few(sampler)
	} else {
		err = e.all(sampler, to.Rows)
	}
	if err != nil {
		return err
	}
	if did.Told {
		if err := e.teller.end(r); err != nil {
			return err
		}
	}
	return e.end(did)
}

// end says that all rows were emitted.
func (e *emitter) end(did *Rolled) error {
	if !e.keeps && e.teller == nil {
		return nil
	}
	d, r := &e.r.documents, e.r
	for _, g := range d.gone {
		if r.holders[g] == 0 {
			d.is(g, NoRow)
		}
	}
	d.gone = d.gone[:0]
	did.Documents, did.Tombstones = d.counts[DocumentRow], d.counts[TombstoneRow]
	if n := did.Documents + did.Tombstones; n != int64(len(r.order)) {
		return fmt.Errorf("%w: %d rows are known of %d keys", ErrUnreadable, n, len(r.order))
	}
	if err := d.compact(); err != nil {
		return err
	}
	if e.keeps && r.o.Hasher.Valid() {
		d.mark = &Mark{}
		did.Mark = d.mark
	}
	return nil
}

// all emits every row.
func (e *emitter) all(sampler *Sampler, emit func(Documents) error) error {
	r := e.r
	for rest := r.order; len(rest) > 0; {
		groups := rest[:min(foldBlock, len(rest))]
		rest = rest[len(groups):]
		for i := sampler.pass(len(groups)); i < len(groups); i += sampler.pass(len(groups) - i) {
			if e.sample(sampler, groups[i]) {
				e.proofs = append(e.proofs, groups[i])
			}
			i++
		}
		if err := e.block(groups); err != nil {
			return err
		}
		if e.teller != nil {
			if err := e.teller.flush(); err != nil {
				return err
			}
		}
		if err := emit(e.out); err != nil {
			return err
		}
	}
	return nil
}

// few makes out the rows that were touched, and tells of them.
func (e *emitter) few(sampler *Sampler) error {
	clean := e.r.documents.clean
	e.touched = e.touched[:0]
	for rest := e.r.order; len(rest) > 0; {
		n := min(sampler.pass(len(rest)), foldBlock)
		for _, g := range rest[:n] {
			if !clean[g] {
				e.touched = append(e.touched, g)
			}
		}
		if rest = rest[n:]; n == 0 {
			g := rest[0]
			if rest = rest[1:]; e.sample(sampler, g) || !clean[g] {
				e.touched = append(e.touched, g)
			}
		}
		if len(e.touched) < foldBlock && len(rest) > 0 {
			continue
		}
		if err := e.renew(); err != nil {
			return err
		}
		if err := e.teller.flush(); err != nil {
			return err
		}
		e.within()
		e.touched = e.touched[:0]
	}
	return nil
}

// sample offers a group to the sampler and says whether it took it.
func (e *emitter) sample(sampler *Sampler, g uint32) bool {
	r := e.r
	key := r.keys.Bytes(g)
	if !sampler.wants(key, r.based[g] || r.holders[g] > 1) {
		return false
	}
	e.one[0] = g
	e.sampled.show(e.one[:])
	sampler.keep(key, e.sampled.columns, 0)
	return true
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

// within lets the values of documents go if they take more memory than there
// may be, and at the end of the emission what else is known of them.
func (e *emitter) within() {
	if e.keeps && e.r.documents.bytes() > e.spare {
		e.keeps, e.lost = false, true
		e.r.documents.columns = nil
	}
}

// block makes out the documents of the groups.
func (e *emitter) block(groups []uint32) error {
	e.out.reset()
	proofs := e.proofs
	e.proofs = e.proofs[:0]
	if !e.keeps {
		if err := e.extract(groups, &e.out); err != nil || e.teller == nil {
			return err
		}
		return e.made(groups, &e.out)
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
		if d.rows[g] == TombstoneRow {
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
	e.fresh.reset()
	if err := e.extract(e.touched, &e.fresh); err != nil {
		return err
	}
	if err := e.made(e.touched, &e.fresh); err != nil || !e.keeps {
		return err
	}
	return e.r.documents.keep(e.docs, e.fresh.Docs, e.stones, e.fresh.Tombstones)
}

// made takes note of what groups were extracted to, and parts them.
func (e *emitter) made(groups []uint32, rows *Documents) error {
	e.split(groups)
	d := &e.r.documents
	if g, ok := d.stale(e.docs, rows.Hashes, e.stones); ok {
		return fmt.Errorf("%w: what was kept of the document of key %x is not what its accumulators make", ErrUnreadable, e.r.keys.Bytes(g))
	}
	if e.teller != nil {
		e.teller.look(e.r, groups, e.extractor.Alive(), rows)
	}
	d.made(e.docs, rows.Hashes, e.stones)
	return nil
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
