package daemon

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

// deaf is a store that ignores the conditions of puts.
type deaf struct{ store.Store }

func (d deaf) Put(ctx context.Context, key string, body io.ReadSeeker, o store.PutOptions) (string, error) {
	o.IfMatch, o.IfNoneMatch = "", false
	return d.Store.Put(ctx, key, body, o)
}

// TestS13SingleStepsAreRefusedToo: a store that ignores conditions is refused
// where a daemon starts, and so it is by a step that no daemon takes, before
// anything is published there.
func TestS13SingleStepsAreRefusedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := mem.New("out")
	w.stores["out"] = deaf{out}
	w.put(0)
	a := w.open(w.file("", "{}"), Options{Instance: "a"})
	for range 2 {
		r := a.Pipes[0].Pipeline().Once(t.Context(), time.Now(), microbatch.StepOptions{Retry: true})
		if r.Outcome != microbatch.Failed || !errors.Is(r.Err, store.ErrUnconditional) {
			t.Errorf("outcome %s, error %v, want it refused", r.Outcome, r.Err)
		}
	}
	page, err := out.List(t.Context(), store.ListOptions{})
	if err != nil || len(page.Objects) > 0 {
		t.Errorf("it left %v, %v", page.Objects, err)
	}
	w.stores["out"] = out
	b := w.open(w.file("", "{}"), Options{Instance: "b"})
	if r := b.Pipes[0].Pipeline().Once(t.Context(), time.Now(), microbatch.StepOptions{}); r.Outcome != microbatch.Advanced {
		t.Errorf("outcome %s, error %v, of one that honours them", r.Outcome, r.Err)
	}
}
