package microbatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// overtaken is a lister that does something else first, once.
type overtaken struct {
	microbatch.Lister
	first func()
}

func (o *overtaken) Scan(ctx context.Context, now, after time.Time) (source.Listing, error) {
	if o.first != nil {
		o.first()
		o.first = nil
	}
	return o.Lister.Scan(ctx, now, after)
}

// TestPlanOvertakenByALatePublish has a predecessor's put of CURRENT arrive
// between a step's listing and its claim: the step plans again from what is
// there.
func TestPlanOvertakenByALatePublish(t *testing.T) {
	b := newBench(t, benchOptions{})
	b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
	b.step("03:00", microbatch.Advanced)
	read := func() []byte {
		body, _, err := store.ReadAll(t.Context(), b.out, sink.CurrentKey, 4096, store.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	write := func(body []byte) {
		if _, err := store.PutBytes(t.Context(), b.out, sink.CurrentKey, body, store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	before := read()
	b.put("03:01", "a.ndjson", row("x", "03:01", 1, "t"))
	b.step("03:01", microbatch.Advanced)
	after := read()
	write(before) // the put is still on its way
	b.set.Lister = &overtaken{Lister: b.set.Lister, first: func() { write(after) }}
	b.restart()
	r := b.step("03:01", microbatch.WasIdle)
	if !r.Watermark.Equal(at("03:01")) {
		t.Errorf("watermark %s", r.Watermark)
	}
	b.put("03:02", "a.ndjson", row("x", "03:02", 1, "t"))
	b.step("03:02", microbatch.Advanced)
}
