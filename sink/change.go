package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/store"
)

// Change replaces CURRENT once. next is given seen and returns the new targets with Reason, RunID, Watermark, Progress, PublishedAt,
// Delta, Base and Condemned set; format, pipeline, version and owner are filled in here, and so is the change id unless next chose a
// fresh one. seen must be owned by me.
//
// It returns the new head, or an error wrapping ErrFenced, ErrClaimAgain, ErrMoved, ErrLostCurrent, ErrTransition, ErrCondemned, or
// ErrUnsettled when ctx ended or the attempts ran out before the outcome was known: then the change may still come about.
func (s *Sink) Change(ctx context.Context, me Owner, seen Head, next func(Head) (Current, error)) (Head, error) {
	switch {
	case !seen.Exists:
		return Head{}, fmt.Errorf("change CURRENT: %w", ErrClaimAgain)
	case seen.Owner.Fences(me):
		return Head{}, s.fenced(me, seen)
	case !seen.Owner.Same(me):
		return Head{}, fmt.Errorf("change CURRENT: owner epoch %d, mine %d: %w", seen.Owner.Epoch, me.Epoch, ErrClaimAgain)
	}
	want, err := next(seen)
	if err != nil {
		return Head{}, err
	}
	if want.PublishedAt.IsZero() {
		want.PublishedAt = seen.PublishedAt
	}
	if err := Transition(seen.Current, want); err != nil {
		return Head{}, err
	}
	return s.swap(ctx, me, seen, want, seen.Version+1)
}

func (s *Sink) fenced(me Owner, now Head) error {
	return fmt.Errorf("change CURRENT as epoch %d: %w: epoch %d, instance %q, version %d",
		me.Epoch, ErrFenced, now.Owner.Epoch, now.Owner.Instance, now.Version)
}

// swap drives one Attempt to its end.
func (s *Sink) swap(ctx context.Context, me Owner, seen Head, want Current, version int64) (Head, error) {
	want.Format, want.Pipeline, want.Owner = currentFormat, s.set.Pipeline, me
	want.Version = version                                     // Invariant 2
	if want.ChangeID == "" || want.ChangeID == seen.ChangeID { // a copy of what is there
		want.ChangeID = s.set.NewID() // Invariant 1
	}
	want.Condemned = some(want.Condemned) // so that Head is what a reader sees
	body, err := want.Encode()
	if err != nil {
		return Head{}, err
	}
	a := NewAttempt(me, seen, want)
	var last error
	for sends := 0; ; {
		switch a.Step() {
		case Send:
			if sends == s.set.Attempts {
				return a.Head(), fmt.Errorf("change CURRENT to version %d, %d attempts: %w: %w", version, sends, ErrUnsettled, last)
			}
			sends++
			etag, err := s.putCurrent(ctx, body, seen)
			a.Sent(etag, err)
			last = err
		case Read:
			if err := s.pause(ctx, sends); err != nil {
				return a.Head(), fmt.Errorf("change CURRENT to version %d: %w: %w (%w)", version, ErrUnsettled, last, err)
			}
			now, err := s.reread(ctx)
			if errors.Is(err, ErrLostCurrent) && !seen.Exists {
				err = nil // recovering from an unreadable CURRENT, which is still there
			}
			if err != nil {
				return a.Head(), fmt.Errorf("change CURRENT to version %d: %w: %w; then %w", version, ErrUnsettled, last, err)
			}
			a.Seen(now)
		case Done:
			return a.Head(), nil
		case Moved:
			return a.Head(), fmt.Errorf("change CURRENT from version %d: %w: version %d", seen.Version, ErrMoved, a.Head().Version)
		case ClaimAgain:
			return a.Head(), fmt.Errorf("change CURRENT as epoch %d: %w: epoch %d", me.Epoch, ErrClaimAgain, a.Head().Owner.Epoch)
		case Fenced:
			return a.Head(), s.fenced(me, a.Head())
		default:
			return a.Head(), fmt.Errorf("change CURRENT from version %d: %w", seen.Version, ErrLostCurrent)
		}
	}
}

// putCurrent sends one conditional put, by no means more than one.
func (s *Sink) putCurrent(ctx context.Context, body []byte, seen Head) (string, error) {
	o := store.PutOptions{Unretried: true, ContentType: "application/json"}
	if seen.ETag != "" { // Invariant 1; an unreadable CURRENT has an ETag although it does not count as existing
		o.IfMatch = seen.ETag
	} else {
		o.IfNoneMatch = true
	}
	return s.st.Put(ctx, CurrentKey, bytes.NewReader(body), o)
}

// reread reads CURRENT, over a short outage too.
func (s *Sink) reread(ctx context.Context) (Head, error) {
	var h Head
	var err error
	for i := 1; i <= s.set.Attempts; i++ {
		if h, err = s.Head(ctx); err == nil || !transient(err) {
			return h, err
		}
		if perr := s.pause(ctx, i); perr != nil {
			return h, errors.Join(err, perr)
		}
	}
	return h, err
}

func transient(err error) bool {
	return !errors.Is(err, ErrFormat) && !errors.Is(err, ErrLostCurrent) && !errors.Is(err, store.ErrDenied)
}

// Transition says whether to may follow from, given to.Reason (Invariants 6 and 7). It looks at targets, not at version and owner.
//
// A base is gone to by a promotion, which needs another generation, or by a rollback; every other pane keeps it. Once there is a base
// there is one for ever: a rollback reaches a pane without only from one without.
func Transition(from, to Current) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w: %s", to.Reason, ErrTransition, fmt.Sprintf(format, args...))
	}
	for _, id := range from.Condemned {
		if to.Delta != nil && id == to.RunID || to.Base != nil && id == to.Base.Generation {
			return fmt.Errorf("%s: %w: %s", to.Reason, ErrCondemned, id)
		}
	}
	if to.Reason.keepsTargets() {
		if !from.sameTargets(to) {
			return bad("targets differ")
		}
		if from.Version > 0 && !from.PublishedAt.Equal(to.PublishedAt.Time) {
			return bad("published_at differs")
		}
		return nil
	}
	if to.Delta == nil || to.Watermark == nil || to.Progress == nil {
		return bad("no pane given")
	}
	if from.Delta != nil && from.Delta.Manifest == to.Delta.Manifest {
		return bad("run %s is already the pane", to.RunID)
	}
	switch to.Reason {
	case Publish:
		if !sameBase(from.Base, to.Base) {
			return bad("the base changes from %s to %s", generation(from.Base), generation(to.Base))
		}
		if !sameTime(to.Watermark, to.Progress) || from.Progress != nil && !to.Progress.After(from.Progress.Time) {
			return bad("watermark %s and progress %s do not lie beyond progress %s", to.Watermark, to.Progress, from.Progress)
		}
	case Promote:
		if to.Base == nil || from.Base != nil && from.Base.Generation == to.Base.Generation {
			return bad("base %s after %s is not another one", generation(to.Base), generation(from.Base))
		}
		if !sameTime(to.Watermark, to.Progress) || from.Progress != nil && to.Progress.Before(from.Progress.Time) {
			return bad("watermark %s and progress %s lie before progress %s", to.Watermark, to.Progress, from.Progress)
		}
	case Refine:
		if from.Delta == nil || !sameTime(from.Watermark, to.Watermark) || !sameTime(from.Progress, to.Progress) {
			return bad("watermark %s and progress %s, want %s and %s", to.Watermark, to.Progress, from.Watermark, from.Progress)
		}
		if !sameBase(from.Base, to.Base) {
			return bad("the base changes from %s to %s", generation(from.Base), generation(to.Base))
		}
	case Reset:
		if from.Delta == nil || !sameTime(from.Watermark, to.Watermark) {
			return bad("watermark %s, want %s", to.Watermark, from.Watermark)
		}
		if !sameBase(from.Base, to.Base) {
			return bad("the base changes from %s to %s", generation(from.Base), generation(to.Base))
		}
	case Rollback:
		if from.Delta == nil || from.Base != nil && to.Base == nil {
			return bad("base %s is left without another", generation(from.Base))
		}
	case Recover:
	default:
		return bad("unknown reason")
	}
	return nil
}

// CommitOptions are what a commit says beside the pane.
type CommitOptions struct {
	Now time.Time
	// ChangeID is the fresh id that the run was journalled with; empty makes one.
	ChangeID string
	// Condemn replaces the condemned ids; nil keeps them.
	Condemn []string
}

// Commit is Change for a pane whose manifest has been written: the usual last step of a run.
func (s *Sink) Commit(ctx context.Context, me Owner, seen Head, ref Ref, m Manifest, o CommitOptions) (Head, error) {
	return s.Change(ctx, me, seen, func(h Head) (Current, error) { return NextPane(h, ref, m, o) })
}

// NextPane is what Commit changes h to, or why it must not: ErrCondemned where the pane is made of condemned data, ErrTransition where
// its parent is not the pane that h names.
func NextPane(h Head, ref Ref, m Manifest, o CommitOptions) (Current, error) {
	c := Pane(ref, m)
	c.PublishedAt, c.Condemned, c.ChangeID = At(o.Now), h.Condemned, o.ChangeID
	if o.Condemn != nil {
		c.Condemned = o.Condemn
	}
	for _, id := range m.madeOf() {
		if h.Condemns(id) || c.Condemns(id) { // Invariant 7
			return Current{}, fmt.Errorf("commit %s: %w: data of %s", m.RunID, ErrCondemned, id)
		}
	}
	if parent := m.Parent; parent == nil != (h.Delta == nil) || parent != nil && *parent != h.Delta.Ref() {
		return Current{}, fmt.Errorf("commit %s: %w: its parent is not the pane of version %d", m.RunID, ErrTransition, h.Version)
	}
	return c, nil
}

// Pane is the part of CURRENT that names a delta manifest.
func Pane(ref Ref, m Manifest) Current {
	c := Current{
		Reason: m.Reason, RunID: m.RunID, Watermark: m.Watermark, Progress: m.ProgressOr(),
		Delta: &DeltaRef{Manifest: ref.Manifest, SHA256: ref.SHA256, Documents: m.Counts.Documents},
	}
	if b := m.Base; b != nil {
		c.Base = &BaseRef{Generation: b.Generation, Manifest: b.Manifest, SHA256: b.SHA256, Cut: b.Cut}
	}
	return c
}
