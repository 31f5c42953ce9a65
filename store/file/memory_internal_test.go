package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/store"
)

// tick is longer than the clock of change times takes to move on.
const tick = 12 * time.Millisecond

// trusted says whether what lies in a directory is remembered here.
func trusted(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	_, ok := markOfOpen(f)
	return ok
}

// anyTest is what tests of all kinds have.
type anyTest interface {
	Helper()
	Context() context.Context
	Fatal(...any)
}

// listed is every entry of a listing, page by page.
func listed(t anyTest, s *Store, o store.ListOptions) []any {
	t.Helper()
	var out []any
	for p, err := range store.Pages(t.Context(), s, o) {
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range p.Objects {
			out = append(out, i)
		}
		for _, prefix := range p.Prefixes {
			out = append(out, prefix)
		}
	}
	return out
}

// slowly lists as listed does, with nothing remembered, and looks at everything by its whole path.
func slowly(t anyTest, root string, o store.ListOptions) []any {
	t.Helper()
	var out []any
	for after, more := o.StartAfter, true; more; {
		w := &walk{ctx: t.Context(), o: o, after: after, places: mostPlaces}
		err := w.from(root)
		if more = errors.Is(err, errStop); err != nil && !more {
			t.Fatal(err)
		}
		for _, i := range w.page.Objects {
			out = append(out, i)
		}
		for _, prefix := range w.page.Prefixes {
			out = append(out, prefix)
		}
		after = w.last
	}
	return out
}

// TestMemoryChangesNoListing does to a tree whatever people do to trees, and holds each listing of a store that remembers, and looks from
// directories that it opens, to one that does neither.
func TestMemoryChangesNoListing(t *testing.T) {
	dir, round, recalled := t.TempDir(), 0, 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		root := filepath.Join(dir, fmt.Sprint(round))
		s, err := New(root)
		if err != nil {
			t.Fatal(err)
		}
		s.memory.coarse = tick
		names := rapid.SampledFrom([]string{"a", "b", "b.", "c", private})
		path := func() string {
			p := root
			for range rapid.IntRange(1, 3).Draw(t, "depth") {
				p = filepath.Join(p, names.Draw(t, "name"))
			}
			return p
		}
		for range rapid.IntRange(3, 8).Draw(t, "steps") {
			p := path()
			// Whatever fails leaves the tree as it is.
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1, 2: // a new file, or one changed in place
				_ = os.MkdirAll(filepath.Dir(p), 0o755)
				_ = os.WriteFile(p, make([]byte, rapid.IntRange(0, 3).Draw(t, "size")), 0o600)
			case 3:
				_ = os.RemoveAll(p)
			case 4:
				_ = os.Rename(p, path())
			case 5:
				_ = os.Symlink(path(), p)
			case 6: // a directory that pretends to be as old as ever
				_ = os.Chtimes(filepath.Dir(p), time.Unix(1, 0), time.Unix(1, 0))
			case 7:
				_ = os.MkdirAll(p, 0o755)
			case 8: // another directory under the name
				_ = os.Rename(p, p+"~")
				_ = os.Mkdir(p, 0o755)
				_ = os.RemoveAll(p + "~")
			case 9: // many, which are looked at from the directory that they are in
				for i := range rapid.IntRange(worthwhile-1, worthwhile+1).Draw(t, "many") {
					if sub := filepath.Join(p, fmt.Sprint(i)); rapid.Bool().Draw(t, "file") {
						_ = os.MkdirAll(p, 0o755)
						_ = os.WriteFile(sub, nil, 0o600)
					} else {
						_ = os.MkdirAll(sub, 0o755)
						_ = os.WriteFile(filepath.Join(sub, "x"), nil, 0o600)
					}
				}
			}
			if rapid.Bool().Draw(t, "wait") {
				time.Sleep(2 * tick)
			}
			o := store.ListOptions{
				Prefix: rapid.SampledFrom([]string{"", "", "a", "a/", "b/c/"}).Draw(t, "prefix"), StartAfter: rapid.SampledFrom([]string{"", "", "a/b", "b."}).Draw(t, "after"),
				Delimiter: rapid.SampledFrom([]string{"", "", "/", "b"}).Draw(t, "delimiter"), MaxKeys: rapid.IntRange(0, 2).Draw(t, "page"),
			}
			want := slowly(t, root, o)
			for range 2 { // what it remembers now, it must list the same again
				if got := listed(t, s, o); !reflect.DeepEqual(got, want) {
					t.Fatalf("list %+v:\n%v\nwith nothing remembered:\n%v", o, got, want)
				}
			}
			recalled += len(s.memory.dirs)
		}
	})
	if (recalled > 0) != trusted(dir) {
		t.Fatalf("%d directories were remembered", recalled)
	}
}

// TestAChangeRightAfterAReadingIsSeen: two changes of one moment give a directory the same change time.
func TestAChangeRightAfterAReadingIsSeen(t *testing.T) {
	root := t.TempDir()
	s, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("%03d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if n := len(listed(t, s, store.ListOptions{})); n != i+1 {
			t.Fatalf("%d objects after file %d was written", n, i)
		}
	}
}

// TestARememberedDirectoryIsNotReadAgain, until it changes or the clock was set; the objects in it are looked at every time.
func TestARememberedDirectoryIsNotReadAgain(t *testing.T) {
	root := t.TempDir()
	s, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	s.memory.coarse = tick
	for d := range 3 {
		dir := filepath.Join(root, fmt.Sprint(d))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "x"), []byte("12"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reads := func() int {
		w := &walk{ctx: t.Context(), memory: &s.memory}
		if err := w.from(root); err != nil || len(w.page.Objects) < 3 {
			t.Fatalf("%d objects, %v", len(w.page.Objects), err)
		}
		for _, o := range w.page.Objects {
			if fi, err := os.Stat(filepath.Join(root, o.Key)); err != nil || o != info(o.Key, fi) {
				t.Fatalf("%+v, %v: the file is %v", o, err, fi)
			}
		}
		return w.reads
	}
	want := func(what string, n int) {
		t.Helper()
		if got := reads(); got != n {
			t.Errorf("%s: read %d directories, want %d", what, got, n)
		}
	}
	time.Sleep(2 * tick)
	if !trusted(root) {
		want("a system whose directories are not known to behave", 4)
		want("and again", 4)
		return
	}
	want("new", 4)
	want("as it was", 0)
	if err := os.WriteFile(filepath.Join(root, "1/x"), []byte("longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("a file changed in place", 0)
	if err := os.WriteFile(filepath.Join(root, "1/y"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want("a new file", 1)
	time.Sleep(2 * tick)
	want("a new file, later", 1)
	want("known by now", 0)
	if err := os.Symlink(filepath.Join(root, "2"), filepath.Join(root, "1/link")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * tick)
	want("a link", 2)
	want("still a link", 1)
	if !wasSet(-time.Second, time.Second) || !wasSet(time.Minute, time.Second) || wasSet(time.Hour, time.Hour+time.Millisecond) {
		t.Error("a clock that was set is not noticed, or one that was not is")
	}
	s.memory.forget()
	want("all forgotten", 5)
}

// TestMemoryIsBounded: where there is more than it holds, it starts again.
func TestMemoryIsBounded(t *testing.T) {
	var m memory
	for i := range 3 * mostRemembered / 100 {
		m.keep(fmt.Sprint(i%2000), mark{}, make([]entry, 99))
		n := 0
		for _, d := range m.dirs {
			n += 1 + len(d.entries)
		}
		if n != m.size || n > mostRemembered {
			t.Fatalf("%d remembered, counted as %d", n, m.size)
		}
	}
}

func BenchmarkListAgain(b *testing.B) {
	root := b.TempDir()
	for i := range 1440 {
		dir := filepath.Join(root, time.Unix(int64(i)*60, 0).UTC().Format("2006/01/02/15/04"))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "part-00000.parquet"), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	s, err := New(root)
	if err != nil {
		b.Fatal(err)
	}
	s.memory.coarse = tick
	time.Sleep(2 * tick)
	listed(b, s, store.ListOptions{})
	b.ReportAllocs()
	for b.Loop() {
		if n := len(listed(b, s, store.ListOptions{})); n != 1440 {
			b.Fatal(n)
		}
	}
}
