package microbatch

import (
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// lookup says which keys are among objects. Keys that are asked for in the
// objects' own order, as those of a manifest mostly are, are compared with the
// next object and cost nothing beside; for others it helps if the objects are
// in the order of keys.
type lookup struct {
	objects []partition.Object
	next    int
	known   bool // whether they are in the order of keys
	ordered bool
	byKey   map[string]int // made where they are not
}

func (l *lookup) has(key string) bool {
	if l.next < len(l.objects) && l.objects[l.next].Key == key {
		l.next++
		return true
	}
	i, ok := l.find(key)
	if ok {
		l.next = i + 1
	}
	return ok
}

func (l *lookup) find(key string) (int, bool) {
	if !l.known {
		l.known = true
		l.ordered = slices.IsSortedFunc(l.objects, func(a, b partition.Object) int { return strings.Compare(a.Key, b.Key) })
	}
	if l.ordered {
		return slices.BinarySearchFunc(l.objects, key, func(o partition.Object, key string) int { return strings.Compare(o.Key, key) })
	}
	if l.byKey == nil {
		l.byKey = make(map[string]int, len(l.objects))
		for i, o := range l.objects {
			l.byKey[o.Key] = i
		}
	}
	i, ok := l.byKey[key]
	return i, ok
}

// sameAs says whether inputs are, one by one, the objects of a plan's. Where
// they are not they may still be the same set.
func sameAs(inputs []sink.Input, planned []Input) bool {
	n := 0
	for i := range planned {
		for j := range planned[i].Objects {
			o := &planned[i].Objects[j]
			if n == len(inputs) || inputs[n].Key != o.Key || inputs[n].ETag != o.ETag || inputs[n].Bytes != o.Size {
				return false
			}
			n++
		}
	}
	return n == len(inputs)
}

// sameObjects says whether two lists are the same set of objects.
func sameObjects(a, b []partition.Object) bool {
	return slices.EqualFunc(a, b, sameObject) || partition.FingerprintOf(a) == partition.FingerprintOf(b)
}

func sameObject(a, b partition.Object) bool { return idOf(a) == idOf(b) }

func objectStart(o partition.Object) time.Time { return o.Partition }

func inputStart(in sink.Input) time.Time { return in.Partition.Time }

// byPartition returns objects or inputs in the order of their partitions, those
// of one as they were. The argument is not changed.
func byPartition[T any](list []T, start func(T) time.Time) []T {
	inOrder := func(a, b T) int { return start(a).Compare(start(b)) }
	if !slices.IsSortedFunc(list, inOrder) {
		list = slices.Clone(list)
		slices.SortStableFunc(list, inOrder)
	}
	return list
}

// headLen is how many at the head of a list are of the first one's partition.
func headLen[T any](list []T, start func(T) time.Time) int {
	n := 0
	for n < len(list) && start(list[n]).Equal(start(list[0])) {
		n++
	}
	return n
}

// grouping collects the objects that are read as one input.
type grouping struct {
	likely int // how many inputs there will be
	inputs []Input
	groups []group
	// objects holds those of all inputs, as far as an input's came in a row.
	objects []partition.Object
	from    int // where the last input's begin
	// index finds an input. It is made when a group comes that is not of a later
	// partition than all before.
	index map[group]int
}

func (g *grouping) add(to group, o partition.Object) {
	last := len(g.groups) - 1
	if last >= 0 && g.groups[last] == to {
		g.append(last, o)
		return
	}
	if g.index == nil && last >= 0 && !to.start.After(g.groups[last].start) {
		g.index = make(map[group]int, len(g.groups))
		for i, known := range g.groups {
			g.index[known] = i
		}
	}
	if g.index != nil {
		if i, ok := g.index[to]; ok {
			g.inputs[i].Objects = append(g.inputs[i].Objects, o)
			return
		}
		g.index[to] = last + 1
	}
	in := Input{Read: to.read, Exact: to.exact}
	in.Start = o.Partition
	if last < 0 {
		g.inputs, g.groups = make([]Input, 0, g.likely+1), make([]group, 0, g.likely+1)
	}
	g.inputs, g.groups, g.from = append(g.inputs, in), append(g.groups, to), len(g.objects)
	g.append(last+1, o)
}

// append adds an object to the last input, unless that was added to elsewhere.
func (g *grouping) append(last int, o partition.Object) {
	in := &g.inputs[last]
	if len(in.Objects) != len(g.objects)-g.from {
		in.Objects = append(in.Objects, o)
		return
	}
	g.objects = append(g.objects, o)
	in.Objects = g.objects[g.from:len(g.objects):len(g.objects)]
}
