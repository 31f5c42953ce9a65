package microbatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// isOutage says whether an error is worth another attempt at every trigger:
// the store or the state store cannot be reached, or the outcome of a change
// is not known yet. Everything else backs off.
func isOutage(err error) bool {
	for _, target := range []error{
		store.ErrUnavailable, store.ErrConflict, store.ErrBadListing, watermark.ErrUnavailable,
		sink.ErrUnsettled, sink.ErrMoved, sink.ErrClaimAgain, source.ErrChanged, context.DeadlineExceeded,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// isRefused says whether the store refused access. It says nothing about the
// object: once access is mended nothing would make a skipped one due again,
// and credentials that lapse would skip whole windows. The run fails.
func isRefused(err error) bool {
	return errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrNoBucket)
}

// isFenced says whether an error means that somebody else leads.
func isFenced(err error) bool {
	return errors.Is(err, ErrFenced) || errors.Is(err, sink.ErrFenced) || errors.Is(err, watermark.ErrFenced)
}

// ErrPanic is a panic that failed one run.
var ErrPanic = errors.New("panic")

// recoverInto turns a panic into an error: it fails this run and no other.
func recoverInto(err *error, doing string) {
	if v := recover(); v != nil {
		*err = panicked(v, doing)
	}
}

func panicked(v any, doing string) error {
	return fmt.Errorf("%s: %w: %v\n%s", doing, ErrPanic, v, debug.Stack())
}
