package sink

import (
	"context"
	"fmt"
	"time"

	"github.com/deltad/deltad/store"
)

// Collector gathers the evidence for collections and carries them out. It remembers manifests, which never change, so that a collection
// reads only those of the panes published since the last. It is for one goroutine.
type Collector struct {
	s     *Sink
	panes map[Ref]pane
}

type pane struct {
	Published
	parent *Ref
}

// NewCollector returns a collector that remembers nothing yet; it does no I/O.
func NewCollector(s *Sink) *Collector { return &Collector{s: s, panes: map[Ref]pane{}} }

// CollectOptions are what the bucket does not know.
type CollectOptions struct {
	Pins       []string // run ids of panes and generations of bases
	Live       []string // ids of runs and rebuilds that are going on or not yet settled
	Candidates []string // generations that wait to be promoted, of which the newest is kept
	Held       []string // generations that a gate holds, of which the newest is kept
	Retain     Retain
}

// Plan looks and decides; it writes nothing. The store's clock is taken from its newest object, so in an output to which nothing is
// written nothing grows old.
func (c *Collector) Plan(ctx context.Context, head Head, o CollectOptions) (Collection, error) {
	ev := Evidence{Head: head, Pins: o.Pins, Live: o.Live, Retain: o.Retain}
	var err error
	if ev.Manifests, err = c.s.list(ctx, manifestPrefix); err != nil {
		return Collection{}, fmt.Errorf("plan collection: %w", err)
	}
	if ev.Data, err = c.s.list(ctx, deltaPrefix); err != nil {
		return Collection{}, fmt.Errorf("plan collection: %w", err)
	}
	if ev.Rejects, err = c.s.list(ctx, rejectsPrefix); err != nil {
		return Collection{}, fmt.Errorf("plan collection: %w", err)
	}
	info, err := c.s.st.Head(ctx, CurrentKey)
	if err != nil {
		return Collection{}, fmt.Errorf("plan collection: %w", err)
	}
	ev.Now = newest(info.LastModified, ev.Manifests, ev.Data, ev.Rejects)
	if ev.Panes, err = c.history(ctx, head, ev.Manifests); err != nil {
		return Collection{}, fmt.Errorf("plan collection: %w", err)
	}
	return PlanCollection(ev), nil
}

func newest(t time.Time, lists ...[]Object) time.Time {
	for _, l := range lists {
		for _, o := range l {
			if o.Modified.After(t) {
				t = o.Modified
			}
		}
	}
	return t
}

// history is the chain of panes from CURRENT back, and forgets what is no longer part of it.
func (c *Collector) history(ctx context.Context, head Head, manifests []Object) ([]Published, error) {
	written := make(map[string]time.Time, len(manifests))
	for _, o := range manifests {
		written[o.Key] = o.Modified
	}
	var out []Published
	chain := map[Ref]pane{}
	if head.Delta == nil {
		c.panes = chain
		return nil, nil
	}
	ref := head.Delta.Ref()
	for {
		if _, there := written[ref.Manifest]; !there && len(out) > 0 {
			break // a collected record ends the history
		}
		p, known := c.panes[ref]
		if !known {
			m, err := c.s.ReadManifest(ctx, ref)
			if err != nil {
				return nil, err
			}
			p = pane{Published{RunID: m.RunID, DataIDs: m.DataIDs(), Written: written[ref.Manifest]}, m.Parent}
			if m.Base != nil {
				p.Base = m.Base.Generation
			}
		}
		if _, loop := chain[ref]; loop {
			return nil, fmt.Errorf("read %s: %w: it is its own ancestor", ref.Manifest, ErrCorrupt)
		}
		chain[ref] = p
		out = append(out, p.Published)
		if p.parent == nil {
			break
		}
		ref = *p.parent
	}
	c.panes = chain
	return out, nil
}

// Do carries a plan out: deletes, then changes condemned if that is due. head is the one the plan was made for, and owned by me. It
// returns the head after it. Whatever fails, the next plan goes on from there.
func (c *Collector) Do(ctx context.Context, me Owner, head Head, plan Collection) (Head, error) {
	if err := c.Delete(ctx, head, plan); err != nil {
		return head, err
	}
	if len(plan.Condemn)+len(plan.Drop) == 0 {
		return head, nil
	}
	return c.s.Change(ctx, me, head, func(h Head) (Current, error) {
		next := h.Current
		next.Reason, next.Condemned = Collect, plan.Condemned(h, true)
		return next, nil
	})
}

// Delete is the first half of Do, for a caller that lets a publish carry the change of condemned.
func (c *Collector) Delete(ctx context.Context, head Head, plan Collection) error {
	for _, r := range plan.Delete {
		if !head.Condemns(r.ID) { // Invariant 7
			return fmt.Errorf("collect %s: %w: it is not condemned in version %d", r.ID, ErrTransition, head.Version)
		}
		for _, key := range r.Keys {
			if err := c.s.st.Delete(ctx, key); err != nil {
				return fmt.Errorf("collect %s: %w", r.ID, err)
			}
		}
	}
	for _, key := range plan.Records {
		if err := c.s.st.Delete(ctx, key); err != nil {
			return fmt.Errorf("collect record: %w", err)
		}
	}
	return nil
}

func (s *Sink) list(ctx context.Context, prefix string) ([]Object, error) {
	var out []Object
	for p, err := range store.Pages(ctx, s.st, store.ListOptions{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		for _, o := range p.Objects {
			out = append(out, Object{o.Key, o.Size, o.LastModified})
		}
	}
	return out, nil
}
