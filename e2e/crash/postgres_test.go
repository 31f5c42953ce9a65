//go:build integration

package crash_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/servers"
)

// TestPostgresRestarts stops and kills the Postgres under two daemons, three
// times each, for longer than a lease and for shorter. What is live stays
// live, runs fail and are tried again, nobody has to do anything, and
// everything is there in the end.
func TestPostgresRestarts(t *testing.T) {
	t.Parallel()
	pg, err := servers.StartPostgres(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	}()
	r := newRig(t, placeOf(t, "versitygw"), options{window: "{size: 30m}", over: "30m", dsn: databaseOn(t, pg.DSN, "state")})
	w := r.watch("p")
	ds := []*daemon{r.start(first, nil), r.start(first, nil)}
	load := r.produce("p")
	await(t, 30*time.Second, "a first pane", func() bool { return w.loads() > 0 })
	var recovered []time.Duration
	for _, down := range []time.Duration{0, r.o.leaseTTL / 2, 2 * r.o.leaseTTL} {
		pg.Kill()
		time.Sleep(down)
		if err := pg.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		await(t, 60*time.Second, fmt.Sprintf("a pane after an outage of %s", down), func() bool {
			for _, s := range w.since(at) {
				if s.Reason == "publish" {
					recovered = append(recovered, s.at.Sub(at))
					return true
				}
			}
			return false
		})
	}
	load.stop()
	r.caughtUp(w, load.count())
	for _, d := range ds {
		d.stop()
	}
	w.stop()
	r.oneLine(r.history("p"))
	if got, want := r.sums("p"), r.again(load.count()); got != want {
		t.Errorf("files %s, undisturbed %s", got, want)
	}
	t.Logf("the first pane came %v after Postgres was back", round(recovered))
	if slowest := maxOf(recovered); slowest > r.o.leaseTTL+trigger+slack {
		t.Errorf("no pane for %s after Postgres was back", slowest)
	}
}
