package watermarktest

import (
	"errors"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"pgregory.net/rapid"
)

// rebuildHistories lets people, a schedule, two instances that come and go and
// a leader do anything in any order, and checks after each step that at most
// one rebuild is open, that a scheduled time has one row and keeps it, that
// what is ready was approved and is not barred, and that what ended stays so.
func rebuildHistories(t *testing.T, db Database) {
	s := Migrated(t, db)
	rapid.Check(t, func(rt *rapid.T) {
		p := "p" + ID()
		h := &histories{
			t: t, rt: rt, s: s, db: db, pipeline: p, due: map[time.Time]string{}, seen: map[string]watermark.Rebuild{},
		}
		h.delta = Acquire(t, s, p, watermark.RoleDelta)
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 8), 4, 9).Draw(rt, "steps") {
			h.step(step)
			h.check()
		}
	})
}

type histories struct {
	t        *testing.T
	rt       *rapid.T
	s        watermark.Store
	db       Database
	pipeline string
	delta    watermark.Lease
	full     []watermark.Lease // the newest last; the others are fenced
	version  int64
	live     string // the generation CURRENT has as its base

	due  map[time.Time]string
	seen map[string]watermark.Rebuild
}

// settle passes over errors that the rules allow.
func (h *histories) settle(err error, allowed ...error) bool {
	for _, a := range allowed {
		if errors.Is(err, a) {
			return false
		}
	}
	if err != nil {
		h.rt.Fatal(err)
	}
	return true
}

// pick is a known rebuild, or an id that is none.
func (h *histories) pick() string {
	all, err := h.s.Rebuilds(Context(h.t), h.pipeline, 4, "")
	if err != nil {
		h.rt.Fatal(err)
	}
	if n := rapid.IntRange(0, 4).Draw(h.rt, "rebuild"); n < len(all) {
		return all[n].ID
	}
	return ID()
}

func (h *histories) step(n int) {
	ctx := Context(h.t)
	switch n {
	case 0:
		r := manual()
		r.Pipeline = h.pipeline
		_, err := h.s.CreateRebuild(ctx, r)
		h.settle(err, watermark.ErrConflict)
	case 1:
		r := scheduled(at(rapid.IntRange(0, 3).Draw(h.rt, "due")))
		r.Pipeline = h.pipeline
		got, err := h.s.CreateRebuild(ctx, r)
		if !h.settle(err, watermark.ErrConflict) {
			got = r // skipped under its own id
		}
		if known, ok := h.due[r.Due]; ok && known != got.ID {
			h.rt.Fatalf("%s was rebuild %s and is %s", r.Due, known, got.ID)
		}
		h.due[r.Due] = got.ID
	case 2: // the database's clock passes the expiry
		if err := h.db.Exec(h.t, `UPDATE deltad_lease SET expires_at = acquired_at WHERE role = 'full' AND pipeline = '`+h.pipeline+`'`); err != nil {
			h.rt.Fatal(err)
		}
		h.full = append(h.full, Acquire(h.t, h.s, h.pipeline, watermark.RoleFull))
	case 3, 4, 5:
		h.hold(n)
	case 6:
		_, err := h.s.CancelRebuild(ctx, h.pick(), change("x"))
		h.settle(err, watermark.ErrConflict, watermark.ErrNotFound)
	case 7:
		_, err := h.s.ApproveRebuild(ctx, h.pipeline, h.pick(), []string{"documents"}, change("checked by hand"))
		h.settle(err, watermark.ErrConflict, watermark.ErrNotFound)
	case 8:
		h.lead()
	}
}

// hold is what the holder of a full lease does, or one that lost it.
func (h *histories) hold(n int) {
	if len(h.full) == 0 {
		return
	}
	ctx := Context(h.t)
	who := rapid.IntRange(0, len(h.full)-1).Draw(h.rt, "holder")
	l, mine := h.full[who], who == len(h.full)-1
	id := h.pick()
	var err error
	switch n {
	case 3:
		_, err = h.s.StartRebuild(ctx, l, id)
	case 4:
		_, err = h.s.ProgressRebuild(ctx, l, id, watermark.RebuildProgress{Phase: "read", Done: 1})
	case 5:
		res := made(id, rapid.SampledFrom([]watermark.RebuildState{watermark.RebuildCandidate, watermark.RebuildHeld}).Draw(h.rt, "end"))
		res.Approved = res.State == watermark.RebuildCandidate
		err = h.s.FinishRebuild(ctx, l, id, res)
	}
	if !mine && !errors.Is(err, watermark.ErrFenced) {
		h.rt.Fatalf("a holder that lost the lease got %v", err)
	}
	if mine {
		h.settle(err, watermark.ErrConflict, watermark.ErrNotFound)
	}
}

// lead is the leader's turn: it promotes what is ready, else it rolls back.
func (h *histories) lead() {
	ctx := Context(h.t)
	h.version++
	pub := Published(Planned(h.delta, int(h.version)), h.version)
	r, err := h.s.ReadyRebuild(ctx, h.pipeline)
	if h.settle(err, watermark.ErrNotFound) {
		pub.Promoted = r.ID
		h.live = r.ID
	} else if h.live != "" {
		p, err := h.s.Pipeline(ctx, h.pipeline)
		if err != nil {
			h.rt.Fatal(err)
		}
		in := rollback(h.live, false)
		in.Pipeline = h.pipeline
		if _, err := h.s.CreateIntent(ctx, in, p.Version); err != nil {
			h.rt.Fatal(err)
		}
		pub.Intent = in.ID
		h.live = ""
	}
	if _, err := h.s.PublishRun(ctx, h.delta, pub); err != nil {
		h.rt.Fatal(err)
	}
}

func (h *histories) check() {
	ctx := Context(h.t)
	all, err := h.s.Rebuilds(ctx, h.pipeline, 100, "")
	if err != nil {
		h.rt.Fatal(err)
	}
	bars, err := h.s.Bars(ctx, h.pipeline)
	if err != nil {
		h.rt.Fatal(err)
	}
	barred := map[string]bool{}
	for _, b := range bars {
		barred[b.Generation] = true
	}
	open := 0
	due := map[time.Time]string{}
	for _, r := range all {
		if isOpen(r) {
			open++
		}
		if !r.Due.IsZero() {
			if due[r.Due] != "" || h.due[r.Due] != r.ID {
				h.rt.Fatalf("%s has rebuilds %s and %s, was given %s", r.Due, due[r.Due], r.ID, h.due[r.Due])
			}
			due[r.Due] = r.ID
		}
		if r.ID == h.live && (r.State != watermark.RebuildPromoted || barred[r.ID]) {
			h.rt.Fatalf("the live base is %s, barred %v", r.State, barred[r.ID])
		}
		h.moved(r)
	}
	if open > 1 {
		h.rt.Fatalf("%d rebuilds are open", open)
	}
	if len(due) != len(h.due) {
		h.rt.Fatalf("scheduled times %v, want %v", due, h.due)
	}
	r, err := h.s.ReadyRebuild(ctx, h.pipeline)
	if h.settle(err, watermark.ErrNotFound) && (r.State != watermark.RebuildCandidate || !r.Approved || barred[r.ID]) {
		h.rt.Fatalf("ready is %+v, barred %v", r, barred[r.ID])
	}
}

// moved checks that a rebuild did not come back from an end.
func (h *histories) moved(r watermark.Rebuild) {
	old, known := h.seen[r.ID]
	h.seen[r.ID] = r
	if !known || old.State == r.State {
		return
	}
	final := old.State == watermark.RebuildFailed || old.State == watermark.RebuildCancelled ||
		old.State == watermark.RebuildSkipped || old.State == watermark.RebuildSuperseded
	if final || old.State != watermark.RebuildQueued && isOpen(r) {
		h.rt.Fatalf("rebuild %s went from %s to %s", r.ID, old.State, r.State)
	}
}

func isOpen(r watermark.Rebuild) bool {
	return r.State == watermark.RebuildQueued || r.State == watermark.RebuildRunning
}
