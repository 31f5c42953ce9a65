package model

import (
	"fmt"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
)

// actual turns what the model says into what package sink says. Everything is made once, so that asking the real code is cheap.
type actual struct {
	ids    [resetRun + 1]string // of runs
	words  [32]string           // change ids, ETags, nonces, state ids
	marks  [lastMark + 2]sink.Time
	deltas [maxCur + 1][resetRun + 1]sink.DeltaRef
	files  [resetRun + 1][]sink.File
	sets   [1 << (resetRun + 1)][]string
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
	for run := 1; run < len(r.ids); run++ {
		r.ids[run] = sinktest.ID(1, uint64(run))
		r.files[run] = []sink.File{{Key: sink.DataKey(r.ids[run], "part-00000.parquet")}}
		for v := 1; v <= maxCur; v++ {
			r.deltas[v][run] = sink.DeltaRef{Manifest: sink.Manifest{Kind: sink.Delta, Version: int64(v), RunID: r.ids[run]}.Key()}
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
	return out
}

func (r *actual) head(s *state, c current) sink.Head {
	if c.version == absent {
		return sink.Head{}
	}
	return sink.Head{Current: r.current(s, c), ETag: r.words[c.change], Exists: true}
}

var reasons = [...]sink.Reason{sink.Publish, sink.Refine, sink.Reset, sink.Rollback, sink.Claim, sink.Adopt, sink.Collect}

// manifest is pane as sink has it.
func (r *actual) manifest(s *state, pane uint8) (sink.Ref, sink.Manifest) {
	m := s.panes[pane]
	d := r.ref(m)
	out := sink.Manifest{
		Kind: sink.Delta, Version: int64(m.version), RunID: r.ids[m.run], Reason: reasons[m.reason],
		Watermark: &r.marks[m.mark], Progress: &r.marks[m.progress], Files: r.files[m.data],
	}
	if m.parent != 0 {
		p := r.ref(s.panes[m.parent])
		ref := p.Ref()
		out.Parent = &ref
	}
	return d.Ref(), out
}

// evidence is what a collection by a leader that sees head is planned from; everything is as old as can be.
func (r *actual) evidence(s *state, head current, db journal, pins uint8) sink.Evidence {
	ev := sink.Evidence{Head: r.head(s, head), Now: r.now(), Pins: r.sets[pins]}
	s.chain(head.pane, func(_ uint8, m manifest) bool {
		ev.Panes = append(ev.Panes, sink.Published{RunID: r.ids[m.run], DataIDs: r.ids[m.data : m.data+1], Written: r.old()})
		return true
	})
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
