package window

import (
	"time"

	"github.com/deltad/deltad/microbatch/index"
)

// Accumulators are those of every key, by fn.
func (r *Rolling) Accumulators() map[string][][]byte {
	out := map[string][][]byte{}
	for _, g := range r.order {
		accs := make([][]byte, len(r.cells))
		for j, c := range r.cells {
			accs[j] = c.column.AppendAcc(nil, c.at(g))
		}
		out[string(r.keys.Bytes(g))] = accs
	}
	return out
}

// Pass lets keys go by that the sampler wants for sure none of.
func (s *Sampler) Pass(n int) int { return s.pass(n) }

// LookUp sets how many keys are looked up in slices before nodes are made.
func (r *Rolling) LookUp(n int) { r.lookups = n }

// Share sets which part of the budget a fn has to take accumulators out again.
func (r *Rolling) Share(n int64) { r.share = n }

// Extracted is how many documents were extracted of those whose groups were
// kept, since the Rolling began.
func (r *Rolling) Extracted() int64 { return r.documents.extracted }

// Limit changes the budget.
func (r *Rolling) Limit(bytes int64) { r.o.Budget = bytes }

// DocumentBytes is the memory that documents hold.
func (r *Rolling) DocumentBytes() int64 { return r.documents.bytes() }

// Bring brings the accumulators up to date without documents.
func (r *Rolling) Bring(bound *index.Bound, sources []Source, n time.Time) (Rolled, error) {
	now, rows, _ := r.sources(bound, sources, nil, n)
	did, _, err := r.bring(func() error { return nil }, bound, now, rows, nil)
	return did, err
}

// Forge makes the kept documents others than they were, or tombstones.
func (r *Rolling) Forge(stones bool) {
	d := &r.documents
	for g := range d.hashes {
		switch {
		case !stones:
			d.hashes[g][1]++
		case d.rows[g] == DocumentRow:
			d.is(uint32(g), TombstoneRow)
		case d.rows[g] == TombstoneRow:
			d.is(uint32(g), DocumentRow)
		}
	}
}
