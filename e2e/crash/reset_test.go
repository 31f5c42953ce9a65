//go:build integration

package crash_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/postgres"
	"github.com/deltad/deltad/watermark/sqlite"
)

// dataIDs are the runs whose data is in the output.
func (r *rig) dataIDs() []string {
	r.t.Helper()
	var ids []string
	for page, err := range store.Pages(r.t.Context(), r.out("p"), store.ListOptions{Prefix: "delta/"}) {
		if err != nil {
			r.t.Fatal(err)
		}
		for _, o := range page.Objects {
			ids = append(ids, strings.Split(o.Key, "/")[1])
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// dataOf counts those of runs that have data in the output.
func (r *rig) dataOf(runs []string) int {
	r.t.Helper()
	n := 0
	for _, id := range r.dataIDs() {
		if slices.Contains(runs, id) {
			n++
		}
	}
	return n
}

// state opens the state store beside the daemons.
func (r *rig) state(ctx context.Context) (watermark.Store, error) {
	if path, ok := strings.CutPrefix(r.stateURL, "sqlite://"); ok {
		return sqlite.Open(ctx, sqlite.Options{Path: path})
	}
	return postgres.Open(ctx, postgres.Options{URL: r.stateURL})
}

// TestCrashAtEveryStepOfAReset kills the reset command where nobody leads, and
// the leader that carries a reset out. Whatever was killed, the intent ends as
// applied, once, and the run after it publishes what an undisturbed one does.
func TestCrashAtEveryStepOfAReset(t *testing.T) {
	t.Parallel()
	var stages []stage
	for i := range 6 {
		stages = append(stages, stage{partition: day.Add(time.Duration(i) * time.Second), gen: i + 1, outcome: "advanced"})
	}
	want := undisturbed(t, stages)
	steps := []string{"claimed", "reset planned", "reset current", "reset committed"}
	for _, p := range places() {
		for _, mode := range modes(p) {
			t.Run(p.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, p, options{})
				w := r.watch("p")
				for _, s := range stages {
					r.drop(s)
					r.live(w, "once", s)
				}
				for i, step := range steps {
					to := stages[i].partition
					r.led(nil, "pause", "--reason", "a reset that crashes")
					if mode == "once" {
						r.crash(step, "watermark", "reset", "--to", to.Format(time.RFC3339), "--reason", "a reset that crashes")
						r.held()
					} else {
						r.resetOfDaemon(step, to)
					}
					r.applied(i+1, to)
					r.led(nil, "resume", "--reason", "the reset is done")
					l := r.once()
					if l.Outcome != "advanced" || !l.Watermark.Equal(stages[5].partition) {
						t.Errorf("the run after a reset that crashed at %q ended with %+v", step, l)
					}
					if got := r.sums("p"); got != want[5] {
						t.Errorf("after a reset that crashed at %q: files %s, undisturbed %s", step, got, want[5])
					}
				}
				var runs []journalled
				r.led(&runs, "runs", "--limit", "1000")
				count := map[string]int{}
				for _, run := range runs {
					count[run.Reason+" "+run.Status]++
				}
				if got, want := fmt.Sprint(count), fmt.Sprintf("map[publish published:%d reset published:%d]", len(stages)+len(steps), len(steps)); got != want {
					t.Errorf("the journal has %s, want %s", got, want)
				}
			})
		}
	}
}

// resetOfDaemon kills the leader at a step of a reset. The command that asked
// for it goes on waiting, and once the lease has expired does it itself.
func (r *rig) resetOfDaemon(step string, to time.Time) {
	r.t.Helper()
	if step == "claimed" {
		step = "reset planned" // a paused leader claims with the reset
	}
	d := r.start(first, []string{"DELTAD_CRASH_AT=" + step})
	await(r.t, 30*time.Second, "the daemon leads", func() bool { return len(d.said("leading")) > 0 })
	r.led(nil, "watermark", "reset", "--to", to.Format(time.RFC3339), "--reason", "a reset that crashes")
	d.dies(step)
}

// held takes a step of a paused pipeline, which settles resets and runs
// nothing.
func (r *rig) held() {
	r.t.Helper()
	deadline := time.Now().Add(r.o.leaseTTL + 20*time.Second)
	for {
		got := r.run(nil, "run", "--once")
		if got.code == 1 && strings.Contains(got.stdout, `"held"`) {
			return
		}
		if !got.again() || time.Now().After(deadline) {
			r.t.Fatalf("a step of a paused pipeline: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// applied wants no intent open, resets intents applied so far, and progress
// at to.
func (r *rig) applied(resets int, to time.Time) {
	r.t.Helper()
	st, err := r.state(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			r.t.Error(err)
		}
	}()
	pending, err := st.PendingIntents(r.t.Context(), "p")
	if err != nil || len(pending) > 0 {
		r.t.Errorf("intents still open: %v, %v", pending, err)
	}
	done := 0
	for _, m := range r.history("p") {
		if m.Reason != "reset" {
			continue
		}
		in, err := st.IntentByID(r.t.Context(), m.RunID)
		if err != nil || in.State != watermark.IntentApplied {
			r.t.Errorf("reset %s is live, its intent is %+v (%v)", m.RunID, in, err)
		}
		done++
	}
	h := r.head("p")
	row, err := st.Pipeline(r.t.Context(), "p")
	if err != nil || done != resets || !h.Progress.Equal(to) || !row.Progress.Equal(to) {
		r.t.Errorf("%d resets of %d; progress %s in CURRENT, %s in the state store (%v), want %s", done, resets, h.Progress, row.Progress, err, to)
	}
}
