package microbatch

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

// tenure is one holding of a pipeline's lease. Its context ends, with cause
// ErrFenced, no later than the trust in the lease does.
type tenure struct {
	leases watermark.Leases
	lease  watermark.Lease
	done   chan struct{}
	cancel context.CancelCauseFunc
}

// hold starts renewing the lease, acquired by an attempt that began at began,
// and returns a context for everything done under it.
func hold(ctx context.Context, leases watermark.Leases, lease watermark.Lease, began time.Time) (context.Context, *tenure) {
	t := &tenure{leases: leases, lease: lease, done: make(chan struct{})}
	ctx, t.cancel = context.WithCancelCause(ctx)
	go t.renew(ctx, lease.TrustFrom(began))
	return ctx, t
}

// renew keeps the lease alive until ctx ends, and ends ctx when it cannot.
// Every attempt carries the deadline of the trust there is: one that ends
// later proves nothing.
func (t *tenure) renew(ctx context.Context, trust watermark.Trust) {
	defer close(t.done)
	// Trust ends on time even if an attempt ignores its deadline.
	watch := time.AfterFunc(trust.Remaining(time.Now()), t.expire)
	defer watch.Stop()
	for {
		if !sleep(ctx, time.Until(trust.RenewAt())) {
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
			if !sleep(ctx, t.lease.TTL/20) {
				return
			}
		}
	}
}

func (t *tenure) expire() {
	t.cancel(fmt.Errorf("renew lease at epoch %d: %w: its time ran out", t.lease.Epoch, ErrFenced))
}

// end stops renewing and frees the lease, so that a successor need not wait
// for it to expire. It is best effort: an unreleased lease expires.
func (t *tenure) end(ctx context.Context) error {
	t.cancel(context.Canceled)
	<-t.done
	if err := t.leases.Release(ctx, t.lease); err != nil && !errors.Is(err, watermark.ErrFenced) {
		return fmt.Errorf("release lease at epoch %d: %w", t.lease.Epoch, err)
	}
	return nil
}

// sleep waits for d and says whether ctx is still alive after it.
func sleep(ctx context.Context, d time.Duration) bool {
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
