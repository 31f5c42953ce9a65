package source

import (
	"context"
	"fmt"
	"strings"

	"github.com/deltad/deltad/store"
)

// maxEmptyPages bounds how many pages without an entry may follow each other. A server that filters may send some; one that goes on for
// ever is broken.
const maxEmptyPages = 100

// lister makes the calls, counts them, and disbelieves.
type lister struct {
	store Lister
	calls int
}

// entry is an object or, with a delimiter, a directory.
type entry struct {
	key  string // a directory's ends in "/"
	dir  bool
	info *store.ObjectInfo // an object's
}

// pages is one listing, page by page.
type pages struct {
	l       *lister
	o       store.ListOptions
	started bool
	last    string // the last entry so far
	tokens  map[string]bool
	empty   int
}

func (l *lister) list(o store.ListOptions) *pages {
	return &pages{l: l, o: o, tokens: map[string]bool{}}
}

// next returns the entries of the next page in byte order, and whether it is the last.
func (p *pages) next(ctx context.Context) ([]entry, bool, error) {
	p.l.calls++
	page, err := p.l.store.List(ctx, p.o)
	if err != nil {
		return nil, false, fmt.Errorf("list %q after %q: %w", p.o.Prefix, p.o.StartAfter, err)
	}
	entries, problem := p.check(page)
	if problem != "" {
		return nil, false, fmt.Errorf("list %q after %q: %w: %s", p.o.Prefix, p.o.StartAfter, store.ErrBadListing, problem)
	}
	p.started, p.o.Token = true, page.NextToken
	return entries, page.NextToken == "", nil
}

// done reports whether the last page was seen.
func (p *pages) done() bool { return p.started && p.o.Token == "" }

// jump goes on behind a directory instead of with the next page.
func (p *pages) jump(dir string) {
	p.o.Token, p.o.StartAfter, p.started = "", behind(dir), false
	clear(p.tokens) // a new listing may number its pages anew
}

// check is Invariant 4.
func (p *pages) check(page store.Page) ([]entry, string) {
	entries := merge(page)
	if page.NextToken != "" {
		if p.tokens[page.NextToken] {
			return nil, fmt.Sprintf("token %q came before", page.NextToken)
		}
		p.tokens[page.NextToken] = true
		if len(entries) == 0 {
			if p.empty++; p.empty > maxEmptyPages {
				return nil, fmt.Sprintf("%d empty pages in a row", p.empty)
			}
			return nil, ""
		}
	}
	p.empty = 0
	for i := range entries {
		e := &entries[i]
		rest, inside := strings.CutPrefix(e.key, p.o.Prefix)
		switch {
		case !inside:
			return nil, fmt.Sprintf("%q is outside the prefix", e.key)
		case p.last != "" && e.key <= p.last:
			return nil, fmt.Sprintf("%q comes after %q", e.key, p.last)
		case e.dir && (p.o.Delimiter == "" || strings.Index(rest, p.o.Delimiter) != len(rest)-len(p.o.Delimiter)):
			return nil, fmt.Sprintf("%q is no common prefix", e.key)
		case !e.dir && p.o.Delimiter != "" && strings.Contains(rest, p.o.Delimiter):
			return nil, fmt.Sprintf("%q is not folded into a common prefix", e.key)
		case p.o.StartAfter != "" && e.key <= p.o.StartAfter && !(e.dir && strings.HasPrefix(p.o.StartAfter, e.key)):
			return nil, fmt.Sprintf("%q is not after what was asked", e.key)
		}
		p.last = e.key
	}
	return entries, ""
}

// merge puts the objects and directories of a page, each in order, into one order. Disorder within either stays visible.
func merge(page store.Page) []entry {
	out := make([]entry, 0, len(page.Objects)+len(page.Prefixes))
	objects, dirs := page.Objects, page.Prefixes
	for len(objects) > 0 || len(dirs) > 0 {
		if len(dirs) == 0 || len(objects) > 0 && objects[0].Key <= dirs[0] {
			out = append(out, entry{key: objects[0].Key, info: &objects[0]})
			objects = objects[1:]
			continue
		}
		out = append(out, entry{key: dirs[0], dir: true})
		dirs = dirs[1:]
	}
	return out
}
