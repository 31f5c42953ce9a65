// Package blame sorts errors by what is to be done about them: try again at
// every trigger, back off, stop leading, or leave an object out.
package blame

import (
	"context"
	"errors"

	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/tenure"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// Outage says whether an error is worth another attempt at every trigger:
// the store or the state store cannot be reached, or the outcome of a change
// is not known yet. Everything else backs off.
func Outage(err error) bool {
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

// Refused says whether the store refused access. It says nothing about the
// object: once access is mended nothing would make a skipped one due again,
// and credentials that lapse would skip whole windows. The run fails.
func Refused(err error) bool {
	return errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrNoBucket)
}

// Fenced says whether an error means that somebody else leads.
func Fenced(err error) bool {
	return errors.Is(err, tenure.ErrFenced) || errors.Is(err, sink.ErrFenced) || errors.Is(err, watermark.ErrFenced)
}

// Objects returns the objects that an error blames: not those that an outage,
// a refusal, the end of the run or a change after the listing kept from being
// read.
func Objects(err error) []*slice.ObjectError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*slice.ObjectError
		for _, e := range joined.Unwrap() {
			out = append(out, Objects(e)...)
		}
		return out
	}
	var fault *slice.ObjectError
	if !errors.As(err, &fault) || Outage(err) || Fenced(err) || Refused(err) || errors.Is(err, context.Canceled) {
		return nil
	}
	return []*slice.ObjectError{fault}
}

// Changed are the objects that were replaced or removed after they were listed.
func Changed(err error) []*slice.ObjectError {
	var out []*slice.ObjectError
	for _, o := range Named(err) {
		if errors.Is(o.Err, source.ErrChanged) {
			out = append(out, o)
		}
	}
	return out
}

// Named are the objects that an error names, whatever happened to them.
func Named(err error) []*slice.ObjectError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []*slice.ObjectError
		for _, e := range joined.Unwrap() {
			out = append(out, Named(e)...)
		}
		return out
	}
	var o *slice.ObjectError
	if errors.As(err, &o) {
		return []*slice.ObjectError{o}
	}
	return nil
}
