package source

import (
	"context"
	"strings"
	"time"

	"github.com/deltad/deltad/partition"
)

const (
	// hotGranules is how far back the first look goes.
	hotGranules = 60
	// patience is how many prefixes may turn out to hold nothing before plain pages are bisected instead.
	patience = 3
	century  = 100 * 365 * 24 * time.Hour
)

// newest finds the newest visible eligible partition below one configured prefix; nil if there is none (after after).
func (r *run) newest(ctx context.Context, base string, after *time.Time) (*time.Time, error) {
	find := r.search
	if r.layout.Lexical() {
		find = r.lookThenSearch
	}
	newest, err := find(ctx, base, after)
	if err != nil || newest == nil || after != nil && !newest.After(*after) {
		return nil, err
	}
	return newest, nil
}

// lookThenSearch is for layouts whose byte order is time order: one page around now, then the search in the past.
func (r *run) lookThenSearch(ctx context.Context, base string, after *time.Time) (*time.Time, error) {
	from, enough := r.layout.Floor(r.last.Add(-(hotGranules-1)*r.layout.Granularity())), false
	if from.Before(r.layout.Oldest()) {
		from = r.layout.Oldest()
	}
	if after != nil && !r.layout.Next(*after).Before(from) {
		from, enough = r.layout.Next(*after), true
	}
	if from.After(r.last) {
		return nil, nil
	}
	newest, covered, err := r.probe(ctx, base, section{after: r.layout.PrefixOf(from), until: r.until(r.last), pages: 1})
	switch {
	case err != nil || covered && (newest != nil || enough || from.Equal(r.layout.Oldest())):
		return newest, err
	case covered:
		return r.widen(ctx, base, from.Add(-time.Second))
	case newest != nil:
		return r.bisect(ctx, base, *newest, r.last) // at most log2(60) more pages
	}
	// A page of nothing visible and more to come: look in the innermost directory that holds all of it.
	level := r.layout.Depth() - 1
	for level > 0 && r.layout.DirOf(from, level) != r.layout.DirOf(r.last, level) {
		level--
	}
	return r.descendFrom(ctx, base, r.dirAt(r.last, level), r.last)
}

// dirAt is the directory of a level that holds t.
func (r *run) dirAt(t time.Time, level int) partition.Dir {
	var d partition.Dir
	if level == 0 {
		return d
	}
	for name := range strings.SplitSeq(r.layout.DirOf(t, level), "/") {
		d, _, _ = r.layout.Child(d, name)
	}
	return d
}

// widen finds the newest at or before hi. A binary search over the directories that contain hi finds the innermost that holds something
// at or before it; each look is one page from the directory's beginning.
func (r *run) widen(ctx context.Context, base string, hi time.Time) (*time.Time, error) {
	inner, outer := r.layout.Depth()-1, 0
	limit := hi
	for outer < inner {
		level := (outer + inner + 1) / 2
		d := r.dirAt(hi, level)
		if r.layout.Earliest(d).After(limit) {
			inner = level - 1 // all of it was seen already
			continue
		}
		newest, covered, err := r.probe(ctx, base, section{dir: d.Path + "/", until: r.until(limit), pages: 1})
		switch {
		case err != nil || covered && newest != nil:
			return newest, err
		case covered:
			inner, limit = level-1, r.layout.Earliest(d).Add(-time.Second)
		default:
			outer = level
		}
	}
	if limit.Before(r.layout.Oldest()) {
		return nil, nil
	}
	return r.descendFrom(ctx, base, r.dirAt(hi, outer), limit)
}

// descendFrom finds the newest at or before hi, looking first below d, which holds something at or before hi that need not be visible.
func (r *run) descendFrom(ctx context.Context, base string, d partition.Dir, hi time.Time) (*time.Time, error) {
	s := descent{run: r, base: base}
	newest, err := s.below(ctx, d, hi)
	if err == nil && newest == nil && d.Level > 0 && !s.lost() {
		newest, err = s.below(ctx, partition.Dir{}, r.layout.Earliest(d).Add(-time.Second))
	}
	if err == nil && newest == nil && s.lost() {
		return r.bisectBack(ctx, base, s.rest)
	}
	return newest, err
}

// descent goes down, newest first.
type descent struct {
	*run
	base string
	// failed counts the directories that held nothing; everything after rest is known to hold nothing.
	failed int
	rest   time.Time
}

func (s *descent) lost() bool { return s.failed >= patience }

func (s *descent) fail(d partition.Dir) {
	s.failed++
	s.rest = s.layout.Earliest(d).Add(-time.Second)
}

// below finds the newest below d at or before hi; nil if there is none or the descent is lost.
func (s *descent) below(ctx context.Context, d partition.Dir, hi time.Time) (*time.Time, error) {
	if d.Level == s.layout.Depth() {
		visible, err := s.visible(ctx, s.base, d)
		if err != nil || !visible {
			s.fail(d)
			return nil, err
		}
		start := s.layout.Floor(d.Label())
		return &start, nil
	}
	for {
		kids, complete, err := s.children(ctx, s.base, d, hi)
		if err != nil {
			return nil, err
		}
		for i := len(kids) - 1; i >= 0; i-- {
			newest, err := s.below(ctx, kids[i], hi)
			if err != nil || newest != nil || s.lost() {
				return newest, err
			}
		}
		if complete || len(kids) == 0 {
			s.fail(d)
			return nil, nil
		}
		hi = s.layout.Earliest(kids[0]).Add(-time.Second)
	}
}

// children returns the last children of d that may hold something at or before hi, oldest first and without a hole between the first of
// them and hi; complete means that there are none before. A level of more than a page is bisected by time.
func (r *run) children(ctx context.Context, base string, d partition.Dir, hi time.Time) (kids []partition.Dir, complete bool, err error) {
	level := d.Level + 1
	// list reads on until a page brings a child or the end of what is asked.
	list := func(after string, hi time.Time) (kids []partition.Dir, covered bool, err error) {
		until := behind(r.layout.DirOf(hi, level))
		err = r.directories(ctx, base, d, after, func(page []partition.Dir, last string, end bool) bool {
			for _, kid := range page {
				if kid.Path < until {
					kids = append(kids, kid)
				}
			}
			covered = end || last >= until
			return !covered && len(kids) == 0
		})
		return kids, covered, err
	}
	kids, complete, err = list("", hi)
	for err == nil && !complete {
		newest := kids[len(kids)-1]
		lo := r.layout.Earliest(newest)
		mid := r.layout.DirOf(lo.Add(hi.Sub(lo)/2), level)
		midTime := lo.Add(hi.Sub(lo) / 2)
		if newest.Path >= r.layout.DirOf(hi, level) {
			return kids, false, nil
		}
		if d.Path != "" && !strings.HasPrefix(mid, d.Path+"/") {
			hi = midTime // behind d altogether
			continue
		}
		later, covered, err := list(behind(max(mid, newest.Path)), hi)
		switch {
		case err != nil:
			return nil, false, err
		case len(later) > 0 && covered:
			return later, false, nil
		case len(later) > 0:
			kids = later
		case mid <= newest.Path:
			return kids, false, nil
		default:
			hi = midTime
		}
	}
	return kids, complete, err
}

// bisectBack finds the newest at or before hi by plain pages: stretches that grow eightfold towards the past until one holds something
// visible, which is then bisected by time. Pages of ignored objects are read on.
func (r *run) bisectBack(ctx context.Context, base string, hi time.Time) (*time.Time, error) {
	oldest := r.layout.Oldest()
	for length := hotGranules * r.layout.Granularity(); !hi.Before(oldest); length = min(8*length, century) {
		from := r.layout.Floor(hi.Add(-length))
		if from.Before(oldest) {
			from = oldest
		}
		newest, covered, err := r.probe(ctx, base, section{after: r.layout.PrefixOf(from), until: r.until(hi)})
		if err != nil || newest != nil && covered {
			return newest, err
		}
		if newest != nil {
			return r.bisect(ctx, base, *newest, hi)
		}
		hi = from.Add(-time.Second)
	}
	return nil, nil
}

// bisect finds the newest at or before hi, where the partition at lo is visible.
func (r *run) bisect(ctx context.Context, base string, lo, hi time.Time) (*time.Time, error) {
	for !r.layout.Next(lo).After(hi) {
		mid := r.layout.Floor(lo.Add(hi.Sub(lo) / 2))
		if !mid.After(lo) {
			mid = r.layout.Next(lo)
		}
		newest, covered, err := r.probe(ctx, base, section{after: r.layout.PrefixOf(mid), until: r.until(hi)})
		switch {
		case err != nil || newest != nil && covered:
			return newest, err
		case newest != nil:
			lo = *newest
		default:
			hi = mid.Add(-time.Second)
		}
	}
	return &lo, nil
}
