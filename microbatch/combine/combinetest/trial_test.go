package combinetest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
)

// TestBuiltinsPassAsUsersOwn: what deltad brings would be let in if a user
// brought it.
func TestBuiltinsPassAsUsersOwn(t *testing.T) {
	for name, options := range map[string][]map[string]any{
		"count": nil, "sum": nil, "set": {{"cap": int64(2)}}, "quantile": {{"q": 0.5}, {"q": []any{1.0, 0.25}}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := combinetest.CheckBuilder(combine.Builtins()[name], options, 1); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkCheckBuilder is what a fn of a user's own adds to the start of
// every command.
func BenchmarkCheckBuilder(b *testing.B) {
	for _, name := range []string{"any_of", "sum", "max", "latest", "covariance", "set", "distinct"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := combinetest.CheckBuilder(combine.Builtins()[name], nil, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// made is a builder of fns that are lawful unless they are changed.
func made(change func(b *combine.Builder)) combine.Builder {
	b := combine.Builtins()["any_of"]
	b.Name = "mine"
	inner := b.Build
	b.Build = func(p combine.Params, args []column.Type) (combine.Fn, error) {
		fn, err := inner(p, args)
		return named{fn, "mine(bool)/1", args}, err
	}
	change(&b)
	return b
}

// named is a fn under another type id and with other arguments.
type named struct {
	combine.Fn
	id   string
	args []column.Type
}

func (n named) TypeID() string      { return n.id }
func (n named) Args() []column.Type { return n.args }

func TestCheckBuilder(t *testing.T) {
	count := 0
	rebuild := func(b *combine.Builder, f func(fn combine.Fn, p combine.Params, args []column.Type) (combine.Fn, error)) {
		inner := b.Build
		b.Build = func(p combine.Params, args []column.Type) (combine.Fn, error) {
			fn, err := inner(p, args)
			if err != nil {
				return nil, err
			}
			return f(fn, p, args)
		}
	}
	tests := []struct {
		name    string
		change  func(b *combine.Builder)
		options []map[string]any
		want    string // of the error, "" for none
	}{
		{"lawful", func(*combine.Builder) {}, nil, ""},
		{"no number of arguments", func(b *combine.Builder) { b.MinArgs, b.MaxArgs = 2, 1 }, nil, "there is no such number"},
		{"no build", func(b *combine.Builder) { b.Build = nil }, nil, "there is no Build"},
		{"type id of another", func(b *combine.Builder) {
			rebuild(b, func(fn combine.Fn, _ combine.Params, args []column.Type) (combine.Fn, error) {
				return named{fn, "sum(int)/1", args}, nil
			})
		}, nil, `must begin with "mine("`},
		{"type id by chance", func(b *combine.Builder) {
			rebuild(b, func(fn combine.Fn, _ combine.Params, args []column.Type) (combine.Fn, error) {
				count++
				return named{fn, "mine(" + strings.Repeat("x", count) + ")", args}, nil
			})
		}, nil, "it has two type ids"},
		{"other arguments", func(b *combine.Builder) {
			rebuild(b, func(fn combine.Fn, _ combine.Params, _ []column.Type) (combine.Fn, error) {
				return named{fn, "mine(bool)/1", nil}, nil
			})
		}, nil, "it says that its arguments are []"},
		{"no column without values", func(b *combine.Builder) {
			rebuild(b, func(fn combine.Fn, _ combine.Params, args []column.Type) (combine.Fn, error) {
				if args[0].Kind == column.Null {
					return nil, errors.New("null is not a boolean")
				}
				return fn, nil
			})
		}, nil, "must take [null] too"},
		{"nothing made", func(b *combine.Builder) {
			rebuild(b, func(combine.Fn, combine.Params, []column.Type) (combine.Fn, error) { return nil, nil })
		}, nil, "neither a Fn nor an error"},
		{"build panics", func(b *combine.Builder) {
			rebuild(b, func(combine.Fn, combine.Params, []column.Type) (combine.Fn, error) { panic("at once") })
		}, nil, "it panics: at once"},
		{"options needed and not given", func(b *combine.Builder) {
			b.Options = []string{"width"}
			rebuild(b, func(fn combine.Fn, p combine.Params, _ []column.Type) (combine.Fn, error) {
				if p.Options["width"] == nil {
					return nil, errors.New("option width: must be set")
				}
				return fn, nil
			})
		}, nil, "takes none of the argument types"},
		{"options needed and given", func(b *combine.Builder) {
			b.Options = []string{"width"}
			rebuild(b, func(fn combine.Fn, p combine.Params, _ []column.Type) (combine.Fn, error) {
				if p.Options["width"] == nil {
					return nil, errors.New("option width: must be set")
				}
				return fn, nil
			})
		}, []map[string]any{{"width": int64(3)}}, ""},
		{"a whole number as a float alone", func(b *combine.Builder) {
			b.Options = []string{"share"}
			rebuild(b, func(fn combine.Fn, p combine.Params, _ []column.Type) (combine.Fn, error) {
				if v, ok := p.Options["share"]; ok {
					if _, ok := v.(float64); !ok {
						return nil, errors.New("option share: must be a number")
					}
				}
				return fn, nil
			})
		}, []map[string]any{{"share": 1.0}}, "whole numbers come as int64 too"},
		{"an option that there is not", func(*combine.Builder) {}, []map[string]any{{"depth": int64(1)}}, "unknown option depth"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := combinetest.CheckBuilder(made(tt.change), tt.options, 1)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestTrials(t *testing.T) {
	for name, want := range map[string]int{"sum": 4, "any_of": 2, "max": 12, "covariance": 16} {
		b := combine.Builtins()[name]
		if got := len(combinetest.Trials(b, nil, b.MinArgs)); got != want {
			t.Errorf("%s: %d trials, want %d", name, got, want)
		}
	}
}

// TestPanicBreaksALaw: it is reduced like any other violation.
func TestPanicBreaksALaw(t *testing.T) {
	fn := unlawful()["concatenation"]
	fn.merge = func(a, b []byte) []byte {
		if slices.Equal(a, b) {
			panic("equal")
		}
		return []byte("v")
	}
	fn.lift = func(*column.Vector, int, []byte) []byte { return []byte("v") }
	var v *combinetest.Violation
	if err := combinetest.Check(fn, 250, 1); !errors.As(err, &v) {
		t.Fatalf("no violation: %v", err)
	}
	if v.Detail != "panic: equal" || len(v.Records.Ranks) > 2 {
		t.Errorf("%v", v)
	}
}

// TestManyRecordsAreReduced: records of real data are thousands.
func TestManyRecordsAreReduced(t *testing.T) {
	fn := unlawful()["concatenation"]
	rec := combinetest.Records{Args: []*column.Vector{column.New(fn.arg)}}
	for i := range 5000 {
		rec.Args[0].AppendString("same")
		if i == 3777 {
			rec.Args[0].AppendString("other")
			rec.Ranks = append(rec.Ranks, []byte{1})
		}
		rec.Ranks = append(rec.Ranks, []byte{1})
	}
	var v *combinetest.Violation
	if err := combinetest.CheckRecords(fn, rec, 1); !errors.As(err, &v) {
		t.Fatalf("no violation: %v", err)
	}
	if len(v.Records.Ranks) > 3 {
		t.Errorf("%d records: %v", len(v.Records.Ranks), v)
	}
}

// TestViolationIsReadable holds the whole message of a few.
func TestViolationIsReadable(t *testing.T) {
	for name, want := range map[string]string{
		"concatenation": `concat breaks the law "order": in another order the accumulator is another
  got  6261
  want 6162
  of 2 records, all of 1970-01-01T00:00:00Z:
    1: "a"
    2: "b"`,
		"exclusive or as a semilattice": `xor breaks the law "class": a semilattice, and merged with itself the accumulator changes
  got  0000000000000000
  want 0000000000000001
  of 1 record:
    1: 1`,
		"maximum with an identity that is stored": `max breaks the law "identity": the accumulator of no records is not empty
  got  0000000000000000
  want nothing
  of no records`,
	} {
		if err := combinetest.Check(unlawful()[name], 250, 1); err == nil || err.Error() != want {
			t.Errorf("%s:\n%v\nwant:\n%s", name, err, want)
		}
	}
}
