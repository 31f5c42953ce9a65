//go:build integration

package acceptance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/binary"
)

// leaving is how long a daemon may take to stop.
const leaving = 30 * time.Second

// start starts a daemon; it ends with the test.
func start(t *testing.T, config string) *binary.Process {
	t.Helper()
	return binary.Start(t, command(context.Background(), deltad, "run", "-c", config))
}

// startDoomed starts one that kills itself at a step and whose lease ends
// soon after that.
func startDoomed(t *testing.T, config, step string) *binary.Process {
	t.Helper()
	cmd := command(context.Background(), doomed, "run", "-c", config)
	cmd.Env = append(cmd.Env, "DELTAD_CRASH_AT="+step, "DELTAD_LEASE_TTL=3s")
	return binary.Start(t, cmd)
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, limit time.Duration, holds func() bool) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if holds() {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
}

// current is what CURRENT says, null before there is one.
type current struct {
	Version   int64      `json:"version"`
	RunID     string     `json:"run_id"`
	Reason    string     `json:"reason"`
	Watermark *time.Time `json:"watermark"`
	Progress  *time.Time `json:"progress"`
	Delta     *struct {
		Manifest  string `json:"manifest"`
		Documents int64  `json:"documents"`
	} `json:"delta"`
}

func (b *bench) current() current {
	b.t.Helper()
	out, err := b.s3.GetObject(b.t.Context(), get(b.bucket, b.root+"out/CURRENT"))
	if err != nil {
		return current{}
	}
	defer out.Body.Close()
	var c current
	if err := json.NewDecoder(out.Body).Decode(&c); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// reached says whether the live pane is at a partition.
func (b *bench) reached(p time.Time) bool {
	w := b.current().Watermark
	return w != nil && w.Equal(p)
}

// putNow drops an object into the partition of a time.
func (b *bench) putNow(p time.Time, name string, clicks int) {
	b.t.Helper()
	b.put(minute(p)+name, []byte(row("x", p, clicks, name)))
}

// TestDaemon: panes appear by themselves, others stand by, SIGTERM drains.
func TestDaemon(t *testing.T) {
	inTurn(t, setup{trigger: "{every: 1s}", admin: true}, func(t *testing.T, b *bench) {
		p := time.Now().UTC().Truncate(time.Minute)
		b.putNow(p.Add(-3*time.Minute), "a.ndjson", 1)
		began := time.Now()
		d := start(t, b.config)
		eventually(t, "the first pane", 30*time.Second, func() bool { return b.reached(p.Add(-3 * time.Minute)) })
		first := time.Since(began)

		// Objects appear at any time of the trigger's second.
		rng := rand.New(rand.NewPCG(5, 5))
		var fresh []time.Duration
		pause := func() { time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond) }
		for i := 2; i >= 0; i-- {
			at := p.Add(-time.Duration(i) * time.Minute)
			pause()
			b.putNow(at, "a.ndjson", 1)
			fresh = append(fresh, eventually(t, "the next pane", 15*time.Second, func() bool { return b.reached(at) }))
		}
		for i := range 17 { // refinements of the newest
			was := b.current().Version
			pause()
			b.putNow(p, fmt.Sprintf("more-%d.ndjson", i), 1)
			fresh = append(fresh, eventually(t, "a refined pane", 15*time.Second, func() bool { return b.current().Version > was }))
		}
		if doc := b.document("x"); doc["updates"] != 21.0 || doc["clicks"] != 21.0 {
			t.Errorf("document x is %v", doc)
		}
		slices.Sort(fresh)
		figure("start to first pane", b.server.Name, fmt.Sprintf("%.2f s", first.Seconds()))
		figure("visible to readable, 1 s trigger, median of 20", b.server.Name, fmt.Sprintf("%d ms", fresh[10].Milliseconds()))
		figure("visible to readable, 1 s trigger, worst of 20", b.server.Name, fmt.Sprintf("%d ms", fresh[19].Milliseconds()))

		// A steady daemon that has nothing to do writes nothing.
		time.Sleep(1200 * time.Millisecond) // a step in hand ends
		before := b.current()
		b.proxy.take()
		time.Sleep(3 * time.Second)
		c := b.proxy.take()
		if c.writes() > 0 || c.total() < 2 || c.total() > 4*3 || b.current().Version != before.Version {
			t.Errorf("three idle seconds made %s", c)
		}
		figure("requests of a daemon's idle step", b.server.Name, fmt.Sprintf("%.1f", float64(c.total())/float64(max(1, c.byKind["LIST"]))))

		l := b.once("03:00", "standby")
		if !l.Watermark.Equal(p) {
			t.Errorf("standing by it says %+v", l)
		}
		var status struct {
			Leader string `json:"leader"`
			Epoch  int64  `json:"epoch"`
		}
		if b.run(0, &status, "status"); status.Leader == "" || status.Epoch < 1 {
			t.Errorf("status %+v while it leads", status)
		}
		other := start(t, b.config) // a second replica
		time.Sleep(500 * time.Millisecond)

		d.Stop(leaving)
		epoch := status.Epoch
		took := eventually(t, "the other replica leads", 20*time.Second, func() bool {
			b.run(0, &status, "status")
			return status.Leader != "" && status.Epoch > epoch
		})
		t.Logf("the other replica leads after %s", took)
		other.Stop(leaving)
		status.Leader = ""
		if b.run(0, &status, "status"); status.Leader != "" {
			t.Errorf("the lease is still held by %s", status.Leader)
		}
		b.run(0, nil, "run", "--once")
	})
}
