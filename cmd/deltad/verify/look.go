package verify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// evidence is what the checks are made on.
type evidence struct {
	live bool // there is a pane, and its manifests can be read
	head sink.Head
	pane sink.Manifest // with its inputs
	// bases are the one that the pane was computed over, then those that it
	// still supports, with their inputs.
	bases   []sink.Manifest
	listing source.Listing
	// reach is where the listing of a run begins: what lies before is looked at
	// only on demand.
	reach time.Time
}

// epoch is before the first partition that a layout can name.
func epoch() time.Time { return time.Unix(0, 0).Add(-time.Second) }

// look lists the source, then reads CURRENT and the manifests that it leads to.
func (v *verifier) look(ctx context.Context) (*evidence, error) {
	ev := &evidence{}
	f := find(CheckCurrent)
	if never, err := v.neverPublished(ctx); err != nil {
		return nil, err
	} else if never {
		return ev, v.end(f, "no index yet, nothing to verify")
	}
	head, err := v.current(ctx)
	if err := f.settle(ctx, err); err != nil {
		return nil, err
	}
	if f.n > 0 {
		if err := v.end(f, "CURRENT cannot be read; `deltad recover` mends it"); err != nil {
			return nil, err
		}
		return ev, v.unproven("there is no CURRENT to start from", v.rest(CheckManifests)...)
	}
	if head.Delta == nil {
		return ev, v.end(f, "version %d: no index yet, nothing to verify", head.Version)
	}
	if err := v.list(ctx, head, ev); err != nil {
		return nil, err
	}
	if ev.head, err = v.current(ctx); err != nil {
		return nil, err
	}
	if err := v.end(f, "version %d, run %s, watermark %s", ev.head.Version, ev.head.RunID, text(ev.head.Watermark.Time)); err != nil {
		return nil, err
	}
	f = find(CheckManifests)
	if err := f.settle(ctx, v.manifests(ctx, ev, f)); err != nil {
		return nil, err
	}
	detail := "the pane, " + fmt.Sprintf("%d inputs", len(ev.pane.Inputs))
	if len(ev.bases) > 0 {
		detail += fmt.Sprintf("; base %s, cut %s, and %d others supported", ev.bases[0].RunID, text(ev.bases[0].Cut.Time), len(ev.bases)-1)
	}
	if err := v.end(f, "%s", detail); err != nil {
		return nil, err
	}
	if ev.live = f.n == 0; !ev.live {
		return ev, v.unproven("the manifests are not what CURRENT leads to", v.rest(CheckJournal)...)
	}
	return ev, nil
}

// neverPublished says that there is no CURRENT and never was one: neither the
// bucket nor the journal knows of a pane.
func (v *verifier) neverPublished(ctx context.Context) (bool, error) {
	if head, err := sink.ReadHead(ctx, v.Out, ""); err != nil || head.Exists {
		return false, nil //nolint:nilerr // the check of CURRENT says what is wrong with it
	}
	if _, err := v.State.LatestPublished(ctx, v.Name); !errors.Is(err, watermark.ErrNotFound) {
		return false, err
	}
	page, err := v.Out.List(ctx, store.ListOptions{Prefix: "manifests/", MaxKeys: 1})
	return err == nil && len(page.Objects) == 0, err
}

// current reads CURRENT, which is to be there.
func (v *verifier) current(ctx context.Context) (sink.Head, error) {
	head, err := sink.ReadHead(ctx, v.Out, "")
	switch {
	case err != nil:
		return head, err
	case !head.Exists:
		return head, errors.New("there is no CURRENT")
	case head.Pipeline != v.Name:
		return head, fmt.Errorf("CURRENT belongs to pipeline %q, not %q", head.Pipeline, v.Name)
	}
	return head, nil
}

// list lists the source, as far back as a run does, or everything.
func (v *verifier) list(ctx context.Context, head sink.Head, ev *evidence) error {
	m, err := sink.ReadManifest(ctx, v.Out, head.Delta.Ref())
	if err != nil || m.Coverage == nil {
		// The check of the manifests says so.
		return find("").settle(ctx, err)
	}
	ev.reach = m.Coverage.From.Add(-2 * v.Window)
	if p := head.Progress; p != nil && p.Before(m.Coverage.From.Time) {
		ev.reach = p.Add(-2 * v.Window)
	}
	after := ev.reach
	if v.All {
		after = epoch()
	}
	if after.Before(v.Since) {
		after = v.Since.Add(-time.Nanosecond) // the first partition is included
	}
	v.Progress("list", 0, 0)
	ev.listing, err = v.Source.Scan(ctx, v.Now, after)
	return err
}

// manifests reads the manifests of pane and bases into ev. Findings go to f; an
// error is another.
func (v *verifier) manifests(ctx context.Context, ev *evidence, f *finder) error {
	// The reference reader verifies the chain, and that the two fit.
	r := reader.Open(v.Out, reader.Options{Lazy: true})
	if _, err := r.Poll(ctx); err != nil {
		return err
	}
	snapshot := r.Snapshot()
	ev.head.Current, ev.pane = snapshot.Current, snapshot.Manifest
	if err := v.inputs(ctx, &ev.pane); err != nil {
		return err
	}
	m, c := ev.pane, ev.head.Current
	counts(f, m, c.Delta.Documents)
	if !c.Watermark.Equal(m.Watermark.Time) || !c.Progress.Equal(m.ProgressOr().Time) {
		f.add("CURRENT says watermark %s and progress %s, its manifest %s and %s", c.Watermark, c.Progress, m.Watermark, m.ProgressOr())
	}
	if m.Parent != nil {
		if _, err := sink.ReadManifest(ctx, v.Out, *m.Parent); err != nil && !errors.Is(err, store.ErrNotFound) { // collected by now
			if err := f.settle(ctx, fmt.Errorf("the parent: %w", err)); err != nil {
				return err
			}
		}
	}
	var refs []sink.Support
	if b := m.Base; b != nil {
		refs = append(refs, sink.Support{Generation: b.Generation, Cut: b.Cut, Manifest: b.Manifest, SHA256: b.SHA256})
	}
	for _, s := range append(refs, m.Supporting(v.Now)...) {
		b, err := sink.ReadManifest(ctx, v.Out, sink.Ref{Manifest: s.Manifest, SHA256: s.SHA256})
		if err == nil {
			err = v.inputs(ctx, &b)
		}
		if err != nil {
			return fmt.Errorf("base %s: %w", s.Generation, err)
		}
		if b.Kind != sink.Full || b.RunID != s.Generation || !b.Cut.Equal(s.Cut.Time) {
			return fmt.Errorf("%s is not the manifest of base %s cut at %s", s.Manifest, s.Generation, s.Cut)
		}
		counts(f, b, b.Counts.Documents)
		ev.bases = append(ev.bases, b)
	}
	return nil
}

func (v *verifier) inputs(ctx context.Context, m *sink.Manifest) error {
	return sink.New(sink.Settings{Store: v.Out, Pipeline: v.Name}).LoadInputs(ctx, m)
}

// counts compares what a manifest counts with what it lists.
func counts(f *finder, m sink.Manifest, documents int64) {
	sum := func(files []sink.File) (n int64) {
		for _, file := range files {
			n += file.Rows
		}
		return n
	}
	switch n := sum(m.Files); {
	case m.Top() > 0: // what its layers come to is counted when they are read
		if m.Counts.Documents != documents {
			f.add("%s: %d documents counted, %d in what names it", m.Key(), m.Counts.Documents, documents)
		}
	case n != m.Counts.Documents || n != documents:
		f.add("%s: %d documents in its files, %d counted, %d in what names it", m.Key(), n, m.Counts.Documents, documents)
	}
	if n := sum(m.Tombstones); m.Kind == sink.Delta && m.Top() == 0 && n != m.Counts.Tombstones {
		f.add("%s: %d tombstones in its files, %d counted", m.Key(), n, m.Counts.Tombstones)
	}
	rows := int64(0)
	for _, in := range m.Inputs {
		rows += in.Rows
	}
	if rows != m.Counts.Rows {
		f.add("%s: %d rows in its inputs, %d counted", m.Key(), rows, m.Counts.Rows)
	}
}

// base is the base that the pane was computed over, or nil.
func (ev *evidence) base() *sink.Manifest {
	if len(ev.bases) == 0 {
		return nil
	}
	return &ev.bases[0]
}

// covers says whether the pane's coverage holds a partition.
func (ev *evidence) covers(start time.Time) bool {
	return partition.Range{From: ev.pane.Coverage.From.Time, To: ev.pane.Coverage.To.Time}.Contains(start)
}
