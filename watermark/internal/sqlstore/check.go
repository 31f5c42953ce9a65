package sqlstore

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/deltad/deltad/watermark"
	"github.com/oklog/ulid/v2"
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", watermark.ErrInvalid, fmt.Sprintf(format, args...))
}

// checks collects the first broken rule of a call's arguments.
type checks struct{ err error }

func (c *checks) that(ok bool, format string, args ...any) {
	if !ok && c.err == nil {
		c.err = invalid(format, args...)
	}
}

func (c *checks) ulid(what, id string) {
	_, err := ulid.ParseStrict(id)
	c.that(err == nil, "%s %q is not a ULID", what, id)
}

// known refuses an id that no row can have, as one that names nothing: not every
// database can even be asked for it.
func known(id string) error {
	if !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return fmt.Errorf("id %q: %w", id, watermark.ErrNotFound)
	}
	return nil
}

// name is a text that must be there and that both databases store as it is.
func (c *checks) name(what, s string) {
	c.that(s != "", "%s is empty", what)
	c.text(what, s)
}

func (c *checks) text(what, s string) {
	c.that(utf8.ValidString(s) && !strings.ContainsRune(s, 0), "%s %q is not UTF-8 without NUL", what, s)
}

// instant is a time or zero. Data times are kept exactly, so one that would be
// cut is refused.
func (c *checks) instant(what string, t time.Time) {
	if t.IsZero() {
		return
	}
	c.that(inRange(t), "%s %s is outside the years 1 to 9999", what, t)
	c.that(t.Nanosecond()%1000 == 0, "%s %s is finer than a microsecond", what, t.Format(time.RFC3339Nano))
}

func (c *checks) lease(l watermark.Lease) {
	c.name("lease pipeline", l.Pipeline)
	c.role(l.Role)
	c.that(l.Epoch > 0 && l.Nonce != "", "lease of %s has no epoch or nonce", l.Pipeline)
}

func (c *checks) role(r watermark.Role) {
	c.that(r == watermark.RoleDelta || r == watermark.RoleFull, "role %q is neither delta nor full", r)
}

func (c *checks) change(ch watermark.Change) {
	c.ulid("change id", ch.ID)
	c.name("actor", ch.Actor)
}

func (c *checks) limit(n int) { c.that(n > 0, "limit %d is not positive", n) }

// document is a JSON object as text; nil is {}.
func (c *checks) document(what string, raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	c.that(isObject(raw), "%s is not a JSON object: %.80s", what, raw)
	return c.json(what, raw)
}

// array is a JSON array as text; nil is [].
func (c *checks) array(what string, raw json.RawMessage) string {
	if len(raw) == 0 {
		return "[]"
	}
	c.that(isArray(raw), "%s is not a JSON array: %.80s", what, raw)
	return c.json(what, raw)
}

// json is JSON that both databases store.
func (c *checks) json(what string, raw json.RawMessage) string {
	escapes := strings.ReplaceAll(string(raw), `\\`, "") // an escaped backslash starts no escape
	c.that(utf8.Valid(raw) && !strings.Contains(escapes, `\u0000`), "%s contains NUL or is not UTF-8", what)
	return string(raw)
}

// free makes text for people storable everywhere: an error message may quote
// the bytes of a broken file, and must not make its own recording fail.
func free(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// nonce is 128 random bits in hex.
func nonce() string {
	var b [16]byte
	rand.Read(b[:]) // never fails: the program ends if the system has no randomness
	return hex.EncodeToString(b[:])
}
