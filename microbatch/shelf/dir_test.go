package shelf

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/partition"
)

// made is a slice of a partition whose run has about so many bytes.
func made(t testing.TB, n, size int) (*slice.Slice, slice.ID) {
	t.Helper()
	fn, err := combine.Builtins()["count"].New(combine.Params{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := spool.New("", nil)
	w, err := table.NewWriter(out, table.Shape{Keys: []column.Field{{Name: "k", Type: column.Of(column.Int64)}}, Fns: []combine.Fn{fn}}, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append([]byte{1}, [][]byte{bytes.Repeat([]byte{byte(n + 1)}, max(1, size-200))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := out.Seal()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 30, 3, 0, n, 0, time.UTC)
	s := &slice.Slice{
		Start: start, Run: run, Observed: []column.Type{column.Of(column.Int64)}, Built: []column.Type{column.Of(column.Int64)}, Index: "i", Told: true,
		Objects: []slice.ReadObject{{Object: partition.Object{Key: fmt.Sprint(n), ETag: "e", Size: 9, Partition: start}, Rows: 1, Observed: []column.Type{column.Of(column.Int64)}}},
	}
	return s, slice.AddressOf("r", s.Input())
}

func sameRun(t testing.TB, a, b *slice.Slice) bool {
	t.Helper()
	x, err := io.ReadAll(a.Run.Section())
	if err != nil {
		t.Fatal(err)
	}
	y, err := io.ReadAll(b.Run.Section())
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}

// counted observes.
type counted struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counted) settings(t testing.TB) Settings {
	t.Helper()
	return Settings{Pipeline: "p", Recipe: "r", TempDir: t.TempDir(), Log: zap.NewNop(), Observe: func(tier, outcome string, n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.n == nil {
			c.n = map[string]int{}
		}
		c.n[tier+" "+outcome] += n
	}}
}

func (c *counted) got(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

// TestDirectoryStaysWithinItsBudget: what was not used for longest goes first,
// and files that are used stay.
func TestDirectoryStaysWithinItsBudget(t *testing.T) {
	var c counted
	set, root := c.settings(t), t.TempDir()
	d := NewDir(root, 100<<10, zap.NewNop())
	scope := d.Scope("p")
	const n, size = 60, 5 << 10
	at := make([]slice.ID, n)
	for i := range n {
		s, id := made(t, i, size)
		at[i] = id
		scope.store(id, s, set)
		old := time.Now().Add(-time.Duration(n-i) * time.Minute)
		if err := os.Chtimes(scope.file(id), old, old); err != nil {
			t.Fatal(err)
		}
		if i == 10 { // the first is used again
			now := time.Now()
			if err := os.Chtimes(scope.file(at[0]), now, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	var total int64
	for _, e := range d.entries() {
		total += e.size
	}
	if total > 100<<10 || total < 50<<10 {
		t.Errorf("%d bytes, the budget is %d", total, 100<<10)
	}
	for _, i := range []int{0, n - 1, n - 5} {
		if scope.load(at[i], set) == nil {
			t.Errorf("slice %d is gone", i)
		}
	}
	if scope.load(at[1], set) != nil {
		t.Error("the slice that was not used for longest is there")
	}
	large, id := made(t, 99, 101<<10)
	scope.store(id, large, set)
	if scope.load(id, set) != nil || scope.load(at[n-1], set) == nil {
		t.Error("a slice that is larger than the budget took everybody's place")
	}
}

// TestOldFilesGo: what nobody used for two days, and the beginnings of files
// whose writers died; nothing that is not deltad's.
func TestOldFilesGo(t *testing.T) {
	var c counted
	set, root := c.settings(t), t.TempDir()
	scope := NewDir(root, 1<<20, zap.NewNop()).Scope("p")
	put := func(name string, age time.Duration) string {
		path := filepath.Join(root, "p", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gone := []string{put("a.run", 49*time.Hour), put(".new-1", 2*time.Hour)}
	stays := []string{put("b.run", 47*time.Hour), put(".new-2", time.Minute), put("notes.txt", 1000*time.Hour)}
	s, at := made(t, 1, 10)
	scope.store(at, s, set)
	for _, path := range gone {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
	for _, path := range append(stays, scope.file(at)) {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestSlicesInUseStay: what a window needs was used, even where it was in memory
// all the time and the directory is swept for want of room.
func TestSlicesInUseStay(t *testing.T) {
	var c counted
	set := c.settings(t)
	d := NewDir(t.TempDir(), 30<<10, zap.NewNop())
	set.Dir = d.Scope("p")
	s := New(set)
	var entries []Entry
	for i := range 3 {
		built, at := made(t, i, 4<<10)
		s.Store(t.Context(), at, built)
		entries = append(entries, Entry{At: at, Slice: built})
		old := time.Now().Add(-47 * time.Hour)
		if err := os.Chtimes(set.Dir.file(at), old, old); err != nil {
			t.Fatal(err)
		}
	}
	d.sweep(true)
	s.Published(t.Context(), entries[1:])
	for i := 10; i < 14; i++ { // of runs that published nothing
		built, at := made(t, i, 4<<10)
		s.Store(t.Context(), at, built)
	}
	for _, e := range entries[1:] {
		if s.Load(t.Context(), e.At) == nil {
			t.Error("a slice of the window is gone")
		}
	}
}

// TestForeignFiles: whatever lies where a slice should be, it is not taken for
// one, and the slice takes its place where that can be.
func TestForeignFiles(t *testing.T) {
	s, at := made(t, 1, 100)
	other, elsewhere := made(t, 2, 100)
	for _, c := range []struct {
		name  string
		place func(path string) error
		want  string
		stays bool
	}{
		{"nothing in it", func(p string) error { return os.WriteFile(p, nil, 0o600) }, Damaged, false},
		{"another slice", func(p string) error {
			body, err := other.AtRest(elsewhere)
			if err != nil {
				return err
			}
			b, err := io.ReadAll(body)
			if err != nil {
				return err
			}
			return os.WriteFile(p, b, 0o600)
		}, Damaged, false},
		{"a directory", func(p string) error { return os.Mkdir(p, 0o700) }, Damaged, false},
		{"a full directory", func(p string) error { return os.MkdirAll(filepath.Join(p, "x"), 0o700) }, Damaged, true},
		{"a link to nowhere", func(p string) error { return os.Symlink(p+"x", p) }, Miss, false},
		{"a link to itself", func(p string) error { return os.Symlink(filepath.Base(p), p) }, Failed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n counted
			set := n.settings(t)
			scope := NewDir(t.TempDir(), 1<<20, zap.NewNop()).Scope("p")
			if err := os.MkdirAll(scope.path, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := c.place(scope.file(at)); err != nil {
				t.Fatal(err)
			}
			if scope.load(at, set) != nil || n.got("directory "+c.want) != 1 {
				t.Fatalf("loaded, or not counted as %s: %v", c.want, n.n)
			}
			scope.store(at, s, set)
			got := scope.load(at, set)
			if (got == nil) != c.stays || got != nil && !sameRun(t, got, s) {
				t.Errorf("loaded %t after it was stored again, %v", got != nil, n.n)
			}
		})
	}
}

// TestUnwritableIsSaidOnce: and so is that it is over.
func TestUnwritableIsSaidOnce(t *testing.T) {
	core, logged := observer.New(zap.InfoLevel)
	var c counted
	set, parent := c.settings(t), t.TempDir()
	root := filepath.Join(parent, "slices")
	if err := os.WriteFile(root, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	scope := NewDir(root, 1<<20, zap.New(core)).Scope("p")
	for i := range 5 {
		s, at := made(t, i, 100)
		scope.store(at, s, set)
		if scope.load(at, set) != nil {
			t.Fatal("loaded what could not be stored")
		}
	}
	writes := logged.FilterMessageSnippet("not kept").Len()
	if writes != 1 || c.got("directory failed") < 5 {
		t.Errorf("said %d times that nothing is kept, counted %v", writes, c.n)
	}
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		s, at := made(t, i, 100)
		scope.store(at, s, set)
		if scope.load(at, set) == nil {
			t.Error("not loaded although it could be stored")
		}
	}
	if n := logged.FilterMessageSnippet("kept in cache.dir again").Len(); n != 1 {
		t.Errorf("said %d times that slices are kept again", n)
	}
}

// TestSharedDirectory: two processes that store, load and sweep in one directory
// at the same time never get anything but what was stored.
func TestSharedDirectory(t *testing.T) {
	var c counted
	set, root := c.settings(t), t.TempDir()
	var g sync.WaitGroup
	for range 2 {
		d := NewDir(root, 40<<10, zap.NewNop())
		for w := range 3 {
			scope := d.Scope("p")
			g.Add(1)
			go func() {
				defer g.Done()
				for i := range 200 {
					s, at := made(t, (i*7+w)%20, 4<<10)
					if got := scope.load(at, set); got != nil && !sameRun(t, got, s) {
						t.Errorf("slice %d came back as another", i)
					}
					scope.store(at, s, set)
				}
			}()
		}
	}
	g.Wait()
	if c.got("directory damaged")+c.got("directory failed") > 0 || c.got("directory hit") == 0 {
		t.Errorf("%v", c.n)
	}
	var total int64
	for _, e := range NewDir(root, 0, zap.NewNop()).entries() {
		total += e.size
	}
	if total > 60<<10 {
		t.Errorf("%d bytes in a directory of %d", total, 40<<10)
	}
}

// TestWhatCannotBeReadStays: what a process cannot read it does not delete.
func TestWhatCannotBeReadStays(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	var n counted
	set := n.settings(t)
	scope := NewDir(t.TempDir(), 1<<20, zap.New(core)).Scope("p")
	s, at := made(t, 1, 1000)
	scope.store(at, s, set)
	name, aside := scope.file(at), filepath.Join(t.TempDir(), "aside")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		must(os.Rename(name, aside))
		must(os.Symlink(name, name)) // which cannot be opened
		for range 3 {
			if scope.load(at, set) != nil {
				t.Fatal("loaded from nowhere")
			}
		}
		must(os.Rename(name, name+"~")) // it is there
		must(os.Rename(aside, name))
		if got := scope.load(at, set); got == nil || !sameRun(t, got, s) {
			t.Fatalf("gone: %v", n.n)
		}
	}
	if n.got("directory failed") != 6 || n.got("directory hit") != 2 || logs.Len() != 2 {
		t.Errorf("%v, said %d times", n.n, logs.Len())
	}
}

// spilled is a slice as made makes it, built where no memory is left.
func spilled(t testing.TB, n, size int, set Settings) (*slice.Slice, slice.ID) {
	t.Helper()
	s, at := made(t, n, size)
	body, err := s.AtRest(at)
	if err != nil {
		t.Fatal(err)
	}
	again, err := slice.ReadRest(body, body.Size(), at, set.TempDir, spool.NewBudget(0))
	if err != nil {
		t.Fatal(err)
	}
	return again, at
}

// TestWhatIsInAFileIsNotCopied: a slice whose run is in a file has that file kept,
// also in place of one that was there, and one that memory has no room for is read
// where it lies, whatever becomes of its name.
func TestWhatIsInAFileIsNotCopied(t *testing.T) {
	var n counted
	set := n.settings(t)
	set.Memory = spool.NewBudget(0)
	root := t.TempDir()
	set.TempDir = root
	scope := NewDir(root, 1<<20, zap.NewNop()).Scope("p")
	want, at := made(t, 1, 1<<16)
	body, err := want.AtRest(at)
	if err != nil {
		t.Fatal(err)
	}
	bytesAtRest, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	var open []*slice.Slice
	for range 3 {
		s, _ := spilled(t, 1, 1<<16, set)
		scope.store(at, s, set)
		scope.store(at, s, set) // its file has a name already: a copy
		got, err := os.ReadFile(scope.file(at))
		if err != nil || !bytes.Equal(got, bytesAtRest) {
			t.Fatalf("%d bytes in the file, want %d, %v", len(got), len(bytesAtRest), err)
		}
		loaded := scope.load(at, set)
		if loaded == nil || loaded.Run.InMemory() != 0 {
			t.Fatal("not loaded from the file")
		}
		open = append(open, s, loaded)
	}
	files, err := os.ReadDir(scope.path)
	if err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
	scope.clear()
	for _, s := range open {
		if !sameRun(t, s, want) {
			t.Error("a slice changed")
		}
	}
	if n.got("directory stored") != 6 || n.got("directory hit") != 3 || len(n.n) != 2 {
		t.Errorf("%v", n.n)
	}
}

// TestMakeRoom: what was not used for longest goes first, a tenth at a time, until
// nothing is left.
func TestMakeRoom(t *testing.T) {
	var n counted
	set := n.settings(t)
	d := NewDir(t.TempDir(), 1<<20, zap.NewNop())
	scope := d.Scope("p")
	const all = 20
	var at []slice.ID
	for i := range all {
		s, id := made(t, i, 4<<10)
		scope.store(id, s, set)
		used := time.Now().Add(time.Duration(i-all) * time.Minute)
		if err := os.Chtimes(scope.file(id), used, used); err != nil {
			t.Fatal(err)
		}
		at = append(at, id)
	}
	for gone := 0; gone < all; {
		if !d.MakeRoom() {
			t.Fatalf("no room where %d slices are left", all-gone)
		}
		was := gone
		for gone < all && scope.load(at[gone], set) == nil {
			gone++
		}
		if left := len(d.entries()); gone == was || gone > was+3 || left != all-gone {
			t.Fatalf("%d slices are left, of which the oldest is %d; before it was %d", left, gone, was)
		}
	}
	if d.MakeRoom() {
		t.Error("room where nothing is left")
	}
}
