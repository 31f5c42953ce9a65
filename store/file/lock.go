package file

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// locks are exclusive locks on keys, by hash, between goroutines and between processes.
type locks struct {
	dir    string
	shards [256]struct {
		once sync.Once
		held chan struct{}
	}
}

// lock waits for the key's lock or the end of ctx. Unlocking cannot fail: closing the file releases it.
func (l *locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // a hash takes everything
	n := h.Sum32() % uint32(len(l.shards))
	shard := &l.shards[n]
	shard.once.Do(func() { shard.held = make(chan struct{}, 1) })
	select {
	case shard.held <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := l.flock(ctx, filepath.Join(l.dir, fmt.Sprintf("%02x", n)))
	if err != nil {
		<-shard.held
		return nil, fmt.Errorf("lock: %w", err)
	}
	return func() {
		_ = f.Close() // read-only use: nothing can be lost
		<-shard.held
	}, nil
}

// flock takes the lock between processes. The wait is a poll, since a blocking flock cannot be given up when ctx ends; the goroutines
// of one process have queued before, so only one of each process polls.
func (l *locks) flock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(l.dir, 0o755); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	}
	if err != nil {
		return nil, err
	}
	for wait := 100 * time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, syscall.EINTR):
			continue
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("flock %s (is this a local file system?): %w", path, err), f.Close())
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), f.Close())
		}
	}
}
