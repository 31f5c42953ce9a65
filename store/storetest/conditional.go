package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/store"
)

func (s suite) createOnly(t *testing.T) {
	st := s.open(t)
	etag, err := store.PutBytes(t.Context(), st, "c/new", []byte("first"), store.PutOptions{IfNoneMatch: true})
	want(t, "create", err, nil)
	for _, o := range []store.PutOptions{{IfNoneMatch: true}, {IfNoneMatch: true, Unretried: true}} {
		_, err = store.PutBytes(t.Context(), st, "c/new", []byte("second"), o)
		want(t, "create again", err, store.ErrPrecondition)
		_, err = store.PutBytes(t.Context(), st, "c/new", []byte("first"), o)
		want(t, "create again with the same body", err, store.ErrPrecondition)
	}
	if b, info := get(t, st, "c/new"); b != "first" || info.ETag != etag {
		t.Fatalf("after the refusals: %q, ETag %s, want %s", b, info.ETag, etag)
	}
	want(t, "delete", st.Delete(t.Context(), "c/new"), nil)
	_, err = store.PutBytes(t.Context(), st, "c/new", []byte("third"), store.PutOptions{IfNoneMatch: true})
	want(t, "create after a delete", err, nil)
}

// createRace wants one winner of 16, whose body it is.
func (s suite) createRace(t *testing.T) {
	st := s.open(t)
	for round := range s.o.Rounds {
		key := fmt.Sprintf("race/%d", round)
		winners := race(t, st, key, func(int) store.PutOptions { return store.PutOptions{IfNoneMatch: true} })
		if len(winners) != 1 {
			t.Fatalf("round %d: %d winners", round, len(winners))
		}
		if b, _ := get(t, st, key); b != body(winners[0]) {
			t.Fatalf("round %d: writer %d won but the body is %q", round, winners[0], b)
		}
	}
}

func body(writer int) string { return fmt.Sprintf("writer %02d %s", writer, strings.Repeat("x", 200)) }

// race lets 16 writers put at once and returns those that were told they won.
func race(t *testing.T, st store.Store, key string, o func(int) store.PutOptions) []int {
	t.Helper()
	var mu sync.Mutex
	var winners []int
	start := make(chan struct{})
	var g errgroup.Group
	for w := range 16 {
		g.Go(func() error {
			<-start
			for {
				_, err := store.PutBytes(t.Context(), st, key, []byte(body(w)), o(w))
				switch {
				case err == nil:
					mu.Lock()
					winners = append(winners, w)
					mu.Unlock()
				case errors.Is(err, store.ErrConflict):
					continue // racing writers may be told to come again
				case !errors.Is(err, store.ErrPrecondition):
					return err
				}
				return nil
			}
		})
	}
	close(start)
	want(t, "race", g.Wait(), nil)
	return winners
}

func (s suite) compareAndSwap(t *testing.T) {
	st := s.open(t)
	_, err := store.PutBytes(t.Context(), st, "s/absent", []byte("x"), store.PutOptions{IfMatch: "0123456789abcdef0123456789abcdef"})
	want(t, "swap an absent key", err, store.ErrPrecondition)
	equal(t, "keys", list(t, st, store.ListOptions{}).Keys, nil)

	one := put(t, st, "s/x", "1")
	two, err := store.PutBytes(t.Context(), st, "s/x", []byte("2"), store.PutOptions{IfMatch: one, Unretried: true})
	want(t, "swap", err, nil)
	if two == one {
		t.Fatal("a swap kept the ETag")
	}
	_, err = store.PutBytes(t.Context(), st, "s/x", []byte("3"), store.PutOptions{IfMatch: one, Unretried: true})
	want(t, "stale swap", err, store.ErrPrecondition)
	if b, info := get(t, st, "s/x"); b != "2" || info.ETag != two {
		t.Fatalf("after the refusal: %q, ETag %s, want %s", b, info.ETag, two)
	}
	three, err := store.PutBytes(t.Context(), st, "s/x", []byte("3"), store.PutOptions{IfMatch: two})
	want(t, "swap again", err, nil)
	want(t, "delete", st.Delete(t.Context(), "s/x"), nil)
	_, err = store.PutBytes(t.Context(), st, "s/x", []byte("4"), store.PutOptions{IfMatch: three})
	want(t, "swap a deleted key", err, store.ErrPrecondition)

	_, err = store.PutBytes(t.Context(), st, "s/x", nil, store.PutOptions{IfMatch: three, IfNoneMatch: true})
	if err == nil {
		t.Fatal("both conditions at once: no error")
	}
}

func (s suite) swapRace(t *testing.T) {
	st := s.open(t)
	etag := put(t, st, "sr/x", "start")
	for round := range s.o.Rounds {
		winners := race(t, st, "sr/x", func(int) store.PutOptions { return store.PutOptions{IfMatch: etag} })
		if len(winners) != 1 {
			t.Fatalf("round %d: %d winners", round, len(winners))
		}
		b, info := get(t, st, "sr/x")
		if b != body(winners[0]) {
			t.Fatalf("round %d: writer %d won but the body is %q", round, winners[0], b)
		}
		// Another body in between, so that no writer's own body can come round again with its ETag.
		etag = put(t, st, "sr/x", fmt.Sprintf("round %d after %s", round, info.ETag))
	}
}

// swapCounter loses no increment.
func (s suite) swapCounter(t *testing.T) {
	st := s.open(t)
	put(t, st, "count", "0")
	const writers, each = 8, 10
	var g errgroup.Group
	for range writers {
		g.Go(func() error {
			for done := 0; done < each; {
				b, info, err := store.ReadAll(t.Context(), st, "count", 100, store.GetOptions{})
				if err != nil {
					return err
				}
				n, err := strconv.Atoi(string(b))
				if err != nil {
					return fmt.Errorf("torn read: %w", err)
				}
				_, err = store.PutBytes(t.Context(), st, "count", []byte(strconv.Itoa(n+1)), store.PutOptions{IfMatch: info.ETag, Unretried: true})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrPrecondition) && !errors.Is(err, store.ErrConflict):
					return err
				}
			}
			return nil
		})
	}
	want(t, "count", g.Wait(), nil)
	if b, _ := get(t, st, "count"); b != strconv.Itoa(writers*each) {
		t.Fatalf("counted %s, want %d", b, writers*each)
	}
}

// wholeBodies reads an object while it is overwritten with bodies of other sizes: each read is one of them, whole.
func (s suite) wholeBodies(t *testing.T) {
	st := s.open(t)
	version := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 1000+i*997) }
	put(t, st, "w", version(0))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for i := range 60 {
			if _, err := store.PutBytes(t.Context(), st, "w", []byte(version(i)), store.PutOptions{}); err != nil {
				t.Errorf("overwrite: %v", err)
				return
			}
		}
	})
	for done := false; !done; {
		select {
		case <-stop:
			done = true
		default:
		}
		b, _, err := store.ReadAll(t.Context(), st, "w", 1<<20, store.GetOptions{})
		if err != nil {
			t.Errorf("read: %v", err)
			break
		}
		if i := (len(b) - 1000) / 997; string(b) != version(i) {
			t.Errorf("torn read of %d bytes", len(b))
			break
		}
	}
	wg.Wait()
}

func (s suite) probe(t *testing.T) {
	st := s.open(t)
	put(t, st, "out/keep", "x")
	want(t, "probe", store.Probe(t.Context(), st, "out/"), nil)
	equal(t, "keys after the probe", list(t, st, store.ListOptions{}).Keys, []string{"out/keep"})
}
