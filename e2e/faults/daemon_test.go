//go:build integration

package faults_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/binary"
	"github.com/deltad/deltad/e2e/faults/s3proxy"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/store/s3"
)

// daemon starts the binary on the world's pipeline, through the proxy and with
// the settings that users have.
func (w *world) daemon(every time.Duration) *binary.Process {
	w.t.Helper()
	text := fmt.Sprintf(index, w.dsn, "s3://"+w.bucket+"/"+w.root+"/in", "s3://"+w.bucket+"/"+w.root+"/out")
	options := fmt.Sprintf(", s3: {region: us-east-1, endpoint: %q, path_style: true}", w.proxy.URL)
	text = strings.Replace(text, `/in",`, `/in"`+options+",", 1)
	text = strings.Replace(text, `/out",`, `/out"`+options+",", 1)
	text = strings.Replace(text, "every: 1s", "every: "+every.String(), 1)
	path := filepath.Join(w.t.TempDir(), "deltad.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(deltad, "run", "-c", path)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+env.Key, "AWS_SECRET_ACCESS_KEY="+env.Secret)
	return binary.Start(w.t, cmd)
}

// TestB36FiveMinutesOf503 is an outage of as many triggers as five minutes
// have by default and more: the daemon keeps asking, never in a tight loop,
// and publishes what is due at the first trigger after it.
func TestB36FiveMinutesOf503(t *testing.T) {
	t.Parallel()
	const every, outage = 2 * time.Second, 36 * time.Second // 18 triggers; by default 10 in five minutes
	for _, e := range env.S3 {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, e, worldOptions{})
			w.produce()
			p := w.daemon(every)
			w.waitFor(20 * time.Second)
			w.follow()
			w.proxy.Add(s3proxy.Rule{Fault: s3proxy.SlowDown()})
			w.proxy.Take()
			version, panes := w.version, w.panes
			for range 4 {
				w.produce()
				time.Sleep(outage / 4)
			}
			w.read()
			log, hits := w.proxy.Take(), w.proxy.Clear()
			took := w.waitFor(every + 8*time.Second) // a pause within a step may be under way
			busiest, longest := pace(log)
			t.Logf("%d requests in %s, at most %d in a second, never none for %s; live %s after the end",
				len(log), outage, busiest, longest.Round(time.Millisecond), took.Round(time.Millisecond))
			met.add("five minutes of 503", "all requests", hits, false)
			if w.version == version || w.panes != panes+1 {
				t.Errorf("%d panes from version %d to %d, want one", w.panes-panes, version, w.version)
			}
			if busiest > 6 || len(log) > 4*int(outage/every) || longest > 4*every {
				t.Errorf("%d requests, at most %d in a second, none for %s", len(log), busiest, longest)
			}
			w.same()
			p.Stop(10 * time.Second)
			w.agrees()
		})
	}
}

// pace is the most requests in any one second, and the longest time without.
func pace(log []s3proxy.Entry) (busiest int, longest time.Duration) {
	for i, e := range log {
		n := 0
		for _, other := range log[i:] {
			if other.At.Sub(e.At) < time.Second {
				n++
			}
		}
		busiest = max(busiest, n)
		if i > 0 {
			longest = max(longest, e.At.Sub(log[i-1].At))
		}
	}
	return busiest, longest
}

// TestB36RetryQuotaRunsOut fails so often that the client stops retrying: the
// first step after the end goes through all the same.
func TestB36RetryQuotaRunsOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, env.S3[0], worldOptions{})
	w.produce()
	w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
	w.follow()
	w.produce()
	w.proxy.Take()
	w.proxy.Add(s3proxy.Rule{Fault: s3proxy.Internal()})
	steps := 0
	for single := false; !single && steps < 60; steps++ {
		if r := w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}); r.Outcome != microbatch.Failed {
			t.Fatalf("step %d: %s", steps, r.Outcome)
		}
		single = len(w.proxy.Take()) <= 2 // a look and the report's, each once
	}
	met.add("500 until the quota is gone", "all requests", w.proxy.Clear(), true)
	t.Logf("the quota was gone after %d steps", steps)
	if steps == 60 {
		t.Error("the client's quota did not run out: nothing was tested")
	}
	w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
	w.same()
	w.agrees()
}

// TestB30StopDuringRequests asks the daemon to stop while a request of each
// kind gets no answer: it leaves within its grace, nothing half done is
// visible, and the next one goes on at once.
func TestB30StopDuringRequests(t *testing.T) {
	t.Parallel()
	const grace = 25 * time.Second
	for _, pl := range places {
		if pl.restart || pl.gone || pl.collect {
			continue
		}
		t.Run(pl.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, env.S3[0], worldOptions{})
			w.produce()
			if pl.name != "put CURRENT, claim" {
				w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
				w.follow()
				w.produce()
			}
			w.proxy.Add(s3proxy.Rule{Match: pl.match, Fault: s3proxy.Stalled(time.Minute)})
			p := w.daemon(time.Second)
			for deadline := time.Now().Add(20 * time.Second); !w.hit(); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the request was not made")
				}
			}
			took := p.Stop(grace + 8*time.Second)
			t.Logf("left %s after SIGTERM", took.Round(time.Millisecond))
			w.read()
			met.add("SIGTERM while it stalls", pl.name, w.proxy.Clear(), true)
			w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
			w.same()
			w.produce()
			w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
			w.same()
			w.agrees()
		})
	}
}

// hit says whether any request has met a fault since it was last asked.
func (w *world) hit() bool { return faulted(w.proxy) }

func faulted(p *s3proxy.Proxy) bool {
	for _, e := range p.Take() {
		if e.Fault != "" {
			return true
		}
	}
	return false
}

// TestB36TrailersRefused meets a server that does not know checksum trailers,
// which clients send over TLS: the error says what to set, and so set it works.
func TestB36TrailersRefused(t *testing.T) {
	t.Parallel()
	for _, e := range env.S3 {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, e, worldOptions{tls: true})
			refuse := func() { w.proxy.Add(s3proxy.Rule{Fault: s3proxy.NoTrailers()}) }
			refuse()
			w.produce()
			r := w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{})
			if r.Outcome != microbatch.Failed || !strings.Contains(r.Why, "`checksum: when_required`") {
				t.Errorf("%s: %s; want advice", r.Outcome, r.Why)
			}
			if w.read() != nil {
				t.Error("there is a pane")
			}
			met.add("checksum trailers refused", "every put", w.proxy.Clear(), true)
			w.build(worldOptions{tls: true, s3: s3.Options{Checksum: s3.WhenRequired}})
			refuse()
			w.produce()
			w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
			w.same()
			w.agrees()
		})
	}
}

// TestB36CABundleVariable trusts a server by the SDK's own variable.
func TestB36CABundleVariable(t *testing.T) {
	w := newWorld(t, env.S3[0], worldOptions{tls: true})
	t.Setenv("AWS_CA_BUNDLE", w.certificate())
	st := openBucket(t, w.proxy.URL, w.bucket, w.root, s3.Options{})
	if _, err := st.Put(t.Context(), "k", strings.NewReader("x"), putOptions); err != nil {
		t.Error(err)
	}
	t.Setenv("AWS_CA_BUNDLE", "")
	untrusting := openBucket(t, w.proxy.URL, w.bucket, w.root, s3.Options{Attempts: 1})
	if _, err := untrusting.Put(t.Context(), "k2", strings.NewReader("x"), putOptions); err == nil {
		t.Error("a server with an unknown certificate was trusted")
	}
}
