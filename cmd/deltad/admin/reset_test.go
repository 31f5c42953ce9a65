package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// TestResetThroughHTTP is the whole of it: refused while not paused, without
// and with a stale version, without a reason; then planned, applied and
// audited. The pipeline stays paused, and after it is resumed the next run
// goes to the newest and its coverage reaches back to the target.
func TestResetThroughHTTP(t *testing.T) {
	b := newBench(t, options{})
	b.put(0)
	b.step(0, microbatch.Advanced)
	for n := 1; n <= 20; n++ {
		b.put(n)
	}
	b.step(20, microbatch.Advanced)
	b.put(21, 22)
	to := b.minute(3)

	early := b.plan(3)
	b.apply(early, nil).want(t, 409, "not-paused")
	b.apply(early, nil, "If-Match", "").want(t, 409, "not-paused")
	b.pause()
	b.apply(early, nil, "If-Match", "").want(t, 428, "version-required", "If-Match")
	b.apply(early, nil).want(t, 412, "stale-version", "If-Match")
	for _, foreign := range []string{"*", `W/` + early.header.Get("ETag"), "nonsense"} {
		b.apply(early, nil, "If-Match", foreign).want(t, 412, "stale-version")
	}
	plan := b.plan(3)
	if plan.body["digest"] != early.body["digest"] {
		t.Error("a pause changed the digest of a plan")
	}
	if tag := b.call("GET", ads+"/watermark", nil).want(t, 200).header.Get("ETag"); tag != plan.header.Get("ETag") {
		t.Errorf("ETag of the watermark %s, of the plan %s", tag, plan.header.Get("ETag"))
	}
	for _, reason := range []string{"", "short", "   short    "} {
		b.apply(plan, object{"reason": reason}).want(t, 422, "reason-too-short", "reason")
	}
	b.apply(plan, object{"digest": strings.Repeat("0", 64)}).want(t, 409, "digest-mismatch", "digest")
	b.apply(plan, object{"digest": ""}).want(t, 422, "invalid-field", "digest")
	b.apply(plan, object{"to": text(to.Add(time.Second))}).want(t, 422, "not-a-partition", "to")

	next := plan.body["next"].(object)
	if next["kind"] != "advance" || next["watermark"] != text(b.minute(22)) || next["coverage"].(object)["from"] != text(b.minute(0)) {
		t.Errorf("plan says the next run is %v", next)
	}
	if n := plan.body["recomputed"].(object)["partitions"]; n != float64(22) {
		t.Errorf("plan recomputes %v partitions, want the 22 after minute 0", n)
	}
	done := b.apply(plan, nil).want(t, 200)
	if done.body["progress"] != text(to) || done.body["watermark"] != text(b.minute(20)) || done.body["paused"] != true {
		t.Errorf("after the reset: %s", done.raw)
	}
	if tag := b.call("GET", ads+"/watermark", nil).header.Get("ETag"); tag != done.header.Get("ETag") {
		t.Errorf("ETag %s after it, answered %s", tag, done.header.Get("ETag"))
	}
	b.call("GET", done.header.Get("Location"), nil).want(t, 200)
	if head, m := b.live(); head.Reason != sink.Reset || !head.Progress.Equal(to) || m.Reason != sink.Reset {
		t.Errorf("CURRENT says %s, progress %s", head.Reason, head.Progress)
	}
	b.wantAudit("reset-applied", "reset", "pause")
	for i, actor := range []string{"deltad", "ada", "ada"} {
		if e := b.call("GET", ads+"/audit", nil).body["audit"].([]any)[i].(object); e["actor"] != actor {
			t.Errorf("audit entry %d is by %v, want %s", i, e["actor"], actor)
		}
	}

	b.step(22, microbatch.WasHeld)
	b.call("POST", ads+"/resume", object{"reason": "all is well again"}).want(t, 200)
	r := b.step(22, microbatch.Advanced)
	_, m := b.live()
	if !r.Watermark.Equal(b.minute(22)) || m.Coverage.From.After(to) {
		t.Errorf("next run: watermark %s, coverage from %s, want it to reach back to %s", r.Watermark, m.Coverage.From, to)
	}
	if m.Coverage.From.UTC() != b.minute(0) {
		t.Errorf("coverage from %s, the plan said %s", m.Coverage.From, b.minute(0))
	}
}

// wantAudit checks the newest actions of the audit trail.
func (b *bench) wantAudit(actions ...string) {
	b.t.Helper()
	trail := b.call("GET", ads+"/audit?limit=50", nil).want(b.t, 200).body["audit"].([]any)
	if len(trail) < len(actions) {
		b.t.Fatalf("audit trail has %d entries, want %v", len(trail), actions)
	}
	for i, action := range actions {
		e := trail[i].(object)
		if e["action"] != action {
			b.t.Errorf("audit entry %d is %v, want %s", i, e["action"], action)
		}
		if action == "reset" {
			details := e["details"].(object)
			if e["actor"] == "" || len(e["reason"].(string)) < 10 || details["digest"] == nil || details["plan"] == nil {
				b.t.Errorf("audit entry of the reset: %v", e)
			}
		}
	}
}

// TestResetByLivingLeader: the leader is asked and carries it out at once.
func TestResetByLivingLeader(t *testing.T) {
	b := newBench(t, options{})
	b.put(0, 1, 2)
	b.serve()
	for {
		if v := b.call("GET", ads, nil).want(t, 200); v.body["watermark"] != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	epoch := b.call("GET", ads, nil).body["leader"].(object)["epoch"]
	b.pause()
	began := time.Now()
	done := b.apply(b.plan(0), nil).want(t, 200)
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("took %s: the leader was not asked", took)
	}
	if v := b.call("GET", ads, nil).body["leader"].(object); v["epoch"] != epoch || v["here"] != true {
		t.Errorf("leader %v, want the one at epoch %v", v, epoch)
	}
	if done.body["progress"] != text(b.minute(0)) {
		t.Errorf("progress %v", done.body["progress"])
	}
}

// TestResetWaitsForAnotherLeader: where another process leads and does not
// answer in time, the intent is there to be looked at and the next leader
// carries it out.
func TestResetWaitsForAnotherLeader(t *testing.T) {
	b := newBench(t, options{})
	b.put(0, 1, 2)
	b.step(2, microbatch.Advanced)
	lease, err := b.app.State.Acquire(t.Context(), "ads", watermark.RoleDelta, "elsewhere", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.pause()
	plan := b.plan(0)
	id := b.app.NewID()
	path := ads + "/watermark/apply?wait=200ms"
	body := object{"to": plan.body["to"], "digest": plan.body["digest"], "reason": "nobody is listening there"}
	r := b.call("POST", path, body, "If-Match", plan.header.Get("ETag"), "Idempotency-Key", id).want(t, 202)
	if got := r.header.Get("Location"); got != ads+"/intents/"+id {
		t.Errorf("location %q", got)
	}
	if in := b.call("GET", r.header.Get("Location"), nil).want(t, 200).body; in["state"] != "pending" || in["actor"] != "http 127.0.0.1" {
		t.Errorf("intent %v", in)
	}
	if v := b.call("GET", ads, nil); len(v.body["pending_resets"].([]any)) != 1 {
		t.Errorf("pending resets: %s", v.raw)
	}
	b.apply(b.plan(0), nil).want(t, 409, "reset-pending")
	if err := b.app.State.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	// The same call again: no second reset, and now nobody leads.
	again := b.call("POST", path, body, "If-Match", plan.header.Get("ETag"), "Idempotency-Key", id).want(t, 200)
	if in := again.body["intent"].(object); in["id"] != id || in["state"] != "applied" {
		t.Errorf("intent %v", in)
	}
	body["to"] = text(b.minute(1))
	b.call("POST", path, body, "If-Match", plan.header.Get("ETag"), "Idempotency-Key", id).want(t, 422, "idempotency-key")
	b.call("POST", path, body, "If-Match", plan.header.Get("ETag"), "Idempotency-Key", "mine").want(t, 422, "idempotency-key")
	b.wantAudit("reset-applied", "reset", "pause")
}

// TestResetCrash stops the process at each step of a reset; the next leader
// finishes it, or marks it failed where it must not come about any more.
func TestResetCrash(t *testing.T) {
	for _, c := range []struct {
		name, at string
		resume   bool
		state    string
		progress int // of what the next leader finds
	}{
		{"before CURRENT", "reset planned", false, "applied", 1},
		{"after CURRENT", "reset current", false, "applied", 1},
		{"before CURRENT, resumed", "reset planned", true, "failed", 3},
		{"after CURRENT, resumed", "reset current", true, "applied", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			armed := false
			b := newBench(t, options{trace: func(step string) {
				if armed && step == c.at {
					armed = false
					panic("killed at " + step)
				}
			}})
			b.put(0, 1, 2, 3)
			b.step(3, microbatch.Advanced)
			b.pause()
			plan := b.plan(1)
			armed = true
			id := b.app.NewID()
			b.apply(plan, nil, "Idempotency-Key", id).want(t, 500, "internal")
			if c.resume {
				b.call("POST", ads+"/resume", object{"reason": "never mind"}).want(t, 200)
			}
			b.http.Close()
			b.open(options{}) // another process, which remembers nothing
			if in := b.call("GET", ads+"/intents/"+id, nil).want(t, 200).body; in["state"] != "pending" {
				t.Fatalf("after the crash the intent is %v", in["state"])
			}
			if !c.resume {
				b.step(3, microbatch.WasHeld)
				if v := b.call("GET", ads+"/watermark", nil); v.body["paused"] != true || v.body["progress"] != text(b.minute(c.progress)) {
					t.Errorf("next leader: %s", v.raw)
				}
			} else {
				b.app.Pipes[0].Pipeline().Once(t.Context(), b.minute(3), microbatch.StepOptions{})
			}
			in := b.call("GET", ads+"/intents/"+id, nil).want(t, 200).body
			if in["state"] != c.state {
				t.Errorf("intent is %v (%v), want %s", in["state"], in["note"], c.state)
			}
			if planned, err := b.app.State.PlannedRuns(t.Context(), "ads"); err != nil || len(planned) != 0 {
				t.Errorf("runs left planned: %v, %v", planned, err)
			}
			row, err := b.app.State.Pipeline(t.Context(), "ads")
			head, _ := b.live()
			if err != nil || !row.Progress.Equal(head.Progress.Time) || row.CurrentVersion > head.Version {
				t.Errorf("state store: progress %s at %d; CURRENT: %s at %d (%v)", row.Progress, row.CurrentVersion, head.Progress, head.Version, err)
			}
			if !c.resume && !head.Progress.Equal(b.minute(c.progress)) {
				t.Errorf("progress in CURRENT is %s", head.Progress)
			}
		})
	}
}

// TestForwardOverUnread: what was never read is passed over only where that is
// agreed to, and the plan names it.
func TestForwardOverUnread(t *testing.T) {
	b := newBench(t, options{})
	b.put(0)
	b.step(0, microbatch.Advanced)
	b.put(2, 4, 30)
	b.pause()
	plan := b.plan(20)
	unread, lost := plan.body["unread"].(object), plan.body["lost"].(object)
	if unread["partitions"] != float64(2) || unread["first"] != text(b.minute(2)) || unread["last"] != text(b.minute(4)) ||
		plan.body["needs_accept_data_loss"] != true {
		t.Errorf("plan: %s", plan.raw)
	}
	// The next run goes to minute 30, with a jump from 20: it reaches back to 20.
	if lost["partitions"] != float64(2) {
		t.Errorf("lost %v, want both", lost)
	}
	refused := b.apply(plan, nil).want(t, 409, "data-loss", "accept_data_loss")
	if d := refused.body["detail"].(string); !strings.Contains(d, text(b.minute(2))) {
		t.Errorf("detail does not name what is lost: %s", d)
	}
	b.put(3)
	b.apply(plan, object{"accept_data_loss": true}).want(t, 409, "digest-mismatch")
	b.apply(b.plan(20), object{"accept_data_loss": true}).want(t, 200)
	b.call("POST", ads+"/resume", object{"reason": "go on from there"}).want(t, 200)
	b.step(30, microbatch.Advanced)
	if _, m := b.live(); m.Coverage.From.Before(b.minute(19)) || len(m.Inputs) != 1 {
		t.Errorf("coverage from %s, %d inputs", m.Coverage.From, len(m.Inputs))
	}
	// Back and forth over what was read takes no such agreement.
	b.pause()
	b.apply(b.plan(25), nil).want(t, 200)
	if p := b.plan(30); p.body["needs_accept_data_loss"] != false {
		t.Errorf("plan over partitions that were read: %s", p.raw)
	}
}

// TestBackBeyondWindowMax: what window.max cuts off is a loss to agree to, and
// with on_gap fail the reset is refused.
func TestBackBeyondWindowMax(t *testing.T) {
	for _, c := range []struct{ name, window, slug string }{
		{"skip", ", max: 12m, on_gap: skip", "data-loss"},
		{"fail", ", max: 12m, on_gap: fail", "would-hold"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, options{window: c.window})
			for n := 0; n <= 20; n++ {
				b.put(n)
			}
			b.step(20, microbatch.Advanced)
			b.put(21)
			b.pause()
			plan := b.plan(3)
			r := b.apply(plan, nil)
			if c.slug == "would-hold" {
				r.want(t, 422, c.slug, "to")
				return
			}
			r.want(t, 409, c.slug, "accept_data_loss")
			if gap := plan.body["gap"].(object); gap["from"] != text(b.minute(3)) || gap["to"] != text(b.minute(9)) || plan.body["gap_partitions"] != float64(6) {
				t.Errorf("gap %v of %v partitions", gap, plan.body["gap_partitions"])
			}
			b.apply(plan, object{"accept_data_loss": true}).want(t, 200)
			b.call("POST", ads+"/resume", object{"reason": "all is well again"}).want(t, 200)
			b.step(21, microbatch.Advanced)
			lines := b.call("GET", ads+"/partitions?state="+partition.NeverCovered.String(), nil).want(t, 200).body["partitions"].([]any)
			if len(lines) != 6 {
				t.Errorf("%d partitions never covered, the plan said 6", len(lines))
			}
		})
	}
}

func TestPlanRefusals(t *testing.T) {
	b := newBench(t, options{})
	plan := func(body any) reply { return b.call("POST", ads+"/watermark/plan", body) }
	plan(object{"to": text(b.minute(0))}).want(t, 409, "no-pane")
	b.put(0, 1)
	b.step(1, microbatch.Advanced)
	plan(object{}).want(t, 422, "invalid-field", "to")
	plan(object{"to": "yesterday"}).want(t, 422, "invalid-field", "to")
	plan(object{"to": 5}).want(t, 422, "invalid-field", "to")
	plan(object{"to": text(b.minute(0).Add(time.Second))}).want(t, 422, "not-a-partition", "to")
	plan(object{"to": text(b.minute(1))}).want(t, 409, "already-there", "to")
	plan(object{"to": text(b.minute(100_000))}).want(t, 422, "in-the-future", "to")
	b.pause()
	before, _ := b.live()
	b.plan(0)
	if after, _ := b.live(); after.ETag != before.ETag {
		t.Error("a plan changed CURRENT")
	}
}

// TestOneOfManyResetsWins: callers that all saw one version do not both move
// progress.
func TestOneOfManyResetsWins(t *testing.T) {
	b := newBench(t, options{})
	b.put(0, 1, 2, 3)
	b.step(3, microbatch.Advanced)
	b.pause()
	plans := []reply{b.plan(0), b.plan(1), b.plan(2), b.plan(1)}
	statuses := make(chan int, len(plans))
	for _, p := range plans {
		go func() { statuses <- b.apply(p, nil).status }()
	}
	won := 0
	for range plans {
		switch status := <-statuses; status {
		case 200:
			won++
		case 409, 412:
		default:
			t.Errorf("status %d", status)
		}
	}
	if won != 1 {
		t.Errorf("%d resets came about, want one", won)
	}
	b.wantAudit("reset-applied", "reset", "pause")
}

// TestResetAfterADeadLeader: a lease that nobody renews is waited for, then
// the caller takes it.
func TestResetAfterADeadLeader(t *testing.T) {
	b := newBench(t, options{})
	b.put(0, 1)
	b.step(1, microbatch.Advanced)
	if _, err := b.app.State.Acquire(t.Context(), "ads", watermark.RoleDelta, "dead", 700*time.Millisecond, 0); err != nil {
		t.Fatal(err)
	}
	b.pause()
	done := b.apply(b.plan(0), nil).want(t, 200)
	if done.body["intent"].(object)["state"] != "applied" || b.leads() {
		t.Errorf("reset: %s, lease kept: %v", done.raw, b.leads())
	}
}
