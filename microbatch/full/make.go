package full

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// made is what a rebuild leaves.
type made struct {
	manifest sink.Manifest
	ref      sink.Ref
	passed   bool
}

// make makes a generation under the lease.
func (r *Rebuilder) make(ctx context.Context, l watermark.Lease, rb watermark.Rebuild, p *progress) (made, error) {
	p.phase("list", 0)
	if m, ok, err := r.earlier(ctx, rb); err != nil || ok {
		return m, err
	}
	head, live, err := r.pin(ctx, rb)
	if err != nil {
		return made{}, err
	}
	cut, err := r.cut(rb, live)
	if err != nil {
		return made{}, err
	}
	r.at("pinned")
	inputs, later, m, err := r.list(ctx, cut)
	if err != nil {
		return made{}, err
	}
	total := 0
	for _, in := range inputs {
		total += len(in.Objects)
	}
	p.phase("read", int64(total))
	rd := &reader{Rebuilder: r, cut: cut, builder: r.set.Builder, tell: p.add, out: attempt{r.set.Sink, l.Epoch}, patient: true}
	open := rd.builder.Open
	rd.builder.Open = func(o partition.Object) (blob scan.Blob, paths map[string]string) {
		r.set.Yield(ctx)
		return open(o)
	}
	g, err := rd.read(ctx, inputs, rd.forecast(ctx, inputs, later))
	if err != nil {
		return made{}, err
	}
	defer g.close()
	r.at("read")
	m.Pipeline, m.Kind, m.Version, m.RunID, m.Reason = r.set.Name, sink.Full, head.Version, rb.ID, sink.Publish
	m.Writer = sink.Writer{Epoch: l.Epoch, Nonce: l.Nonce, Build: r.set.Build}
	m.Cut, m.ConfigHash, m.CreatedAt = sink.AtPtr(cut), r.set.ConfigHash, sink.At(time.Now())
	m.Inputs, m.Skipped = g.inputs, append(m.Skipped, g.skipped...)
	m.Counts.Rows, m.Counts.Rejected = g.rows, g.rejected
	sink.SortInputs(m.Inputs)
	slices.SortFunc(m.Skipped, func(a, b sink.Passed) int { return strings.Compare(a.Key, b.Key) })
	pane := head.Delta.Ref()
	m.Full = &sink.FullIndex{Pane: &pane, Nulls: map[string]int64{}}
	if !r.set.Since.IsZero() {
		m.Full.Since = sink.AtPtr(r.set.Since)
	}
	if m.Full.Index, err = g.bound.Signature().Encode(r.set.Program); err != nil {
		return made{}, err
	}
	if err := rd.write(ctx, g, &m, p); err != nil {
		return made{}, err
	}
	r.at("written")
	p.phase("gate", 0)
	if err := r.gate(ctx, live, &m); err != nil {
		return made{}, err
	}
	r.at("gated")
	ref, err := r.set.Sink.WriteManifest(ctx, m)
	if errors.Is(err, sink.ErrExists) { // what its maker sent before it died has arrived
		if m, ok, rerr := r.earlier(ctx, rb); rerr != nil || ok {
			return m, rerr
		}
	}
	if err != nil {
		return made{}, err
	}
	r.at("manifest")
	return made{manifest: m, ref: ref, passed: len(failed(m.Checks)) == 0}, nil
}

// pin keeps the live pane and its base from being collected while the rebuild
// goes on, and returns them.
func (r *Rebuilder) pin(ctx context.Context, rb watermark.Rebuild) (sink.Head, sink.Manifest, error) {
	head, err := r.set.Sink.Head(ctx)
	if err != nil {
		return head, sink.Manifest{}, err
	}
	if head.Delta == nil {
		return head, sink.Manifest{}, fmt.Errorf("rebuild: %w: a full index is cut at the watermark of a pane", sink.ErrNoPane)
	}
	owner, why := watermark.RebuildOwner(rb.ID), "a rebuild began with it"
	pins := []watermark.Pin{{Pipeline: r.set.Name, Kind: watermark.PinPane, ID: head.RunID, Owner: owner, Reason: why}}
	if head.Base != nil {
		pins = append(pins, watermark.Pin{Pipeline: r.set.Name, Kind: watermark.PinBase, ID: head.Base.Generation, Owner: owner, Reason: why})
	}
	for _, pin := range pins {
		if err := r.set.State.Pin(ctx, pin); err != nil {
			return head, sink.Manifest{}, fmt.Errorf("pin %s %s: %w", pin.Kind, pin.ID, err)
		}
	}
	live, err := r.set.Sink.ReadManifest(ctx, head.Delta.Ref())
	return head, live, err
}

// cut is the newest partition that the generation is to include.
func (r *Rebuilder) cut(rb watermark.Rebuild, live sink.Manifest) (time.Time, error) {
	cut := rb.Cut
	if cut.IsZero() {
		cut = live.Watermark.Time
	}
	text := cut.UTC().Format(time.RFC3339)
	switch {
	case cut.After(live.Watermark.Time):
		return cut, fmt.Errorf("rebuild with cut %s: it lies beyond the watermark %s", text, live.Watermark.UTC().Format(time.RFC3339))
	case !r.set.Calendar.IsStart(cut):
		return cut, fmt.Errorf("rebuild with cut %s: no partition starts then; the nearest before is %s", text, r.set.Calendar.Floor(cut).UTC().Format(time.RFC3339))
	case cut.Before(r.set.Since):
		return cut, fmt.Errorf("rebuild with cut %s: it lies before full.since %s", text, r.set.Since.UTC().Format(time.RFC3339))
	}
	return cut, nil
}

// list freezes the objects: those of the partitions up to the cut, oldest
// first, but for the ones that are skipped. later are the objects beyond the
// cut: the delta's.
func (r *Rebuilder) list(ctx context.Context, cut time.Time) (inputs []slice.Input, later []partition.Object, m sink.Manifest, _ error) {
	after := time.Unix(0, 0).Add(-time.Second) // before the first partition that a layout can name
	if !r.set.Since.IsZero() {
		after = r.set.Since.Add(-time.Nanosecond)
	}
	listing, err := r.set.Lister.Scan(ctx, time.Now(), after)
	if err != nil {
		return nil, nil, m, err
	}
	states, err := r.set.State.ObjectStates(ctx, r.set.Name)
	if err != nil {
		return nil, nil, m, fmt.Errorf("look up skipped objects: %w", err)
	}
	type version struct{ key, etag string }
	skipped := map[version]string{}
	for _, s := range states {
		if !s.SkippedAt.IsZero() {
			skipped[version{s.Key, s.ETag}] = s.SkipReason
		}
	}
	for _, q := range listing.Quarantined {
		passed := sink.Passed{Key: q.Path + "/", Reason: q.Reason}
		if q.Partition != nil {
			passed.Partition = sink.AtPtr(*q.Partition)
		}
		m.Quarantined = append(m.Quarantined, passed)
	}
	for _, o := range listing.Inputs(partition.Range{From: after, To: cut}) {
		if why, ok := skipped[version{o.Key, o.ETag}]; ok {
			m.Skipped = append(m.Skipped, sink.Passed{Key: o.Key, Partition: sink.AtPtr(o.Partition), ETag: o.ETag, Bytes: o.Size, Reason: why})
			continue
		}
		if n := len(inputs); n == 0 || !inputs[n-1].Start.Equal(o.Partition) {
			inputs = append(inputs, slice.Input{Start: o.Partition})
		}
		in := &inputs[len(inputs)-1]
		in.Objects = append(in.Objects, o)
	}
	later = slices.DeleteFunc(listing.Inputs(partition.Range{From: cut, To: listing.Range.To}), func(o partition.Object) bool {
		_, skip := skipped[version{o.Key, o.ETag}]
		return skip
	})
	return inputs, later, m, nil
}

// putState writes a private file of the generation.
func (r *reader) putState(ctx context.Context, generation, name string, body io.ReadSeeker, size, rows int64) (sink.StateFile, error) {
	sum := sha256.New()
	if _, err := io.Copy(sum, body); err != nil {
		return sink.StateFile{}, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return sink.StateFile{}, err
	}
	f := sink.StateFile{Key: sink.FullStateKey(generation, name), Rows: rows, Bytes: size, SHA256: hex.EncodeToString(sum.Sum(nil))}
	var err error
	f.Key, err = r.out.PutState(ctx, f.Key, body, f.SHA256)
	return f, err
}

// gate asks whether the generation may take the place of the live one, and
// notes the answers in its manifest. An error is one of asking.
func (r *Rebuilder) gate(ctx context.Context, live sink.Manifest, m *sink.Manifest) error {
	var was *sink.Manifest
	if live.Base != nil {
		base, err := r.set.Sink.ReadBase(ctx, *live.Base)
		if err != nil {
			return fmt.Errorf("read the live base: %w", err)
		}
		was = &base
	}
	files, err := r.readBack(ctx, *m)
	if err != nil {
		return err
	}
	m.Checks = append(append(m.Checks, files), r.set.Gate.Compare(*m, was)...)
	m.Checks = append(m.Checks, sink.CheckResult{
		Name: CheckRejected, Passed: m.Counts.RejectedShare() <= r.set.MaxRejectShare,
		Detail: fmt.Sprintf("%d of %d rows, allowed is a share of %g", m.Counts.Rejected, m.Counts.Rows, r.set.MaxRejectShare),
	})
	return nil
}

// readBack reads every file as it is stored now: where its hash is right, it
// holds what was written.
func (r *Rebuilder) readBack(ctx context.Context, m sink.Manifest) (sink.CheckResult, error) {
	all := m.StateFiles()
	for _, f := range m.DataFiles() {
		all = append(all, sink.StateFile{Key: f.Key, Rows: f.Rows, Bytes: f.Bytes, SHA256: f.SHA256})
	}
	for _, f := range all {
		err := r.drain(ctx, f)
		if errors.Is(err, sink.ErrCorrupt) {
			return sink.CheckResult{Name: CheckFiles, Detail: err.Error()}, nil
		}
		if err != nil {
			return sink.CheckResult{}, err
		}
	}
	return sink.CheckResult{Name: CheckFiles, Passed: true, Detail: fmt.Sprintf("%d files", len(all))}, nil
}

func (r *Rebuilder) drain(ctx context.Context, f sink.StateFile) error {
	in, err := r.set.Sink.OpenState(ctx, f)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(io.Discard, in)
	return err
}
