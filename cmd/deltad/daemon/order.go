package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/watermark"
)

// Replicas may run different files for a while: an update goes from one to the
// next. If whoever gets a free lease led by its own file, the index would change
// to and fro with every restart. So replicas register the configuration that
// they were given, and a registration is newer than all before it.
//
// What it promises:
//
//  1. A replica whose configuration is not the newest leaves a free lease alone
//     until nobody has taken it for a grace: two lease times, or three triggers
//     if that is longer, and maxGrace at most.
//  2. It gives up a lease that it has once for each newest registration, between
//     two steps, so that a replica with the newer file takes over. Where none is
//     there, it leads again after the grace, and goes on leading.
//  3. A restart changes no place in the order, another file does: going back to
//     an older one is a decision like any other.
//  4. It is no rule of safety: the lease still decides. What is done by hand is
//     done with the file that it is given.
type order struct {
	state    watermark.ConfigOrder
	pipeline string
	replica  string
	hash     string
	// registers says that this replica leads deltas; one that only rebuilds has
	// no place in the order and gives way to it all the same.
	registers bool
	grace     time.Duration
	log       *zap.Logger

	mu struct {
		sync.Mutex
		checked int64 // the newest registration for which ours was seen to stand
		said    int64 // and of which the log was told
		gave    int64 // and for which a lease was given up
		took    int64 // and for which one was taken after the grace
		free    map[watermark.Role]freeLease
	}
}

// maxGrace bounds the grace of pipelines with rare triggers: whoever stands by
// asks for the lease every third of its time, however rare they are.
const maxGrace = 15 * time.Minute

// freeLease is a lease that was seen to be free.
type freeLease struct {
	epoch int64
	since time.Time
}

func (a *App) newOrder(p *Pipe, every time.Duration) *order {
	o := &order{
		state: a.State, pipeline: p.Config.Name, replica: a.options.Replica, hash: p.Hash, registers: !a.OnlyRebuilds(),
		grace: max(2*a.options.LeaseTTL, min(3*every, maxGrace)), log: a.Log.With(zap.String("pipeline", p.Config.Name)),
	}
	o.mu.free = map[watermark.Role]freeLease{}
	return o
}

// register enters what this replica runs, as soon as the state store can be
// reached.
func (o *order) register(ctx context.Context) {
	if !o.registers {
		return
	}
	again := func(err error) bool { return errors.Is(err, watermark.ErrUnavailable) }
	log := o.log.With(zap.String("doing", "register the configuration"))
	if err := Patiently(ctx, log, again, func() error {
		_, _, err := o.state.RegisterConfig(ctx, o.pipeline, o.replica, o.hash)
		return err
	}); err != nil && ctx.Err() == nil {
		log.Error("the configuration has no place among those of other replicas", zap.Error(err))
	}
}

// unregister forgets a replica that ends for good.
func (o *order) unregister(ctx context.Context) {
	if !o.registers {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	if err := o.state.UnregisterConfig(ctx, o.pipeline, o.replica, o.hash); err != nil {
		o.log.Warn("configuration not unregistered; other replicas wait for this one once", zap.Error(err))
	}
}

// newer is the newest registration where it is not of this configuration; ok is
// false where it is, and where there is none.
func (o *order) newer(ctx context.Context) (newest watermark.ConfigRegistration, ok bool, err error) {
	newest, err = o.state.NewestConfig(ctx, o.pipeline)
	if errors.Is(err, watermark.ErrNotFound) {
		return newest, false, nil
	}
	if err != nil || newest.Hash == o.hash {
		return newest, false, err
	}
	o.mu.Lock()
	fresh := o.mu.checked != newest.Seq
	o.mu.Unlock()
	if fresh && o.registers {
		// A second process of this host that ended has taken the registration of
		// both with it; where it stands this changes nothing.
		if _, newest, err = o.state.RegisterConfig(ctx, o.pipeline, o.replica, o.hash); err != nil || newest.Hash == o.hash {
			return newest, false, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.checked = newest.Seq; o.mu.said != newest.Seq {
		o.mu.said = newest.Seq
		o.log.Warn("another replica was given a newer configuration", zap.String("replica", newest.Replica),
			zap.String("config_hash", o.hash), zap.String("newest", newest.Hash), zap.Time("since", newest.At))
	}
	return newest, true, nil
}

// may says whether a lease may be asked for that was last seen like this, and
// after how long a wait.
func (o *order) may(ctx context.Context, holder string, last watermark.LeaseStatus, now time.Time) (took int64, _ error) {
	newest, older, err := o.newer(ctx)
	if err != nil || !older {
		return 0, err
	}
	if last.Live {
		return 0, &watermark.HeldError{Pipeline: o.pipeline, Role: last.Role, Holder: last.Holder, Epoch: last.Epoch, Remaining: last.Remaining}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.took == newest.Seq && last.Holder == holder {
		return newest.Seq, nil // it has waited for this one, and led since
	}
	free, known := o.mu.free[last.Role]
	if !known || free.epoch != last.Epoch {
		free = freeLease{last.Epoch, now}
		o.mu.free[last.Role] = free
	}
	if left := o.grace - now.Sub(free.since); left > 0 {
		return 0, &yielded{order: o, newest: newest, role: last.Role, left: left}
	}
	return newest.Seq, nil
}

// led notes that a lease was taken although a newer configuration is registered.
func (o *order) led(role watermark.Role, took int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.mu.free, role)
	if took != 0 && role == watermark.RoleDelta {
		o.mu.took = took
	}
}

// giveUp says whether the lease that this replica has is to be given up now.
func (o *order) giveUp(ctx context.Context) bool {
	newest, older, err := o.newer(ctx)
	if err != nil || !older {
		return false // an outage is for the steps to report
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.gave == newest.Seq || o.mu.took == newest.Seq {
		return false
	}
	o.mu.gave = newest.Seq
	o.log.Warn("lease given up once for a replica with a newer configuration", zap.String("replica", newest.Replica), zap.Duration("for", o.grace))
	return true
}

// yielded says that a free lease is left to a replica with a newer file.
type yielded struct {
	order  *order
	newest watermark.ConfigRegistration
	role   watermark.Role
	left   time.Duration
}

func (y *yielded) Error() string {
	return fmt.Sprintf("left to %s, which was given a newer configuration (%s, here %s): for another %s, unless somebody takes the %s lease",
		y.newest.Replica, brief(y.newest.Hash), brief(y.order.hash), y.left.Round(time.Second), y.role)
}

// Unwrap makes it a lease that is held, until then.
func (y *yielded) Unwrap() error {
	return &watermark.HeldError{Pipeline: y.order.pipeline, Role: y.role, Holder: y.newest.Replica, Remaining: y.left}
}

// brief is the beginning of a hash, for people.
func brief(hash string) string { return hash[:min(len(hash), 12)] }
