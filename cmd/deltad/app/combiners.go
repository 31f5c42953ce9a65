package app

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// Combiner is a combine fn of a program's own.
//
// Its Name is what a field of a configuration calls it by: lower-case letters,
// digits and _, a letter first. It may neither be that of a built-in fn, nor of
// an aggregate that deltad refuses to have, nor a key that any field may have.
// The type ids of its Fns begin with the name and a parenthesis, and change
// whenever the bytes of accumulators do: they are part of a pipeline's
// configuration hash.
//
// Each command tries it with the law battery before it does anything, and ends
// with exit code 2 and a counter-example if it breaks a law: see
// combinetest.CheckBuilder, which a test of it should call too.
type Combiner struct {
	combine.Builder
	// Examples are options that fields may give it, by name and as the
	// configuration has them: int64, float64, bool, string, or []any of these. A
	// whole number may come as int64 though it was written 1.0. It is tried with each, and without options unless Build refuses that. A fn
	// that needs options must have one at least.
	Examples []map[string]any
}

// lawSeed makes every start check the same cases.
const lawSeed = 1

// register returns the built-in fns and the program's own. The error lists
// everything that is wrong with the latter.
func register(own []Combiner) (map[string]combine.Builder, error) {
	fns := combine.Builtins()
	var problems []string
	for i, c := range own {
		found := c.problems(fns)
		if slices.ContainsFunc(own[:i], func(o Combiner) bool { return o.Name == c.Name }) {
			found = append(found, "the name is taken by another of this program's")
		}
		if len(found) == 0 {
			if err := combinetest.CheckBuilder(c.Builder, c.Examples, lawSeed); err != nil {
				found = unlawful(err)
			}
		}
		for _, p := range found {
			problems = append(problems, fmt.Sprintf("combine fn %q: %s", c.Name, p))
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("this program's own combine fns cannot be used:\n  %s", strings.ReplaceAll(strings.Join(problems, "\n"), "\n", "\n  "))
	}
	for _, c := range own {
		fns[c.Name] = c.Builder
	}
	return fns, nil
}

// unlawful is what the battery found, a text each.
func unlawful(err error) []string {
	if v := (*combinetest.Violation)(nil); errors.As(err, &v) {
		return []string{v.Error()}
	}
	var out []string
	for _, e := range flatten(err) {
		out = append(out, e.Error())
	}
	return out
}

// fieldKeys are the keys of a field that never are its fn's.
func fieldKeys() []string {
	return []string{"over", "where", "optional", "nulls", "expr", "by", "fields", "delete_when"}
}

// problems is what is wrong with the fn before it is tried.
func (c Combiner) problems(builtin map[string]combine.Builder) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	reserved := fieldKeys()
	switch _, shadows := builtin[c.Name]; {
	case !regexp.MustCompile(`^[a-z][a-z0-9_]*$`).MatchString(c.Name):
		add("the name must be of lower-case letters, digits and _, a letter first")
	case shadows:
		add("the name is that of a built-in fn")
	case slices.Contains(reserved, c.Name):
		add("the name is a key that every field may have")
	}
	if reason, refused := combine.Refused(c.Name); refused {
		add("the name is that of an aggregate that is not offered: %s", reason)
	}
	if c.MinArgs < 0 || c.MaxArgs >= 0 && c.MaxArgs < c.MinArgs {
		add("it takes %d to %d arguments: there is no such number", c.MinArgs, c.MaxArgs)
	}
	if c.Build == nil {
		add("there is no Build")
	}
	for _, o := range c.Options {
		_, shadows := builtin[o]
		if shadows || slices.Contains(reserved, o) && o != "nulls" {
			add("the option %s has the name of a built-in fn or of a key that every field may have", o)
		}
	}
	for _, e := range c.Examples {
		for _, name := range slices.Sorted(maps.Keys(e)) {
			if !slices.Contains(c.Options, name) {
				add("an example has the option %s, which it does not take", name)
			}
		}
	}
	return out
}
