// Package rescue turns panics into errors, so that one fails the work it
// happened in and nothing else.
package rescue

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrPanic is a panic that failed one piece of work.
var ErrPanic = errors.New("panic")

// Into turns a panic into an error; it must be deferred itself. doing says
// what was going on.
func Into(err *error, doing string) {
	if v := recover(); v != nil {
		*err = Panicked(v, doing)
	}
}

// Panicked is the error of a recovered value, with the stack of the panic.
func Panicked(v any, doing string) error {
	return fmt.Errorf("%s: %w: %v\n%s", doing, ErrPanic, v, debug.Stack())
}
