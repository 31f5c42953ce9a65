// Package tenure holds a lease for as long as somebody works under it: it
// renews the lease, and ends the work's context no later than the trust in the
// lease does.
package tenure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/watermark"
)

// ErrFenced is the cause with which a run is cancelled when its leader's
// lease is lost or can no longer be trusted.
var ErrFenced = errors.New("the lease is lost")

// Tenure is one holding of a lease. Its context ends, with cause
// ErrFenced, no later than the trust in the lease does.
type Tenure struct {
	leases watermark.Leases
	lease  watermark.Lease
	done   chan struct{}
	cancel context.CancelCauseFunc
}

// Hold starts renewing the lease, acquired by an attempt that began at began,
// and returns a context for everything done under it.
func Hold(ctx context.Context, leases watermark.Leases, lease watermark.Lease, began time.Time) (context.Context, *Tenure) {
	t := &Tenure{leases: leases, lease: lease, done: make(chan struct{})}
	ctx, t.cancel = context.WithCancelCause(ctx)
	go t.renew(ctx, lease.TrustFrom(began))
	return ctx, t
}

// renew keeps the lease alive until ctx ends, and ends ctx when it cannot.
// Every attempt carries the deadline of the trust there is: one that ends
// later proves nothing.
func (t *Tenure) renew(ctx context.Context, trust watermark.Trust) {
	defer close(t.done)
	// Trust ends on time even if an attempt ignores its deadline.
	watch := time.AfterFunc(trust.Remaining(time.Now()), t.expire)
	defer watch.Stop()
	for {
		if !Sleep(ctx, time.Until(trust.RenewAt())) {
			return
		}
		for {
			began := time.Now()
			if !trust.Holds(began) {
				t.expire()
				return
			}
			attempt, stop := context.WithTimeout(ctx, min(trust.Remaining(began), t.lease.TTL/4))
			err := t.leases.Renew(attempt, t.lease)
			stop()
			if err == nil {
				trust = t.lease.TrustFrom(began)
				watch.Reset(trust.Remaining(time.Now()))
				break
			}
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, watermark.ErrFenced) {
				t.cancel(fmt.Errorf("renew lease at epoch %d: %w: %w", t.lease.Epoch, ErrFenced, err))
				return
			}
			if !Sleep(ctx, t.lease.TTL/20) {
				return
			}
		}
	}
}

func (t *Tenure) expire() {
	t.cancel(fmt.Errorf("renew lease at epoch %d: %w: its time ran out", t.lease.Epoch, ErrFenced))
}

// End stops renewing and frees the lease, so that a successor need not wait
// for it to expire. It is best effort: an unreleased lease expires.
func (t *Tenure) End(ctx context.Context) error {
	t.cancel(context.Canceled)
	<-t.done
	if err := t.leases.Release(ctx, t.lease); err != nil && !errors.Is(err, watermark.ErrFenced) {
		return fmt.Errorf("release lease at epoch %d: %w", t.lease.Epoch, err)
	}
	return nil
}

// Sleep waits for d and says whether ctx is still alive after it.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
