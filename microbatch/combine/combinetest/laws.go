// Package combinetest is the law battery that every combine fn must pass: those
// of deltad in its tests, those of users in theirs, and any of them on sampled
// data through Check.
//
// It works on accumulator bytes. For multisets of records it compares the
// bytes of one fold with those of others that must agree: permuted, split,
// merged in other trees, stored and read back, beside other groups. It holds a
// fn to its Class, and its Validate to the canonical form. What it finds is a
// Violation with the smallest multiset it could reduce it to.
//
// A battery can only show that a fn is wrong. It is deterministic: equal seeds
// give equal cases.
package combinetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
)

// Records are a multiset of records: their arguments, a row each, and ranks.
type Records struct {
	Args  []*column.Vector
	Ranks [][]byte
}

// Rank implements combine.Order.
func (r Records) Rank(i int) []byte { return r.Ranks[i] }

// String lists the records, for messages.
func (r Records) String() string {
	var b strings.Builder
	for i, rank := range r.Ranks {
		fmt.Fprintf(&b, "\n  %d: rank %x", i, rank)
		for _, a := range r.Args {
			fmt.Fprintf(&b, " %x", tuple.Append(nil, a, i))
		}
	}
	return b.String()
}

// only returns the records at the places, in that order.
func (r Records) only(rows []int32) Records {
	out := Records{Args: make([]*column.Vector, len(r.Args))}
	for j, a := range r.Args {
		out.Args[j] = column.New(a.Type)
		for _, i := range rows {
			// Equal types always append.
			_ = out.Args[j].AppendFrom(a, int(i))
		}
	}
	for _, i := range rows {
		out.Ranks = append(out.Ranks, r.Ranks[i])
	}
	return out
}

// Violation is a law that a fn breaks.
type Violation struct {
	Law     string
	TypeID  string
	Detail  string
	Records Records
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s breaks the law %q: %s; records:%s", v.TypeID, v.Law, v.Detail, v.Records)
}

// Check runs the battery over so many generated cases.
func Check(fn combine.Fn, cases int, seed uint64) error {
	for i := range cases {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		if err := CheckRecords(fn, Generate(rng, fn.Args()), rng.Uint64()); err != nil {
			return err
		}
	}
	return nil
}

// CheckRecords runs every law once on the records, with splits and orders
// drawn from the seed. A violation is reduced before it is returned.
func CheckRecords(fn combine.Fn, rec Records, seed uint64) error {
	for _, l := range laws() {
		detail := l.check(fn, rec, seed)
		if detail == "" {
			continue
		}
		rec, detail = reduce(l, fn, rec, seed, detail)
		return &Violation{Law: l.name, TypeID: fn.TypeID(), Detail: detail, Records: rec}
	}
	return nil
}

// reduce leaves out records while the law stays broken.
func reduce(l law, fn combine.Fn, rec Records, seed uint64, detail string) (Records, string) {
	for again := true; again; {
		again = false
		for drop := range rec.Ranks {
			var rows []int32
			for i := range rec.Ranks {
				if i != drop {
					rows = append(rows, int32(i))
				}
			}
			less := rec.only(rows)
			if d := l.check(fn, less, seed); d != "" {
				rec, detail, again = less, d, true
				break
			}
		}
	}
	return rec, detail
}

// law is one of the battery: its check returns what is wrong, or nothing.
type law struct {
	name  string
	check func(fn combine.Fn, rec Records, seed uint64) string
}

func laws() []law {
	return []law{
		{"order", checkOrder}, {"split", checkSplit}, {"assoc", checkAssoc}, {"comm", checkComm},
		{"identity", checkIdentity}, {"roundtrip", checkRoundtrip}, {"stored", checkStored}, {"pure", checkPure},
		{"class", checkClass}, {"groups", checkGroups}, {"rows", checkRows}, {"strict", checkStrict},
		{"extract", checkExtract},
	}
}

// all returns 0 to n-1.
func all(n int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(i)
	}
	return rows
}

func shuffled(n int, rng *rand.Rand) []int32 {
	rows := all(n)
	rng.Shuffle(n, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return rows
}

// parts deals the records at random to k multisets.
func parts(rec Records, k int, rng *rand.Rand) []Records {
	rows := make([][]int32, k)
	for _, i := range shuffled(len(rec.Ranks), rng) {
		p := rng.IntN(k)
		rows[p] = append(rows[p], i)
	}
	out := make([]Records, k)
	for p := range out {
		out[p] = rec.only(rows[p])
	}
	return out
}

func newRng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// lift folds the records in their order into a column of one group.
func lift(fn combine.Fn, rec Records) (combine.Column, error) {
	col := fn.NewColumn()
	col.Grow(1)
	return col, add(col, rec)
}

func add(col combine.Column, rec Records) error {
	n := len(rec.Ranks)
	return col.Add(&combine.Input{Groups: make([]uint32, n), Rows: all(n), Args: rec.Args, Order: rec})
}

// accOf is the accumulator of the records; an error becomes bytes that no fn
// writes, and shows in the comparison.
func accOf(fn combine.Fn, rec Records) []byte {
	col, err := lift(fn, rec)
	if err != nil {
		return []byte("error: " + err.Error())
	}
	return col.AppendAcc(nil, 0)
}

// merged merges accumulators from left to right.
func merged(fn combine.Fn, accs ...[]byte) []byte {
	col := fn.NewColumn()
	col.Grow(1)
	for _, a := range accs {
		if err := col.Merge(0, a); err != nil {
			return []byte("error: " + err.Error())
		}
	}
	return col.AppendAcc(nil, 0)
}

func same(what string, a, b []byte) string {
	if bytes.Equal(a, b) {
		return ""
	}
	return fmt.Sprintf("%s: %s against %s", what, show(a), show(b))
}

func show(b []byte) string {
	if bytes.HasPrefix(b, []byte("error: ")) {
		return string(b)
	}
	return fmt.Sprintf("%x", b)
}

func checkOrder(fn combine.Fn, rec Records, seed uint64) string {
	want := accOf(fn, rec)
	if bytes.HasPrefix(want, []byte("error: ")) {
		return string(want)
	}
	return same("another order of records", accOf(fn, rec.only(shuffled(len(rec.Ranks), newRng(seed)))), want)
}

func checkSplit(fn combine.Fn, rec Records, seed uint64) string {
	rng := newRng(seed)
	var accs [][]byte
	for _, p := range parts(rec, 2+rng.IntN(3), rng) {
		accs = append(accs, accOf(fn, p))
	}
	return same("merged parts", merged(fn, accs...), accOf(fn, rec))
}

func checkAssoc(fn combine.Fn, rec Records, seed uint64) string {
	p := parts(rec, 3, newRng(seed))
	a, b, c := accOf(fn, p[0]), accOf(fn, p[1]), accOf(fn, p[2])
	return same("(ab)c and a(bc)", merged(fn, merged(fn, a, b), c), merged(fn, a, merged(fn, b, c)))
}

func checkComm(fn combine.Fn, rec Records, seed uint64) string {
	p := parts(rec, 2, newRng(seed))
	a, b := accOf(fn, p[0]), accOf(fn, p[1])
	return same("ab and ba", merged(fn, a, b), merged(fn, b, a))
}

func checkIdentity(fn combine.Fn, rec Records, _ uint64) string {
	a := accOf(fn, rec)
	if d := same("a with nothing", merged(fn, a, nil), a); d != "" {
		return d
	}
	if d := same("nothing with a", merged(fn, nil, a), a); d != "" {
		return d
	}
	return same("the accumulator of nothing", accOf(fn, rec.only(nil)), nil)
}

func checkRoundtrip(fn combine.Fn, rec Records, _ uint64) string {
	a := accOf(fn, rec)
	if err := fn.Validate(a); err != nil {
		return fmt.Sprintf("its own accumulator %x is refused: %v", a, err)
	}
	return same("read back", merged(fn, a), a)
}

// checkStored mixes live and stored: records on top of a merged accumulator,
// and an accumulator merged into live records.
func checkStored(fn combine.Fn, rec Records, seed uint64) string {
	p := parts(rec, 2, newRng(seed))
	want := accOf(fn, rec)
	live, err := lift(fn, p[0])
	if err == nil {
		err = live.Merge(0, accOf(fn, p[1]))
	}
	if err != nil {
		return "merge into live records: " + err.Error()
	}
	if d := same("merged into live records", live.AppendAcc(nil, 0), want); d != "" {
		return d
	}
	stored := fn.NewColumn()
	stored.Grow(1)
	if err = stored.Merge(0, accOf(fn, p[0])); err == nil {
		err = add(stored, p[1])
	}
	if err != nil {
		return "records upon a stored accumulator: " + err.Error()
	}
	return same("records upon a stored accumulator", stored.AppendAcc(nil, 0), want)
}

func checkPure(fn combine.Fn, rec Records, seed uint64) string {
	p := parts(rec, 2, newRng(seed))
	a, b := accOf(fn, p[0]), accOf(fn, p[1])
	col := fn.NewColumn()
	col.Grow(1)
	given := bytes.Clone(b)
	if err := col.Merge(0, a); err != nil {
		return err.Error()
	}
	if err := col.Merge(0, given); err != nil {
		return err.Error()
	}
	if d := same("merge changed its argument", given, b); d != "" {
		return d
	}
	once := col.AppendAcc(nil, 0)
	clear(given) // the column must have kept nothing of it
	_ = col.Extract(0, column.New(fn.Output()))
	return same("writing and extracting changed the accumulator", col.AppendAcc(nil, 0), once)
}

func checkClass(fn combine.Fn, rec Records, seed uint64) string {
	p := parts(rec, 2, newRng(seed))
	a, b := accOf(fn, p[0]), accOf(fn, p[1])
	switch fn.Class() {
	case combine.Semilattice:
		return same("semilattice: aa and a", merged(fn, a, a), a)
	case combine.Group:
		col := fn.NewColumn()
		inv, ok := col.(combine.Inverter)
		if !ok {
			return "a group's columns are not Inverters"
		}
		col.Grow(1)
		for _, step := range []error{col.Merge(0, a), col.Merge(0, b), inv.Unmerge(0, b)} {
			if step != nil {
				return step.Error()
			}
		}
		if d := same("group: ab without b and a", col.AppendAcc(nil, 0), a); d != "" {
			return d
		}
		if err := inv.Unmerge(0, a); err != nil {
			return err.Error()
		}
		return same("group: a without a and nothing", col.AppendAcc(nil, 0), nil)
	case combine.Monoid: // promises nothing more
	}
	return ""
}

// checkGroups folds several multisets as groups of one column, interleaved,
// after the column was used and reset.
func checkGroups(fn combine.Fn, rec Records, seed uint64) string {
	const k = 3
	rng := newRng(seed)
	groups := make([]uint32, len(rec.Ranks))
	rows := make([][]int32, k)
	for i := range groups {
		g := rng.IntN(k)
		groups[i], rows[g] = uint32(g), append(rows[g], int32(i))
	}
	col, err := lift(fn, rec)
	if err != nil {
		return err.Error()
	}
	col.Reset()
	if col.Len() != 0 {
		return "reset leaves groups"
	}
	col.Grow(k)
	if err := col.Add(&combine.Input{Groups: groups, Rows: all(len(groups)), Args: rec.Args, Order: rec}); err != nil {
		return err.Error()
	}
	for g := range rows {
		if d := same(fmt.Sprintf("group %d of %d", g, k), col.AppendAcc(nil, uint32(g)), accOf(fn, rec.only(rows[g]))); d != "" {
			return d
		}
	}
	return ""
}

func checkRows(fn combine.Fn, rec Records, seed uint64) string {
	rng := newRng(seed)
	rows := shuffled(len(rec.Ranks), rng)
	if rows = rows[:len(rows)/2]; rng.IntN(4) == 0 {
		rows = nil // none, not all
	}
	col := fn.NewColumn()
	col.Grow(1)
	in := &combine.Input{Groups: make([]uint32, len(rec.Ranks)), Rows: rows, Args: rec.Args, Order: rec}
	if err := col.Add(in); err != nil {
		return err.Error()
	}
	return same("chosen rows and these records alone", col.AppendAcc(nil, 0), accOf(fn, rec.only(rows)))
}

// checkStrict damages the accumulator: what is accepted must be canonical, what
// is refused must leave the column as it was.
func checkStrict(fn combine.Fn, rec Records, seed uint64) string {
	rng := newRng(seed)
	a := accOf(fn, rec)
	for range 8 {
		b := damage(a, rng)
		col := fn.NewColumn()
		col.Grow(1)
		valid, err := fn.Validate(b), col.Merge(0, b)
		if (valid == nil) != (err == nil) {
			return fmt.Sprintf("%x: Validate says %v, Merge %v", b, valid, err)
		}
		want := b
		if err != nil {
			want = nil
		}
		if d := same("a damaged accumulator", col.AppendAcc(nil, 0), want); d != "" {
			return d
		}
	}
	return ""
}

func damage(a []byte, rng *rand.Rand) []byte {
	b := bytes.Clone(a)
	switch rng.IntN(4) {
	case 0:
		return append(b, byte(rng.IntN(256)))
	case 1:
		if len(b) > 0 {
			return b[:rng.IntN(len(b))]
		}
	case 2:
		if len(b) > 0 {
			b[rng.IntN(len(b))] = byte(rng.IntN(256))
		}
	default:
		if len(b) > 0 {
			i := rng.IntN(len(b))
			b = append(b[:i:i], append([]byte{byte(rng.IntN(3))}, b[i:]...)...)
		}
	}
	return b
}

func checkExtract(fn combine.Fn, rec Records, seed uint64) string {
	live, err := lift(fn, rec)
	if err != nil {
		return err.Error()
	}
	stored := fn.NewColumn()
	stored.Grow(1)
	for _, p := range parts(rec, 2, newRng(seed)) {
		if err := stored.Merge(0, accOf(fn, p)); err != nil {
			return err.Error()
		}
	}
	a, b := value(fn, live), value(fn, stored)
	if d := same("value of live and of stored records", a, b); d != "" {
		return d
	}
	none := fn.NewColumn()
	none.Grow(1)
	if len(rec.Ranks) == 0 {
		return same("value of nothing", a, value(fn, none))
	}
	return ""
}

// value is the encoding of what group 0 extracts.
func value(fn combine.Fn, col combine.Column) []byte {
	dst := column.New(fn.Output())
	if err := col.Extract(0, dst); err != nil {
		return []byte("error: " + err.Error())
	}
	if dst.Len() != 1 {
		return fmt.Appendf(nil, "error: %d values extracted", dst.Len())
	}
	return tuple.Append(nil, dst, 0)
}
