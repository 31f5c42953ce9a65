package combiners

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
)

// rounding is a field whose value is rounded: exact computes it from a key's
// values in rationals. within is how far DuckDB may be, relatively, for the
// two to be the same aggregate at all.
type rounding struct {
	field  index.FieldSpec
	expr   string
	exact  func(s *sums, k int64) *big.Rat
	root   bool
	within float64
}

func roundings() []rounding {
	field := func(fn string, p map[string]any, args ...string) index.FieldSpec {
		return index.FieldSpec{Fn: fn, Args: args, Params: p}
	}
	population := params("population", true)
	var list []rounding
	for _, c := range []string{"f", "c", "w", "i", "d"} {
		loose := map[string]float64{"c": 1e-3, "w": math.Inf(1)}[c]
		variance := func(d int64) func(s *sums, k int64) *big.Rat {
			return func(s *sums, k int64) *big.Rat { return s.covariance(k, c, c, d) }
		}
		list = append(list,
			rounding{field: field("mean", nil, c), expr: "avg(" + c + ")", within: max(1e-9, loose), exact: func(s *sums, k int64) *big.Rat {
				m := s.sum(k, c)
				return m.Quo(m, s.count(k, c))
			}},
			rounding{field: field("variance", nil, c), expr: "var_samp(" + c + ")", exact: variance(1), within: max(1e-9, loose)},
			rounding{field: field("stddev", population, c), expr: "stddev_pop(" + c + ")", exact: variance(0), root: true, within: max(1e-9, loose)},
			rounding{field: field("median_exact", params("cap", 1<<20), c), expr: "quantile_cont(" + c + "::double, 0.5)", within: 1e-9, exact: func(s *sums, k int64) *big.Rat {
				return s.median(k, c)
			}},
		)
		if c == "f" || c == "c" || c == "w" {
			list = append(list, rounding{field: field("sum", nil, c), expr: "sum(" + c + ")", within: max(1e-9, loose),
				exact: func(s *sums, k int64) *big.Rat { return s.sum(k, c) }})
		}
	}
	for _, pair := range [][2]string{{"f", "c"}, {"f", "w"}} {
		list = append(list, rounding{field: field("covariance", population, pair[0], pair[1]), expr: fmt.Sprintf("covar_pop(%s, %s)", pair[0], pair[1]),
			within: math.Inf(1), exact: func(s *sums, k int64) *big.Rat { return s.covariance(k, pair[0], pair[1], 0) }})
	}
	for i := range list {
		list[i].field.Name = fmt.Sprintf("y%d", i)
	}
	return list
}

// unit is 2^-unit: every number of the rows is a whole number of them, but for
// decimals, which are whole at their scale.
const unit = 150

// sums are the exact sums of each key and column, and of products of columns
// over the rows that have both.
type sums struct {
	of map[cell]*total
	// values are those of each key and column, for medians.
	values map[cell][]float64
	scale  map[string]int // of decimals
}

// cell is a key with one column, or two.
type cell struct {
	k    int64
	a, b string
}

type total struct {
	n          int64
	x, y, prod big.Int
}

func newSums() *sums {
	return &sums{of: map[cell]*total{}, values: map[cell][]float64{}, scale: map[string]int{"d": 4, "i": 0}}
}

func (s *sums) at(k int64, a, b string) *total {
	name := cell{k, a, b}
	if s.of[name] == nil {
		s.of[name] = &total{}
	}
	return s.of[name]
}

// whole is row i in units.
func whole(v *column.Vector, i int, into *big.Int) *big.Int {
	switch {
	case v.Type.Kind == column.Decimal:
		return into.Set(v.Decimals[i].Big())
	case v.Type.IsInt():
		return into.SetInt64(v.Ints[i])
	}
	m, e := math.Frexp(v.Floats[i])
	into.SetInt64(int64(m * (1 << 53)))
	return into.Lsh(into, uint(e-53+unit))
}

func (s *sums) add(b *column.Batch, columns []index.Column) {
	by := map[string]*column.Vector{}
	for i, c := range columns {
		by[c.Path] = b.Columns[i]
	}
	var x, y, xy big.Int
	for _, pair := range [][2]string{{"f", "f"}, {"c", "c"}, {"w", "w"}, {"i", "i"}, {"d", "d"}, {"f", "c"}, {"f", "w"}} {
		u, v := by[pair[0]], by[pair[1]]
		totals := map[int64]*total{}
		for i := range b.Len {
			if u.Null(i) || v.Null(i) {
				continue
			}
			k := by["k"].Ints[i]
			t := totals[k]
			if t == nil {
				t = s.at(k, pair[0], pair[1])
				totals[k] = t
			}
			t.n++
			whole(u, i, &x)
			whole(v, i, &y)
			t.x.Add(&t.x, &x)
			t.y.Add(&t.y, &y)
			t.prod.Add(&t.prod, xy.Mul(&x, &y))
		}
	}
	for _, c := range []string{"f", "c", "w", "i", "d"} {
		v := by[c]
		for i := range b.Len {
			if v.Null(i) {
				continue
			}
			name := cell{by["k"].Ints[i], c, ""}
			f := 0.0
			switch {
			case v.Type.IsFloat():
				f = v.Floats[i]
			case v.Type.IsInt():
				f = float64(v.Ints[i]) // below 2^53
			default:
				f = float64(v.Decimals[i].Hi)*0x1p64 + float64(v.Decimals[i].Lo) // small, unscaled
				if v.Decimals[i].Hi < 0 {
					f = -float64(-v.Decimals[i].Lo)
				}
			}
			s.values[name] = append(s.values[name], f)
		}
	}
}

func (s *sums) per(c string) *big.Rat {
	if scale, ok := s.scale[c]; ok {
		return new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil))
	}
	return new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), unit))
}

func (s *sums) sum(k int64, c string) *big.Rat {
	r := new(big.Rat).SetInt(&s.at(k, c, c).x)
	return r.Mul(r, s.per(c))
}

func (s *sums) count(k int64, c string) *big.Rat { return new(big.Rat).SetInt64(s.at(k, c, c).n) }

// covariance is (Σxy − Σx·Σy/n) / (n − d).
func (s *sums) covariance(k int64, a, b string, d int64) *big.Rat {
	t := s.at(k, a, b)
	r := new(big.Rat).SetFrac(new(big.Int).Mul(&t.x, &t.y), big.NewInt(t.n))
	r.Sub(new(big.Rat).SetInt(&t.prod), r)
	r.Quo(r, new(big.Rat).SetInt64(t.n-d))
	return r.Mul(r.Mul(r, s.per(a)), s.per(b))
}

func (s *sums) median(k int64, c string) *big.Rat {
	v := s.values[cell{k, c, ""}]
	slices.Sort(v)
	low, high := new(big.Rat).SetFloat64(v[(len(v)-1)/2]), new(big.Rat).SetFloat64(v[len(v)/2])
	r := low.Add(low, high)
	r.Quo(r, big.NewRat(2, 1))
	if c == "d" {
		r.Mul(r, s.per(c))
	}
	return r
}

// nearest is the double nearest to r, or to its root.
func nearest(r *big.Rat, root bool) float64 {
	if !root {
		f, _ := r.Float64()
		return f
	}
	x := new(big.Float).SetPrec(2000).SetRat(r)
	f, _ := x.Sqrt(x).Float64()
	return f
}

// ulps counts the doubles between two of one sign, or through zero.
func ulps(a, b float64) float64 {
	if math.Signbit(a) != math.Signbit(b) {
		return ulps(0, math.Abs(a)) + ulps(0, math.Abs(b))
	}
	x, y := math.Float64bits(math.Abs(a)), math.Float64bits(math.Abs(b))
	return float64(max(x, y) - min(x, y))
}

// compare holds deltad to the exact value and shows how far DuckDB is from it.
func compare(ctx context.Context, t *testing.T, db *duck.DB, got *deltad, s *sums, a rounding) {
	t.Helper()
	rows, err := db.Query(ctx, "select k, "+a.expr+" v from r group by k order by k")
	if err != nil {
		t.Fatal(err)
	}
	wrong, worst := 0, 0.0
	for i, row := range rows {
		k := got.keys()[i]
		want := nearest(a.exact(s, k), a.root)
		if have := got.fields[a.field.Name].Floats[i]; k != row["k"] || have != want {
			t.Fatalf("%s of key %d: %v, want %v", a.expr, k, have, want)
		}
		theirs, ok := row["v"].(float64)
		if !ok {
			t.Fatalf("%s of key %d: DuckDB has %v", a.expr, k, row["v"])
		}
		if d := ulps(theirs, want); d > 0 {
			wrong, worst = wrong+1, max(worst, d)
		}
		if math.Abs(theirs-want) > a.within*math.Abs(want) {
			t.Errorf("%s of key %d: DuckDB has %v, want %v: not the same aggregate", a.expr, k, theirs, want)
		}
	}
	t.Logf("%-28s %10s %8d/%d %14.4g", a.expr, "0", wrong, len(rows), worst)
}
