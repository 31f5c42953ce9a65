package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// Base is one generation of the full index as people see it.
type Base struct {
	Generation string    `json:"generation"`
	Cut        time.Time `json:"-"`
	// State is that of its rebuild; empty where the state store does not know it
	// any more.
	State     watermark.RebuildState `json:"state"`
	Documents int64                  `json:"documents"`
	// Checks is what the gate said, Failed the names of those that did not pass
	// and Overrides those a person passed over.
	Checks    []sink.CheckResult `json:"checks"`
	Failed    []string           `json:"failed"`
	Overrides []string           `json:"overrides"`
	// Approved says that the leader's next run may promote it. Live says that
	// CURRENT names it, Supported until when panes fit it beside the live one,
	// Target the run of the pane that a rollback to it would publish again.
	Approved  bool      `json:"approved"`
	Live      bool      `json:"live"`
	Supported time.Time `json:"-"`
	Target    string    `json:"rollback_target,omitempty"`
	// Barred says why it may not be promoted by itself, Pinned by whom it is
	// kept.
	Barred   string    `json:"barred,omitempty"`
	Pinned   []string  `json:"pinned"`
	Cause    string    `json:"cause"`
	Created  time.Time `json:"-"`
	Finished time.Time `json:"-"`
}

// Rebuilding is where the rebuilds of a pipeline stand, by the state store.
type Rebuilding struct {
	// Open is the rebuild that is queued or running, Candidate the newest that
	// passed the gate and is not promoted, Held the newest that did not pass.
	Open, Candidate, Held *watermark.Rebuild
	Bars                  []watermark.Bar
	// Next is the next scheduled rebuild; zero where they are by hand.
	Next time.Time
}

// recent is how many rebuilds are looked through: older ones are over.
const recent = 50

// Rebuilding asks the state store alone.
func (p Pipe) Rebuilding(ctx context.Context, now time.Time) (Rebuilding, error) {
	s := Rebuilding{Next: p.pipe.NextRebuild(now)}
	var err error
	if s.Bars, err = p.app.State.Bars(ctx, p.name); err != nil {
		return s, fmt.Errorf("look for barred bases: %w", err)
	}
	all, err := p.app.State.Rebuilds(ctx, p.name, recent, "")
	if err != nil {
		return s, fmt.Errorf("look for rebuilds: %w", err)
	}
	first := func(at **watermark.Rebuild, r *watermark.Rebuild) {
		if *at == nil {
			*at = r
		}
	}
	for i := range all {
		switch r := &all[i]; r.State {
		case watermark.RebuildQueued, watermark.RebuildRunning:
			first(&s.Open, r)
		case watermark.RebuildCandidate:
			first(&s.Candidate, r)
		case watermark.RebuildHeld:
			first(&s.Held, r)
		default:
		}
	}
	return s, nil
}

// LiveBase is the base that CURRENT names; nil without one.
func (p Pipe) LiveBase(ctx context.Context) (*sink.ManifestBase, error) {
	_, live, err := p.Live(ctx)
	if err != nil || live == nil {
		return nil, err
	}
	return live.Base, nil
}

// Live is CURRENT and the manifest of the live pane, without its inputs; nil
// before the first.
func (p Pipe) Live(ctx context.Context) (sink.Head, *sink.Manifest, error) {
	head, err := p.pipe.Sink.Head(ctx)
	if err != nil || head.Delta == nil {
		return head, nil, err
	}
	m, err := p.pipe.Sink.ReadManifest(ctx, head.Delta.Ref())
	if errors.Is(err, store.ErrNotFound) { // collected between the two
		if head, err = p.pipe.Sink.Head(ctx); err != nil || head.Delta == nil {
			return head, nil, err
		}
		m, err = p.pipe.Sink.ReadManifest(ctx, head.Delta.Ref())
	}
	if err != nil {
		return head, nil, fmt.Errorf("read the live pane: %w", err)
	}
	return head, &m, nil
}

// Bases are the generations of the last limit rebuilds that made one, and those
// that the live pane names, newest first.
func (p Pipe) Bases(ctx context.Context, now time.Time, limit int) ([]Base, error) {
	_, live, err := p.Live(ctx)
	if err != nil {
		return nil, err
	}
	rebuilds, err := p.app.State.Rebuilds(ctx, p.name, limit, "")
	if err != nil {
		return nil, fmt.Errorf("look for rebuilds: %w", err)
	}
	bars, err := p.app.State.Bars(ctx, p.name)
	if err != nil {
		return nil, fmt.Errorf("look for barred bases: %w", err)
	}
	pins, err := p.app.State.Pins(ctx, p.name)
	if err != nil {
		return nil, fmt.Errorf("look for pins: %w", err)
	}
	l := listing{by: map[string]*Base{}}
	for _, r := range rebuilds {
		if r.Manifest.Key == "" {
			continue
		}
		b, err := baseOf(r)
		if err != nil {
			return nil, err
		}
		*l.base(r.ID) = b
	}
	if live != nil {
		l.lineage(*live, now)
	}
	for _, bar := range bars {
		if b := l.by[bar.Generation]; b != nil {
			b.Barred = bar.Actor + ": " + bar.Reason
		}
	}
	for _, pin := range pins {
		if b := l.by[pin.ID]; b != nil && pin.Kind == watermark.PinBase {
			b.Pinned = append(b.Pinned, pin.Owner)
		}
	}
	return l.newestFirst(), nil
}

// baseOf is a generation as its rebuild left it.
func baseOf(r watermark.Rebuild) (Base, error) {
	b := Base{
		Generation: r.ID, Cut: r.ActualCut, State: r.State, Documents: r.Documents, Approved: r.Approved && r.State == watermark.RebuildCandidate,
		Cause: r.Cause, Created: r.CreatedAt, Finished: r.FinishedAt, Failed: []string{}, Overrides: []string{}, Pinned: []string{},
	}
	b.Overrides = append(b.Overrides, r.Overrides...)
	var err error
	if b.Checks, err = checksOf(r); err != nil {
		return b, err
	}
	for _, c := range b.Checks {
		if !c.Passed {
			b.Failed = append(b.Failed, c.Name)
		}
	}
	return b, nil
}

func checksOf(r watermark.Rebuild) ([]sink.CheckResult, error) {
	checks := []sink.CheckResult{}
	if len(r.Checks) > 0 {
		if err := json.Unmarshal(r.Checks, &checks); err != nil {
			return nil, fmt.Errorf("decode the checks of rebuild %s: %w", r.ID, err)
		}
	}
	return checks, nil
}

// FailedChecks is what held a rebuild at the gate.
func FailedChecks(r watermark.Rebuild) ([]sink.CheckResult, error) {
	checks, err := checksOf(r)
	return slices.DeleteFunc(checks, func(c sink.CheckResult) bool { return c.Passed }), err
}

// listing puts bases together from what the two stores say of them.
type listing struct{ by map[string]*Base }

func (l listing) base(generation string) *Base {
	b := l.by[generation]
	if b == nil {
		b = &Base{Generation: generation, Checks: []sink.CheckResult{}, Failed: []string{}, Overrides: []string{}, Pinned: []string{}}
		l.by[generation] = b
	}
	return b
}

func (l listing) lineage(live sink.Manifest, now time.Time) {
	if live.Base != nil {
		b := l.base(live.Base.Generation)
		b.Live, b.Cut = true, live.Base.Cut.Time
	}
	for _, s := range live.Supporting(now) {
		b := l.base(s.Generation)
		b.Supported, b.Cut = s.Until.Time, s.Cut.Time
	}
	for _, f := range live.History {
		b := l.base(f.Generation)
		b.Target, b.Cut = sink.RunOf(f.Pane.Manifest), f.Cut.Time
	}
}

func (l listing) newestFirst() []Base {
	out := make([]Base, 0, len(l.by))
	for _, b := range l.by {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b Base) int { return strings.Compare(b.Generation, a.Generation) })
	return out
}

// PromoteRequest asks for a base to be promoted.
type PromoteRequest struct {
	Change
	// Generation is the base; empty is the newest candidate.
	Generation string
	// Overrides are the checks of the gate to pass over: exactly those that
	// failed. They take a reason, and so does lifting a bar.
	Overrides []string
	// Wait is how long to wait for the leader.
	Wait time.Duration
}

// Promoted is what became of a PromoteRequest. Live says that CURRENT names the
// generation; else Run.Why says what it waits for.
type Promoted struct {
	Generation string                 `json:"generation"`
	State      watermark.RebuildState `json:"state"`
	Live       bool                   `json:"live"`
	Run        Triggered              `json:"run"`
}

// Promote lets the leader promote a base, and has it take a run.
func (p Pipe) Promote(ctx context.Context, r PromoteRequest) (Promoted, error) {
	ch, err := p.change(r.Change)
	if err != nil {
		return Promoted{}, err
	}
	if err := p.hasFull(); err != nil {
		return Promoted{}, err
	}
	rb, err := p.promotable(ctx, ch, r)
	if err != nil {
		return Promoted{}, err
	}
	out := Promoted{Generation: rb.ID, State: rb.State}
	if rb, err = p.app.State.ApproveRebuild(ctx, p.name, rb.ID, r.Overrides, ch); err != nil {
		if errors.Is(err, watermark.ErrReused) {
			return out, unlessReused(ch.ID, err)
		}
		if errors.Is(err, watermark.ErrConflict) || errors.Is(err, watermark.ErrInvalid) {
			return out, &Refusal{Slug: NotPromotable, Field: "generation", Detail: err.Error(), ID: out.Generation}
		}
		return out, fmt.Errorf("approve base %s: %w", out.Generation, err)
	}
	out.State = rb.State
	out.Run, err = p.Trigger(ctx, TriggerRequest{Change: Change{ID: ch.ID, Actor: ch.Actor, Reason: ch.Reason}, Wait: r.Wait})
	if err != nil {
		return out, fmt.Errorf("base %s is approved and not promoted yet (the leader's next run does it): %w", out.Generation, err)
	}
	head, err := p.pipe.Sink.Head(ctx)
	if err != nil {
		return out, err
	}
	if out.Live = head.Base != nil && head.Base.Generation == out.Generation; out.Live {
		out.State = watermark.RebuildPromoted
	}
	return out, nil
}

// promotable finds the base that is meant and holds the request to the rules.
func (p Pipe) promotable(ctx context.Context, ch watermark.Change, r PromoteRequest) (watermark.Rebuild, error) {
	all, err := p.app.State.Rebuilds(ctx, p.name, recent, "")
	if err != nil {
		return watermark.Rebuild{}, fmt.Errorf("look for rebuilds: %w", err)
	}
	var rb watermark.Rebuild
	if r.Generation == "" {
		i := slices.IndexFunc(all, func(b watermark.Rebuild) bool {
			return b.State == watermark.RebuildCandidate || b.State == watermark.RebuildHeld
		})
		if i < 0 {
			return rb, refuse(NotPromotable, "", "pipeline %s has no candidate", p.name)
		}
		rb = all[i]
	} else if rb, err = p.RebuildByID(ctx, r.Generation); err != nil {
		return rb, err
	}
	no := func(slug Slug, field, format string, args ...any) error {
		return &Refusal{Slug: slug, Field: field, Detail: fmt.Sprintf(format, args...), ID: rb.ID}
	}
	b, err := baseOf(rb)
	if err != nil {
		return rb, err
	}
	head, err := p.pipe.Sink.Head(ctx)
	if err != nil {
		return rb, err
	}
	bars, err := p.app.State.Bars(ctx, p.name)
	if err != nil {
		return rb, fmt.Errorf("look for barred bases: %w", err)
	}
	barred := slices.ContainsFunc(bars, func(bar watermark.Bar) bool { return bar.Generation == rb.ID })
	newer := slices.IndexFunc(all, func(o watermark.Rebuild) bool {
		return o.ID > rb.ID && o.State == watermark.RebuildCandidate && o.Approved &&
			!slices.ContainsFunc(bars, func(bar watermark.Bar) bool { return bar.Generation == o.ID })
	})
	again := ch.ID == r.ID && r.ID != "" // a repeated call finds its own work done
	switch {
	case head.Base != nil && head.Base.Generation == rb.ID && !again:
		return rb, no(AlreadyThere, "generation", "base %s is live already", rb.ID)
	case newer >= 0:
		return rb, no(NotPromotable, "generation", "base %s is newer and approved: the next run promotes that one", all[newer].ID)
	case rb.State == watermark.RebuildHeld && !sameNames(r.Overrides, b.Failed):
		return rb, no(ChecksFailed, "override", "base %s is held by the gate: name each check that failed, and no other, to pass over it: %s", rb.ID, strings.Join(b.Failed, ","))
	case rb.State != watermark.RebuildHeld && len(r.Overrides) > 0 && !again:
		return rb, no(InvalidField, "override", "base %s is %s and not held: there is nothing to override", rb.ID, rb.State)
	case rb.State == watermark.RebuildHeld || barred:
		return rb, Reasoned(ch.Reason)
	}
	return rb, nil
}

func sameNames(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}
