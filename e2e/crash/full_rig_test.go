//go:build integration

package crash_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// ancient are keys with one record long before every window: only a base has
// their documents.
const ancient = 8

// full is a rig's options for a pipeline with a full index.
func full() options {
	return options{full: "{support_previous_for: 1h}", window: "{size: 10m}"}
}

// newFullRig is a rig whose source has the ancient keys.
func newFullRig(t *testing.T, p place, o options) *rig {
	t.Helper()
	r := newRig(t, p, o)
	var b []byte
	at := day.Add(-2 * time.Hour)
	for k := range ancient {
		b = fmt.Appendf(b, `{"k":"ancient-%02d","at":%q,"gen":0,"v":%d}`+"\n", k, at.Format(time.RFC3339Nano), k)
	}
	if err := r.put(t.Context(), "p", stage{partition: at}.key(), b); err != nil {
		t.Fatal(err)
	}
	return r
}

// pair says what is wrong with the documents of a pane over its base, or
// without one. Generations count from one and each is one object: a document
// of the newest generation has as many records, whatever the base has read.
func pair(ctx context.Context, s *reader.Snapshot) (n, gen int64, _ error) {
	young, old := 0, 0
	for doc, err := range s.All(ctx) {
		if err != nil {
			return 0, 0, err
		}
		var v [3]int64
		for i, name := range []string{"n", "gen", "recent"} {
			c, ok := doc.Column(name)
			if !ok || c.Null(doc.Row) {
				return 0, 0, fmt.Errorf("document %v has no %s", doc.Key(), name)
			}
			v[i] = c.Ints[doc.Row]
		}
		if strings.HasPrefix(doc.Key()[0], "ancient-") {
			if old++; v != [3]int64{1, 0, 0} {
				return 0, 0, fmt.Errorf("document %v has %d records, generation %d, %d of them recent", doc.Key(), v[0], v[1], v[2])
			}
			continue
		}
		if young++; young == 1 {
			n, gen = v[0], v[1]
		}
		if v[0] != n || v[1] != gen || v[2] != n || n != gen {
			return 0, 0, fmt.Errorf("document %v has %d records (%d of them recent) up to generation %d, the first %d up to %d", doc.Key(), v[0], v[2], v[1], n, gen)
		}
	}
	want := 0
	if s.BaseManifest != nil {
		want = ancient
	}
	if young != keys || old != want {
		return 0, 0, fmt.Errorf("%d documents and %d ancient ones, want %d and %d", young, old, keys, want)
	}
	return n, gen, nil
}

// with opens the state store for a moment.
func (r *rig) with(do func(ctx context.Context, st watermark.Store) error) {
	r.t.Helper()
	ctx := r.t.Context()
	st, err := r.state(ctx)
	if err == nil {
		err = do(ctx, st)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		r.t.Error(err)
	}
}

// newest is the rebuild that was asked for last.
func (r *rig) newest() (rb watermark.Rebuild) {
	r.t.Helper()
	r.with(func(ctx context.Context, st watermark.Store) error {
		all, err := st.Rebuilds(ctx, "p", 1, "")
		if err == nil && len(all) == 0 {
			err = watermark.ErrNotFound
		}
		if err == nil {
			rb = all[0]
		}
		return err
	})
	return rb
}

// ask queues a rebuild for whoever makes them, as the endpoint does.
func (r *rig) ask() (rb watermark.Rebuild) {
	r.t.Helper()
	r.with(func(ctx context.Context, st watermark.Store) (err error) {
		rb, err = st.CreateRebuild(ctx, watermark.Rebuild{ID: newID(), Pipeline: "p", Cause: watermark.RebuildManual, Actor: "test", Reason: "a rebuild that crashes"})
		return err
	})
	return rb
}

// rebuilt makes a rebuild without disturbance and returns it.
func (r *rig) rebuilt() watermark.Rebuild {
	r.t.Helper()
	r.led(nil, "rebuild", "--reason", "without disturbance")
	rb := r.newest()
	if rb.State != watermark.RebuildCandidate && rb.State != watermark.RebuildPromoted {
		r.t.Fatalf("the rebuild is %s: %s", rb.State, rb.Error)
	}
	return rb
}

// promoted makes the newest candidate the base, if it is not yet.
func (r *rig) promoted(want string) {
	r.t.Helper()
	if h := r.head("p"); h.Base == nil || h.Base.Generation != want {
		r.led(nil, "base", "promote")
	}
	r.overBase(want)
}

// overBase wants a base live, and as journalled.
func (r *rig) overBase(want string) {
	r.t.Helper()
	h := r.head("p")
	if h.Base == nil || h.Base.Generation != want {
		r.t.Fatalf("over %+v, want base %s", h.Base, want)
	}
	var rb watermark.Rebuild
	r.with(func(ctx context.Context, st watermark.Store) (err error) {
		rb, err = st.RebuildByID(ctx, want)
		return err
	})
	if rb.State != watermark.RebuildPromoted {
		r.t.Errorf("base %s is live and journalled as %s", want, rb.State)
	}
}

// pairSums are the hashes of the live files of a pane and of its base, private
// ones too.
func (r *rig) pairSums() string {
	r.t.Helper()
	out := r.sums("p")
	if b := r.head("p").Base; b != nil {
		var m sink.Manifest
		r.read(r.out("p"), b.Manifest, &m)
		for _, f := range m.Files {
			out += fmt.Sprintf(", base %d rows %s", f.Rows, f.SHA256)
		}
		for _, f := range m.StateFiles() {
			out += fmt.Sprintf(", private %d rows %s", f.Rows, f.SHA256)
		}
	}
	return out
}

// moves counts the panes of the line that a reason made, by generation.
func (r *rig) moves(reason sink.Reason) map[string]int {
	r.t.Helper()
	out := map[string]int{}
	for _, m := range r.history("p") {
		if m.Reason == reason && m.Base != nil {
			out[m.Base.Generation]++
		}
	}
	return out
}

// generations are the ids with data under full/ or state/full/. Manifests stay
// for a week, as records.
func (r *rig) generations() (ids []string) {
	r.t.Helper()
	for _, prefix := range []string{"full/", "state/full/"} {
		for page, err := range store.Pages(r.t.Context(), r.out("p"), store.ListOptions{Prefix: prefix}) {
			if err != nil {
				r.t.Fatal(err)
			}
			for _, o := range page.Objects {
				id, name, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
				if !strings.HasPrefix(name, "manifest.") {
					ids = append(ids, id)
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// pinned wants no pins.
func pinned(t *testing.T) func(context.Context, watermark.Store) error {
	return func(ctx context.Context, st watermark.Store) error {
		pins, err := st.Pins(ctx, "p")
		if len(pins) > 0 {
			t.Errorf("still pinned: %+v", pins)
		}
		return err
	}
}

// applied wants n rollbacks in a line applied, none open, and a base barred.
func applied(t *testing.T, line []sink.Manifest, n int, barred string) func(context.Context, watermark.Store) error {
	return func(ctx context.Context, st watermark.Store) error {
		pending, err := st.PendingIntents(ctx, "p")
		if err != nil {
			return err
		}
		done := 0
		for _, m := range line {
			if m.Reason != sink.Rollback {
				continue
			}
			in, err := st.IntentByID(ctx, m.RunID)
			if err != nil || in.State != watermark.IntentApplied {
				t.Errorf("rollback %s is in the line, its intent is %+v (%v)", m.RunID, in, err)
			}
			done++
		}
		bars, err := st.Bars(ctx, "p")
		if len(pending) > 0 || done != n || len(bars) != 1 || bars[0].Generation != barred {
			t.Errorf("%d rollbacks are open and %d applied, want %d; barred %+v, want %s", len(pending), done, n, bars, barred)
		}
		return err
	}
}

// dataID is the run whose data the live pane is made of.
func (r *rig) dataID() string {
	r.t.Helper()
	return strings.Split(r.manifest("p").DataFiles()[0].Key, "/")[1]
}

// age makes everything in the output older.
func (r *rig) age(by time.Duration) {
	r.t.Helper()
	then := time.Now().Add(-by)
	err := filepath.WalkDir(filepath.Join(r.dir, "out"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chtimes(path, then, then)
	})
	if err != nil {
		r.t.Fatal(err)
	}
}
