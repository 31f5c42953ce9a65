package window

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/deltad/deltad/microbatch/combine"
)

// ladder keeps, for each key of a fn that selects one of its accumulators, those
// that can still win as the window moves on: each beats all that come after it,
// for what a later one beats leaves no later than the later one, and can never
// win. The first is the winner, and when its partition leaves, the next one is:
// nothing is folded anew. Random values make a ladder of about ln n rungs of n
// partitions. It is the queue that finds the minimum of a sliding window.
//
// Most keys have few partitions and need no more than rungs. Longer ladders move
// to where longRungs have room: of values of chance in all partitions of an hour
// or of a day these are as good as always enough, and to fold a key anew takes as
// long as to roll hundreds of others. What did not fit is worse than the last
// that did, and where the ladder is used up the key is folded anew.
type ladder struct {
	order   order
	chunks  [][]rung           // of chunkGroups groups, rungs each
	n       []uint8            // by group
	long    []*[longRungs]rung // all rungs of groups that have more than rungs
	idle    []int64            // places in long that no group has
	cut     []bool             // by group: something that did not fit is left, worse than the last rung
	arena   []byte             // accumulators that no rung has room for
	dead    int
	room    [short]byte // scratch: a short accumulator
	touched uint64      // of no meaning: what is read must be used
}

const (
	rungs     = 4
	longRungs = 8
)

// Rungs grow by chunks, so that they never move.
const (
	chunkBits   = 9
	chunkGroups = 1 << chunkBits
)

// order is which of two accumulators a fn keeps.
type order struct {
	prefer   func(a, b []byte) int // as combine.Selector has it
	bytewise bool                  // it is the order of bytes
	greatest bool                  // of which the greatest is kept
}

func newLadder(s combine.Selector) *ladder {
	l := &ladder{order: order{prefer: s.Prefer}}
	if b, ok := s.(combine.Bytewise); ok {
		l.order.bytewise, l.order.greatest = true, b.Bytewise()
	}
	return l
}

// rung is an accumulator and the slot of its partition.
type rung struct {
	slot int64
	// first is the first eight bytes, zeros for those it lacks.
	first uint64
	// rest has in its last sizeBits the size; above them the next four bytes of a
	// short accumulator, the offset in the arena of another.
	rest uint64
}

const (
	// short is the size of accumulators that rungs have in full.
	short = 12
	// sizeBits has room for any accumulator that a run may have, and leaves the
	// offset more than there is memory.
	sizeBits = 26
)

func (r *rung) size() int     { return int(r.rest & (1<<sizeBits - 1)) }
func (r *rung) off() int      { return int(r.rest >> sizeBits) }
func (r *rung) isShort() bool { return r.size() <= short }

// rungOf returns the rung of an accumulator; off is that of one that is not
// short.
func rungOf(slot int64, acc []byte, off int) rung {
	r := rung{slot: slot, first: wordOf(acc), rest: uint64(len(acc))}
	switch {
	case len(acc) > short:
		r.rest |= uint64(off) << sizeBits
	case len(acc) > 8:
		r.rest |= wordOf(acc[8:]) >> 32 << sizeBits
	}
	return r
}

// wordOf is the first eight bytes of b as a number, zeros for those it lacks.
func wordOf(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var x uint64
	for i, c := range b {
		x |= uint64(c) << (56 - 8*i)
	}
	return x
}

// nowhere is the slot of an accumulator whose partition is not known.
const nowhere = math.MinInt64

func (l *ladder) grow(n int) {
	l.n, l.cut = lengthen(l.n, n), lengthen(l.cut, n)
	for len(l.chunks)<<chunkBits < n {
		l.chunks = append(l.chunks, make([]rung, rungs*chunkGroups))
	}
}

func (l *ladder) bytes() int64 {
	long := (24*longRungs+8)*len(l.long) + 8*cap(l.idle)
	return int64(24*rungs*len(l.chunks)<<chunkBits + 24*cap(l.chunks) + cap(l.n) + cap(l.cut) + cap(l.arena) + long)
}

// of returns the rungs of g.
func (l *ladder) of(g uint32) []rung {
	n := int(l.n[g])
	from := rungs * int(g%chunkGroups)
	if n > rungs {
		return l.long[l.chunks[g>>chunkBits][from].slot][:n]
	}
	return l.chunks[g>>chunkBits][from : from+n]
}

// widen moves the rungs of g to where there is room for more. The first rung
// then tells where that is.
func (l *ladder) widen(g uint32) {
	from, at := l.of(g), int64(len(l.long))
	if n := len(l.idle); n > 0 {
		at, l.idle = l.idle[n-1], l.idle[:n-1]
	} else {
		l.long = append(l.long, new([longRungs]rung))
	}
	copy(l.long[at][:], from)
	from[0].slot = at
}

// narrow moves the rungs of g, of which no more than rungs are left, back from
// there.
func (l *ladder) narrow(g uint32) {
	from := rungs * int(g%chunkGroups)
	to := l.chunks[g>>chunkBits][from : from+rungs]
	at := to[0].slot
	copy(to, l.long[at][:])
	l.idle = append(l.idle, at)
}

// touch reads the first rung of g and the last of many, if only to have them at
// hand.
func (l *ladder) touch(g uint32) uint64 {
	first := &l.chunks[g>>chunkBits][rungs*int(g%chunkGroups)]
	if n := l.n[g]; n > rungs {
		long := l.long[first.slot]
		return long[0].first ^ long[n-1].first
	}
	return first.first
}

// together is how many groups are touched before something is done with them:
// the processor then waits for many of them at a time.
const together = 128

// near touches the groups from row on that come next, where row is the first of
// as many.
func (l *ladder) near(row int, groups []uint32) {
	if row%together > 0 {
		return
	}
	touched := l.touched
	for _, g := range groups[row:min(len(groups), row+together)] {
		touched ^= l.touch(g)
	}
	l.touched = touched
}

// acc returns the accumulator of a rung, valid until the next call.
func (l *ladder) acc(r *rung) []byte {
	if !r.isShort() {
		return l.arena[r.off() : r.off()+r.size()]
	}
	binary.BigEndian.PutUint64(l.room[:], r.first)
	binary.BigEndian.PutUint32(l.room[8:], uint32(r.rest>>sizeBits))
	return l.room[:r.size()]
}

// winner is the accumulator that is kept, nil for none; valid until the next
// call.
func (l *ladder) winner(g uint32) []byte {
	if l.n[g] == 0 {
		return nil
	}
	return l.acc(&l.of(g)[0])
}

// compare compares acc, of which p is the rung but for its offset, with r: it is
// negative where acc is preferred.
func (l *ladder) compare(p *rung, acc []byte, r *rung) int {
	if !l.order.bytewise {
		return l.order.prefer(acc, l.acc(r))
	}
	less := p.first < r.first
	switch {
	case p.first != r.first:
	case p.isShort() && r.isShort():
		if p.rest == r.rest {
			return 0
		}
		less = p.rest < r.rest // the bytes, then the size
	default:
		n := bytes.Compare(acc, l.acc(r))
		if n == 0 {
			return 0
		}
		less = n < 0
	}
	if less != l.order.greatest {
		return -1
	}
	return 1
}

// is says whether acc, of which p is the rung but for its offset, is r's.
func (l *ladder) is(p *rung, acc []byte, r *rung) bool {
	if p.first != r.first || p.size() != r.size() {
		return false
	}
	return p.rest == r.rest && p.isShort() || !p.isShort() && bytes.Equal(acc, l.acc(r))
}

// push offers the accumulator of a slot. newest says that no slot before it
// was later. It returns whether the winner is another now.
func (l *ladder) push(g uint32, slot int64, acc []byte, newest bool) bool {
	p := rungOf(slot, acc, 0)
	list := l.of(g)
	// What is no later than all that is there and no better than the winner: most
	// of what is folded from the last slot to the first.
	if len(list) > 0 && list[0].slot >= slot && l.compare(&p, acc, &list[0]) >= 0 {
		return false
	}
	at := len(list) // where it would stand, by slot
	for at > 0 && list[at-1].slot >= slot {
		at--
	}
	if at < len(list) && list[at].slot > slot && l.compare(&p, acc, &list[at]) >= 0 {
		return false // a later one is no worse
	}
	stands := at < len(list) && list[at].slot == slot // it takes the place of a rung
	if stands {
		if l.compare(&p, acc, &list[at]) > 0 {
			return false
		}
		l.remove(g, at)
		list = l.of(g)
	}
	beaten := at
	for beaten > 0 && l.compare(&p, acc, &list[beaten-1]) <= 0 {
		beaten--
	}
	if !stands && beaten == at && at == len(list) && (l.cut[g] || len(list) == longRungs) {
		l.cut[g] = true // it is worse than the last
		return false
	}
	if newest && beaten < at {
		l.cut[g] = false // what did not fit was worse than what it beat, and earlier
	}
	for i := at; i > beaten; i-- {
		l.remove(g, i-1)
	}
	l.insert(g, beaten, slot, acc)
	return beaten == 0
}

// pushAccs offers the accumulators of a slot, none of them the identity, that of
// row i to groups[i].
func (l *ladder) pushAccs(groups []uint32, slot int64, a combine.Accs, newest bool) {
	for row, g := range groups {
		l.near(row, groups)
		l.push(g, slot, a.At(row), newest)
	}
}

// pushRows is pushAccs of some rows, of a slot that is the last for none of the
// groups.
func (l *ladder) pushRows(rows []int32, groups []uint32, slot int64, a combine.Accs) {
	for i, row := range rows {
		if i%together == 0 {
			touched := l.touched
			for _, row := range rows[i:min(len(rows), i+together)] {
				touched ^= l.touch(groups[row])
			}
			l.touched = touched
		}
		l.push(groups[row], slot, a.At(int(row)), false)
	}
}

func (l *ladder) remove(g uint32, i int) {
	list := l.of(g)
	l.forget(&list[i])
	copy(list[i:], list[i+1:])
	if l.n[g]--; l.n[g] == rungs {
		l.narrow(g)
	}
}

// forget gives back what a rung has of the arena.
func (l *ladder) forget(r *rung) {
	if !r.isShort() {
		l.dead += r.size()
	}
}

func (l *ladder) insert(g uint32, i int, slot int64, acc []byte) {
	switch l.n[g] {
	case rungs:
		l.widen(g)
	case longRungs:
		l.remove(g, longRungs-1)
		l.cut[g] = true
	}
	l.n[g]++
	list := l.of(g)
	for k := len(list) - 1; k > i; k-- {
		list[k] = list[k-1]
	}
	list[i] = rungOf(slot, acc, len(l.arena))
	if list[i].isShort() {
		return
	}
	l.arena = append(l.arena, acc...)
	if l.dead > 1<<20 && l.dead > len(l.arena)/2 {
		l.compact()
	}
}

func (l *ladder) compact() {
	live := make([]byte, 0, len(l.arena)-l.dead+len(l.arena)/8)
	for g := range l.n {
		list := l.of(uint32(g))
		for i := range list {
			r := &list[i]
			if r.isShort() {
				continue
			}
			off := len(live)
			live = append(live, l.acc(r)...)
			r.rest = uint64(off)<<sizeBits | uint64(r.size())
		}
	}
	l.arena, l.dead = live, 0
}

// drop takes the accumulator of a slot out. oldest says that nothing is left of
// this slot and those before it. whole is false where the key must be folded
// anew.
func (l *ladder) drop(g uint32, slot int64, acc []byte, oldest bool) (whole, changed bool) {
	p := rungOf(slot, acc, 0)
	list := l.of(g)
	for i := range list {
		r := &list[i]
		switch {
		case r.slot == nowhere && l.is(&p, acc, r):
			return false, true
		case r.slot != slot:
			continue
		case !oldest && l.is(&p, acc, r):
			return false, true // what it beat comes back
		case oldest:
			l.remove(g, i)
			return l.n[g] > 0 || !l.cut[g], i == 0
		}
	}
	return true, false
}

// set makes acc, of a partition that is not known, all that is known of g.
func (l *ladder) set(g uint32, acc []byte) {
	l.clear(g)
	if len(acc) > 0 {
		l.insert(g, 0, nowhere, acc)
		l.cut[g] = true
	}
}

func (l *ladder) clear(g uint32) {
	list := l.of(g)
	for i := range list {
		l.forget(&list[i])
	}
	if len(list) > rungs {
		l.n[g] = 0
		l.narrow(g)
	}
	l.n[g], l.cut[g] = 0, false
}
