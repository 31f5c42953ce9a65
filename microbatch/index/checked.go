package index

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/builtin"
)

// errNullOperand makes an operation on null fail, which eval turns into null.
var errNullOperand = errors.New("operation on null")

// checked are what expressions do instead of the library's own: its integer
// arithmetic wraps, its int() of a double out of range is any number, and its
// string() of null is the text "<nil>". Here the first two are errors, as an
// integer sum out of range is, and the last is null. Its ** is not the same on
// every architecture, power is. What is no operator of two operands of known
// types is rewritten by checkedNodes.
func checked() []expr.Option {
	options := []expr.Option{
		expr.Patch(checkedNodes{}),
		expr.Function("int", checkedInt, new(func(any) int)),
		expr.Function("string", checkedString, new(func(any) string)),
		expr.Function("checkedPower", checkedPower, new(func(any, any) float64)),
	}
	for name, fn := range map[string]func(...any) (any, error){
		"checkedNegation": checkedNegation, "checkedAbs": checkedAbs, "checkedTotal": checkedTotal,
	} {
		options = append(options, expr.Function(name, fn, new(func(any) int)), expr.Function(name+"Of", fn, new(func(any) any)))
	}
	for operator, name := range operators {
		options = append(options, expr.Function(name+"Of", checkedEither(operator), new(func(any, any) any)))
		options = append(options, expr.Operator(operator, name), expr.Function(name, checkedArithmetic(operator),
			new(func(int64, int64) int), new(func(int64, int) int), new(func(int, int64) int), new(func(int, int) int)))
	}
	return options
}

var operators = map[string]string{"+": "checkedAdd", "-": "checkedSub", "*": "checkedMul"}

func checkedArithmetic(operator string) func(...any) (any, error) {
	return func(args ...any) (any, error) {
		a, okA := integer(args[0])
		b, okB := integer(args[1])
		if !okA || !okB {
			return nil, errNullOperand
		}
		r, fits := arithmetic(operator, a, b)
		if !fits {
			return nil, fmt.Errorf("%d %s %d exceeds int64", a, operator, b)
		}
		return int(r), nil // the type the library gives integer arithmetic
	}
}

func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	}
	return 0, false
}

// arithmetic is a + b, a - b or a * b; fits is false where int64 cannot hold
// it.
func arithmetic(operator string, a, b int64) (r int64, fits bool) {
	switch operator {
	case "+":
		r = a + b
		return r, (r > a) == (b > 0)
	case "-":
		r = a - b
		return r, (r < a) == (b > 0)
	}
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	negative := (a < 0) != (b < 0)
	switch {
	case hi != 0, !negative && lo > math.MaxInt64, negative && lo > 1<<63:
		return 0, false
	case negative:
		return -int64(lo), true
	}
	return int64(lo), true
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func checkedInt(args ...any) (any, error) {
	if args[0] == nil {
		return nil, errNullOperand
	}
	if f, ok := args[0].(float64); ok && (math.IsNaN(f) || f < math.MinInt64 || f >= math.MaxInt64) {
		return nil, fmt.Errorf("int(%g) exceeds int64", f)
	}
	return builtin.Int(args[0]), nil
}

func checkedString(args ...any) (any, error) {
	if args[0] == nil {
		return nil, errNullOperand
	}
	return builtin.String(args[0]), nil
}
