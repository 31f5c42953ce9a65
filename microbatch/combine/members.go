package combine

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/deltad/deltad/microbatch/tuple/intern"
)

// members gives each group a set of byte strings. All groups share one table,
// and every (group, string) pair has a dense id, so that what hangs on a
// member can live in columns of its own.
type members struct {
	ids  *intern.Set // group as four bytes, then the string
	next []uint32    // of each id: the id before it in its group, plus one
	head []uint32    // of each group: its last id, plus one
	n    []uint32    // of each group: members
	key  []byte
	list []uint32
}

func newMembers() members { return members{ids: intern.New()} }

func (m *members) Len() int { return len(m.head) }

func (m *members) Grow(n int) { m.head, m.n = grow(m.head, n), grow(m.n, n) }

func (m *members) Reset() {
	m.ids.Reset()
	m.next, m.head, m.n = m.next[:0], m.head[:0], m.n[:0]
}

func (m *members) Bytes() int64 {
	return m.ids.Size() + int64(4*(cap(m.next)+cap(m.head)+cap(m.n)+cap(m.list))+cap(m.key))
}

// begin starts the key of a member of g; the caller appends the string and
// passes the result to put.
func (m *members) begin(g uint32) []byte {
	return binary.BigEndian.AppendUint32(m.key[:0], g)
}

// put adds the member whose key begin started.
func (m *members) put(g uint32, key []byte) (id uint32, added bool) {
	m.key = key
	id, added = m.ids.ID(key)
	if added {
		m.next = append(m.next, m.head[g])
		m.head[g] = id + 1
		m.n[g]++
	}
	return id, added
}

// member returns the string of an id.
func (m *members) member(id uint32) []byte { return m.ids.Bytes(id)[4:] }

// sorted returns the ids of g's members in the order of their bytes, valid
// until the next call.
func (m *members) sorted(g uint32) []uint32 {
	m.list = m.list[:0]
	for at := m.head[g]; at != 0; at = m.next[at-1] {
		m.list = append(m.list, at-1)
	}
	slices.SortFunc(m.list, func(a, b uint32) int { return bytes.Compare(m.member(a), m.member(b)) })
	return m.list
}
