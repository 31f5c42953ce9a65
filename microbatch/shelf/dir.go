package shelf

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/spool"
)

// Times of a directory.
const (
	// unused is how long a slice stays that nobody uses.
	unused = 48 * time.Hour
	// touched is how exactly it is known when one was used last.
	touched = time.Hour
	// torn is when the beginnings of a file are nobody's any more.
	torn = time.Hour
)

// Dir is a local directory of slices: <root>/<scope>/<address>.run. Files
// appear whole, with their name, and are never written to again: whoever has one open
// reads what was in it, also when it is deleted or another takes its place. Any number of processes may share it, each with
// the same budget; it and everything in it may be deleted at any time.
//
// What was not used for longest goes first when the files together take more
// than the budget, and anything that was not used for two days. When a file
// was used is its modification time, so all processes agree.
type Dir struct {
	root   string
	budget int64
	log    *zap.Logger

	writers  sync.Pool // of *bufio.Writer
	sweeping sync.Mutex
	mu       struct {
		sync.Mutex
		used  int64 // about what is there
		swept time.Time
		// Said, until it is right again.
		unwritable, unreadable bool
	}
}

// NewDir returns the directory below root of files of so many bytes together;
// it does no I/O, and makes directories as it needs them.
func NewDir(root string, budget int64, log *zap.Logger) *Dir {
	return &Dir{root: root, budget: budget, log: log}
}

// Scope is the place of one pipeline in a directory.
type Scope struct {
	d    *Dir
	path string
	// touched is when it was noted last what is in use, in Unix seconds.
	touched atomic.Int64
}

// Scope returns the place of a name, which must be a file name. Slices of two
// names are never taken for each other.
func (d *Dir) Scope(name string) *Scope { return &Scope{d: d, path: filepath.Join(d.root, name)} }

const suffix, begun = ".run", ".new-"

func (s *Scope) file(at slice.ID) string { return filepath.Join(s.path, at.String()+suffix) }

// load returns the slice at an address, or nil.
func (s *Scope) load(at slice.ID, set Settings) *slice.Slice {
	name := s.file(at)
	found, used, err := read(name, at, set)
	switch {
	case err == nil:
		set.Observe(TierDirectory, Hit, 1)
		s.d.mu.Lock()
		s.d.mu.unreadable = false
		s.d.mu.Unlock()
		touch(name, used)
		return found
	case errors.Is(err, errMissing):
		set.Observe(TierDirectory, Miss, 1)
	case errors.Is(err, slice.ErrDamaged):
		set.Observe(TierDirectory, Damaged, 1)
		s.d.log.Warn("damaged slice deleted; its objects are read instead", zap.String("pipeline", set.Pipeline), zap.String("file", name), zap.Error(err))
		s.remove(name)
	default: // it may be whole: this process may have no file or no disk left
		set.Observe(TierDirectory, Failed, 1)
		s.d.mu.Lock()
		said := s.d.mu.unreadable
		s.d.mu.unreadable = true
		s.d.mu.Unlock()
		if !said {
			s.d.log.Warn("slice not read; objects are read instead", zap.String("pipeline", set.Pipeline), zap.String("file", name), zap.Error(err))
		}
	}
	return nil
}

// errMissing says that there is no file.
var errMissing = errors.New("not there")

func read(name string, at slice.ID, set Settings) (found *slice.Slice, used time.Time, err error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, used, errMissing
	}
	if err != nil {
		return nil, used, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("read %s: %w: it is no file", name, slice.ErrDamaged)
	}
	if err != nil {
		return nil, used, errors.Join(err, f.Close())
	}
	found, err = slice.OpenRest(f, info.Size(), at, set.TempDir, set.Memory)
	return found, info.ModTime(), err
}

// remove deletes what is of no use; where that is not possible it is replaced
// when the slice was built.
func (s *Scope) remove(name string) {
	info, err := os.Lstat(name)
	if err == nil && os.Remove(name) == nil {
		s.d.add(-info.Size())
	}
}

// touch notes that a file was used.
func touch(name string, used time.Time) {
	if now := time.Now(); now.Sub(used) > touched {
		_ = os.Chtimes(name, now, now) // at worst it goes too early
	}
}

// touch notes once in a while which slices are in use, and sweeps.
func (s *Scope) touch(live map[slice.ID]bool) {
	last, now := s.touched.Load(), time.Now()
	if now.Sub(time.Unix(last, 0)) <= touched || !s.touched.CompareAndSwap(last, now.Unix()) {
		return
	}
	for at := range live {
		name := s.file(at)
		if info, err := os.Lstat(name); err == nil {
			touch(name, info.ModTime())
		}
	}
	s.d.sweep(false)
}

// store keeps a slice. Where that is not possible it is said once.
func (s *Scope) store(at slice.ID, built *slice.Slice, set Settings) {
	size, err := s.write(at, built)
	if spool.IsFull(err) {
		s.d.sweep(true) // for the next, and for whoever else needs the disk
	}
	s.d.mu.Lock()
	said := s.d.mu.unwritable
	s.d.mu.unwritable = err != nil
	s.d.mu.Unlock()
	if err != nil {
		set.Observe(TierDirectory, Failed, 1)
		if !said {
			s.d.log.Warn("slices not kept in cache.dir; after a restart they come from the bucket or are read again",
				zap.String("pipeline", set.Pipeline), zap.Error(err))
		}
		return
	}
	if said {
		s.d.log.Info("slices are kept in cache.dir again", zap.String("pipeline", set.Pipeline))
	}
	if size > 0 {
		set.Observe(TierDirectory, Stored, 1)
		s.d.add(size)
	}
}

// write writes a file and returns its size; one that the budget has no room
// for at all is not written.
func (s *Scope) write(at slice.ID, built *slice.Slice) (size int64, err error) {
	body, err := built.AtRest(at)
	if err != nil || body.Size() > s.d.budget {
		return 0, err
	}
	if err = s.place(body, s.file(at)); errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(s.path, 0o700); err == nil {
			err = s.place(body, s.file(at))
		}
	}
	if err != nil {
		return 0, err
	}
	return body.Size(), nil
}

// place makes a slice appear at a path: the file that its run is in, if it is in
// one, else a copy. No sync: a file that a power cut tears has not the digests that
// it should.
func (s *Scope) place(body *slice.Rest, name string) error {
	err := body.Link(name)
	if errors.Is(err, fs.ErrExist) {
		to := filepath.Join(s.path, begun+rand.Text())
		if err = body.Link(to); err == nil {
			return renamed(to, name)
		}
	}
	if err == nil {
		return nil
	}
	f, err := os.CreateTemp(s.path, begun+"*")
	if err != nil {
		return err
	}
	if err = errors.Join(s.d.copy(f, body), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return renamed(f.Name(), name)
}

// copy writes a slice in large pieces, which cost a kernel less than those that its
// run is in.
func (d *Dir) copy(f *os.File, body *slice.Rest) error {
	w, ok := d.writers.Get().(*bufio.Writer)
	if !ok {
		w = bufio.NewWriterSize(nil, 256<<10)
	}
	defer d.writers.Put(w)
	defer w.Reset(nil)
	w.Reset(f)
	if _, err := body.WriteTo(w); err != nil {
		return err
	}
	return w.Flush()
}

// renamed gives a file its name, or removes it.
func renamed(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return errors.Join(err, os.Remove(from))
	}
	return nil
}

// clear deletes the slices of the scope.
func (s *Scope) clear() {
	_ = os.RemoveAll(s.path) // what stays is written over
	s.d.sweep(false)
}

// add counts bytes, and makes room where there are too many.
func (d *Dir) add(n int64) {
	d.mu.Lock()
	d.mu.used += n
	due := d.mu.swept.IsZero() || d.mu.used > d.budget
	d.mu.Unlock()
	if due {
		d.sweep(false)
	}
}

// entry is a file of the directory.
type entry struct {
	path string
	size int64
	used time.Time
}

// sweep makes room, unless somebody is at it.
func (d *Dir) sweep(full bool) {
	if d.sweeping.TryLock() {
		defer d.sweeping.Unlock()
		d.evict(full)
	}
}

// MakeRoom deletes a tenth of what is there, for whoever else needs the disk, and
// says whether there was anything. A slice that is in use has its space until it is
// no more.
func (d *Dir) MakeRoom() bool {
	d.sweeping.Lock()
	defer d.sweeping.Unlock()
	return d.evict(true)
}

// evict looks at what is there and deletes what has not been used for long,
// until a tenth of the budget is free, or where the disk is full of what is
// there. It says whether anything was deleted; the caller holds sweeping.
func (d *Dir) evict(full bool) (some bool) {
	now := time.Now()
	all := d.entries()
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.path, b.path)) })
	var used int64
	for _, e := range all {
		used += e.size
	}
	budget := d.budget
	if full {
		budget = min(budget, used)
	}
	over := full || used > budget
	for _, e := range all {
		age, being := now.Sub(e.used), strings.HasPrefix(filepath.Base(e.path), begun)
		if age <= unused && (!being || age <= torn) && (being || !over || used <= budget/10*9) {
			continue
		}
		if os.Remove(e.path) == nil {
			used -= e.size
			some = true
		}
	}
	d.mu.Lock()
	d.mu.used, d.mu.swept = used, now
	d.mu.Unlock()
	return some
}

// entries are the files of ours in all scopes. What cannot be listed is left
// out: others may be deleting it.
func (d *Dir) entries() (all []entry) {
	scopes, err := os.ReadDir(d.root)
	if err != nil {
		return nil
	}
	for _, scope := range scopes {
		files, err := os.ReadDir(filepath.Join(d.root, scope.Name()))
		if err != nil {
			continue
		}
		for _, f := range files {
			info, err := f.Info()
			if err != nil || !info.Mode().IsRegular() || !strings.HasSuffix(f.Name(), suffix) && !strings.HasPrefix(f.Name(), begun) {
				continue
			}
			all = append(all, entry{filepath.Join(d.root, scope.Name(), f.Name()), info.Size(), info.ModTime()})
		}
	}
	return all
}
