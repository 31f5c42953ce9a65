//go:build integration

package crash_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
)

// Every object that tests drop has one record of each of these keys, and all
// of the same generation: a pane that is not whole shows in its documents.
const keys = 16

// drop is such an object.
func drop(partition time.Time, gen int) []byte {
	var b []byte
	for k := range keys {
		b = fmt.Appendf(b, `{"k":"key-%02d","at":%q,"gen":%d,"v":%d}`+"\n", k, partition.Add(time.Duration(gen)*time.Millisecond).Format(time.RFC3339Nano), gen, gen+k)
	}
	return b
}

// whole says what is wrong with the documents of a pane.
func whole(ctx context.Context, s *reader.Snapshot) (n, gen int64, _ error) {
	count := 0
	for doc, err := range s.All(ctx) {
		if err != nil {
			return 0, 0, err
		}
		cn, ok1 := doc.Column("n")
		cg, ok2 := doc.Column("gen")
		if !ok1 || !ok2 {
			return 0, 0, fmt.Errorf("document %v has no n or gen", doc.Key())
		}
		dn, dg := cn.Ints[doc.Row], cg.Ints[doc.Row]
		if count == 0 {
			n, gen = dn, dg
		}
		if dn != n || dg != gen {
			return 0, 0, fmt.Errorf("documents of one pane differ: %d records of generation %d and %d of %d", n, gen, dn, dg)
		}
		count++
	}
	if count != keys {
		return 0, 0, fmt.Errorf("%d documents, want %d", count, keys)
	}
	return n, gen, nil
}

// seen is one state of CURRENT as the watcher found it.
type seen struct {
	at time.Time
	sink.Current
	n, gen int64
}

// watcher is the strict reader.
type watcher struct {
	t     *testing.T
	stop  func()
	check func(context.Context, *reader.Snapshot) (n, gen int64, err error)
	back  bool // a rollback may show what was there before

	mu struct {
		sync.Mutex
		states []seen
		loads  int
		errs   []error
	}
}

// watch follows a pipeline's output until stop or the end of the test.
func (r *rig) watch(pipeline string) *watcher {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{t: r.t, check: whole}
	if r.o.full != "" {
		w.check, w.back = pair, true
	}
	done := make(chan struct{})
	var once sync.Once
	w.stop = func() { once.Do(func() { cancel(); <-done }) }
	rd := reader.Open(r.out(pipeline), reader.Options{})
	every := 20 * time.Millisecond
	if r.place.server == "" {
		every = 5 * time.Millisecond
	}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			changed, err := rd.Poll(ctx)
			switch {
			case err != nil && !errors.Is(err, reader.ErrNoIndex) && ctx.Err() == nil:
				w.complain(err)
			case changed && ctx.Err() == nil:
				w.take(ctx, rd.Snapshot())
			}
			time.Sleep(every)
		}
	}()
	r.t.Cleanup(func() {
		w.stop()
		w.verdict()
	})
	return w
}

func (w *watcher) complain(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.errs = append(w.mu.errs, err)
}

func (w *watcher) take(ctx context.Context, s *reader.Snapshot) {
	now := time.Now()
	n, gen, err := w.check(ctx, s)
	if err != nil {
		if ctx.Err() == nil {
			w.complain(fmt.Errorf("version %d: %w", s.Current.Version, err))
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.loads++
	next := seen{now, s.Current, n, gen}
	if i := len(w.mu.states); i > 0 {
		if err := follows(w.mu.states[i-1], next, w.back); err != nil {
			w.mu.errs = append(w.mu.errs, err)
		}
	}
	w.mu.states = append(w.mu.states, next)
}

// follows says what is wrong with one state of CURRENT after another.
func follows(a, b seen, back bool) error {
	switch {
	case b.Version <= a.Version:
		return fmt.Errorf("version %d (%s) after %d (%s)", b.Version, b.ChangeID, a.Version, a.ChangeID)
	case b.Owner.Epoch < a.Owner.Epoch:
		return fmt.Errorf("version %d is of epoch %d, version %d before it of %d", b.Version, b.Owner.Epoch, a.Version, a.Owner.Epoch)
	case b.Owner.Epoch == a.Owner.Epoch && b.Owner.Nonce != a.Owner.Nonce:
		return fmt.Errorf("versions %d and %d are of one epoch and two leaders", a.Version, b.Version)
	case b.gen < a.gen && !(back && (b.Reason == "rollback" || b.Reason == "claim")):
		return fmt.Errorf("version %d shows generation %d, version %d before it %d", b.Version, b.gen, a.Version, a.gen)
	}
	return nil
}

// last is the newest state, if there is one.
func (w *watcher) last() (seen, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.mu.states) == 0 {
		return seen{}, false
	}
	return w.mu.states[len(w.mu.states)-1], true
}

// since are the states found after a time.
func (w *watcher) since(t time.Time) []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []seen
	for _, s := range w.mu.states {
		if s.at.After(t) {
			out = append(out, s)
		}
	}
	return out
}

func (w *watcher) loads() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.loads
}

func (w *watcher) verdict() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, err := range w.mu.errs {
		if i == 5 {
			w.t.Errorf("the reader has %d more complaints", len(w.mu.errs)-i)
			break
		}
		w.t.Errorf("the reader: %v", err)
	}
	if len(w.mu.states) == 0 {
		w.t.Error("the reader has seen no pane")
	}
}

// history is the chain of manifests from CURRENT back to the first, newest
// first, each of a lower version and of no higher epoch than the one after it.
func (r *rig) history(pipeline string) []sink.Manifest {
	r.t.Helper()
	var out []sink.Manifest
	st := r.out(pipeline)
	h := r.head(pipeline)
	version, epoch := h.Version+1, h.Owner.Epoch
	for key := h.Delta.Manifest; ; {
		var m sink.Manifest
		r.read(st, key, &m)
		if m.Version >= version || m.Writer.Epoch > epoch {
			r.t.Errorf("manifest %s has version %d and epoch %d, the one after it %d and %d", key, m.Version, m.Writer.Epoch, version, epoch)
		}
		version, epoch = m.Version, m.Writer.Epoch
		out = append(out, m)
		if m.Parent == nil {
			return out
		}
		key = m.Parent.Manifest
	}
}
