package shelf

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
)

// Objects is what the bucket is to a shelf; *sink.Sink is one.
type Objects interface {
	CachedSlices(ctx context.Context, recipe string, from time.Time) ([]sink.Cached, error)
	OpenCached(ctx context.Context, key string) (body io.ReadCloser, size int64, err error)
	PutCached(ctx context.Context, key string, body io.ReadSeeker) error
	DropCached(ctx context.Context, key string) error
}

// uploads is how many slices are written at a time.
const uploads = 4

// bucket is the tier in the output's bucket.
type bucket struct {
	set Settings

	// list holds whoever needs the listing while one makes it.
	list sync.Mutex

	mu struct {
		sync.Mutex
		from   time.Time             // of the partitions that a listing is to have
		listed bool                  // at has all that there is from there on
		failed bool                  // listing was tried in vain; the next Expect tries again
		broken bool                  // and so was reading
		at     map[slice.ID][]string // keys, newest first
		due    []Entry
		going  chan struct{} // closed when the uploads have ended; nil if there are none
		cancel context.CancelFunc
		silent map[string]bool // what was said and did not change since
	}
}

func newBucket(set Settings) *bucket {
	b := &bucket{set: set}
	b.mu.at, b.mu.silent = map[slice.ID][]string{}, map[string]bool{}
	return b
}

// reach says from when on partitions matter.
func (b *bucket) reach(from time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.failed, b.mu.broken = false, false
	if b.mu.from.IsZero() || from.Before(b.mu.from) {
		b.mu.from, b.mu.listed = from, false
	}
}

// forget forgets what was listed.
func (b *bucket) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.from, b.mu.listed, b.mu.failed = time.Time{}, false, false
	clear(b.mu.at)
}

// has says whether the bucket is known to have an address.
func (b *bucket) has(at slice.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.mu.at[at]) > 0
}

func (b *bucket) keys(at slice.ID) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.mu.at[at])
}

// learn makes the listing where there is none.
func (b *bucket) learn(ctx context.Context) bool {
	b.list.Lock()
	defer b.list.Unlock()
	b.mu.Lock()
	from, listed, failed := b.mu.from, b.mu.listed, b.mu.failed
	b.mu.Unlock()
	if listed || failed {
		return listed
	}
	found, err := b.set.Objects.CachedSlices(ctx, b.set.Recipe, from)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.mu.failed = true
		b.say(ctx, "list", "slices in the bucket not listed; objects are read instead", err)
		return false
	}
	delete(b.mu.silent, "list")
	for _, c := range found {
		if at, ok := parse(c.Address); ok {
			b.note(at, c.Key)
		}
	}
	b.mu.listed = b.mu.from.Equal(from) // or more matters by now
	return true
}

// note adds a key to those of its address; the caller holds mu. The names of
// one address sort by time.
func (b *bucket) note(at slice.ID, key string) {
	keys := b.mu.at[at]
	if slices.Contains(keys, key) {
		return
	}
	keys = append(keys, key)
	slices.Sort(keys)
	slices.Reverse(keys)
	b.mu.at[at] = keys
}

func parse(address string) (at slice.ID, ok bool) {
	n, err := hex.Decode(at[:], []byte(address))
	return at, err == nil && n == len(at)
}

// say warns of what is wrong once until it is right again; the caller holds mu.
func (b *bucket) say(ctx context.Context, what, message string, err error) {
	if ctx.Err() != nil || b.mu.silent[what] {
		return
	}
	b.mu.silent[what] = true
	b.set.Log.Warn(message, zap.String("pipeline", b.set.Pipeline), zap.Error(err))
}

// load fetches a slice. expected says that it may be there although nothing is
// known of it yet.
func (b *bucket) load(ctx context.Context, at slice.ID, expected bool) *slice.Slice {
	if expected {
		b.learn(ctx)
	}
	for _, key := range b.keys(at) {
		if b.isBroken() {
			return nil
		}
		found, err := b.fetch(ctx, key, at)
		switch {
		case err == nil:
			b.set.Observe(TierBucket, Hit, 1)
			return found
		case errors.Is(err, store.ErrNotFound):
			b.drop([]string{key})
		case errors.Is(err, slice.ErrDamaged):
			b.set.Observe(TierBucket, Damaged, 1)
			b.drop([]string{key})
			b.set.Log.Warn("damaged slice deleted from the bucket; its objects are read instead",
				zap.String("pipeline", b.set.Pipeline), zap.String("object", key), zap.Error(err))
			if err := b.set.Objects.DropCached(ctx, key); err != nil && ctx.Err() == nil {
				b.set.Log.Warn("damaged slice not deleted", zap.String("pipeline", b.set.Pipeline), zap.Error(err))
			}
		default:
			b.set.Observe(TierBucket, Failed, 1)
			b.mu.Lock()
			b.mu.broken = true
			b.say(ctx, "read", "slice not read from the bucket; objects are read instead", err)
			b.mu.Unlock()
			return nil
		}
	}
	if expected {
		b.set.Observe(TierBucket, Miss, 1)
	}
	return nil
}

// isBroken says that a slice could not be read: the others of the run are not
// waited for either.
func (b *bucket) isBroken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.broken
}

func (b *bucket) fetch(ctx context.Context, key string, at slice.ID) (*slice.Slice, error) {
	body, size, err := b.set.Objects.OpenCached(ctx, key)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	found, err := slice.ReadRest(body, size, at, b.set.TempDir, b.set.Memory)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return found, nil
}

// drop forgets keys.
func (b *bucket) drop(keys []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := make(map[string]bool, len(keys))
	for _, key := range keys {
		gone[key] = true
	}
	for at, have := range b.mu.at {
		if have = slices.DeleteFunc(have, func(key string) bool { return gone[key] }); len(have) == 0 {
			delete(b.mu.at, at)
		} else {
			b.mu.at[at] = have
		}
	}
}

// upload writes what is due, in place of what was due before. fresh says which
// need not be looked for, done is told of each that is there.
func (b *bucket) upload(ctx context.Context, due []Entry, fresh func(Entry) bool, done func(Entry)) {
	if len(due) > 0 {
		oldest := due[0].Slice.Start
		for _, e := range due {
			if e.Slice.Start.Before(oldest) {
				oldest = e.Slice.Start
			}
		}
		b.reach(oldest)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.due = due
	if b.mu.going != nil || len(due) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	going := make(chan struct{})
	b.mu.going, b.mu.cancel = going, cancel
	go func() {
		defer close(going)
		defer cancel()
		for b.round(ctx, fresh, done) {
		}
	}()
}

// round writes what is due and says whether something has become due since.
func (b *bucket) round(ctx context.Context, fresh func(Entry) bool, done func(Entry)) (again bool) {
	var g errgroup.Group
	for range uploads {
		g.Go(func() error { return b.work(ctx, fresh, done) })
	}
	err := g.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.set.Observe(TierBucket, Failed, 1)
		b.say(ctx, "write", "slices not kept in the bucket; the next publication tries again", err)
	}
	if err == nil && ctx.Err() == nil && len(b.mu.due) > 0 {
		return true
	}
	b.mu.due, b.mu.going, b.mu.cancel = nil, nil, nil
	return false
}

// next takes what is to be written next.
func (b *bucket) next() (e Entry, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.mu.due) - 1 // the newest partition will be of use for longest
	if last < 0 {
		return e, false
	}
	e, b.mu.due = b.mu.due[last], b.mu.due[:last]
	return e, true
}

// work writes one due slice after the other, until nothing is due or one
// cannot be written.
func (b *bucket) work(ctx context.Context, fresh func(Entry) bool, done func(Entry)) (err error) {
	defer rescue.Into(&err, "keep slices")
	for ctx.Err() == nil {
		e, ok := b.next()
		if !ok {
			return nil
		}
		if !fresh(e) {
			if !b.learn(ctx) {
				return errNotListed
			}
			if b.has(e.At) {
				continue
			}
		}
		if err := b.put(ctx, e); err != nil {
			return err
		}
		done(e)
		b.set.Observe(TierBucket, Stored, 1)
	}
	return nil
}

// errNotListed says that it is not known what is there.
var errNotListed = errors.New("what is there cannot be listed")

func (b *bucket) put(ctx context.Context, e Entry) error {
	body, err := e.Slice.AtRest(e.At)
	if err != nil {
		return err
	}
	key := sink.CachedKey(b.set.Recipe, e.At.String(), e.Slice.Start, b.set.NewID())
	if err := b.set.Objects.PutCached(ctx, key, body); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(e.At, key)
	delete(b.mu.silent, "write")
	return nil
}

// end waits for the uploads so long, then ends them.
func (b *bucket) end(patience time.Duration) {
	b.mu.Lock()
	going, cancel := b.mu.going, b.mu.cancel
	b.mu.Unlock()
	if going == nil {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-going:
	case <-timer.C:
		cancel()
		<-going
	}
}
