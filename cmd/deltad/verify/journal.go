package verify

import (
	"context"
	"errors"

	"github.com/deltad/deltad/watermark"
)

// journal asks the state store for the run that CURRENT names.
func (v *verifier) journal(ctx context.Context, ev *evidence) error {
	f := find(CheckJournal)
	run, err := v.State.RunByID(ctx, ev.head.RunID)
	switch {
	case errors.Is(err, watermark.ErrNotFound):
		f.add("run %s, which CURRENT names, is not in the journal", ev.head.RunID)
	case err != nil:
		if err := f.settle(ctx, err); err != nil {
			return err
		}
	case run.Status != watermark.RunPublished:
		f.add("run %s, which CURRENT names, is journalled as %s; the next step of the leader mends that", run.ID, run.Status)
	case run.Manifest.Key != ev.head.Delta.Manifest || run.Manifest.SHA256 != ev.head.Delta.SHA256:
		f.add("run %s is journalled with %s (%s), CURRENT names %s (%s)", run.ID, run.Manifest.Key, run.Manifest.SHA256, ev.head.Delta.Manifest, ev.head.Delta.SHA256)
	}
	return v.end(f, "run %s", ev.head.RunID)
}
