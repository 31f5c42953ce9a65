package microbatch

import "context"

// Attend carries out pending resets and rollbacks and answers the requests that
// were queued, as a leader does between triggers: for commands where no leader
// lives.
func (t Term) Attend(ctx context.Context) error {
	if err := t.Settle(ctx); err != nil {
		return err
	}
	return t.p.requests(ctx, ctx, t.t)
}
