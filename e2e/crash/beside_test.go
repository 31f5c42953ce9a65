//go:build integration

package crash_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/faults/s3proxy"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// through is the same installation as r for processes that reach its S3 server
// through a proxy, with an endpoint of their own if listen is not empty.
func (r *rig) through(endpoint, listen string) *rig {
	r.t.Helper()
	text, err := os.ReadFile(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	if endpoint != "" {
		text = bytes.ReplaceAll(text, []byte(r.place.server), []byte(endpoint))
	}
	text = bytes.Replace(text, []byte(`admin: {listen: ""}`), fmt.Appendf(nil, "admin: {listen: %q}", listen), 1)
	other := *r
	other.config = fmt.Sprintf("%s.%d", r.config, serial.Add(1))
	if err := os.WriteFile(other.config, text, 0o600); err != nil {
		r.t.Fatal(err)
	}
	return &other
}

func proxy(t *testing.T, target string) *s3proxy.Proxy {
	t.Helper()
	p, err := s3proxy.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestB38RebuildBesideDeltas: while a slow rebuild goes on, panes come every
// second. The base is as of its cut and has everything up to it; the panes over
// it cover from there.
func TestB38RebuildBesideDeltas(t *testing.T) {
	t.Parallel()
	o := full()
	o.window = "{size: 30m}"
	r := newFullRig(t, placeOf(t, "versitygw"), o)
	px := proxy(t, r.place.server)
	px.Add(s3proxy.Rule{Match: func(q s3proxy.Request) bool { return q.Op == s3proxy.Get && strings.Contains(q.Key, "/in/") }, Fault: s3proxy.Delayed(time.Second)})
	w := r.watch("p")
	deltas, rebuilds := r.start(first, nil, "--role", "delta"), r.through(px.URL, "").start(first, nil, "--role", "full")
	load := r.produce("p")
	await(t, 60*time.Second, "twenty partitions", func() bool { last, ok := w.last(); return ok && last.n >= 20 })
	for range 3 {
		id := r.ask().ID
		var rb watermark.Rebuild
		await(t, 120*time.Second, "the base is live", func() bool { rb = r.newest(); return rb.State == watermark.RebuildPromoted })
		panes := 0
		for _, s := range w.since(rb.StartedAt) {
			if s.at.Before(rb.FinishedAt) && s.Reason == "publish" {
				panes++
			}
		}
		if rb.ID != id || panes < 3 {
			t.Errorf("%d panes came while rebuild %s (of %s) went on from %s to %s", panes, rb.ID, id, rb.StartedAt, rb.FinishedAt)
		}
		var m sink.Manifest
		r.read(r.out("p"), rb.Manifest.Key, &m)
		if want := int(m.Cut.Sub(day)/time.Second) + 2; len(m.Inputs) != want || m.Cut.After(r.head("p").Watermark.Time) {
			t.Errorf("the base cut at %s has read %d objects, want %d: all up to there", m.Cut, len(m.Inputs), want)
		}
	}
	load.stop()
	r.caughtUp(w, load.count())
	deltas.stop()
	rebuilds.stop()
	over := 0
	for _, m := range r.history("p") {
		if m.Base == nil {
			continue
		}
		over++
		if limit := m.Base.Cut.Add(-10 * time.Minute); m.Coverage.From.After(limit) {
			t.Errorf("a pane at %s over a base cut at %s covers from %s, want at least from %s", m.Watermark, m.Base.Cut, m.Coverage.From, limit)
		}
	}
	t.Logf("%d partitions, %d panes over a base, %d states seen", load.count(), over, w.loads())
}

// TestB38FailedPromotion: a promotion whose change of CURRENT is refused leaves
// the candidate pending and the readers where they are; it is tried again until
// it comes about, once.
func TestB38FailedPromotion(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"versitygw", "seaweedfs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFullRig(t, placeOf(t, name), full())
			px := proxy(t, r.place.server)
			var mu sync.Mutex
			refused := 0
			px.Add(s3proxy.Rule{
				Match: func(q s3proxy.Request) bool {
					return q.Op == s3proxy.Put && strings.HasSuffix(q.Key, "/CURRENT") && strings.Contains(string(q.Body), `"reason":"promote"`)
				},
				Fault: s3proxy.Fault{Name: "refused", Do: func(c *s3proxy.Call) {
					mu.Lock()
					refused++
					mu.Unlock()
					c.Refuse(http.StatusServiceUnavailable, "SlowDown", "injected")
				}},
			})
			w := r.watch("p")
			r.drop(generation(1))
			r.live(w, "once", generation(1))
			d := r.through(px.URL, "").start(first, nil)
			id := r.ask().ID
			await(t, 60*time.Second, "three runs whose promotion is refused", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return refused >= 3 && len(d.said("run failed")) >= 3
			})
			if rb := r.newest(); rb.ID != id || rb.State != watermark.RebuildCandidate {
				t.Errorf("rebuild %s is %s while its promotion fails", rb.ID, rb.State)
			}
			if h := r.head("p"); h.Base != nil {
				t.Errorf("over %+v", h.Base)
			}
			px.Clear()
			await(t, 60*time.Second, "the promotion", func() bool { return r.newest().State == watermark.RebuildPromoted })
			r.drop(generation(2))
			await(t, 60*time.Second, "a pane over the base", func() bool { last, _ := w.last(); return last.gen == 2 && last.Base != nil })
			d.stop()
			r.overBase(id)
			if n := r.moves(sink.Promote); n[id] != 1 {
				t.Errorf("promotions by base: %v", n)
			}
			r.oneLine(r.history("p"))
		})
	}
}

// TestTwoRebuildRequests: of requests at the same time, to two daemons on one
// Postgres, one is queued and runs; the others get its id.
func TestTwoRebuildRequests(t *testing.T) {
	t.Parallel()
	r := newFullRig(t, placeOf(t, "versitygw"), full())
	w := r.watch("p")
	r.drop(generation(1))
	r.live(w, "once", generation(1))
	px := proxy(t, r.place.server)
	px.Add(s3proxy.Rule{Match: func(q s3proxy.Request) bool { return q.Op == s3proxy.Get && strings.Contains(q.Key, "/in/") }, Fault: s3proxy.Delayed(3 * time.Second)})
	var listen []string
	var ds []*daemon
	for range 2 {
		listen = append(listen, free(t))
		ds = append(ds, r.through(px.URL, listen[len(listen)-1]).start(first, nil))
	}
	for _, d := range ds {
		await(t, 30*time.Second, "both daemons are up", func() bool { return len(d.said("started")) > 0 })
	}
	for round := range 3 {
		type answer struct {
			code int
			id   string
		}
		answers := make(chan answer)
		for i := range 6 {
			go func() {
				code, id := post(t, listen[i%2])
				answers <- answer{code, id}
			}()
		}
		codes, ids := map[int]int{}, map[string]int{}
		for range 6 {
			a := <-answers
			codes[a.code]++
			ids[a.id]++
		}
		id := r.newest().ID
		if codes[http.StatusAccepted] != 1 || codes[http.StatusConflict] != 5 || ids[id] != 6 {
			t.Errorf("round %d: answers %v with ids %v, want one accepted and five refused with its id %s", round, codes, ids, id)
		}
		await(t, 60*time.Second, "it becomes the base", func() bool { rb := r.newest(); return rb.ID == id && rb.State == watermark.RebuildPromoted })
	}
	for _, d := range ds {
		d.stop()
	}
	if n := r.moves(sink.Promote); len(n) != 3 {
		t.Errorf("promotions by base: %v", n)
	}
	r.with(func(ctx context.Context, st watermark.Store) error {
		all, err := st.Rebuilds(ctx, "p", 10, "")
		if len(all) != 3 {
			t.Errorf("%d rebuilds in the journal, want 3", len(all))
		}
		return err
	})
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// post asks a daemon for a rebuild.
func post(t *testing.T, listen string) (code int, id string) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listen+"/api/v1/pipelines/p/rebuilds", strings.NewReader(`{"reason":"asked for by many at once"}`))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	var v struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil {
		t.Error(err)
	}
	return res.StatusCode, v.ID
}
