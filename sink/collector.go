package sink

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/store"
)

// Collector gathers the evidence for collections and carries them out. It remembers manifests, which never change, so that a collection
// reads only those of the panes published since the last, and the first one no further back than Retain asks. It is for one goroutine.
type Collector struct {
	s     *Sink
	panes map[Ref]pane
	apart map[string]pane // by key: panes of former bases and pinned ones
}

type pane struct {
	Published
	parent  *Ref
	history []Former
}

// NewCollector returns a collector that remembers nothing yet; it does no I/O.
func NewCollector(s *Sink) *Collector {
	return &Collector{s: s, panes: map[Ref]pane{}, apart: map[string]pane{}}
}

// CollectOptions are what the bucket does not know.
type CollectOptions struct {
	Pins       []string // run ids of panes and generations of bases
	Live       []string // ids of runs and rebuilds that are going on or not yet settled
	Candidates []string // generations that wait to be promoted, of which the newest is kept
	Held       []string // generations that a gate holds, of which the newest is kept
	Retain     Retain
	Cached     CachedRule // what is of use under state/cache/
}

// Plan looks and decides; it writes nothing. The store's clock is taken from its newest object, so in an output to which nothing is
// written nothing grows old.
func (c *Collector) Plan(ctx context.Context, head Head, o CollectOptions) (Collection, error) {
	ev := Evidence{Head: head, Pins: o.Pins, Live: o.Live, Candidates: o.Candidates, Held: o.Held, Retain: o.Retain, CachedRule: o.Cached}
	for _, l := range []struct {
		prefix string
		to     *[]Object
	}{
		{manifestPrefix, &ev.Manifests}, {deltaPrefix, &ev.Data}, {rejectsPrefix, &ev.Rejects}, {fullPrefix, &ev.Full},
		{fullStatePrefix, &ev.State}, {slicePrefix, &ev.State}, {cachedPrefix, &ev.Cached},
	} {
		objects, err := c.s.list(ctx, l.prefix)
		if err != nil {
			return Collection{}, fmt.Errorf("plan collection: %w", err)
		}
		*l.to = append(*l.to, objects...)
	}
	info, err := c.s.st.Head(ctx, CurrentKey)
	if err != nil {
		return Collection{}, fmt.Errorf("plan collection: %w", err)
	}
	ev.Now = newest(info.LastModified, ev.Manifests, ev.Data, ev.Rejects, ev.Full, ev.State, ev.Cached)
	more, err := c.gather(ctx, &ev)
	if err != nil {
		return Collection{}, fmt.Errorf("plan collection: %w", err)
	}
	plan := PlanCollection(ev)
	if more {
		plan.Waiting++
	}
	return plan, nil
}

func newest(t time.Time, lists ...[]Object) time.Time {
	for _, l := range lists {
		for _, o := range l {
			t = latest(o.Modified, t)
		}
	}
	return t
}

// gather reads what the manifests say. more says that there are panes further back to look at next time.
func (c *Collector) gather(ctx context.Context, ev *Evidence) (more bool, err error) {
	written := make(map[string]time.Time, len(ev.Manifests))
	for _, o := range ev.Manifests {
		written[o.Key] = o.Modified
	}
	former, more, err := c.chain(ctx, ev, written)
	if err != nil {
		return false, err
	}
	inChain := map[string]bool{}
	for _, p := range ev.Panes {
		inChain[p.RunID] = true
	}
	pins := setOf(ev.Pins)
	apart := map[string]pane{}
	for i, f := range former {
		if i >= ev.Retain.Bases-1 && !pins[f.Generation] {
			continue
		}
		p, ok, err := c.aside(f.Pane.Manifest, written, func() (Manifest, error) { return c.s.ReadManifest(ctx, f.Pane) })
		if err != nil {
			return false, err
		}
		if ok {
			apart[f.Pane.Manifest] = p
			ev.History = append(ev.History, p.Published)
		}
	}
	for _, o := range ev.Manifests {
		_, id, side, ok := parseManifestKey(o.Key)
		if !ok || side || !pins[id] || inChain[id] {
			continue
		}
		p, ok, err := c.aside(o.Key, written, func() (Manifest, error) {
			f, err := c.s.readUnverified(ctx, o.Key)
			return f.m, err
		})
		if err != nil {
			return false, err
		}
		if ok {
			apart[o.Key] = p
			ev.Pinned = append(ev.Pinned, p.Published)
		}
	}
	c.apart = apart
	return more, nil
}

// aside is a pane that is not read along the chain. One whose manifest is gone keeps nothing.
func (c *Collector) aside(key string, written map[string]time.Time, read func() (Manifest, error)) (pane, bool, error) {
	if p, ok := c.apart[key]; ok {
		return p, true, nil
	}
	at, there := written[key]
	if !there {
		return pane{}, false, nil
	}
	m, err := read()
	if err != nil {
		return pane{}, false, err
	}
	return paneOf(m, at), true, nil
}

func paneOf(m Manifest, written time.Time) pane {
	p := pane{Published: Published{RunID: m.RunID, DataIDs: m.DataIDs(), Written: written}, parent: m.Parent, history: m.History}
	if m.Base != nil {
		p.Base = m.Base.Generation
	}
	for _, s := range m.Supports {
		p.Supports = append(p.Supports, s.Generation)
	}
	for _, f := range m.UnreadSlices {
		p.Slices = append(p.Slices, f.Key)
	}
	return p
}

// chain fills in the panes from CURRENT back, forgets what is no longer part of them, and returns the former bases. Panes that are
// remembered cost nothing. Manifests are read as far back as Retain keeps panes for their age or number, and beyond that, while data of
// theirs is left to collect, at most MaxCondemned in one plan; more says that this ended it. So a start reads what Retain keeps and no
// history; what is not reached is not known as published, and its data, if any is left, waits for OrphanAge.
func (c *Collector) chain(ctx context.Context, ev *Evidence, written map[string]time.Time) (former []Former, more bool, err error) {
	known, left, beyond := c.panes, idsOf(ev.Data), 0
	c.panes = map[Ref]pane{}
	if ev.Head.Delta == nil {
		return nil, false, nil
	}
	for ref := ev.Head.Delta.Ref(); ; {
		if _, there := written[ref.Manifest]; !there && len(ev.Panes) > 0 {
			break // a collected record ends the history
		}
		p, ok := known[ref]
		if n := len(ev.Panes); !ok && n > 0 && n >= ev.Retain.Panes && ev.Now.Sub(ev.Panes[n-1].Written) >= ev.Retain.For {
			_, id, _, _ := parseManifestKey(ref.Manifest)
			if beyond++; beyond > MaxCondemned || !left[id] {
				more = left[id]
				break
			}
		}
		if !ok {
			m, err := c.s.ReadManifest(ctx, ref)
			if err != nil {
				c.panes = known
				return nil, false, err
			}
			p = paneOf(m, written[ref.Manifest])
		}
		if _, loop := c.panes[ref]; loop {
			return nil, false, fmt.Errorf("read %s: %w: it is its own ancestor", ref.Manifest, ErrCorrupt)
		}
		if len(ev.Panes) == 0 {
			former = p.history
		}
		c.panes[ref] = p
		ev.Panes = append(ev.Panes, p.Published)
		if p.parent == nil {
			break
		}
		ref = *p.parent
	}
	return former, more, nil
}

// idsOf are the runs that objects belong to.
func idsOf(objects []Object) map[string]bool {
	ids := map[string]bool{}
	for _, o := range objects {
		ids[idOf(o.Key)] = true
	}
	return ids
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
	for _, key := range plan.Slices {
		if err := c.s.st.Delete(ctx, key); err != nil {
			return fmt.Errorf("collect slice: %w", err)
		}
	}
	return c.deleteCached(ctx, plan.Cached)
}

// deletes is how many cached slices are deleted at a time: a change of the
// configuration leaves as many as a window has.
const deletes = 8

func (c *Collector) deleteCached(ctx context.Context, keys []string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(deletes)
	for _, key := range keys {
		g.Go(func() error { return c.s.DropCached(ctx, key) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("collect: %w", err)
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
