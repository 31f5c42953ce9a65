package sink

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ResetOptions say what a reset is to be: a run of its own that copies the pane and moves progress.
type ResetOptions struct {
	To    time.Time // the new progress, a partition start
	RunID string
	// ChangeID is the fresh id that the run was journalled with; empty makes one.
	ChangeID string
	Build    string
	Now      time.Time
}

// ResetManifest is the manifest of a reset: the parent's pane (files, inputs, coverage, watermark) under its own run id, with progress
// To. A reset forward lifts the start of every jump below To to it; a jump that is thereby empty goes.
func ResetManifest(me Owner, head Head, parent Manifest, o ResetOptions) Manifest {
	m := parent
	ref := head.Delta.Ref()
	m.Parent, m.Version, m.RunID, m.Reason = &ref, head.Version+1, o.RunID, Reset
	m.Writer = Writer{Epoch: me.Epoch, Nonce: me.Nonce, Build: o.Build}
	m.PreviousWatermark, m.Progress, m.CreatedAt = head.Watermark, AtPtr(o.To), At(o.Now)
	m.Counts.New, m.Counts.Changed, m.Counts.Left, m.Counts.Late = 0, 0, 0, 0
	m.TimingsMS, m.Checks = nil, nil
	if head.Progress != nil && o.To.After(head.Progress.Time) {
		m.Jumps = nil
		for _, j := range parent.Jumps {
			if j.From.Before(o.To) {
				j.From = At(o.To)
			}
			if j.From.Before(j.At.Time) {
				m.Jumps = append(m.Jumps, j)
			}
		}
	}
	return m
}

// ResetProgress writes a reset's manifest and commits it. Before the first pane it is ErrNoPane. After a crash in between, the caller
// looks for RunID in CURRENT or its ancestors to learn whether it came about. It may be called again with the same head: the manifest of
// an attempt that got no further is used then.
func (s *Sink) ResetProgress(ctx context.Context, me Owner, head Head, o ResetOptions) (Head, Manifest, error) {
	if head.Delta == nil {
		return Head{}, Manifest{}, fmt.Errorf("reset progress to %s: %w", At(o.To), ErrNoPane)
	}
	parent, err := s.ReadManifest(ctx, head.Delta.Ref())
	if err != nil {
		return Head{}, Manifest{}, fmt.Errorf("reset progress: %w", err)
	}
	if err := s.LoadInputs(ctx, &parent); err != nil {
		return Head{}, Manifest{}, fmt.Errorf("reset progress: %w", err)
	}
	m := ResetManifest(me, head, parent, o)
	ref, err := s.WriteManifest(ctx, m)
	if errors.Is(err, ErrExists) {
		// Only the time of writing tells an earlier attempt's manifest from this one.
		if earlier, rerr := s.readUnverified(ctx, m.Key()); rerr == nil {
			m.CreatedAt = earlier.m.CreatedAt
			ref, err = s.WriteManifest(ctx, m)
		}
	}
	if err != nil {
		return Head{}, Manifest{}, fmt.Errorf("reset progress: %w", err)
	}
	now, err := s.Commit(ctx, me, head, ref, m, CommitOptions{Now: o.Now, ChangeID: o.ChangeID})
	return now, m, err
}
