package index

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/deltad/deltad/microbatch/column"
)

// impure are the built-in functions whose result is not a function of their
// arguments' values: the wall clock, and those that show a map's order.
var impure = []string{"now", "keys", "values", "toPairs"}

// expression is parsed source and the operands it names. It is safe for
// concurrent use.
type expression struct {
	source string
	tree   ast.Node // as parsed; nobody changes it
	// paths are the columns or fields it reads, sorted; "offer.price" is the
	// member price of offer.
	paths []string
	// forms are what it was compiled to, the last ones used: all workers and all
	// slices of a pipeline share them.
	forms struct {
		sync.Mutex
		of []*form
	}
}

// parseExpression checks the syntax and finds the operands.
func parseExpression(source string) (*expression, error) {
	tree, err := parser.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("parse expression %q: %s", source, firstLine(err.Error()))
	}
	c := &pathCollector{declared: map[string]bool{}}
	ast.Walk(&tree.Node, c)
	if c.local {
		return nil, fmt.Errorf("parse expression %q: the time zone of the machine is not a function of the record", source)
	}
	e := &expression{source: source, tree: tree.Node}
	for _, p := range c.paths {
		root, _, _ := strings.Cut(p, ".")
		if c.declared[root] {
			continue
		}
		if root == "$env" {
			return nil, fmt.Errorf("parse expression %q: $env is not a column; name columns themselves", source)
		}
		if slices.Contains(impure, root) {
			return nil, fmt.Errorf("parse expression %q: %s is not a function of the record", source, root)
		}
		e.paths = append(e.paths, p)
	}
	slices.Sort(e.paths)
	e.paths = slices.Compact(e.paths)
	// A path below another one is part of it.
	e.paths = slices.DeleteFunc(e.paths, func(p string) bool {
		for i := range p {
			if p[i] == '.' && slices.Contains(e.paths, p[:i]) {
				return true
			}
		}
		return false
	})
	return e, nil
}

// pathCollector gathers the longest chains of plain members. ast.Walk visits
// children first, so that a longer chain is seen after its parts and takes their
// place.
type pathCollector struct {
	declared map[string]bool
	paths    []string
	local    bool // it takes the machine's time zone
}

func (c *pathCollector) Visit(node *ast.Node) {
	c.local = c.local || localNode(*node)
	switch n := (*node).(type) {
	case *ast.VariableDeclaratorNode:
		c.declared[n.Name] = true
	case *ast.IdentifierNode:
		c.paths = append(c.paths, n.Value)
	case *ast.MemberNode:
		whole, ok := chain(n)
		if !ok {
			return
		}
		part, _ := chain(n.Node)
		if i := slices.Index(c.paths, part); i >= 0 {
			c.paths[i] = whole
		}
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			if i := slices.Index(c.paths, id.Value); i >= 0 {
				c.paths = slices.Delete(c.paths, i, i+1)
			}
			if slices.Contains(impure, id.Value) {
				c.paths = append(c.paths, id.Value)
			}
		}
	case *ast.BuiltinNode:
		if slices.Contains(impure, n.Name) {
			c.paths = append(c.paths, n.Name)
		}
	}
}

// chain returns the dotted path of nested plain members, if that is all the
// node is.
func chain(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return n.Value, true
	case *ast.ChainNode:
		return chain(n.Node)
	case *ast.MemberNode:
		name, ok := n.Property.(*ast.StringNode)
		if !ok || n.Method {
			return "", false
		}
		root, ok := chain(n.Node)
		return root + "." + name.Value, ok
	}
	return "", false
}

// compiled is an expression bound to the types of its operands: a form of it with
// the machine and environment that evaluate it. It is not safe for concurrent use.
type compiled struct {
	*form
	source  string
	machine vm.VM
	env     map[string]any
	slots   []slot

	quick condition // the same for a batch at once; nil where there is none
	says  []tri     // its values for the batch in hand
}

// slot is where one operand goes: a key of env or of a map nested in it.
type slot struct {
	path string
	at   map[string]any
	key  string
}

// eval returns the expression's value with the operands set before. An
// operation that fails while an operand is null is null: SQL's rule.
func (c *compiled) eval() (any, error) {
	v, err := c.machine.Run(c.program, c.env)
	if err == nil {
		return v, nil
	}
	for _, s := range c.slots {
		if s.at[s.key] == nil {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("evaluate expression %q: %s", c.source, firstLine(err.Error()))
}

// truth evaluates a filter: known is false where the value is null.
func (c *compiled) truth() (yes, known bool, err error) {
	v, err := c.eval()
	if v == nil || err != nil {
		return false, false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, false, fmt.Errorf("evaluate expression %q: got %T, want a boolean", c.source, v)
	}
	return b, true, nil
}

// nullEquality makes a == b and a != b null where an operand is null. The
// library does so for some types and calls them unequal for others.
type nullEquality struct{}

// Visit rewrites a == b to a == nil or b == nil ? nil : a == b, leaving out
// the side that is a literal. A comparison with nil itself stays.
func (nullEquality) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || n.Operator != "==" && n.Operator != "!=" {
		return
	}
	var null ast.Node
	for _, side := range []ast.Node{n.Left, n.Right} {
		switch side.(type) {
		case *ast.NilNode:
			return
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
			continue
		}
		var is ast.Node = &ast.BinaryNode{Operator: "==", Left: side, Right: &ast.NilNode{}}
		if null != nil {
			is = &ast.BinaryNode{Operator: "or", Left: null, Right: is}
		}
		null = is
	}
	if null != nil {
		ast.Patch(node, &ast.ConditionalNode{Cond: null, Exp1: &ast.NilNode{}, Exp2: n})
	}
}

func (c *compiled) set(i int, v *column.Vector, row int) { c.slots[i].at[c.slots[i].key] = box(v, row) }

func exprType(t column.Type) types.Type {
	switch t.Kind {
	case column.Bool:
		return types.Bool
	case column.Int32, column.Int64:
		return types.Int64
	case column.Float32, column.Float64, column.Decimal:
		return types.Float64
	case column.String, column.Bytes:
		return types.String
	case column.Date, column.Timestamp:
		return types.TypeOf(time.Time{})
	case column.Time:
		return types.TypeOf(time.Duration(0))
	case column.List:
		return types.Array(exprType(*t.Elem))
	case column.Struct:
		m := types.Map{}
		for _, f := range t.Fields {
			m[f.Name] = exprType(f.Type)
		}
		return m
	}
	return types.Any
}

var timeType = reflect.TypeFor[time.Time]()

func outputType(t reflect.Type) (column.Type, error) {
	if isOpen(t) {
		return column.Type{}, errOpen
	}
	switch t.Kind() {
	case reflect.Bool:
		return column.Of(column.Bool), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return column.Of(column.Int64), nil
	case reflect.Float32, reflect.Float64:
		return column.Of(column.Float64), nil
	case reflect.String:
		return column.Of(column.String), nil
	}
	if t == timeType {
		return column.Of(column.Timestamp), nil
	}
	return column.Type{}, &noFieldError{t}
}

// box returns the value as expressions see it; null is nil. Decimals are their
// nearest double, dates midnight UTC.
func box(v *column.Vector, i int) any {
	if v.Null(i) {
		return nil
	}
	switch v.Type.Kind {
	case column.Bool:
		return v.Bools[i]
	case column.Int32, column.Int64:
		return v.Ints[i]
	case column.Float32, column.Float64:
		return v.Floats[i]
	case column.Decimal:
		return decimalFloat(v.Decimals[i], int(v.Type.Scale))
	case column.String, column.Bytes:
		return v.Strings[i]
	case column.Date:
		return time.Unix(v.Ints[i]*86400, 0).UTC()
	case column.Time:
		return time.Duration(v.Ints[i])
	case column.Timestamp:
		return v.Instant(i)
	case column.List:
		out := make([]any, 0, v.Offsets[i+1]-v.Offsets[i])
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			out = append(out, box(v.Elem, int(j)))
		}
		return out
	case column.Struct:
		out := make(map[string]any, len(v.Fields))
		for k, f := range v.Type.Fields {
			out[f.Name] = box(v.Fields[k], i)
		}
		return out
	}
	return nil
}

// unbox appends an expression's value to a vector of the expression's type. NaN
// is the one NaN: the sign of 0/0 is another on amd64 than on arm64.
func unbox(value any, dst *column.Vector) error {
	if value == nil {
		dst.AppendNull()
		return nil
	}
	r := reflect.ValueOf(value)
	switch {
	case dst.Type.Kind == column.Bool && r.Kind() == reflect.Bool:
		dst.AppendBool(r.Bool())
	case dst.Type.Kind == column.Int64 && r.CanInt():
		dst.AppendInt(r.Int())
	case dst.Type.Kind == column.Float64 && r.CanFloat():
		f := r.Float()
		if f != f {
			f = math.Float64frombits(0x7ff8000000000000)
		}
		dst.AppendFloat(f)
	case dst.Type.Kind == column.Float64 && r.CanInt():
		dst.AppendFloat(float64(r.Int()))
	case dst.Type.Kind == column.String && r.Kind() == reflect.String:
		dst.AppendString(strings.ToValidUTF8(r.String(), "\uFFFD"))
	case dst.Type.Kind == column.Timestamp && r.Type() == timeType:
		t := value.(time.Time)
		dst.AppendTimestamp(t.Unix(), int32(t.Nanosecond()))
	default:
		return fmt.Errorf("got %T, want %s", value, dst.Type)
	}
	return nil
}
