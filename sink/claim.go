package sink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/store"
)

// ClaimOptions are what a claim needs to know.
type ClaimOptions struct {
	// Now stamps the first CURRENT of all.
	Now time.Time
	// Committed says that the state store knows of committed runs, so that an absent CURRENT is a lost one.
	Committed bool
	// Unsettled is the version on which a change of me was planned whose outcome is not known (ErrUnsettled), or 0. While CURRENT still has
	// that version it is claimed again although it is mine: what is still on its way then carries a stale ETag, so that the caller may take
	// a run that Walk does not reach as never published.
	Unsettled int64
}

// Claim puts CURRENT under me, with the targets it has, and returns it; where it is mine already nothing is written, unless a change of
// mine is unsettled. The first claim of all creates it, without a pane.
//
// Errors: ErrFenced; ErrForeignState, where another state store's id is in owner.state (see Adopt); ErrLostCurrent, where CURRENT is
// absent or unreadable although manifests or committed runs exist (see PlanRecovery); ErrUnsettled.
func (s *Sink) Claim(ctx context.Context, me Owner, o ClaimOptions) (Head, error) {
	return s.claim(ctx, me, Claim, o)
}

// Adopt is Claim whoever's state store wrote CURRENT last. The reason for it belongs into the caller's audit trail. It changes CURRENT
// even if it is mine already under another state id.
func (s *Sink) Adopt(ctx context.Context, me Owner, o ClaimOptions) (Head, error) {
	return s.claim(ctx, me, Adopt, o)
}

func (s *Sink) claim(ctx context.Context, me Owner, reason Reason, o ClaimOptions) (Head, error) {
	if me.Epoch < 1 || me.Nonce == "" {
		return Head{}, fmt.Errorf("claim CURRENT: epoch %d and nonce %q are no owner", me.Epoch, me.Nonce)
	}
	var err error
	for i := 0; i < s.set.Attempts; i++ {
		var head Head
		if head, err = s.Head(ctx); err != nil {
			return Head{}, fmt.Errorf("claim: %w", err)
		}
		want, version := Current{PublishedAt: At(o.Now)}, int64(1)
		switch {
		case !head.Exists:
			if err := s.mayCreate(ctx, o); err != nil {
				return Head{}, err
			}
		case head.Owner.Fences(me): // Invariant 3
			return head, s.fenced(me, head)
		case reason == Claim && head.Owner.State != me.State:
			return head, fmt.Errorf("claim CURRENT for state store %q: %w: %q (epoch %d, instance %q); `deltad adopt --reason` takes it over",
				me.State, ErrForeignState, head.Owner.State, head.Owner.Epoch, head.Owner.Instance)
		case head.Owner.Same(me) && head.Owner.State == me.State && head.Version > o.Unsettled:
			return head, nil
		default:
			want, version = head.Current, head.Version+1
		}
		want.Reason = reason
		// Owners below mine may go on writing until a claim is in; each time the targets are copied from what is there then.
		if head, err = s.swap(ctx, me, head, want, version); err == nil {
			return head, nil
		}
		if !errors.Is(err, ErrClaimAgain) && !errors.Is(err, ErrMoved) {
			return head, err
		}
	}
	return Head{}, fmt.Errorf("claim CURRENT, %d attempts: %w: %w", s.set.Attempts, ErrUnsettled, err)
}

// mayCreate says whether an absent CURRENT has never been there.
func (s *Sink) mayCreate(ctx context.Context, o ClaimOptions) error {
	if o.Committed {
		return fmt.Errorf("claim: %w: it is absent although the state store knows of committed runs; `deltad recover` restores it", ErrLostCurrent)
	}
	for p, err := range store.Pages(ctx, s.st, store.ListOptions{Prefix: manifestPrefix, MaxKeys: 1}) {
		if err != nil {
			return fmt.Errorf("claim: look for manifests: %w", err)
		}
		if len(p.Objects) > 0 {
			return fmt.Errorf("claim: %w: it is absent although %s exists; `deltad recover` restores it", ErrLostCurrent, p.Objects[0].Key)
		}
	}
	return nil
}
