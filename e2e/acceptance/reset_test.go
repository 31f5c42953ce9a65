//go:build integration

package acceptance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func get(bucket, key string) *s3.GetObjectInput {
	return &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String(key)}
}

type object = map[string]any

// reply is an answer of the admin endpoint.
type reply struct {
	status int
	header http.Header
	body   object
}

// call calls the endpoint; with a header of "" it is left out.
func (b *bench) call(method, path string, body object, ifMatch string) reply {
	b.t.Helper()
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			b.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, "http://"+b.admin+path, &content)
	if err != nil {
		b.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if ifMatch != "" {
		req.Header.Set("If-Match", ifMatch)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header}
	if err := json.NewDecoder(resp.Body).Decode(&r.body); err != nil {
		b.t.Fatalf("%s %s: %d without JSON: %v", method, path, resp.StatusCode, err)
	}
	return r
}

func (b *bench) want(r reply, status int) reply {
	b.t.Helper()
	if r.status != status {
		b.t.Fatalf("status %d, want %d: %v", r.status, status, r.body)
	}
	if kind := r.header.Get("Content-Type"); status >= 400 && !strings.HasPrefix(kind, "application/problem+json") {
		b.t.Errorf("a %d of type %s", status, kind)
	}
	return r
}

const items = "/api/v1/pipelines/items"

// answers waits until the endpoint does.
func (b *bench) answers() {
	b.t.Helper()
	eventually(b.t, "the endpoint answers", 20*time.Second, func() bool {
		resp, err := http.Get("http://" + b.admin + "/healthz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// TestResetThroughHTTP against a running daemon.
func TestResetThroughHTTP(t *testing.T) {
	t.Parallel()
	each(t, setup{trigger: "{every: 1s}", window: "{size: 5m, max: 1h}", admin: true}, func(t *testing.T, b *bench) {
		newest := time.Now().UTC().Truncate(time.Minute)
		var keys []string
		for i := 30; i >= 0; i-- {
			keys = append(keys, minute(newest.Add(-time.Duration(i)*time.Minute))+"a.ndjson")
		}
		b.putAll(keys, func(i int) []byte {
			return []byte(row("x", newest.Add(time.Duration(i-30)*time.Minute), 1, "t"))
		})
		to := newest.Add(-20 * time.Minute)
		d := start(t, b.config)
		b.answers()
		eventually(t, "the first pane", 30*time.Second, func() bool { return b.reached(newest) })
		if m := b.manifest(b.current().Delta.Manifest); m.Coverage.From.Before(to) {
			t.Fatalf("coverage from %s before the reset, the test means it to begin after %s", m.Coverage.From, to)
		}
		target := to.Format(time.RFC3339)
		plan := b.want(b.call("POST", items+"/watermark/plan", object{"to": target}, ""), 200)
		apply := func(change object, ifMatch string) reply {
			body := object{"to": target, "digest": plan.body["digest"], "reason": "prices of that hour were wrong", "actor": "ada"}
			for k, v := range change {
				body[k] = v
			}
			return b.call("POST", items+"/watermark/apply", body, ifMatch)
		}
		tag := plan.header.Get("ETag")
		b.want(apply(nil, tag), 409)
		b.want(b.call("POST", items+"/pause", object{"reason": "a reset is coming", "actor": "ada"}, ""), 200)
		b.want(apply(nil, ""), 428)
		b.want(apply(nil, tag), 412) // the pause made a new version
		plan = b.want(b.call("POST", items+"/watermark/plan", object{"to": target}, ""), 200)
		tag = b.want(b.call("GET", items+"/watermark", nil, ""), 200).header.Get("ETag")
		b.want(apply(object{"reason": "short"}, tag), 422)
		b.want(apply(object{"reason": ""}, tag), 422)
		next := plan.body["next"].(object)
		b.want(apply(nil, tag), 200)

		c := b.current()
		if c.Reason != "reset" || !c.Progress.Equal(to) || !c.Watermark.Equal(newest) {
			t.Errorf("CURRENT after the reset: %+v", c)
		}
		time.Sleep(2 * time.Second)
		if now := b.current(); now.Version != c.Version {
			t.Errorf("the paused pipeline went from version %d to %d", c.Version, now.Version)
		}
		b.audited("reset", "ada")
		b.want(b.call("POST", items+"/resume", object{"reason": "the reset is done"}, ""), 200)
		eventually(t, "the next run", 20*time.Second, func() bool { return b.current().Reason == "publish" })
		c = b.current()
		m := b.manifest(c.Delta.Manifest)
		if !c.Watermark.Equal(newest) || m.Coverage.From.After(to) || len(m.Inputs) < 20 {
			t.Errorf("the run after it: watermark %s, coverage (%s, %s], %d inputs; want it to reach back to %s",
				c.Watermark, m.Coverage.From, m.Coverage.To, len(m.Inputs), to)
		}
		if from := next["coverage"].(object)["from"]; m.Coverage.From.Format(time.RFC3339) != from {
			t.Errorf("coverage from %s, the plan said %s", m.Coverage.From, from)
		}
		d.Stop(leaving)
	})
}

// audited wants an action in the audit trail.
func (b *bench) audited(action, actor string) {
	b.t.Helper()
	trail := b.want(b.call("GET", items+"/audit", nil, ""), 200).body["audit"].([]any)
	for _, e := range trail {
		if e := e.(object); e["action"] == action && e["actor"] == actor && len(e["reason"].(string)) >= 10 {
			return
		}
	}
	b.t.Errorf("no %s by %s in the audit trail %v", action, actor, trail)
}

// TestKilledReset: the leader is killed between the steps of a reset; another
// replica finishes it.
func TestKilledReset(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"claimed", "reset planned", "reset current", "reset committed"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			each(t, setup{trigger: "{every: 1s}", window: "{size: 5m, max: 1h}", admin: true}, func(t *testing.T, b *bench) {
				newest := time.Now().UTC().Truncate(time.Minute)
				for i := range 12 {
					b.putNow(newest.Add(-time.Duration(i)*time.Minute), "a.ndjson", 1)
				}
				b.run(0, nil, "run", "--once")
				b.run(0, nil, "pause", "--reason", "a reset is coming")
				victim := startDoomed(t, b.write("doomed.yaml", setup{trigger: "{every: 1s}", window: "{size: 5m, max: 1h}"}), step)
				eventually(t, "the doomed one leads", 20*time.Second, func() bool { return strings.Contains(b.leader(), fmt.Sprint(victim.Cmd.Process.Pid)) })
				heir := start(t, b.config)
				b.answers()

				to := newest.Add(-8 * time.Minute)
				plan := b.want(b.call("POST", items+"/watermark/plan", object{"to": to.Format(time.RFC3339)}, ""), 200)
				r := b.call("POST", items+"/watermark/apply?wait=0s", object{
					"to": to.Format(time.RFC3339), "digest": plan.body["digest"], "reason": "prices of that hour were wrong", "actor": "ada",
				}, plan.header.Get("ETag"))
				b.want(r, 202)
				if code := victim.Wait(20 * time.Second); code != -1 {
					t.Fatalf("the doomed daemon ended with exit code %d, want it killed", code)
				}
				state := ""
				took := eventually(t, "the reset is finished", 30*time.Second, func() bool {
					state = fmt.Sprint(b.want(b.call("GET", r.header.Get("Location"), nil, ""), 200).body["state"])
					return state != "pending"
				})
				t.Logf("killed when %s; %s after %s", step, state, took.Round(time.Millisecond))
				c := b.current()
				if state != "applied" || c.Progress == nil || !c.Progress.Equal(to) || !c.Watermark.Equal(newest) {
					t.Errorf("the reset is %s, CURRENT %+v", state, c)
				}
				b.want(b.call("POST", items+"/resume", object{"reason": "the reset is done"}, ""), 200)
				eventually(t, "the next run", 20*time.Second, func() bool { return b.current().Reason == "publish" })
				if m := b.manifest(b.current().Delta.Manifest); m.Coverage.From.After(to) {
					t.Errorf("the run after it covers from %s, want it to reach %s", m.Coverage.From, to)
				}
				heir.Stop(leaving)
			})
		})
	}
}

// leader is who leads, by `deltad status`.
func (b *bench) leader() string {
	b.t.Helper()
	var status struct {
		Leader string `json:"leader"`
	}
	b.run(0, &status, "status")
	return status.Leader
}

// TestKilledRun: the process is killed at every step of a run; the next one
// goes on from there and publishes the same pane.
func TestKilledRun(t *testing.T) {
	t.Parallel()
	each(t, setup{trigger: "{every: 1s}"}, func(t *testing.T, b *bench) {
		newest := time.Now().UTC().Truncate(time.Minute)
		for i, step := range []string{"claimed", "planned", "slices", "data", "manifest", "current", "committed"} {
			b.putNow(newest, fmt.Sprintf("%d.ndjson", i), 1)
			victim := startDoomed(t, b.config, step)
			if code := victim.Wait(30 * time.Second); code != -1 {
				t.Fatalf("killed when %s: exit code %d\n%s", step, code, victim.Log())
			}
			published := b.current().Delta
			if visible := step == "current" || step == "committed"; visible != (published != nil && len(b.manifest(published.Manifest).Inputs) == i+1) {
				t.Errorf("killed when %s: CURRENT names %+v", step, published)
			}
			eventually(t, "the killed one's lease ends", 20*time.Second, func() bool { return b.leader() == "" })
			b.run(0, nil, "run", "--once")
			if doc := b.document("x"); doc["updates"] != float64(i+1) {
				t.Errorf("killed when %s, and run again: document x is %v, want %d updates", step, doc, i+1)
			}
		}
		// The last leader that published has settled what was left open.
		b.putNow(newest, "last.ndjson", 1)
		b.run(0, nil, "run", "--once")
		var runs []struct {
			Status string `json:"status"`
		}
		b.run(0, &runs, "runs", "--limit", "1000")
		ended := map[string]int{}
		for _, r := range runs {
			ended[r.Status]++
		}
		if ended["planned"] > 0 || ended["published"] != 8 || ended["abandoned"] != 4 {
			t.Errorf("the journal has %v, want 8 runs published and the 4 killed before CURRENT abandoned", ended)
		}
	})
}
