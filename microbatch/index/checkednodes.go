package index

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// checkedNodes rewrites to calls of checked functions what the library's
// overloading of operators does not reach: powers, a minus before an operand,
// abs() and sum(), and arithmetic on operands whose type is known only at run time, such
// as the accumulator of reduce(). What is a double stays as it is.
type checkedNodes struct{}

// Visit implements ast.Visitor. It relies on types, which the library sets
// before each visitor.
func (checkedNodes) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.UnaryNode:
		if _, literal := n.Node.(*ast.IntegerNode); n.Operator == "-" && !literal {
			call(node, "checkedNegation", n.Node.Type(), n.Node)
		}
	case *ast.BinaryNode:
		if n.Operator == "**" || n.Operator == "^" {
			c := &ast.CallNode{Callee: &ast.IdentifierNode{Value: "checkedPower"}, Arguments: []ast.Node{n.Left, n.Right}}
			c.SetType(reflect.TypeFor[float64]())
			ast.Patch(node, c)
			return
		}
		l, r := n.Left.Type(), n.Right.Type()
		name, ok := operators[n.Operator]
		if ok && !isNil(n.Left) && !isNil(n.Right) && (isOpen(l) || isOpen(r)) && (isOpen(l) || isInteger(l)) && (isOpen(r) || isInteger(r)) {
			call(node, name, nil, n.Left, n.Right)
		}
	case *ast.BuiltinNode:
		switch {
		case n.Name == "abs" && len(n.Arguments) == 1:
			call(node, "checkedAbs", n.Type(), n.Arguments[0])
		case n.Name == "sum" && (isOpen(n.Type()) || isInteger(n.Type())):
			list := n.Arguments[0]
			if len(n.Arguments) == 2 {
				list = &ast.BuiltinNode{Name: "map", Arguments: n.Arguments}
				list.SetLocation(n.Location())
			}
			call(node, "checkedTotal", n.Type(), list)
		}
	}
}

// call puts a call of the function for values of type t in place of a node:
// none for doubles, and one whose result is open where t is.
func call(node *ast.Node, name string, t reflect.Type, args ...ast.Node) {
	result := reflect.TypeFor[int]()
	switch {
	case isOpen(t):
		name, result = name+"Of", reflect.TypeFor[any]()
	case !isInteger(t):
		return
	}
	c := &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
	c.SetType(result)
	ast.Patch(node, c)
}

func isInteger(t reflect.Type) bool {
	return t != nil && (t.Kind() == reflect.Int || t.Kind() == reflect.Int64)
}

// isOpen says that a type is known only at run time.
func isOpen(t reflect.Type) bool { return t == nil || t.Kind() == reflect.Interface }

func isNil(n ast.Node) bool {
	_, null := n.(*ast.NilNode)
	return null
}

// checkedEither is the operator for operands of any type.
func checkedEither(operator string) func(...any) (any, error) {
	integers := checkedArithmetic(operator)
	return func(args ...any) (any, error) {
		_, a := integer(args[0])
		_, b := integer(args[1])
		switch {
		case a && b, args[0] == nil, args[1] == nil:
			return integers(args...)
		case operator == "+":
			return runtime.Add(args[0], args[1]), nil
		case operator == "-":
			return runtime.Subtract(args[0], args[1]), nil
		}
		return runtime.Multiply(args[0], args[1]), nil
	}
}

func checkedNegation(args ...any) (any, error) {
	v, ok := integer(args[0])
	switch {
	case args[0] == nil:
		return nil, errNullOperand
	case !ok:
		return runtime.Negate(args[0]), nil
	}
	r, fits := arithmetic("-", 0, v)
	if !fits {
		return nil, fmt.Errorf("-(%d) exceeds int64", v)
	}
	return int(r), nil
}

func checkedAbs(args ...any) (any, error) {
	v, ok := integer(args[0])
	switch {
	case args[0] == nil:
		return nil, errNullOperand
	case !ok:
		return builtin.Abs(args[0]), nil
	case v >= 0:
		return int(v), nil
	}
	r, fits := arithmetic("-", 0, v)
	if !fits {
		return nil, fmt.Errorf("abs(%d) exceeds int64", v)
	}
	return int(r), nil
}

// checkedTotal is the sum of a list; an empty one's is 0. Integers that leave
// int64 on the way are an error even where later ones would lead back: the list
// has an order, so that the outcome is always the same.
func checkedTotal(args ...any) (any, error) {
	if args[0] == nil {
		return nil, errNullOperand
	}
	list := reflect.ValueOf(args[0])
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return nil, fmt.Errorf("sum of %T, want a list", args[0])
	}
	add := checkedEither("+")
	var total any = 0
	for i := range list.Len() {
		var err error
		if total, err = add(list.Index(i).Interface(), total); err != nil {
			if errors.Is(err, errNullOperand) {
				return nil, err
			}
			return nil, fmt.Errorf("sum of %d integers: %w", list.Len(), err)
		}
	}
	return total, nil
}
