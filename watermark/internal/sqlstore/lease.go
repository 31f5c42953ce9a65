package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/deltad/deltad/watermark"
)

type leases struct{ c *core }

// leaseRow is a lease row, with the database's clock when it was read.
type leaseRow struct {
	watermark.LeaseStatus
	released bool
	expires  time.Time
	now      time.Time
}

const leaseColumns = `SELECT pipeline, role, holder, epoch, nonce, ttl_us, released,
	acquired_at, renewed_at, expires_at, @now AS now FROM deltad_lease WHERE pipeline = $1 AND role = $2`

// readLease reads and, with lock, locks a lease row.
//
// The clock is read before the lock is waited for, so now may be early. That
// errs safely everywhere: a lease seems to live a little longer to others, and
// a renewal ends a little sooner, yet never before the holder's own trust,
// which counts from before the call.
func readLease(q *query, pipeline string, role watermark.Role, lock bool) (leaseRow, bool, error) {
	sql := leaseColumns
	if lock {
		sql += "@lock"
	}
	r, found, err := q.one(sql, pipeline, string(role))
	if err != nil || !found {
		return leaseRow{}, false, err
	}
	d := decode(r, "deltad_lease", pipeline)
	var row leaseRow
	row.Pipeline, row.Role = pipeline, role
	row.Holder = d.text("holder")
	row.Epoch = d.number("epoch", 1)
	row.Nonce = d.named("nonce")
	row.TTL = time.Duration(d.number("ttl_us", 1)) * time.Microsecond
	row.released = d.flag("released")
	row.AcquiredAt = d.instant("acquired_at")
	row.RenewedAt = d.instant("renewed_at")
	row.expires = d.instant("expires_at")
	row.now = d.instant("now")
	row.Remaining = max(0, row.expires.Sub(row.now))
	row.Live = !row.released && row.Remaining > 0
	if !row.Live {
		row.Remaining = 0
	}
	return row, true, d.err
}

// fence locks the lease row and lets only its holder pass.
//
// Invariant 3: everything after it in the transaction happens under the
// holder's own epoch, because whoever takes the lease must lock the same row.
func fence(q *query, l watermark.Lease) (leaseRow, error) {
	row, found, err := readLease(q, l.Pipeline, l.Role, true)
	switch {
	case err != nil:
		return leaseRow{}, err
	case !found:
		return leaseRow{}, fmt.Errorf("%w: no lease row for %s/%s", watermark.ErrFenced, l.Pipeline, l.Role)
	case row.Epoch != l.Epoch || row.Nonce != l.Nonce:
		return leaseRow{}, fmt.Errorf("%w: %s/%s is at epoch %d of %q, mine is %d",
			watermark.ErrFenced, l.Pipeline, l.Role, row.Epoch, row.Holder, l.Epoch)
	case row.released:
		return leaseRow{}, fmt.Errorf("%w: %s/%s was released at epoch %d", watermark.ErrFenced, l.Pipeline, l.Role, l.Epoch)
	}
	return row, nil
}

// Acquire takes a free lease. See [watermark.Leases].
func (s leases) Acquire(ctx context.Context, pipeline string, role watermark.Role, holder string,
	ttl time.Duration, minEpoch int64,
) (watermark.Lease, error) {
	var c checks
	c.name("pipeline", pipeline)
	c.role(role)
	c.name("holder", holder)
	c.that(ttl >= time.Millisecond, "ttl %s is below a millisecond", ttl)
	c.that(minEpoch >= 0 && minEpoch < 1<<62, "epoch %d is out of range", minEpoch)
	if c.err != nil {
		return watermark.Lease{}, c.err
	}
	l := watermark.Lease{Pipeline: pipeline, Role: role, Holder: holder, Nonce: nonce(), TTL: ttl.Truncate(time.Microsecond)}
	err := s.c.update(ctx, "acquire lease "+pipeline+"/"+string(role), func(q *query) error {
		row, found, err := readLease(q, pipeline, role, true)
		if err != nil {
			return err
		}
		if !found {
			l.Epoch = 1 + minEpoch
			n, err := q.exec(`INSERT INTO deltad_lease
				(pipeline, role, holder, epoch, nonce, ttl_us, released, acquired_at, renewed_at, expires_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, @now, @now, @now) ON CONFLICT (pipeline, role) DO NOTHING`,
				pipeline, string(role), holder, l.Epoch, l.Nonce, l.TTL.Microseconds(), false)
			if err != nil {
				return err
			}
			row, found, err = readLease(q, pipeline, role, true)
			switch {
			case err != nil:
				return err
			case !found:
				return fmt.Errorf("lease row of %s vanished", pipeline)
			case n == 1:
				return extend(q, l, row.now)
			}
		}
		if row.Nonce == l.Nonce && !row.released {
			l.Epoch = row.Epoch // an earlier run of this call did commit
			return nil
		}
		if row.Live {
			return &watermark.HeldError{
				Pipeline: pipeline, Role: role, Holder: row.Holder, Epoch: row.Epoch, Remaining: row.Remaining,
			}
		}
		// Invariant 1: the epoch is above both the row's and CURRENT's.
		l.Epoch = 1 + max(row.Epoch, minEpoch)
		return take(q, l, row.now)
	})
	if err != nil {
		return watermark.Lease{}, err
	}
	return l, nil
}

// take writes a new holder into a locked row.
func take(q *query, l watermark.Lease, now time.Time) error {
	_, err := q.exec(`UPDATE deltad_lease SET holder = $3, epoch = $4, nonce = $5, ttl_us = $6, released = $7,
		acquired_at = $8, renewed_at = $8, expires_at = $9 WHERE pipeline = $1 AND role = $2`,
		l.Pipeline, string(l.Role), l.Holder, l.Epoch, l.Nonce, l.TTL.Microseconds(), false, now, now.Add(l.TTL))
	return err
}

// extend renews a locked row of the same holder.
func extend(q *query, l watermark.Lease, now time.Time) error {
	_, err := q.exec(`UPDATE deltad_lease SET ttl_us = $3, renewed_at = $4, expires_at = $5
		WHERE pipeline = $1 AND role = $2`, l.Pipeline, string(l.Role), l.TTL.Microseconds(), now, now.Add(l.TTL))
	return err
}

// Renew lets a lease live longer. See [watermark.Leases].
func (s leases) Renew(ctx context.Context, l watermark.Lease) error {
	var c checks
	c.lease(l)
	c.that(l.TTL >= time.Millisecond, "ttl %s is below a millisecond", l.TTL)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "renew lease "+l.Pipeline+"/"+string(l.Role), func(q *query) error {
		row, err := fence(q, l)
		if err != nil {
			return err
		}
		return extend(q, l, row.now)
	})
}

// Release frees a lease. See [watermark.Leases].
func (s leases) Release(ctx context.Context, l watermark.Lease) error {
	var c checks
	c.lease(l)
	if c.err != nil {
		return c.err
	}
	return s.c.update(ctx, "release lease "+l.Pipeline+"/"+string(l.Role), func(q *query) error {
		row, found, err := readLease(q, l.Pipeline, l.Role, true)
		if err != nil {
			return err
		}
		if found && row.released && row.Epoch == l.Epoch && row.Nonce == l.Nonce {
			return nil
		}
		if _, err := fence(q, l); err != nil {
			return err
		}
		_, err = q.exec(`UPDATE deltad_lease SET released = $3, expires_at = $4 WHERE pipeline = $1 AND role = $2`,
			l.Pipeline, string(l.Role), true, row.now)
		return err
	})
}

// RaiseEpoch moves a lease past an epoch. See [watermark.Leases].
func (s leases) RaiseEpoch(ctx context.Context, l watermark.Lease, minEpoch int64) (watermark.Lease, error) {
	var c checks
	c.lease(l)
	c.that(minEpoch >= 0 && minEpoch < 1<<62, "epoch %d is out of range", minEpoch)
	if c.err != nil {
		return watermark.Lease{}, c.err
	}
	raised := l
	raised.Nonce = nonce()
	err := s.c.update(ctx, "raise epoch of "+l.Pipeline+"/"+string(l.Role), func(q *query) error {
		row, found, err := readLease(q, l.Pipeline, l.Role, true)
		if err != nil {
			return err
		}
		if found && row.Nonce == raised.Nonce && !row.released {
			raised.Epoch = row.Epoch // an earlier run of this call did commit
			return nil
		}
		if _, err := fence(q, l); err != nil {
			return err
		}
		raised.Epoch = 1 + max(row.Epoch, minEpoch)
		return take(q, raised, row.now)
	})
	if err != nil {
		return watermark.Lease{}, err
	}
	return raised, nil
}

// LeaseStatus is the row as it is. See [watermark.Leases].
func (s leases) LeaseStatus(ctx context.Context, pipeline string, role watermark.Role) (watermark.LeaseStatus, error) {
	var st watermark.LeaseStatus
	what := "read lease " + pipeline + "/" + string(role)
	err := s.c.view(ctx, what, func(q *query) error {
		row, found, err := readLease(q, pipeline, role, false)
		if err != nil {
			return err
		}
		if !found {
			return watermark.ErrNotFound
		}
		st = row.LeaseStatus
		return nil
	})
	return st, err
}
