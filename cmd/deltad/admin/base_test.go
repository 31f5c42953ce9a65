package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// remake makes what is queued, as a daemon that makes rebuilds would.
func (b *bench) remake(id string, want watermark.RebuildState) watermark.Rebuild {
	b.t.Helper()
	rb, err := b.app.State.RebuildByID(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := b.app.Pipes[0].Rebuilder(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	report, err := r.Run(b.t.Context(), rb)
	if report.State != want {
		b.t.Fatalf("rebuild is %s (%v), want %s", report.State, err, want)
	}
	if rb, err = b.app.State.RebuildByID(b.t.Context(), id); err != nil {
		b.t.Fatal(err)
	}
	return rb
}

func (b *bench) queue() string {
	b.t.Helper()
	r := b.call("POST", ads+"/rebuilds", object{"reason": "a test asks for it"}).want(b.t, 202)
	if loc := r.header.Get("Location"); loc != ads+"/rebuilds/"+r.body["id"].(string) {
		b.t.Errorf("location %s", loc)
	}
	return r.body["id"].(string)
}

// TestRebuildsThroughHTTP: queued once, looked at, called off; what was called
// off is over.
func TestRebuildsThroughHTTP(t *testing.T) {
	b := newBench(t, options{full: "{schedule: \"0 3 * * *\"}"})
	b.call("POST", ads+"/rebuilds", nil).want(t, 409, "no-pane")
	b.put(0, 1)
	b.step(1, microbatch.Advanced)
	for _, c := range []struct {
		cut   string
		slug  string
		field string
	}{
		{"yesterday", "invalid-field", "cut"}, {text(b.minute(0).Add(time.Second)), "not-a-partition", "cut"}, {text(b.minute(2)), "in-the-future", "cut"},
	} {
		b.call("POST", ads+"/rebuilds", object{"cut": c.cut}).want(t, 422, c.slug, c.field)
	}
	id := b.queue()
	open := b.call("POST", ads+"/rebuilds", object{"reason": "another one"}).want(t, 409, "rebuild-open")
	if open.body["id"] != id {
		t.Errorf("the answer names %v, want %s", open.body["id"], id)
	}
	if v := b.call("GET", ads+"/rebuilds/"+id, nil).want(t, 200); v.body["state"] != "queued" || v.body["cause"] != "manual" {
		t.Errorf("queued: %s", v.raw)
	}
	if full := b.call("GET", ads, nil).body["full"].(object); full["rebuild"].(object)["id"] != id || full["cut"] != nil || full["next_rebuild"] == nil {
		t.Errorf("the pipeline says %v", full)
	}
	b.call("POST", ads+"/rebuilds/"+id+"/cancel", object{"reason": "not now"}).want(t, 200)
	b.call("POST", ads+"/rebuilds/"+id+"/cancel", object{"reason": "not now"}).want(t, 409, "rebuild-ended")
	b.call("POST", ads+"/rebuilds/01ARZ3NDEKTSV4RRFFQ69G5FAV/cancel", nil).want(t, 404, "not-found", "id")
	b.call("GET", ads+"/rebuilds/01ARZ3NDEKTSV4RRFFQ69G5FAV", nil).want(t, 404, "not-found", "id")
	b.wantAudit("rebuild-cancel", "rebuild")

	key := b.app.NewID()
	first := b.call("POST", ads+"/rebuilds", nil, "Idempotency-Key", key).want(t, 202)
	if again := b.call("POST", ads+"/rebuilds", nil, "Idempotency-Key", key).want(t, 202); again.body["id"] != first.body["id"] || first.body["id"] != key {
		t.Errorf("asked for again: %s, then %s", first.raw, again.raw)
	}
	list := b.call("GET", ads+"/rebuilds?limit=1", nil).want(t, 200)
	if all := list.body["rebuilds"].([]any); len(all) != 1 || all[0].(object)["id"] != key || list.body["next_before"] != key {
		t.Errorf("list: %s", list.raw)
	}
	b.call("GET", ads+"/rebuilds?limt=1", nil).want(t, 400, "bad-parameter", "limt")
}

// TestBasesThroughHTTP: promoted, rolled back under the discipline of a reset,
// barred, and let back in.
func TestBasesThroughHTTP(t *testing.T) {
	b := newBench(t, options{full: "{promote: manual}"})
	b.put(0, 1)
	b.step(1, microbatch.Advanced)
	first, none := b.queue(), "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	b.call("POST", ads+"/bases/"+first+"/promote", nil).want(t, 409, "not-promotable")
	b.remake(first, watermark.RebuildCandidate)
	b.step(1, microbatch.WasIdle) // it waits for a person
	b.call("POST", ads+"/bases/"+none+"/promote", nil).want(t, 404, "not-found")
	b.call("POST", ads+"/bases/"+first+"/promote", object{"override": []string{"checksums"}, "reason": "to be on the safe side"}).want(t, 422, "invalid-field", "override")
	if r := b.call("POST", ads+"/bases/"+first+"/promote", nil).want(t, 200); r.body["live"] != true || r.body["generation"] != first {
		t.Errorf("promote: %s", r.raw)
	}
	b.call("POST", ads+"/bases/"+first+"/promote", nil).want(t, 409, "already-there")
	b.call("POST", ads+"/bases/"+first+"/rollback/plan", nil).want(t, 409, "already-there")
	b.put(2)
	b.step(2, microbatch.Advanced)
	second := b.queue()
	b.remake(second, watermark.RebuildCandidate)
	b.call("POST", ads+"/bases/"+second+"/promote", nil).want(t, 200)

	bases := b.call("GET", ads+"/bases", nil).want(t, 200).body["bases"].([]any)
	if len(bases) != 2 || bases[0].(object)["live"] != true || bases[1].(object)["rollback_target"] == nil || bases[1].(object)["supported_until"] == nil {
		t.Fatalf("bases: %v", bases)
	}
	b.call("POST", ads+"/bases/"+none+"/rollback/plan", nil).want(t, 404, "not-found", "generation")
	plan := b.call("POST", ads+"/bases/"+first+"/rollback/plan", nil).want(t, 200)
	if plan.body["bar"] != second || plan.body["pause"] != false || plan.body["to"].(object)["generation"] != first {
		t.Errorf("plan: %s", plan.raw)
	}
	apply := func(body object, headers ...string) reply {
		t.Helper()
		full := object{"digest": plan.body["digest"], "reason": "the prices are wrong", "actor": "ada"}
		for k, v := range body {
			full[k] = v
		}
		return b.call("POST", ads+"/bases/"+first+"/rollback/apply", full, append([]string{"If-Match", plan.header.Get("ETag")}, headers...)...)
	}
	apply(nil, "If-Match", "").want(t, 428, "version-required", "If-Match")
	apply(nil, "If-Match", `"1"`).want(t, 412, "stale-version", "If-Match")
	apply(object{"reason": "short"}).want(t, 422, "reason-too-short", "reason")
	apply(object{"digest": strings.Repeat("0", 64)}).want(t, 409, "digest-mismatch", "digest")
	apply(object{"digest": ""}).want(t, 422, "invalid-field", "digest")
	key := b.app.NewID()
	done := apply(nil, "Idempotency-Key", key).want(t, 200)
	if in := done.body["intent"].(object); in["kind"] != "rollback" || in["state"] != "applied" || in["bar"] != second || done.body["paused"] != false {
		t.Errorf("applied: %s", done.raw)
	}
	if again := apply(nil, "Idempotency-Key", key).want(t, 200); again.body["intent"].(object)["id"] != key {
		t.Errorf("applied again: %s", again.raw)
	}
	if head, _ := b.live(); head.Base.Generation != first {
		t.Errorf("CURRENT names base %s", head.Base.Generation)
	}
	b.step(2, microbatch.WasIdle) // nothing undoes it
	if full := b.call("GET", ads, nil).body["full"].(object); len(full["barred"].([]any)) != 1 || full["generation"] != first {
		t.Errorf("the pipeline says %v", full)
	}
	b.call("POST", ads+"/bases/"+second+"/promote", object{"reason": "short"}).want(t, 422, "reason-too-short", "reason")
	if r := b.call("POST", ads+"/bases/"+second+"/promote", object{"reason": "the prices were right"}).want(t, 200); r.body["live"] != true {
		t.Errorf("promoted again: %s", r.raw)
	}
	b.wantAudit("promote", "rollback-applied", "rollback")
}

// TestHeldThroughHTTP: what the gate holds is shown with its reasons, and passes
// only by name.
func TestHeldThroughHTTP(t *testing.T) {
	b := newBench(t, options{full: "{}", role: daemon.RoleDelta})
	b.put(0, 1)
	b.step(1, microbatch.Advanced)
	b.remake(b.queue(), watermark.RebuildCandidate)
	b.step(1, microbatch.Refined)
	for n := 2; n < 10; n++ {
		b.put(n)
	}
	b.step(9, microbatch.Advanced)
	held := b.queue()
	b.remake(held, watermark.RebuildHeld)
	full := b.call("GET", ads, nil).body["full"].(object)
	if h := full["held"].(object); h["id"] != held || !strings.Contains(h["error"].(string), "document_count") {
		t.Errorf("held: %v", h)
	}
	if page := b.call("GET", "/", nil).raw; !strings.Contains(page, "document_count") {
		t.Error("the page does not say what is held")
	}
	if m := b.call("GET", "/metrics", nil).raw; !strings.Contains(m, `deltad_gate_held{pipeline="ads"} 1`) {
		t.Error("the series does not say that the gate holds")
	}
	b.call("POST", ads+"/bases/"+held+"/promote", object{"reason": "they are new and right"}).want(t, 409, "checks-failed", "override")
	b.call("POST", ads+"/bases/"+held+"/promote", object{"override": []string{"document_count"}}).want(t, 422, "reason-too-short", "reason")
	b.call("POST", ads+"/bases/"+held+"/promote", object{"override": []string{"document_count"}, "reason": "they are new and right"}).want(t, 200)
}
