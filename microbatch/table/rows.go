package table

import (
	"sort"

	"github.com/deltad/deltad/microbatch/combine"
)

// rows are rows in memory, column by column, as a table's columns write them.
type rows struct {
	keys []byte
	at   []int // where each key ends
	accs [][]byte
	ends [][]int // of each fn, where the accumulator of each row ends
}

func newRows(fns int) (r rows) {
	r.reset(fns)
	return r
}

// reset forgets the rows and keeps their memory for others of so many fns.
func (r *rows) reset(fns int) {
	if len(r.accs) != fns {
		*r = rows{accs: make([][]byte, fns), ends: make([][]int, fns)}
	}
	r.keys, r.at = r.keys[:0], r.at[:0]
	for f := range r.accs {
		r.accs[f], r.ends[f] = r.accs[f][:0], r.ends[f][:0]
	}
}

// bytes is the memory held.
func (r *rows) bytes() int64 {
	n := cap(r.keys) + 8*cap(r.at)
	for f := range r.accs {
		n += cap(r.accs[f]) + 8*cap(r.ends[f])
	}
	return int64(n)
}

// size is the bytes of the first n rows.
func (r *rows) size(n int) int {
	if n == 0 {
		return 0
	}
	size := r.at[n-1]
	for _, ends := range r.ends {
		size += ends[n-1]
	}
	return size
}

// block is how many of the rows make a block, 0 if they are not enough for one.
func (r *rows) block() int {
	n := min(len(r.at), blockRows)
	if r.size(n) >= blockBytes {
		return 1 + sort.Search(n-1, func(i int) bool { return r.size(i+1) >= blockBytes })
	}
	if n < blockRows {
		return 0
	}
	return n
}

// key is that of row i.
func (r *rows) key(i int) []byte { return r.keys[from(r.at, i):r.at[i]] }

// from is where what ends at ends[i] begins.
func from(ends []int, i int) int {
	if i == 0 {
		return 0
	}
	return ends[i-1]
}

// drop forgets the first n rows.
func (r *rows) drop(n int) {
	r.keys, r.at = dropped(r.keys, r.at, n)
	for f := range r.accs {
		r.accs[f], r.ends[f] = dropped(r.accs[f], r.ends[f], n)
	}
}

func dropped(b []byte, ends []int, n int) ([]byte, []int) {
	if n == len(ends) {
		return b[:0], ends[:0]
	}
	cut := from(ends, n)
	b = b[:copy(b, b[cut:])]
	ends = ends[:copy(ends, ends[n:])]
	for i := range ends {
		ends[i] -= cut
	}
	return b, ends
}

// add adds a row.
func (r *rows) add(key []byte, accs [][]byte) {
	r.keys = append(r.keys, key...)
	r.at = append(r.at, len(r.keys))
	for f, a := range accs {
		r.accs[f] = append(r.accs[f], a...)
		r.ends[f] = append(r.ends[f], len(r.accs[f]))
	}
}

// addGroups adds the groups of a table, those of identities alone left out.
func (r *rows) addGroups(t *Table, groups []uint32) {
	n := len(r.at)
	for f, c := range t.columns {
		r.accs[f], r.ends[f] = combine.AppendAccs(c, r.accs[f], r.ends[f], groups)
	}
	for _, g := range groups {
		r.keys = append(r.keys, t.Key(g)...)
		r.at = append(r.at, len(r.keys))
	}
	for i := len(r.at) - 1; i >= n; i-- {
		if r.identity(i) {
			r.remove(i)
		}
	}
}

// identity says whether row i has no accumulator.
func (r *rows) identity(i int) bool {
	for _, ends := range r.ends {
		if ends[i] > from(ends, i) {
			return false
		}
	}
	return true
}

// remove takes out row i, which has no accumulator.
func (r *rows) remove(i int) {
	cut := len(r.key(i))
	r.keys = append(r.keys[:from(r.at, i)], r.keys[r.at[i]:]...)
	r.at = append(r.at[:i], r.at[i+1:]...)
	for j := i; j < len(r.at); j++ {
		r.at[j] -= cut
	}
	for f := range r.ends {
		r.ends[f] = append(r.ends[f][:i], r.ends[f][i+1:]...)
	}
}
