package window_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
)

// held is what somebody has of a pane: by key the text of its row.
type held map[string]string

func textOf(b *column.Batch, i int) (out string) {
	for _, v := range b.Columns {
		out += fmt.Sprintf(" %x", tuple.Append(nil, v, i))
	}
	return out
}

func (h held) take(d window.Documents) error {
	for i := range d.Docs.Len {
		h[string(tuple.Append(nil, d.Docs.Columns[0], i))] = "document" + textOf(d.Docs, i)
	}
	for i := range d.Tombstones.Len {
		h[string(tuple.Append(nil, d.Tombstones.Columns[0], i))] = "tombstone" + textOf(d.Tombstones, i)
	}
	return nil
}

// apply makes of an earlier pane the later one. Every change is to be one, and
// they are to be in order.
func (h held) apply(t rapid.TB, last []byte, hasher window.Hasher, c window.Changes) []byte {
	t.Helper()
	var hashes []window.Hash
	if c.Docs.Len > 0 {
		hashes = hasher.Append(nil, c.Docs.Columns[1:], c.Docs.Len)
	}
	for i, key := range c.Keys {
		if last != nil && bytes.Compare(last, key) >= 0 {
			t.Fatalf("key %x comes after %x", key, last)
		}
		last = bytes.Clone(key)
		was, there := h[string(key)]
		kind := window.NoRow
		switch {
		case there && was[0] == 'd':
			kind = window.DocumentRow
		case there:
			kind = window.TombstoneRow
		}
		if kind != c.Was[i] {
			t.Fatalf("key %x was %d, is said to have been %d", key, kind, c.Was[i])
		}
		is := ""
		switch c.Is[i] {
		case window.NoRow:
		case window.DocumentRow:
			is = "document" + textOf(c.Docs, int(c.At[i]))
			if c.Hashes[i] != hashes[c.At[i]] {
				t.Fatalf("key %x: a hash of another document", key)
			}
		case window.TombstoneRow:
			is = "tombstone" + textOf(c.Tombstones, int(c.At[i]))
		}
		if is == was {
			t.Fatalf("key %x: %q is no change", key, is)
		}
		if h[string(key)] = is; is == "" {
			delete(h, string(key))
		}
	}
	return last
}

// TestChangesMakeOnePaneOfAnother: what is told of the rows of an earlier
// emission makes them those of a fold from nothing, whatever came, left, died
// and returned between, with room for documents and without, with emissions
// that failed or were for others between; and a receiver of changes alone is
// shown nothing else.
func TestChangesMakeOnePaneOfAnother(t *testing.T) {
	bound := shapes(t)
	full := errors.New("no space")
	var told, alone, untold, bare int
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SampledFrom([]int{5, 60, 60, 1500}).Draw(rt, "keys")
		o := window.RollingOptions{Budget: 1 << 30, Granule: time.Minute, Hasher: window.NewHasher()}
		r := window.NewRolling(o)
		parts := newTide(t, bound, keys)
		have, since := held{}, (*window.Mark)(nil)
		for n := 6; n < 16; n++ {
			parts.event(rapid.SampledFrom([]string{"next", "few", "few", "few", "late", "vanish", "names", "nothing"}).Draw(rt, "event"), n)
			sources := parts.sources(n)
			want := held{}
			if err := window.Fold(bound, sources, nil, minute(n), want.take); err != nil {
				rt.Fatal(err)
			}
			fold := func(to window.Receiver) (window.Rolled, error) {
				return r.FoldInto(nil, bound, sources, nil, minute(n), window.NewSampler(fmt.Sprint(n)), to)
			}
			switch rapid.IntRange(0, 9).Draw(rt, "before") {
			case 0: // somebody else takes the rows
				if _, err := fold(window.Receiver{Rows: held{}.take}); err != nil {
					rt.Fatal(err)
				}
			case 1: // or does not get far
				n, most := 0, rapid.IntRange(0, 2).Draw(rt, "blocks")
				fail := func() error {
					if n++; n > most {
						return full
					}
					return nil
				}
				to := window.Receiver{Rows: func(window.Documents) error { return fail() }, Since: since, Changes: func(window.Changes) error { return fail() }}
				to.Alone = rapid.Bool().Draw(rt, "alone before")
				if _, err := fold(to); err != nil && (!errors.Is(err, full) || errors.Is(err, window.ErrUnreadable)) {
					rt.Fatal(err)
				}
			case 2: // what is kept of documents is too much from here on
				r.Limit(r.Bytes() - 1)
			case 3:
				r.Limit(1 << 30)
			}
			rows, was, calls, last := held{}, maps.Clone(have), 0, []byte(nil)
			to := window.Receiver{Rows: rows.take, Since: since, Alone: rapid.Bool().Draw(rt, "alone")}
			to.Changes = func(c window.Changes) error {
				if calls++; calls == 1 && len(rows)+len(c.Keys) > 0 {
					rt.Fatal("the first call comes with changes, or after rows")
				}
				last = was.apply(rt, last, o.Hasher, c)
				return nil
			}
			did, err := fold(to)
			if err != nil {
				rt.Fatal(err)
			}
			if did.Told != (calls > 0) {
				rt.Fatalf("%+v after %d calls", did, calls)
			}
			if did.Told {
				told++
				if !maps.Equal(was, want) {
					rt.Fatalf("minute %d: changes make\n%v\nwant\n%v", n, was, want)
				}
				if did.Documents+did.Tombstones != int64(len(want)) {
					rt.Fatalf("minute %d: %+v, want %d rows", n, did, len(want))
				}
			} else {
				untold++
			}
			if did.Told && to.Alone {
				alone++
				if len(rows) > 0 {
					rt.Fatalf("minute %d: %d rows for one who wants changes alone", n, len(rows))
				}
			} else if !maps.Equal(rows, want) {
				rt.Fatalf("minute %d:\n%v\nwant\n%v", n, rows, want)
			}
			if did.Mark == nil {
				bare++
			}
			have, since = want, did.Mark
		}
	})
	if told == 0 || alone == 0 || untold == 0 || bare == 0 {
		t.Errorf("%d times told, %d of them alone, %d not, %d without a mark: the test is too tame", told, alone, untold, bare)
	}
}

// TestAnotherMarkTellsNothing: a mark is of one emission of one window.
func TestAnotherMarkTellsNothing(t *testing.T) {
	bound := shapes(t)
	o := window.RollingOptions{Budget: 1 << 30, Granule: time.Minute, Hasher: window.NewHasher()}
	var sources []window.Source
	for at := range 12 {
		sources = append(sources, window.Source{ID: fmt.Sprint(at), Start: minute(at), Run: random(t, bound, minute(at), int64(at), 200, 200), All: true, Windowed: true})
	}
	fold := func(r *window.Rolling, since *window.Mark) window.Rolled {
		t.Helper()
		ignore := func(window.Documents) error { return nil }
		did, err := r.FoldInto(nil, bound, sources, nil, minute(11), nil, window.Receiver{Rows: ignore, Since: since, Changes: func(window.Changes) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		return did
	}
	r := window.NewRolling(o)
	first := fold(r, nil)
	second := fold(r, nil)
	if first.Mark == nil || second.Mark == nil || first.Mark == second.Mark {
		t.Fatalf("marks %p and %p", first.Mark, second.Mark)
	}
	for name, tc := range map[string]struct {
		since *window.Mark
		told  bool
	}{"none": {nil, false}, "an earlier one": {first.Mark, false}, "of another window": {fold(window.NewRolling(o), nil).Mark, false}} {
		if did := fold(r, tc.since); did.Told != tc.told {
			t.Errorf("%s: %+v", name, did)
		}
	}
	if did := fold(r, fold(r, nil).Mark); !did.Told || did.Documents+did.Tombstones != int64(r.Keys()) {
		t.Errorf("the last one: %+v of %d keys", did, r.Keys())
	}
	mark := fold(r, nil).Mark
	r.Drop()
	if did := fold(r, mark); did.Told {
		t.Errorf("after the window was let go: %+v", did)
	}
}
