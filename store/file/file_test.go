package file_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/file"
	"github.com/deltad/deltad/store/storetest"
)

func at(t *testing.T, root string) *file.Store {
	t.Helper()
	s, err := file.New(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s store.Store, key, body string, o store.PutOptions) string {
	t.Helper()
	etag, err := store.PutBytes(t.Context(), s, key, []byte(body), o)
	if err != nil {
		t.Fatal(err)
	}
	return etag
}

func keys(t *testing.T, s store.Store, o store.ListOptions) []string {
	t.Helper()
	var l []string
	for p, err := range store.Pages(t.Context(), s, o) {
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range p.Objects {
			l = append(l, info.Key)
		}
		l = append(l, p.Prefixes...)
	}
	return l
}

func wantKeys(t *testing.T, s store.Store, o store.ListOptions, want ...string) {
	t.Helper()
	if got := keys(t, s, o); !slices.Equal(got, want) {
		t.Fatalf("list %+v: %q, want %q", o, got, want)
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return at(t, t.TempDir()) }, storetest.Options{
		NoKeyAndChild:   "a file cannot be a directory too",
		NoMarkers:       "a file's name cannot end in a slash",
		NoEmptySegments: "a file's name cannot be empty, . or ..",
		Rounds:          20,
		ModelChecks:     1000,
	})
}

func TestRootIsCreatedByTheFirstPut(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not", "yet")
	s := at(t, root)
	wantKeys(t, s, store.ListOptions{})
	if err := s.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "a", store.GetOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Fatalf("reading and deleting created the root: %v", err)
	}
	put(t, s, "a/b", "x", store.PutOptions{IfNoneMatch: true})
	wantKeys(t, s, store.ListOptions{}, "a/b")
	wantKeys(t, s, store.ListOptions{Delimiter: "/"}, "a/")
	if s.String() != "file://"+root {
		t.Fatal(s.String())
	}
	if _, err := file.New("relative/path"); err == nil {
		t.Fatal("a relative root was taken")
	}
	f := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(f, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := at(t, f).List(t.Context(), store.ListOptions{}); err == nil {
		t.Fatal("a file as root lists without an error")
	}
}

// TestOrdinaryFiles reads what people drop in and lets them read what is put.
func TestOrdinaryFiles(t *testing.T) {
	root := t.TempDir()
	s := at(t, root)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "in/2026/11/30"), 0o755))
	must(os.WriteFile(filepath.Join(root, "in/2026/11/30/a b+%2F.csv"), []byte("dropped"), 0o644))
	b, _, err := store.ReadAll(t.Context(), s, "in/2026/11/30/a b+%2F.csv", 100, store.GetOptions{})
	if err != nil || string(b) != "dropped" {
		t.Fatalf("%q, %v", b, err)
	}
	put(t, s, "out/CURRENT", "pointer", store.PutOptions{})
	b, err = os.ReadFile(filepath.Join(root, "out/CURRENT"))
	if err != nil || string(b) != "pointer" {
		t.Fatalf("%q, %v", b, err)
	}
	fi, err := os.Stat(filepath.Join(root, "out/CURRENT"))
	must(err)
	if fi.Mode().Perm()&0o044 != 0o044&^umask() {
		t.Fatalf("CURRENT has mode %v", fi.Mode())
	}

	// Replaced from outside: another version.
	one, err := s.Head(t.Context(), "out/CURRENT")
	must(err)
	must(os.WriteFile(filepath.Join(root, "out/CURRENT"), []byte("changed"), 0o644))
	if _, err := store.PutBytes(t.Context(), s, "out/CURRENT", nil, store.PutOptions{IfMatch: one.ETag}); !errors.Is(err, store.ErrPrecondition) {
		t.Fatalf("swap over a foreign change: %v", err)
	}
	// Temporary files and locks are nowhere to be seen.
	wantKeys(t, s, store.ListOptions{}, "in/2026/11/30/a b+%2F.csv", "out/CURRENT")
	wantKeys(t, s, store.ListOptions{Delimiter: "/"}, "in/", "out/")
	wantKeys(t, s, store.ListOptions{Prefix: ".deltad/"})
	for _, k := range []string{".deltad/tmp/x", "a/.deltad/x", ".deltad", "a//b", "/a", "a/", "./a", "a/../b", strings.Repeat("n", 256)} {
		if _, err := store.PutBytes(t.Context(), s, k, nil, store.PutOptions{}); !errors.Is(err, store.ErrBadKey) || !strings.Contains(err.Error(), "file://"+root) {
			t.Fatalf("put %q: %v", k, err)
		}
	}
	// What is empty does not exist, and is not in the way.
	must(os.MkdirAll(filepath.Join(root, "empty/deep/er"), 0o755))
	wantKeys(t, s, store.ListOptions{Delimiter: "/"}, "in/", "out/")
	put(t, s, "empty", "now a file", store.PutOptions{IfNoneMatch: true})
	wantKeys(t, s, store.ListOptions{Prefix: "e"}, "empty")
	// Deleting takes emptied directories along.
	must(s.Delete(t.Context(), "in/2026/11/30/a b+%2F.csv"))
	if _, err := os.Stat(filepath.Join(root, "in")); !os.IsNotExist(err) {
		t.Fatalf("in/ is still there: %v", err)
	}
}

func umask() os.FileMode {
	m := syscall.Umask(0)
	syscall.Umask(m)
	return os.FileMode(m)
}

func TestSymbolicLinks(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	s := at(t, root)
	put(t, s, "real/x", "body", store.PutOptions{})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(filepath.Join(elsewhere, "y"), []byte("far"), 0o644))
	must(os.WriteFile(filepath.Join(elsewhere, "z"), []byte("far too"), 0o644))
	must(os.Symlink(filepath.Join(root, "real/x"), filepath.Join(root, "link")))
	must(os.Symlink(elsewhere, filepath.Join(root, "tree")))
	must(os.Symlink(root, filepath.Join(root, "real/loop")))
	must(os.Symlink("nowhere", filepath.Join(root, "dangling")))
	must(os.Symlink("self", filepath.Join(root, "self")))
	must(syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644))
	wantKeys(t, s, store.ListOptions{}, "link", "real/x", "tree/y", "tree/z")
	wantKeys(t, s, store.ListOptions{Delimiter: "/"}, "link", "real/", "tree/")
	for _, k := range []string{"dangling", "self", "pipe"} {
		if _, err := s.Get(t.Context(), k, store.GetOptions{}); err == nil {
			t.Fatalf("get %s: no error", k)
		}
	}
	if b, _, err := store.ReadAll(t.Context(), s, "link", 100, store.GetOptions{}); err != nil || string(b) != "body" {
		t.Fatalf("%q, %v", b, err)
	}
	// A linked tree is neither replaced by a put nor unlinked by a delete of one of its files.
	if _, err := store.PutBytes(t.Context(), s, "tree", nil, store.PutOptions{}); !errors.Is(err, store.ErrBadKey) {
		t.Fatalf("put over a linked tree: %v", err)
	}
	must(s.Delete(t.Context(), "tree/y"))
	must(s.Delete(t.Context(), "tree/z"))
	if _, err := os.Lstat(filepath.Join(root, "tree")); err != nil {
		t.Fatal(err)
	}
	put(t, s, "tree/new", "x", store.PutOptions{IfNoneMatch: true})
	wantKeys(t, s, store.ListOptions{Prefix: "t"}, "tree/new")
	// A put replaces a link to a file, not the file behind it.
	put(t, s, "link", "other", store.PutOptions{})
	if b, _, err := store.ReadAll(t.Context(), s, "real/x", 100, store.GetOptions{}); err != nil || string(b) != "body" {
		t.Fatalf("%q, %v", b, err)
	}
}

// TestETagsNeverRepeat writes same-sized bodies as fast as it can: neither a reused inode nor a coarse clock may bring an ETag back, or
// a stale swap would go through.
func TestETagsNeverRepeat(t *testing.T) {
	s := at(t, t.TempDir())
	seen := map[string]int{}
	for i := range 300 {
		etag := put(t, s, "x", fmt.Sprintf("%03d", i), store.PutOptions{})
		if j, ok := seen[etag]; ok {
			t.Fatalf("versions %d and %d have the ETag %s", j, i, etag)
		}
		seen[etag] = i
	}
	// A version from the future does not hold the clock up.
	root := t.TempDir()
	s = at(t, root)
	put(t, s, "x", "1", store.PutOptions{})
	future := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(root, "x"), future, future); err != nil {
		t.Fatal(err)
	}
	one, err := s.Head(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "x", "2", store.PutOptions{IfMatch: one.ETag})
	two, err := s.Head(t.Context(), "x")
	if err != nil || !two.LastModified.After(one.LastModified) {
		t.Fatalf("%v then %v, %v", one, two, err)
	}
}

func TestReadOfAFileThatGrows(t *testing.T) {
	root := t.TempDir()
	s := at(t, root)
	path := filepath.Join(root, "x")
	for _, c := range []struct {
		name   string
		change func() error
	}{
		{"grown", func() error { return os.WriteFile(path, []byte("longer than it was"), 0o644) }},
		{"cut", func() error { return os.Truncate(path, 3) }},
	} {
		if err := os.WriteFile(path, []byte("0123456789"), 0o644); err != nil {
			t.Fatal(err)
		}
		obj, err := s.Get(t.Context(), "x", store.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // the kernel's clock has to tick for a change in place to be seen
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n := 0
		for err == nil {
			var k int
			k, err = obj.Body.Read(buf[n:])
			n += k
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("%s: read %d bytes, then %v", c.name, n, err)
		}
		if err := obj.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnusableNamesAreReported(t *testing.T) {
	root := t.TempDir()
	s := at(t, root)
	put(t, s, "good", "x", store.PutOptions{})
	if err := os.WriteFile(filepath.Join(root, "bad\xff"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), store.ListOptions{}); !errors.Is(err, store.ErrBadKey) || !strings.Contains(err.Error(), `bad\xff`) {
		t.Fatalf("list: %v", err)
	}
	wantKeys(t, s, store.ListOptions{Prefix: "good"}, "good")
}

// TestLeftoversAreRemoved finds the temporary file of a process that died long ago, and leaves that of one that may be at work.
func TestLeftoversAreRemoved(t *testing.T) {
	root := t.TempDir()
	tmp := filepath.Join(root, ".deltad/tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"put-old": 25 * time.Hour, "put-new": time.Hour} {
		path := filepath.Join(tmp, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, at(t, root), "x", "x", store.PutOptions{})
	es, err := os.ReadDir(tmp)
	if err != nil || len(es) != 1 || es[0].Name() != "put-new" {
		t.Fatalf("%v, %v", es, err)
	}
}

// TestPutsAndDeletesOfOneDirectory lets deletes remove the directory that puts are about to use.
func TestPutsAndDeletesOfOneDirectory(t *testing.T) {
	s := at(t, t.TempDir())
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			key := fmt.Sprintf("a/b/c/%d", w)
			for i := range 60 {
				if _, err := store.PutBytes(t.Context(), s, key, []byte(strconv.Itoa(i)), store.PutOptions{IfNoneMatch: true}); err != nil {
					t.Errorf("put %s: %v", key, err)
					return
				}
				if b, _, err := store.ReadAll(t.Context(), s, key, 10, store.GetOptions{}); err != nil || string(b) != strconv.Itoa(i) {
					t.Errorf("get %s: %q, %v", key, b, err)
					return
				}
				if err := s.Delete(t.Context(), key); err != nil {
					t.Errorf("delete %s: %v", key, err)
					return
				}
			}
		})
	}
	wg.Wait()
	wantKeys(t, s, store.ListOptions{})
}

func TestLockWaitEndsWithContext(t *testing.T) {
	root := t.TempDir()
	s := at(t, root)
	put(t, s, "x", "1", store.PutOptions{})
	// Another process holds every lock there is.
	var files []*os.File
	for i := range 256 {
		f, err := os.OpenFile(filepath.Join(root, ".deltad/lock", fmt.Sprintf("%02x", i)), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := store.PutBytes(ctx, s, "x", []byte("2"), store.PutOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("put under a foreign lock: %v", err)
	}
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "x", "3", store.PutOptions{})
}

// TestMain runs the writers of TestCompareAndSwapAcrossProcesses, which are this binary again.
func TestMain(m *testing.M) {
	root := os.Getenv("STORE_FILE_TEST_ROOT")
	if root == "" {
		os.Exit(m.Run())
	}
	if err := count(root, 50); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func count(root string, n int) error {
	s, err := file.New(root)
	if err != nil {
		return err
	}
	ctx := context.Background()
	for done := 0; done < n; {
		b, info, err := store.ReadAll(ctx, s, "count", 20, store.GetOptions{})
		if err != nil {
			return err
		}
		v, err := strconv.Atoi(string(b))
		if err != nil {
			return err
		}
		_, err = store.PutBytes(ctx, s, "count", []byte(strconv.Itoa(v+1)), store.PutOptions{IfMatch: info.ETag})
		if err == nil {
			done++
		} else if !errors.Is(err, store.ErrPrecondition) {
			return err
		}
	}
	return nil
}

func TestCompareAndSwapAcrossProcesses(t *testing.T) {
	root := t.TempDir()
	s := at(t, root)
	put(t, s, "count", "1000", store.PutOptions{}) // four digits all the way: equal sizes
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), "STORE_FILE_TEST_ROOT="+root)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer: %v: %s", err, out)
			}
		})
	}
	wg.Wait()
	if b, _, err := store.ReadAll(t.Context(), s, "count", 20, store.GetOptions{}); err != nil || string(b) != "1200" {
		t.Fatalf("counted %s, want 1200: %v", b, err)
	}
}

// TestProcessKilledWhileWriting kills writers at random moments: no lock stays, no torn object, the counter is whole.
func TestProcessKilledWhileWriting(t *testing.T) {
	root := t.TempDir()
	s := at(t, root)
	put(t, s, "count", "1000", store.PutOptions{})
	for i := range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "STORE_FILE_TEST_ROOT="+root)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(10+7*i) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Log("the writer was done before it was killed")
		}
		b, info, err := store.ReadAll(t.Context(), s, "count", 20, store.GetOptions{})
		if err != nil || len(b) != 4 {
			t.Fatalf("after kill %d: %q, %v", i, b, err)
		}
		put(t, s, "count", string(b), store.PutOptions{IfMatch: info.ETag})
		wantKeys(t, s, store.ListOptions{}, "count")
	}
}

// TestPerishable: an object that need not outlive the machine's power is otherwise
// as any other.
func TestPerishable(t *testing.T) {
	root := t.TempDir()
	st, err := file.New(root)
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range []int{0, 1, 256 << 10, 1<<20 + 1} {
		key := fmt.Sprintf("new/%d/object", i)
		body := bytes.Repeat([]byte{byte(i + 1)}, size)
		tag, err := store.PutBytes(t.Context(), st, key, body, store.PutOptions{IfNoneMatch: true, Perishable: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.PutBytes(t.Context(), st, key, []byte("other"), store.PutOptions{IfNoneMatch: true, Perishable: true}); !errors.Is(err, store.ErrPrecondition) {
			t.Errorf("created again: %v", err)
		}
		obj, err := st.Get(t.Context(), key, store.GetOptions{IfMatch: tag})
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(obj.Body)
		if err := errors.Join(err, obj.Body.Close()); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes came back of %d, %v", len(got), size, err)
		}
		next, err := store.PutBytes(t.Context(), st, key, body, store.PutOptions{IfMatch: tag, Perishable: true})
		if err != nil || next == tag {
			t.Errorf("replaced with ETag %s after %s, %v", next, tag, err)
		}
		if err := st.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.PutBytes(t.Context(), st, "plain", nil, store.PutOptions{Perishable: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutBytes(t.Context(), st, "plain/below", nil, store.PutOptions{Perishable: true}); !errors.Is(err, store.ErrBadKey) {
		t.Errorf("below an object: %v", err)
	}
	left, err := os.ReadDir(filepath.Join(root, ".deltad", "tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
