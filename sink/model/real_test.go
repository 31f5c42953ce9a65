package model

import (
	"fmt"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
)

// actual turns what the model says into what package sink says. Everything is made once, so that asking the real code is cheap.
type actual struct {
	ids         [maxIDs + 1]string // of runs and generations
	words       [32]string         // change ids, ETags, nonces, state ids
	marks       [lastMark + 2]sink.Time
	deltas      [maxCur + 1][resetRun + 1]sink.DeltaRef
	files       [resetRun + 1][]sink.File
	generations [maxBases + 1]sink.BaseRef
	sets        [1 << (maxIDs + 1)][]string
	layers      [1 << (resetRun + 1)][]sink.File // of a pane that is made of a set of runs
}

// old is long before now: whatever an age protects is not protected here.
func (r *actual) old() time.Time { return sinktest.Hour(0) }
func (r *actual) now() time.Time { return sinktest.Hour(24 * 365) }

func newReal() *actual {
	r := &actual{}
	for i := range r.words {
		r.words[i] = fmt.Sprintf("w%02d", i)
	}
	for i := range r.marks {
		r.marks[i] = sink.At(sinktest.Hour(i))
	}
	for id := range r.ids {
		r.ids[id] = sinktest.ID(1, uint64(id))
	}
	for base := uint8(1); base <= maxBases; base++ {
		id := r.ids[generation(base)]
		r.generations[base] = sink.BaseRef{Generation: id, Manifest: sink.FullKey(id, "manifest.json"), SHA256: id, Cut: r.marks[0]}
	}
	for run := 1; run <= resetRun; run++ {
		r.files[run] = []sink.File{{Key: sink.DataKey(r.ids[run], "part-00000.parquet")}}
		for v := 1; v <= maxCur; v++ {
			r.deltas[v][run] = sink.DeltaRef{Manifest: sink.Manifest{Kind: sink.Delta, Version: int64(v), RunID: r.ids[run]}.Key()}
		}
	}
	for set := range r.layers {
		for run := uint8(1); run <= resetRun; run++ {
			if has(uint8(set), run) {
				f := r.files[run][0]
				f.Layer = len(r.layers[set])
				r.layers[set] = append(r.layers[set], f)
			}
		}
	}
	for set := range r.sets {
		r.sets[set] = []string{}
		for run := 1; run < len(r.ids); run++ {
			if has(uint8(set), uint8(run)) {
				r.sets[set] = append(r.sets[set], r.ids[run])
			}
		}
	}
	return r
}

func (r *actual) setOf(ids []string) (set uint8) {
	for _, id := range ids {
		for run := 1; run < len(r.ids); run++ {
			if r.ids[run] == id {
				set |= bit(uint8(run))
			}
		}
	}
	return set
}

func (r *actual) owner(epoch, nonce, state uint8) sink.Owner {
	return sink.Owner{Epoch: int64(epoch), Nonce: r.words[nonce], State: r.words[state]}
}

func (r *actual) ownerOf(c current) sink.Owner { return r.owner(c.epoch, c.nonce, c.state) }

func (r *actual) ref(m manifest) sink.DeltaRef { return r.deltas[m.version][m.run] }

// current is c as sink has it; s resolves its pane.
func (r *actual) current(s *state, c current) sink.Current {
	change := c.change
	if c.reason == reset {
		change = resetChange
	}
	out := sink.Current{Version: int64(c.version), ChangeID: r.words[change], Reason: reasons[c.reason], Owner: r.ownerOf(c), Condemned: r.sets[c.condemned]}
	if c.pane != 0 {
		m := s.panes[c.pane]
		out.RunID, out.Delta = r.ids[m.run], &r.deltas[m.version][m.run]
		out.Watermark, out.Progress = &r.marks[m.mark], &r.marks[m.progress]
	}
	if c.base != 0 {
		out.Base = &r.generations[c.base]
	}
	return out
}

func (r *actual) head(s *state, c current) sink.Head {
	if c.version == absent {
		return sink.Head{}
	}
	return sink.Head{Current: r.current(s, c), ETag: r.words[c.change], Exists: true}
}

var reasons = [...]sink.Reason{sink.Publish, sink.Refine, sink.Reset, sink.Rollback, sink.Claim, sink.Adopt, sink.Collect, sink.Promote}

// manifest is pane as sink has it.
func (r *actual) manifest(s *state, pane uint8) (sink.Ref, sink.Manifest) {
	m := s.panes[pane]
	d := r.ref(m)
	out := sink.Manifest{
		Kind: sink.Delta, Version: int64(m.version), RunID: r.ids[m.run], Reason: reasons[m.reason],
		Watermark: &r.marks[m.mark], Progress: &r.marks[m.progress], Files: r.layers[m.data],
	}
	if m.parent != 0 {
		p := r.ref(s.panes[m.parent])
		ref := p.Ref()
		out.Parent = &ref
	}
	if m.base != 0 {
		b := r.generations[m.base]
		out.Base = &sink.ManifestBase{Generation: b.Generation, Cut: b.Cut, Manifest: b.Manifest, SHA256: b.SHA256}
	}
	for base := uint8(1); base <= maxBases; base++ {
		if b := r.generations[base]; has(m.supports, base) {
			out.Supports = append(out.Supports, sink.Support{Generation: b.Generation, Cut: b.Cut, Manifest: b.Manifest, SHA256: b.SHA256, Until: sink.At(r.until())})
		}
	}
	if m.former != 0 {
		f, b := s.panes[m.former], r.generations[s.panes[m.former].base]
		pane := r.ref(f)
		out.History = []sink.Former{{Generation: b.Generation, Cut: b.Cut, Pane: pane.Ref()}}
	}
	return d.Ref(), out
}

// until is when supports end, which now is before, and expired is after.
func (r *actual) until() time.Time   { return r.now().Add(time.Hour) }
func (r *actual) expired() time.Time { return r.until() }

// lineage gives m, a manifest over the pane parent, what the real Inherit and Leave say follows from that. expired says that what was
// supported is so no more.
func (r *actual) lineage(s *state, parent uint8, m *manifest, expired bool) {
	if parent == 0 {
		return
	}
	ref, from := r.manifest(s, parent)
	var to sink.Manifest
	if m.base != 0 {
		to.Base = &sink.ManifestBase{Generation: r.ids[generation(m.base)]}
	}
	now := r.now()
	if expired {
		now = r.expired()
	}
	if m.reason == promote || m.reason == rollback {
		to = sink.Leave(to, from, ref, now, r.until())
	} else {
		to = sink.Inherit(to, from, now)
	}
	for _, f := range to.Supports {
		m.supports |= bit(lowest(r.setOf([]string{f.Generation})) - resetRun)
	}
	for _, f := range to.History {
		for pane := uint8(1); pane <= maxPanes; pane++ {
			if d := r.ref(s.panes[pane]); s.panes[pane].written != 0 && d.Ref() == f.Pane {
				m.former = pane
			}
		}
	}
}

// evidence is what a collection by a leader that sees head is planned from; everything is as old as can be.
func (r *actual) evidence(s *state, head current, db journal, pins uint8) sink.Evidence {
	ev := sink.Evidence{Head: r.head(s, head), Now: r.now(), Pins: r.sets[pins]}
	s.chain(head.pane, func(_ uint8, m manifest) bool {
		ev.Panes = append(ev.Panes, r.published(m))
		return true
	})
	if head.pane != 0 && s.panes[head.pane].former != 0 {
		ev.History = []sink.Published{r.published(s.panes[s.panes[head.pane].former])}
	}
	for base := uint8(1); base <= maxBases; base++ {
		if has(s.data, generation(base)) {
			ev.Full = append(ev.Full, sink.Object{Key: sink.FullKey(r.ids[generation(base)], "part-00000.parquet"), Modified: r.old()})
		}
		if has(db.candidates, base) {
			ev.Candidates = append(ev.Candidates, r.ids[generation(base)])
		}
	}
	for run := uint8(1); run <= maxRuns; run++ {
		if has(s.data, run) {
			ev.Data = append(ev.Data, sink.Object{Key: r.files[run][0].Key, Modified: r.old()})
		}
	}
	for run, st := range db.status {
		if st == planned {
			ev.Live = append(ev.Live, r.ids[run])
		}
	}
	return ev
}

// published is a pane as a collection has it.
func (r *actual) published(m manifest) sink.Published {
	p := sink.Published{RunID: r.ids[m.run], DataIDs: r.sets[m.data], Written: r.old()}
	if m.base != 0 {
		p.Base = r.ids[generation(m.base)]
	}
	for base := uint8(1); base <= maxBases; base++ {
		if has(m.supports, base) {
			p.Supports = append(p.Supports, r.ids[generation(base)])
		}
	}
	return p
}
