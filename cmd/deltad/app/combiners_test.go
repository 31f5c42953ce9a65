package app_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/deltad/deltad/cmd/deltad/app"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// simple is a combine fn of one argument as users write it first: a lift and a
// merge on bytes.
type simple struct {
	name  string
	kind  column.Kind
	id    string // what the type id ends in
	class combine.Class
	lift  func(v *column.Vector, i int) []byte
	merge func(a, b []byte) []byte
	valid func(acc []byte) bool
	value func(acc []byte, dst *column.Vector)
}

// builder makes fns over columns of the kind.
func (s simple) builder() combine.Builder {
	return combine.Builder{Name: s.name, MinArgs: 1, MaxArgs: 1, Build: func(_ combine.Params, args []column.Type) (combine.Fn, error) {
		if k := args[0].Kind; k != s.kind && k != column.Null {
			return nil, fmt.Errorf("%s is not %s", args[0], s.kind)
		}
		return &simpleFn{s, args}, nil
	}}
}

type simpleFn struct {
	simple
	args []column.Type
}

func (f *simpleFn) TypeID() string            { return f.name + "(" + f.kind.String() + ")/" + f.id }
func (f *simpleFn) Class() combine.Class      { return f.class }
func (f *simpleFn) Args() []column.Type       { return f.args }
func (f *simpleFn) Output() column.Type       { return column.Of(f.kind) }
func (f *simpleFn) NewColumn() combine.Column { return &simpleColumn{fn: f} }

func (f *simpleFn) Validate(acc []byte) error {
	if len(acc) > 0 && !f.valid(acc) {
		return fmt.Errorf("%s accumulator: %x is none", f.name, acc)
	}
	return nil
}

type simpleColumn struct {
	fn   *simpleFn
	accs [][]byte
}

func (c *simpleColumn) Len() int     { return len(c.accs) }
func (c *simpleColumn) Reset()       { c.accs = nil }
func (c *simpleColumn) Bytes() int64 { return int64(len(c.accs) * 64) }
func (c *simpleColumn) Grow(n int) {
	for len(c.accs) < n {
		c.accs = append(c.accs, nil)
	}
}

func (c *simpleColumn) Add(in *combine.Input) error {
	for _, i := range in.Rows {
		if !in.Args[0].Null(int(i)) {
			if err := c.Merge(in.Groups[i], c.fn.lift(in.Args[0], int(i))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *simpleColumn) Merge(g uint32, acc []byte) error {
	if err := c.fn.Validate(acc); err != nil || len(acc) == 0 {
		return err
	}
	if have := c.accs[g]; have != nil {
		acc = c.fn.merge(have, acc)
	}
	c.accs[g] = bytes.Clone(acc)
	return nil
}

func (c *simpleColumn) AppendAcc(dst []byte, g uint32) []byte { return append(dst, c.accs[g]...) }

func (c *simpleColumn) Extract(g uint32, dst *column.Vector) error {
	if c.accs[g] == nil {
		dst.AppendNull()
	} else {
		c.fn.value(c.accs[g], dst)
	}
	return nil
}

func asFloat(acc []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(acc)) }

func ofFloats(fs ...float64) (acc []byte) {
	for _, f := range fs {
		acc = binary.BigEndian.AppendUint64(acc, math.Float64bits(f))
	}
	return acc
}

// plainMean keeps mean and number of values, both as floats.
func plainMean() simple {
	return simple{name: "plain_mean", kind: column.Float64, id: "1",
		lift: func(v *column.Vector, i int) []byte { return ofFloats(v.Floats[i], 1) },
		merge: func(a, b []byte) []byte {
			na, nb := asFloat(a[8:]), asFloat(b[8:])
			return ofFloats((asFloat(a)*na+asFloat(b)*nb)/(na+nb), na+nb)
		},
		valid: func(acc []byte) bool { return len(acc) == 16 },
		value: func(acc []byte, dst *column.Vector) { dst.AppendFloat(asFloat(acc)) },
	}
}

func floatTotal() simple {
	return simple{name: "float_total", kind: column.Float64, id: "1",
		lift:  func(v *column.Vector, i int) []byte { return ofFloats(v.Floats[i]) },
		merge: func(a, b []byte) []byte { return ofFloats(asFloat(a) + asFloat(b)) },
		valid: func(acc []byte) bool { return len(acc) == 8 },
		value: func(acc []byte, dst *column.Vector) { dst.AppendFloat(asFloat(acc)) },
	}
}

func joined() simple {
	return simple{name: "joined", kind: column.String, id: "1",
		lift:  func(v *column.Vector, i int) []byte { return []byte("," + v.Strings[i]) },
		merge: func(a, b []byte) []byte { return append(bytes.Clone(a), b...) },
		valid: func(acc []byte) bool { return acc[0] == ',' },
		value: func(acc []byte, dst *column.Vector) { dst.AppendString(string(acc[1:])) },
	}
}

// shortest is lawful: the shortest string, of equally long ones the least.
func shortest() simple {
	return simple{name: "shortest", kind: column.String, id: "1", class: combine.Semilattice,
		lift: func(v *column.Vector, i int) []byte { return []byte("s" + v.Strings[i]) },
		merge: func(a, b []byte) []byte {
			if len(b) < len(a) || len(b) == len(a) && bytes.Compare(b, a) < 0 {
				return b
			}
			return a
		},
		valid: func(acc []byte) bool { return acc[0] == 's' },
		value: func(acc []byte, dst *column.Vector) { dst.AppendString(string(acc[1:])) },
	}
}

func own(fns ...simple) (out []app.Combiner) {
	for _, f := range fns {
		out = append(out, app.Combiner{Builder: f.builder()})
	}
	return out
}

// run is a command line of a program with combine fns of its own.
func run(t *testing.T, fns []app.Combiner, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = app.Run(t.Context(), app.Options{Args: args, Stdout: &o, Stderr: &e, Combiners: fns})
	return code, o.String(), e.String()
}

// TestUnlawfulFnsAreRefused by every command, with a counter-example that can
// be worked through by hand.
func TestUnlawfulFnsAreRefused(t *testing.T) {
	records := regexp.MustCompile(`of (\d) records`)
	for _, tt := range []struct {
		fn   simple
		law  string
		most string // records
	}{
		{plainMean(), "order", "3"},
		{joined(), "order", "2"},
		{floatTotal(), "order", "3"},
	} {
		t.Run(tt.fn.name, func(t *testing.T) {
			for _, command := range []string{"version", "check -c none.yaml"} {
				code, out, errs := run(t, own(shortest(), tt.fn), strings.Fields(command)...)
				if code != 2 || out != "" {
					t.Errorf("%s: exit %d: %s", command, code, out)
				}
				if !strings.Contains(errs, fmt.Sprintf("combine fn %q: %s(", tt.fn.name, tt.fn.name)) || !strings.Contains(errs, fmt.Sprintf("breaks the law %q", tt.law)) {
					t.Errorf("%s: fn or law %s is not named: %s", command, tt.law, errs)
				}
				if n := records.FindStringSubmatch(errs); n == nil || n[1] > tt.most {
					t.Errorf("%s: not of at most %s records: %s", command, tt.most, errs)
				}
				got, want := field(errs, "got"), field(errs, "want")
				if got == "" || want == "" || got == want {
					t.Errorf("%s: accumulators %q and %q: %s", command, got, want, errs)
				}
				if lines := strings.Count(errs, "\n"); lines > 9 {
					t.Errorf("%s: %d lines: %s", command, lines, errs)
				}
			}
		})
	}
}

// field is what follows a word at the start of a line.
func field(text, word string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), word+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// TestProblemsOfFnsAreListedAtOnce: each is named, whatever else is wrong.
func TestProblemsOfFnsAreListedAtOnce(t *testing.T) {
	rename := func(name string) app.Combiner {
		f := shortest()
		f.name = name
		return app.Combiner{Builder: f.builder()}
	}
	options := rename("fussy")
	options.Options = []string{"where", "nulls", "top"}
	options.Examples = []map[string]any{{"depth": int64(1)}}
	code, _, errs := run(t, []app.Combiner{
		rename("sum"), rename("tdigest"), rename("over"), rename("Shortest"), rename("shortest"), rename("shortest"), options,
		{Builder: combine.Builder{Name: "nothing", MinArgs: 2, MaxArgs: 1}}, {Builder: joined().builder()},
	}, "version")
	if code != 2 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		`combine fn "sum": the name is that of a built-in fn`,
		`combine fn "tdigest": the name is that of an aggregate that is not offered: t-digest: `,
		`combine fn "over": the name is a key that every field may have`,
		`combine fn "Shortest": the name must be of lower-case letters`,
		`combine fn "shortest": the name is taken by another of this program's`,
		`combine fn "fussy": the option where has`, `combine fn "fussy": the option top has`,
		`combine fn "fussy": an example has the option depth`,
		`combine fn "nothing": it takes 2 to 1 arguments`, `combine fn "nothing": there is no Build`,
		`combine fn "joined": joined(string)/1 breaks the law "order"`,
	} {
		if strings.Count(errs, want) != 1 {
			t.Errorf("not once %q in:\n%s", want, errs)
		}
	}
	if n := strings.Count(errs, "combine fn \""); n != 11 {
		t.Errorf("%d problems:\n%s", n, errs)
	}
}

// TestFnThatWantsOptions is tried with its examples, and refused without.
func TestFnThatWantsOptions(t *testing.T) {
	c := app.Combiner{Builder: shortest().builder()}
	c.Options = []string{"n"}
	inner := c.Build
	c.Build = func(p combine.Params, args []column.Type) (combine.Fn, error) {
		if _, ok := p.Options["n"].(int64); !ok {
			return nil, errors.New("option n must be an integer")
		}
		return inner(p, args)
	}
	if code, _, errs := run(t, []app.Combiner{c}, "version"); code != 2 || !strings.Contains(errs, "option n must be an integer") {
		t.Errorf("without an example: exit %d: %s", code, errs)
	}
	c.Examples = []map[string]any{{"n": int64(2)}}
	if code, _, errs := run(t, []app.Combiner{c}, "version"); code != 0 {
		t.Errorf("with an example: exit %d: %s", code, errs)
	}
}

// ownRig is a pipeline with a full index whose fields are a fn of the user's
// own, by itself and within a collect.
func ownRig(t *testing.T) *rig {
	t.Helper()
	r := newFullRig(t, "{promote: manual, support_previous_for: 0s}")
	r.replace(`all: {count: "*", over: all}`,
		`all: {count: "*", over: all}, word: {shortest: word, optional: true}, q: {quantile: clicks, q: [0.5, 1.0]}, recent: {shortest: word, over: 10m, optional: true}, by: {collect: {by: clicks, fields: {word: {shortest: word, optional: true}}}}`)
	return r
}

// replace changes the configuration.
func (r *rig) replace(old, now string) {
	r.t.Helper()
	file := filepath.Join(r.dir, "deltad.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		r.t.Fatalf("no %q in %s", old, text)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), old, now, 1)), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// TestOwnFnOfAnotherVersionPublishesAnew: an accumulator of other bytes is
// another one, though no line of the configuration changed.
func TestOwnFnOfAnotherVersionPublishesAnew(t *testing.T) {
	r := newRig(t)
	r.replace("clicks: {sum: clicks, over: 10m}", "word: {shortest: word}")
	config := filepath.Join(r.dir, "deltad.yaml")
	r.record(1, "a.ndjson", `{"item":"x","word":"one"}`)
	next := shortest()
	next.id = "2"
	for i, tt := range []struct {
		fn   simple
		want string
	}{{shortest(), "advanced"}, {shortest(), "idle"}, {next, "refined"}, {next, "idle"}} {
		code, out, errs := run(t, own(tt.fn), "run", "--once", "-o", "json", "-c", config, "--log-level", "error")
		if code != 0 || !strings.Contains(out, `"outcome":"`+tt.want+`"`) {
			t.Errorf("run %d: exit %d, want %s: %s%s", i+1, code, tt.want, out, errs)
		}
	}
}

// TestOwnFnOfAnotherVersionOverABase: the accumulators of the base are of the
// fn before, so runs fail and say so until a base is built with the fn of now.
func TestOwnFnOfAnotherVersionOverABase(t *testing.T) {
	r := ownRig(t)
	config := filepath.Join(r.dir, "deltad.yaml")
	fn := shortest()
	do := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := run(t, own(fn), append(args, "-c", config, "--log-level", "error")...)
		if code != want {
			t.Fatalf("deltad %v: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out + errs
	}
	r.record(1, "a.ndjson", `{"item":"x","clicks":1,"word":"word"}`)
	do(0, "run", "--once")
	do(0, "rebuild")
	do(0, "base", "promote")
	r.record(2, "a.ndjson", `{"item":"x","clicks":1,"word":"words"}`)
	do(0, "run", "--once")
	fn.id = "2"
	r.record(3, "a.ndjson", `{"item":"x","clicks":1,"word":"wordy"}`)
	if e := do(1, "run", "--once"); !strings.Contains(e, "run has fn shortest(string)/1, want fn shortest(string)/2") {
		t.Errorf("over a base of the fn before: %s", e)
	}
	if doc := do(0, "get", "x"); !strings.Contains(doc, `"all":2`) {
		t.Errorf("readers lost what they had: %s", doc)
	}
	do(0, "rebuild")
	do(0, "base", "promote")
	do(0, "run", "--once")
	if doc := do(0, "get", "x"); !strings.Contains(doc, `"all":3,"word":"word"`) {
		t.Errorf("after a rebuild: %s", doc)
	}
}

// TestEveryCommandKnowsOwnFns runs a pipeline with one through its life.
func TestEveryCommandKnowsOwnFns(t *testing.T) {
	r := ownRig(t)
	fns := own(shortest())
	do := func(want int, args ...string) string {
		t.Helper()
		code, out, errs := run(t, fns, append(args, "-c", filepath.Join(r.dir, "deltad.yaml"), "--log-level", "error")...)
		if code != want {
			t.Fatalf("deltad %v: exit %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out
	}
	r.record(1, "a.ndjson", `{"item":"x","clicks":1,"word":"long word"}`)
	r.record(2, "a.ndjson", `{"item":"x","clicks":1,"word":"words"}`)
	do(0, "check")
	do(0, "plan")
	do(0, "run", "--once")
	do(0, "rebuild")
	do(0, "base", "promote")
	r.record(20, "a.ndjson", `{"item":"x","clicks":1,"word":"wordy"}`)
	do(0, "run", "--once")
	for _, want := range []string{`"word":"words"`, `"recent":"wordy"`, `"by":[{"clicks":1,"word":"words"}]`} {
		if doc := do(0, "get", "x", "-o", "json"); !strings.Contains(doc, want) {
			t.Errorf("no %s in %s", want, doc)
		}
	}
	do(0, "verify", "--recompute", "--recompute-base", "--all")
	if e := do(0, "explain", "x"); !strings.Contains(e, `"words"`) {
		t.Errorf("explain: %s", e)
	}
	do(0, "diff")
	do(0, "diff", "--bases", "live", "live")
	do(0, "status")
	do(0, "ls")
	do(0, "gc", "--dry-run")

	fns = nil // the program that deltad is
	for _, command := range []string{"check", "run --once", "plan", "get x", "verify", "explain x", "rebuild", "diff", "status"} {
		code, out, errs := run(t, nil, append(strings.Fields(command), "-c", filepath.Join(r.dir, "deltad.yaml"))...)
		if code != 2 || !strings.Contains(out+errs, "pipelines.ads.index.fields.word: must have a combine fn that exists") || !strings.Contains(out+errs, "got shortest") {
			t.Errorf("%s of a program without it: exit %d: %s%s", command, code, out, errs)
		}
	}
}
