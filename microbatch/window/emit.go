package window

import (
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
)

// emit extracts the documents in key order.
func (r *Rolling) emit(bound *index.Bound, base *Base, sampler *Sampler, emit func(Documents) error) error {
	var pending []bool
	if base != nil {
		pending = base.Join.Pending
	}
	extractor, err := bound.NewExtractor(pending)
	if err != nil {
		return err
	}
	shown, err := newViews(r.cells)
	if err != nil {
		return err
	}
	out := Documents{Docs: column.NewBatch(bound.Schema()), Tombstones: column.NewBatch(bound.Shape().Keys)}
	var groups []uint32
	extractor.Absent = func(i uint32) bool { return !r.based[groups[i]] && r.unnamed[groups[i]] == 0 }
	keys := make([][]byte, 0, foldBlock)
	for rest := r.order; len(rest) > 0; rest = rest[len(groups):] {
		groups, keys = rest[:min(foldBlock, len(rest))], keys[:0]
		for _, g := range groups {
			keys = append(keys, r.keys.Bytes(g))
		}
		shown.show(groups)
		for i, g := range groups {
			sampler.Offer(keys[i], shown.columns, uint32(i), r.based[g] || r.holders[g] > 1)
		}
		out.Docs.Reset()
		out.Tombstones.Reset()
		if err := extractor.Extract(keys, shown.columns, out.Docs, out.Tombstones); err != nil {
			return err
		}
		if err := emit(out); err != nil {
			return err
		}
	}
	return nil
}
