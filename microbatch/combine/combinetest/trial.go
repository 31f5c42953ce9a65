package combinetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// typical are the argument types that a Builder is tried with: one of each
// representation. Null is a column in which nothing was seen.
func typical() []column.Type {
	var out []column.Type
	for _, k := range []column.Kind{column.Null, column.Bool, column.Int64, column.Float64, column.String, column.Bytes,
		column.Date, column.Time, column.Timestamp} {
		out = append(out, column.Of(k))
	}
	return append(out, column.DecimalOf(18, 2), column.ListOf(column.Of(column.String)),
		column.StructOf(column.Field{Name: "a", Type: column.Of(column.Int64)}))
}

// Trials builds b with the options for so many arguments: over every
// combination of typical types that it takes, in a fixed order. Of more than
// three arguments all are of one type.
func Trials(b combine.Builder, options map[string]any, args int) []combine.Fn {
	var out []combine.Fn
	for _, types := range combinations(args) {
		if fn, err := build(b, options, types); err == nil {
			out = append(out, fn)
		}
	}
	return out
}

// combinations are the lists of n typical types.
func combinations(n int) [][]column.Type {
	kinds := typical()
	if n > 3 {
		var out [][]column.Type
		for _, t := range kinds {
			out = append(out, slices.Repeat([]column.Type{t}, n))
		}
		return out
	}
	out := [][]column.Type{nil}
	for range n {
		var longer [][]column.Type
		for _, types := range out {
			for _, t := range kinds {
				longer = append(longer, append(slices.Clone(types), t))
			}
		}
		out = longer
	}
	return out
}

// errBuild is a Build that does not work, whatever the types.
var errBuild = errors.New("broken Build")

// build is Builder.New, with what a Fn must be whatever it computes.
func build(b combine.Builder, options map[string]any, types []column.Type) (fn combine.Fn, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s: %w: it panics: %v", b.Name, errBuild, v)
		}
	}()
	fn, err = b.New(combine.Params{Options: maps.Clone(options)}, slices.Clone(types))
	if err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, fmt.Errorf("%s: %w: it returns neither a Fn nor an error", b.Name, errBuild)
	}
	return fn, nil
}

// The cases of CheckBuilder: so many for each trial, or fewer, if there are
// many trials, to bound the whole; but at least the minimum.
const (
	casesEach    = 250
	casesInAll   = 2400
	casesMinimum = 60
	trialsAtMost = 24
	moreArgs     = 2 // tried beyond MinArgs
)

// CheckBuilder runs the battery over the Fns that b makes: with each of the
// options, and without any where it needs none; for typical argument types, of
// as many arguments as it takes. It also holds b to what no multiset of
// records shows: that it takes columns without values, and that type ids name
// the fn and are always the same. The error joins what is wrong; a law that is
// broken is a *Violation, the first that is found.
//
// It is bounded by counts, not by a clock, so that equal builders have equal
// results everywhere.
func CheckBuilder(b combine.Builder, options []map[string]any, seed uint64) error {
	if b.Build == nil {
		return fmt.Errorf("%s: there is no Build", b.Name)
	}
	var fns []combine.Fn
	var errs []error
	for i, o := range append([]map[string]any{nil}, options...) {
		some, err := trial(b, o)
		switch {
		case err == nil:
			fns = append(fns, some...)
		case i > 0 || len(options) == 0:
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	fns = some(fns, trialsAtMost)
	cases := max(casesMinimum, min(casesEach, casesInAll/max(1, len(fns))))
	for _, fn := range fns {
		if err := Check(fn, cases, seed); err != nil {
			return err
		}
	}
	return nil
}

// trial are all trials with the options.
func trial(b combine.Builder, options map[string]any) ([]combine.Fn, error) {
	most := b.MinArgs + moreArgs
	if b.MaxArgs >= 0 {
		most = min(most, b.MaxArgs)
	}
	var out []combine.Fn
	var last error
	for n := b.MinArgs; n <= most; n++ {
		for _, types := range combinations(n) {
			fn, err := build(b, options, types)
			if errors.Is(err, errBuild) {
				return nil, err
			}
			if last = err; err != nil {
				continue
			}
			if err := sound(b, options, types, fn); err != nil {
				return nil, err
			}
			out = append(out, fn)
		}
	}
	if len(out) == 0 && last == nil {
		return nil, fmt.Errorf("%s: it takes %d to %d arguments: there is no such number", b.Name, b.MinArgs, b.MaxArgs)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: with options %v it takes none of the argument types that were tried: %w", b.Name, options, last)
	}
	return out, nil
}

// sound says what is wrong with a Fn that no records show.
func sound(b combine.Builder, options map[string]any, types []column.Type, fn combine.Fn) error {
	id := fn.TypeID()
	if !strings.HasPrefix(id, b.Name+"(") {
		return fmt.Errorf("%s: the type id must begin with %q, so that no other fn has it, got %q", b.Name, b.Name+"(", id)
	}
	again, err := build(b, options, types)
	if err != nil {
		return fmt.Errorf("%s: built twice for %v: %w", b.Name, types, err)
	}
	if again.TypeID() != id {
		return fmt.Errorf("%s: built twice for %v it has two type ids, %q and %q", b.Name, types, id, again.TypeID())
	}
	if again, err = build(b, whole(options), types); err != nil {
		return fmt.Errorf("%s: whole numbers come as int64 too, from a base even where the configuration has 1.0: %w", b.Name, err)
	}
	if again.TypeID() != id {
		return fmt.Errorf("%s: with whole numbers as int64 it has another type id, %q and %q", b.Name, id, again.TypeID())
	}
	if !slices.EqualFunc(fn.Args(), types, column.Type.SameRepr) {
		return fmt.Errorf("%s: built for %v, it says that its arguments are %v", b.Name, types, fn.Args())
	}
	for i := range types {
		empty := slices.Clone(types)
		empty[i] = column.Of(column.Null)
		if _, err := build(b, options, empty); err != nil {
			return fmt.Errorf("%s: it takes %v and must take %v too, as a column without values has: %w", b.Name, types, empty, err)
		}
	}
	return nil
}

// whole returns the options with whole numbers as int64.
func whole(options map[string]any) map[string]any {
	out := make(map[string]any, len(options))
	for name, v := range options {
		out[name] = wholeNumber(v)
	}
	return out
}

func wholeNumber(v any) any {
	switch v := v.(type) {
	case float64:
		if n := int64(v); float64(n) == v && n>>53 == n>>63 {
			return n
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = wholeNumber(v[i])
		}
		return out
	}
	return v
}

// some returns at most n of the fns, evenly chosen.
func some(fns []combine.Fn, n int) []combine.Fn {
	if len(fns) <= n {
		return fns
	}
	out := make([]combine.Fn, n)
	for i := range out {
		out[i] = fns[i*len(fns)/n]
	}
	return out
}
