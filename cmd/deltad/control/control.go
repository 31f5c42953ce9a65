// Package control is what people may change of a running pipeline: pause and
// resume it, trigger a run, move its progress, rebuild its full index, promote a
// base, go back to a former one and collect garbage. The command line and the
// admin endpoint both stand on it, so that one set of rules holds for both.
//
// What it promises:
//
//  1. Nothing moves without being planned first: Reset and Rollback recompute the
//     plan and refuse a digest that is not the fresh plan's.
//  2. A reset or rollback is decided in one transaction of the state store (intent and
//     audit entry), guarded by the version of the pipeline's row, and carried
//     out by whoever leads: a living leader is asked and waited for, and only
//     where no lease lives does the caller take it and carry it out.
//  3. Every call that changes something is idempotent by an id that the caller
//     may choose.
//  4. What a person decides has a reason, by every way to it alike, and the
//     audit trail has both: some reason for a pause and a resume, MinReason
//     characters for what moves progress, accepts a loss, passes over what the
//     gate or a rollback said, or keeps data from being collected. Rebuilds,
//     and runs and promotions that would come by themselves, need none.
//  5. A wait that ends changes nothing: what was decided stays decided, and the
//     next leader finishes it or marks it failed.
//
// What is refused is a *Refusal with a stable slug; every other error is a
// failure of a store.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/watermark"
)

// Slug names a kind of refusal. Clients may branch on it.
type Slug string

// The slugs.
const (
	InvalidField    Slug = "invalid-field"    // a value that cannot be meant
	ReasonTooShort  Slug = "reason-too-short" // less than MinReason characters
	NotAStart       Slug = "not-a-partition"  // no partition of the calendar starts then
	InTheFuture     Slug = "in-the-future"    // progress beyond the clock would stop the pipeline
	NotPaused       Slug = "not-paused"       // a reset needs the pipeline paused
	NoPane          Slug = "no-pane"          // nothing was published yet
	AlreadyThere    Slug = "already-there"    // progress is what was asked for
	VersionRequired Slug = "version-required" // no version was given
	StaleVersion    Slug = "stale-version"    // the row changed since it was read
	DigestMismatch  Slug = "digest-mismatch"  // the plan is not the one that was agreed to
	DataLoss        Slug = "data-loss"        // accept_data_loss is needed
	WouldHold       Slug = "would-hold"       // window.on_gap forbids the run that would follow
	ResetPending    Slug = "reset-pending"    // another reset or rollback is on its way
	ResetFailed     Slug = "reset-failed"     // the leader gave the reset up
	RollbackFailed  Slug = "rollback-failed"  // the leader gave the rollback up
	KeyReused       Slug = "idempotency-key"  // the id is that of something else, or no id
	NotFound        Slug = "not-found"        // no such pipeline, run or intent
	NoFull          Slug = "no-full-index"    // the pipeline has no full section
	RebuildOpen     Slug = "rebuild-open"     // a rebuild is queued or running
	RebuildEnded    Slug = "rebuild-ended"    // there is nothing left to cancel
	NotPromotable   Slug = "not-promotable"   // a generation that no run may promote
	ChecksFailed    Slug = "checks-failed"    // the gate holds it: overrides must name what failed
	NoFormerBase    Slug = "no-former-base"   // there is nothing to roll back to
	NotThere        Slug = "not-there"        // what to go back to was collected
)

// Refusal is a request that breaks a rule.
type Refusal struct {
	Slug Slug
	// Field is the argument at fault, empty where it is none of them.
	Field  string
	Detail string
	// ID is that of what stands in the way, empty where that has none.
	ID string
}

func (r *Refusal) Error() string { return r.Detail }

func refuse(slug Slug, field, format string, args ...any) error {
	return &Refusal{Slug: slug, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// MinReason is the fewest characters that are a reason for moving progress or
// for accepting a loss.
const MinReason = 10 // messages spell it out

// maxText bounds what people write into the audit trail.
const maxText = 2000

// Change says who asks and why. An empty ID gets a fresh one.
type Change struct {
	ID     string
	Actor  string
	Reason string
}

// Pipe controls one pipeline.
type Pipe struct {
	app  *daemon.App
	pipe *daemon.Pipe
	name string
}

// Of returns the control of an opened pipeline.
func Of(app *daemon.App, pipe *daemon.Pipe) Pipe {
	return Pipe{app: app, pipe: pipe, name: pipe.Config.Name}
}

// change checks a Change and fills in its id. Space around the texts is no part
// of them.
func (p Pipe) change(c Change) (watermark.Change, error) {
	c.Actor, c.Reason = strings.TrimSpace(c.Actor), strings.TrimSpace(c.Reason)
	if c.ID == "" {
		c.ID = p.app.NewID()
	} else if _, err := ulid.ParseStrict(c.ID); err != nil {
		return watermark.Change{}, refuse(KeyReused, "idempotency_key", "an idempotency key is a ULID, got %q", clip(c.ID))
	}
	if c.Actor == "" {
		return watermark.Change{}, refuse(InvalidField, "actor", "somebody must be named as the actor")
	}
	if err := recordable("actor", c.Actor); err != nil {
		return watermark.Change{}, err
	}
	if err := recordable("reason", c.Reason); err != nil {
		return watermark.Change{}, err
	}
	return watermark.Change{ID: c.ID, Actor: c.Actor, Reason: c.Reason}, nil
}

// unlessReused makes an error of an id that something else has used a refusal,
// and leaves every other as it is.
func unlessReused(id string, err error) error {
	if errors.Is(err, watermark.ErrReused) {
		return refuse(KeyReused, "idempotency_key", "%s is the id of something else that was asked for: %v", id, err)
	}
	return err
}

// recordable refuses a text that the audit trail does not keep as it is.
func recordable(field, s string) error {
	switch {
	case len(s) > maxText:
		return refuse(InvalidField, field, "at most %d bytes, got %d", maxText, len(s))
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return refuse(InvalidField, field, "must be UTF-8 without NUL, got %q", clip(s))
	}
	return nil
}

// Stated refuses to stop or start a pipeline without any reason: whoever finds
// it paused, and whoever paused it, asks why.
func Stated(reason string) error {
	if strings.TrimSpace(reason) == "" {
		return refuse(ReasonTooShort, "reason", "required, for those who will read the audit trail")
	}
	return recordable("reason", reason)
}

// Reasoned refuses a reason of less than MinReason characters.
func Reasoned(reason string) error {
	if n := utf8.RuneCountInString(strings.TrimSpace(reason)); n < MinReason {
		return refuse(ReasonTooShort, "reason", "at least ten characters, for those who will read it in the audit trail, got %d", n)
	}
	return recordable("reason", reason)
}

func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// Row is the pipeline's row; the empty one before a leader or a command made
// it.
func (p Pipe) Row(ctx context.Context) (watermark.Pipeline, error) {
	row, err := p.app.State.Pipeline(ctx, p.name)
	if errors.Is(err, watermark.ErrNotFound) {
		return watermark.Pipeline{Name: p.name}, nil
	}
	return row, err
}

// NoReason is written where a pipeline is paused or resumed without a word. The
// command line asks for one; whoever reaches for the brake by HTTP has it.
const NoReason = "no reason given"

// Pause stops runs until Resume. Resets and requests go on.
func (p Pipe) Pause(ctx context.Context, c Change) (watermark.Pipeline, error) {
	return p.toggle(ctx, c, "pause", p.app.State.Pause)
}

// Resume ends a pause, and asks for a step at once.
func (p Pipe) Resume(ctx context.Context, c Change) (watermark.Pipeline, error) {
	row, err := p.toggle(ctx, c, "resume", p.app.State.Resume)
	if err == nil {
		p.app.Poke(p.name)
	}
	return row, err
}

func (p Pipe) toggle(ctx context.Context, c Change, what string, do func(context.Context, string, watermark.Change) (watermark.Pipeline, error)) (watermark.Pipeline, error) {
	ch, err := p.change(c)
	if err == nil {
		ch.Reason = cmp.Or(strings.TrimSpace(ch.Reason), NoReason)
		err = recordable("reason", ch.Reason)
	}
	if err != nil {
		return watermark.Pipeline{}, err
	}
	row, err := do(ctx, p.name, ch)
	if err := unlessReused(ch.ID, err); err != nil {
		return watermark.Pipeline{}, fmt.Errorf("%s pipeline %s: %w", what, p.name, err)
	}
	p.app.Log.Info(what+"d by hand", zap.String("pipeline", p.name), zap.String("actor", ch.Actor), zap.String("reason", ch.Reason))
	return row, nil
}

// look is how often a waiting caller looks again.
const look = 100 * time.Millisecond

// await asks the leader for what was decided, and waits until settled says
// that it came about, for at most wait. Where no lease lives it takes one and
// does it itself.
func (p Pipe) await(ctx context.Context, wait time.Duration, settled func(context.Context) (bool, error), do func(context.Context, microbatch.Term) error) error {
	end := time.Now().Add(wait)
	for {
		if done, err := settled(ctx); done || err != nil {
			return err
		}
		p.app.Poke(p.name)
		if led, err := p.led(ctx); err != nil {
			return err
		} else if !led {
			if err := p.under(ctx, do); err == nil {
				_, err = settled(ctx)
				return err
			} else if !errors.Is(err, watermark.ErrHeld) {
				return err
			}
		}
		left := time.Until(end)
		if left <= 0 {
			return nil
		}
		t := time.NewTimer(min(look, left))
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}

// maxAlone bounds what a caller does under a lease of its own.
const maxAlone = 15 * time.Minute

// under does it under a lease of the caller's own. A caller that goes away
// does not stop it halfway.
func (p Pipe) under(ctx context.Context, do func(context.Context, microbatch.Term) error) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), maxAlone)
	defer stop()
	return p.pipe.Pipeline().Under(ctx, do)
}

// led says whether a lease lives.
func (p Pipe) led(ctx context.Context) (bool, error) {
	st, err := p.app.State.LeaseStatus(ctx, p.name, watermark.RoleDelta)
	if errors.Is(err, watermark.ErrNotFound) {
		return false, nil
	}
	return st.Live, err
}
