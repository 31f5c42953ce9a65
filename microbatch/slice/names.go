package slice

import (
	"slices"
	"sync"

	"github.com/deltad/deltad/partition"
)

// Names names inputs and remembers the names of those before: a name is a hash
// of what is in the input, and of a long window's inputs all but the newest were
// there a run ago. It is safe for concurrent use.
type Names struct {
	name func(Input) ID
	mu   struct {
		sync.Mutex
		inputs []Input // with lists of objects that are nobody else's
		ids    []ID
	}
}

// NewNames returns the names that a function gives, which depends on its argument
// alone.
func NewNames(name func(Input) ID) *Names { return &Names{name: name} }

// Of names inputs, in their order. They are to be in that of partitions, as a
// plan's are, for their names to be found again. What is returned may not be
// changed.
func (n *Names) Of(inputs []Input) []ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.EqualFunc(inputs, n.mu.inputs, sameInput) {
		return n.mu.ids
	}
	ids, now, at, before := make([]ID, len(inputs)), make([]Input, len(inputs)), 0, n.mu.inputs
	for i, in := range inputs {
		for at < len(before) && before[at].Start.Before(in.Start) {
			at++
		}
		if at < len(before) && sameInput(in, before[at]) {
			ids[i], now[i] = n.mu.ids[at], before[at]
			at++
			continue
		}
		ids[i], now[i] = n.name(in), Input{in.Start, slices.Clone(in.Objects)}
	}
	n.mu.inputs, n.mu.ids = now, ids
	return ids
}

// sameInput says whether two inputs are of the same objects, in one order.
func sameInput(a, b Input) bool {
	return a.Start.Equal(b.Start) && slices.EqualFunc(a.Objects, b.Objects, func(a, b partition.Object) bool {
		return a.Key == b.Key && a.ETag == b.ETag && a.Size == b.Size
	})
}
