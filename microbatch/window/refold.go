package window

import (
	"bytes"
	"fmt"

	"github.com/deltad/deltad/microbatch/table"
)

// refolds are the keys and fns that are to be folded anew.
type refolds struct {
	groups []uint32  // in key order
	need   [][]int32 // by fn: which of groups, ascending
	n      int64
}

// refold folds anew what is due. Fns that are fed by the same sources are
// folded in one pass over one cover.
func (r *Rolling) refold(ended func() error, due *refolds, base *Base) error {
	if due.n == 0 {
		return nil
	}
	r.cover.noRoom = false
	list := r.held.list
	classes := map[string][]int{}
	var names []string
	for k, j := range r.cover.columns {
		if len(due.need[j]) == 0 {
			continue
		}
		name := make([]byte, len(list))
		for i, s := range list {
			if s.inside[j] {
				name[i] = 1
			}
		}
		if classes[string(name)] == nil {
			names = append(names, string(name))
		}
		classes[string(name)] = append(classes[string(name)], k)
	}
	for _, name := range names {
		var leaves []part
		for i, s := range list {
			if name[i] == 1 {
				leaves = append(leaves, r.part(s.Source))
			}
		}
		if err := r.refoldClass(ended, leaves, classes[name], due, base); err != nil {
			return err
		}
	}
	return nil
}

// lookups is how many keys may be looked up in slices, each in each, before it
// pays to merge the slices into nodes: a lookup reads half a block.
const lookups = 1 << 13

// refoldClass folds anew what is due of the fns, given by their places in the
// tree's shape, which the leaves feed.
func (r *Rolling) refoldClass(ended func() error, leaves []part, fns []int, due *refolds, base *Base) error {
	total := 0
	for _, k := range fns {
		total += len(due.need[r.cover.columns[k]])
	}
	cursors, err := r.cover.over(leaves, total*len(leaves) <= r.lookups)
	if err != nil {
		return err
	}
	under, over := newUnderlay(base), make([]*reached, len(cursors))
	for i, c := range cursors {
		over[i] = &reached{cursor: c.(seeker)}
	}
	at := make([]int, len(fns)) // how much of need is done
	for n := 0; ; n++ {
		if n%foldBlock == 0 {
			if err := ended(); err != nil {
				return err
			}
		}
		next := int32(len(due.groups))
		for i, k := range fns {
			if need := due.need[r.cover.columns[k]]; at[i] < len(need) {
				next = min(next, need[at[i]])
			}
		}
		if int(next) == len(due.groups) {
			return nil
		}
		g := due.groups[next]
		key := r.keys.Bytes(g)
		var these []int
		for i, k := range fns {
			if need := due.need[r.cover.columns[k]]; at[i] < len(need) && need[at[i]] == next {
				these = append(these, k)
				at[i]++
			}
		}
		if err := r.refoldKey(g, key, these, under, over); err != nil {
			return fmt.Errorf("fold key %x anew: %w", key, err)
		}
	}
}

// refoldKey folds these fns of one key.
func (r *Rolling) refoldKey(g uint32, key []byte, fns []int, under *underlay, over []*reached) error {
	there := false
	if r.based[g] {
		var err error
		if there, err = under.seek(key); err != nil {
			return err
		}
	}
	for _, k := range fns {
		j := r.cover.columns[k]
		r.cells[j].renew(g)
		if there {
			if err := r.cells[j].merge(g, under.acc(j)); err != nil {
				return err
			}
		}
	}
	for _, c := range over {
		ok, err := c.seek(key)
		if err != nil {
			return err
		}
		for _, k := range fns {
			if !ok {
				break
			}
			if err := r.cells[r.cover.columns[k]].merge(g, c.cursor.Acc(k)); err != nil {
				return err
			}
		}
	}
	for _, k := range fns {
		r.cells[r.cover.columns[k]].settle(g)
	}
	return nil
}

// seeker is a cursor that can be moved.
type seeker interface {
	table.Cursor
	Seek(key []byte)
}

// reached is a cursor that is asked for ascending keys.
type reached struct {
	cursor seeker
	on     bool // it stands on a row, whose key is not below the last one asked for
	done   bool
}

// seek says whether the cursor has the key, and stands there if so.
func (c *reached) seek(key []byte) (bool, error) {
	if c.done {
		return false, nil
	}
	if !c.on || bytes.Compare(c.cursor.Key(), key) < 0 {
		c.cursor.Seek(key)
		c.on = c.cursor.Next()
		c.done = !c.on
		if err := c.cursor.Err(); err != nil {
			return false, err
		}
	}
	return c.on && bytes.Equal(c.cursor.Key(), key), nil
}

// underlay is the base under a window, asked for ascending keys.
type underlay struct {
	base *Base
	at   reached
}

func newUnderlay(base *Base) *underlay {
	u := &underlay{base: base}
	if base != nil {
		u.at.cursor = base.Run.Cursor()
	}
	return u
}

// seek says whether the base has the key.
func (u *underlay) seek(key []byte) (bool, error) {
	if u.base == nil {
		return false, nil
	}
	ok, err := u.at.seek(key)
	if err != nil {
		return false, fmt.Errorf("read the base's accumulators: %w", err)
	}
	return ok, nil
}

// acc is what the base has of fn j for the key found.
func (u *underlay) acc(j int) []byte {
	at := u.base.Join.At[j]
	if at < 0 {
		return nil
	}
	return u.at.cursor.Acc(at)
}
