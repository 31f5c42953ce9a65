package admin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// busy is a bench with some history.
func busy(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, options{})
	b.put(0)
	b.step(0, microbatch.Advanced)
	b.put(1, 2, 3)
	b.step(3, microbatch.Advanced)
	return b
}

func TestLookingAtAPipeline(t *testing.T) {
	b := busy(t)
	list := b.call("GET", "/api/v1/pipelines", nil).want(t, 200).body
	all := list["pipelines"].([]any)
	if len(all) != 1 || list["build"] != "test" {
		t.Fatalf("list %v", list)
	}
	for _, v := range []object{all[0].(object), b.call("GET", ads, nil).want(t, 200).body} {
		if v["pipeline"] != "ads" || v["watermark"] != text(b.minute(3)) || v["documents"] != float64(4) || v["paused"] != false || v["pause"] != nil {
			t.Errorf("pipeline %v", v)
		}
		if age := v["data_age_seconds"].(float64); age < 37*60 || age > 39*60 {
			t.Errorf("data age %v", age)
		}
		if v["last_step"].(object)["outcome"] != "advanced" || len(v["runs"].([]any)) != 2 || v["counts"].(object)["new"] != float64(3) {
			t.Errorf("last step %v, runs %v, counts %v", v["last_step"], v["runs"], v["counts"])
		}
	}
	row := b.call("GET", ads+"/watermark", nil).want(t, 200)
	if row.body["progress"] != text(b.minute(3)) || row.body["manifest"].(object)["key"] == "" {
		t.Errorf("watermark %s", row.raw)
	}
	tag := row.header.Get("ETag")
	for _, have := range []string{tag, "W/" + tag, `"0", W/` + tag + ` , "7"`, "*"} {
		if r := b.call("GET", ads+"/watermark", nil, "If-None-Match", have).want(t, 304); r.header.Get("ETag") != tag || r.raw != "" {
			t.Errorf("If-None-Match %s: %v %s", have, r.header, r.raw)
		}
	}
	for _, have := range []string{strings.Trim(tag, `"`), `"0"`, `"` + tag, ""} {
		b.call("GET", ads+"/watermark", nil, "If-None-Match", have).want(t, 200)
	}
	b.call("HEAD", ads+"/watermark", nil).want(t, 200)
}

func TestBeforeTheFirstPane(t *testing.T) {
	b := newBench(t, options{})
	v := b.call("GET", ads, nil).want(t, 200).body
	if v["watermark"] != nil || v["data_age_seconds"] != nil || v["leader"] != nil {
		t.Errorf("pipeline %v", v)
	}
	if r := b.call("GET", ads+"/watermark", nil).want(t, 200); r.body["version"] != float64(0) {
		t.Errorf("watermark %s", r.raw)
	}
	b.call("GET", "/", nil).want(t, 200)
	if _, err := b.app.State.Pipeline(t.Context(), "ads"); err == nil {
		t.Error("looking made a row")
	}
}

// TestTheBrakeNeedsNoReason: who pauses or resumes by HTTP without a word is
// heard, and the audit trail says that there was none.
func TestTheBrakeNeedsNoReason(t *testing.T) {
	b := busy(t)
	for _, body := range []any{nil, object{}, object{"reason": " \t\n"}} {
		b.call("POST", ads+"/pause", body).want(t, 200)
		v := b.call("GET", ads, nil).want(t, 200).body
		if pause, ok := v["pause"].(object); v["paused"] != true || !ok || pause["reason"] != "no reason given" {
			t.Errorf("%v: %v", body, v["pause"])
		}
		b.call("POST", ads+"/resume", body).want(t, 200)
	}
}

// TestAKeyIsOfOneCall: what asks for something else under the key of an earlier
// call is refused, where it would be taken for done, and leaves no trace.
func TestAKeyIsOfOneCall(t *testing.T) {
	b := busy(t)
	key, reason := b.app.NewID(), object{"reason": "a look at the data"}
	for range 2 {
		b.call("POST", ads+"/pause", reason, "Idempotency-Key", key).want(t, 200)
	}
	b.call("POST", ads+"/resume", reason, "Idempotency-Key", key).want(t, 422, "idempotency-key", "idempotency_key")
	plan := b.plan(1)
	b.apply(plan, nil, "Idempotency-Key", key).want(t, 422, "idempotency-key", "idempotency_key")
	if v := b.call("GET", ads+"/watermark", nil).want(t, 200).body; v["paused"] != true || v["progress"] != text(b.minute(3)) {
		t.Errorf("after what was refused: %v", v)
	}
	b.wantAudit("pause")
	b.call("POST", ads+"/resume", reason).want(t, 200)

	run := b.app.NewID()
	first := b.call("POST", ads+"/trigger", nil, "Idempotency-Key", run).want(t, 200)
	if again := b.call("POST", ads+"/trigger", nil, "Idempotency-Key", run).want(t, 200); again.raw != first.raw {
		t.Errorf("asked for again: %s, then %s", first.raw, again.raw)
	}
	loss := object{"reason": "they were withdrawn", "accept_loss": true}
	b.call("POST", ads+"/trigger", loss, "Idempotency-Key", run).want(t, 422, "idempotency-key", "idempotency_key")
	b.call("POST", ads+"/trigger", loss, "Idempotency-Key", key).want(t, 422, "idempotency-key", "idempotency_key")
	b.wantAudit("resume", "pause")
	other := b.app.NewID()
	for range 2 {
		b.call("POST", ads+"/trigger", loss, "Idempotency-Key", other).want(t, 200)
	}
	b.call("POST", ads+"/trigger", nil, "Idempotency-Key", other).want(t, 422, "idempotency-key", "idempotency_key")
	b.wantAudit("trigger-accept-loss", "resume", "pause")
}

// TestLateObjectsAreSeenAtOnce, and counted once: idle steps write nothing, so
// the state store has them from the next publication on.
func TestLateObjectsAreSeenAtOnce(t *testing.T) {
	b := newBench(t, options{})
	b.put(20)
	b.step(20, microbatch.Advanced)
	wantLate := func(want float64) {
		t.Helper()
		if v := b.call("GET", ads, nil).want(t, 200).body; v["late_objects"] != want {
			t.Errorf("late objects: %v, want %v", v["late_objects"], want)
		}
	}
	wantLate(0)
	b.put(0)
	for range 2 {
		b.step(20, microbatch.WasIdle)
		wantLate(1)
	}
	b.put(21)
	b.step(21, microbatch.Advanced)
	wantLate(1)
}

func TestListsPage(t *testing.T) {
	b := busy(t)
	first := b.call("GET", ads+"/runs?limit=1", nil).want(t, 200).body
	second := b.call("GET", ads+"/runs?limit=1&before="+first["next_before"].(string), nil).want(t, 200).body
	if a, z := first["runs"].([]any)[0].(object), second["runs"].([]any)[0].(object); a["watermark"] != text(b.minute(3)) || z["watermark"] != text(b.minute(0)) {
		t.Errorf("runs %v, %v", a, z)
	}
	var seen []string
	path := ads + "/partitions?limit=3"
	for next := path; next != ""; {
		page := b.call("GET", next, nil).want(t, 200).body
		for _, e := range page["partitions"].([]any) {
			seen = append(seen, e.(object)["state"].(string))
		}
		next = ""
		if from := page["next_from"]; from != nil {
			next = path + "&from=" + from.(string)
		}
	}
	if got := strings.Join(seen, " "); got != "covered skipped_then_covered skipped_then_covered covered" {
		t.Errorf("ledger: %s", got)
	}
	within := b.call("GET", ads+"/partitions?from="+text(b.minute(0))+"&to="+text(b.minute(2)), nil).want(t, 200).body["partitions"].([]any)
	if len(within) != 2 || within[0].(object)["partition"] != text(b.minute(1)) {
		t.Errorf("(0, 2] is %v", within)
	}
	if s := b.call("GET", ads+"/partitions?state=covered", nil).want(t, 200).body["partitions"].([]any); len(s) != 2 {
		t.Errorf("covered: %v", s)
	}
	for i := range 3 {
		b.call("POST", ads+"/pause", object{"reason": strings.Repeat("why ", i+1)}).want(t, 200)
	}
	page := b.call("GET", ads+"/audit?limit=2", nil).want(t, 200).body
	rest := b.call("GET", ads+"/audit?limit=2&before=2", nil).want(t, 200).body
	if len(page["audit"].([]any)) != 2 || page["next_before"] != float64(2) || len(rest["audit"].([]any)) != 1 {
		t.Errorf("audit: %v, then %v", page, rest)
	}
}

func TestProblems(t *testing.T) {
	b := newBench(t, options{})
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		slug, field  string
	}{
		{"GET", "/nothing", nil, 404, "not-found", ""},
		{"GET", "/api/v2/pipelines", nil, 404, "not-found", ""},
		{"GET", "/assets/status.html", nil, 404, "not-found", ""},
		{"GET", "/assets/..%2fadmin.go", nil, 404, "not-found", ""},
		{"GET", "/api/v1/pipelines/none", nil, 404, "not-found", "pipeline"},
		{"POST", "/api/v1/pipelines/none/pause", object{}, 404, "not-found", "pipeline"},
		{"GET", ads + "/intents/01ARZ3NDEKTSV4RRFFQ69G5FAV", nil, 404, "not-found", "id"},
		{"POST", ads + "/watermark", object{}, 405, "method-not-allowed", ""},
		{"GET", ads + "/pause", nil, 405, "method-not-allowed", ""},
		{"DELETE", ads, nil, 405, "method-not-allowed", ""},
		{"DELETE", ads + "/rebuilds", nil, 405, "method-not-allowed", ""},
		{"POST", ads + "/rebuilds", object{}, 409, "no-full-index", ""},
		{"GET", ads + "/runs?limit=0", nil, 400, "bad-parameter", "limit"},
		{"GET", ads + "/runs?limit=1001", nil, 400, "bad-parameter", "limit"},
		{"GET", ads + "/runs?limt=5", nil, 400, "bad-parameter", "limt"},
		{"GET", ads + "/runs?limit=5&limit=6", nil, 400, "bad-parameter", "limit"},
		{"GET", ads + "/partitions?from=yesterday", nil, 400, "bad-parameter", "from"},
		{"GET", ads + "/partitions?state=lost", nil, 400, "bad-parameter", "state"},
		{"GET", ads + "/audit?before=x", nil, 400, "bad-parameter", "before"},
		{"POST", ads + "/trigger?wait=2h", object{}, 400, "bad-parameter", "wait"},
		{"POST", ads + "/pause", `{"reason":`, 400, "bad-body", ""},
		{"POST", ads + "/pause", `{"reason":"x"} {}`, 400, "bad-body", ""},
		{"POST", ads + "/pause", `[]`, 400, "bad-body", ""},
		{"POST", ads + "/pause", object{"reson": "x"}, 400, "bad-body", "reson"},
		{"POST", ads + "/pause", object{"reason": 5}, 400, "bad-body", "reason"},
		{"POST", ads + "/pause", object{"reason": strings.Repeat("x", 70_000)}, 413, "body-too-large", ""},
		{"POST", ads + "/pause", object{"reason": strings.Repeat("x", 3000)}, 422, "invalid-field", "reason"},
		{"POST", ads + "/trigger", object{"accept_loss": true}, 422, "reason-too-short", "reason"},
		{"POST", ads + "/pause", object{"reason": "a \x00 look"}, 422, "invalid-field", "reason"},
		{"POST", ads + "/pause", object{"reason": "a look", "actor": "a\x00a"}, 422, "invalid-field", "actor"},
		{"GET", ads + "/runs?before=nonsense", nil, 400, "bad-parameter", "before"},
		{"GET", ads + "/rebuilds?before=nonsense", nil, 400, "bad-parameter", "before"},
		{"GET", ads + "/runs?before=%00", nil, 400, "bad-parameter", "before"},
		{"GET", ads + "/intents/nonsense", nil, 404, "not-found", "id"},
		{"GET", ads + "/rebuilds/nonsense%00", nil, 404, "not-found", "id"},
		{"GET", "/api/v1/pipelines/%00", nil, 404, "not-found", "pipeline"},
		{"POST", ads + "/bases/nonsense%00/rollback/plan", object{}, 409, "no-pane", ""},
		{"POST", ads + "/watermark/plan", object{"to": "2026-11-30T10:00:00.0000001Z"}, 422, "not-a-partition", "to"},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			slug := []string{c.slug}
			if c.field != "" {
				slug = append(slug, c.field)
			}
			r := b.call(c.method, c.path, c.body).want(t, c.status, slug...)
			if allow := r.header.Get("Allow"); c.status == 405 && allow != "POST" && allow != "GET, HEAD" && allow != "GET, HEAD, POST" {
				t.Errorf("Allow: %q", allow)
			}
		})
	}
}

func TestTriggerWithoutALeader(t *testing.T) {
	b := newBench(t, options{})
	b.put(0)
	r := b.call("POST", ads+"/trigger", nil).want(t, 200)
	if r.body["outcome"] != "advanced" || r.body["run_id"] == "" || r.body["state"] != "done" {
		t.Errorf("trigger: %s", r.raw)
	}
	if b.leads() {
		t.Error("the lease was kept")
	}
	id := b.app.NewID()
	first := b.call("POST", ads+"/trigger", object{"accept_loss": true, "reason": "they were removed on purpose"}, "Idempotency-Key", id).want(t, 200)
	again := b.call("POST", ads+"/trigger", object{"accept_loss": true, "reason": "they were removed on purpose"}, "Idempotency-Key", id).want(t, 200)
	if first.body["request_id"] != id || again.raw != first.raw {
		t.Errorf("%s, then %s", first.raw, again.raw)
	}
	b.wantAudit("trigger-accept-loss")
	b.pause()
	if r := b.call("POST", ads+"/trigger", nil).want(t, 200); r.body["outcome"] != "held" {
		t.Errorf("trigger while paused: %s", r.raw)
	}
}

func TestTriggerByLivingLeader(t *testing.T) {
	b := newBench(t, options{})
	b.serve()
	b.put(0)
	if r := b.call("POST", ads+"/trigger", nil).want(t, 200); r.body["outcome"] != "advanced" && r.body["outcome"] != "idle" {
		t.Errorf("trigger: %s", r.raw)
	}
	if v := b.call("GET", ads, nil); v.body["watermark"] != text(b.minute(0)) {
		t.Errorf("after it: %s", v.raw)
	}
}

// TestNewerFormatIsNotReady: a newer build has published, and this one refuses
// every step.
func TestNewerFormatIsNotReady(t *testing.T) {
	b := busy(t)
	head, err := b.app.Pipes[0].Sink.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.dir, "out", filepath.FromSlash(head.Delta.Manifest))
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(strings.Replace(string(old), `"deltad.manifest/1"`, `"deltad.manifest/9.1"`, 1))
	if r := b.call("GET", "/readyz", nil).want(t, 503); !strings.Contains(r.raw, "current/ads") || !strings.Contains(r.raw, `deltad.manifest/9.1`) {
		t.Errorf("readiness over a newer format: %s", r.raw)
	}
	write(strings.Replace(string(old), `"deltad.manifest/1"`, `"deltad.manifest/1.7"`, 1))
	b.call("GET", "/readyz", nil).want(t, 200) // a minor version is read
	write("damaged")
	b.call("GET", "/readyz", nil).want(t, 200) // a step says what it is
}

func TestHealthAndReadiness(t *testing.T) {
	b := busy(t)
	if v := b.call("GET", "/healthz", nil).want(t, 200).body; v["status"] != "ok" || v["heap_bytes"].(float64) <= 0 {
		t.Errorf("health %v", v)
	}
	if v := b.call("GET", "/readyz", nil).want(t, 200).body; v["ready"] != true || len(v["checks"].([]any)) != 2 {
		t.Errorf("readiness %v", v)
	}
	lease, err := b.app.State.Acquire(t.Context(), "ads", watermark.RoleDelta, "elsewhere", 1e10, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.call("GET", "/readyz", nil).want(t, 200) // a standby is ready
	if err := b.app.State.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for _, series := range []string{"deltad_data_age_seconds{", "deltad_runs_total{", "deltad_watermark_timestamp_seconds{", "deltad_store_requests_total{", "deltad_leader{"} {
		if !strings.Contains(b.call("GET", "/metrics", nil).want(t, 200).raw, series) {
			t.Errorf("no series %s", series)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "out", "CURRENT"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := b.call("GET", "/readyz", nil).want(t, 503).body; v["ready"] != false {
		t.Errorf("readiness without CURRENT: %v", v)
	}
	if err := b.app.State.Close(); err != nil {
		t.Fatal(err)
	}
	b.call("GET", "/readyz", nil).want(t, 503)
	b.call("GET", "/healthz", nil).want(t, 200)
	if r := b.call("GET", ads, nil); r.status < 500 || r.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("without a state store: %d %s", r.status, r.raw)
	}
	if r := b.call("GET", "/", nil).want(t, 200); !strings.Contains(r.raw, "state store cannot be read") {
		t.Error("the page does not say that the state store is gone")
	}
}

func TestPage(t *testing.T) {
	b := busy(t)
	b.call("POST", ads+"/pause", object{"reason": `<script>alert("x")</script>`, "actor": "ada"}).want(t, 200)
	r := b.call("GET", "/", nil).want(t, 200)
	for _, id := range []string{
		"pipelines", "refresh-state", "pipeline-ads", "ads-age", "ads-watermark", "ads-progress", "ads-outcome", "ads-why", "ads-documents",
		"ads-new", "ads-changed", "ads-left", "ads-gaps", "ads-quarantined", "ads-late", "ads-leader", "ads-paused", "ads-runs",
	} {
		if n := strings.Count(r.raw, ` id="`+id+`"`); n != 1 {
			t.Errorf("id %s is there %d times", id, n)
		}
	}
	for _, said := range []string{"Paused by ada", b.minute(3).Format("2006-01-02 15:04:05") + " UTC", "advanced", `data-tone="warn"`, "min "} {
		if !strings.Contains(r.raw, said) {
			t.Errorf("the page does not say %q", said)
		}
	}
	if strings.Contains(r.raw, "<script>alert") {
		t.Error("what people write is not escaped")
	}
	policy := r.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Contains(r.raw, " style=") || strings.Contains(r.raw, " onclick=") {
		t.Errorf("policy %q does not hold for the page", policy)
	}
	for asset, kind := range map[string]string{"status.css": "text/css", "status.js": "javascript"} {
		a := b.call("GET", "/assets/"+asset, nil).want(t, 200)
		if !strings.Contains(a.header.Get("Content-Type"), kind) || !strings.Contains(r.raw, "/assets/"+asset) || strings.Contains(a.raw, "http://") {
			t.Errorf("%s: %s", asset, a.header.Get("Content-Type"))
		}
	}
}
