package microbatch

import (
	"slices"

	"github.com/deltad/deltad/microbatch/slice"
)

// naming names the slices of inputs and remembers the names of those before: a
// name is a hash of what is in the input, and of a long window's inputs all but
// the newest were there a run ago.
type naming struct {
	name   func(slice.Input) slice.ID
	inputs []slice.Input
	ids    []slice.ID
}

// of names inputs, in their order. They are to be in that of partitions, as a
// plan's are, for their names to be found again, and must not be changed.
func (n *naming) of(inputs []slice.Input) []slice.ID {
	ids, at := make([]slice.ID, len(inputs)), 0
	for i, in := range inputs {
		for at < len(n.inputs) && n.inputs[at].Start.Before(in.Start) {
			at++
		}
		if at < len(n.inputs) && sameInputs(n.inputs[at], in) {
			ids[i] = n.ids[at]
			at++
			continue
		}
		ids[i] = n.name(in)
	}
	n.inputs, n.ids = inputs, ids
	return ids
}

// sameInputs says whether two inputs are of the same objects, in one order.
func sameInputs(a, b slice.Input) bool {
	return a.Start.Equal(b.Start) && slices.EqualFunc(a.Objects, b.Objects, sameObject)
}
