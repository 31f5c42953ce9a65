package microbatch_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
)

// TestSkippedPartitionsAreCovered: P1, P2 and P3 appear while the watermark is
// at P0. One run goes to P3, its coverage holds P1 and P2, the ledger says so.
func TestSkippedPartitionsAreCovered(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "p0"))
	b.step("03:00", microbatch.Advanced)
	b.put("03:01", "a.ndjson", row("x", "03:01", 10, "p1"))
	b.put("03:02", "a.ndjson", row("y", "03:02", 100, "p2"))
	b.put("03:03", "a.ndjson", row("x", "03:03", 1000, "p3"))
	r := b.step("03:03", microbatch.Advanced)
	if !r.Watermark.Equal(at("03:03")) {
		t.Fatalf("watermark %s, want 03:03", r.Watermark)
	}
	docs := b.docs()
	if want := `{"item":"x","updates":3,"clicks":1011,"title":"p3","clicks_5m":1011,"double":2022}`; docs["x"] != want {
		t.Errorf("x is %s, want %s", docs["x"], want)
	}
	if docs["y"] == "" {
		t.Error("y of the skipped 03:02 is missing")
	}
	ledger := b.ledger()
	want := map[string]string{"03:00": "covered", "03:01": "skipped_then_covered", "03:02": "skipped_then_covered", "03:03": "covered"}
	for p, state := range want {
		if ledger[p] != state {
			t.Errorf("ledger of %s is %q, want %q", p, ledger[p], state)
		}
	}
	m := b.live()
	if len(m.Jumps) != 1 || !m.Jumps[0].From.Equal(at("03:00")) || !m.Jumps[0].At.Equal(at("03:03")) {
		t.Errorf("jumps are %v", m.Jumps)
	}
	if r := b.step("03:03", microbatch.WasIdle); r.Watermark != at("03:03") {
		t.Errorf("then watermark %s", r.Watermark)
	}
	if b.ledger()["03:01"] != "skipped_then_covered" {
		t.Error("an idle step changed the ledger")
	}
}

func TestThreeHoursOfAbsenceAreOneRun(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "before"))
	b.step("03:00", microbatch.Advanced)
	for m := 1; m <= 180; m++ {
		clock := at("03:00").Add(time.Duration(m) * time.Minute).Format("15:04")
		b.put(clock, "a.ndjson", row("x", clock, 1, clock))
	}
	b.restart()
	r := b.step("06:00", microbatch.Advanced)
	if !r.Watermark.Equal(at("06:00")) {
		t.Fatalf("watermark %s, want the newest, 06:00", r.Watermark)
	}
	if c := b.live().Coverage; !c.From.Equal(at("03:00")) {
		t.Errorf("coverage from %s, want the progress before, 03:00", c.From)
	}
	b.step("06:00", microbatch.WasIdle)
}

func TestB7LateObjects(t *testing.T) {
	b := newBench(t, benchOptions{})
	for _, clock := range []string{"00:50", "01:30", "02:10", "03:01", "03:05"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, clock))
		b.step(clock, microbatch.Advanced)
	}
	b.put("03:01", "late.ndjson", row("y", "03:01", 7, "late inside"))
	r := b.step("03:05", microbatch.Refined)
	if !r.Watermark.Equal(at("03:05")) || b.docs()["y"] == "" {
		t.Errorf("late object inside the window: watermark %s, documents %v", r.Watermark, b.docs())
	}
	if m := b.live(); m.Timing != "late" || m.Reason != "refine" {
		t.Errorf("timing %s, reason %s", m.Timing, m.Reason)
	}
	// Coverage now begins at 02:05; the listing reaches back two windows more.
	b.put("01:00", "late.ndjson", row("z", "01:00", 9, "late outside"))
	if r := b.step("03:05", microbatch.WasIdle); r.Late != 1 {
		t.Errorf("late object outside the window: counted %d, want 1", r.Late)
	}
	if r := b.step("03:05", microbatch.WasIdle); r.Late != 0 {
		t.Errorf("counted again: %d", r.Late)
	}
	b.put("03:06", "a.ndjson", row("x", "03:06", 1, "next"))
	b.step("03:06", microbatch.Advanced)
	late, err := b.state.LateObjects(t.Context(), "ads", 10)
	if err != nil || len(late) != 1 || late[0].Key != "2026/11/30/01/00/late.ndjson" {
		t.Errorf("late objects in the state store: %v, %v", late, err)
	}
	if b.ledger()["01:00"] != "late" {
		t.Errorf("ledger of 01:00 is %q", b.ledger()["01:00"])
	}
	b.restart()
	if r := b.step("03:06", microbatch.WasIdle); r.Late != 0 {
		t.Errorf("counted again after a restart: %d", r.Late)
	}
}

// TestB7LateBeforeTheFirstCoverage: what was there when deltad began is history,
// what comes there later is late.
func TestB7LateBeforeTheFirstCoverage(t *testing.T) {
	b := newBench(t, benchOptions{})
	for _, clock := range []string{"00:40", "01:30", "03:01", "03:05"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, clock))
	}
	if r := b.step("03:05", microbatch.Advanced); r.Late != 0 {
		t.Fatalf("history counts as %d late objects", r.Late)
	}
	b.restart()
	b.put("01:00", "late.ndjson", row("z", "01:00", 9, "no partition was there"))
	b.put("01:30", "late.ndjson", row("z", "01:30", 9, "beside what was there"))
	for _, want := range []int64{2, 0} {
		r := b.step("03:05", microbatch.WasIdle)
		if named := strings.Contains(r.Why, "late.ndjson"); r.Late != want || named != (want > 0) {
			t.Fatalf("%d late objects, want %d: %s", r.Late, want, r.Why)
		}
	}
	b.put("03:06", "a.ndjson", row("x", "03:06", 1, "next"))
	b.step("03:06", microbatch.Advanced)
	late, err := b.state.LateObjects(t.Context(), "ads", 10)
	if err != nil || len(late) != 2 {
		t.Errorf("late objects in the state store: %v, %v", late, err)
	}
	if l := b.ledger(); l["01:00"] != "late" || l["01:30"] != "late" || l["00:40"] != "" {
		t.Errorf("ledger %v", l)
	}
	b.restart()
	b.put("00:50", "late.ndjson", row("z", "00:50", 9, "before all lines"))
	for _, want := range []int64{1, 0} {
		if r := b.step("03:06", microbatch.WasIdle); r.Late != want {
			t.Errorf("after a restart: %d late objects, want %d", r.Late, want)
		}
	}
}

func TestB1ReachBackStaysForOneWindow(t *testing.T) {
	fill := func(b *bench, from, to string) {
		for c := at(from); !c.After(at(to)); c = c.Add(time.Minute) {
			clock := c.Format("15:04")
			b.put(clock, "a.ndjson", row("x", clock, 1, clock))
		}
	}
	t.Run("no base: nothing uncovered", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		b.put("03:00", "a.ndjson", row("x", "03:00", 1, "p0"))
		b.step("03:00", microbatch.Advanced)
		fill(b, "03:01", "05:10")
		r := b.step("05:10", microbatch.Advanced)
		if c := b.live().Coverage; !c.From.Equal(at("03:00")) || r.Uncovered != 0 {
			t.Errorf("coverage from %s, %d uncovered", c.From, r.Uncovered)
		}
		fill(b, "05:11", "06:12")
		b.step("05:11", microbatch.Advanced)
		if c := b.live().Coverage; !c.From.Equal(at("03:00")) {
			t.Errorf("the next pane covers from %s, want the reach back to 03:00", c.From)
		}
		for c := at("05:12"); !c.After(at("06:10")); c = c.Add(time.Minute) {
			b.step(c.Format("15:04"), microbatch.Advanced)
		}
		if c := b.live().Coverage; !c.From.Equal(at("05:10")) {
			t.Errorf("one window later coverage is from %s, want 05:10", c.From)
		}
	})
	t.Run("window.max cuts and says so", func(t *testing.T) {
		b := newBench(t, benchOptions{rule: window.Rule{Size: time.Hour, Max: time.Hour, OnGap: window.Skip}})
		b.put("03:00", "a.ndjson", row("x", "03:00", 1, "p0"))
		b.step("03:00", microbatch.Advanced)
		fill(b, "03:01", "05:10")
		r := b.step("05:10", microbatch.Advanced)
		m := b.live()
		if !m.Coverage.From.Equal(at("04:10")) || r.Uncovered != 70 {
			t.Errorf("coverage from %s, %d uncovered, want 04:10 and 70", m.Coverage.From, r.Uncovered)
		}
		if len(m.Gap) != 1 || !m.Gap[0].From.Equal(at("03:00")) || !m.Gap[0].To.Equal(at("04:10")) {
			t.Errorf("gap is %v", m.Gap)
		}
		never := 0
		for _, state := range b.ledger() {
			if state == partition.NeverCovered.String() {
				never++
			}
		}
		if never != 70 || b.ledger()["03:01"] != "never_covered" || b.ledger()["04:10"] != "never_covered" {
			t.Errorf("%d partitions never covered, 03:01 %q, 04:10 %q", never, b.ledger()["03:01"], b.ledger()["04:10"])
		}
	})
	t.Run("no hole inside the window", func(t *testing.T) {
		b := newBench(t, benchOptions{rule: window.Rule{Size: time.Hour, Max: time.Hour, OnGap: window.Skip}})
		b.put("03:00", "a.ndjson", row("x", "03:00", 1, "p0"))
		b.step("03:00", microbatch.Advanced)
		fill(b, "03:01", "03:55")
		if r := b.step("03:55", microbatch.Advanced); r.Uncovered != 0 || len(b.live().Gap) != 0 {
			t.Errorf("%d uncovered, gap %v", r.Uncovered, b.live().Gap)
		}
	})
	t.Run("on_gap fail holds the last pane", func(t *testing.T) {
		b := newBench(t, benchOptions{rule: window.Rule{Size: time.Hour, Max: time.Hour, OnGap: window.Fail}})
		b.put("03:00", "a.ndjson", row("x", "03:00", 1, "p0"))
		b.step("03:00", microbatch.Advanced)
		b.put("05:10", "a.ndjson", row("x", "05:10", 1, "far"))
		r := b.step("05:10", microbatch.WasHeld)
		if !r.Watermark.Equal(at("03:00")) {
			t.Errorf("watermark %s, want the last pane's", r.Watermark)
		}
	})
}

func TestB4LaggingPrefix(t *testing.T) {
	b := newBench(t, benchOptions{prefixes: []string{"a", "b"}})
	b.putKey("a/2026/11/30/03/10/f.ndjson", row("x", "03:10", 1, "a"))
	b.putKey("b/2026/11/30/03/02/f.ndjson", row("y", "03:02", 1, "b"))
	r := b.step("03:10", microbatch.Advanced)
	if !r.Watermark.Equal(at("03:10")) {
		t.Fatalf("watermark %s, want the newest over all prefixes", r.Watermark)
	}
	if len(r.Prefixes) != 2 || r.Prefixes[1].Newest == nil || !r.Prefixes[1].Newest.Equal(at("03:02")) {
		t.Errorf("prefixes are %+v, want each one's newest", r.Prefixes)
	}
	b.putKey("b/2026/11/30/03/03/f.ndjson", row("z", "03:03", 1, "b"))
	b.step("03:10", microbatch.Refined)
	if b.docs()["z"] == "" {
		t.Error("the lagging prefix's partition was not read by refinement")
	}
}

func TestB10FutureStampsAreQuarantined(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:05", "a.ndjson", row("x", "03:05", 1, "real"))
	b.putKey("2027/01/01/00/00/a.ndjson", row("x", "03:05", 1, "future"))
	b.putKey("9999/01/01/00/00/a.ndjson", row("x", "03:05", 1, "never"))
	b.putKey("2026/02/30/00/00/a.ndjson", row("x", "03:05", 1, "no such day"))
	r := b.step("03:05", microbatch.Advanced)
	if !r.Watermark.Equal(at("03:05")) {
		t.Fatalf("watermark %s", r.Watermark)
	}
	b.put("03:06", "a.ndjson", row("x", "03:06", 1, "next"))
	r = b.step("03:06", microbatch.Advanced)
	if !r.Watermark.Equal(at("03:06")) || r.Quarantined == 0 {
		t.Errorf("watermark %s, %d quarantined", r.Watermark, r.Quarantined)
	}
	if q := b.live().Quarantined; len(q) == 0 {
		t.Error("the manifest names nothing quarantined")
	}
}

func TestB5SharedModificationSecond(t *testing.T) {
	b := newBench(t, benchOptions{})
	for i := range 25 {
		b.put("03:00", string(rune('a'+i))+"1.ndjson", row("x", "03:00", 1, "first half"))
	}
	b.step("03:00", microbatch.Advanced)
	for i := range 25 {
		b.put("03:00", string(rune('a'+i))+"0.ndjson", row("x", "03:00", 1, "second half"))
	}
	b.step("03:00", microbatch.Refined)
	if got := b.live().Counts.Rows; got != 50 {
		t.Errorf("%d rows, want all 50", got)
	}
}

func TestB15MoreThanThousandObjects(t *testing.T) {
	for _, n := range []int{999, 1000, 1001, 2500} {
		b := newBench(t, benchOptions{})
		for i := range n {
			b.put("03:00", time.Unix(int64(i), 0).UTC().Format("150405")+".ndjson", row("x", "03:00", 1, "t"))
		}
		b.step("03:00", microbatch.Advanced)
		if got := b.live().Counts.Rows; got != int64(n) {
			t.Errorf("%d objects: %d rows", n, got)
		}
		b.step("03:00", microbatch.WasIdle)
	}
}

func TestB14AwkwardNames(t *testing.T) {
	b := newBench(t, benchOptions{})
	names := []string{"part+1 a=b%3A.ndjson", "ü.ndjson", `a\b.ndjson`, "100%.ndjson", "a&b'c.ndjson"}
	for _, n := range names {
		b.put("03:00", n, row(n, "03:00", 1, n))
	}
	b.step("03:00", microbatch.Advanced)
	inputs := map[string]bool{}
	for _, in := range b.live().Inputs {
		inputs[in.Key] = true
	}
	docs := b.docs()
	for _, n := range names {
		if !inputs["2026/11/30/03/00/"+n] || docs[n] == "" {
			t.Errorf("%q: in the manifest %v, document %q", n, inputs["2026/11/30/03/00/"+n], docs[n])
		}
	}
	b.step("03:00", microbatch.WasIdle)
}

func TestB18B19MarkersAndStagingTrees(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:05", "a.ndjson", row("x", "03:05", 1, "real"))
	b.putKey("2026/11/30/03/09/")
	b.put("03:08", "_SUCCESS")
	b.put("03:08", "_temporary/0/part.ndjson", row("no", "03:08", 1, "staged"))
	b.put("03:05", ".hive-staging_x/part.ndjson", row("no", "03:05", 1, "staged"))
	b.put("03:05", "__magic_job-1/part.ndjson", row("no", "03:05", 1, "staged"))
	b.putKey("2026/11/30/03/05/")
	r := b.step("03:09", microbatch.Advanced)
	if !r.Watermark.Equal(at("03:05")) || len(b.live().Inputs) != 1 || b.docs()["no"] != "" {
		t.Errorf("watermark %s, inputs %v", r.Watermark, b.live().Inputs)
	}
}
