package window

import (
	"bytes"
	"math"
)

// ladder keeps, for each key of a fn that selects one of its accumulators, those
// that can still win as the window moves on: each beats all that come after it,
// for what a later one beats leaves no later than the later one, and can never
// win. The first is the winner, and when its partition leaves, the next one is:
// nothing is folded anew. Random values make a ladder of about ln n rungs of n
// partitions. It is the queue that finds the minimum of a sliding window.
//
// No more than rungs are kept of a key; what did not fit is worse than the last
// that did, and where the ladder is used up the key is folded anew.
type ladder struct {
	compare func(a, b []byte) int
	at      []rung // by group, rungs each
	n       []uint8
	cut     []bool // by group: something that did not fit is left, worse than the last rung
	arena   []byte
	dead    int
}

const rungs = 4

// rung is an accumulator and the slot of its partition.
type rung struct {
	slot int64
	at   uint64 // in the arena: the offset, then in sizeBits the size
}

// sizeBits has room for any accumulator that a run may have, and leaves the
// offset more than there is memory.
const sizeBits = 26

func rungAt(slot int64, off, size int) rung { return rung{slot, uint64(off)<<sizeBits | uint64(size)} }

func (r rung) off() int  { return int(r.at >> sizeBits) }
func (r rung) size() int { return int(r.at & (1<<sizeBits - 1)) }

// nowhere is the slot of an accumulator whose partition is not known.
const nowhere = math.MinInt64

func (l *ladder) grow(n int) {
	for len(l.n) < n {
		l.n, l.cut = append(l.n, 0), append(l.cut, false)
		l.at = append(l.at, make([]rung, rungs)...)
	}
}

func (l *ladder) bytes() int64 {
	return int64(16*cap(l.at) + cap(l.n) + cap(l.cut) + cap(l.arena))
}

func (l *ladder) of(g uint32) []rung { return l.at[int(g)*rungs : int(g)*rungs+int(l.n[g])] }

func (l *ladder) acc(r rung) []byte { return l.arena[r.off() : r.off()+r.size()] }

// first is the winner, nil for none.
func (l *ladder) first(g uint32) []byte {
	if l.n[g] == 0 {
		return nil
	}
	return l.acc(l.at[int(g)*rungs])
}

// push offers the accumulator of a slot. newest says that no slot before it
// was later. It returns whether the winner is another now.
func (l *ladder) push(g uint32, slot int64, acc []byte, newest bool) bool {
	list := l.of(g)
	at := len(list) // where it would stand, by slot
	for at > 0 && list[at-1].slot >= slot {
		at--
	}
	if at < len(list) && list[at].slot > slot && l.compare(l.acc(list[at]), acc) <= 0 {
		return false // a later one is no worse
	}
	stands := at < len(list) && list[at].slot == slot // it takes the place of a rung
	if stands {
		if l.compare(l.acc(list[at]), acc) < 0 {
			return false
		}
		l.remove(g, at)
		list = l.of(g)
	}
	beaten := at
	for beaten > 0 && l.compare(acc, l.acc(list[beaten-1])) <= 0 {
		beaten--
	}
	if !stands && beaten == at && at == len(list) && (l.cut[g] || len(list) == rungs) {
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

func (l *ladder) remove(g uint32, i int) {
	list := l.of(g)
	l.dead += list[i].size()
	copy(list[i:], list[i+1:])
	l.n[g]--
}

func (l *ladder) insert(g uint32, i int, slot int64, acc []byte) {
	if int(l.n[g]) == rungs {
		l.remove(g, rungs-1)
		l.cut[g] = true
	}
	l.n[g]++
	list := l.of(g)
	copy(list[i+1:], list[i:])
	list[i] = rungAt(slot, len(l.arena), len(acc))
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
			off := len(live)
			live = append(live, l.acc(list[i])...)
			list[i] = rungAt(list[i].slot, off, list[i].size())
		}
	}
	l.arena, l.dead = live, 0
}

// drop takes the accumulator of a slot out. oldest says that nothing is left of
// this slot and those before it. whole is false where the key must be folded
// anew.
func (l *ladder) drop(g uint32, slot int64, acc []byte, oldest bool) (whole, changed bool) {
	for i, r := range l.of(g) {
		switch {
		case r.slot == nowhere && bytes.Equal(l.acc(r), acc):
			return false, true
		case r.slot != slot:
			continue
		case !oldest && bytes.Equal(l.acc(r), acc):
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
	for _, r := range l.of(g) {
		l.dead += r.size()
	}
	l.n[g], l.cut[g] = 0, false
}
