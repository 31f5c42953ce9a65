package index

import (
	"cmp"
	"slices"

	"github.com/expr-lang/expr/ast"

	"github.com/deltad/deltad/microbatch/column"
)

// Most filters compare columns with literals. Such a condition is evaluated for
// a batch at once, over the columns themselves: the machine that evaluates any
// expression takes each record's operands out of them and costs a hundred times
// as much. The outcome is the machine's, null included: what it was asked for
// and was null makes all of the condition null.

// condition is a filter that cannot fail.
type condition interface {
	// eval sets out to the condition's value for each record of the batch.
	eval(batch *column.Batch, out []tri)
}

// newCondition returns the expression as a condition over the columns, nil where
// it is more than that. It has been compiled for the same types.
func newCondition(e *expression, at func(path string) int, typeOf func(path string) column.Type) condition {
	b := conditions{paths: e.paths, at: at, typeOf: typeOf}
	return b.of(e.tree)
}

type conditions struct {
	paths  []string // those that are columns: others lie within one
	at     func(path string) int
	typeOf func(path string) column.Type
}

// path returns the column that a node is.
func (b *conditions) path(n ast.Node) (string, bool) {
	path, ok := chain(n)
	return path, ok && slices.Contains(b.paths, path)
}

func (b *conditions) of(n ast.Node) condition {
	switch n := n.(type) {
	case *ast.IdentifierNode, *ast.MemberNode, *ast.ChainNode:
		if path, ok := b.path(n); ok && b.typeOf(path).Kind == column.Bool {
			return &comparison{column: b.at(path), holds: equal, literal: literal{kind: column.Bool, b: true}}
		}
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			if of := b.of(n.Node); of != nil {
				return negation{of}
			}
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "and", "&&", "or", "||":
			l, r := b.of(n.Left), b.of(n.Right)
			if l == nil || r == nil {
				return nil
			}
			return &junction{l: l, r: r, decides: n.Operator == "or" || n.Operator == "||"}
		}
		return b.comparison(n)
	}
	return nil
}

// orders are the outcomes of a comparison that make it true.
type orders uint8

const (
	less orders = 1 << iota
	equal
	greater
	unordered // one is no number
)

// operatorsOf are those of an operator, and with its sides exchanged.
func operatorsOf(operator string) (holds, exchanged orders) {
	switch operator {
	case "==":
		return equal, equal
	case "!=":
		return less | greater | unordered, less | greater | unordered
	case "<":
		return less, greater
	case "<=":
		return less | equal, greater | equal
	case ">":
		return greater, less
	case ">=":
		return greater | equal, less | equal
	}
	return 0, 0
}

func (b *conditions) comparison(n *ast.BinaryNode) condition {
	holds, exchanged := operatorsOf(n.Operator)
	if holds == 0 {
		return nil
	}
	path, ok := b.path(n.Left)
	with, constant := literalOf(n.Right)
	if !ok || !constant {
		if path, ok = b.path(n.Right); !ok {
			return nil
		}
		if with, constant = literalOf(n.Left); !constant {
			return nil
		}
		holds = exchanged
	}
	t := b.typeOf(path)
	switch {
	case t.Kind == column.Bool && with.kind == column.Bool && (n.Operator == "==" || n.Operator == "!="):
	case t.Kind == column.String && with.kind == column.String:
	case t.IsInt() && (with.kind == column.Int64 || with.kind == column.Float64):
	case t.IsFloat() && (with.kind == column.Int64 || with.kind == column.Float64):
		if with.kind == column.Int64 {
			with = literal{kind: column.Float64, f: float64(with.i)}
		}
	default:
		return nil
	}
	return &comparison{column: b.at(path), holds: holds, literal: with}
}

// literal is a constant of an expression.
type literal struct {
	kind column.Kind
	b    bool
	i    int64
	f    float64
	s    string
}

func literalOf(n ast.Node) (literal, bool) {
	switch n := n.(type) {
	case *ast.BoolNode:
		return literal{kind: column.Bool, b: n.Value}, true
	case *ast.IntegerNode:
		return literal{kind: column.Int64, i: int64(n.Value)}, true
	case *ast.FloatNode:
		return literal{kind: column.Float64, f: n.Value}, true
	case *ast.StringNode:
		return literal{kind: column.String, s: n.Value}, true
	case *ast.UnaryNode:
		l, ok := literalOf(n.Node)
		if !ok || n.Operator != "-" || l.kind != column.Int64 && l.kind != column.Float64 {
			return literal{}, false
		}
		l.i, l.f = -l.i, -l.f
		return l, true
	}
	return literal{}, false
}

// comparison compares a column with a literal.
type comparison struct {
	literal
	column int
	holds  orders
	dict   *column.Vector // of which known has the outcomes
	known  []tri
}

// say is the outcome of a comparison as a verdict.
func (c *comparison) say(o orders) tri {
	if c.holds&o != 0 {
		return removes
	}
	return keeps
}

func orderOf(c int) orders {
	switch {
	case c < 0:
		return less
	case c > 0:
		return greater
	}
	return equal
}

func floatOrder(a, b float64) orders {
	switch {
	case a < b:
		return less
	case a > b:
		return greater
	case a == b:
		return equal
	}
	return unordered
}

func (c *comparison) eval(batch *column.Batch, out []tri) {
	v := batch.Columns[c.column]
	switch {
	case v.Type.Kind == column.Null:
		clear(out)
		return
	case c.kind == column.Bool:
		for i := range out {
			out[i] = c.say(equal)
			if v.Bools[i] != c.b {
				out[i] = c.say(less)
			}
		}
	case c.kind == column.String:
		c.texts(v, out)
	case v.Type.IsFloat():
		for i := range out {
			out[i] = c.say(floatOrder(v.Floats[i], c.f))
		}
	case c.kind == column.Float64:
		for i := range out {
			out[i] = c.say(floatOrder(float64(v.Ints[i]), c.f))
		}
	default:
		for i := range out {
			out[i] = c.say(orderOf(cmp.Compare(v.Ints[i], c.i)))
		}
	}
	if v.Valid != nil {
		for i := range out {
			if !v.Valid[i] {
				out[i] = unsaid
			}
		}
	}
}

// texts compares strings, those of a dictionary once.
func (c *comparison) texts(v *column.Vector, out []tri) {
	if v.Dict == nil || len(v.Codes) < len(out) || v.Dict.Len() == 0 {
		for i := range out {
			out[i] = c.say(orderOf(cmp.Compare(v.Strings[i], c.s)))
		}
		return
	}
	if c.dict != v.Dict {
		c.dict, c.known = v.Dict, c.known[:0]
		for _, s := range v.Dict.Strings {
			c.known = append(c.known, c.say(orderOf(cmp.Compare(s, c.s))))
		}
	}
	for i := range out {
		out[i] = c.known[v.Codes[i]]
	}
}

type negation struct{ of condition }

func (n negation) eval(batch *column.Batch, out []tri) {
	n.of.eval(batch, out)
	for i, t := range out {
		switch t {
		case keeps:
			out[i] = removes
		case removes:
			out[i] = keeps
		case unsaid:
		}
	}
}

// junction is l and r, or l or r: a left side that is null is the outcome, one
// that decides is too, else it is the right side.
type junction struct {
	l, r    condition
	decides bool // the value of l that decides
	right   []tri
}

func (j *junction) eval(batch *column.Batch, out []tri) {
	j.l.eval(batch, out)
	j.right = append(j.right[:0], make([]tri, len(out))...)
	j.r.eval(batch, j.right)
	goesOn := removes
	if j.decides {
		goesOn = keeps
	}
	for i, t := range out {
		if t == goesOn {
			out[i] = j.right[i]
		}
	}
}
