package source

import (
	"context"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
)

// section is a stretch of a flat listing. All texts are relative to the configured prefix.
type section struct {
	dir   string // only keys that begin with it; "" or ending in "/"
	after string // only keys behind it
	until string // the stretch ends before this text; "" is no end
	// pages bounds the calls; 0 is no bound. The stretch may then end early.
	pages int
}

// walk visits the objects of a section in key order, jumping over dead trees (Invariant 3), and quarantines what it must. It stops after
// a page once enough says so. Covered reports that everything in the section was visited; a listing may be read a little beyond until,
// and what lies there is visited too.
func (r *run) walk(ctx context.Context, base string, s section, enough func() bool, visit func(*store.ObjectInfo, *partition.Key)) (covered bool, err error) {
	o := store.ListOptions{Prefix: base + s.dir}
	if s.after != "" {
		o.StartAfter = base + s.after
	}
	p, j := r.list(o), judge{parser: r.layout.Parser()}
	var k partition.Key
	for n := 1; ; n++ {
		entries, end, err := p.next(ctx)
		if err != nil {
			return false, err
		}
		dead := ""
		for i := range entries {
			info := entries[i].info
			k = j.parse(info.Key[len(base):], info.Size)
			if k.Verdict == partition.Quarantine {
				r.quarantine.add(Quarantined{Path: base + k.Dead, Reason: k.Reason})
			}
			dead = k.Dead
			visit(info, &k)
		}
		if end {
			return true, nil
		}
		// Invariant 2: what sorts behind the section is not read page by page.
		if s.until != "" && p.last >= base+s.until {
			r.quarantine.more = true
			return true, nil
		}
		if dead != "" {
			if s.until != "" && behind(dead) >= s.until {
				r.quarantine.more = true
				return true, nil
			}
			p.jump(base + dead)
		}
		if n == s.pages || enough() {
			return false, nil
		}
	}
}

// probe walks a section and reports the newest visible eligible partition met. If it is not covered there may be newer ones. A patient
// probe reads on while nothing visible was met, so that an uncovered one always has a newest.
func (r *run) probe(ctx context.Context, base string, s section) (newest *time.Time, covered bool, err error) {
	var seen latest
	covered, err = r.walk(ctx, base, s, func() bool { return seen.any }, func(_ *store.ObjectInfo, k *partition.Key) {
		if k.Verdict != partition.OK || r.future(base, k.Prefix, k.Start) || k.Start.After(r.newestStart) {
			return
		}
		seen.see(k.Start)
	})
	return seen.start(), covered, err
}

// latest is the newest of the starts that were seen.
type latest struct {
	at  time.Time
	any bool
}

func (l *latest) see(start time.Time) {
	if !l.any || start.After(l.at) {
		l.at, l.any = start, true
	}
}

// start is nil if none was seen.
func (l *latest) start() *time.Time {
	if !l.any {
		return nil
	}
	at := l.at
	return &at
}

// visible reports whether a directory of full depth holds an object that is not ignored (Invariant 1).
func (r *run) visible(ctx context.Context, base string, d partition.Dir) (bool, error) {
	found := false
	_, err := r.walk(ctx, base, section{dir: d.Path + "/"}, func() bool { return found }, func(_ *store.ObjectInfo, k *partition.Key) {
		found = found || k.Verdict == partition.OK
	})
	return found, err
}

// directories lists what lies directly below d, page by page, and yields the children that may hold partitions, oldest name first. It
// stops when yield, called after each page, says so. Everything else that it meets is quarantined or left.
func (r *run) directories(ctx context.Context, base string, d partition.Dir, after string, yield func(kids []partition.Dir, last string, end bool) bool) error {
	path := d.Path
	if path != "" {
		path += "/"
	}
	if name, fixed := r.layout.Fixed(d.Level); fixed {
		var kids []partition.Dir
		if kid, verdict, _ := r.layout.Child(d, name); verdict == partition.OK {
			kids = append(kids, kid)
		}
		yield(kids, "", true)
		return nil
	}
	o := store.ListOptions{Prefix: base + path + r.layout.Head(d.Level), Delimiter: "/"}
	if after != "" {
		o.StartAfter = base + after
	}
	p := r.list(o)
	for !p.done() {
		entries, end, err := p.next(ctx)
		if err != nil {
			return err
		}
		var kids []partition.Dir
		for _, e := range entries {
			if !e.dir || after != "" && e.key <= base+after {
				continue
			}
			kid, verdict, reason := r.layout.Child(d, e.key[len(base)+len(path):len(e.key)-1])
			switch verdict {
			case partition.OK:
				if !r.futureDir(base, kid) {
					kids = append(kids, kid)
				}
			case partition.Quarantine:
				r.quarantine.add(Quarantined{Path: e.key, Reason: reason})
			case partition.Foreign, partition.Ignore:
			}
		}
		last := ""
		if p.last != "" {
			last = p.last[len(base):]
		}
		if !yield(kids, last, end) {
			r.quarantine.more = r.quarantine.more || !end
			return nil
		}
	}
	return nil
}

// futureDir quarantines a directory under which every label is too far ahead, and reports whether it did.
func (r *run) futureDir(base string, d partition.Dir) bool {
	if _, some := r.layout.Latest(d, r.lastSkewed); some {
		return false
	}
	e := Quarantined{Path: base + d.Path, Reason: "lies in the future"}
	if d.Level == r.layout.Depth() {
		start := r.layout.Floor(d.Label())
		e.Partition, e.Reason = &start, "starts in the future, at "+start.Format(time.RFC3339)
	}
	r.quarantine.add(e)
	return true
}
