package microbatch_test

import (
	"slices"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
)

// wantWaiting wants so many late objects to wait for a publication, by the
// pipeline's own last step and by a look from outside, which writes nothing.
func (b *bench) wantWaiting(r microbatch.Report, now string, keys ...string) {
	b.t.Helper()
	if r.LateWaiting != int64(len(keys)) {
		b.t.Errorf("%s: the step says that %d wait, want %v", now, r.LateWaiting, keys)
	}
	b.wantLooked(at(now), keys...)
}

func (b *bench) wantLooked(now time.Time, keys ...string) {
	b.t.Helper()
	head, err := b.set.Sink.Head(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	late, err := microbatch.New(b.set).LateWaiting(b.t.Context(), now, head.RunID)
	var got []string
	for _, o := range late {
		got = append(got, o.Key)
	}
	if err != nil || !slices.Equal(got, keys) {
		b.t.Errorf("%s: %v wait (%v), want %v", now, got, err, keys)
	}
}

// TestLateObjectsWait: from when they are found until a publication has them,
// after a restart too.
func TestLateObjectsWait(t *testing.T) {
	b := newBench(t, benchOptions{})
	if late, err := microbatch.New(b.set).LateWaiting(t.Context(), at("03:05"), ""); err != nil || len(late) > 0 {
		t.Errorf("before the first pane: %v, %v", late, err)
	}
	for _, clock := range []string{"01:30", "03:01", "03:05"} {
		b.put(clock, "a.ndjson", row("x", clock, 1, clock))
	}
	b.wantWaiting(b.step("03:05", microbatch.Advanced), "03:05")
	first := b.put("01:00", "late.ndjson", row("z", "01:00", 9, "late"))
	b.wantLooked(at("03:05"), first)
	b.wantWaiting(b.step("03:05", microbatch.WasIdle), "03:05", first)
	second := b.put("01:30", "late.ndjson", row("z", "01:30", 9, "late"))
	b.wantWaiting(b.step("03:05", microbatch.WasIdle), "03:05", first, second)
	b.wantWaiting(b.step("03:05", microbatch.WasIdle), "03:05", first, second)
	b.restart()
	b.wantWaiting(b.step("03:05", microbatch.WasIdle), "03:05", first, second)
	if late, err := microbatch.New(b.set).LateWaiting(t.Context(), at("03:05"), "another run"); err != nil || len(late) > 0 {
		t.Errorf("where the state store knows of another pane: %v, %v", late, err)
	}
	b.put("03:06", "a.ndjson", row("x", "03:06", 1, "next"))
	b.wantWaiting(b.step("03:06", microbatch.Advanced), "03:06")
	if n, err := b.state.CountLate(t.Context(), "ads"); err != nil || n != 2 {
		t.Errorf("the state store counts %d, %v, want 2", n, err)
	}
}

// TestMissedObjectsWait: those that source.settle did not wait for are late
// until the pane that has them is published.
func TestMissedObjectsWait(t *testing.T) {
	b := newBench(t, benchOptions{settle: 30 * time.Second})
	start := at("03:00")
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.stepAt(start.Add(90*time.Second), microbatch.Advanced, start)
	late := b.put("03:00", "late.ndjson", row("y", "03:00", 1, "t"))
	b.wantLooked(start.Add(110*time.Second), late)
	if r := b.stepAt(start.Add(110*time.Second), microbatch.Refined, start); r.Late != 1 || r.LateWaiting != 0 {
		t.Errorf("%d late, %d of them wait", r.Late, r.LateWaiting)
	}
	b.wantLooked(start.Add(110 * time.Second))
}
