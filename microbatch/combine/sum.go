package combine

import (
	"fmt"

	"github.com/deltad/deltad/microbatch/column"
)

// sumFn is what sums and means share: their accumulators are the same, a mean
// divides in Extract.
type sumFn struct {
	base
	mean bool
}

func buildSum(_ Params, args []column.Type) (Fn, error) {
	out := column.Of(column.Int64)
	switch {
	case args[0].IsFloat():
		out = column.Of(column.Float64)
	case args[0].Kind == column.Decimal:
		out = column.DecimalOf(38, int(args[0].Scale))
	}
	return newSum("sum", false, args, out)
}

func buildMean(_ Params, args []column.Type) (Fn, error) {
	return newSum("mean", true, args, column.Of(column.Float64))
}

func newSum(name string, mean bool, args []column.Type, out column.Type) (Fn, error) {
	t := args[0]
	if !t.IsNumeric() && t.Kind != column.Null {
		return nil, fmt.Errorf("%s is not a number", t)
	}
	f := sumFn{base: base{id: typeID(name, repr(t)), class: Group, args: args, out: out}, mean: mean}
	if t.IsFloat() {
		return &floatSum{f}, nil
	}
	return &wideSum{f}, nil
}
