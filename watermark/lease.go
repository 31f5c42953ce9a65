package watermark

import "time"

// Role is what a lease allows.
type Role string

const (
	// RoleDelta is the leader of a pipeline: the only writer of CURRENT.
	RoleDelta Role = "delta"
	// RoleFull guards one full rebuild, which only leaves a candidate.
	RoleFull Role = "full"
)

// Lease is the right to write, as [Leases.Acquire] gave it. It is a plain
// value: a process that hands over to its successor may pass it on as JSON,
// and the successor goes on with [Leases.Renew].
type Lease struct {
	Pipeline string `json:"pipeline"`
	Role     Role   `json:"role"`
	// Holder names the instance for people; it proves nothing.
	Holder string `json:"holder"`
	// Epoch and Nonce together are what fences: Epoch orders the holders and
	// Nonce tells apart two databases that hand out the same epoch.
	Epoch int64  `json:"epoch"`
	Nonce string `json:"nonce"`
	// TTL is how long the row lives after each renewal.
	TTL time.Duration `json:"ttl"`
}

// LeaseStatus is a lease row as [Leases.LeaseStatus] saw it.
type LeaseStatus struct {
	Lease
	// Live says that the lease is neither released nor expired, Remaining for
	// how long without a renewal, both by the database's clock.
	Live       bool
	Remaining  time.Duration
	AcquiredAt time.Time
	RenewedAt  time.Time
}

// Trust is how long a holder may believe in its lease without asking again.
//
// The database starts the lease's time when it executes the renewal, which is
// after the holder sent it. So trust counts from the start of the attempt, and
// it ends a fifth of the TTL before the lease does: a clock that runs slow, a
// goroutine that wakes late and a request on its way still end inside the
// lease. Trust is about liveness; what makes a stale writer harmless is the
// conditional put and the fence.
type Trust struct {
	started time.Time
	ttl     time.Duration
}

// TrustFrom is the trust that an acquisition or renewal gives, whose attempt
// began at started (time.Now() before the call).
func (l Lease) TrustFrom(started time.Time) Trust { return Trust{started: started, ttl: l.TTL} }

// Until is when trust ends: the deadline of everything done under it,
// renewals included.
func (t Trust) Until() time.Time { return t.started.Add(t.span()) }

// RenewAt is when the next renewal is due: a third of the TTL after the last
// began, so that two attempts can be lost before trust is.
func (t Trust) RenewAt() time.Time { return t.started.Add(t.ttl / 3) }

// Remaining is how much of the trust is left at now, never below zero.
//
// Both the monotonic and the wall clock must agree that time is left: the
// monotonic one does not count the hours a machine was suspended, the wall
// clock may be set back. Believing the larger lapse errs towards stopping.
func (t Trust) Remaining(now time.Time) time.Duration {
	lapse := max(now.Sub(t.started), now.Round(0).Sub(t.started.Round(0)))
	return max(0, t.span()-lapse)
}

// Holds reports whether the holder may still act at now. The zero Trust never
// holds.
func (t Trust) Holds(now time.Time) bool { return t.Remaining(now) > 0 }

func (t Trust) span() time.Duration { return t.ttl - t.ttl/5 }
