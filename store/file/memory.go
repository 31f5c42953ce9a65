package file

import (
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// memory is what a Store remembers of directories between listings: their names, so that a directory that is as it was need not be read
// again, and what the objects were when they were last looked at, which every listing does. It changes what a listing costs, and never
// what it says.
//
// Why that is safe: whatever adds, removes or renames an entry sets the directory's change time, which nobody can set to a value of their
// own, to the kernel's clock. So entries that were read after a mark was taken are still those of the directory if it has the same mark,
// unless a change after the reading had the change time that the directory already had. That takes two changes of one moment, or a clock
// that was set back, hence:
//
//   - a directory is remembered only if its last change lies further back, by the same clock, than change times are coarse;
//   - everything is forgotten when the clock was set;
//   - it is for file systems whose directories are known to behave so (see changes), asked of each directory that is read.
//
// A link's target may change without its directory, so directories that hold links are always read.
type memory struct {
	coarse time.Duration // see the constant
	mu     sync.Mutex    // held while a listing uses it
	dirs   map[string]remembered
	size   int       // directories and entries
	began  time.Time // the listing before
}

// remembered is what a directory held, in order of keys.
type remembered struct {
	mark    mark
	entries []entry
}

const (
	// mostRemembered bounds what is remembered, directories and entries together: some 20 MB. Where there is more, all of it is forgotten.
	mostRemembered = 1 << 16
	// mostEntries bounds a directory that is remembered.
	mostEntries = 1 << 12
	// coarse is more than the length of a moment of change times: a second on old file systems, some milliseconds elsewhere.
	coarse = 2 * time.Second
	// mostDrift is how far the clock may move against the monotonic one between two listings before it counts as set.
	mostDrift = coarse / 4
)

// begin starts a listing at now.
func (m *memory) begin(now time.Time) {
	if wasSet(now.Round(0).Sub(m.began.Round(0)), now.Sub(m.began)) {
		m.forget()
	}
	m.began = now
}

// wasSet says of the times that passed by the clock and by the monotonic one whether the clock was set meanwhile.
func wasSet(clock, monotonic time.Duration) bool { return (clock - monotonic).Abs() > mostDrift }

func (m *memory) forget() { m.dirs, m.size = nil, 0 }

// recall returns what the directory at a path held if it still does, seen from a place above it. The entries are the memory's own.
func (m *memory) recall(at place, path string) ([]entry, bool) {
	if m == nil {
		return nil, false
	}
	d, known := m.dirs[path]
	if !known {
		return nil, false
	}
	if is, ok := at.markOf(path); !ok || is != d.mark {
		delete(m.dirs, path)
		m.size -= 1 + len(d.entries)
		return nil, false
	}
	return d.entries, true
}

// mark is that of a directory that is about to be read; it may be remembered only if ok.
func (m *memory) mark(f *os.File) (is mark, ok bool) {
	if m == nil {
		return is, false
	}
	is, ok = markOfOpen(f)
	return is, ok && time.Now().Round(0).Sub(is.changed()) > m.coarse
}

// keep remembers what was read.
func (m *memory) keep(path string, is mark, entries []entry) {
	if m.size+1+len(entries) > mostRemembered {
		m.forget()
	}
	if m.dirs == nil {
		m.dirs = map[string]remembered{}
	}
	if old, known := m.dirs[path]; known {
		m.size -= 1 + len(old.entries)
	}
	m.dirs[path] = remembered{is, entries}
	m.size += 1 + len(entries)
}

// plain are the entries of a directory without links as they are whatever a listing asks for.
func plain(path, base string, found []fs.DirEntry) []entry {
	es := make([]entry, 0, len(found))
	above := strings.TrimSuffix(path, "/") + "/" // ends in what base is
	for _, d := range found {
		name := d.Name()
		if name == private || !d.IsDir() && !d.Type().IsRegular() {
			continue
		}
		both := above + name + "/" // key and path in one
		e := entry{key: both[len(above)-len(base):], path: both[:len(both)-1], dir: true}
		if !d.IsDir() {
			e.key, e.dir = e.key[:len(e.key)-1], false
		}
		es = append(es, e)
	}
	return es
}
