package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// bucket compares pane, bases and ledger with what is there.
func (v *verifier) bucket(ctx context.Context, ev *evidence) error {
	after := ev.listing.Range.From.Add(-time.Microsecond)
	ledger, err := microbatch.ReadLedger(ctx, v.State, v.Name, partition.Range{From: after, To: ev.listing.Range.To})
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	w := newWorld(ev, ledger, v.Since)
	if err := v.confirm(ctx, w); err != nil {
		return err
	}
	if err := v.age(ctx, w); err != nil {
		return err
	}
	for _, check := range []func(*world) (*finder, string){coverage, ledgerLines, lost, unread, v.stale} {
		f, detail := check(w)
		if err := v.end(f, "%s", detail); err != nil {
			return err
		}
	}
	return nil
}

// world is everything that the checks of the bucket are a function of.
type world struct {
	*evidence
	since   time.Time
	objects []partition.Object
	there   map[string]partition.Object
	inputs  map[string]sink.Input // of the pane
	skipped map[string]bool       // versions that the pane or a base left out by name
	read    []map[string]sink.Input
	ledger  map[time.Time]watermark.LedgerEntry
	begin   time.Time // where the ledger begins
	// gone are the inputs that a HEAD did not find; young the objects too young
	// to have been read.
	gone, young map[string]bool
}

func version(key, etag string) string { return key + "\x00" + etag }

func newWorld(ev *evidence, ledger microbatch.Ledger, since time.Time) *world {
	w := &world{
		evidence: ev, since: since, objects: ev.listing.Inputs(ev.listing.Range), there: map[string]partition.Object{}, begin: ledger.Begin,
		inputs: byKey(ev.pane.Inputs), skipped: map[string]bool{}, ledger: map[time.Time]watermark.LedgerEntry{}, gone: map[string]bool{}, young: map[string]bool{},
	}
	for _, o := range w.objects {
		w.there[o.Key] = o
	}
	for _, m := range append([]sink.Manifest{ev.pane}, ev.bases...) {
		for _, s := range m.Skipped {
			w.skipped[version(s.Key, s.ETag)] = true
		}
	}
	for _, b := range ev.bases {
		w.read = append(w.read, byKey(b.Inputs))
	}
	for _, l := range ledger.Lines {
		w.ledger[l.Partition.UTC()] = l
	}
	return w
}

func byKey(inputs []sink.Input) map[string]sink.Input {
	out := make(map[string]sink.Input, len(inputs))
	for _, in := range inputs {
		out[in.Key] = in
	}
	return out
}

// confirm asks by name for the inputs that the listing lacks. Those of the base
// that have outlived the source's retention are not asked for.
func (v *verifier) confirm(ctx context.Context, w *world) error {
	var keys []string
	asked := map[string]bool{}
	note := func(in sink.Input) {
		if _, listed := w.there[in.Key]; !listed && !asked[in.Key] {
			asked[in.Key] = true
			keys = append(keys, in.Key)
		}
	}
	for _, in := range w.pane.Inputs {
		note(in)
	}
	if b := w.base(); b != nil {
		for _, in := range b.Inputs {
			if w.listing.Range.Contains(in.Partition.Time) && !v.expired(in.Partition.Time) {
				note(in)
			}
		}
	}
	const batch = 200
	for at := 0; at < len(keys); at += batch {
		gone, err := v.Source.ConfirmGone(ctx, keys[at:min(at+batch, len(keys))])
		if err != nil {
			return fmt.Errorf("look for %d objects that the listing lacks: %w", len(keys), err)
		}
		for _, key := range gone {
			w.gone[key] = true
		}
		v.Progress("look for objects by name", int64(min(at+batch, len(keys))), int64(len(keys)))
	}
	return nil
}

// expired says whether the source no longer has to keep a partition.
func (v *verifier) expired(start time.Time) bool {
	return v.Retention > 0 && start.Before(v.Now.Add(-v.Retention))
}

// age finds the unread objects that were written too lately to have been read.
func (v *verifier) age(ctx context.Context, w *world) error {
	if v.Fresh <= 0 {
		return nil
	}
	for _, o := range w.unreadObjects() {
		info, err := v.Raw.Head(ctx, o.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue // gone again
		}
		if err != nil {
			return fmt.Errorf("look at %s: %w", o.Key, err)
		}
		if info.LastModified.After(v.Now.Add(-v.Fresh)) {
			w.young[o.Key] = true
		}
	}
	return nil
}

// coverage asks of each visible partition who speaks for it.
func coverage(w *world) (*finder, string) {
	f := find(CheckCoverage)
	var covered, base, left, gaps, newer int
	starts := w.listing.Starts()
	for _, start := range starts {
		switch line, known := w.ledger[start]; {
		case start.Before(w.since):
		case start.After(w.pane.Watermark.Time):
			newer++
		case w.covers(start):
			covered++
		case w.base() != nil && !start.After(w.base().Cut.Time):
			base++
		case w.base() != nil:
			f.add("%s lies between the base's cut %s and the delta, which covers from %s", text(start), text(w.base().Cut.Time), text(w.pane.Coverage.From.Time))
		case inGap(w.pane.Gap, start), known && line.State == partition.NeverCovered.String():
			gaps++
		case known, w.begin.IsZero(), !start.After(w.begin):
			left++
		default:
			f.add("%s is neither covered nor named as a gap, and the ledger does not know it", text(start))
		}
	}
	slices.Sort(f.found)
	return f, fmt.Sprintf("%d partitions: %d by the delta, %d by the base, %d left behind by the coverage, %d in gaps that are named, %d newer than the watermark",
		len(starts), covered, base, left, gaps, newer)
}

func inGap(gaps []sink.Range, start time.Time) bool {
	return slices.ContainsFunc(gaps, func(g sink.Range) bool { return start.After(g.From.Time) && !start.After(g.To.Time) })
}

// ledgerLines compares the ledger with the pane's inputs.
func ledgerLines(w *world) (*finder, string) {
	f := find(CheckLedger)
	parts := map[time.Time][]partition.Object{}
	for _, in := range w.pane.Inputs {
		start := in.Partition.UTC()
		parts[start] = append(parts[start], partition.Object{Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: start})
	}
	lines := 0
	for start, objects := range parts {
		line, known := w.ledger[start]
		covered := w.covers(start)
		switch {
		case !known && !w.listing.Range.Contains(start): // carried from before what was listed
		case !known:
			f.add("%s: the pane has %d objects of it, the ledger does not know it", text(start), len(objects))
		case !covered: // read after its time: the line may be about others
			lines++
		case line.State != partition.Covered.String() && line.State != partition.SkippedThenCovered.String():
			f.add("%s: the pane covers it, the ledger says %s", text(start), line.State)
		case line.Fingerprint != partition.FingerprintOf(objects).String():
			f.add("%s: the ledger has the fingerprint of %d objects by run %s, the pane has %d others", text(start), line.Objects, line.RunID, len(objects))
		default:
			lines++
		}
	}
	slices.Sort(f.found)
	return f, fmt.Sprintf("%d partitions of the pane", lines)
}

// lost finds inputs of the pane that the bucket lost.
func lost(w *world) (*finder, string) {
	f := find(CheckLost)
	kept := 0
	for _, in := range w.pane.Inputs {
		switch {
		case !w.gone[in.Key]:
		case w.covers(in.Partition.Time):
			f.add("%s, an input of the pane, is gone; the next run publishes without it", in.Key)
		default:
			kept++ // its slice is: see the check of the state
		}
	}
	detail := fmt.Sprintf("%d inputs", len(w.pane.Inputs))
	if kept > 0 {
		detail += fmt.Sprintf(", %d of them gone with their slices kept until a base has read them", kept)
	}
	return f, detail
}

// unreadObjects are the visible objects up to the watermark that neither the
// pane nor, before its cut, every base has read.
func (w *world) unreadObjects() (out []partition.Object) {
	for _, o := range w.objects {
		if o.Partition.After(w.pane.Watermark.Time) || o.Partition.Before(w.since) || w.skipped[version(o.Key, o.ETag)] || w.has(o) {
			continue
		}
		out = append(out, o)
	}
	return out
}

// has says whether the index has read an object. One that the base read in
// another version is not unread but stale.
func (w *world) has(o partition.Object) bool {
	if in, ok := w.inputs[o.Key]; ok && in.ETag == o.ETag && in.Bytes == o.Size {
		return true
	}
	if w.covers(o.Partition) {
		return false
	}
	for i, b := range w.bases {
		if _, ok := w.read[i][o.Key]; !ok && !o.Partition.After(b.Cut.Time) {
			return false
		}
	}
	return len(w.bases) > 0
}

// unread finds objects that are there and that the index has not read.
func unread(w *world) (*finder, string) {
	f := find(CheckUnread)
	young, late := 0, 0
	var outside []partition.Object
	for _, o := range w.unreadObjects() {
		was, replaced := w.inputs[o.Key]
		switch {
		case w.young[o.Key]:
			young++
		case replaced:
			f.add("%s was replaced: the pane has read etag %s, the bucket has %s; the next run reads it", o.Key, was.ETag, o.ETag)
		case w.covers(o.Partition):
			f.add("%s is in the coverage and not in the pane; the next run reads it", o.Key)
		case w.base() != nil && o.Partition.After(w.reach):
			f.add("%s was read by neither base nor pane; the next run reads it", o.Key)
		case w.base() != nil:
			f.add("%s was read by neither base nor pane, and runs do not look back so far; a rebuild reads it", o.Key)
		case !inGap(w.pane.Gap, o.Partition):
			outside = append(outside, o)
		}
	}
	var lines []watermark.LedgerEntry
	for _, l := range w.ledger {
		lines = append(lines, l)
	}
	unnoted := microbatch.Unnoted(outside, microbatch.Ledger{Lines: lines, Begin: w.begin})
	for _, o := range unnoted {
		f.add("%s came when the coverage had passed its partition, and is not in the ledger", o.Key)
	}
	for _, l := range lines {
		if l.State == partition.Late.String() {
			late++
		}
	}
	detail := fmt.Sprintf("%d objects", len(w.objects))
	if young > 0 {
		detail += fmt.Sprintf(", %d too young to have been read", young)
	}
	if late > 0 {
		detail += fmt.Sprintf("; %d partitions with late objects, in the ledger", late)
	}
	return f, detail
}

// stale finds what the base read and what is not there as it read it, unless
// the pane names it.
func (v *verifier) stale(w *world) (*finder, string) {
	f := find(CheckStale)
	b := w.base()
	if b == nil {
		return f, "there is no base"
	}
	named := map[string]bool{}
	for _, key := range w.pane.Base.Stale {
		named[key] = true
	}
	found := 0
	var unnamed []string
	for _, in := range b.Inputs {
		start := in.Partition.Time
		if !w.listing.Range.Contains(start) || start.Before(w.since) {
			continue
		}
		o, listed := w.there[in.Key]
		switch {
		case listed && o.ETag == in.ETag && o.Size == in.Bytes, !listed && !w.gone[in.Key], listed && w.young[in.Key]:
			continue
		case named[in.Key]:
		case listed:
			unnamed = append(unnamed, in.Key+" was replaced since the base read it, and the pane does not name it")
		default:
			unnamed = append(unnamed, in.Key+" is gone since the base read it, and the pane does not name it")
		}
		found++
	}
	// A manifest names so many and counts the rest.
	if int64(found) > w.pane.Base.StaleCount {
		for _, u := range unnamed {
			f.add("%s", u)
		}
	}
	return f, fmt.Sprintf("base %s has read %d objects; %d of those listed were replaced or are gone, the pane names %d",
		b.RunID, len(b.Inputs), found, w.pane.Base.StaleCount)
}

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }
