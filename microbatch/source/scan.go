package source

import (
	"context"
	"strings"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
)

// mostWanted bounds how many prefixes are looked up by name. A longer range is listed whole, with all that lies beside it.
const mostWanted = 20_000

// scan lists one configured prefix into l and returns its newest partition there.
func (r *run) scan(ctx context.Context, base string, l *Listing, clashes spellings) (*time.Time, error) {
	var newest latest
	visit := func(info *store.ObjectInfo, k *partition.Key) {
		switch {
		case k.Verdict == partition.Ignore:
			l.Ignored++
		case k.Verdict == partition.Foreign:
			l.Foreign++
		case k.Verdict != partition.OK || r.future(base, k.Prefix, k.Start):
		case k.Start.After(r.newestStart):
			l.Unsettled++
		case l.Range.Contains(k.Start):
			l.Objects = append(l.Objects, partition.Object{Key: info.Key, ETag: info.ETag, Size: info.Size, Partition: k.Start})
			clashes.add(base, *k)
			newest.see(k.Start)
		}
	}
	if r.layout.Lexical() {
		// Unsettled partitions and what follows them come with the pages anyway; nothing behind the newest eligible one is asked for.
		from := r.layout.PrefixOf(r.layout.Next(l.Range.From))
		_, err := r.walk(ctx, base, section{after: from, until: r.until(r.last)}, func() bool { return false }, visit)
		return newest.start(), err
	}
	var wanted map[string]int // nil is everything
	if labels := r.layout.Granularity() / r.layout.Unit(); r.layout.Count(l.Range) <= mostWanted/int(labels) {
		wanted = r.wanted(l.Range)
	}
	err := r.scanBelow(ctx, base, partition.Dir{}, wanted, visit)
	return newest.start(), err
}

// wanted is the canonical paths of all directories, of every level, that hold labels of the range, with how many labels each holds.
func (r *run) wanted(rg partition.Range) map[string]int {
	out := map[string]int{}
	for start := range r.layout.Starts(rg) {
		for _, prefix := range r.layout.PrefixesOf(start) {
			out[prefix]++
			for i := strings.LastIndexByte(prefix, '/'); i >= 0; i = strings.LastIndexByte(prefix, '/') {
				prefix = prefix[:i]
				out[prefix]++
			}
			out[""]++
		}
	}
	return out
}

// scanBelow lists the wanted directories below d. The last level is listed flat, if not too much of it is unwanted.
func (r *run) scanBelow(ctx context.Context, base string, d partition.Dir, wanted map[string]int, visit func(*store.ObjectInfo, *partition.Key)) error {
	labels, depth := wanted[r.layout.Canonical(d)], r.layout.Depth()
	everything := func() bool { return false }
	if wanted == nil {
		labels = r.layout.Fanout(min(d.Level, depth-1))
	}
	if d.Level == depth || d.Level > 0 && d.Level == depth-1 && r.layout.Fanout(d.Level) <= 4*labels {
		_, err := r.walk(ctx, base, section{dir: d.Path + "/"}, everything, visit)
		return err
	}
	var kids []partition.Dir
	err := r.directories(ctx, base, d, "", func(page []partition.Dir, _ string, _ bool) bool {
		for _, kid := range page {
			if wanted == nil || wanted[r.layout.Canonical(kid)] > 0 {
				kids = append(kids, kid)
			}
		}
		return true
	})
	for _, kid := range kids {
		if err != nil {
			return err
		}
		err = r.scanBelow(ctx, base, kid, wanted, visit)
	}
	return err
}
