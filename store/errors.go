package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// Classes of failure; see the package comment for what a caller does about each.
var (
	ErrNotFound     = errors.New("not found")
	ErrPrecondition = errors.New("precondition failed")
	ErrConflict     = errors.New("conflicting operation, outcome must be re-read")
	ErrNotModified  = errors.New("not modified")
	ErrRange        = errors.New("range not satisfiable")
	ErrUnavailable  = errors.New("store unavailable")
	ErrDenied       = errors.New("access denied")
	ErrNoBucket     = errors.New("no such bucket")
	ErrBadKey       = errors.New("key not usable in this store")
	ErrBadListing   = errors.New("not a trustworthy listing")
	ErrTooLarge     = errors.New("object larger than allowed")
	ErrUnsupported  = errors.New("not supported by the store")

	// ErrCredentials says that there are no credentials to ask with, or that where they come from does not answer. It is an
	// ErrUnavailable: nothing was asked of the store, a role's endpoint may be back at the next trigger, and a person may have
	// mended a file or a variable's source by then.
	ErrCredentials error = credentials{}
)

type credentials struct{}

func (credentials) Error() string { return "no credentials" }

func (credentials) Unwrap() error { return ErrUnavailable }

// Outcomes are the names of the classes as Outcome gives them, for metric labels: a closed set.
var Outcomes = []string{
	"ok", "not_found", "precondition", "conflict", "not_modified", "range", "credentials", "unavailable", "denied", "no_bucket", "bad_key",
	"bad_listing", "too_large", "unsupported", "canceled", "error",
}

// Outcome names the class of err: one of Outcomes. A context's end is "canceled" whatever else the error says.
func Outcome(err error) string {
	if err == nil {
		return "ok"
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return "canceled"
	}
	for _, c := range []struct {
		class error
		name  string
	}{
		{ErrNotFound, "not_found"}, {ErrPrecondition, "precondition"}, {ErrConflict, "conflict"}, {ErrNotModified, "not_modified"},
		{ErrRange, "range"}, {ErrCredentials, "credentials"}, {ErrUnavailable, "unavailable"}, {ErrDenied, "denied"}, {ErrNoBucket, "no_bucket"}, {ErrBadKey, "bad_key"},
		{ErrBadListing, "bad_listing"}, {ErrTooLarge, "too_large"},
		{ErrUnsupported, "unsupported"},
	} {
		if errors.Is(err, c.class) {
			return c.name
		}
	}
	return "error"
}

// opError is what implementations return: an operation, what it was about, a class and a cause.
type opError struct {
	op, url, key string
	class, cause error
}

func (e *opError) Error() string {
	at := e.url
	if e.key != "" {
		at = strings.TrimSuffix(at, "/") + "/" + e.key
	}
	msg := e.op + " " + at
	if e.class != nil {
		msg += ": " + e.class.Error()
	}
	if e.cause != nil {
		msg += ": " + e.cause.Error()
	}
	return msg
}

func (e *opError) Unwrap() []error {
	var l []error
	for _, err := range []error{e.class, e.cause} {
		if err != nil {
			l = append(l, err)
		}
	}
	return l
}

// Fail builds an error of a class (nil for none) for an implementation of Store: operation, the store's URL, the key or prefix, and the
// cause (nil if the class says all).
func Fail(op, url, key string, class, cause error) error {
	return &opError{op: op, url: url, key: key, class: class, cause: cause}
}

// CheckKey refuses what no object store takes: an empty key, more than 1,024 bytes, invalid UTF-8, a NUL byte.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: empty key", ErrBadKey)
	case len(key) > 1024:
		return fmt.Errorf("%w: %d bytes, at most 1024", ErrBadKey, len(key))
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: %s is not valid UTF-8", ErrBadKey, url.PathEscape(key))
	case strings.IndexByte(key, 0) >= 0:
		return fmt.Errorf("%w: %s holds a NUL byte", ErrBadKey, url.PathEscape(key))
	}
	return nil
}

// CheckPut refuses a key that CheckKey refuses and options that contradict each other.
func CheckPut(key string, o PutOptions) error {
	if o.IfNoneMatch && o.IfMatch != "" {
		return errors.New("put with both IfNoneMatch and IfMatch")
	}
	return CheckKey(key)
}
