package microbatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/watermark"
)

// resource restarts the bench's pipeline with another source over the same
// bucket.
func (b *bench) resource(hash, pattern string, zone *time.Location, prefixes ...string) {
	b.t.Helper()
	layout, err := partition.ParseLayout(pattern, partition.LayoutOptions{Location: zone})
	if err != nil {
		b.t.Fatal(err)
	}
	src, err := source.New(b.raw, source.Options{Layout: layout, Prefixes: prefixes})
	if err != nil {
		b.t.Fatal(err)
	}
	b.set.Lister, b.set.Calendar, b.set.ConfigHash = src, layout.Calendar, hash
	b.restart()
}

const minutes = "%Y/%m/%d/%H/%M"

// TestAPrefixThatIsGivenUp: objects of a prefix that the configuration has no
// more are in the bucket, and no longer in the source: they leave the pane,
// where they are many once a person has said so.
func TestAPrefixThatIsGivenUp(t *testing.T) {
	b := newBench(t, benchOptions{prefixes: []string{"eu", "us"}})
	for _, clock := range []string{"03:00", "03:01"} {
		for _, prefix := range []string{"eu", "us"} {
			b.putKey(prefix+"/"+minuteKey(clock, "a.ndjson"), row(prefix, clock, 1, "t"))
		}
	}
	b.step("03:01", microbatch.Advanced)
	b.resource("c2", minutes, nil, "eu")
	b.step("03:01", microbatch.Refined)
	b.same(map[string]string{"eu": `{"item":"eu","updates":2,"clicks":2,"title":"t","clicks_5m":2,"double":4}`})

	for i := range 25 {
		b.putKey("eu/"+minuteKey("03:01", fmt.Sprintf("%d.ndjson", i)), row("x", "03:01", 1, "t"))
	}
	b.step("03:01", microbatch.Refined)
	b.resource("c3", minutes, nil, "us")
	b.step("03:01", microbatch.WasHeld)
	if r := b.p.Once(t.Context(), at("03:01"), microbatch.StepOptions{AcceptLoss: true}); r.Outcome != microbatch.Refined {
		t.Fatalf("with the loss accepted: %s (%s, %v)", r.Outcome, r.Why, r.Err)
	}
	b.same(map[string]string{"us": `{"item":"us","updates":2,"clicks":2,"title":"t","clicks_5m":2,"double":4}`})
}

// TestUnreadObjectsOfAPrefixThatIsGivenUp: what a base did not read and never
// will, since its prefix is given up, is not carried for ever, near or far; what
// a base read there makes it stale.
func TestUnreadObjectsOfAPrefixThatIsGivenUp(t *testing.T) {
	b := newBaseBench(t, nil)
	b.resource("c1", minutes, nil, "eu", "us")
	b.putKey("us/"+minuteKey("02:58", "read.ndjson"), row("read", "02:58", 1, "t"))
	b.putKey("eu/"+minuteKey("03:00", "a.ndjson"), row("x", "03:00", 1, "t"))
	b.step("03:00", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:00", microbatch.Refined)
	b.putKey("us/"+minuteKey("02:59", "near.ndjson"), row("near", "02:59", 1, "t"))
	b.putKey("us/"+minuteKey("02:31", "far.ndjson"), row("far", "02:31", 1, "t"))
	b.step("03:00", microbatch.Refined)
	b.putKey("eu/"+minuteKey("04:00", "a.ndjson"), row("x", "04:00", 1, "t"))
	b.step("04:00", microbatch.Advanced)
	if m := b.live(); len(m.Inputs) < 3 {
		t.Fatalf("inputs are %+v: nothing is carried", m.Inputs)
	}
	b.resource("c2", minutes, nil, "eu")
	b.step("04:00", microbatch.Refined)
	m := b.live()
	for _, in := range m.Inputs {
		if in.Key[:3] == "us/" {
			t.Errorf("%s is an input", in.Key)
		}
	}
	if len(m.Base.Stale) != 1 {
		t.Errorf("stale is %v, want what the base read below us/", m.Base.Stale)
	}
	b.same(map[string]string{
		"x":    `{"item":"x","updates":2,"clicks":2,"title":"t","clicks_5m":1,"double":4}`,
		"read": `{"item":"read","updates":1,"clicks":1,"title":"t","clicks_5m":null,"double":2}`,
	})
}

// TestPartitionsInAnotherZone: in another time zone objects are in other
// partitions, and those that come to lie in the future are in none: not an
// object is in the pane under its old partition.
func TestPartitionsInAnotherZone(t *testing.T) {
	b := newBench(t, benchOptions{})
	for _, clock := range []string{"03:00", "03:01", "03:02"} {
		b.put(clock, "a.ndjson", row("at "+clock, clock, 1, "t"))
	}
	b.step("03:02", microbatch.Advanced)
	b.resource("c2", minutes, time.FixedZone("two minutes behind", -120))
	b.step("03:02", microbatch.Advanced)
	m := b.live()
	if len(m.Inputs) != 2 || len(m.Quarantined) != 1 {
		t.Fatalf("inputs are %+v, quarantined %+v", m.Inputs, m.Quarantined)
	}
	for i, clock := range []string{"03:02", "03:03"} {
		if in := m.Inputs[i]; !in.Partition.Equal(at(clock)) {
			t.Errorf("%s is in %s, want %s", in.Key, in.Partition, clock)
		}
	}
}
