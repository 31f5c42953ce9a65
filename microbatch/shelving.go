package microbatch

import (
	"context"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/shelf"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// How long the end of a tenure waits for slices that are being kept in the
// bucket: a single run is all that there is of its process, a daemon's next
// process wants the lease.
const (
	keepPatience     = 15 * time.Second
	handOverPatience = 2 * time.Second
)

// Where the slices of a run came from, for Settings.ObserveSlices beside the
// tiers of package shelf.
const (
	TierMemory  = "memory"
	TierObjects = "objects" // no tier had it: its objects were read
)

// shelved is what a pipeline knows of its shelf.
type shelved struct {
	*shelf.Shelf // nil where nothing is kept
	// epoch is that of the last tenure.
	epoch int64
	// pane are the slices of the pane that the step in hand has published, for
	// the shelf; addresses those of the last pane of this tenure, nil for none.
	pane      []shelf.Entry
	slices    int // of the last window, and those no object was read for
	reused    int
	addresses []slice.ID
}

// newShelf makes the pipeline's shelf and the cache over it.
func (p *Pipeline) newShelf() {
	defer p.emptyCache()
	if p.set.NoCache || !p.set.KeepSlices && p.set.SliceDir == nil {
		return
	}
	set := shelf.Settings{
		Pipeline: p.set.Name, Dir: p.set.SliceDir, Recipe: p.builder.Recipe(), NewID: p.set.NewID,
		TempDir: p.set.TempDir, Memory: p.set.Memory, Observe: p.set.ObserveSlices, Log: p.set.Log,
	}
	if p.set.KeepSlices {
		set.Objects = p.set.Sink
	}
	p.shelf.Shelf = shelf.New(set)
}

func (p *Pipeline) emptyCache() {
	p.cache = slice.NewCache(p.set.CacheBytes)
	if p.shelf.Shelf != nil {
		p.cache = slice.NewCacheOver(p.shelf.Shelf, p.set.CacheBytes)
	}
}

// distrustSlices throws away the slices that were kept.
func (p *Pipeline) distrustSlices() {
	p.emptyCache()
	if p.shelf.Shelf != nil {
		p.shelf.Distrust()
	}
}

// begin begins a tenure under an epoch: the one that follows the last was
// nobody else's in between.
func (s *shelved) begin(epoch int64) {
	continued := epoch == s.epoch+1
	s.epoch, s.pane = epoch, nil
	if !continued {
		s.addresses = nil
	}
	if s.Shelf != nil {
		s.Begin(continued)
	}
}

// end ends what of a tenure is going on.
func (s *shelved) end(patience time.Duration) {
	if s.Shelf != nil {
		s.End(patience)
	}
}

// expect tells the shelf which of the slices that are not in memory the bucket
// may have: those of which the live pane read every object.
func (p *Pipeline) expect(inputs []slice.Input) {
	if p.shelf.Shelf == nil {
		return
	}
	due := p.cache.Lacks(inputs)
	read := p.readOf(inputs, due)
	expected, recipe := map[slice.ID]bool{}, p.builder.Recipe()
	var from time.Time
	for _, i := range due {
		in := inputs[i]
		if len(in.Objects) == 0 || slices.ContainsFunc(in.Objects, func(o partition.Object) bool { return !read[idOf(o)] }) {
			continue
		}
		expected[slice.AddressOf(recipe, in)] = true
		if from.IsZero() || in.Start.Before(from) {
			from = in.Start
		}
	}
	p.shelf.Expect(expected, from)
}

// readOf are the objects of the inputs numbered in due that the live pane read.
func (p *Pipeline) readOf(inputs []slice.Input, due []int) map[ObjectID]bool {
	if p.seen.live == nil || len(due) == 0 {
		return nil
	}
	starts, read := map[int64]bool{}, map[ObjectID]bool{}
	for _, i := range due {
		starts[inputs[i].Start.Unix()] = true
	}
	for _, in := range p.seen.live.Inputs {
		if starts[in.Partition.Unix()] {
			read[ObjectID{in.Key, in.ETag, in.Bytes}] = true
		}
	}
	return read
}

// ripen notes the slices of a pane that is live now.
func (p *Pipeline) ripen(plan Plan, r *Report) {
	r.Slices, r.Reused = p.shelf.slices, p.shelf.reused
	p.shelf.pane = make([]shelf.Entry, len(p.telling.Slices))
	p.shelf.addresses = p.places.of(p.telling.IDs, p.builder.Recipe())
	for i, s := range p.telling.Slices {
		// Those outside the coverage the pane itself keeps, see keepUnread.
		p.shelf.pane[i] = shelf.Entry{At: p.shelf.addresses[i], Slice: s, Local: !plan.Coverage.Contains(plan.Inputs[i].Start)}
	}
}

// places are where slices lie on the shelf. An address is a hash of a name, and of
// a long window's slices all but the newest were there a pane ago.
type places struct{ ids, at []slice.ID }

// of returns the addresses of slices, in their order, which is found again where
// those of the pane before have it.
func (p *places) of(ids []slice.ID, recipe string) []slice.ID {
	at, next := make([]slice.ID, len(ids)), 0
	for i, id := range ids {
		if k := slices.Index(p.ids[next:], id); k >= 0 {
			at[i] = p.at[next+k]
			next += k + 1
			continue
		}
		at[i] = id.Address(recipe)
	}
	p.ids, p.at = ids, at
	return at
}

// shelve hands the slices of the step's pane to the shelf. ctx is the
// tenure's: what is written goes on beside the steps that follow.
func (p *Pipeline) shelve(ctx context.Context) {
	pane := p.shelf.pane
	p.shelf.pane = nil
	if p.shelf.Shelf != nil && pane != nil {
		p.shelf.Published(ctx, pane)
	}
}

// cachedRule says which cached slices the next runs can use.
func (p *Pipeline) cachedRule() sink.CachedRule {
	rule := sink.CachedRule{Recipe: p.builder.Recipe()}
	if p.shelf.addresses != nil {
		rule.Live = make(map[string]bool, len(p.shelf.addresses))
		for _, at := range p.shelf.addresses {
			rule.Live[at.String()] = true
		}
	}
	if live := p.seen.live; live != nil && live.Coverage != nil {
		rule.From = live.Coverage.From.Time
	}
	return rule
}

// observeSlices counts where the slices of a run came from.
func (p *Pipeline) observeSlices(w slice.Window) {
	p.shelf.slices, p.shelf.reused = len(w.Slices), w.Reused
	if p.set.ObserveSlices == nil {
		return
	}
	p.set.ObserveSlices(TierMemory, shelf.Hit, w.Reused-w.Loaded)
	p.set.ObserveSlices(TierMemory, shelf.Miss, len(w.Slices)-(w.Reused-w.Loaded))
	p.set.ObserveSlices(TierObjects, shelf.Hit, len(w.Slices)-w.Reused)
}

// forgetCached tells the shelf what a collection has deleted.
func (p *Pipeline) forgetCached(plan sink.Collection) {
	if p.shelf.Shelf != nil {
		p.shelf.Collected(plan.Cached)
	}
}
