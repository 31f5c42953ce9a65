package app_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/app"
	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/sqlite"
)

// newFullRig is a rig whose pipeline has a full index.
func newFullRig(t *testing.T, full string) *rig {
	t.Helper()
	r := newRig(t)
	file := filepath.Join(r.dir, "deltad.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	with := strings.Replace(string(text), "    output:", "    full: "+full+"\n    output:", 1)
	with = strings.Replace(with, "fields: {", "fields: {all: {count: \"*\", over: all}, ", 1)
	if err := os.WriteFile(file, []byte(with), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// list decodes what a command prints as a JSON array.
func (r *rig) list(args ...string) (out []map[string]any) {
	r.t.Helper()
	var o, e bytes.Buffer
	args = append(args, "-o", "json", "-c", filepath.Join(r.dir, "deltad.yaml"), "--log-level", "error")
	if code := app.Run(r.t.Context(), app.Options{Args: args, Stdout: &o, Stderr: &e}); code != 0 {
		r.t.Fatalf("deltad %v: exit %d: %s", args, code, &e)
	}
	if err := json.Unmarshal(o.Bytes(), &out); err != nil {
		r.t.Fatalf("deltad %v: %v: %s", args, err, &o)
	}
	return out
}

// remove takes the objects of minutes away.
func (r *rig) remove(minutes ...int) {
	r.t.Helper()
	for _, n := range minutes {
		dir := filepath.Join(r.dir, "raw", r.base.Add(time.Duration(n)*time.Minute).Format("2006/01/02/15/04"))
		if err := os.RemoveAll(dir); err != nil {
			r.t.Fatal(err)
		}
	}
}

func sub(v map[string]any, names ...string) any {
	var at any = v
	for _, n := range names {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[n]
	}
	return at
}

// fullByHand takes a pipeline through its first base, a second one, a rollback
// and the way back, by command lines, with and without a living leader.
func fullByHand(t *testing.T, r *rig) {
	t.Helper()
	if s, _, _ := r.do(0, "status", "-o", "json"); sub(s, "full", "base") != nil || sub(s, "full") == nil {
		t.Errorf("status before the first base: %v", s)
	}
	first, _, _ := r.do(0, "rebuild", "-o", "json", "--reason", "the first one")
	if first["state"] != "candidate" && first["state"] != "promoted" || first["cut"] != r.minute(3) || first["documents"] != 4.0 {
		t.Fatalf("rebuild: %v", first)
	}
	p, _, _ := r.do(0, "base", "promote", "-o", "json")
	if p["live"] != true || p["generation"] != first["id"] || p["state"] != "promoted" {
		t.Fatalf("promote: %v", p)
	}
	if _, _, e := r.do(1, "base", "promote"); !strings.Contains(e, "no candidate") {
		t.Errorf("promoted again: %s", e)
	}
	if _, _, e := r.do(1, "base", "rollback", "--dry-run"); !strings.Contains(e, "is the first") {
		t.Errorf("rollback without a former base: %s", e)
	}
	r.put(4)
	r.do(0, "trigger")
	if s, _, _ := r.do(0, "status", "-o", "json"); sub(s, "full", "base", "generation") != first["id"] || sub(s, "full", "base", "cut") != r.minute(3) {
		t.Errorf("status over the first base: %v", s["full"])
	}

	second, _, _ := r.do(0, "rebuild", "-o", "json")
	if second["cut"] != r.minute(4) || second["documents"] != 5.0 {
		t.Fatalf("second rebuild: %v", second)
	}
	if plan, _, _ := r.do(0, "plan", "-o", "json"); plan["promote"] != true || plan["kind"] != "refine" {
		t.Errorf("plan with a candidate: %v", plan)
	}
	r.do(0, "trigger")
	r.put(5)
	r.do(0, "trigger")
	bases := r.list("base", "list")
	if len(bases) != 2 || bases[0]["generation"] != second["id"] || bases[0]["live"] != true || bases[1]["rollback_target"] == nil || bases[1]["supported_until"] == nil {
		t.Fatalf("bases: %v", bases)
	}

	dry, _, _ := r.do(0, "base", "rollback", "--dry-run", "-o", "json")
	plan := dry["plan"].(map[string]any)
	if sub(plan, "to", "generation") != first["id"] || plan["bar"] != second["id"] || plan["pause"] != false || sub(plan, "to", "watermark") != r.minute(4) ||
		plan["back_seconds"] != 60.0 || sub(plan, "next", "kind") != "advance" || sub(plan, "next", "watermark") != r.minute(5) {
		t.Errorf("rollback plan: %v", plan)
	}
	if _, _, e := r.do(2, "base", "rollback", "--reason", "short"); !strings.Contains(e, "--reason") {
		t.Errorf("without a reason: %s", e)
	}
	if _, _, e := r.do(1, "base", "rollback", "--reason", "prices are wrong", "--digest", strings.Repeat("0", 64)); !strings.Contains(e, "plan") {
		t.Errorf("with another digest: %s", e)
	}
	done, _, _ := r.do(0, "base", "rollback", "--reason", "prices are wrong", "--digest", plan["digest"].(string), "-o", "json")
	if sub(done, "intent", "state") != "applied" || sub(done, "now", "watermark") != r.minute(4) {
		t.Errorf("rollback: %v", done)
	}
	r.do(0, "trigger") // what was left is not promoted again
	s, _, _ := r.do(0, "status", "-o", "json")
	if sub(s, "full", "base", "generation") != first["id"] || s["watermark"] != r.minute(5) {
		t.Errorf("status after the rollback: %v", s)
	}
	if bars, ok := sub(s, "full", "barred").([]any); !ok || len(bars) != 1 || bars[0].(map[string]any)["generation"] != second["id"] {
		t.Errorf("barred: %v", sub(s, "full", "barred"))
	}
	if _, o, _ := r.do(0, "status"); !strings.Contains(o, "barred from promotion") {
		t.Errorf("status: %s", o)
	}
	if _, _, e := r.do(1, "base", "rollback", "--dry-run"); !strings.Contains(e, "barred") {
		t.Errorf("a rollback to what was left: %s", e)
	}
	if _, _, e := r.do(2, "base", "promote", second["id"].(string)); !strings.Contains(e, "--reason") {
		t.Errorf("lifting a bar without a reason: %s", e)
	}
	if p, _, _ := r.do(0, "base", "promote", second["id"].(string), "--reason", "they were right", "-o", "json"); p["live"] != true {
		t.Errorf("the way back: %v", p)
	}
	if doc, _, _ := r.do(0, "get", "i4", "-o", "json"); doc["all"] != 1.0 {
		t.Errorf("document: %v", doc)
	}
}

func TestFullWithoutALeader(t *testing.T) {
	r := newFullRig(t, "{}")
	r.put(0, 1, 2, 3)
	r.do(0, "run", "--once")
	fullByHand(t, r)
}

func TestFullWithALivingLeader(t *testing.T) {
	r := newFullRig(t, "{}")
	r.put(0, 1, 2, 3)
	r.daemon("--role", "delta")
	fullByHand(t, r)
}

// TestHeldByTheGate: a generation that lost documents is held, and let past only
// by who names what failed and says why. `run --once` promotes nothing.
func TestHeldByTheGate(t *testing.T) {
	r := newFullRig(t, "{promote: manual}")
	r.put(0, 1, 2, 3)
	r.do(0, "run", "--once")
	r.do(0, "rebuild")
	if s, _, _ := r.do(0, "run", "--once", "-o", "json"); s["outcome"] != "idle" {
		t.Errorf("run --once with a candidate: %v", s)
	}
	if _, o, _ := r.do(0, "status"); !strings.Contains(o, "waits for `deltad base promote`") {
		t.Errorf("status: %s", o)
	}
	if v, _, _ := r.do(0, "trigger", "-o", "json"); v["outcome"] != "idle" {
		t.Errorf("a candidate that waits for a person was promoted: %v", v)
	}
	r.do(0, "base", "promote")
	r.remove(0, 1)
	held, _, _ := r.do(1, "rebuild", "-o", "json")
	if held["state"] != "held" || !strings.Contains(held["error"].(string), "document_count") {
		t.Fatalf("rebuild after a loss: %v", held)
	}
	if _, o, _ := r.do(0, "status"); !strings.Contains(o, "held by the gate") || !strings.Contains(o, "document_count") {
		t.Errorf("status: %s", o)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "document_count", nil},
		{1, "document_count", []string{"--override", "checksums"}},
		{1, "document_count", []string{"--override", "document_count,checksums", "--reason", "it was meant so"}},
		{2, "--reason", []string{"--override", "document_count"}},
	} {
		if _, _, e := r.do(c.code, append([]string{"base", "promote"}, c.args...)...); !strings.Contains(e, c.says) {
			t.Errorf("promote %v: %s", c.args, e)
		}
	}
	p, _, _ := r.do(0, "base", "promote", "--override", "document_count", "--reason", "the two were withdrawn", "-o", "json")
	if p["live"] != true || p["generation"] != held["id"] {
		t.Errorf("override: %v", p)
	}
	if b := r.list("base", "list")[0]; b["overrides"].([]any)[0] != "document_count" || b["failed"].([]any)[0] != "document_count" {
		t.Errorf("after it: %v", b)
	}
}

// TestRollbackToAPane pauses the pipeline, for the next run would undo it.
func TestRollbackToAPane(t *testing.T) {
	r := newFullRig(t, "{}")
	r.put(0)
	r.do(0, "run", "--once")
	before, _, _ := r.do(0, "status", "-o", "json")
	r.put(1)
	r.do(0, "run", "--once")
	run := before["run_id"].(string)
	pins := []string{"base", "pin", run, "--reason", "a look at the pane", "-o", "json"}
	if pin, _, _ := r.do(0, pins...); pin["kind"] != "pane" || pin["pinned"] != true {
		t.Errorf("pin: %v", pin)
	}
	r.do(0, pins...) // again: no change
	if _, _, e := r.do(1, "base", "pin", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--reason", "a look at the pane"); !strings.Contains(e, "neither") {
		t.Errorf("a pin of nothing: %s", e)
	}
	done, _, _ := r.do(0, "base", "rollback", "--pane", run, "--reason", "minute one is wrong", "-o", "json")
	if sub(done, "plan", "pause") != true || sub(done, "now", "paused") != true || sub(done, "now", "watermark") != r.minute(0) {
		t.Errorf("rollback to a pane: %v", done)
	}
	if v, _, _ := r.do(1, "trigger", "-o", "json"); v["outcome"] != "held" {
		t.Errorf("it was undone: %v", v)
	}
	r.do(0, "resume", "--reason", "minute one is right")
	if v, _, _ := r.do(0, "trigger", "-o", "json"); v["outcome"] != "advanced" {
		t.Errorf("resumed: %v", v)
	}
	// Pinned again while it cannot be read, it stays pinned.
	data, err := filepath.Glob(filepath.Join(r.dir, "*", "delta", run))
	if err != nil || len(data) != 1 {
		t.Fatalf("data of %s: %v, %v", run, data, err)
	}
	if err := os.Rename(data[0], data[0]+".away"); err != nil {
		t.Fatal(err)
	}
	r.do(1, pins...)
	if gone := r.list("base", "unpin", run); len(gone) != 1 {
		t.Errorf("unpin: %v", gone)
	}
	r.do(1, "base", "unpin", run)
}

// TestRollbackThatWaits for another process's lease says that it is one.
func TestRollbackThatWaits(t *testing.T) {
	r := newFullRig(t, "{}")
	r.put(0)
	r.do(0, "run", "--once")
	before, _, _ := r.do(0, "status", "-o", "json")
	r.put(1)
	r.do(0, "run", "--once")
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(r.dir, "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Acquire(t.Context(), "ads", watermark.RoleDelta, "elsewhere", time.Minute, 0); err != nil {
		t.Fatal(err)
	}
	done, _, e := r.do(1, "base", "rollback", "--pane", before["run_id"].(string), "--reason", "minute one is wrong", "--wait", "100ms", "-o", "json")
	if id, ok := sub(done, "intent", "id").(string); !ok || !strings.Contains(e, "rollback "+id+" is still pending") {
		t.Errorf("%v, %s", done, e)
	}
}

// TestRebuildOpen: the second request gets the first one's id, over HTTP and by
// command; one that is queued is called off at once.
func TestRebuildOpen(t *testing.T) {
	r := newFullRig(t, "{}")
	r.put(0)
	r.daemon("--role", "delta") // which makes no rebuilds
	queued := r.post("/api/v1/pipelines/ads/rebuilds", http.StatusAccepted)
	if again := r.post("/api/v1/pipelines/ads/rebuilds", http.StatusConflict); again["id"] != queued["id"] || again["type"] != "urn:deltad:problem:rebuild-open" {
		t.Errorf("a second request: %v", again)
	}
	v, _, _ := r.do(1, "rebuild", "-o", "json")
	for _, name := range []string{"phase", "done", "total"} {
		if _, there := v[name]; !there {
			t.Errorf("%v has no %s", v, name)
		}
	}
	if v["id"] != queued["id"] || v["state"] != "queued" {
		t.Errorf("by command: %v", v)
	}
	id := queued["id"].(string)
	if v, _, _ := r.do(0, "rebuild", "--cancel", id, "-o", "json"); v["state"] != "cancelled" {
		t.Errorf("cancel: %v", v)
	}
	if _, _, e := r.do(1, "rebuild", "--cancel", id); !strings.Contains(e, "has ended") {
		t.Errorf("cancel again: %s", e)
	}
	r.do(2, "rebuild", "--cancel", id, "--wait")
	r.do(2, "rebuild", "--cut", "yesterday")
	r.do(2, "rebuild", "--cut", r.minute(30))
}

// TestNoFullIndex: without a full section there is nothing to rebuild.
func TestNoFullIndex(t *testing.T) {
	r := newRig(t)
	r.put(0)
	r.do(0, "run", "--once")
	for _, args := range [][]string{{"rebuild"}, {"base", "promote"}, {"run", "--role", "full"}, {"run", "--once", "--role", "full"}} {
		if _, _, e := r.do(2, args...); !strings.Contains(e, "full") {
			t.Errorf("%v: %s", args, e)
		}
	}
}

// post sends an empty request to the daemon's endpoint.
func (r *rig) post(path string, want int) (v map[string]any) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://"+r.listen+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil || res.StatusCode != want {
		r.t.Fatalf("POST %s: %d, want %d: %v (%v)", path, res.StatusCode, want, v, err)
	}
	return v
}

// TestRebuildOfADeadProcess: a rebuild whose process died keeps others from
// beginning, and is taken over by who waits for it, also where no daemon makes
// rebuilds.
func TestRebuildOfADeadProcess(t *testing.T) {
	r := newFullRig(t, "{}")
	r.put(0)
	r.do(0, "run", "--once")
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(r.dir, "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	rb, err := st.CreateRebuild(t.Context(), watermark.Rebuild{ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Pipeline: "ads", Cause: watermark.RebuildGap, Reason: "of a process that dies"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := st.Acquire(t.Context(), "ads", watermark.RoleFull, "dead/1", 2*time.Second, 0)
	if err == nil {
		_, err = st.StartRebuild(t.Context(), l, rb.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	if v, _, _ := r.do(1, "rebuild", "-o", "json"); v["id"] != rb.ID || v["state"] != "running" {
		t.Errorf("beside it: %v", v)
	}
	if v, _, _ := r.do(0, "rebuild", "--wait", "-o", "json"); v["id"] != rb.ID || v["state"] != "candidate" {
		t.Errorf("waiting for it: %v", v)
	}
}
