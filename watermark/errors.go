package watermark

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrHeld says that a live lease belongs to somebody else; the error is a
	// [*HeldError].
	ErrHeld = errors.New("lease is held")
	// ErrFenced says that the lease row no longer carries the caller's epoch
	// and nonce, or was released: stop leading.
	ErrFenced = errors.New("fenced: the lease belongs to another epoch")
	// ErrUnavailable says that the database could not be asked, or could not
	// be asked whether a write happened. Every call may be repeated as it was.
	ErrUnavailable = errors.New("state store unavailable")
	// ErrCorrupt says that a row is there and cannot be read; the error is a
	// [*CorruptError]. The pipeline stops; it never starts again from nothing.
	ErrCorrupt = errors.New("state store row is corrupt")
	// ErrSchemaTooNew says that a newer deltad migrated this database.
	ErrSchemaTooNew = errors.New("state store schema is newer than this binary")
	// ErrSchemaPending says that migrations are still to be applied.
	ErrSchemaPending = errors.New("state store schema has pending migrations")
	// ErrNotFound says that the id names nothing.
	ErrNotFound = errors.New("not found")
	// ErrForgotten says that the journal does not have as published a run that
	// was: the store was restored, or failed over to a copy that lagged. It has
	// to be told what it lacks before anything is built on it.
	ErrForgotten = errors.New("state store has forgotten a published run")
	// ErrNotPaused says that a reset needs the pipeline paused first.
	ErrNotPaused = errors.New("pipeline is not paused")
	// ErrStaleVersion says that the pipeline row changed since the caller read
	// it.
	ErrStaleVersion = errors.New("pipeline version is stale")
	// ErrConflict says that an id is in use for something else, or that a
	// state may not follow the one that is there (a published run cannot be
	// abandoned).
	ErrConflict = errors.New("conflicts with what is recorded")
	// ErrReused is the [ErrConflict] of an id that an earlier call, of something
	// else, has used: nothing was done.
	ErrReused = fmt.Errorf("%w: the id is that of something else", ErrConflict)
	// ErrInvalid says that an argument breaks the method's contract.
	ErrInvalid = errors.New("invalid argument")
)

// HeldError is the [ErrHeld] of [Leases.Acquire].
type HeldError struct {
	Pipeline string
	Role     Role
	// Holder is who has the lease, Remaining how long it still lives without
	// a renewal, by the database's clock.
	Holder    string
	Epoch     int64
	Remaining time.Duration
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lease %s/%s is held by %q at epoch %d for another %s",
		e.Pipeline, e.Role, e.Holder, e.Epoch, e.Remaining.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// CorruptError is an [ErrCorrupt]: which row and column cannot be read.
// Pipeline and Column are empty only where the damage has neither (a database
// file that is no database).
type CorruptError struct {
	Pipeline string
	Table    string
	Column   string
	Detail   string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("state store row is corrupt: pipeline %q, table %s, column %s: %s; "+
		"repair the row or restore the database (see `deltad recover`): the pipeline does not start from nothing",
		e.Pipeline, e.Table, e.Column, e.Detail)
}

// Is makes errors.Is(err, ErrCorrupt) true.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
