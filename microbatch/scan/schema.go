package scan

import (
	"errors"
	"fmt"
	"strings"
)

// node is a node of a Parquet schema.
type node struct {
	*schemaElement
	path     []string
	children []*node
	leaf     int // index among the leaves; -1 for a group
	def, rep int // levels of a value of this node that is there
}

// maxLevels bounds the nesting of a schema; levels are kept in a byte.
const maxLevels = 64

// parseSchema builds the tree and counts its leaves.
func parseSchema(elements []schemaElement) (root *node, leaves int, err error) {
	at := 0
	var build func(parent *node, depth int) (*node, error)
	build = func(parent *node, depth int) (*node, error) {
		if at == len(elements) || depth > maxLevels {
			return nil, errors.New("schema: the tree does not end")
		}
		e := &elements[at]
		at++
		n := &node{schemaElement: e, leaf: -1}
		if parent != nil {
			n.def, n.rep = parent.def, parent.rep
			n.path = append(append(n.path, parent.path...), e.name)
			switch e.rep {
			case repRequired:
			case repOptional:
				n.def++
			case repRepeated:
				n.def++
				n.rep++
			default:
				return nil, fmt.Errorf("schema: column %s: repetition %d", joinPath(n.path), e.rep)
			}
		}
		if e.phys != -1 && parent != nil {
			n.leaf = leaves
			leaves++
			return n, nil
		}
		for range e.children {
			child, err := build(n, depth+1)
			if err != nil {
				return nil, err
			}
			n.children = append(n.children, child)
		}
		return n, nil
	}
	if root, err = build(nil, 0); err != nil {
		return nil, 0, err
	}
	if at != len(elements) {
		return nil, 0, errors.New("schema: elements outside the tree")
	}
	return root, leaves, nil
}

// isList and the like read either annotation; the newer one rules.
func (n *node) isList() bool {
	return n.logical.id == 3 || n.logical.id == 0 && n.converted == 3
}

func (n *node) isMap() bool {
	return n.logical.id == 2 || n.logical.id == 0 && (n.converted == 1 || n.converted == 2)
}

func (n *node) isVariant() bool { return n.logical.id == 16 }

// isStruct says whether a path may lead through the node.
func (n *node) isStruct() bool {
	return n.leaf < 0 && n.schemaElement.rep != repRepeated && !n.isList() && !n.isMap() && !n.isVariant()
}

// find looks a column up: nil where it is missing, an error where the name is
// ambiguous, only another spelling is there, or the path leads through
// something that is no struct.
func (n *node) find(path string) (*node, error) {
	l := lookup{path: path}
	found, err := l.in(n, path)
	if err == nil && found == nil {
		err = l.hint
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// lookup is the search for one column.
type lookup struct {
	path string
	hint error // why it may be missing
}

// in finds the rest of the path below n, the longest name first.
func (l *lookup) in(n *node, rest string) (*node, error) {
	for end := len(rest); end >= 0; end = strings.LastIndexByte(rest[:end], '.') {
		child, err := l.child(n, rest[:end])
		switch {
		case err != nil:
			return nil, err
		case child == nil:
		case end == len(rest):
			return child, nil
		case !child.isStruct():
			l.hint = fmt.Errorf("column %s: %s is no struct", l.path, joinPath(child.path))
		default:
			if found, err := l.in(child, rest[end+1:]); found != nil || err != nil {
				return found, err
			}
		}
	}
	return nil, nil
}

func (l *lookup) child(n *node, name string) (*node, error) {
	var child *node
	for _, c := range n.children {
		switch {
		case c.name == name && child != nil:
			return nil, fmt.Errorf("column %s: twice in the schema", joinPath(c.path))
		case c.name == name:
			child = c
		case l.hint == nil && strings.EqualFold(c.name, name):
			l.hint = caseError(l.path, joinPath(c.path))
		}
	}
	return child, nil
}

func joinPath(path []string) string { return strings.Join(path, ".") }
