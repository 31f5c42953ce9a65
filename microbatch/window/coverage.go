// Package window knows which partitions a pane speaks for, and folds their
// slices into documents.
//
// Coverage is why skipping partitions is safe. A pane published at N covers
// the partition starts (c, N] with
//
//	c = min(N − max(W, D), P, H − D)
//
// where W is the window, D the longest duration of a field, P the oldest
// progress from which an advance of the last W jumped, and H the cut of the
// oldest base that the pane must fit (the last term only where there is a
// base). Invariants:
//
//  1. A partition that an advance skipped is inside the coverage of every
//     pane for W after that advance (as far as Rule.Max lets coverage reach):
//     no reader that comes at least once in W misses it.
//  2. Coverage reaches back at least max(W, D).
//  3. Without a base it is cut only by Rule.Max, never in silence: what was
//     cut is the Gap of the advance that jumped, and every pane repeats it for
//     W.
//  4. With a base it is never cut: base and delta together speak for every
//     partition. All keys with a record in (H − D, N] are in the delta,
//     because the values that the base has of fields with durations are those
//     at its cut. Coverage beyond Rule.Max is said (Beyond) or held.
//
// Everything in this file is a pure function of metadata.
package window

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/partition"
)

// ErrHeld means that the configuration forbids to publish a pane here: the
// last one stays.
var ErrHeld = errors.New("held")

// Policies for a coverage that would pass Rule.Max.
const (
	Skip    = "skip"    // without a base: cut it, and say so
	Rebuild = "rebuild" // with a base: publish all of it, and say so
	Fail    = "fail"    // hold the last pane
)

// Rule is the configured arithmetic of coverage.
type Rule struct {
	// Size is W, Longest is D.
	Size, Longest time.Duration
	// Max bounds N − c; OnGap says what happens there.
	Max   time.Duration
	OnGap string
}

// Jump is an advance at At whose progress before was From.
type Jump struct{ From, At time.Time }

// Coverage is what a pane at N speaks for and must remember.
type Coverage struct {
	partition.Range
	// Jumps and Gaps are what the manifest lists.
	Jumps []Jump
	Gaps  []partition.Range
	// Gap is the part of Gaps that this advance adds, or nil.
	Gap *partition.Range
	// Beyond says that coverage over a base reaches further back than Rule.Max.
	Beyond bool
}

// MarshalJSON writes {"from", "to", "jumps", "gaps"}.
func (c Coverage) MarshalJSON() ([]byte, error) {
	type jump struct {
		From time.Time `json:"from"`
		At   time.Time `json:"at"`
	}
	out := struct {
		From  time.Time         `json:"from"`
		To    time.Time         `json:"to"`
		Jumps []jump            `json:"jumps"`
		Gaps  []partition.Range `json:"gaps"`
	}{c.From.UTC(), c.To.UTC(), make([]jump, len(c.Jumps)), append([]partition.Range{}, c.Gaps...)}
	for i, j := range c.Jumps {
		out.Jumps[i] = jump{j.From.UTC(), j.At.UTC()}
	}
	return json.Marshal(out)
}

// Past is what the parent pane remembers. Progress is zero before the first.
type Past struct {
	Progress time.Time
	Jumps    []Jump
	Gaps     []partition.Range
}

// Advance computes the coverage of a pane at n, later than past.Progress, over
// bases whose oldest cut is given (zero without a base). skips says whether a
// granule lies between progress and n.
func (r Rule) Advance(past Past, n, oldest time.Time, skips bool) (Coverage, error) {
	jumps, gaps := r.remember(past, n)
	if skips && !past.Progress.IsZero() {
		jumps = append(jumps, Jump{From: past.Progress, At: n})
	}
	c := r.cover(n, jumps, gaps)
	if !oldest.IsZero() {
		r.over(&c, oldest)
		if c.Beyond && r.OnGap == Fail {
			return Coverage{}, fmt.Errorf("coverage of %s reaches back to %s, beyond window.max %s, and window.on_gap is fail; a longer window.max publishes all of it, a promoted rebuild shortens what an old base makes long, `deltad watermark reset` gives up what was jumped over: %w",
				n.Format(time.RFC3339), c.From.Format(time.RFC3339), r.Max, ErrHeld)
		}
		return c, nil
	}
	cut := n.Add(-r.Max)
	if !c.From.Before(cut) {
		return c, nil
	}
	if r.OnGap == Fail {
		return Coverage{}, fmt.Errorf("coverage of %s would reach back to %s, beyond window.max %s, and window.on_gap is fail: %w",
			n.Format(time.RFC3339), c.From.Format(time.RFC3339), r.Max, ErrHeld)
	}
	c.From = cut
	if skips && !past.Progress.IsZero() && past.Progress.Before(cut) {
		c.Gap = &partition.Range{From: past.Progress, To: cut}
		if !slices.ContainsFunc(c.Gaps, func(g partition.Range) bool { return g.From.Equal(c.Gap.From) && g.To.Equal(c.Gap.To) }) {
			c.Gaps = append(c.Gaps, *c.Gap)
		}
	}
	return c, nil
}

// Refine computes the coverage of a new pane at the live pane's watermark n,
// over bases whose oldest cut is given (zero without a base).
func (r Rule) Refine(past Past, n, oldest time.Time) Coverage {
	jumps, gaps := r.remember(past, n)
	c := r.cover(n, jumps, gaps)
	if !oldest.IsZero() {
		r.over(&c, oldest)
		return c
	}
	if cut := n.Add(-r.Max); c.From.Before(cut) {
		c.From = cut
	}
	return c
}

// over lets a coverage reach a base.
func (r Rule) over(c *Coverage, oldest time.Time) {
	if from := oldest.Add(-r.Longest); from.Before(c.From) {
		c.From = from
	}
	c.Gaps = nil // what no pane covered, the base has read or the coverage reaches
	c.Beyond = c.From.Before(c.To.Add(-r.Max))
}

// remember copies the parent's jumps that are younger than W at n, with their
// gaps.
func (r Rule) remember(past Past, n time.Time) ([]Jump, []partition.Range) {
	var jumps []Jump
	var gaps []partition.Range
	for _, j := range past.Jumps {
		if !j.At.After(n.Add(-r.Size)) {
			continue
		}
		jumps = append(jumps, j)
	}
	for _, g := range past.Gaps {
		// After a reset two jumps may have one start; the gap is copied once.
		if slices.ContainsFunc(jumps, func(j Jump) bool { return g.From.Equal(j.From) }) {
			gaps = append(gaps, g)
		}
	}
	return jumps, gaps
}

func (r Rule) cover(n time.Time, jumps []Jump, gaps []partition.Range) Coverage {
	c := n.Add(-max(r.Size, r.Longest))
	for _, j := range jumps {
		if j.From.Before(c) {
			c = j.From
		}
	}
	return Coverage{Range: partition.Range{From: c, To: n}, Jumps: jumps, Gaps: gaps}
}
