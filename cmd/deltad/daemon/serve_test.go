package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/store/mem"
)

// prepared is a daemon on SQLite whose pipelines write to the named stores.
func prepared(t *testing.T, outputs map[string]store.Store) *daemon.App {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "state: {url: \"sqlite://%[1]s/state.db\"}\npipelines:\n", t.TempDir())
	stores := map[string]store.Store{}
	for name, out := range outputs {
		fmt.Fprintf(&b, `
  %[1]s:
    source: {url: "file:///in/%[1]s", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    window: {size: 10m}
    index: {key: [k], fields: {n: {count: "*", over: 10m}}}
    output: {url: "file:///out/%[1]s"}
`, name)
		stores["in-"+name], stores["out-"+name] = mem.New("in-"+name), out
	}
	c, err := configs.Read(strings.NewReader(b.String()), "test.yaml", func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.Pipelines {
		p.Source.URL, p.Output.URL = "mem://in-"+p.Name, "mem://out-"+p.Name
	}
	a, err := daemon.Prepare(t.Context(), c, daemon.Options{Mem: stores, LeaseTTL: 5 * time.Second, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestOneBrokenOutputHoldsNoOtherUp: while outputs are denied, away or cannot
// be published to, the other pipeline takes its steps; what is mended starts.
func TestOneBrokenOutputHoldsNoOtherUp(t *testing.T) {
	t.Parallel()
	denied := fault.New(mem.New("out-denied"))
	denied.Add(fault.Rule{Op: "put", Err: store.ErrDenied})
	away := fault.New(mem.New("out-away"))
	away.Add(fault.Rule{})
	unconditional := fault.New(mem.New("out-refused"))
	unconditional.Add(fault.Rule{Op: "put", Err: fmt.Errorf("put: %w", store.ErrUnsupported)})
	a := prepared(t, map[string]store.Store{"well": mem.New("out-well"), "denied": denied, "away": away, "refused": unconditional})
	for _, p := range a.Pipes {
		if s, ok := a.Standing(p.Config.Name); !ok || s.Waiting != daemon.StateStore || s.Err != nil {
			t.Errorf("before anything was asked %s has %+v", p.Config.Name, s)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx) }()
	stepped := func(name string) func() bool {
		return func() bool { _, ok := a.Metrics.Last(name); return ok }
	}
	until(t, "the one that is well takes a step", stepped("well"))
	until(t, "all broken ones were tried", func() bool {
		d, _ := a.Standing("denied")
		w, _ := a.Standing("away")
		r, _ := a.Standing("refused")
		return d.Err != nil && w.Err != nil && r.Err != nil
	})
	for name, want := range map[string]struct {
		err     error
		refused bool
	}{"denied": {store.ErrDenied, false}, "away": {store.ErrUnavailable, false}, "refused": {store.ErrUnconditional, true}} {
		s, ok := a.Standing(name)
		if !ok || s.Waiting != daemon.Output || !errors.Is(s.Err, want.err) || s.Refused != want.refused || !strings.Contains(s.Err.Error(), "pipelines."+name+".output.url") {
			t.Errorf("%s: %+v", name, s)
		}
		if stepped(name)() {
			t.Errorf("%s took a step", name)
		}
	}
	denied.Heal()
	away.Heal()
	until(t, "the mended ones take a step", func() bool { return stepped("denied")() && stepped("away")() })
	if s, ok := a.Standing("denied"); ok {
		t.Errorf("mended, and still %+v", s)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("Serve ended with %v", err)
	}
}

// TestNothingLeftToServe: refusals end the daemon only where every pipeline
// is refused.
func TestNothingLeftToServe(t *testing.T) {
	t.Parallel()
	refuse := func(name string) store.Store {
		f := fault.New(mem.New(name))
		f.Add(fault.Rule{Op: "put", Err: fmt.Errorf("put: %w", store.ErrUnsupported)})
		return f
	}
	a := prepared(t, map[string]store.Store{"a": refuse("a"), "b": refuse("b")})
	if err := a.Serve(t.Context()); !errors.Is(err, store.ErrUnconditional) || !strings.Contains(err.Error(), "pipelines.a.") || !strings.Contains(err.Error(), "pipelines.b.") {
		t.Errorf("Serve ended with %v", err)
	}
}
