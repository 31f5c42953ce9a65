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
// rebuild found, and the unread inputs of the live pane, skipped ones too.
func (p *Plan) carried(f Facts) []partition.Object {
	if f.Live == nil || len(p.bases) == 0 {
		return nil
	}
	var out []partition.Object
	have := map[string]bool{}
	carry := func(in sink.Input) {
		o := partition.Object{Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: in.Partition.Time}
		if !have[o.Key] && !o.Partition.After(f.Listed.From) && !p.Coverage.Contains(o.Partition) && !o.Partition.Before(f.Since) && p.unread(o) && !f.Lost[idOf(o)] && f.placed(o) {
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
	for _, s := range f.Live.Skipped {
		if s.Partition != nil {
			carry(sink.Input{Key: s.Key, ETag: s.ETag, Bytes: s.Bytes, Partition: *s.Partition})
		}
	}
	return out
}

// placed says whether the source as it is configured now still has an object
// where it was: what lies below a prefix that was given up is not carried.
func (f Facts) placed(o partition.Object) bool {
	if f.Place == nil {
		return true
	}
	start, ok := f.Place(o.Key, o.Size)
	return ok && start.Equal(o.Partition)
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
	same := func(in sink.Input) bool {
		o, ok := there[in.Key]
		return ok && o.ETag == in.ETag && o.Size == in.Bytes
	}
	for i, g := range p.bases {
		for _, in := range g.Within(f.Listed) {
			// What lies before full.since does not exist any more, and is no reason to
			// rebuild: over all keeps it, and durations lack it.
			if i == 0 && !same(in) && !in.Partition.Before(f.Since) {
				p.Stale = append(p.Stale, in.Key)
			}
		}
		if g.reseen(f.Since, same) {
			p.Reseen = append(p.Reseen, g.ID)
		}
	}
	slices.Sort(p.Stale)
}

// reseen says whether the delta must have all keys that the generation saw in
// (cut − D, cut]: something that it read there is not the same any more, or lies
// before full.since now. All of that range is listed, and inside the coverage.
func (g *Generation) reseen(since time.Time, same func(sink.Input) bool) bool {
	return slices.ContainsFunc(g.Within(partition.Range{From: g.Cut.Add(-g.longest()), To: g.Cut}), func(in sink.Input) bool {
		return in.Partition.Before(since) || !same(in)
	})
}

// staleness is what the manifest names of it.
func staleness(b *sink.ManifestBase, stale []string) {
	b.Stale, b.StaleCount = stale, int64(len(stale))
	if len(stale) > sink.MaxStale {
		b.Stale = stale[:sink.MaxStale]
	}
}
