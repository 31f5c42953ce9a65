package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
)

// Lister is what a source needs of a store, rooted at the source's URL. See store.Store for the contract.
type Lister interface {
	List(ctx context.Context, o store.ListOptions) (store.Page, error)
	Head(ctx context.Context, key string) (store.ObjectInfo, error)
}

// Options describe a source.
type Options struct {
	Layout *partition.Layout
	// Prefixes are the directories below the source's URL that each hold the layout, without slashes at either end; none means the URL
	// itself. A partition is the union over all of them.
	Prefixes    []string
	Eligibility partition.Eligibility
}

// Source lists one pipeline's partitions.
type Source struct {
	store       Lister
	layout      *partition.Layout
	bases       []string // prefixes with a trailing slash, or one ""
	eligibility partition.Eligibility
}

// New returns a source. It does no I/O. The error names every prefix that cannot be used.
func New(l Lister, o Options) (*Source, error) {
	if o.Layout == nil {
		return nil, errors.New("source: no layout")
	}
	if o.Eligibility.Granule == 0 {
		o.Eligibility.Granule = o.Layout.Granularity()
	}
	s := &Source{store: l, layout: o.Layout, eligibility: o.Eligibility}
	var problems []error
	for i, p := range o.Prefixes {
		clean := strings.TrimSuffix(p, "/")
		if clean == "" || strings.HasPrefix(clean, "/") || strings.Contains("/"+clean+"/", "//") || strings.Contains("/"+clean+"/", "/./") || strings.Contains("/"+clean+"/", "/../") {
			problems = append(problems, fmt.Errorf("prefixes[%d]: must be a relative path without empty, . or .. segments, got %q", i, p))
			continue
		}
		base := clean + "/"
		for _, other := range s.bases {
			if strings.HasPrefix(base, other) || strings.HasPrefix(other, base) {
				problems = append(problems, fmt.Errorf("prefixes[%d]: %q and %q lie in each other, objects would count twice", i, p, strings.TrimSuffix(other, "/")))
			}
		}
		s.bases = append(s.bases, base)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if len(s.bases) == 0 {
		s.bases = []string{""}
	}
	return s, nil
}

// Layout is the source's layout.
func (s *Source) Layout() *partition.Layout { return s.layout }

// Eligibility is the source's time rule.
func (s *Source) Eligibility() partition.Eligibility { return s.eligibility }

// PrefixState is what one configured prefix holds.
type PrefixState struct {
	// Prefix is as configured, without a trailing slash; "" for the source's URL itself.
	Prefix string
	// Newest is the start of its newest visible eligible partition; nil if none was found.
	Newest *time.Time
}

// Quarantined is something that looks like a partition and is not used.
type Quarantined struct {
	// Path is the directory's key, with the configured prefix and without a trailing slash. It may be above a partition's prefix: a whole
	// year, say.
	Path string
	// Partition is the start, if it has one: for partitions in the future.
	Partition *time.Time
	Reason    string
}

// Clash is two or more spellings of one prefix (03/9 and 03/09), of which all objects are inputs.
type Clash struct {
	Partition time.Time
	// Canonical is the key as the layout spells it, with the configured prefix; Spellings are the keys found, sorted.
	Canonical string
	Spellings []string
}

// Found is the answer to where the newest partition is.
type Found struct {
	// Newest is the start of the newest visible eligible partition over all prefixes; nil if there is none.
	Newest   *time.Time
	Prefixes []PrefixState
	// Quarantined is what was met on the way, sorted by path. There may be more: MoreQuarantined says that the listing was not read to its
	// end.
	Quarantined     []Quarantined
	MoreQuarantined bool
	// Calls is the number of listing calls made.
	Calls int
}

// Lagging returns the prefixes whose newest partition is more than by behind the newest over all (or that have none), in configured order.
func Lagging(prefixes []PrefixState, by time.Duration) []string {
	newest := newestOf(prefixes)
	var out []string
	for _, p := range prefixes {
		if newest != nil && (p.Newest == nil || newest.Sub(*p.Newest) > by) {
			out = append(out, p.Prefix)
		}
	}
	return out
}

func newestOf(prefixes []PrefixState) *time.Time {
	var newest *time.Time
	for _, p := range prefixes {
		if p.Newest != nil && (newest == nil || p.Newest.After(*newest)) {
			newest = p.Newest
		}
	}
	return newest
}

// Listing is what a range of partitions holds.
type Listing struct {
	// Range is what was listed: (after, the newest partition that is eligible by the time rule].
	Range partition.Range
	// Objects are the inputs, sorted by partition, then key. Their partitions, the starts in UTC, are visible, eligible and in Range.
	Objects []partition.Object
	// Newest is the newest start in Objects; nil if there is none, which says nothing about what lies before Range.
	Newest   *time.Time
	Prefixes []PrefixState
	// Quarantined is what was met on the way, sorted by path. Where byte order is time order, everything quarantined that sorts between
	// the range's start and the end of the last page is in it.
	Quarantined     []Quarantined
	MoreQuarantined bool
	Clashes         []Clash
	// Ignored, Foreign and Unsettled count objects met and left out: ignored by default, not of the layout, eligible only later.
	Ignored, Foreign, Unsettled int
	Calls                       int
}

// Inputs are the objects of the partitions in r, sorted by partition, then key.
func (l Listing) Inputs(r partition.Range) []partition.Object {
	after := func(t time.Time) int {
		return sort.Search(len(l.Objects), func(i int) bool { return l.Objects[i].Partition.After(t) })
	}
	from, to := after(r.From), after(r.To)
	return slices.Clone(l.Objects[from:max(from, to)])
}

// Starts are the starts of the partitions that hold Objects, oldest first.
func (l Listing) Starts() []time.Time {
	var out []time.Time
	for _, o := range l.Objects {
		if n := len(out); n == 0 || !out[n-1].Equal(o.Partition) {
			out = append(out, o.Partition)
		}
	}
	return out
}

// inOrder is how Objects are sorted.
func inOrder(a, b partition.Object) int {
	if c := a.Partition.Compare(b.Partition); c != 0 {
		return c
	}
	return strings.Compare(a.Key, b.Key)
}

// Newest finds the newest visible eligible partition at now, from nothing. If after is given, it only looks for one that is newer, and
// finds nil otherwise.
func (s *Source) Newest(ctx context.Context, now time.Time, after *time.Time) (Found, error) {
	r := s.run(now)
	var f Found
	for _, base := range s.bases {
		newest, err := r.newest(ctx, base, after)
		if err != nil {
			return Found{}, fmt.Errorf("find newest partition below %q: %w", base, err)
		}
		f.Prefixes = append(f.Prefixes, PrefixState{Prefix: strings.TrimSuffix(base, "/"), Newest: newest})
	}
	f.Newest, f.Calls = newestOf(f.Prefixes), r.calls
	f.Quarantined, f.MoreQuarantined = r.quarantine.report()
	return f, nil
}

// Scan lists every eligible partition that starts after after.
func (s *Source) Scan(ctx context.Context, now, after time.Time) (Listing, error) {
	r := s.run(now)
	if oldest := s.layout.Oldest().Add(-time.Second); after.Before(oldest) {
		after = oldest // nothing before it can be spelled
	}
	l := Listing{Range: partition.Range{From: after.UTC(), To: r.newestStart}}
	var clashes spellings
	if !s.layout.OneSpelling() {
		clashes = spellings{}
	}
	for _, base := range s.bases {
		newest, err := r.scan(ctx, base, &l, clashes)
		if err != nil {
			return Listing{}, fmt.Errorf("list partitions below %q after %s: %w", base, after.UTC().Format(time.RFC3339), err)
		}
		l.Prefixes = append(l.Prefixes, PrefixState{Prefix: strings.TrimSuffix(base, "/"), Newest: newest})
	}
	if !slices.IsSortedFunc(l.Objects, inOrder) { // several prefixes, or a layout whose text order is not time order
		slices.SortFunc(l.Objects, inOrder)
	}
	l.Newest, l.Calls, l.Clashes = newestOf(l.Prefixes), r.calls, clashes.report()
	l.Quarantined, l.MoreQuarantined = r.quarantine.report()
	return l, nil
}

// Place returns the start of the partition that holds an object of this key and size, as the source is configured: a visible one, whatever
// its time. ok is false where no listing has it: the prefix, the layout or the rules of what is ignored know no such object.
func (s *Source) Place(key string, size int64) (start time.Time, ok bool) {
	for _, base := range s.bases {
		if rel, below := strings.CutPrefix(key, base); below {
			k := s.layout.Parse(rel, size)
			return k.Start, k.Verdict == partition.OK
		}
	}
	return time.Time{}, false
}

// PathColumns returns the name=value directories of an object's key, below the configured prefix, exactly as they are.
func (s *Source) PathColumns(key string) []partition.Column {
	for _, base := range s.bases {
		if rel, ok := strings.CutPrefix(key, base); ok {
			return partition.PathColumns(rel)
		}
	}
	return nil
}
