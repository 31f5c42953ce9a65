package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/store"
)

// RollbackOptions say what a rollback is to be: a run of its own that publishes an older pane again, with the base that pane has.
type RollbackOptions struct {
	// Target is the manifest of the pane to go back to, which CURRENT named once: the caller knows it from Manifest.History or its journal.
	Target Ref
	RunID  string
	// ChangeID is the fresh id that the run was journalled with; empty makes one.
	ChangeID string
	Build    string
	Now      time.Time
	// SupportUntil is until when the base that is left stays supported; not after Now: it does not.
	SupportUntil time.Time
}

// RollbackManifest is the manifest of a rollback: the target's pane (files, inputs, coverage, watermark, base, jumps, gap, unread slices)
// under its own run id, on top of live, the pane that head names. Progress is the target's, but not beyond its watermark. Supports and
// history follow from live, see Leave.
func RollbackManifest(me Owner, head Head, live, target Manifest, o RollbackOptions) Manifest {
	m, ref := target, head.Delta.Ref()
	m.Parent, m.Version, m.RunID, m.Reason = &ref, head.Version+1, o.RunID, Rollback
	m.Writer = Writer{Epoch: me.Epoch, Nonce: me.Nonce, Build: o.Build}
	m.PreviousWatermark, m.CreatedAt = head.Watermark, At(o.Now)
	if m.Progress != nil && m.Watermark != nil && m.Progress.After(m.Watermark.Time) {
		m.Progress = nil
	}
	m.Counts.New, m.Counts.Changed, m.Counts.Left, m.Counts.Late = 0, 0, 0, 0
	m.TimingsMS, m.Checks = nil, nil
	return Leave(m, live, ref, o.Now, o.SupportUntil)
}

// Rollback writes a rollback's manifest and commits it: base and pane change in one put of CURRENT. Whatever must not undo it (a pause, a
// bar on the base that is left) is the caller's to store before.
//
// It refuses a target that is condemned or gone, or whose base is (ErrCondemned), one without a base while CURRENT has one, and the live
// pane itself (ErrTransition); before the first pane it is ErrNoPane. After a crash in between, the caller looks for RunID in CURRENT or
// its ancestors to learn whether it came about. It may be called again with the same ids: what an attempt under the same head has written
// is used then, and where CURRENT is this rollback already, that is the answer.
func (s *Sink) Rollback(ctx context.Context, me Owner, head Head, o RollbackOptions) (Head, Manifest, error) {
	if head.Delta == nil {
		return Head{}, Manifest{}, fmt.Errorf("roll back: %w", ErrNoPane)
	}
	live, err := s.ReadManifest(ctx, head.Delta.Ref())
	if err != nil {
		return Head{}, Manifest{}, fmt.Errorf("roll back: %w", err)
	}
	if head.RunID == o.RunID {
		return head, live, nil
	}
	target, err := s.RollbackTarget(ctx, head, o.Target)
	if err != nil {
		return Head{}, Manifest{}, fmt.Errorf("roll back to %s: %w", o.Target.Manifest, err)
	}
	m := RollbackManifest(me, head, live, target, o)
	ref, err := s.WriteManifest(ctx, m)
	if errors.Is(err, ErrExists) {
		// Only its times tell an earlier attempt's manifest from this one.
		if earlier, rerr := s.readUnverified(ctx, m.Key()); rerr == nil {
			o.SupportUntil = earlier.m.supportedUntil(live.Base)
			again := o
			again.Now = earlier.m.CreatedAt.Time
			m = RollbackManifest(me, head, live, target, again)
			ref, err = s.WriteManifest(ctx, m)
		}
	}
	if err != nil {
		return Head{}, Manifest{}, fmt.Errorf("roll back: %w", err)
	}
	now, err := s.Commit(ctx, me, head, ref, m, CommitOptions{Now: o.Now, ChangeID: o.ChangeID})
	return now, m, err
}

// RollbackTarget is the manifest that a rollback would go back to from head, with its inputs, or why it would be refused: see Rollback. It
// writes nothing. head must name a pane.
func (s *Sink) RollbackTarget(ctx context.Context, head Head, ref Ref) (Manifest, error) {
	if ref == head.Delta.Ref() {
		return Manifest{}, fmt.Errorf("%w: it is the live pane", ErrTransition)
	}
	m, err := s.ReadManifest(ctx, ref)
	if err == nil {
		err = s.LoadInputs(ctx, &m)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Manifest{}, fmt.Errorf("%w: %v", ErrCondemned, err)
	case err != nil:
		return Manifest{}, err
	case m.Kind != Delta || m.Pipeline != head.Pipeline:
		return Manifest{}, fmt.Errorf("%w: it is a %s of pipeline %s", ErrTransition, m.Kind, m.Pipeline)
	case m.Base == nil && head.Base != nil:
		return Manifest{}, fmt.Errorf("%w: it has no base and CURRENT has", ErrTransition)
	}
	for _, id := range m.madeOf() {
		if head.Condemns(id) { // Invariant 7
			return Manifest{}, fmt.Errorf("%w: data of %s", ErrCondemned, id)
		}
	}
	if err := s.Present(ctx, m); err != nil {
		return Manifest{}, err
	}
	if m.Base == nil {
		return m, nil
	}
	base, err := s.ReadBase(ctx, *m.Base)
	if errors.Is(err, store.ErrNotFound) {
		return Manifest{}, fmt.Errorf("%w: %v", ErrCondemned, err)
	}
	if err == nil {
		err = s.Present(ctx, base)
	}
	return m, err
}

// madeOf are the ids of all data a reader of the pane needs: DataIDs and the base's.
func (m Manifest) madeOf() []string {
	ids := m.DataIDs()
	if m.Base != nil {
		ids = append(ids, m.Base.Generation)
	}
	return ids
}

// supportedUntil is until when m supports a base, or the zero time.
func (m Manifest) supportedUntil(b *ManifestBase) time.Time {
	for _, s := range m.Supports {
		if b != nil && s.Generation == b.Generation {
			return s.Until.Time
		}
	}
	return time.Time{}
}
