package microbatch_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/shelf"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// shelved is a bench whose slices last, and that counts what is read.
type shelved struct {
	*bench
	dir string

	mu       sync.Mutex
	read     map[string]int // objects of the source, by key
	outcomes map[string]int // by tier and outcome
	refuse   bool           // writes of slices to the bucket
	older    map[string]time.Duration
}

// refusing is a store that takes no slices when told.
type refusing struct {
	store.Store
	s *shelved
}

func (r refusing) Put(ctx context.Context, key string, body io.ReadSeeker, o store.PutOptions) (string, error) {
	r.s.mu.Lock()
	refuse := r.s.refuse && strings.HasPrefix(key, "state/cache/")
	r.s.mu.Unlock()
	if refuse {
		return "", fmt.Errorf("put %s: %w", key, store.ErrUnavailable)
	}
	return r.Store.Put(ctx, key, body, o)
}

// List makes slices older that the test says are.
func (r refusing) List(ctx context.Context, o store.ListOptions) (store.Page, error) {
	page, err := r.Store.List(ctx, o)
	for i := range page.Objects {
		page.Objects[i].LastModified = page.Objects[i].LastModified.Add(-r.s.older[page.Objects[i].Key])
	}
	return page, err
}

func newShelved(t *testing.T, o benchOptions) *shelved {
	t.Helper()
	s := &shelved{dir: t.TempDir(), read: map[string]int{}, outcomes: map[string]int{}}
	change := o.change
	o.change = func(set *microbatch.Settings) {
		set.KeepSlices = true
		set.SliceDir = shelf.NewDir(s.dir, 1<<30, zap.NewNop()).Scope("ads")
		set.ObserveSlices = func(tier, outcome string, n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.outcomes[tier+" "+outcome] += n
		}
		if change != nil {
			change(set)
		}
	}
	s.bench = newBench(t, o)
	open := s.set.Open
	s.set.Open = func(o partition.Object) (scan.Blob, map[string]string) {
		s.mu.Lock()
		s.read[o.Key]++
		s.mu.Unlock()
		return open(o)
	}
	s.set.Sink = sink.New(sink.Settings{Store: refusing{s.out, s}, Pipeline: "ads", NewID: s.set.NewID})
	s.restart()
	return s
}

// begin begins another process; with elsewhere on another machine.
func (s *shelved) begin(elsewhere bool) {
	if elsewhere {
		s.dir = s.t.TempDir()
		s.set.SliceDir = shelf.NewDir(s.dir, 1<<30, zap.NewNop()).Scope("ads")
	}
	s.restart()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.read)
	clear(s.outcomes)
}

func (s *shelved) wantRead(what string, keys ...string) {
	s.t.Helper()
	want := map[string]bool{}
	for _, key := range keys {
		want[key] = true
		if s.read[key] == 0 {
			s.t.Errorf("%s: %s was not read", what, key)
		}
	}
	for key := range s.read {
		if !want[key] {
			s.t.Errorf("%s: %s was read again", what, key)
		}
	}
}

func (s *shelved) cached() (keys []string) {
	s.t.Helper()
	for p, err := range store.Pages(s.t.Context(), s.out, store.ListOptions{Prefix: "state/cache/"}) {
		if err != nil {
			s.t.Fatal(err)
		}
		for _, o := range p.Objects {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

func (s *shelved) files() (names []string) {
	s.t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return names
}

func (s *shelved) fill(n int) {
	for i := range n {
		clock := fmt.Sprintf("03:%02d", i)
		s.put(clock, "a.ndjson", row("x", clock, i, "one"), row(fmt.Sprint("y", i), clock, 1, "why"))
	}
}

// TestRestartReadsNoObjectAgain: the first run of the next process, on this
// machine or on another, reads what is new and nothing else, and publishes what
// a run that reads everything does.
func TestRestartReadsNoObjectAgain(t *testing.T) {
	for _, c := range []struct {
		name      string
		elsewhere bool
		change    func(*microbatch.Settings)
		outcome   string
	}{
		{"from the directory", false, nil, "directory hit"},
		{"from the bucket", true, nil, "bucket hit"},
		{"from the bucket, without a directory", false, func(s *microbatch.Settings) { s.SliceDir = nil }, "bucket hit"},
		{"from the directory, nothing in the bucket", false, func(s *microbatch.Settings) { s.KeepSlices = false }, "directory hit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShelved(t, benchOptions{change: c.change})
			s.fill(10)
			s.step("03:10", microbatch.Advanced)
			added := s.put("03:10", "a.ndjson", row("x", "03:10", 100, "two"))
			s.begin(c.elsewhere)
			s.step("03:11", microbatch.Advanced)
			s.wantRead("after a restart", added)
			if got := s.outcomes[c.outcome]; got != 10 {
				t.Errorf("%s: %d, want 10; all %v", c.outcome, got, s.outcomes)
			}
			s.sameWithout(t)
		})
	}
}

// sameWithout compares the live pane's files with those that its inputs make
// without anything kept.
func (s *shelved) sameWithout(t *testing.T) {
	t.Helper()
	m := s.live()
	if err := s.set.Sink.LoadInputs(t.Context(), &m); err != nil {
		t.Fatal(err)
	}
	again, err := s.p.Recompute(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Files) != len(m.Files) {
		t.Fatalf("%d files without a shelf, %d with one", len(again.Files), len(m.Files))
	}
	for i, f := range again.Files {
		if f.SHA256 != m.Files[i].SHA256 {
			t.Errorf("%s: other bytes than without a shelf", f.Key)
		}
	}
}

// TestIdleAsksForNoSlice: an idle run writes nothing and asks for nothing, a
// steady run lists nothing and writes a slice.
func TestIdleAsksForNoSlice(t *testing.T) {
	s := newShelved(t, benchOptions{change: func(set *microbatch.Settings) { set.Retain = sink.Retain{} }})
	s.fill(5)
	s.step("03:05", microbatch.Advanced)
	if n := len(s.cached()); n != 5 {
		t.Fatalf("%d slices in the bucket, want 5", n)
	}
	s.begin(false)
	s.step("03:05", microbatch.WasIdle)
	if len(s.outcomes) != 0 || len(s.read) != 0 {
		t.Errorf("idle: %v, read %v", s.outcomes, s.read)
	}
	for i := 5; i < 8; i++ {
		clock := fmt.Sprintf("03:%02d", i)
		s.put(clock, "a.ndjson", row("x", clock, 1, "more"))
		s.step(clock, microbatch.Advanced)
		if n := len(s.cached()); n != i+1 {
			t.Errorf("%d slices in the bucket after %s, want %d", n, clock, i+1)
		}
	}
}

// TestPublishesWithoutTheBucket: where slices cannot be written the pane is
// published all the same, and the next publication makes up for it.
func TestPublishesWithoutTheBucket(t *testing.T) {
	s := newShelved(t, benchOptions{})
	s.fill(5)
	s.refuse = true
	s.step("03:05", microbatch.Advanced)
	if n := len(s.cached()); n != 0 || s.outcomes["bucket failed"] == 0 {
		t.Fatalf("%d slices in a bucket that takes none; %v", n, s.outcomes)
	}
	s.refuse = false
	s.put("03:05", "a.ndjson", row("x", "03:05", 1, "more"))
	s.step("03:06", microbatch.Advanced)
	if n := len(s.cached()); n != 6 {
		t.Errorf("%d slices in the bucket, want 6", n)
	}
	// A process that ends before it could write leaves them to the next.
	s.refuse = true
	s.put("03:06", "a.ndjson", row("x", "03:06", 1, "more"))
	s.step("03:07", microbatch.Advanced)
	s.refuse = false
	s.begin(false)
	s.put("03:07", "a.ndjson", row("x", "03:07", 1, "more"))
	s.step("03:08", microbatch.Advanced)
	if n := len(s.cached()); n != 8 {
		t.Errorf("%d slices in the bucket, want 8", n)
	}
}

// TestDamagedSlicesAreReadAgain: what is not the slice that was stored is
// deleted, its objects are read, and it takes its place again.
func TestDamagedSlicesAreReadAgain(t *testing.T) {
	damage := map[string]func(b []byte) []byte{
		"empty": func([]byte) []byte { return nil }, "half": func(b []byte) []byte { return b[:len(b)/2] },
		"a bit": func(b []byte) []byte { b = bytes.Clone(b); b[len(b)-9] ^= 4; return b }, "longer": func(b []byte) []byte { return append(bytes.Clone(b), b...) },
		"something else": func([]byte) []byte { return []byte("hello") },
	}
	for name, change := range damage {
		t.Run(name, func(t *testing.T) {
			s := newShelved(t, benchOptions{})
			s.fill(3)
			s.step("03:03", microbatch.Advanced)
			for _, name := range s.files() {
				b, err := os.ReadFile(name)
				if err == nil {
					err = os.WriteFile(name, change(b), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			before := s.cached()
			for _, key := range before {
				b, _, err := store.ReadAll(t.Context(), s.out, key, 1<<20, store.GetOptions{})
				if err == nil {
					_, err = store.PutBytes(t.Context(), s.out, key, change(b), store.PutOptions{})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			s.begin(false)
			s.put("03:03", "a.ndjson", row("x", "03:03", 1, "more"))
			s.step("03:04", microbatch.Advanced)
			if s.outcomes["directory damaged"] != 3 || s.outcomes["bucket damaged"] != 3 || len(s.read) != 4 {
				t.Errorf("%v, %d objects read", s.outcomes, len(s.read))
			}
			s.sameWithout(t)
			after := s.cached()
			if len(after) != 4 {
				t.Errorf("%d slices in the bucket, want 4", len(after))
			}
			for _, was := range before {
				for _, is := range after {
					if was == is {
						t.Errorf("%s is there again: no name is used twice", is)
					}
				}
			}
			for _, elsewhere := range []bool{false, true} {
				s.begin(elsewhere)
				clock := map[bool]string{false: "03:05", true: "03:06"}[elsewhere]
				s.wantStep(clock, s.put(clock, "a.ndjson", row("x", clock, 1, "more")))
			}
		})
	}
}

func (s *shelved) wantStep(clock string, keys ...string) {
	s.t.Helper()
	s.step(clock, microbatch.Advanced)
	s.wantRead(clock, keys...)
}

// TestUnwritableDirectory: a directory that takes nothing costs nothing but the
// next start.
func TestUnwritableDirectory(t *testing.T) {
	s := newShelved(t, benchOptions{change: func(set *microbatch.Settings) { set.KeepSlices = false }})
	file := filepath.Join(s.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.set.SliceDir = shelf.NewDir(file, 1<<30, zap.NewNop()).Scope("ads")
	s.begin(false)
	s.fill(3)
	s.step("03:03", microbatch.Advanced)
	if s.outcomes["directory failed"] == 0 || s.outcomes["directory stored"] != 0 {
		t.Errorf("%v", s.outcomes)
	}
	s.sameWithout(t)
}

// TestNoCacheTouchesNoTier: with it nothing is looked for and nothing is kept.
func TestNoCacheTouchesNoTier(t *testing.T) {
	s := newShelved(t, benchOptions{})
	s.fill(3)
	s.step("03:03", microbatch.Advanced)
	cached, files := s.cached(), s.files()
	s.set.NoCache = true
	s.begin(false)
	added := s.put("03:03", "a.ndjson", row("x", "03:03", 1, "more"))
	s.step("03:04", microbatch.Advanced)
	if len(s.read) != 4 || s.read[added] == 0 {
		t.Errorf("read %v, want everything", s.read)
	}
	if len(s.cached()) != len(cached) || len(s.files()) != len(files) || s.outcomes["directory hit"]+s.outcomes["bucket hit"] != 0 {
		t.Errorf("%d slices and %d files, before %d and %d; %v", len(s.cached()), len(s.files()), len(cached), len(files), s.outcomes)
	}
}

// TestRejectedRowsAreToldOnce: a slice with rejected rows is kept when they
// were told, so that the next process need not.
func TestRejectedRowsAreToldOnce(t *testing.T) {
	s := newShelved(t, benchOptions{change: func(set *microbatch.Settings) { set.Row, set.MaxRejectShare = scan.Reject, 0.9 }})
	s.put("03:00", "a.ndjson", row("x", "03:00", 1, "one"), "{torn")
	s.set.Guards.MinDocuments = 2
	s.restart()
	if r := s.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{}); r.Err == nil {
		t.Fatal("a pane with too few documents was published")
	}
	if n := len(s.files()); n != 0 {
		t.Fatalf("%d slices kept before their rejected rows were told", n)
	}
	s.set.Guards.MinDocuments = 0
	s.begin(false)
	s.step("03:01", microbatch.Advanced)
	rejects := func() (n int) {
		for p, err := range store.Pages(t.Context(), s.out, store.ListOptions{Prefix: "rejects/"}) {
			if err != nil {
				t.Fatal(err)
			}
			n += len(p.Objects)
		}
		return n
	}
	if len(s.files()) != 1 || len(s.cached()) != 1 || rejects() != 1 {
		t.Fatalf("%d files, %d slices, %d files of rejected rows; want one of each", len(s.files()), len(s.cached()), rejects())
	}
	s.begin(false)
	added := s.put("03:01", "a.ndjson", row("x", "03:01", 1, "two"))
	s.step("03:02", microbatch.Advanced)
	s.wantRead("after a restart", added)
	if m := s.live(); m.Counts.Rejected != 1 || rejects() != 1 {
		t.Errorf("%d rejected rows in %d files, want 1 in 1", m.Counts.Rejected, rejects())
	}
}

// TestWiderSlicesTakeThePlace: a column that widens makes every slice again,
// and what was made last serves the next process.
func TestWiderSlicesTakeThePlace(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		s := newShelved(t, benchOptions{})
		s.fill(4)
		s.step("03:04", microbatch.Advanced)
		s.put("03:04", "a.ndjson", strings.Replace(row("x", "03:04", 7, "half"), `"clicks":7`, `"clicks":7.5`, 1))
		s.step("03:05", microbatch.Advanced)
		s.begin(elsewhere)
		added := s.put("03:05", "a.ndjson", row("x", "03:05", 1, "more"))
		s.step("03:06", microbatch.Advanced)
		s.wantRead("after a restart", added)
		s.sameWithout(t)
	}
}

// TestAnotherReplicasSlices: who leads again after somebody else did finds what
// that one kept.
func TestAnotherReplicasSlices(t *testing.T) {
	s := newShelved(t, benchOptions{change: func(set *microbatch.Settings) { set.SliceDir = nil }})
	s.fill(3)
	s.step("03:03", microbatch.Advanced)
	first := s.p
	s.begin(false)
	for i := 3; i < 6; i++ {
		clock := fmt.Sprintf("03:%02d", i)
		s.put(clock, "a.ndjson", row("x", clock, 1, "more"))
		s.step(clock, microbatch.Advanced)
	}
	s.p = first
	clear(s.read)
	added := s.put("03:06", "a.ndjson", row("x", "03:06", 1, "more"))
	s.step("03:07", microbatch.Advanced)
	s.wantRead("after another one led", added)
}

// TestCachedSlicesAreCollected: slices that left the window go, by and by, and
// what the window needs stays.
func TestCachedSlicesAreCollected(t *testing.T) {
	s := newShelved(t, benchOptions{rule: hour(10 * time.Minute), change: func(set *microbatch.Settings) {
		set.Retain = sink.Retain{Panes: 2}
	}})
	for i := range 60 {
		clock := fmt.Sprintf("03:%02d", i)
		s.put(clock, "a.ndjson", row("x", clock, 1, "more"))
		s.step(clock, microbatch.Advanced)
	}
	if n := len(s.cached()); n != 60 {
		t.Fatalf("%d slices in the bucket, want all 60: none is an hour old", n)
	}
	s.older = map[string]time.Duration{}
	for _, key := range s.cached() {
		s.older[key] = 2 * time.Hour
	}
	s.put("04:00", "a.ndjson", row("x", "04:00", 1, "more"))
	s.begin(true)
	s.step("04:01", microbatch.Advanced)
	if n := len(s.cached()); n != 10 && n != 11 {
		t.Errorf("%d slices in the bucket, want those of the window", n)
	}
	s.begin(true)
	added := s.put("04:01", "a.ndjson", row("x", "04:01", 1, "more"))
	s.step("04:02", microbatch.Advanced)
	s.wantRead("after a collection", added)
}
