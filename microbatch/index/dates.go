package index

import (
	"fmt"
	"slices"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/builtin"
)

// The zone of the machine is no part of a record. Dates without a zone are in
// UTC, and what would take the machine's is refused. The library's own way to
// say so, an option, makes it lose its arguments where a method is called on a
// date.

// dates are the functions of times.
func dates() []expr.Option {
	return []expr.Option{
		expr.Function("date", date, new(func(string) time.Time), new(func(string, string) time.Time), new(func(string, string, string) time.Time)),
		expr.Function("timezone", timezone, new(func(string) *time.Location)),
	}
}

// date is the library's for dates in UTC: date(text), date(text, layout) or
// date(text, layout, zone).
func date(args ...any) (any, error) {
	if slices.Contains(args, nil) {
		return nil, errNullOperand
	}
	if len(args) == 3 {
		if _, err := timezone(args[2]); err != nil {
			return nil, err
		}
	}
	for i, a := range args {
		if _, ok := a.(string); !ok {
			return nil, fmt.Errorf("date() takes texts, argument %d is %T", i+1, a)
		}
	}
	return builtin.Builtins[builtin.Index["date"]].Func(append([]any{time.UTC}, args...)...)
}

func timezone(args ...any) (any, error) {
	name, ok := args[0].(string)
	switch {
	case args[0] == nil:
		return nil, errNullOperand
	case !ok:
		return nil, fmt.Errorf("timezone() takes a text, not %T", args[0])
	case name == "Local":
		return nil, fmt.Errorf("time zone Local is another one on each machine")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q", name)
	}
	return zone, nil
}

// localNode says whether a node takes the machine's zone: the method Local of a
// time, or the text as a zone.
func localNode(n ast.Node) bool {
	call, ok := n.(*ast.CallNode)
	if !ok {
		if b, is := n.(*ast.BuiltinNode); is {
			return b.Name == "timezone" && isLocal(b.Arguments, 0) || b.Name == "date" && isLocal(b.Arguments, 2)
		}
		return false
	}
	switch callee := call.Callee.(type) {
	case *ast.IdentifierNode:
		return callee.Value == "timezone" && isLocal(call.Arguments, 0) || callee.Value == "date" && isLocal(call.Arguments, 2)
	case *ast.MemberNode:
		name, ok := callee.Property.(*ast.StringNode)
		return ok && name.Value == "Local"
	}
	return false
}

func isLocal(args []ast.Node, i int) bool {
	if i >= len(args) {
		return false
	}
	s, ok := args[i].(*ast.StringNode)
	return ok && s.Value == "Local"
}
