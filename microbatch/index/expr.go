package index

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/deltad/deltad/microbatch/column"
)

// impure are the built-in functions whose result is not a function of their
// arguments' values: the wall clock, and those that show a map's order.
var impure = []string{"now", "keys", "values", "toPairs"}

// expression is parsed source and the operands it names.
type expression struct {
	source string
	// paths are the columns or fields it reads, sorted; "offer.price" is the
	// member price of offer.
	paths []string
}

// parseExpression checks the syntax and finds the operands.
func parseExpression(source string) (*expression, error) {
	tree, err := parser.Parse(source)
	if err != nil {
		what, _, _ := strings.Cut(err.Error(), "\n") // the rest draws the place it names
		return nil, fmt.Errorf("parse expression %q: %s", source, what)
	}
	c := &pathCollector{declared: map[string]bool{}, inner: map[ast.Node]bool{}}
	ast.Walk(&tree.Node, c)
	e := &expression{source: source}
	for _, p := range c.paths {
		root, _, _ := strings.Cut(p, ".")
		if c.declared[root] {
			continue
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
// children first, so that a longer chain is seen after its parts; inner marks
// the nodes that a longer chain has taken in.
type pathCollector struct {
	declared map[string]bool
	inner    map[ast.Node]bool
	paths    []string
}

func (c *pathCollector) Visit(node *ast.Node) {
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

// compiled is an expression bound to the types of its operands, with the
// machine and environment that evaluate it. It is not safe for concurrent use.
type compiled struct {
	source  string
	program *vm.Program
	machine vm.VM
	out     column.Type
	env     map[string]any
	slots   []slot

	quick condition // the same for a batch at once; nil where there is none
	says  []tri     // its values for the batch in hand
}

// slot is where one operand goes: a key of env or of a map nested in it.
type slot struct {
	path string
	typ  column.Type
	at   map[string]any
	key  string
}

// bind compiles e for operands of the given types, by path. Where the type of
// its value hangs on an operand that no value was seen of, it is what the other
// operands leave it to be, else that of a column without values.
func (e *expression) bind(typeOf func(path string) column.Type, asBool bool) (*compiled, error) {
	c, err := e.compile(typeOf, asBool)
	if !errors.Is(err, errOpen) {
		return c, err
	}
	out := column.Type{}
	found := false
	for _, as := range []column.Kind{column.Bool, column.Int64, column.Float64, column.String, column.Timestamp} {
		unseen := false
		seen, assumed := e.compile(func(path string) column.Type {
			t := typeOf(path)
			if t.Kind == column.Null {
				unseen = true
				return column.Of(as)
			}
			return t
		}, false)
		switch {
		case !unseen:
			return nil, err // its type is open whatever is seen
		case assumed != nil:
		case !found:
			out, found = seen.out, true
		case !out.Equal(seen.out):
			out = column.Type{}
		}
	}
	if !found {
		return nil, err
	}
	c.out = out
	return c, nil
}

// errOpen is an expression whose value may be of any type.
var errOpen = errors.New("its type is not known before it runs; wrap it with int(), float() or string()")

// compile is bind for operands whose types are all that matters. With errOpen
// it returns the expression all the same.
func (e *expression) compile(typeOf func(path string) column.Type, asBool bool) (*compiled, error) {
	c := &compiled{source: e.source, env: map[string]any{}}
	env := types.Map{}
	for _, p := range e.paths {
		parts := strings.Split(p, ".")
		at, tm := c.env, env
		for _, part := range parts[:len(parts)-1] {
			next, ok := at[part].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[part], tm[part] = next, types.Map{}
			}
			at, tm = next, tm[part].(types.Map)
		}
		t := typeOf(p)
		c.slots = append(c.slots, slot{path: p, typ: t, at: at, key: parts[len(parts)-1]})
		tm[parts[len(parts)-1]] = exprType(t)
	}
	options := append(checked(), expr.Env(env), expr.Timezone("UTC"), expr.Patch(nullEquality{}))
	for _, name := range impure {
		options = append(options, expr.DisableBuiltin(name))
	}
	program, err := expr.Compile(e.source, options...)
	if err != nil {
		return nil, fmt.Errorf("compile expression %q: %w", e.source, err)
	}
	c.program = program
	// The library's own demand for a boolean would turn null into false.
	if t := program.Node().Type(); asBool {
		if t == nil || t.Kind() != reflect.Bool {
			return nil, fmt.Errorf("compile expression %q: it is a %v, not a condition", e.source, t)
		}
		c.out = column.Of(column.Bool)
		return c, nil
	}
	if c.out, err = outputType(program.Node().Type()); err != nil {
		return c, fmt.Errorf("expression %q: %w", e.source, err)
	}
	return c, nil
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
	// The library's message draws the source; one line is enough here.
	line, _, _ := strings.Cut(err.Error(), "\n")
	return nil, fmt.Errorf("evaluate expression %q: %s", c.source, line)
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
	return column.Type{}, fmt.Errorf("a %s cannot be a field; wrap it with int(), float() or string()", t)
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
