package scan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
)

// assembler builds one column, whole rows at a time, from the leaves beneath
// it (the record assembly of the Dremel paper, a column at a time). Lists of
// all layouts become List: the standard three levels, the older two, and a
// repeated field without annotation. Where the layout can tell a null list from
// an empty one, the vector does.
type assembler struct {
	kind   column.Kind // List, Struct, or Null for a leaf
	typ    column.Type
	def    int // definition level from which on the value is not null
	item   int // List: from which on there is an element
	rep    int // List: repetition level of a further element
	leaf   *leafReader
	kids   []*assembler  // Struct: the fields; List: the element
	leaves []*leafReader // all beneath
	any    bool          // List, Struct: a row that was read has one; of a leaf see there
}

var errLevels = errors.New("the levels of the column's leaves disagree")

// newAssembler plans the column of a node.
func newAssembler(n *node) (*assembler, error) { return plan(n, false) }

// plan plans a node; element means that its repetition is the list's that it
// is the element of.
func plan(n *node, element bool) (*assembler, error) {
	if n.schemaElement.rep == repRepeated && !element {
		item, err := plan(n, true)
		if err != nil {
			return nil, err
		}
		return listOf(item, n.def-1, n), nil
	}
	switch {
	case n.leaf >= 0:
		lt, err := n.leafType()
		if err != nil {
			return nil, err
		}
		l := &leafReader{node: n, lt: lt}
		return &assembler{typ: lt.typ, def: n.def, leaf: l, leaves: []*leafReader{l}}, nil
	case n.isMap():
		return nil, errors.New("maps are not supported")
	case n.isVariant():
		return nil, errors.New("variants are not supported")
	case n.isList():
		return planList(n)
	}
	if len(n.children) == 0 {
		return nil, errors.New("a struct without fields")
	}
	a := &assembler{kind: column.Struct, def: n.def}
	fields := make([]column.Field, 0, len(n.children))
	seen := make(map[string]bool, len(n.children))
	for _, child := range n.children {
		if seen[child.name] {
			return nil, fmt.Errorf("field %s: twice in the schema", child.name)
		}
		seen[child.name] = true
		kid, err := plan(child, false)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", child.name, err)
		}
		a.kids = append(a.kids, kid)
		a.leaves = append(a.leaves, kid.leaves...)
		fields = append(fields, column.Field{Name: child.name, Type: kid.typ})
	}
	a.typ = column.StructOf(fields...)
	return a, nil
}

func listOf(item *assembler, def int, repeated *node) *assembler {
	return &assembler{kind: column.List, typ: column.ListOf(item.typ), def: def, item: repeated.def, rep: repeated.rep,
		kids: []*assembler{item}, leaves: item.leaves}
}

// planList plans an annotated list by the format's rules for old layouts: the
// repeated node is itself the element unless it is a group of one field whose
// only purpose is to hold it.
func planList(n *node) (*assembler, error) {
	if len(n.children) != 1 || n.children[0].schemaElement.rep != repRepeated {
		return nil, errors.New("a list that is not one repeated field")
	}
	r := n.children[0]
	holder := r.leaf < 0 && len(r.children) == 1 && r.name != "array" && r.name != n.name+"_tuple" &&
		r.children[0].schemaElement.rep != repRepeated && !r.isList() && !r.isMap()
	var item *assembler
	var err error
	if holder {
		item, err = plan(r.children[0], false)
	} else {
		item, err = plan(r, true)
	}
	if err != nil {
		return nil, fmt.Errorf("list element: %w", err)
	}
	return listOf(item, n.def, r), nil
}

// flat says whether the column is one leaf without repetition.
func (a *assembler) flat() bool { return a.leaf != nil && a.leaf.node.rep == 0 }

// read appends n rows to v, whose type has the column's Repr.
func (a *assembler) read(v *column.Vector, n int) error {
	if a.flat() {
		return a.leaf.readFlat(v, n)
	}
	for _, l := range a.leaves {
		if err := l.readRows(n); err != nil {
			return fmt.Errorf("leaf %s: %w", l.node.name, err)
		}
	}
	for range n {
		if err := a.one(v, 0, 0); err != nil {
			return err
		}
	}
	for _, l := range a.leaves {
		if l.at != len(l.defs) {
			return errLevels
		}
	}
	return nil
}

// seen is the column's type with Null wherever no row that was read has a value.
func (a *assembler) seen() column.Type {
	switch {
	case a.leaf != nil && a.leaf.any:
		return a.typ
	case !a.any:
		return column.Type{}
	case a.kind == column.List:
		return column.ListOf(a.kids[0].seen())
	}
	fields := slices.Clone(a.typ.Fields)
	for i, kid := range a.kids {
		fields[i].Type = kid.seen()
	}
	return column.StructOf(fields...)
}

// level returns the definition level at which the first leaf stands.
func (a *assembler) level() (int, error) {
	l := a.leaves[0]
	if l.at >= len(l.defs) {
		return 0, errLevels
	}
	return int(l.defs[l.at]), nil
}

// one appends one value. Its levels in every leaf beneath must start at
// repetition level rep and lie at least at definition level def: what the
// first leaf says of the structure, the others must say too.
func (a *assembler) one(v *column.Vector, rep, def int) error {
	d, err := a.level()
	if err != nil {
		return err
	}
	if d < def {
		return errLevels
	}
	if a.leaf != nil {
		return a.value(v, rep, d)
	}
	if d < a.def {
		v.AppendNull()
		return a.pass(rep, d)
	}
	a.any = true
	if a.kind == column.Struct {
		for i, kid := range a.kids {
			if err := kid.one(v.Fields[i], rep, a.def); err != nil {
				return err
			}
		}
		v.EndStruct()
		return nil
	}
	if d < a.item {
		v.EndList()
		return a.pass(rep, d)
	}
	first := a.leaves[0]
	for {
		if err := a.kids[0].one(v.Elem, rep, a.item); err != nil {
			return err
		}
		if first.at == len(first.defs) || int(first.reps[first.at]) < a.rep {
			break
		}
		rep = a.rep
	}
	v.EndList()
	return nil
}

// value appends a leaf's value.
func (a *assembler) value(v *column.Vector, rep, d int) error {
	l := a.leaf
	if int(l.reps[l.at]) != rep {
		return errLevels
	}
	l.at++
	if d < a.def {
		v.AppendNull()
		return nil
	}
	if l.value >= l.vals.Len() {
		return errLevels
	}
	l.value++
	l.any = true
	return v.AppendFrom(l.vals, l.value-1)
}

// pass consumes the one level that stands for a null or empty value in every
// leaf beneath.
func (a *assembler) pass(rep, d int) error {
	for _, l := range a.leaves {
		if l.at >= len(l.defs) || int(l.defs[l.at]) != d || int(l.reps[l.at]) != rep {
			return errLevels
		}
		l.at++
	}
	return nil
}
