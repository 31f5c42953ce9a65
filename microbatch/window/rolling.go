package window

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple/intern"
)

// RollingOptions are what a Rolling works with. They change no document.
type RollingOptions struct {
	// Budget is the memory in bytes that the accumulators of a window may hold;
	// what needs more is folded anew by every run, as a stream.
	Budget int64
	// Granule is the length of a partition, whole seconds.
	Granule time.Duration
	// Dir and Memory are for the spools of merged slices.
	Dir    string
	Memory *spool.Budget
	// Workers is how many threads may fold a window anew, 0 for one.
	Workers int
	// Hasher makes the hashes of documents; the zero Hasher makes none.
	Hasher Hasher
}

// Rolling is a fold that stays between runs, so that a run costs what changed
// and not what the window holds. It keeps the accumulators of every key in
// memory, and the sources that they are the fold of. The next Fold looks what
// entered and what left:
//
//   - what entered is merged;
//   - what left is taken out: by inversion where the fn is a group, for nothing
//     where a fn selects and had not selected it, by the next best where it had
//     (see ladder);
//   - what is left is folded anew for those keys and fns of which none of this holds,
//     over a tree of merged slices, which all window lengths share.
//
// All of that goes block by block and column by column: the keys of a block are
// found together, and what each fn has of them is merged at once.
//
// The documents are those of Fold, byte for byte: accumulators are canonical,
// so equal multisets of records have equal ones, whatever way they were come
// by. A Rolling may be dropped at any time. After an error it begins anew, but
// after one of the caller's own emit it goes on: the window is well.
//
// It serves one goroutine, and lets others help it while that waits.
type Rolling struct {
	o       RollingOptions
	valid   bool
	program *index.Program
	types   string
	base    string
	held    *sourceSet
	known   *known
	keys    *intern.Set // those of known
	order   []uint32    // the groups that a source has, by key
	holders []int32     // by group: sources that have its key
	unnamed []int32     // by group: those of them that do not only name it
	based   []bool      // by group: whether the base has it
	found   []uint32    // scratch: groups of a block
	cells   []*cell
	cover   *cover
	lookups int   // see lookups
	share   int64 // see movingShare
	full    int64 // bytes after the last complete fold
	refused refusal
	left    int64 // see Room
	vain    bool  // see Room
	served  bool  // a run since the last complete fold
	entered int64 // rows that have been merged
	room    int   // groups that the columns have room for, as far as is known
	each    int64 // bytes that each of them takes, by the last that were added

	documents documents // as they were emitted last
}

// heldSource is a source that the accumulators are a fold of.
type heldSource struct {
	Source
	inside []bool // by fn
	named  bool
}

// sourceSet is sources by name, and in the order of time.
type sourceSet struct {
	byID map[string]*heldSource
	list []*heldSource
}

// Rolled says what a Fold did.
type Rolled struct {
	// Complete says that the window was folded anew.
	Complete bool
	// Rows are those of the slices that were read, Refolded the pairs of key and
	// fn that were folded over the tree, Nodes the nodes made for it.
	Rows, Refolded, Nodes int64
	// Mark names the emission for a later Receiver.Since. It is nil where that
	// would be in vain.
	Mark *Mark
	// Told says that Receiver.Changes was called; Documents and Tombstones are
	// then what the pane has of them.
	Told                  bool
	Documents, Tombstones int64
}

// NewRolling returns a Rolling of nothing.
func NewRolling(o RollingOptions) *Rolling {
	return &Rolling{o: o, lookups: lookups, share: movingShare}
}

// Drop forgets everything.
func (r *Rolling) Drop() { *r = Rolling{o: r.o, lookups: r.lookups, share: r.share} }

// Bytes is the memory that the accumulators and the documents hold.
func (r *Rolling) Bytes() int64 { return r.accumulated() + r.documents.bytes() }

// accumulated is the memory that the accumulators hold.
func (r *Rolling) accumulated() int64 {
	if r.keys == nil {
		return 0
	}
	n := r.known.bytes() + int64(4*(cap(r.order)+cap(r.holders)+cap(r.unnamed))+cap(r.based))
	for _, c := range r.cells {
		n += c.bytes()
	}
	return n
}

// Keys is how many keys the window has.
func (r *Rolling) Keys() int { return len(r.order) }

// Fold is FoldSampled, at the cost of what changed since the last call. ended
// says why the run is over, nil while it is not, and Fold then ends with that:
// emit would be too late to tell, as the documents come when all is merged. It
// may be nil itself.
func (r *Rolling) Fold(ended func() error, bound *index.Bound, sources []Source, base *Base, n time.Time, sampler *Sampler, emit func(Documents) error) (Rolled, error) {
	return r.FoldInto(ended, bound, sources, base, n, sampler, Receiver{Rows: emit})
}

// FoldInto is Fold for a receiver that may have the rows of an earlier pane.
func (r *Rolling) FoldInto(ended func() error, bound *index.Bound, sources []Source, base *Base, n time.Time, sampler *Sampler, to Receiver) (Rolled, error) {
	if ended == nil {
		ended = func() error { return nil }
	}
	now, rows, ok := r.sources(bound, sources, base, n)
	if !ok || r.budget() <= 0 || r.refused.holds(now, rows, r.budget()) {
		r.release()
		return Rolled{Complete: true, Rows: rows}, FoldSampled(bound, sources, base, n, sampler, to.Rows)
	}
	did, fits, err := r.bring(ended, bound, now, rows, base)
	if err != nil {
		r.release()
		if over := ended(); over != nil {
			return did, over
		}
		return did, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if !fits {
		of, bytes := r.entered, r.accumulated()
		r.release()
		r.refuse(now, rows, of, bytes)
		return Rolled{Complete: true, Rows: rows}, FoldSampled(bound, sources, base, n, sampler, to.Rows)
	}
	r.refused = refusal{}
	theirs := false
	to.Rows, to.Changes = noting(to.Rows, &theirs), noting(to.Changes, &theirs)
	if err := r.emit(bound, base, sampler, to, &did); err != nil {
		if !theirs {
			r.release() // what is kept may be at fault
		}
		return did, err
	}
	if r.accumulated() > 2*r.full+1<<20 || r.keys.Len() > 2*len(r.order)+1<<16 {
		r.release() // what groups and columns left behind
		did.Mark = nil
	}
	return did, nil
}

// sources are the sources by name, with what each feeds; ok is false where
// they have no names to tell them apart by.
func (r *Rolling) sources(bound *index.Bound, sources []Source, base *Base, n time.Time) (now *sourceSet, rows int64, ok bool) {
	now = &sourceSet{byID: make(map[string]*heldSource, len(sources))}
	overs := bound.Overs()
	var pending []bool
	if base != nil {
		pending = base.Join.Pending
	}
	for _, s := range sources {
		if s.ID == "" || now.byID[s.ID] != nil {
			return nil, 0, false
		}
		h := &heldSource{Source: s}
		h.inside, h.named = s.inside(overs, pending, n), s.names(base)
		now.byID[s.ID] = h
		rows += s.Run.Rows()
	}
	now.list = sorted(now.byID)
	return now, rows, base == nil || base.ID != ""
}

// bring makes the accumulators those of the sources. fits is false where they
// take more memory than there may be.
func (r *Rolling) bring(ended func() error, bound *index.Bound, now *sourceSet, rows int64, base *Base) (did Rolled, fits bool, err error) {
	id := ""
	if base != nil {
		id = base.ID
	}
	types := typesOf(bound)
	if r.valid && r.program == bound.Program() && r.types == types && r.base == id {
		changes := r.changes(now)
		for _, c := range changes {
			did.Rows += c.run.Rows()
		}
		if 2*did.Rows <= rows {
			r.valid = false
			err := r.apply(ended, changes, now, base, &did)
			r.entered = rows
			beyond := errors.Is(err, errBeyond)
			if err != nil && !beyond {
				return did, false, err
			}
			if !beyond && r.accumulated() <= r.budget() {
				r.valid, r.served = true, true
				return did, true, nil
			}
			// It may be what groups and columns left behind that is too much.
			if r.full > r.budget()-r.budget()/8 {
				return did, false, nil
			}
		}
	}
	r.release()
	r.program, r.types, r.base = bound.Program(), types, id
	fits, err = r.fill(ended, bound, now, base)
	r.valid = err == nil && fits
	return Rolled{Complete: true, Rows: rows}, fits, err
}

// typesOf names all that accumulators and documents depend on beside the
// program: a column of another type may have accumulators of the same TypeID,
// and one that only a filter reads is in the record order all the same.
func typesOf(bound *index.Bound) string {
	shape := bound.Shape()
	name := fmt.Sprint(shape.Keys, bound.Schema(), bound.Signature().Types)
	for _, fn := range shape.Fns {
		name += fmt.Sprint(fn.TypeID(), fn.Args(), fn.Output())
	}
	return name
}

// sorted are the sources in the order of time.
func sorted(sources map[string]*heldSource) []*heldSource {
	list := make([]*heldSource, 0, len(sources))
	for _, id := range slices.Sorted(maps.Keys(sources)) {
		list = append(list, sources[id])
	}
	slices.SortStableFunc(list, func(a, b *heldSource) int { return a.Start.Compare(b.Start) })
	return list
}

// slot is the number of a partition on the time line.
func (r *Rolling) slot(start time.Time) int64 {
	width := int64(max(1, r.o.Granule/time.Second))
	at := start.Unix()
	if at < 0 {
		at -= width - 1
	}
	return at / width
}

// change is a source that entered, left, or feeds other fns than before.
type change struct {
	run     *table.Run
	start   time.Time
	slot    int64
	delta   []int8 // by fn: 1 it enters, -1 it leaves
	holder  int32
	unnamed int32
	twin    *change // see pair; nil for none
}

// does says whether some of the change moves the way asked for.
func (c *change) does(moves func(int) bool) bool {
	return moves(int(c.holder)) || moves(int(c.unnamed)) || slices.ContainsFunc(c.delta, func(d int8) bool { return moves(int(d)) })
}

// changes are the differences between what is held and what is to be.
func (r *Rolling) changes(now *sourceSet) []change {
	var out []change
	one := func(was, is *heldSource) {
		c := change{delta: make([]int8, len(r.cells))}
		differs := false
		if was != nil {
			c.run, c.start, c.slot, c.holder = was.Run, was.Start, r.slot(was.Start), -1
			if !was.named {
				c.unnamed--
			}
			for j, in := range was.inside {
				if in {
					c.delta[j]--
				}
			}
		}
		if is != nil {
			c.run, c.start, c.slot = is.Run, is.Start, r.slot(is.Start)
			c.holder++
			if !is.named {
				c.unnamed++
			}
			for j, in := range is.inside {
				if in {
					c.delta[j]++
				}
			}
		}
		for _, d := range c.delta {
			differs = differs || d != 0
		}
		if differs || c.holder != 0 || c.unnamed != 0 {
			out = append(out, c)
		}
	}
	for _, s := range r.held.list {
		one(s, now.byID[s.ID])
	}
	for _, s := range now.list {
		if r.held.byID[s.ID] == nil {
			one(nil, s)
		}
	}
	// What enters must do so in the order of time, see cell.enter.
	slices.SortStableFunc(out, func(a, b change) int { return cmp.Compare(a.slot, b.slot) })
	return out
}
