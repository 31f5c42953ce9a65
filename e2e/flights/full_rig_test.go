package flights_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/watermark"
)

// fullIndex is what a flights document is over a full index: every kind of
// field over one hour, a day and all there ever was.
const fullIndex = `
      key: [origin]
      event_time: date
      %s
      fields:
        flights: {count: "*"}
        flights_24h: {count: "*", over: 24h}
        delays_1h: {count: delay, over: 1h}
        far_24h: {count: "*", where: "distance > 1000", over: 24h}
        delay_total: {sum: delay}
        delay_total_24h: {sum: delay, over: 24h}
        delay_total_6h: {sum: delay, over: 6h}
        delay_max: {max: delay}
        delay_max_24h: {max: delay, over: 24h}
        delay_min_1h: {min: delay, over: 1h}
        distance_mean: {mean: distance}
        delay_mean_24h: {mean: delay, over: 24h}
        destination: {latest: destination}
        destination_1h: {latest: destination, over: 1h}
        destination_first: {earliest: destination}
        destinations: {set: destination, cap: 1000}
        destinations_24h: {distinct_exact: destination, over: 24h}
        delay_per_flight: {expr: "delay_total / flights"}
    full: {schedule: "0 3 * * *", promote: %s, support_previous_for: %dh, on_stale: alarm}
`

// fullRig is a rig whose pipeline has a full index.
type fullRig struct {
	*rig
	generations map[int]string // by the oracle's numbers
	making      *making
	onRollback  func()
}

// making is a rebuild under way. It stops where its objects are about to be
// listed, and where they have been read, until it is let go on.
type making struct {
	id      string
	at      chan string
	proceed chan struct{}
	report  full.Report
	err     error
}

func newFullRig(t *testing.T, p place, o options) *fullRig {
	t.Helper()
	r := &fullRig{generations: map[int]string{}}
	c := p.parsed(t, o.format, "on_gap: rebuild", fmt.Sprintf(fullIndex, o.deletes, o.promote, support))
	r.rig = &rig{t: t, place: p, config: c, trace: r.reached}
	r.open()
	t.Cleanup(func() { _ = r.app.Close() })
	return r
}

// reached is told where steps and rebuilds stand.
func (r *fullRig) reached(step string) {
	switch step {
	case "rebuild pinned", "rebuild read":
		r.making.at <- step
		<-r.making.proceed
	case "rollback committed":
		r.onRollback()
	}
}

// begin asks for a rebuild, or takes up the one that the engine has asked for,
// and makes it as far as the listing.
func (r *fullRig) begin(actor string) {
	r.t.Helper()
	ctx := r.t.Context()
	rb, err := r.app.State.OpenRebuild(ctx, "flights")
	if err != nil {
		rb, err = r.app.State.CreateRebuild(ctx, watermark.Rebuild{
			ID: r.app.NewID(), Pipeline: "flights", Cause: watermark.RebuildManual, Actor: actor, Reason: "the day's rebuild",
		})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	maker, err := r.pipe.Rebuilder(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	m := &making{id: rb.ID, at: make(chan string), proceed: make(chan struct{})}
	r.making = m
	go func() {
		m.report, m.err = maker.Run(ctx, rb)
		close(m.at)
	}()
	r.await("rebuild pinned")
}

// await wants the rebuild to come to a step, empty for its end.
func (r *fullRig) await(step string) {
	r.t.Helper()
	if got := <-r.making.at; got != step {
		r.t.Fatalf("%s: the rebuild came to %q (%v), want %q", r.place.name, got, r.making.err, step)
	}
}

// read lets the rebuild list and read, as the oracle's base of that number.
func (r *fullRig) read(b *base) {
	r.t.Helper()
	r.generations[b.number] = r.making.id
	r.making.proceed <- struct{}{}
	r.await("rebuild read")
}

// made lets the rebuild end and returns what it has become.
func (r *fullRig) made(b *base) watermark.Rebuild {
	r.t.Helper()
	r.making.proceed <- struct{}{}
	r.await("")
	rb, err := r.app.State.RebuildByID(r.t.Context(), r.making.id)
	if err != nil || r.making.err != nil || rb.State != watermark.RebuildCandidate && rb.State != watermark.RebuildHeld || !rb.ActualCut.Equal(b.cut) {
		r.t.Fatalf("%s: the rebuild ended %s, cut at %s (%v, %v), want a base cut at %s", r.place.name, rb.State, rb.ActualCut, err, r.making.err, b.cut)
	}
	return rb
}

// approve lets a base be promoted, past the gate if it is held.
func (r *fullRig) approve(b *base, reason string) {
	r.t.Helper()
	id := r.generations[b.number]
	var overrides []string
	rb, err := r.app.State.RebuildByID(r.t.Context(), id)
	if err == nil && rb.State == watermark.RebuildHeld {
		overrides = strings.Split(strings.TrimPrefix(rb.Error, "the gate: "), ", ")
	}
	if err == nil {
		_, err = r.app.State.ApproveRebuild(r.t.Context(), "flights", id, overrides, watermark.Change{ID: r.app.NewID(), Actor: "flights", Reason: reason})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// rollBack asks for a rollback to the last pane over the base before.
func (r *fullRig) rollBack() {
	r.t.Helper()
	ctx, m := r.t.Context(), r.snapshot().Manifest
	row, err := r.app.State.Pipeline(ctx, "flights")
	if err == nil {
		to := m.History[0].Pane
		_, err = r.app.State.CreateIntent(ctx, watermark.Intent{
			ID: r.app.NewID(), Pipeline: "flights", Kind: watermark.IntentRollback, Pane: watermark.ManifestRef{Key: to.Manifest, SHA256: to.SHA256},
			Bar: m.Base.Generation, Digest: "d", Actor: "flights", Reason: "the base before was better",
		}, row.Version)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// baseHashes are those of all files of a snapshot's base, private ones too.
func (r *fullRig) baseHashes(s *reader.Snapshot) string {
	r.t.Helper()
	out := r.hashes(*s.BaseManifest)
	for _, f := range s.BaseManifest.StateFiles() {
		out += "\n" + f.Key[strings.LastIndexByte(f.Key, '/')+1:] + " " + f.SHA256
	}
	return out
}

// documents are those of a snapshot as a reader iterates over them.
func documents(t *testing.T, s *reader.Snapshot) []duck.Row {
	t.Helper()
	var out []duck.Row
	for doc, err := range s.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		row := duck.Row{}
		for _, f := range doc.Fields {
			v, ok := doc.Column(f.Name)
			if !ok {
				t.Fatalf("document %v has no %s", doc.Key(), f.Name)
			}
			row[f.Name] = value(t, v, doc.Row)
		}
		out = append(out, row)
	}
	return out
}

// value is what DuckDB's driver would make of a value.
func value(t *testing.T, v *column.Vector, i int) any {
	t.Helper()
	if v.Null(i) {
		return nil
	}
	switch v.Type.Kind {
	case column.Int32, column.Int64:
		return v.Ints[i]
	case column.Float64:
		return v.Floats[i]
	case column.String:
		return v.Strings[i]
	case column.List:
		out := make([]any, 0, 8)
		for k := v.Offsets[i]; k < v.Offsets[i+1]; k++ {
			out = append(out, value(t, v.Elem, int(k)))
		}
		return out
	}
	t.Fatalf("a column of type %v", v.Type)
	return nil
}
