//go:build integration

package crash_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/sink"
)

// runSteps are the steps of a run as the engine names them, in their order.
var runSteps = []string{"claimed", "planned", "slices", "data", "manifest", "current", "committed"}

// The steps from which on the pane is live, so that the run need not be
// repeated, and those before its journal entry or after its settlement.
func live(step string) bool      { return step == "current" || step == "committed" }
func abandoned(step string) bool { return !live(step) && step != "claimed" }

// day is when the partitions of the tests begin.
var day = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// stage is one object that is dropped, and the run it leads to.
type stage struct {
	partition time.Time
	gen       int
	outcome   string   // of an undisturbed run
	crashes   []string // steps at which processes die, one after the other
}

func (s stage) key() string {
	return fmt.Sprintf("%s/gen-%d.ndjson", s.partition.Format("2006/01/02/15/04/05"), s.gen)
}

func (r *rig) drop(s stage) {
	r.t.Helper()
	if err := r.put(r.t.Context(), "p", s.key(), drop(s.partition, s.gen)); err != nil {
		r.t.Fatal(err)
	}
}

// chain is a history in which runs that advance and runs that refine die at
// every step, alone and several in a row.
func chain() []stage {
	stages := []stage{{partition: day, gen: 1, outcome: "advanced"}}
	add := func(crashes ...string) {
		last := stages[len(stages)-1]
		next := last.partition.Add(time.Second)
		stages = append(stages,
			stage{next, last.gen + 1, "advanced", crashes},
			stage{next, last.gen + 2, "refined", crashes})
	}
	for _, step := range runSteps {
		add(step)
	}
	add("manifest", "claimed", "planned")
	add("current")
	add() // settles what is left
	return stages
}

// sums are the hashes of a pipeline's live files.
func (r *rig) sums(pipeline string) string {
	r.t.Helper()
	var out []string
	m := r.manifest(pipeline)
	for _, f := range slices.Concat(m.Files, m.Tombstones) {
		out = append(out, fmt.Sprintf("%d rows %s", f.Rows, f.SHA256))
	}
	return strings.Join(out, ", ")
}

// undisturbed is what each stage leaves when nothing dies.
func undisturbed(t *testing.T, stages []stage) []string {
	t.Helper()
	r := newRig(t, places()[0], options{})
	sums := make([]string, len(stages))
	for i, s := range stages {
		r.drop(s)
		if l := r.once(); l.Outcome != s.outcome {
			t.Fatalf("the undisturbed run of generation %d ended with %+v", s.gen, l)
		}
		sums[i] = r.sums("p")
	}
	return sums
}

// modes are how processes are run on a place: one step at a time, or as
// daemons. The slowest server has its daemons in TestChaos.
func modes(p place) []string {
	if p.name == "seaweedfs" {
		return []string{"once"}
	}
	return []string{"once", "daemon"}
}

// TestCrashAtEveryStepOfARun kills runs that make the first pane, advance and
// refine at every step, in a process that takes one step and in a daemon.
func TestCrashAtEveryStepOfARun(t *testing.T) {
	t.Parallel()
	stages := chain()
	want := undisturbed(t, stages)
	for _, p := range places() {
		for _, mode := range modes(p) {
			t.Run(p.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				crashes := 0
				t.Run("chain", func(t *testing.T) {
					t.Parallel()
					r := newRig(t, p, options{})
					w := r.watch("p")
					for i, s := range stages {
						r.drop(s)
						r.live(w, mode, s)
						if got := r.sums("p"); got != want[i] {
							t.Fatalf("generation %d, after crashes at %v: files %s, undisturbed %s", s.gen, s.crashes, got, want[i])
						}
						crashes += len(s.crashes)
					}
					r.settled(stages)
					t.Logf("%d crashes in %d runs, the reader loaded %d panes", crashes, len(stages), w.loads())
				})
				for _, step := range runSteps {
					t.Run("first/"+step, func(t *testing.T) {
						t.Parallel()
						r := newRig(t, p, options{})
						w := r.watch("p")
						short := slices.Clone(stages[:2])
						short[0].crashes, short[1].crashes = []string{step}, nil
						for i, s := range short {
							r.drop(s)
							r.live(w, mode, s)
							if got := r.sums("p"); got != want[i] {
								t.Fatalf("generation %d: files %s, undisturbed %s", s.gen, got, want[i])
							}
						}
						r.settled(short)
					})
				}
			})
		}
	}
}

// live takes a pipeline through one stage, crashes included.
func (r *rig) live(w *watcher, mode string, s stage) {
	r.t.Helper()
	outcome := s.outcome
	for _, step := range s.crashes {
		if mode == "once" {
			r.crash(step, "run", "--once")
		} else {
			r.start(first, []string{"DELTAD_CRASH_AT=" + step}).dies(step)
		}
		if live(step) {
			outcome = "idle"
		}
	}
	if mode == "once" {
		if l := r.once(); l.Outcome != outcome {
			r.t.Fatalf("the run after crashes at %v ended with %+v, want %s", s.crashes, l, outcome)
		}
	} else {
		d := r.start(first, nil)
		if outcome != "idle" {
			await(r.t, 30*time.Second, fmt.Sprintf("generation %d is published", s.gen), func() bool { return len(d.said("pane published")) > 0 })
		}
		d.stop()
	}
	await(r.t, 10*time.Second, fmt.Sprintf("the reader sees generation %d", s.gen), func() bool {
		last, ok := w.last()
		return ok && last.gen == int64(s.gen)
	})
}

// journalled is a line of `deltad runs`.
type journalled struct {
	RunID  string `json:"run_id"`
	Reason string `json:"reason"`
	Status string `json:"status"`
	Epoch  int64  `json:"epoch"`
}

// settled checks the journal, the ledger and the history after stages.
func (r *rig) settled(stages []stage) {
	r.t.Helper()
	var runs []journalled
	r.led(&runs, "runs", "--limit", "1000")
	got, want, published := map[string]int{}, map[string]int{"published": len(stages)}, map[string]bool{}
	for _, run := range runs {
		got[run.Status]++
		published[run.RunID] = run.Status == "published"
	}
	objects := map[time.Time]int{}
	for _, s := range stages {
		objects[s.partition]++
		for _, step := range s.crashes {
			if abandoned(step) {
				want["abandoned"]++
			}
		}
	}
	// A run that lost its short lease on a busy machine was abandoned too.
	if got["published"] != want["published"] || got["abandoned"] < want["abandoned"] || got["published"]+got["abandoned"] != len(runs) {
		r.t.Errorf("the journal has runs %v, want %v", got, want)
	}
	history := r.history("p")
	for _, m := range history {
		if !published[m.RunID] {
			r.t.Errorf("run %s was live and is not journalled as published", m.RunID)
		}
	}
	if len(history) != len(stages) {
		r.t.Errorf("%d panes, want %d", len(history), len(stages))
	}
	var ledger []struct {
		Partition time.Time `json:"partition"`
		State     string    `json:"state"`
		Objects   int       `json:"objects"`
		RunID     string    `json:"run_id"`
	}
	r.led(&ledger, "partitions")
	for _, l := range ledger {
		if l.State != "covered" || l.Objects != objects[l.Partition.UTC()] || !published[l.RunID] {
			r.t.Errorf("the ledger says %+v, want %d objects, covered by a published run", l, objects[l.Partition.UTC()])
		}
	}
	if len(ledger) != len(objects) {
		r.t.Errorf("the ledger has %d partitions, want %d", len(ledger), len(objects))
	}
}

// TestCrashAtEveryStepOfACollection kills collections by hand and those of a
// daemon, whose publish carries what is condemned.
func TestCrashAtEveryStepOfACollection(t *testing.T) {
	t.Parallel()
	var stages []stage
	for i := range 10 {
		stages = append(stages, stage{partition: day.Add(time.Duration(i) * time.Second), gen: i + 1, outcome: "advanced"})
	}
	want := undisturbed(t, stages)
	for _, p := range places() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, p, options{retain: "{for: 0s, panes: 1}"})
			w := r.watch("p")
			next := 0
			publish := func() {
				r.drop(stages[next])
				r.live(w, "once", stages[next])
				next++
			}
			for range 3 {
				publish()
			}
			r.crash("condemn planned", "gc")
			if h := r.head("p"); len(h.Condemned) > 0 {
				t.Errorf("condemned before its time: %v", h.Condemned)
			}
			r.crash("condemned", "gc")
			condemned := r.head("p").Condemned
			if len(condemned) != 2 || r.dataOf(condemned) == 0 {
				t.Errorf("condemned %v, %d of their files are there; want 2 runs, and their files", condemned, r.dataOf(condemned))
			}
			r.crash("condemn planned", "gc") // before anything is deleted
			// A daemon's publishes: the first plans, the second condemns.
			for _, step := range []string{"condemn planned", "deleted", "current:2", "committed:2"} {
				d := r.start(first, []string{"DELTAD_CRASH_AT=" + step})
				r.drop(stages[next])
				next++
				if strings.HasSuffix(step, ":2") {
					await(t, 30*time.Second, "the first of two panes", func() bool { return len(d.said("pane published")) > 0 })
					r.drop(stages[next])
					next++
				}
				d.dies(step)
			}
			publish()
			for i := 0; ; i++ {
				var plan sink.Collection
				r.led(&plan, "gc")
				if plan.Empty() {
					break
				}
				if i == 10 {
					t.Fatalf("collections go on and on: %+v", plan)
				}
			}
			if got := r.sums("p"); got != want[next-1] {
				t.Errorf("files %s, undisturbed %s", got, want[next-1])
			}
			h := r.head("p")
			if ids := r.dataIDs(); len(h.Condemned) != 0 || !slices.Equal(ids, []string{h.RunID}) {
				t.Errorf("condemned %v, data of %v; want nothing and that of %s alone", h.Condemned, ids, h.RunID)
			}
			t.Logf("7 crashes, the reader loaded %d panes", w.loads())
		})
	}
}
