package combinetest

import (
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// reducer looks for the smallest records by which a fn breaks a law.
type reducer struct {
	law  law
	fn   combine.Fn
	seed uint64

	rec   Records
	found *difference
	// budget is how many more records may be looked at: an end in any case.
	budget int
}

// reduceBudget is a second or two.
const reduceBudget = 5_000_000

// reduce leaves out records, then makes those that are left plainer, while the
// law stays broken. If they break a plainer law too, that is the one to tell.
func reduce(l law, fn combine.Fn, rec Records, seed uint64, found *difference) *Violation {
	r := &reducer{law: l, fn: fn, seed: seed, rec: rec, found: found, budget: reduceBudget}
	r.shrink()
	for _, before := range laws() {
		if before.name == r.law.name {
			break
		}
		was := r.law
		if r.law = before; r.try(r.rec) {
			r.shrink()
			break
		}
		r.law = was
	}
	return &Violation{Law: r.law.name, TypeID: fn.TypeID(), Detail: r.found.what, Got: r.found.got, Want: r.found.want, Records: r.rec}
}

func (r *reducer) shrink() {
	r.drop()
	r.search()
	r.plain()
	r.drop()
}

// search draws fewer and plain records: what is left when none of the found
// ones can be spared is often not the smallest example there is.
func (r *reducer) search() {
	const draws = 50
	rng := newRng(r.seed)
	values := make([]*column.Vector, len(r.rec.Args))
	for j, a := range r.rec.Args {
		if values[j] = plainValues(a.Type); values[j].Len() == 0 {
			return
		}
	}
	for n := 1; n < min(len(r.rec.Ranks), plainest); n++ {
		for range draws {
			var rec Records
			for _, v := range values {
				rows := make([]int32, n)
				for i := range rows {
					rows[i] = rng.Int32N(int32(v.Len()))
				}
				rec.Args = append(rec.Args, Records{Args: []*column.Vector{v}, Ranks: make([][]byte, v.Len())}.Only(rows).Args[0])
			}
			for range n {
				rec.Ranks = append(rec.Ranks, plainRank())
			}
			if r.try(rec) {
				return
			}
		}
	}
}

// plainRank is that of a record of the epoch that deletes nothing.
func plainRank() []byte {
	epoch := column.New(column.Of(column.Timestamp))
	epoch.AppendTimestamp(0, 0)
	return combine.AppendRank(nil, epoch, 0, false, nil)
}

// try keeps the records if the law is broken by them too. They are dealt and
// shuffled in several ways: the first may happen to be harmless.
func (r *reducer) try(rec Records) bool {
	const ways = 16
	for way := range uint64(ways) {
		if r.budget -= len(rec.Ranks) + 1; r.budget < 0 {
			return false
		}
		if d := r.law.run(r.fn, rec, r.seed+way); d != nil {
			r.rec, r.found, r.seed = rec, d, r.seed+way
			return true
		}
	}
	return false
}

// drop leaves out halves, quarters and so on down to single records, until no
// single one can be spared.
func (r *reducer) drop() {
	for size := (len(r.rec.Ranks) + 1) / 2; size > 0; {
		dropped := false
		for from := 0; from < len(r.rec.Ranks); {
			if r.try(r.rec.without(from, from+size)) {
				dropped = true
			} else {
				from += size
			}
		}
		switch {
		case size > 1:
			size /= 2
		case !dropped:
			return
		}
	}
}

// without returns the records but those from from to before to.
func (r Records) without(from, to int) Records {
	var rows []int32
	for i := range int32(len(r.Ranks)) {
		if int(i) < from || int(i) >= to {
			rows = append(rows, i)
		}
	}
	return r.Only(rows)
}

// plainest bounds the number of records that are worth making plainer.
const plainest = 12

// plain replaces times and values by plainer ones.
func (r *reducer) plain() {
	n := len(r.rec.Ranks)
	if n == 0 || n > plainest {
		return
	}
	alike := Records{Args: r.rec.Args, Ranks: make([][]byte, n)}
	for i := range n {
		alike.Ranks[i] = plainRank()
	}
	r.try(alike)
	for again := true; again; {
		again = false
		for j := range r.rec.Args {
			for i := range n {
				again = r.plainer(j, i) || again
			}
		}
	}
}

// plainer looks for the plainest value that argument j of record i can have.
func (r *reducer) plainer(j, i int) bool {
	old := r.rec.Args[j]
	if old.Null(i) {
		return false
	}
	values := plainValues(old.Type)
	for k := range values.Len() {
		if valueText(values, k) == valueText(old, i) {
			return false // the rest is not plainer
		}
		v := column.New(old.Type)
		for row := range old.Len() {
			from, at := old, row
			if row == i {
				from, at = values, k
			}
			_ = v.AppendFrom(from, at) // equal types always append
		}
		rec := Records{Args: append([]*column.Vector{}, r.rec.Args...), Ranks: r.rec.Ranks}
		rec.Args[j] = v
		if r.try(rec) {
			return true
		}
	}
	return false
}

// plainValues are a few values of a type, the plainest first.
func plainValues(t column.Type) *column.Vector {
	v := column.New(t)
	switch t.Kind {
	case column.Bool:
		v.AppendBool(false)
	case column.Int32, column.Int64, column.Date, column.Time:
		for i := range int64(4) {
			v.AppendInt(i)
		}
	case column.Float32, column.Float64:
		for _, f := range []float64{0, 1, 2, 3, 0.5, 0.1, 0.2, 0.3, 1e16} {
			if t.Kind == column.Float32 {
				f = float64(float32(f))
			}
			v.AppendFloat(f)
		}
	case column.Decimal:
		for i := range int64(4) {
			v.AppendDecimal(column.Int128From(i))
		}
	case column.String, column.Bytes:
		for _, s := range []string{"", "a", "b", "c"} {
			v.AppendString(s)
		}
	case column.Timestamp:
		for i := range int64(3) {
			v.AppendTimestamp(i, 0)
		}
	case column.List:
		v.EndList()
	case column.Null, column.Struct: // nothing is plainer than what they are
	}
	return v
}
