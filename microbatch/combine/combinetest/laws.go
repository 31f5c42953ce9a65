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
	"strconv"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/tuple"
)

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
		if d := l.run(fn, rec, seed); d != nil {
			return reduce(l, fn, rec, seed, d)
		}
	}
	return nil
}

// law is one of the battery: its check returns what is wrong, or nil.
type law struct {
	name  string
	check func(fn combine.Fn, rec Records, seed uint64) *difference
}

// run checks the law; a panic of the fn breaks it.
func (l law) run(fn combine.Fn, rec Records, seed uint64) (d *difference) {
	defer func() {
		if v := recover(); v != nil {
			d = wrong("panic: %v", v)
		}
	}()
	return l.check(fn, rec, seed)
}

// Laws are the names of the laws, in the order in which they are checked.
func Laws() []string {
	var names []string
	for _, l := range laws() {
		names = append(names, l.name)
	}
	return names
}

func laws() []law {
	return []law{
		{"order", checkOrder}, {"split", checkSplit}, {"assoc", checkAssoc}, {"comm", checkComm},
		{"identity", checkIdentity}, {"roundtrip", checkRoundtrip}, {"stored", checkStored}, {"pure", checkPure},
		{"class", checkClass}, {"leaving", checkLeaving}, {"groups", checkGroups}, {"rows", checkRows}, {"strict", checkStrict},
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

// dealing is a multiset dealt to several.
type dealing struct {
	parts []Records
	rows  [][]int32
}

// deal deals the records at random to k multisets.
func deal(rec Records, k int, rng *rand.Rand) dealing {
	d := dealing{rows: make([][]int32, k), parts: make([]Records, k)}
	for _, i := range shuffled(len(rec.Ranks), rng) {
		p := rng.IntN(k)
		d.rows[p] = append(d.rows[p], i)
	}
	for p := range d.parts {
		d.parts[p] = rec.Only(d.rows[p])
	}
	return d
}

// String names the records of each part, from 1.
func (d dealing) String() string {
	const most = 8
	parts := make([]string, len(d.rows))
	for p, rows := range d.rows {
		var names []string
		for n, i := range rows {
			if n == most {
				names = append(names, "…")
				break
			}
			names = append(names, strconv.Itoa(int(i)+1))
		}
		parts[p] = "{" + strings.Join(names, " ") + "}"
	}
	return strings.Join(parts, " ")
}

func halves(rec Records, seed uint64) []Records { return deal(rec, 2, newRng(seed)).parts }

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

func checkOrder(fn combine.Fn, rec Records, seed uint64) *difference {
	want := accOf(fn, rec)
	if bytes.HasPrefix(want, []byte("error: ")) {
		return wrong("%s", want)
	}
	return same("in another order the accumulator is another", accOf(fn, rec.Only(shuffled(len(rec.Ranks), newRng(seed)))), want)
}

func checkSplit(fn combine.Fn, rec Records, seed uint64) *difference {
	rng := newRng(seed)
	dealt := deal(rec, 2+rng.IntN(3), rng)
	var accs [][]byte
	for _, p := range dealt.parts {
		accs = append(accs, accOf(fn, p))
	}
	return same("the merged accumulators of "+dealt.String()+" are not that of all", merged(fn, accs...), accOf(fn, rec))
}

func checkAssoc(fn combine.Fn, rec Records, seed uint64) *difference {
	dealt := deal(rec, 3, newRng(seed))
	p := dealt.parts
	a, b, c := accOf(fn, p[0]), accOf(fn, p[1]), accOf(fn, p[2])
	return same("of the parts "+dealt.String()+", (first + second) + third is not first + (second + third)",
		merged(fn, merged(fn, a, b), c), merged(fn, a, merged(fn, b, c)))
}

func checkComm(fn combine.Fn, rec Records, seed uint64) *difference {
	dealt := deal(rec, 2, newRng(seed))
	a, b := accOf(fn, dealt.parts[0]), accOf(fn, dealt.parts[1])
	return same("of the parts "+dealt.String()+", first + second is not second + first", merged(fn, a, b), merged(fn, b, a))
}

func checkIdentity(fn combine.Fn, rec Records, _ uint64) *difference {
	a := accOf(fn, rec)
	if d := same("merged with nothing the accumulator changes", merged(fn, a, nil), a); d != nil {
		return d
	}
	if d := same("nothing, merged with the accumulator, is not it", merged(fn, nil, a), a); d != nil {
		return d
	}
	return same("the accumulator of no records is not empty", accOf(fn, rec.Only(nil)), nil)
}

func checkRoundtrip(fn combine.Fn, rec Records, _ uint64) *difference {
	a := accOf(fn, rec)
	if err := fn.Validate(a); err != nil {
		return wrong("Validate refuses its own accumulator %s: %v", show(a), err)
	}
	return same("stored and read back the accumulator is another", merged(fn, a), a)
}

// checkStored mixes live and stored: records on top of a merged accumulator,
// and an accumulator merged into live records.
func checkStored(fn combine.Fn, rec Records, seed uint64) *difference {
	p := halves(rec, seed)
	want := accOf(fn, rec)
	live, err := lift(fn, p[0])
	if err == nil {
		err = live.Merge(0, accOf(fn, p[1]))
	}
	if err != nil {
		return wrong("an accumulator cannot be merged into live records: %v", err)
	}
	if d := same("an accumulator merged into live records is not that of all", live.AppendAcc(nil, 0), want); d != nil {
		return d
	}
	stored := fn.NewColumn()
	stored.Grow(1)
	if err = stored.Merge(0, accOf(fn, p[0])); err == nil {
		err = add(stored, p[1])
	}
	if err != nil {
		return wrong("records cannot be added to a stored accumulator: %v", err)
	}
	return same("records added to a stored accumulator do not make that of all", stored.AppendAcc(nil, 0), want)
}

func checkPure(fn combine.Fn, rec Records, seed uint64) *difference {
	p := halves(rec, seed)
	a, b := accOf(fn, p[0]), accOf(fn, p[1])
	col := fn.NewColumn()
	col.Grow(1)
	given := bytes.Clone(b)
	if err := col.Merge(0, a); err != nil {
		return wrong("%v", err)
	}
	if err := col.Merge(0, given); err != nil {
		return wrong("%v", err)
	}
	if d := same("Merge changes the bytes it is given", given, b); d != nil {
		return d
	}
	once := col.AppendAcc(nil, 0)
	clear(given) // the column must have kept nothing of it
	_ = col.Extract(0, column.New(fn.Output()))
	return same("writing, extracting, or the caller reusing merged bytes changes the accumulator", col.AppendAcc(nil, 0), once)
}

func checkClass(fn combine.Fn, rec Records, seed uint64) *difference {
	p := halves(rec, seed)
	a, b := accOf(fn, p[0]), accOf(fn, p[1])
	switch fn.Class() {
	case combine.Semilattice:
		return same("a semilattice, and merged with itself the accumulator changes", merged(fn, a, a), a)
	case combine.Group:
		col := fn.NewColumn()
		inv, ok := col.(combine.Inverter)
		if !ok {
			return wrong("a group, and its columns are not Inverters")
		}
		col.Grow(1)
		for _, step := range []error{col.Merge(0, a), col.Merge(0, b), inv.Unmerge(0, b)} {
			if step != nil {
				return wrong("%v", step)
			}
		}
		if d := same("a group, and what was merged and taken out again leaves a trace", col.AppendAcc(nil, 0), a); d != nil {
			return d
		}
		if err := inv.Unmerge(0, a); err != nil {
			return wrong("%v", err)
		}
		return same("a group, and everything taken out again leaves something", col.AppendAcc(nil, 0), nil)
	case combine.Monoid: // promises nothing more
	}
	return nil
}

// checkGroups folds several multisets as groups of one column, interleaved,
// after the column was used and reset.
func checkGroups(fn combine.Fn, rec Records, seed uint64) *difference {
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
		return wrong("%v", err)
	}
	col.Reset()
	if col.Len() != 0 {
		return wrong("Reset leaves groups")
	}
	col.Grow(k)
	if err := col.Add(&combine.Input{Groups: groups, Rows: all(len(groups)), Args: rec.Args, Order: rec}); err != nil {
		return wrong("%v", err)
	}
	for g := range rows {
		if d := same(fmt.Sprintf("as group %d of %d, beside others, the accumulator is another", g+1, k), col.AppendAcc(nil, uint32(g)), accOf(fn, rec.Only(rows[g]))); d != nil {
			return d
		}
	}
	return nil
}

func checkRows(fn combine.Fn, rec Records, seed uint64) *difference {
	rng := newRng(seed)
	rows := shuffled(len(rec.Ranks), rng)
	if rows = rows[:len(rows)/2]; rng.IntN(4) == 0 {
		rows = nil // none, not all
	}
	col := fn.NewColumn()
	col.Grow(1)
	in := &combine.Input{Groups: make([]uint32, len(rec.Ranks)), Rows: rows, Args: rec.Args, Order: rec}
	if err := col.Add(in); err != nil {
		return wrong("%v", err)
	}
	return same("Add with some Rows is not Add of these records alone", col.AppendAcc(nil, 0), accOf(fn, rec.Only(rows)))
}

// checkStrict damages the accumulator: what is accepted must be canonical, what
// is refused must leave the column as it was.
func checkStrict(fn combine.Fn, rec Records, seed uint64) *difference {
	rng := newRng(seed)
	a := accOf(fn, rec)
	for range 8 {
		b := damage(a, rng)
		col := fn.NewColumn()
		col.Grow(1)
		valid, err := fn.Validate(b), col.Merge(0, b)
		if (valid == nil) != (err == nil) {
			return &difference{what: fmt.Sprintf("of damaged bytes Validate says %v, Merge %v", valid, err), got: b}
		}
		want := b
		if err != nil {
			want = nil
		}
		if d := same("damaged bytes are accepted and come back as others, or refused and leave something", col.AppendAcc(nil, 0), want); d != nil {
			return d
		}
	}
	return nil
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

func checkExtract(fn combine.Fn, rec Records, seed uint64) *difference {
	live, err := lift(fn, rec)
	if err != nil {
		return wrong("%v", err)
	}
	stored := fn.NewColumn()
	stored.Grow(1)
	for _, p := range halves(rec, seed) {
		if err := stored.Merge(0, accOf(fn, p)); err != nil {
			return wrong("%v", err)
		}
	}
	a, b := value(fn, live), value(fn, stored)
	if d := same("the value of live and of merged records differs", a, b); d != nil {
		return d
	}
	none := fn.NewColumn()
	none.Grow(1)
	if len(rec.Ranks) == 0 {
		return same("the value of nothing differs", a, value(fn, none))
	}
	return nil
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
