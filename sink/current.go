package sink

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// CurrentKey is the key of the one mutable object, relative to the output root like every key here.
const CurrentKey = "CURRENT"

// MaxCurrent is the most bytes CURRENT may have, so that it is read and written in one small request.
const MaxCurrent = 4096

// MaxCondemned is the most ids that are condemned at a time.
const MaxCondemned = 64

const currentFormat = "deltad.current/1"

// Reason says why CURRENT was changed or a manifest written.
type Reason string

// The reasons.
const (
	Publish  Reason = "publish"  // an advance
	Refine   Reason = "refine"   // a new pane at the same watermark
	Claim    Reason = "claim"    // a new leader's first change; same targets
	Collect  Reason = "collect"  // condemned ids added or dropped; same targets
	Reset    Reason = "reset"    // progress moved by hand; the parent's pane
	Promote  Reason = "promote"  // base and delta flipped together
	Rollback Reason = "rollback" // an older pane, or an older base and its pane
	Recover  Reason = "recover"  // CURRENT was lost and written again
	Adopt    Reason = "adopt"    // a claim over another state store's owner
)

func (r Reason) valid() bool {
	switch r {
	case Publish, Refine, Claim, Collect, Reset, Promote, Rollback, Recover, Adopt:
		return true
	}
	return false
}

// keepsTargets says whether a change of this reason names what was named before.
func (r Reason) keepsTargets() bool { return r == Claim || r == Collect || r == Adopt }

// Owner is who writes CURRENT. Epoch and Nonce fence, State is the id of the state store that gave out the epoch, Instance is for people.
type Owner struct {
	Epoch    int64  `json:"epoch"`
	Nonce    string `json:"nonce"`
	State    string `json:"state"`
	Instance string `json:"instance"`
}

// Same says whether both are one leader.
func (o Owner) Same(p Owner) bool { return o.Epoch == p.Epoch && o.Nonce == p.Nonce }

// Fences says whether o shuts out p: a higher epoch, or the same epoch under another nonce.
func (o Owner) Fences(p Owner) bool {
	return o.Epoch > p.Epoch || o.Epoch == p.Epoch && o.Nonce != p.Nonce
}

// Ref names a manifest and what its bytes hash to.
type Ref struct {
	Manifest string `json:"manifest"`
	SHA256   string `json:"sha256"`
}

// DeltaRef is the pane CURRENT names.
type DeltaRef struct {
	Manifest  string `json:"manifest"`
	SHA256    string `json:"sha256"`
	Documents int64  `json:"documents"`
}

// Ref is the manifest's part of it.
func (d DeltaRef) Ref() Ref { return Ref{d.Manifest, d.SHA256} }

// BaseRef is the generation of the full index CURRENT names.
type BaseRef struct {
	Generation string `json:"generation"`
	Manifest   string `json:"manifest"`
	SHA256     string `json:"sha256"`
	Cut        Time   `json:"cut"`
}

// Ref is the manifest's part of it.
func (b BaseRef) Ref() Ref { return Ref{b.Manifest, b.SHA256} }

// generation is that of a base, or "none".
func generation(b *BaseRef) string {
	if b == nil {
		return "none"
	}
	return b.Generation
}

// Current is the content of CURRENT. Before the first pane Delta, Base, Watermark and Progress are nil and RunID is empty.
//
// PublishedAt is when the pane named became the one named: claims and collections keep it, every other change sets it.
type Current struct {
	Format      string    `json:"format"`
	Pipeline    string    `json:"pipeline"`
	Version     int64     `json:"version"`
	ChangeID    string    `json:"change_id"`
	Reason      Reason    `json:"reason"`
	Owner       Owner     `json:"owner"`
	RunID       string    `json:"run_id"`
	Watermark   *Time     `json:"watermark"`
	Progress    *Time     `json:"progress"`
	PublishedAt Time      `json:"published_at"`
	Delta       *DeltaRef `json:"delta"`
	Base        *BaseRef  `json:"base"`
	Condemned   []string  `json:"condemned"`
}

// Condemns says whether id is condemned.
func (c Current) Condemns(id string) bool {
	for _, v := range c.Condemned {
		if v == id {
			return true
		}
	}
	return false
}

// sameTargets says whether both name the same pane, base, watermark and progress.
func (c Current) sameTargets(d Current) bool {
	return c.RunID == d.RunID && sameTime(c.Watermark, d.Watermark) && sameTime(c.Progress, d.Progress) &&
		samePtr(c.Delta, d.Delta) && sameBase(c.Base, d.Base)
}

func samePtr[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func sameBase(a, b *BaseRef) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Generation == b.Generation && a.Ref() == b.Ref() && a.Cut.Time.Equal(b.Cut.Time)
}

// Validate says what is wrong with c, naming the field.
func (c Current) Validate() error {
	var k check
	k.format("format", c.Format, currentFormat)
	k.that(c.Pipeline != "", "pipeline", "is empty")
	k.that(c.Version >= 1, "version", "is %d, want at least 1", c.Version)
	k.id("change_id", c.ChangeID)
	k.that(c.Reason.valid(), "reason", "is %q, which is no reason", c.Reason)
	k.that(c.Owner.Epoch >= 1, "owner.epoch", "is %d, want at least 1", c.Owner.Epoch)
	k.that(c.Owner.Nonce != "", "owner.nonce", "is empty")
	k.that(!c.PublishedAt.IsZero(), "published_at", "is missing")
	pane := c.Delta != nil
	k.that(pane == (c.RunID != "") && pane == (c.Watermark != nil) && pane == (c.Progress != nil),
		"delta", "delta, run_id, watermark and progress must be given together or not at all")
	k.that(pane || c.Base == nil, "base", "is given without a delta")
	if pane {
		k.id("run_id", c.RunID)
		k.ref("delta", c.Delta.Ref())
		k.that(c.Delta.Documents >= 0, "delta.documents", "is %d", c.Delta.Documents)
	}
	if c.Base != nil {
		k.id("base.generation", c.Base.Generation)
		k.ref("base", c.Base.Ref())
		k.that(!c.Base.Cut.IsZero(), "base.cut", "is missing")
	}
	k.that(len(c.Condemned) <= MaxCondemned, "condemned", "has %d ids, at most %d are allowed", len(c.Condemned), MaxCondemned)
	seen := make(map[string]bool, len(c.Condemned))
	for _, id := range c.Condemned {
		k.id("condemned", id)
		k.that(!seen[id], "condemned", "names %s twice", id)
		seen[id] = true
	}
	// Invariant 7: what is condemned is not a target.
	k.that(!pane || !seen[c.RunID], "condemned", "names the pane's own run %s", c.RunID)
	k.that(c.Base == nil || !seen[c.Base.Generation], "condemned", "names the base's generation")
	return k.err
}

// Encode returns the canonical bytes: fields in the documented order, no needless escapes, one line.
func (c Current) Encode() ([]byte, error) {
	c.Format = currentFormat
	if c.Condemned == nil {
		c.Condemned = []string{}
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("encode CURRENT: %w", err)
	}
	b, err := encode(c)
	if err != nil {
		return nil, fmt.Errorf("encode CURRENT: %w", err)
	}
	if len(b) > MaxCurrent {
		return nil, fmt.Errorf("encode CURRENT: %d bytes, at most %d are allowed", len(b), MaxCurrent)
	}
	return b, nil
}

// DecodeCurrent reads what Encode wrote, and what a later minor version writes: unknown fields are ignored, an unknown major format
// number is ErrFormat.
func DecodeCurrent(b []byte) (Current, error) {
	if len(b) > MaxCurrent {
		return Current{}, fmt.Errorf("decode CURRENT: more than %d bytes", MaxCurrent)
	}
	var c Current
	if err := decode(b, &c, currentFormat); err != nil {
		return Current{}, fmt.Errorf("decode CURRENT: %w", err)
	}
	if c.Condemned == nil {
		c.Condemned = []string{}
	}
	if err := c.Validate(); err != nil {
		return Current{}, fmt.Errorf("decode CURRENT: %w", err)
	}
	return c, nil
}

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// decode checks the format first, so that a file of a later major version is refused as such and not for some field it has changed.
// What names no format at all no deltad wrote, old or new: it is damaged.
func decode(b []byte, v any, want ...string) error {
	var head *struct {
		Format *string `json:"format"`
	}
	switch err := json.Unmarshal(b, &head); {
	case err != nil:
		return fmt.Errorf("damaged: not a JSON object: %w", err)
	case head == nil:
		return errors.New("damaged: not a JSON object but null")
	case head.Format == nil || *head.Format == "":
		return errors.New("damaged: a JSON object without a format")
	}
	var k check
	if k.format("format", *head.Format, want...); k.err != nil {
		return k.err
	}
	return json.Unmarshal(b, v)
}
