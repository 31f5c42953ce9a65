package sqlite

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/internal/sqlstore"
	"github.com/deltad/deltad/watermark/watermarktest"
)

// losses decides which answers of a database are lost. It is shared by the
// handles of one file.
type losses struct {
	mu      sync.Mutex
	calls   int
	running int
	// crowded ends the losses for good: with calls side by side one of them
	// could meet every loss and rightly give up.
	crowded bool
}

// next says what becomes of a transaction: done and not heard of, not done and
// not heard of, or an ordinary answer. Of three in a row at most one is lost,
// so that an operation which looks again gets its answer.
func (l *losses) next() (lose, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running++
	l.crowded = l.crowded || l.running > 1
	l.calls++
	return !l.crowded && l.calls%2 == 1, l.calls%4 == 1
}

func (l *losses) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}

// lossy is a database whose COMMIT is often not answered.
type lossy struct {
	*database
	l *losses
}

var errLost = errors.New("the answer was lost")

func (d lossy) Update(ctx context.Context, fn func(context.Context, sqlstore.Tx) error) error {
	return d.lose(ctx, fn, d.database.Update)
}

func (d lossy) Migrate(ctx context.Context, fn func(context.Context, sqlstore.Tx) error) error {
	return d.lose(ctx, fn, d.database.Migrate)
}

func (d lossy) lose(ctx context.Context, fn func(context.Context, sqlstore.Tx) error,
	do func(context.Context, func(context.Context, sqlstore.Tx) error) error,
) error {
	lose, done := d.l.next()
	defer d.l.end()
	lost := &sqlstore.Failure{Class: sqlstore.Unknown, Err: errLost}
	if !lose {
		return do(ctx, fn)
	}
	reached := false
	err := do(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		reached = true
		if !done {
			return lost
		}
		return nil
	})
	if err == nil || reached && errors.Is(err, errLost) {
		return lost
	}
	return err
}

type lossyFile struct {
	file
	l *losses
}

func (f lossyFile) Open(t testing.TB) watermark.Store {
	t.Helper()
	d, steps, err := open(watermarktest.Context(t), Options{Path: f.path, CallTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return sqlstore.New(lossy{database: d, l: f.l}, dialect(steps))
}

// TestLostAnswers runs the whole suite over a database that does not answer
// every other COMMIT, half of which it did and half of which it did not: no
// caller can tell. Tests that count which of several calls side by side did
// the work are left whole: there the answer of a lost one is anybody's, and
// calls in turn could lose every attempt of one of them.
func TestLostAnswers(t *testing.T) {
	watermarktest.Run(t, func(t testing.TB) watermarktest.Database {
		t.Helper()
		l := &losses{}
		for _, aside := range []string{"at_once", "concurrently", "race", "made_once"} {
			l.crowded = l.crowded || strings.Contains(t.Name(), aside)
		}
		return lossyFile{file: fresh(t).(file), l: l}
	})
}
