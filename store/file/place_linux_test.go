package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/deltad/deltad/store"
)

// atPlace is a directory with a file x in it, as a place.
func atPlace(t *testing.T) (dir string, at place) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "x"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	at, ok := place{}.nearer(dir)
	if !ok {
		t.Fatalf("%s cannot be looked from", dir)
	}
	t.Cleanup(at.close)
	return dir, at
}

// TestAPlaceThatAnotherTookIsNotBelieved: what is gone from a directory that was opened may be there under its name.
func TestAPlaceThatAnotherTookIsNotBelieved(t *testing.T) {
	dir, at := atPlace(t)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "y"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "x")
	if err := os.WriteFile(path, []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if is, _, err := at.look(path); err != nil || is != versionOf(fi) {
		t.Errorf("%+v, %v: the file is %v", is, err, fi)
	}
	if is, ok := at.markOf(filepath.Join(dir, "y")); !ok || is.ino == 0 {
		t.Errorf("the directory has mark %+v, %v", is, ok)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if is, _, err := at.look(path); !gone(err) || !strings.Contains(err.Error(), path) {
		t.Errorf("%+v, %v: want a path that is gone", is, err)
	}
}

// TestAPlaceSeesNoMoreThanPathsDo: a file whose path is too long to be opened is none.
func TestAPlaceSeesNoMoreThanPathsDo(t *testing.T) {
	dir, at := atPlace(t)
	for _, n := range []int{10, 2048 - len(dir)/2 - 2, 2048 - len(dir)/2 + 2} {
		path := dir + strings.Repeat("/.", n) + "/x"
		_, err := os.Stat(path)
		if _, _, got := at.look(path); !errors.Is(got, errors.Unwrap(err)) {
			t.Errorf("a path of %d bytes: %v, want %v", len(path), got, err)
		}
	}
	for _, path := range []string{filepath.Join(dir, "x"), filepath.Join(dir, "absent")} {
		if q, ok := at.nearer(path); ok {
			q.close()
			t.Errorf("%s is a place to look from", path)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := at.look(filepath.Join(dir, "sub")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory as a file: %v", err)
	}
}

// TestPlacesAreClosed after listings of all ends, in a tree deeper than places are opened.
func TestPlacesAreClosed(t *testing.T) {
	root := t.TempDir()
	for dir, depth := root, 0; depth < mostPlaces+4; depth++ {
		for i := range worthwhile {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		dir = filepath.Join(dir, "sub")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	below := func() int { // how many directories of the tree are open
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, fd := range fds {
			if to, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name())); err == nil && strings.HasPrefix(to, root) {
				n++
			}
		}
		return n
	}
	for _, o := range []store.ListOptions{{}, {MaxKeys: 50}, {Delimiter: "/"}, {Prefix: "sub/sub/", MaxKeys: 3}} {
		for range 2 {
			if got, want := listed(t, s, o), slowly(t, root, o); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v: %d entries, want %d", o, len(got), len(want))
			}
			if n := below(); n != 0 {
				t.Errorf("%+v: %d directories are open", o, n)
			}
		}
	}
	w, most := &walk{ctx: t.Context()}, 0
	var dig func(dir string)
	dig = func(dir string) {
		if before, came := w.approach(dir, worthwhile); came {
			defer w.leave(before)
		}
		most = max(most, below())
		if sub := filepath.Join(dir, "sub"); len(sub) < len(root)+4*(mostPlaces+4) {
			dig(sub)
		}
	}
	if dig(root); most != mostPlaces || below() != 0 || w.at != (place{}) {
		t.Errorf("%d directories were open at once, want %d; %d are, at %+v", most, mostPlaces, below(), w.at)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.List(ctx, store.ListOptions{}); !errors.Is(err, context.Canceled) || below() != 0 {
		t.Errorf("%v, %d directories are open", err, below())
	}
}
