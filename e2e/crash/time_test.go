//go:build integration

package crash_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/sink/reader"
)

// stepAt takes one step with the clock at a time and wants an outcome.
func (r *rig) stepAt(clock time.Time, outcome string) line {
	r.t.Helper()
	got := r.run(nil, "run", "--once", "--now", clock.UTC().Format(time.RFC3339))
	var l line
	if err := json.Unmarshal([]byte(got.stdout), &l); err != nil {
		r.t.Fatalf("a step at %s printed %q (%v)\n%s", clock, got.stdout, err, got.stderr)
	}
	code := 0
	if outcome == "held" || outcome == "failed" {
		code = 1
	}
	if l.Outcome != outcome || got.code != code {
		r.t.Fatalf("a step at %s ended with %+v and exit code %d, want %s", clock, l, got.code, outcome)
	}
	return l
}

// shows wants a watermark, and documents of n records of which the newest is
// of a generation.
func (r *rig) shows(watermark time.Time, n, gen int64) {
	r.t.Helper()
	rd := reader.Open(r.out("p"), reader.Options{})
	if _, err := rd.Poll(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	s := rd.Snapshot()
	gotN, gotGen, err := whole(r.t.Context(), s)
	if err != nil || gotN != n || gotGen != gen || !s.Current.Watermark.Equal(watermark) {
		r.t.Errorf("the pane at %s has %d records up to generation %d (%v), want the one at %s, %d records, generation %d",
			s.Current.Watermark, gotN, gotGen, err, watermark, n, gen)
	}
}

// TestClockAYearAhead: a clock that is a year ahead for one step makes a stray
// partition of the future the watermark. Back in time the daemon does not idle
// in silence, and the commands that it names mend it.
func TestClockAYearAhead(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"file", "versitygw"} {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			// Nothing dies here; the ledger of a year's gap takes a while.
			r := newRig(t, placeOf(t, p), options{leaseTTL: 30 * time.Second})
			now := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
			year := 365 * 24 * time.Hour
			r.drop(stage{partition: now, gen: 1})
			r.stepAt(now, "advanced")
			// Without stray partitions the wrong clock does nothing.
			r.stepAt(now.Add(year), "idle")
			r.shows(now, 1, 1)

			stray := stage{partition: now.Add(year - 24*time.Hour), gen: 1000}
			r.drop(stray)
			r.stepAt(now, "idle") // it is quarantined
			l := r.stepAt(now.Add(year), "advanced")
			if !l.Watermark.Equal(stray.partition) {
				t.Fatalf("the clock a year ahead led to %+v", l)
			}
			r.drop(stage{partition: now.Add(time.Second), gen: 2})
			r.drop(stage{partition: now.Add(2 * time.Second), gen: 3})
			l = r.stepAt(now.Add(2*time.Second), "held")
			commands := regexp.MustCompile("`deltad ([^`]+)`").FindAllStringSubmatch(l.Why, -1)
			if len(commands) != 2 {
				t.Fatalf("held, and no way out: %s", l.Why)
			}
			d := r.start(first, nil)
			await(t, 30*time.Second, "the daemon says that it is held", func() bool { return len(d.said("held")) > 0 })
			d.stop()
			for _, c := range commands {
				args := strings.Fields(strings.ReplaceAll(c[1], "…", "clock-was-wrong"))
				r.led(nil, args...)
			}
			r.led(nil, "resume", "--reason", "the clock is right again")
			l = r.stepAt(now.Add(2*time.Second), "advanced")
			if !l.Watermark.Equal(now.Add(2 * time.Second)) {
				t.Errorf("after the reset: %+v", l)
			}
			r.shows(now.Add(2*time.Second), 3, 3)
			m := r.manifest("p")
			if len(m.Quarantined) != 1 || !strings.Contains(m.Quarantined[0].Key, stray.partition.Format("2006/01/02/15/04/05")) {
				t.Errorf("quarantined: %+v, want the stray partition", m.Quarantined)
			}
		})
	}
}

// TestFuturePartitions: a partition a granule ahead of the clock counts, one
// further ahead is set aside by name, hides nothing, and counts when its time
// comes.
func TestFuturePartitions(t *testing.T) {
	t.Parallel()
	r := newRig(t, placeOf(t, "file"), options{})
	now := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	r.drop(stage{partition: now.Add(5 * time.Second), gen: 9})
	r.stepAt(now, "idle")
	r.drop(stage{partition: now, gen: 1})
	if l := r.stepAt(now, "advanced"); !l.Watermark.Equal(now) {
		t.Errorf("beside a partition of the future: %+v", l)
	}
	if m := r.manifest("p"); len(m.Quarantined) != 1 {
		t.Errorf("quarantined: %+v", m.Quarantined)
	}
	r.drop(stage{partition: now.Add(time.Second), gen: 2})
	if l := r.stepAt(now, "advanced"); !l.Watermark.Equal(now.Add(time.Second)) {
		t.Errorf("a granule ahead: %+v", l)
	}
	r.stepAt(now.Add(3*time.Second), "idle")
	r.stepAt(now.Add(5*time.Second), "advanced")
	r.shows(now.Add(5*time.Second), 3, 9)
}

// TestDaylightSaving: hourly partitions of New York over both changes of 2026.
func TestDaylightSaving(t *testing.T) {
	t.Parallel()
	o := options{layout: "%Y/%m/%d/%H", zone: "America/New_York", window: "{size: 5h}", over: "5h"}
	put := func(r *rig, local string, gen int, start time.Time) {
		t.Helper()
		if err := r.put(t.Context(), "p", fmt.Sprintf("%s/gen-%d.ndjson", local, gen), drop(start, gen)); err != nil {
			t.Fatal(err)
		}
	}
	utc := func(month time.Month, day, hour, minute int) time.Time {
		return time.Date(2026, month, day, hour, minute, 0, 0, time.UTC)
	}
	ledger := func(r *rig, want ...time.Time) {
		t.Helper()
		var lines []struct {
			Partition time.Time `json:"partition"`
			State     string    `json:"state"`
		}
		r.led(&lines, "partitions")
		ok := len(lines) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = lines[i].Partition.Equal(want[i]) && lines[i].State == "covered"
		}
		if !ok {
			t.Errorf("ledger %v, want %v covered", lines, want)
		}
	}
	t.Run("an hour twice", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, placeOf(t, "file"), o)
		put(r, "2026/11/01/00", 1, utc(11, 1, 4, 0))
		r.stepAt(utc(11, 1, 4, 10), "advanced")
		put(r, "2026/11/01/01", 2, utc(11, 1, 5, 0))
		r.stepAt(utc(11, 1, 5, 10), "advanced")
		r.stepAt(utc(11, 1, 6, 10), "idle") // 01:10 again: no new partition
		put(r, "2026/11/01/01", 3, utc(11, 1, 5, 0))
		if l := r.stepAt(utc(11, 1, 6, 20), "refined"); !l.Watermark.Equal(utc(11, 1, 5, 0)) {
			t.Errorf("the hour that comes twice: %+v", l)
		}
		put(r, "2026/11/01/02", 4, utc(11, 1, 7, 0))
		if l := r.stepAt(utc(11, 1, 7, 0), "advanced"); !l.Watermark.Equal(utc(11, 1, 7, 0)) {
			t.Errorf("the hour after it: %+v", l)
		}
		r.shows(utc(11, 1, 7, 0), 4, 4)
		if m := r.manifest("p"); len(m.Jumps) != 0 {
			t.Errorf("nothing was jumped over: %v", m.Jumps)
		}
		ledger(r, utc(11, 1, 4, 0), utc(11, 1, 5, 0), utc(11, 1, 7, 0))
	})
	t.Run("an hour that is not", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, placeOf(t, "file"), o)
		put(r, "2026/03/08/01", 1, utc(3, 8, 6, 0))
		r.stepAt(utc(3, 8, 6, 10), "advanced")
		put(r, "2026/03/08/02", 100, utc(3, 8, 7, 0))
		r.stepAt(utc(3, 8, 7, 10), "idle")
		put(r, "2026/03/08/03", 2, utc(3, 8, 7, 0))
		if l := r.stepAt(utc(3, 8, 7, 20), "advanced"); !l.Watermark.Equal(utc(3, 8, 7, 0)) {
			t.Errorf("the hour after the one that is not: %+v", l)
		}
		r.shows(utc(3, 8, 7, 0), 2, 2)
		m := r.manifest("p")
		if len(m.Jumps) != 0 || len(m.Quarantined) != 1 || !strings.Contains(m.Quarantined[0].Reason, "does not exist") {
			t.Errorf("jumps %v, quarantined %+v; want none, and the hour that does not exist", m.Jumps, m.Quarantined)
		}
		ledger(r, utc(3, 8, 6, 0), utc(3, 8, 7, 0))
	})
}
