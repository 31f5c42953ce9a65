package watermarktest

import (
	"errors"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"pgregory.net/rapid"
)

// twoHolders lets two instances do anything in any order, with leases that
// expire at any moment, and checks after each step that neither epoch nor
// watermark nor version of CURRENT goes back, and that only the holder of the
// newest lease gets anything written.
func twoHolders(t *testing.T, db Database) {
	s := Migrated(t, db)
	rapid.Check(t, func(rt *rapid.T) {
		h := &holders{t: t, rt: rt, s: s, db: db, pipeline: "p" + ID()}
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 11), 1, 14).Draw(rt, "steps") {
			h.step(step)
			h.check()
		}
	})
}

type holders struct {
	t        *testing.T
	rt       *rapid.T
	s        watermark.Store
	db       Database
	pipeline string

	leases  [2]watermark.Lease // what each believes
	owner   int                // whose lease is the newest, -1 after its release
	taken   bool
	current int64 // version of CURRENT, which the model's bucket hands out

	epoch   int64
	version int64
	mark    time.Time
}

func (h *holders) step(n int) {
	who := n % 2
	l := h.leases[who]
	ctx := Context(h.t)
	mine := h.taken && h.owner == who && l.Epoch > 0
	switch n / 2 {
	case 0:
		got, err := h.s.Acquire(ctx, h.pipeline, watermark.RoleDelta, "h", time.Hour, int64(n))
		h.expect(err, watermark.ErrHeld, !h.taken || h.owner < 0)
		if err == nil {
			h.leases[who], h.owner, h.taken = got, who, true
		}
	case 1: // the database's clock passes the expiry
		if err := h.db.Exec(h.t, `UPDATE deltad_lease SET expires_at = acquired_at WHERE pipeline = '`+h.pipeline+`'`); err != nil {
			h.rt.Fatal(err)
		}
		got, err := h.s.Acquire(ctx, h.pipeline, watermark.RoleDelta, "h", time.Hour, 0)
		h.expect(err, watermark.ErrHeld, true)
		h.leases[who], h.owner, h.taken = got, who, true
	case 2:
		if l.Epoch > 0 {
			h.expect(h.s.Renew(ctx, l), watermark.ErrFenced, mine)
		}
	case 3:
		if l.Epoch > 0 {
			h.publish(l, mine)
		}
	case 4:
		if l.Epoch == 0 {
			return
		}
		got, err := h.s.RaiseEpoch(ctx, l, 0)
		h.expect(err, watermark.ErrFenced, mine)
		if err == nil {
			h.leases[who] = got
		}
	case 5:
		if mine {
			h.expect(h.s.Release(ctx, l), watermark.ErrFenced, true)
			h.owner = -1
		}
	}
}

// publish writes at a version of CURRENT that is sometimes an old one.
func (h *holders) publish(l watermark.Lease, mine bool) {
	h.current++
	version := h.current
	if old := rapid.Int64Range(0, 3).Draw(h.rt, "old"); version > old {
		version -= old
	}
	_, err := h.s.PublishRun(Context(h.t), l, Published(Planned(l, int(version)), version))
	h.expect(err, watermark.ErrFenced, mine)
}

func (h *holders) expect(err, refusal error, ok bool) {
	switch {
	case ok && err != nil:
		h.rt.Fatalf("refused to the holder: %v", err)
	case !ok && !errors.Is(err, refusal):
		h.rt.Fatalf("got %v, want %v", err, refusal)
	}
}

func (h *holders) check() {
	ctx := Context(h.t)
	if st, err := h.s.LeaseStatus(ctx, h.pipeline, watermark.RoleDelta); err == nil {
		if st.Epoch < h.epoch {
			h.rt.Fatalf("epoch went back from %d to %d", h.epoch, st.Epoch)
		}
		h.epoch = st.Epoch
	} else if !errors.Is(err, watermark.ErrNotFound) {
		h.rt.Fatal(err)
	}
	p, err := h.s.Pipeline(ctx, h.pipeline)
	if errors.Is(err, watermark.ErrNotFound) {
		return
	}
	if err != nil {
		h.rt.Fatal(err)
	}
	if p.CurrentVersion < h.version || p.Watermark.Before(h.mark) {
		h.rt.Fatalf("went back from %d %s to %d %s", h.version, h.mark, p.CurrentVersion, p.Watermark)
	}
	h.version, h.mark = p.CurrentVersion, p.Watermark
}
