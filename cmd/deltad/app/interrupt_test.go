package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/watermark"
)

// TestRebuildInterrupted: Ctrl-C calls off the rebuild of this command, and only
// that; a command that waits for somebody else's leaves it going on.
func TestRebuildInterrupted(t *testing.T) {
	raw := fault.New(mem.New("in"))
	key := time.Now().UTC().Add(-time.Minute).Format("2006/01/02/15/04") + "/a.ndjson"
	if _, err := raw.Put(t.Context(), key, strings.NewReader(`{"k":"a"}`+"\n"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
state: {url: "sqlite://%s/state.db"}
pipelines:
  p:
    source: {url: "file:///in", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    window: {size: 10m}
    index: {key: [k], fields: {n: {count: "*", over: all}}}
    full: {}
    output: {url: "file:///out"}
`, t.TempDir())
	cfg, err := configs.Read(strings.NewReader(text), "test.yaml", func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	cfg.Pipelines[0].Source.URL, cfg.Pipelines[0].Output.URL = "mem://in", "mem://out"
	a, err := daemon.Open(t.Context(), cfg, daemon.Options{Mem: map[string]store.Store{"in": raw, "out": mem.New("out")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	if r := a.Pipes[0].Pipeline().Once(t.Context(), time.Now(), microbatch.StepOptions{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	gate, reached := make(chan struct{}), make(chan struct{}, 10)
	raw.Add(fault.Rule{Kind: fault.Delay, Op: "get", Hold: gate, OnHit: func() { reached <- struct{}{} }})
	defer close(gate)

	start := func(ctx context.Context, o rebuildFlags) func() (rebuildLine, error) {
		var out bytes.Buffer
		c := &cli{out: &out, errs: &bytes.Buffer{}, output: "json"}
		done := make(chan error, 1)
		go func() { done <- c.rebuild(ctx, control.Of(a, a.Pipes[0]), time.Time{}, o) }()
		return func() (rebuildLine, error) {
			var line rebuildLine
			err := <-done
			if out.Len() > 0 {
				if jerr := json.Unmarshal(out.Bytes(), &line); jerr != nil {
					t.Fatal(jerr)
				}
			}
			return line, err
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	first := start(ctx, rebuildFlags{})
	<-reached
	follower, leave := context.WithCancel(t.Context())
	waits := start(follower, rebuildFlags{wait: true})
	time.AfterFunc(100*time.Millisecond, leave)
	if _, err := waits(); err == nil || !strings.Contains(err.Error(), "which goes on") {
		t.Errorf("who waited and was interrupted: %v", err)
	}
	rb, err := a.State.OpenRebuild(t.Context(), "p")
	if err != nil || rb.CancelRequested {
		t.Fatalf("it called the other's rebuild off: %+v (%v)", rb, err)
	}
	interrupt()
	line, err := first()
	var coded *exitError
	if line.State != string(watermark.RebuildCancelled) || line.ID != rb.ID || !errors.As(err, &coded) || coded.code != exitFailed {
		t.Errorf("interrupted: %+v (%v)", line, err)
	}
	if l, err := a.State.LeaseStatus(t.Context(), "p", watermark.RoleFull); err != nil || l.Live {
		t.Errorf("the lease is kept: %+v (%v)", l, err)
	}
}

func TestLineOfProgress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		p    watermark.RebuildProgress
		want string
	}{
		{"queued", watermark.RebuildProgress{}, "[                              ]   0 %  waiting  0 rows  1m5s"},
		{"reading", watermark.RebuildProgress{Phase: "read", Done: 50, Total: 100, Rows: 7}, "[===========                   ]  38 %  read 50/100  7 rows  1m5s"},
		{"at the gate", watermark.RebuildProgress{Phase: "gate"}, "[============================  ]  95 %  gate  0 rows  1m5s"},
		{"more done than there was", watermark.RebuildProgress{Phase: "documents", Done: 9, Total: 3}, "[============================  ]  95 %  documents 9/3  0 rows  1m5s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := lineOfProgress(c.p, 65*time.Second); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	b := newBar(&bytes.Buffer{})
	b.show(watermark.RebuildProgress{Phase: "read"})
	b.end()
	if b.shown != 0 {
		t.Error("a bar is drawn where there is no terminal")
	}
}
