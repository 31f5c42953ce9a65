package index

import (
	"sync"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
)

// filtered is a program whose filters are more than comparisons with literals.
func filtered(tb testing.TB) *Program {
	tb.Helper()
	p, err := Compile(Spec{
		Key: []string{"k"}, Where: "n % 2 == 0", DeleteWhen: "n % 10 == 8",
		Fields: []FieldSpec{{Name: "some", Fn: "count", Args: []string{"*"}, Where: "n % 4 == 0"}, {Name: "total", Fn: "sum", Args: []string{"=n * 2"}}},
	}, combine.Builtins())
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func kinds(p *Program, n column.Kind) []column.Type {
	types := make([]column.Type, len(p.columns))
	types[p.column("k")], types[p.column("n")] = column.Of(column.String), column.Of(n)
	return types
}

// TestExpressionsAreCompiledOnce: whoever binds a program to types it was bound
// to before shares what was compiled then, and what is kept is bounded.
func TestExpressionsAreCompiledOnce(t *testing.T) {
	p := filtered(t)
	lifter := func(n column.Kind) *Lifter {
		b, err := p.Bind(kinds(p, n))
		if err != nil {
			t.Fatal(err)
		}
		l, err := b.NewLifter(table.New(b.Shape()), time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first, second, other := lifter(column.Int64), lifter(column.Int64), lifter(column.Int32)
	for name, of := range map[string]func(l *Lifter) *compiled{
		"where":         func(l *Lifter) *compiled { return l.where },
		"delete_when":   func(l *Lifter) *compiled { return l.deletes },
		"field's where": func(l *Lifter) *compiled { return l.fields[0].where },
		"argument":      func(l *Lifter) *compiled { return l.fields[1].computed[0].expr },
	} {
		switch a, b, c := of(first), of(second), of(other); {
		case a.program != b.program:
			t.Errorf("%s is compiled again", name)
		case a == b:
			t.Errorf("%s: two lifters share a machine", name)
		case a.program == c.program:
			t.Errorf("%s is not compiled anew for another type", name)
		}
	}
	for scale := range 3 * keptForms {
		if _, err := p.where.bind(func(string) column.Type { return column.DecimalOf(30, scale) }, false); err == nil {
			t.Error("a decimal has no remainder")
		}
	}
	if n := len(p.where.forms.of); n != keptForms {
		t.Errorf("%d forms are kept, want %d", n, keptForms)
	}
}

// TestLiftersOfOneProgramAtATime: workers share compiled expressions and nothing
// else; the race detector watches.
func TestLiftersOfOneProgramAtATime(t *testing.T) {
	p := filtered(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, kind := range []column.Kind{column.Int64, column.Int32, column.Int64} {
				b, err := p.Bind(kinds(p, kind))
				if err != nil {
					t.Error(err)
					return
				}
				into := table.New(b.Shape())
				l, err := b.NewLifter(into, time.Time{})
				if err != nil {
					t.Error(err)
					return
				}
				batch := &column.Batch{}
				for _, typ := range kinds(p, kind) {
					batch.Columns = append(batch.Columns, column.New(typ))
				}
				for i := range int64(1000) {
					batch.Columns[p.column("k")].AppendString("a")
					batch.Columns[p.column("n")].AppendInt(i)
					batch.Len++
				}
				stats, err := l.Add(batch, 0)
				out := column.New(column.Of(column.Int64))
				if err == nil {
					err = into.Columns()[2].Extract(0, out)
				}
				// Even numbers that do not end in 8, twice.
				if want := int64(2 * (499*500 - 100*8 - 10*99*50)); err != nil || stats.Rows != 500 || out.Ints[0] != want {
					t.Errorf("%v, sum %v, want %d: %v", stats, out.Ints, want, err)
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkNewLifter is what each slice pays before its first record.
func BenchmarkNewLifter(b *testing.B) {
	p := filtered(b)
	types := kinds(p, column.Int64)
	b.ReportAllocs()
	for b.Loop() {
		bound, err := p.Bind(types)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := bound.NewLifter(table.New(bound.Shape()), time.Time{}); err != nil {
			b.Fatal(err)
		}
	}
}
