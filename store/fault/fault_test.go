package fault_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/store/mem"
)

func put(ctx context.Context, s store.Store, key, body string, o store.PutOptions) error {
	_, err := store.PutBytes(ctx, s, key, []byte(body), o)
	return err
}

func read(t *testing.T, s store.Store, key string) string {
	t.Helper()
	b, _, err := store.ReadAll(context.Background(), s, key, 100, store.GetOptions{})
	if errors.Is(err, store.ErrNotFound) {
		return "absent"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRulesThatSpoilThePut(t *testing.T) {
	own := errors.New("own")
	for _, c := range []struct {
		name  string
		rule  fault.Rule
		class error
		then  string // what the store holds after the put
	}{
		{"error before", fault.Rule{Kind: fault.ErrorBefore}, store.ErrUnavailable, "absent"},
		{"own error", fault.Rule{Kind: fault.ErrorBefore, Err: own}, own, "absent"},
		{"error after", fault.Rule{Kind: fault.ErrorAfter, Op: "put"}, store.ErrUnavailable, "body"},
		{"conflict after", fault.Rule{Kind: fault.ErrorAfter, Err: store.ErrConflict}, store.ErrConflict, "body"},
		{"late", fault.Rule{Kind: fault.Late}, store.ErrUnavailable, "absent"},
		{"another operation", fault.Rule{Op: "get"}, nil, "body"},
		{"another key", fault.Rule{Key: "manifest"}, nil, "body"},
		{"the key", fault.Rule{Key: "CURR"}, store.ErrUnavailable, "absent"},
		{"skipped", fault.Rule{Skip: 1}, nil, "body"},
		{"by chance", fault.Rule{P: func() bool { return false }}, nil, "body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := mem.New("t")
			s := fault.New(inner, c.rule)
			err := put(t.Context(), s, "CURRENT", "body", store.PutOptions{IfNoneMatch: true})
			if !errors.Is(err, c.class) {
				t.Fatalf("got %v, want %v", err, c.class)
			}
			if got := read(t, inner, "CURRENT"); got != c.then {
				t.Fatalf("the store holds %q, want %q", got, c.then)
			}
			if calls := s.Calls(); !slices.Equal(calls, []fault.Call{{Op: "put", Key: "CURRENT", Hit: c.class != nil}}) {
				t.Fatalf("%v", calls)
			}
		})
	}
}

// TestLatePutMeetsItsCondition arrives after somebody else's, and is refused then.
func TestLatePutMeetsItsCondition(t *testing.T) {
	inner := mem.New("t")
	s := fault.New(inner, fault.Rule{Kind: fault.Late, Op: "put", Times: 2})
	for _, body := range []string{"mine", "again"} {
		if err := put(t.Context(), s, "CURRENT", body, store.PutOptions{IfNoneMatch: true}); !errors.Is(err, store.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	errs := s.Deliver(t.Context())
	if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], store.ErrPrecondition) || read(t, inner, "CURRENT") != "mine" {
		t.Fatalf("%v, %s", errs, read(t, inner, "CURRENT"))
	}
	if errs := s.Deliver(t.Context()); len(errs) != 0 {
		t.Fatalf("delivered twice: %v", errs)
	}
}

func TestCrashAndHeal(t *testing.T) {
	s := fault.New(mem.New("t"), fault.Rule{Kind: fault.Crash, Op: "put", Key: "manifest", Err: io.ErrClosedPipe})
	if err := put(t.Context(), s, "data", "x", store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), s, "manifest", "x", store.PutOptions{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	if _, err := s.Head(t.Context(), "data"); !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
	s.Heal()
	if got := read(t, s, "data") + read(t, s, "manifest"); got != "xabsent" {
		t.Fatal(got)
	}
}

func TestBodies(t *testing.T) {
	inner := mem.New("t")
	s := fault.New(inner, fault.Rule{Kind: fault.Truncate, Op: "get", N: 3, Times: 1}, fault.Rule{Kind: fault.Corrupt, Op: "get", N: 1, Times: 1})
	if err := put(t.Context(), s, "k", "abcde", store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	obj, err := s.Get(t.Context(), "k", store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(obj.Body)
	if string(b) != "abc" || !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("%q, %v", b, err)
	}
	for _, want := range []string{"aBcde", "abcde"} {
		if got := read(t, s, "k"); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}

func TestLie(t *testing.T) {
	s := fault.New(mem.New("t"), fault.Rule{Kind: fault.Lie, Op: "list", Times: 1, Page: func(p store.Page) store.Page {
		return store.Page{Objects: p.Objects[:1]}
	}})
	for _, k := range []string{"a", "b"} {
		if err := put(t.Context(), s, k, "", store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{1, 2} {
		p, err := s.List(t.Context(), store.ListOptions{})
		if err != nil || len(p.Objects) != want {
			t.Fatalf("%+v, %v", p, err)
		}
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := mem.New("t")
		hold := make(chan struct{})
		s := fault.New(inner,
			fault.Rule{Kind: fault.Delay, Op: "put", Delay: time.Minute, Hold: hold, Times: 1},
			fault.Rule{Kind: fault.Hang, Op: "put", Times: 1})
		done := make(chan error)
		go func() { done <- put(context.Background(), s, "k", "held", store.PutOptions{}) }()
		time.Sleep(2 * time.Minute)
		if read(t, inner, "k") != "absent" {
			t.Fatal("not held")
		}
		close(hold)
		if err := <-done; err != nil || read(t, inner, "k") != "held" {
			t.Fatal(err)
		}
		// The reply never comes; the store did it.
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := put(ctx, s, "k", "hung", store.PutOptions{}); !errors.Is(err, context.DeadlineExceeded) || read(t, inner, "k") != "hung" {
			t.Fatal(err)
		}
		// A wait ends with the caller's context, and nothing happened.
		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Add(fault.Rule{Kind: fault.Delay, Op: "delete", Delay: time.Hour})
		if err := s.Delete(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) || read(t, inner, "k") != "hung" {
			t.Fatal(err)
		}
	})
}
