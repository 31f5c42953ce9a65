package source

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/partition"
)

// maxQuarantined bounds what one answer reports.
const maxQuarantined = 1000

// run is the state of one Newest or Scan.
type run struct {
	*Source
	lister
	newestStart time.Time // the newest start that is eligible by the time rule, whatever exists
	last        time.Time // the last instant of that partition
	lastSkewed  time.Time // the last instant of the newest partition that is not in the future
	quarantine  quarantine
}

func (s *Source) run(now time.Time) *run {
	newest := s.eligibility.Newest(s.layout.Calendar, now)
	return &run{
		Source:      s,
		lister:      lister{store: s.store},
		newestStart: newest,
		last:        s.layout.Next(newest).Add(-time.Second),
		lastSkewed:  s.layout.Next(now.Add(s.eligibility.Skew())).Add(-time.Second),
		quarantine:  quarantine{found: map[string]Quarantined{}},
	}
}

// behind is the text that sorts directly behind everything below a directory: no key lies between "dir/…" and it. It needs no character
// that a server might not take.
func behind(dir string) string { return strings.TrimSuffix(dir, "/") + "0" } // '0' follows '/'

// until is the text, relative to a prefix, behind everything of the label that holds t, where byte order is time order.
func (r *run) until(t time.Time) string { return behind(r.layout.PrefixOf(t)) }

// future quarantines a partition that starts too far ahead, and reports whether it did.
func (r *run) future(base, prefix string, start time.Time) bool {
	if !start.After(r.lastSkewed) {
		return false
	}
	at := start // of what is quarantined alone is memory taken
	r.quarantine.add(Quarantined{Path: base + prefix, Partition: &at, Reason: "starts in the future, at " + at.Format(time.RFC3339)})
	return true
}

// quarantine collects, each path once.
type quarantine struct {
	found map[string]Quarantined
	more  bool
}

func (q *quarantine) add(e Quarantined) {
	e.Path = strings.TrimSuffix(e.Path, "/")
	if _, known := q.found[e.Path]; !known && len(q.found) >= maxQuarantined {
		q.more = true
		return
	}
	q.found[e.Path] = e
}

func (q *quarantine) report() ([]Quarantined, bool) {
	var out []Quarantined
	for _, e := range q.found {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Quarantined) int { return cmp.Compare(a.Path, b.Path) })
	return out, q.more
}

// spellings collects how each canonical prefix was spelled; nil collects nothing.
type spellings map[string]*Clash

func (s spellings) add(base string, k partition.Key) {
	if s == nil {
		return
	}
	c := s[base+k.Canonical]
	if c == nil {
		s[base+k.Canonical] = &Clash{Partition: k.Start, Canonical: base + k.Canonical, Spellings: []string{base + k.Prefix}}
		return
	}
	if !slices.Contains(c.Spellings, base+k.Prefix) {
		c.Spellings = append(c.Spellings, base+k.Prefix)
	}
}

func (s spellings) report() []Clash {
	var out []Clash
	for _, c := range s {
		if len(c.Spellings) > 1 {
			slices.Sort(c.Spellings)
			out = append(out, *c)
		}
	}
	slices.SortFunc(out, func(a, b Clash) int { return cmp.Compare(a.Canonical, b.Canonical) })
	return out
}

// judge is Layout.Parse with a memory of the directory before, since neighbours in a listing share it.
type judge struct {
	parser *partition.Parser
	dir    string
	key    partition.Key
}

func (j *judge) parse(rel string, size int64) partition.Key {
	marker := size == 0 && strings.HasSuffix(rel, "/")
	if !marker && j.dir != "" && strings.HasPrefix(rel, j.dir) {
		if j.key.Verdict != partition.OK {
			return j.key // dir is a dead tree: the verdict is that of all below it
		}
		if rest := rel[len(j.key.Prefix)+1:]; !partition.Ignored(rest, size) {
			k := j.key
			k.Rest = rest
			return k
		}
	}
	k := j.parser.Parse(rel, size)
	switch {
	case k.Verdict == partition.OK:
		j.dir, j.key = rel[:len(k.Prefix)+1], k
	case k.Dead != "":
		j.dir, j.key = k.Dead, k
	}
	return k
}
