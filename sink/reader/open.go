package reader

import (
	"context"
	"fmt"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// OpenPane is the snapshot of one pane, whether CURRENT names it or not, with the base it was computed for. It is verified down from ref
// as any other; whether it was ever published is for the caller to know. Current has the pane's targets and its planned version, and
// neither owner nor change. One that is collected is store.ErrNotFound.
func OpenPane(ctx context.Context, st store.Store, ref sink.Ref, o Options) (*Snapshot, error) {
	m, err := sink.ReadManifest(ctx, st, ref)
	if err != nil {
		return nil, err
	}
	return openManifest(ctx, st, ref, m, o)
}

// OpenRun is OpenPane for the newest manifest that a run wrote. The manifest's own hash is not verified: nothing that is at hand names it.
func OpenRun(ctx context.Context, st store.Store, runID string, o Options) (*Snapshot, error) {
	ref, m, err := sink.FindPane(ctx, st, runID)
	if err != nil {
		return nil, err
	}
	return openManifest(ctx, st, ref, m, o)
}

func openManifest(ctx context.Context, st store.Store, ref sink.Ref, m sink.Manifest, o Options) (*Snapshot, error) {
	if m.Kind != sink.Delta {
		return nil, fmt.Errorf("open %s: %w: it is a manifest of kind %s", ref.Manifest, ErrPair, m.Kind)
	}
	s := &Snapshot{Current: sink.Pane(ref, m), Manifest: m}
	s.Current.Pipeline, s.Current.Version = m.Pipeline, m.Version
	if err := Open(st, o).fill(ctx, s, nil); err != nil {
		return nil, fmt.Errorf("open %s: %w", ref.Manifest, err)
	}
	return s, nil
}

// OpenBase is the snapshot of a generation of the full index by itself, without any delta: its documents are as they were at its cut.
// Manifest is the generation's own. As with OpenRun the manifest's hash is not verified, the files are.
func OpenBase(ctx context.Context, st store.Store, generation string, o Options) (*Snapshot, error) {
	ref, m, err := sink.FindManifest(ctx, st, sink.FullKey(generation, "manifest.json"))
	if err != nil {
		return nil, err
	}
	if m.Kind != sink.Full {
		return nil, fmt.Errorf("open %s: %w: it is a manifest of kind %s", ref.Manifest, ErrPair, m.Kind)
	}
	s := &Snapshot{Manifest: m, Current: sink.Current{Pipeline: m.Pipeline, Version: m.Version, RunID: m.RunID}}
	if s.delta, err = Open(st, o).stack(ctx, m, nil); err != nil {
		return nil, fmt.Errorf("open %s: %w", ref.Manifest, err)
	}
	return s, nil
}
