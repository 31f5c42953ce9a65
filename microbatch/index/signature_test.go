package index_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
)

func signed() index.Spec {
	return index.Spec{
		Key: []string{"id"}, EventTime: index.EventTime{Column: "at", Unit: "ms"}, DeleteWhen: "op == 'D'",
		Fields: []index.FieldSpec{
			{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "title", Fn: "latest", Args: []string{"title"}},
			{Name: "tags", Fn: "set", Args: []string{"tag"}, Params: map[string]any{"cap": 3}},
			{Name: "recent", Fn: "sum", Args: []string{"v"}, Over: time.Hour},
			{Name: "twice", Expr: "n * 2"},
		},
	}
}

// bind binds a spec whose columns are of the given kinds by path.
func bind(t *testing.T, spec index.Spec, types map[string]column.Type) *index.Bound {
	t.Helper()
	p, err := index.Compile(spec, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	list := make([]column.Type, len(p.Columns()))
	for i, c := range p.Columns() {
		list[i] = types[c.Path]
	}
	b, err := p.Bind(list)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func kinds() map[string]column.Type {
	return map[string]column.Type{
		"id": column.Of(column.Int64), "at": column.Of(column.Int64), "op": column.Of(column.String),
		"title": column.StructOf(column.Field{Name: "a", Type: column.ListOf(column.Of(column.Date))}), "tag": column.DecimalOf(9, 2), "v": column.Of(column.Float64),
	}
}

// TestSignatureRoundTrip: what a base says of its index is bound again to the
// same shapes, parameters and nested types included.
func TestSignatureRoundTrip(t *testing.T) {
	b := bind(t, signed(), kinds())
	raw, err := b.Signature().Encode(b.Program())
	if err != nil {
		t.Fatal(err)
	}
	again, err := index.DecodeSignature(raw, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	if again.TypeID() != b.TypeID() {
		t.Errorf("bound again as\n%s, was\n%s", again.TypeID(), b.TypeID())
	}
	if n := len(again.BaseShape().Fns); n != 4 {
		t.Errorf("%d accumulators in a base, want the register and three fields", n)
	}
	if c := b.Program().Since(again); len(c.Breaking)+len(c.Pending) > 0 {
		t.Errorf("differs from itself: %+v", c)
	}
	j, err := b.JoinBase(again)
	if err != nil || len(j.At) != 5 || j.At[0] != 0 || j.At[3] != 3 || j.At[4] != -1 || j.Pending[4] {
		t.Errorf("join %+v, %v", j, err)
	}
}

func TestChangesSinceABase(t *testing.T) {
	base := bind(t, signed(), kinds())
	for _, c := range []struct {
		name              string
		change            func(*index.Spec)
		breaking, pending string
	}{
		{"nothing", func(*index.Spec) {}, "", ""},
		{"a field less", func(s *index.Spec) { s.Fields = s.Fields[1:2] }, "", ""},
		{"another window", func(s *index.Spec) { s.Fields[3].Over = 2 * time.Hour }, "", ""},
		{"another expression", func(s *index.Spec) { s.Fields[4].Expr = "n * 3" }, "", ""},
		{"a new field", func(s *index.Spec) {
			s.Fields = append(s.Fields, index.FieldSpec{Name: "low", Fn: "min", Args: []string{"v"}})
		}, "", "low"},
		{"a window dropped", func(s *index.Spec) { s.Fields[3].Over = 0 }, "", "recent"},
		{"may be missing", func(s *index.Spec) { s.Fields[1].Optional = true }, "", ""},
		{"another key", func(s *index.Spec) { s.Key = []string{"op"} }, "index.key", ""},
		{"another clock", func(s *index.Spec) { s.EventTime.Unit = "s" }, "index.event_time", ""},
		{"another filter", func(s *index.Spec) { s.Where = "v > 1" }, "index.where", ""},
		{"another delete", func(s *index.Spec) { s.DeleteWhen = "" }, "index.delete_when", ""},
		{"another fn", func(s *index.Spec) { s.Fields[1].Fn = "earliest" }, "index.fields.title", ""},
		{"another parameter", func(s *index.Spec) { s.Fields[2].Params = map[string]any{"cap": 4} }, "index.fields.tags", ""},
		{"another filter of a field", func(s *index.Spec) { s.Fields[0].Where = "v > 1" }, "index.fields.n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := signed()
			c.change(&spec)
			p, err := index.Compile(spec, combine.Builtins())
			if err != nil {
				t.Fatal(err)
			}
			got := p.Since(base)
			if b := strings.Join(got.Breaking, ";"); !strings.HasPrefix(b, c.breaking) || (c.breaking == "") != (b == "") {
				t.Errorf("breaking %q, want %q", b, c.breaking)
			}
			if b := strings.Join(got.Pending, ";"); b != c.pending {
				t.Errorf("pending %q, want %q", b, c.pending)
			}
		})
	}
}

// TestTypesOfABaseThatNoLongerFit: accumulators of one type are never merged
// into those of another; what a base never saw fits everything.
func TestTypesOfABaseThatNoLongerFit(t *testing.T) {
	for _, c := range []struct {
		name, column string
		was, now     column.Type
		fits         bool
	}{
		{"wider integer", "v", column.Of(column.Int32), column.Of(column.Int64), true},
		{"integer to double", "v", column.Of(column.Int64), column.Of(column.Float64), true}, // recent is windowed: not in the base
		{"scale of a set", "tag", column.DecimalOf(9, 2), column.DecimalOf(12, 3), false},
		{"date to timestamp", "title", column.Of(column.Date), column.Of(column.Timestamp), false},
		{"nothing seen", "title", column.Of(column.Null), column.Of(column.Timestamp), true},
		{"key of another type", "id", column.Of(column.Int64), column.DecimalOf(38, 0), false},
		{"key never seen", "id", column.Of(column.Null), column.Of(column.Int64), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := kinds(), kinds()
			before[c.column], after[c.column] = c.was, c.now
			_, err := bind(t, signed(), after).JoinBase(bind(t, signed(), before))
			if (err == nil) != c.fits {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestSignatureKeepsParameters: what a configuration can give a fn, a base
// gives it again, numbers in lists too.
func TestSignatureKeepsParameters(t *testing.T) {
	for _, f := range []index.FieldSpec{
		{Name: "one", Fn: "quantile", Args: []string{"x"}, Params: map[string]any{"q": 0.5}},
		{Name: "whole", Fn: "quantile", Args: []string{"x"}, Params: map[string]any{"q": 1.0}},
		{Name: "several", Fn: "quantile", Args: []string{"x"}, Params: map[string]any{"q": []any{0.5, 0.99, int64(1)}}},
		{Name: "bounds", Fn: "histogram", Args: []string{"x"}, Params: map[string]any{"boundaries": []any{int64(1), 2.5, 1e300}}},
		{Name: "cap", Fn: "set", Args: []string{"x"}, Params: map[string]any{"cap": int64(7)}},
		{Name: "in", Fn: "collect", Args: []string{"x"}, Fields: []index.FieldSpec{
			{Name: "q", Fn: "quantile", Args: []string{"x"}, Params: map[string]any{"q": []any{0.25}}},
		}},
	} {
		t.Run(f.Name, func(t *testing.T) {
			p, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{f}}, combine.Builtins())
			if err != nil {
				t.Fatal(err)
			}
			b, err := p.Bind([]column.Type{column.Of(column.String), column.Of(column.Float64)})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := b.Signature().Encode(p)
			if err != nil {
				t.Fatal(err)
			}
			again, err := index.DecodeSignature(raw, combine.Builtins())
			if err != nil {
				t.Fatal(err)
			}
			if b.TypeID() != again.TypeID() || len(p.Since(again).Breaking) > 0 {
				t.Errorf("%s came back as %s, %v", b.TypeID(), again.TypeID(), p.Since(again))
			}
		})
	}
}
