package layers

import (
	"fmt"
	"slices"

	"github.com/deltad/deltad/sink"
)

// Settings are output.layers.
type Settings struct {
	// Above is the size of a snapshot, in bytes, from which on panes are written as layers over it.
	Above int64
	// Most is the most layers over a snapshot, up to sink.MaxLayer; 0 writes snapshots alone.
	Most int
}

// Decision says how a pane is to be written.
type Decision struct {
	// Layer is the number of the layer that is written over the live pane; 0 writes a snapshot, and Why says why.
	Layer int
	Why   string
}

func snapshot(why string, args ...any) Decision { return Decision{Why: fmt.Sprintf(why, args...)} }

// Decide says how next, a manifest that lists no files yet, is to be written over live, nil for none. known says that the process has a
// whole Log of the live pane.
func Decide(live *sink.Manifest, next sink.Manifest, known bool, s Settings) Decision {
	switch {
	case s.Most <= 0:
		return snapshot("layers are off")
	case live == nil:
		return snapshot("there is no pane before")
	case next.Reason != sink.Publish && next.Reason != sink.Refine:
		return snapshot("the pane is a %s", next.Reason)
	case live.Reason == sink.Reset || live.Reason == sink.Rollback:
		return snapshot("the pane before is a %s", live.Reason)
	case live.Schema.Hash != next.Schema.Hash:
		return snapshot("the columns differ")
	case live.ConfigHash != next.ConfigHash:
		return snapshot("the configuration differs")
	case !sameBase(live.Base, next.Base) || !slices.Equal(live.Pending, next.Pending):
		return snapshot("the base differs")
	}
	whole, over, last := sizes(*live)
	if whole < s.Above {
		return snapshot("its snapshot has %d bytes, layers begin at %d", whole, s.Above)
	}
	top := live.Top() + 1
	switch more := expected(*live, whole, last); {
	case !known:
		return snapshot("the process did not write the pane before")
	case top > min(s.Most, sink.MaxLayer):
		return snapshot("there are %d layers over the snapshot", top-1)
	case over+more > whole/2:
		return snapshot("the layers have %d bytes and about %d would be added, the snapshot has %d", over, more, whole)
	}
	return Decision{Layer: top}
}

// Keeps says whether the Log of the pane after live, nil for none, is worth writing whole: whether layers may be put over it. So a pane that
// grows beyond Above has such a one, unless it grows by a third at once.
func Keeps(live *sink.Manifest, s Settings) bool {
	if s.Most <= 0 || live == nil {
		return false
	}
	whole, _, _ := sizes(*live)
	return whole >= s.Above-s.Above/4
}

// sizes are the bytes of a pane's snapshot, of all its layers over that, and of the highest.
func sizes(m sink.Manifest) (whole, over, last int64) {
	for i, l := range m.Layers() {
		if last = l.Bytes(); i == 0 {
			whole = last
		} else {
			over += last
		}
	}
	return whole, over, last
}

// expected is about how many bytes the next layer has, going by the pane before: what its own layer has, or else what its counts say, where
// they mean anything.
func expected(live sink.Manifest, whole, last int64) int64 {
	if live.Top() > 0 {
		return last
	}
	c := live.Counts
	if live.Parent == nil || c.Documents == 0 || slices.ContainsFunc(live.Checks, func(c sink.CheckResult) bool { return c.Name == Uncompared }) {
		return 0 // its documents count as new against nothing
	}
	return whole / c.Documents * (c.New + c.Changed + c.Left)
}

// Uncompared is the check of a manifest that says that its documents were counted against nothing.
const Uncompared = "compared_to_parent"

func sameBase(a, b *sink.ManifestBase) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Generation == b.Generation && a.Manifest == b.Manifest && a.SHA256 == b.SHA256
}
