// Package store is the object store as deltad needs it: a flat, ordered map from keys to immutable bodies, with conditional writes.
//
// One interface of six methods, several implementations: store/s3 (any S3-compatible server), store/file (a directory), store/mem
// (a test twin). All of them pass the one suite in store/storetest, which is the executable form of this comment.
//
// What every implementation promises:
//
//  1. Listings are in byte order of the full key, complete, without duplicates, and paged: a page holds at most MaxKeys entries, objects
//     and common prefixes together. A listing that cannot be trusted (not a listing, truncated without a token, a repeated token, keys
//     out of order or outside what was asked) is ErrBadListing and never an empty or short result.
//  2. A body is whole. Reading it to the end without an error means that exactly the announced bytes of one version of the object
//     were delivered; a connection that breaks midway is resumed on the same version or surfaces as an error.
//  3. A put is atomic: readers see the old body or the new one.
//  4. Put with IfNoneMatch creates or fails with ErrPrecondition; of any number of concurrent creators exactly one wins. Put with
//     IfMatch replaces that very version or fails with ErrPrecondition; an absent key never matches.
//  5. A write that was acknowledged is seen by every read and listing that starts after it.
//  6. Keys go in and come out as they are: never escaped, unescaped or normalised. A key that an implementation cannot map is ErrBadKey.
//  7. ETags are opaque, unquoted, and compared as strings. Equal bodies may have equal ETags: whoever compares and swaps puts something
//     unique into the body.
//
// What it does not promise: LastModified is the server's idea of a time, for people; nothing may depend on it. Whether a StartAfter that
// lies strictly inside a common prefix still yields that prefix differs between servers; start after After(prefix) instead. A Head that
// meets a missing bucket may be told ErrNotFound, since the protocol has no body to say more.
//
// Failure behaviour. Every error names operation, URL and key, and belongs to at most one class, to be asked for with errors.Is:
// ErrNotFound, ErrPrecondition, ErrNotModified, ErrRange are answers; ErrUnavailable is an outage, throttling included, to be tried
// again at the next trigger (implementations have retried within bounds already); ErrConflict is a put whose outcome must be re-read;
// ErrDenied, ErrNoBucket, ErrBadKey, ErrBadListing, ErrTooLarge, ErrUnsupported want a person. When the caller's context ends, errors.Is finds the
// context's error. After any failed put except ErrPrecondition, ErrDenied and ErrBadKey the outcome is unknown: it may have been applied,
// or be applied later. A caller that then puts again may be refused by its own first put: read back and compare.
package store

import (
	"context"
	"io"
	"strings"
	"time"
)

// MaxPage is the most entries a page holds, and what MaxKeys 0 means.
const MaxPage = 1000

// Store is one bucket, directory or map; see the package comment for the contract. Implementations are safe for concurrent use.
type Store interface {
	// List returns one page.
	List(ctx context.Context, o ListOptions) (Page, error)
	// Get opens a whole object or one range of it. The caller closes Body. Cancelling ctx also ends reads of Body.
	Get(ctx context.Context, key string, o GetOptions) (Object, error)
	// Put writes the object from the start of body to its end and returns the new ETag. Body is read with Seek and Read, possibly more
	// than once, and is not closed. Objects of any size are streamed, not buffered whole (except by store/mem).
	Put(ctx context.Context, key string, body io.ReadSeeker, o PutOptions) (etag string, err error)
	// Head returns what List would say of one object, or ErrNotFound.
	Head(ctx context.Context, key string) (ObjectInfo, error)
	// Delete removes an object. Deleting an absent key is no error.
	Delete(ctx context.Context, key string) error
	// String is the store's URL, without credentials, for messages.
	String() string
}

// ListOptions select what a page holds: keys that begin with Prefix and are greater than StartAfter, in byte order.
type ListOptions struct {
	Prefix string
	// StartAfter is an exclusive lower bound, existing or not, inside the prefix or not. Ignored when Token is set.
	StartAfter string
	// Delimiter, if set, folds the keys that hold it after Prefix into one entry of Prefixes, up to and including it.
	Delimiter string
	// Token is NextToken of the page before, with all other options unchanged.
	Token string
	// MaxKeys bounds the page; 0 or more than MaxPage means MaxPage.
	MaxKeys int
}

// Limit is the bound that MaxKeys stands for.
func (o ListOptions) Limit() int {
	if o.MaxKeys <= 0 || o.MaxKeys > MaxPage {
		return MaxPage
	}
	return o.MaxKeys
}

// Page is one page of a listing. Objects and Prefixes are each in byte order; NextToken is empty on the last page. A page may be empty
// and yet not be the last.
type Page struct {
	Objects   []ObjectInfo
	Prefixes  []string
	NextToken string
}

// ObjectInfo describes one version of an object. ETag is unquoted. LastModified is informational.
type ObjectInfo struct {
	Key          string
	ETag         string
	Size         int64
	LastModified time.Time
}

// GetOptions select a range and conditions. The zero value is the whole object, unconditionally.
type GetOptions struct {
	// IfMatch asks for this version: ErrPrecondition if there is another, ErrNotFound if there is none.
	IfMatch string
	// IfNoneMatch asks for anything but this version: ErrNotModified if it is still there.
	IfNoneMatch string
	// Offset is the first byte; negative means the last -Offset bytes (the whole object if it is shorter), and Length must be 0 then.
	Offset int64
	// Length is the number of bytes, 0 for all that follow; fewer are delivered if the object ends before.
	Length int64
}

// Ranged reports whether the options ask for less than the whole object.
func (o GetOptions) Ranged() bool { return o.Offset != 0 || o.Length != 0 }

// Range resolves the options against an object of size bytes. It returns ErrRange if no byte is selected: the range begins at or behind
// the end, or any range is asked of an empty object.
func (o GetOptions) Range(size int64) (offset, length int64, err error) {
	if !o.Ranged() {
		return 0, size, nil
	}
	if o.Length < 0 || (o.Offset < 0 && o.Length != 0) || o.Offset >= size || size == 0 {
		return 0, 0, ErrRange
	}
	if o.Offset < 0 {
		n := min(-o.Offset, size)
		return size - n, n, nil
	}
	length = size - o.Offset
	if o.Length > 0 {
		length = min(length, o.Length)
	}
	return o.Offset, length, nil
}

// Object is an open object. Info.Size is that of the whole object, whatever the range; Body delivers Length bytes from Offset.
type Object struct {
	Info   ObjectInfo
	Offset int64
	Length int64
	Body   io.ReadCloser
}

// PutOptions set conditions, of which at most one may be given, and metadata.
type PutOptions struct {
	// IfNoneMatch creates: ErrPrecondition if the key exists.
	IfNoneMatch bool
	// IfMatch replaces the version with this ETag: ErrPrecondition if it is not there (any more).
	IfMatch string
	// ContentType is for people's browsers; stores without such a thing ignore it.
	ContentType string
	// Unretried sends the request once: no retry of any kind, so that the caller, who reads back anyway, knows of every attempt. It is
	// meant for small bodies.
	Unretried bool
	// Perishable says that the object can be made again and that whoever reads it finds out when it is not what was put: a store that
	// would wait for its disk need not. After a power cut it may be gone, short, or hold other bytes; nothing else may be.
	Perishable bool
}

// Conditional reports whether a condition is set.
func (o PutOptions) Conditional() bool { return o.IfNoneMatch || o.IfMatch != "" }

// After returns a StartAfter that lies behind every key beginning with prefix, as far as keys are valid UTF-8 that does not itself
// continue with the last code point of Unicode. Listing after it jumps over the tree, whether or not anything is in it.
func After(prefix string) string { return prefix + strings.Repeat("\U0010FFFF", 2) }
