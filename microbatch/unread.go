package microbatch

import (
	"slices"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// With a base, an object at or before a cut that the base did not read is
// unread: once found it stays an input of every pane, inside the coverage or
// not, until every base that the pane fits has read it. An object that a base
// read and that was since replaced or has vanished makes that base stale:
// fields over all keep what the base read, fields with durations use what the
// bucket holds.

// unread says whether some base that the pane fits lacks an object of before
// its cut.
func (p *Plan) unread(o partition.Object) bool {
	return slices.ContainsFunc(p.bases, func(g *Generation) bool { return g.Unread(o) })
}

// wants says whether an object of this name, if it is there, belongs to the
// pane.
func (p *Plan) wants(key string, start time.Time) bool {
	return p.Coverage.Contains(start) || p.unread(partition.Object{Key: key, Partition: start})
}

// carried are the unread objects that lie before what was listed and are not
// listed again: those that one base has read and another has not, which a
// rebuild found, and the unread inputs of the live pane.
func (p *Plan) carried(f Facts) []partition.Object {
	if f.Live == nil || len(p.bases) == 0 {
		return nil
	}
	var out []partition.Object
	have := map[string]bool{}
	carry := func(in sink.Input) {
		o := partition.Object{Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: in.Partition.Time}
		if !have[o.Key] && !o.Partition.After(f.Listed.From) && !p.Coverage.Contains(o.Partition) && !o.Partition.Before(f.Since) && p.unread(o) && !f.Lost[idOf(o)] {
			out, have[o.Key] = append(out, o), true
		}
	}
	for _, g := range p.bases {
		for _, other := range p.bases {
			for _, in := range g.lacks(other) {
				carry(in)
			}
		}
	}
	for _, in := range f.Live.Inputs {
		carry(in)
	}
	return out
}

// stale finds what the bases read and what is no longer there as they read it.
func (p *Plan) stale(f Facts) {
	if len(p.bases) == 0 {
		return
	}
	there := make(map[string]partition.Object, len(f.Objects))
	for _, o := range f.Objects {
		there[o.Key] = o
	}
	for i, g := range p.bases {
		seen := g.Cut.Add(-g.longest())
		// What lies before full.since does not exist any more, and is no reason to
		// rebuild: over all keeps it, and durations lack it.
		reseen := f.Since.After(seen) && len(g.Within(partition.Range{From: seen, To: earlier(g.Cut, f.Since.Add(-1))})) > 0
		for _, in := range g.Within(f.Listed) {
			o, ok := there[in.Key]
			if ok && o.ETag == in.ETag && o.Size == in.Bytes || in.Partition.Before(f.Since) {
				continue
			}
			if i == 0 {
				p.Stale = append(p.Stale, in.Key)
			}
			reseen = reseen || in.Partition.After(seen)
		}
		if reseen {
			p.Reseen = append(p.Reseen, g.ID)
		}
	}
	slices.Sort(p.Stale)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// staleness is what the manifest names of it.
func staleness(b *sink.ManifestBase, stale []string) {
	b.Stale, b.StaleCount = stale, int64(len(stale))
	if len(stale) > sink.MaxStale {
		b.Stale = stale[:sink.MaxStale]
	}
}
