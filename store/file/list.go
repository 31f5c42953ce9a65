package file

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/deltad/deltad/store"
)

// List implements store.Store.
func (s *Store) List(ctx context.Context, o store.ListOptions) (store.Page, error) {
	w := &walk{ctx: ctx, o: o, after: o.StartAfter}
	if s.memory.mu.TryLock() { // of listings at the same time, one remembers
		defer s.memory.mu.Unlock()
		w.memory = &s.memory
		w.memory.begin(time.Now())
		if o.Delimiter == "" {
			w.page.Objects = make([]store.ObjectInfo, 0, min(o.Limit(), s.memory.size))
		}
	}
	if o.Token != "" {
		b, err := hex.DecodeString(o.Token)
		if err != nil {
			return store.Page{}, s.fail("list", o.Prefix, fmt.Errorf("token %q: %w", o.Token, err))
		}
		w.after = string(b)
	}
	err := w.from(s.root)
	if errors.Is(err, errStop) {
		w.page.NextToken = hex.EncodeToString([]byte(w.last))
		err = nil
	}
	if err != nil {
		return store.Page{}, s.fail("list", o.Prefix, err)
	}
	return w.page, nil
}

// errStop ends a walk: the page is full and there is more, or a look for any object found one.
var errStop = errors.New("stop")

// walk collects one page. Entries, that is keys and common prefixes, are met in byte order; those behind after are wanted.
type walk struct {
	ctx   context.Context
	o     store.ListOptions
	after string

	page   store.Page
	n      int
	last   string
	reads  int     // directories read, which is what a listing costs
	memory *memory // nil is none

	at     place // the nearest directory that is open, to look from
	places int   // how many are
}

// from begins in the directory that the prefix names, so that nothing beside it is read.
func (w *walk) from(root string) error {
	base := w.o.Prefix[:strings.LastIndexByte(w.o.Prefix, '/')+1]
	for seg := range strings.SplitSeq(strings.TrimSuffix(base, "/"), "/") {
		if base != "" && (segment(seg) != nil || strings.IndexByte(seg, 0) >= 0) {
			return nil // no key begins so
		}
	}
	if base == "" {
		if fi, err := os.Stat(root); err == nil && !fi.IsDir() {
			return fmt.Errorf("%s is not a directory", root)
		}
	}
	return w.dir(filepath.Join(root, filepath.FromSlash(base)), base)
}

// entry is one name in a directory; key ends in "/" for a directory.
type entry struct {
	key, path string
	dir       bool
	link      fs.FileInfo // of a directory reached by a link
	// A file as it was last listed, where it was: its ETag is not empty then.
	was  version
	info store.ObjectInfo
}

// dir walks one directory whose keys begin with base.
func (w *walk) dir(path, base string) error {
	es, err := w.read(path, base)
	if err != nil {
		return err
	}
	if before, came := w.approach(path, len(es)); came {
		defer w.leave(before)
	}
	inside := strings.HasPrefix(base, w.o.Prefix)
	for i := range es {
		e := &es[i]
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if behind := inside && w.n > 0; !behind && !w.inRange(e.key, e.dir) { // behind an entry that is wanted all are
			continue
		}
		switch {
		case !e.dir:
			err = w.file(e)
		case w.o.Delimiter == "/" && len(e.key) > len(w.o.Prefix):
			err = w.folded(e)
		default:
			err = w.descend(e, w.dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// worthwhile is how many entries a directory has that is opened to look at them from it: opening and closing cost about two looks.
	worthwhile = 4
	// mostPlaces bounds how many are open at once, one in the other.
	mostPlaces = 16
)

// approach makes the directory at a path, whose entries are next, the place to look from, if that pays and can be done; leave goes back
// to the one before.
func (w *walk) approach(path string, entries int) (before place, came bool) {
	before = w.at
	if entries < worthwhile || w.places == mostPlaces {
		return before, false
	}
	at, came := before.nearer(path)
	if came {
		w.at, w.places = at, w.places+1
	}
	return before, came
}

func (w *walk) leave(before place) {
	w.at.close()
	w.at, w.places = before, w.places-1
}

// descend goes on into a directory unless it is a link to one that it lies in: that would never end.
func (w *walk) descend(e *entry, into func(path, base string) error) error {
	if e.link != nil && inside(e.path, e.link) {
		return nil
	}
	return into(e.path, e.key)
}

// inside reports whether a path lies in the directory, by the names that lead to it.
func inside(path string, dir fs.FileInfo) bool {
	for p := filepath.Dir(path); ; p = filepath.Dir(p) {
		if fi, err := os.Stat(p); err == nil && os.SameFile(fi, dir) {
			return true
		}
		if p == filepath.Dir(p) {
			return false
		}
	}
}

// read returns the entries that can hold what is wanted, and maybe others, in byte order of their keys.
func (w *walk) read(path, base string) ([]entry, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	if es, ok := w.memory.recall(w.at, path); ok {
		return es, nil
	}
	f, err := os.Open(path)
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	w.reads++
	mark, memorable := w.memory.mark(f)
	var es []entry
	var held []fs.DirEntry // until it is known whether the directory is remembered
	for {
		batch, err := f.ReadDir(1024)
		end := err == io.EOF || gone(err)
		held = append(held, batch...)
		if memorable = memorable && (err == nil || err == io.EOF) && len(held) <= mostEntries && !slices.ContainsFunc(batch, isLink); !memorable {
			for _, d := range held {
				if e, ok := w.wanted(path, base, d); ok {
					es = append(es, e)
				}
			}
			held = held[:0]
		}
		if end {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if memorable {
		es = plain(path, base, held)
	}
	slices.SortFunc(es, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	if memorable {
		w.memory.keep(path, mark, es)
	}
	return es, nil
}

func isLink(d fs.DirEntry) bool { return d.Type()&fs.ModeSymlink != 0 }

// gone says that what was to be read is not there (any more), or is not a directory.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) ||
		errors.Is(err, syscall.ENAMETOOLONG)
}

// wanted decides by name alone where it can: files that are outside the prefix or not behind after, and directories all of whose keys
// are, are left alone.
func (w *walk) wanted(path, base string, d fs.DirEntry) (entry, bool) {
	name := d.Name()
	if name == private {
		return entry{}, false
	}
	e := entry{key: base + name, path: filepath.Join(path, name), dir: d.IsDir()}
	if isLink(d) {
		if !w.inRange(e.key+"/", true) && !w.inRange(e.key, false) {
			return entry{}, false
		}
		fi, err := os.Stat(e.path)
		if err != nil {
			return entry{}, false // a dangling link names no object
		}
		if e.dir = fi.IsDir(); e.dir {
			e.link = fi
		}
	} else if !e.dir && !d.Type().IsRegular() {
		return entry{}, false
	}
	if e.dir {
		e.key += "/"
	}
	return e, w.inRange(e.key, e.dir)
}

func (w *walk) inRange(key string, dir bool) bool {
	if strings.HasPrefix(key, w.o.Prefix) {
		return key > w.after || dir && strings.HasPrefix(w.after, key)
	}
	return dir && strings.HasPrefix(w.o.Prefix, key) && (key > w.after || strings.HasPrefix(w.after, key))
}

// file emits an object, or folds it at a delimiter other than "/".
func (w *walk) file(e *entry) error {
	if w.o.Delimiter != "" {
		if i := strings.Index(e.key[len(w.o.Prefix):], w.o.Delimiter); i >= 0 {
			p := e.key[:len(w.o.Prefix)+i+len(w.o.Delimiter)]
			if p <= w.after || p == w.last {
				return nil
			}
			if _, err := stat(e.path); err == nil {
				return w.prefix(p)
			}
			return nil // deleted meanwhile
		}
	}
	is, at, err := w.at.look(e.path)
	if gone(err) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return err
	}
	if e.info.ETag == "" || e.was != is {
		if err := store.CheckKey(e.key); err != nil {
			return fmt.Errorf("file %q cannot be an object, rename it: %w", e.path, err)
		}
		e.was, e.info = is, is.info(e.key, at)
	}
	if err := w.room(e.key); err != nil {
		return err
	}
	w.page.Objects = append(w.page.Objects, e.info)
	return nil
}

// folded emits a directory as a common prefix if there is any object in it.
func (w *walk) folded(e *entry) error {
	if e.key <= w.after {
		return nil
	}
	found := &finder{walk: walk{ctx: w.ctx, memory: w.memory, at: w.at, places: w.places}}
	err := w.descend(e, found.dir)
	w.reads += found.reads
	if !errors.Is(err, errStop) {
		return err
	}
	return w.prefix(e.key)
}

func (w *walk) prefix(p string) error {
	if err := w.room(p); err != nil {
		return err
	}
	w.page.Prefixes = append(w.page.Prefixes, p)
	return nil
}

// room makes place for one more entry, or ends the page.
func (w *walk) room(key string) error {
	if w.n == w.o.Limit() {
		return errStop
	}
	w.n++
	w.last = key
	return nil
}

// finder looks for the first object of a tree, files before directories, and stops there.
type finder struct{ walk }

func (f *finder) dir(path, base string) error {
	es, err := f.read(path, base)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(es, func(e entry) bool { return !e.dir }) {
		return errStop
	}
	if before, came := f.approach(path, len(es)); came {
		defer f.leave(before)
	}
	for i := range es {
		if err := f.descend(&es[i], f.dir); err != nil {
			return err
		}
	}
	return nil
}
