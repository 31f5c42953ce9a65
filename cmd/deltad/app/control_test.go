package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/app"
)

// rig is a configuration in a directory of its own, worked on by command
// lines.
type rig struct {
	t      *testing.T
	dir    string
	base   time.Time
	listen string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), base: time.Now().UTC().Truncate(time.Minute).Add(-40 * time.Minute)}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.listen = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
admin: {listen: %[2]q}
pipelines:
  ads:
    source: {url: "file://%[1]s/raw", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    trigger: {every: 1h}
    window: {size: 10m}
    index: {key: [item], fields: {clicks: {sum: clicks, over: 10m}}}
    output: {url: "file://%[1]s/out"}
`, r.dir, r.listen)
	if err := os.WriteFile(filepath.Join(r.dir, "deltad.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) minute(n int) string {
	return r.base.Add(time.Duration(n) * time.Minute).Format(time.RFC3339)
}

func (r *rig) put(minutes ...int) {
	r.t.Helper()
	for _, n := range minutes {
		dir := filepath.Join(r.dir, "raw", r.base.Add(time.Duration(n)*time.Minute).Format("2006/01/02/15/04"))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.ndjson"), fmt.Appendf(nil, `{"item":"i%d","clicks":1}`+"\n", n), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// do runs one command line and wants an exit code; with -o json it decodes
// what stdout has.
func (r *rig) do(want int, args ...string) (out map[string]any, stdout, stderr string) {
	r.t.Helper()
	var o, e bytes.Buffer
	code := app.Run(r.t.Context(), app.Options{Args: append(args, "-c", filepath.Join(r.dir, "deltad.yaml"), "--log-level", "error"), Stdout: &o, Stderr: &e})
	if code != want {
		r.t.Fatalf("deltad %s: exit %d, want %d\n%s%s", strings.Join(args, " "), code, want, &o, &e)
	}
	if strings.Contains(strings.Join(args, " "), "-o json") && o.Len() > 0 {
		if err := json.Unmarshal(o.Bytes(), &out); err != nil {
			r.t.Fatalf("deltad %s: %v: %s", strings.Join(args, " "), err, &o)
		}
	}
	return out, o.String(), e.String()
}

// daemon runs `deltad run` until the test ends, and waits for its first step.
func (r *rig) daemon(more ...string) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan int, 1)
	go func() {
		done <- app.Run(ctx, app.Options{
			Args: append([]string{"run", "-c", filepath.Join(r.dir, "deltad.yaml"), "--log-level", "error"}, more...), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{},
		})
	}()
	r.t.Cleanup(func() {
		cancel()
		if code := <-done; code != 0 {
			r.t.Errorf("deltad run: exit %d", code)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if v := r.get("/api/v1/pipelines/ads"); v["watermark"] != nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatal("the daemon published nothing")
		}
	}
}

// get asks the daemon's endpoint; nil where it does not answer.
func (r *rig) get(path string) map[string]any {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.listen+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	var v map[string]any
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil {
		r.t.Fatal(err)
	}
	return v
}

// resetByHand is the flow of a reset by command lines, with and without a
// living leader.
func resetByHand(t *testing.T, r *rig) {
	t.Helper()
	reset := []string{"watermark", "reset", "-o", "json", "--to", r.minute(1)}
	with := func(more ...string) []string { return append(append([]string{}, reset...), more...) }
	if _, _, e := r.do(1, with("--reason", "the producer wrote nonsense")...); !strings.Contains(e, "not paused") {
		t.Errorf("while not paused: %s", e)
	}
	if v, _, _ := r.do(0, "pause", "--reason", "a look at the data", "-o", "json"); v["paused"] != true {
		t.Errorf("pause: %v", v)
	}
	if _, _, e := r.do(2, with()...); !strings.Contains(e, "--reason") {
		t.Errorf("without a reason: %s", e)
	}
	dry, _, _ := r.do(0, with("--dry-run")...)
	plan := dry["plan"].(map[string]any)
	if dry["intent"] != nil || plan["to"] != r.minute(1) || plan["from"] != r.minute(3) {
		t.Errorf("dry run: %v", dry)
	}
	if _, _, e := r.do(1, with("--reason", "the producer wrote nonsense", "--digest", strings.Repeat("0", 64))...); !strings.Contains(e, "plan") {
		t.Errorf("with another digest: %s", e)
	}
	done, _, _ := r.do(0, with("--reason", "the producer wrote nonsense", "--digest", plan["digest"].(string))...)
	if done["intent"].(map[string]any)["state"] != "applied" {
		t.Errorf("reset: %v", done)
	}
	show, _, _ := r.do(0, "watermark", "show", "-o", "json")
	if show["progress"] != r.minute(1) || show["watermark"] != r.minute(3) || show["paused"] != true {
		t.Errorf("after it: %v", show)
	}
	if v, _, _ := r.do(1, "trigger", "-o", "json"); v["outcome"] != "held" {
		t.Errorf("trigger while paused: %v", v)
	}
	r.do(0, "resume", "--reason", "all is well")
	r.put(4)
	if v, _, _ := r.do(0, "trigger", "-o", "json"); v["outcome"] != "advanced" && v["outcome"] != "idle" {
		t.Errorf("trigger: %v", v)
	}
	if show, _, _ = r.do(0, "watermark", "show", "-o", "json"); show["progress"] != r.minute(4) {
		t.Errorf("in the end: %v", show)
	}
}

func TestResetWithoutALeader(t *testing.T) {
	r := newRig(t)
	r.put(0, 1, 2, 3)
	r.do(0, "run", "--once")
	resetByHand(t, r)
}

func TestResetWithALivingLeader(t *testing.T) {
	r := newRig(t)
	r.put(0, 1, 2, 3)
	r.daemon()
	epoch := r.get("/api/v1/pipelines/ads")["leader"].(map[string]any)["epoch"]
	resetByHand(t, r)
	if l := r.get("/api/v1/pipelines/ads")["leader"].(map[string]any); l["epoch"] != epoch || l["live"] != true {
		t.Errorf("leader %v, want the one at epoch %v", l, epoch)
	}
}

func TestForwardResetNeedsAcceptance(t *testing.T) {
	r := newRig(t)
	r.put(0)
	r.do(0, "run", "--once")
	r.put(2, 20)
	r.do(0, "pause", "--reason", "a look at the data")
	reset := []string{"watermark", "reset", "--to", r.minute(18), "--reason", "minute two is worthless"}
	if _, o, _ := r.do(0, append(reset, "--dry-run")...); !strings.Contains(o, "it takes --accept-data-loss") || !strings.Contains(o, "never read: 1 partitions") {
		t.Errorf("dry run: %s", o)
	}
	if _, _, e := r.do(1, reset...); !strings.Contains(e, r.minute(2)) {
		t.Errorf("refused: %s", e)
	}
	if _, o, _ := r.do(0, append(reset, "--accept-data-loss")...); !strings.Contains(o, "stays paused") {
		t.Errorf("reset: %s", o)
	}
}

func TestControlUsage(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name string
		code int
		says string
		args []string
	}{
		{"pause without a reason", 2, "--reason", []string{"pause"}},
		{"resume without a reason", 2, "--reason", []string{"resume"}},
		{"pause with a blank reason", 2, "--reason", []string{"pause", "--reason", " \t "}},
		{"resume with a blank reason", 2, "--reason", []string{"resume", "--reason", " "}},
		{"adopt with too short a reason of long letters", 2, "--reason", []string{"adopt", "--reason", "ÄÖÜÄÖÜ"}},
		{"skip with a reason of spaces", 2, "--reason", []string{"object", "skip", "a", "--reason", "             "}},
		{"a reason beyond what is kept", 2, "--reason", []string{"adopt", "--reason", strings.Repeat("x", 2001)}},
		{"both that is wrong with a reset", 2, "got \"5\"\n--reason: at least ten", []string{"watermark", "reset", "--to", "5", "--reason", "short"}},
		{"both that is wrong with a rollback", 2, "not to both\n--reason: at least ten", []string{"base", "rollback", "a", "--pane", "b"}},
		{"all that is wrong with a listing", 2, "got \"a\"\n--to: must be an RFC 3339 time such as 2026-11-30T10:00:00Z, got \"b\"\n--limit", []string{"partitions", "--from", "a", "--to", "b", "--limit", "0"}},
		{"both that is wrong with a run", 2, "got \"x\"\n--now: only with --once\n--role", []string{"run", "--now", "x", "--role", "y"}},
		{"loss without a reason", 2, "--reason", []string{"trigger", "--accept-loss"}},
		{"no target", 2, "--to", []string{"watermark", "reset"}},
		{"no time", 2, "--to", []string{"watermark", "reset", "--to", "yesterday"}},
		{"no partition starts then", 2, "--to", []string{"watermark", "reset", "--to", "2026-11-30T10:00:30Z"}},
		{"nothing published", 1, "published nothing", []string{"watermark", "reset", "--to", "2026-11-30T10:00:00Z", "--dry-run"}},
		{"a misspelt command of base", 2, `unknown command "promot" for "deltad base"; there are list, pin, promote, rollback, unpin`, []string{"base", "promot"}},
		{"a misspelt command of watermark", 2, `unknown command "rest"`, []string{"watermark", "rest", "--pipeline", "ads"}},
		{"a misspelt command of object", 2, `unknown command "skp"`, []string{"object", "skp", "a"}},
		{"no command of base", 2, "name one of the commands list, pin", []string{"base"}},
		{"an argument too many", 2, "", []string{"resume", "now"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, e := r.do(c.code, c.args...); !strings.Contains(e, c.says) {
				t.Errorf("says %s", e)
			}
		})
	}
	if v, o, _ := r.do(0, "watermark", "show", "-o", "json"); v["watermark"] != nil || v["version"] != 0.0 {
		t.Errorf("before the first pane: %s", o)
	}
}

// TestPortTaken: a second daemon on this machine runs its pipelines, and its
// endpoint answers once the port is free.
func TestPortTaken(t *testing.T) {
	r := newRig(t)
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", r.listen)
	if err != nil {
		t.Fatal(err)
	}
	r.put(0)
	free := time.AfterFunc(500*time.Millisecond, func() { _ = l.Close() })
	defer free.Stop()
	r.daemon()
}
