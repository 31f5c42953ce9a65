package parquet

import (
	"github.com/deltad/deltad/microbatch/column"
)

// shredder splits one column into leaves, with repetition and definition levels as Dremel has them.
type shredder struct {
	typ      column.Type
	optional bool
	rep      uint8 // repetition level of a list's second element
	leaf     *leaf
	flat     bool        // a leaf that is below nothing
	parts    []*shredder // element of a list, fields of a struct
	slots    []slot      // reused: what the element of a list is asked for
	below    []slot      // reused: what the fields of a struct are asked for
}

// slot is a place in a leaf: its levels as far as they are known, and the row of the vector to look at, or less than 0 where there is
// nothing below.
type slot struct {
	row      int32
	def, rep uint8
}

// newShredders returns the shredder of each field and the leaves they fill, in the order of the schema.
func newShredders(fields []column.Field) ([]*shredder, []*leaf) {
	var leaves []*leaf
	cols := make([]*shredder, len(fields))
	for i, f := range fields {
		cols[i] = newShredder(f, "", nil, 0, 0, &leaves)
		cols[i].flat = cols[i].leaf != nil
	}
	var keys []*leaf
	for _, l := range leaves {
		if l.key {
			keys = append(keys, l)
		}
	}
	if len(keys) > 0 {
		keys[0].first, keys[0].sole = true, len(keys) == 1
	}
	return cols, leaves
}

func newShredder(f column.Field, path string, names []string, def, rep uint8, leaves *[]*leaf) *shredder {
	path += f.Name
	names = append(names[:len(names):len(names)], f.Name)
	s := &shredder{typ: f.Type, optional: !f.Key, rep: rep}
	if s.optional {
		def++
	}
	switch f.Type.Kind {
	case column.List:
		s.rep++
		elem := column.Field{Name: "element", Type: *f.Type.Elem}
		s.parts = []*shredder{newShredder(elem, path+".", append(names, "list"), def+1, s.rep, leaves)}
	case column.Struct:
		for _, g := range f.Type.Fields {
			g.Key = false
			s.parts = append(s.parts, newShredder(g, path+".", names, def, s.rep, leaves))
		}
	default:
		s.leaf = &leaf{path: path, names: names, typ: f.Type, physical: physicalOf(f.Type), key: f.Key, def: def, rep: rep}
		*leaves = append(*leaves, s.leaf)
	}
	return s
}

// rows adds rows i to j of a top-level column.
func (s *shredder) rows(v *column.Vector, i, j int) error {
	if s.flat {
		return s.leaf.addFlat(v, i, j)
	}
	s.slots = s.slots[:0]
	for ; i < j; i++ {
		s.slots = append(s.slots, slot{row: int32(i)})
	}
	s.rowsBelow(len(s.slots))
	return s.walk(v, s.slots)
}

func (s *shredder) rowsBelow(n int) {
	if s.leaf != nil {
		s.leaf.rows += n
	}
	for _, p := range s.parts {
		p.rowsBelow(n)
	}
}

// walk adds what v has for the slots, which it overwrites.
func (s *shredder) walk(v *column.Vector, slots []slot) error {
	if s.optional {
		for i := range slots {
			switch at := &slots[i]; {
			case at.row < 0:
			case v.Null(int(at.row)):
				at.row = -1
			default:
				at.def++
			}
		}
	}
	switch {
	case s.leaf != nil:
		return s.leaf.addSlots(v, slots)
	case s.typ.Kind == column.List:
		var elem *column.Vector // none in a vector of nulls
		if v != nil {
			elem = v.Elem
		}
		return s.parts[0].walk(elem, s.elements(v, slots))
	}
	for k, p := range s.parts {
		below := slots
		if k < len(s.parts)-1 { // the last field may have the slots themselves
			s.below = append(s.below[:0], slots...)
			below = s.below
		}
		var field *column.Vector // none in a vector of nulls
		if v != nil && v.Fields != nil {
			field = v.Fields[k]
		}
		if err := p.walk(field, below); err != nil {
			return err
		}
	}
	return nil
}

// elements are the slots of a list's elements: one for each, and one for a list that has none.
func (s *shredder) elements(v *column.Vector, slots []slot) []slot {
	out := s.below[:0]
	for _, at := range slots {
		if at.row < 0 {
			out = append(out, at)
			continue
		}
		from, to := v.Offsets[at.row], v.Offsets[at.row+1]
		if from == to {
			out = append(out, slot{row: -1, def: at.def, rep: at.rep})
			continue
		}
		rep := at.rep
		for k := from; k < to; k++ {
			out = append(out, slot{row: k, def: at.def + 1, rep: rep})
			rep = s.rep
		}
	}
	s.below = out
	return out
}

// addSlots adds a value or a null for each slot.
func (l *leaf) addSlots(v *column.Vector, slots []slot) error {
	for _, at := range slots {
		l.defs = append(l.defs, at.def)
		if at.def < l.def {
			l.nulls++
		}
	}
	if l.rep > 0 {
		for _, at := range slots {
			l.reps = append(l.reps, at.rep)
		}
	}
	l.values += len(slots)
	for i := 0; i < len(slots); {
		from := slots[i].row
		if i++; from < 0 {
			continue
		}
		to := from + 1
		for i < len(slots) && slots[i].row == to {
			i, to = i+1, to+1
		}
		if err := l.addThere(v, int(from), int(to)); err != nil {
			return err
		}
	}
	return nil
}

// weight is about how many bytes rows i to j take, by their content alone.
func weight(v *column.Vector, i, j int) int {
	n := j - i
	switch v.Type.Kind {
	case column.String, column.Bytes:
		sum := 4 * n
		for _, s := range v.Strings[i:j] {
			sum += len(s)
		}
		return sum
	case column.List:
		return 4*n + weight(v.Elem, int(v.Offsets[i]), int(v.Offsets[j]))
	case column.Struct:
		sum := n
		for _, f := range v.Fields {
			sum += weight(f, i, j)
		}
		return sum
	case column.Decimal:
		return 16 * n
	}
	return 8 * n
}
