package index

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/types"
	"github.com/expr-lang/expr/vm"

	"github.com/deltad/deltad/microbatch/column"
)

// form is an expression compiled for operands of certain types. It is immutable.
type form struct {
	types   []column.Type // of the operands, by expression.paths
	asBool  bool
	program *vm.Program
	out     column.Type
	err     error // it cannot be compiled for these types
}

// keptForms is how many forms of an expression are kept: the types of a
// pipeline's columns change seldom, and a daemon may live for long.
const keptForms = 8

// bind returns e for operands of the given types, by path; with asBool it must
// be a condition.
//
// Where the type of its value hangs on an operand that no value was seen of, it
// is what the other operands leave it to be, else that of a column without
// values. It is refused only where no type of that operand could mend it: so
// what is refused of operands that have no type at all is wrong in itself.
func (e *expression) bind(typeOf func(path string) column.Type, asBool bool) (*compiled, error) {
	operands := make([]column.Type, len(e.paths))
	for i, p := range e.paths {
		operands[i] = typeOf(p)
	}
	f := e.form(operands, asBool)
	if f.err != nil {
		return nil, f.err
	}
	c := &compiled{form: f, source: e.source, env: map[string]any{}}
	for _, p := range e.paths {
		at, key := within(c.env, p)
		c.slots = append(c.slots, slot{path: p, at: at, key: key})
	}
	return c, nil
}

// within returns the map in m, made where it is not there, that holds what a
// dotted path names, and the name that it has there.
func within[M ~map[string]V, V any](m M, path string) (M, string) {
	for {
		part, rest, nested := strings.Cut(path, ".")
		if !nested {
			return m, part
		}
		next, ok := any(m[part]).(M)
		if !ok {
			next = M{}
			m[part] = any(next).(V)
		}
		m, path = next, rest
	}
}

// form returns the form for operands of these types, made once.
func (e *expression) form(operands []column.Type, asBool bool) *form {
	e.forms.Lock()
	defer e.forms.Unlock()
	i := slices.IndexFunc(e.forms.of, func(f *form) bool {
		return f.asBool == asBool && slices.EqualFunc(f.types, operands, column.Type.Equal)
	})
	if i >= 0 {
		return e.forms.of[i]
	}
	f := &form{types: operands, asBool: asBool}
	f.program, f.out, f.err = e.settle(operands, asBool)
	if f.err != nil {
		f.err = fmt.Errorf("expression %q: %w%s", e.source, f.err, e.having(operands))
	}
	if len(e.forms.of) == keptForms {
		e.forms.of = slices.Delete(e.forms.of, 0, 1)
	}
	e.forms.of = append(e.forms.of, f)
	return f
}

// having tells the types of the operands that have one, for messages.
func (e *expression) having(operands []column.Type) string {
	var parts []string
	for i, t := range operands {
		if t.Kind != column.Null {
			parts = append(parts, e.paths[i]+" is "+t.String())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// errOpen is an expression whose value may be of any type.
var errOpen = errors.New("its type is not known before it runs; wrap it with int(), float() or string()")

// errOpenCondition is that of a condition.
var errOpenCondition = errors.New("its type is not known before it runs, so it is not a condition; compare it, with == true")

// settle compiles for operands of which some may be without values.
func (e *expression) settle(operands []column.Type, asBool bool) (*vm.Program, column.Type, error) {
	program, out, err := e.compile(operands)
	switch {
	case err == nil && asBool && out.Kind != column.Bool:
		return nil, out, fmt.Errorf("it is of type %s, not a condition", out)
	case errors.Is(err, errOpen):
		out, err = e.assume(operands, asBool)
	case asBool && errors.As(err, new(*noFieldError)):
		err = fmt.Errorf("it is of type %s, not a condition", program.Node().Type())
	}
	return program, out, err
}

// What an operand without values may turn out to be: first what has an order,
// then the lists of that.
var (
	assumedScalars = []column.Type{column.Of(column.Bool), column.Of(column.Int64), column.Of(column.Float64), column.Of(column.String), column.Of(column.Timestamp)}
	assumedLists   = lists(assumedScalars)
)

func lists(of []column.Type) (out []column.Type) {
	for _, t := range of {
		out = append(out, column.ListOf(t))
	}
	return out
}

// assume finds the type of an expression that is open with these operands: by
// compiling it for all that those without values may be. Beyond three of them
// they are taken to be of one type.
func (e *expression) assume(operands []column.Type, asBool bool) (column.Type, error) {
	var unseen []int
	for i, t := range operands {
		if t.Kind == column.Null {
			unseen = append(unseen, i)
		}
	}
	switch {
	case len(unseen) == 0 && asBool:
		return column.Type{}, errOpenCondition
	case len(unseen) == 0:
		return column.Type{}, errOpen
	}
	var found []column.Type
	open := false
	try := func(with []column.Type) {
		_, t, err := e.compile(with)
		open = open || errors.Is(err, errOpen)
		if err == nil && !slices.ContainsFunc(found, t.Equal) {
			found = append(found, t)
		}
	}
	isBool := func(t column.Type) bool { return t.Kind == column.Bool }
	combinations(operands, unseen, assumedScalars, try)
	if len(unseen) <= 2 && (len(found) == 0 || asBool && !slices.ContainsFunc(found, isBool)) {
		combinations(operands, unseen, slices.Concat(assumedScalars, assumedLists), try)
	}
	switch {
	case asBool && (slices.ContainsFunc(found, isBool) || len(found) == 0 && !open || len(unseen) > 3):
		return column.Of(column.Bool), nil
	case asBool && open:
		return column.Type{}, errOpenCondition
	case asBool:
		return column.Type{}, errors.New("it is not a condition, whatever its columns hold")
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && open && len(unseen) <= 3:
		return column.Type{}, errOpen
	}
	return column.Type{}, nil
}

// combinations calls try with the operands, those at the places given being each
// of the kinds.
func combinations(operands []column.Type, places []int, kinds []column.Type, try func([]column.Type)) {
	with := slices.Clone(operands)
	if len(places) > 3 {
		for _, k := range kinds {
			for _, at := range places {
				with[at] = k
			}
			try(with)
		}
		return
	}
	var from func(n int)
	from = func(n int) {
		if n == len(places) {
			try(with)
			return
		}
		for _, k := range kinds {
			with[places[n]] = k
			from(n + 1)
		}
	}
	from(0)
}

// compile compiles for operands whose types are all that matters. With errOpen
// and a *noFieldError it returns the program all the same.
func (e *expression) compile(operands []column.Type) (*vm.Program, column.Type, error) {
	env := types.Map{}
	for i, p := range e.paths {
		at, key := within(env, p)
		at[key] = exprType(operands[i])
	}
	options := append(checked(), expr.Env(env), expr.Patch(nullEquality{}))
	options = append(options, dates()...)
	for _, name := range impure {
		options = append(options, expr.DisableBuiltin(name))
	}
	program, err := expr.Compile(e.source, options...)
	if err != nil {
		return nil, column.Type{}, errors.New(firstLine(err.Error()))
	}
	out, err := outputType(program.Node().Type())
	return program, out, err
}

// firstLine is a message of the library without the place that it draws. The value
// in it may be of any length.
func firstLine(message string) string {
	line, _, _ := strings.Cut(message, "\n")
	return cut(line)
}

// noFieldError is a value that can be no field.
type noFieldError struct{ of reflect.Type }

func (e *noFieldError) Error() string {
	return fmt.Sprintf("a %s cannot be a field; wrap it with int(), float() or string()", e.of)
}
