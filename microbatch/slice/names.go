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
		inputs []Input // copies
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
	ids, at, before := make([]ID, len(inputs)), 0, n.mu.inputs
	for i, in := range inputs {
		for at < len(before) && before[at].Start.Before(in.Start) {
			at++
		}
		if at < len(before) && sameInput(in, before[at]) {
			ids[i] = n.mu.ids[at]
			at++
			continue
		}
		ids[i] = n.name(in)
	}
	n.mu.inputs, n.mu.ids = copied(inputs), ids
	return ids
}

// copied are inputs whose lists of objects are nobody else's.
func copied(inputs []Input) []Input {
	all := 0
	for i := range inputs {
		all += len(inputs[i].Objects)
	}
	objects, out := make([]partition.Object, 0, all), make([]Input, len(inputs))
	for i, in := range inputs {
		from := len(objects)
		objects = append(objects, in.Objects...)
		out[i] = Input{in.Start, objects[from:len(objects):len(objects)]}
	}
	return out
}

// sameInput says whether two inputs are of the same objects, in one order.
func sameInput(a, b Input) bool {
	return a.Start.Equal(b.Start) && slices.EqualFunc(a.Objects, b.Objects, func(a, b partition.Object) bool {
		return a.Key == b.Key && a.ETag == b.ETag && a.Size == b.Size
	})
}
