package sinktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// Watcher is a store that an output is written through and that knows the invariants of package sink. It never refuses anything: what
// was broken is in Broken. It belongs directly over the store, below any fault injection, so that it sees what was applied and when.
type Watcher struct {
	store.Store

	mu struct {
		sync.Mutex
		last    sink.Head
		changes map[string]bool
		ids     map[string]bool // ids that were condemned and are so no more
		history []sink.Current
		broken  []string
	}
}

// Watch returns a watcher over a store rooted at an output.
func Watch(st store.Store) *Watcher {
	w := &Watcher{Store: st}
	w.mu.changes, w.mu.ids = map[string]bool{}, map[string]bool{}
	return w
}

// Broken says what was broken, in order.
func (w *Watcher) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.mu.broken...)
}

// History is every CURRENT there was, in order.
func (w *Watcher) History() []sink.Current {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]sink.Current(nil), w.mu.history...)
}

// Put passes on and checks what came of it.
func (w *Watcher) Put(ctx context.Context, key string, body io.ReadSeeker, o store.PutOptions) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key != sink.CurrentKey && !o.IfNoneMatch {
		w.broke("%s was put without a condition", key)
	}
	if key == sink.CurrentKey && (!o.Conditional() || !o.Unretried) {
		w.broke("CURRENT was put without a condition or with retries")
	}
	etag, err := w.Store.Put(ctx, key, body, o)
	if err == nil && key == sink.CurrentKey {
		w.changed(ctx)
	}
	return etag, err
}

// Delete checks and passes on.
func (w *Watcher) Delete(ctx context.Context, key string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key == sink.CurrentKey {
		w.broke("CURRENT was deleted")
	}
	if d := w.mu.last.Delta; d != nil {
		m, err := sink.ReadManifest(ctx, w.Store, d.Ref())
		if err != nil {
			w.broke("before deleting %s: %v", key, err)
		}
		if key == d.Manifest {
			w.broke("%s was deleted, which CURRENT names", key)
		}
		for _, f := range m.DataFiles() {
			if f.Key == key {
				w.broke("%s was deleted, which the pane is made of", key)
			}
		}
		for _, f := range m.UnreadSlices {
			if f.Key == key {
				w.broke("%s was deleted, which the pane lists as unread", key)
			}
		}
		bases := map[string]bool{}
		if m.Base != nil {
			bases[m.Base.Generation] = true
		}
		for _, s := range m.Supports {
			bases[s.Generation] = true
		}
		for id := range bases {
			if strings.HasPrefix(key, sink.FullKey(id, "")) || strings.HasPrefix(key, sink.FullStateKey(id, "")) {
				w.broke("%s was deleted, which belongs to a base of the pane", key)
			}
		}
	}
	return w.Store.Delete(ctx, key)
}

// changed runs under the lock after CURRENT was replaced.
func (w *Watcher) changed(ctx context.Context) {
	now, err := sink.ReadHead(ctx, w.Store, "")
	if err != nil {
		w.broke("%v", err)
		return
	}
	last := w.mu.last
	w.mu.last, w.mu.history = now, append(w.mu.history, now.Current)
	if w.mu.changes[now.ChangeID] {
		w.broke("version %d: change id %s was used before", now.Version, now.ChangeID)
	}
	w.mu.changes[now.ChangeID] = true
	if now.Version != last.Version+1 && now.Reason != sink.Recover {
		w.broke("version %d follows %d", now.Version, last.Version)
	}
	if a, b := last.Owner, now.Owner; last.Exists && (a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Nonce != b.Nonce) {
		w.broke("version %d: epoch %d wrote over epoch %d", now.Version, now.Owner.Epoch, last.Owner.Epoch)
	}
	if last.Exists && !last.Owner.Same(now.Owner) && now.Reason != sink.Claim && now.Reason != sink.Adopt && now.Reason != sink.Recover {
		w.broke("version %d: epoch %d wrote without a claim", now.Version, now.Owner.Epoch)
	}
	before := last.Current
	if now.Reason == sink.Recover {
		before = sink.Current{} // it was lost
	}
	if err := sink.Transition(before, now.Current); err != nil {
		w.broke("version %d: %v", now.Version, err)
	}
	for _, id := range last.Condemned {
		if !now.Condemns(id) {
			w.mu.ids[id] = true
		}
	}
	if now.Delta == nil {
		return
	}
	if err := Whole(ctx, w.Store, now.Delta.Ref(), func(id string) bool { return now.Condemns(id) || w.mu.ids[id] }); err != nil {
		w.broke("version %d: %v", now.Version, err)
	}
}

func (w *Watcher) broke(format string, args ...any) {
	w.mu.broken = append(w.mu.broken, fmt.Sprintf(format, args...))
}

// Whole checks that a manifest, its base where it has one, and all their files are there and have their hashes, and that none belongs to an
// id that is condemned.
func Whole(ctx context.Context, st store.Store, ref sink.Ref, condemned func(id string) bool) error {
	m, err := sink.ReadManifest(ctx, st, ref)
	if err != nil {
		return err
	}
	var errs []error
	if b := m.Base; b != nil {
		errs = append(errs, Whole(ctx, st, sink.Ref{Manifest: b.Manifest, SHA256: b.SHA256}, condemned))
		if condemned(b.Generation) {
			errs = append(errs, fmt.Errorf("%s has base %s, which is or was condemned", ref.Manifest, b.Generation))
		}
	}
	check := func(key, hash string, size int64) {
		b, _, err := store.ReadAll(ctx, st, key, size, store.GetOptions{})
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s names %s: %w", ref.Manifest, key, err))
		case sink.Sum(b) != hash:
			errs = append(errs, fmt.Errorf("%s names %s, which has another hash", ref.Manifest, key))
		}
	}
	for _, f := range m.DataFiles() {
		check(f.Key, f.SHA256, f.Bytes)
	}
	for _, f := range m.StateFiles() {
		check(f.Key, f.SHA256, f.Bytes)
	}
	for _, id := range m.DataIDs() {
		if condemned(id) {
			errs = append(errs, fmt.Errorf("%s is made of %s, which is or was condemned", ref.Manifest, id))
		}
	}
	return errors.Join(errs...)
}

// Keys lists an output below a prefix.
func Keys(ctx context.Context, st store.Store, prefix string) ([]string, error) {
	var keys []string
	for p, err := range store.Pages(ctx, st, store.ListOptions{Prefix: prefix}) {
		if err != nil {
			return nil, err
		}
		for _, o := range p.Objects {
			keys = append(keys, strings.TrimPrefix(o.Key, prefix))
		}
	}
	return keys, nil
}
