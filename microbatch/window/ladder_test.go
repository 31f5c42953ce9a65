package window

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/combine"
)

// held is an accumulator that a brute-force ladder has.
type held struct {
	slot int64
	acc  string
}

// best is the winner of a list.
func best(list []held, s combine.Selector) []byte {
	var out []byte
	for _, h := range list {
		if out == nil || s.Prefer([]byte(h.acc), out) < 0 {
			out = []byte(h.acc)
		}
	}
	return out
}

// forward prefers the least bytes, and does not say that it goes by bytes.
type forward struct{ combine.Selector }

func (forward) Prefer(a, b []byte) int { return bytes.Compare(a, b) }

// byBytes says so.
type byBytes struct {
	forward
	greatest bool
}

func (b byBytes) Prefer(x, y []byte) int {
	if b.greatest {
		x, y = y, x
	}
	return bytes.Compare(x, y)
}

func (b byBytes) Bytewise() bool { return b.greatest }

// TestLadderIsAList: whatever enters, in whatever order of slots, and whatever
// leaves, the first rung is the least of all that is there, or the ladder says
// that it does not know. What it is told about newest and oldest is true.
func TestLadderIsAList(t *testing.T) {
	anew, rolled, cut, long := 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SampledFrom([]int{2, 9, 60}).Draw(rt, "values")
		selector := rapid.SampledFrom([]combine.Selector{forward{}, byBytes{}, byBytes{greatest: true}}).Draw(rt, "selector")
		l := newLadder(selector)
		least := func(list []held) []byte { return best(list, selector) }
		// Some accumulators are short, some differ beyond what a rung has of them.
		value := func() string {
			n := rapid.IntRange(0, values).Draw(rt, "value")
			form := rapid.SampledFrom([]string{"%03d", "%03d", "1234567%02d", "12345678%03d", "123456789012345%03d", "%03d with more"}).Draw(rt, "form")
			return fmt.Sprintf(form, n)
		}
		worse := 0 // how often a value was asked for that is worse than those before
		worsening := func() string {
			worse++
			if selector == (byBytes{greatest: true}) {
				return fmt.Sprintf("%05d", 90000-worse)
			}
			return fmt.Sprintf("%05d", worse)
		}
		groups := rapid.IntRange(1, 3).Draw(rt, "groups")
		l.grow(groups)
		lists := make([][]held, groups)
		now := rapid.Int64Range(-20, 20).Draw(rt, "now")
		falling := rapid.Bool().Draw(rt, "falling") // a ladder then grows with every value
		check := func(g int, what string) {
			if got, want := l.winner(uint32(g)), least(lists[g]); !bytes.Equal(got, want) {
				rt.Fatalf("%s: group %d has %q, want %q of %v; %v", what, g, got, want, lists[g], l.of(uint32(g)))
			}
		}
		for range rapid.IntRange(1, 1500).Draw(rt, "steps") {
			g := rapid.IntRange(0, groups-1).Draw(rt, "group")
			last := int64(-1 << 40)
			for _, list := range lists {
				for _, h := range list {
					last = max(last, h.slot)
				}
			}
			switch rapid.SampledFrom([]string{"next", "next", "next", "same", "late", "slide", "slide", "vanish", "replace", "replace", "fold", "clear"}).Draw(rt, "event") {
			case "next", "same", "late":
				slot := now
				switch rapid.SampledFrom([]int{0, 1, 2}).Draw(rt, "slot") {
				case 0:
					now++
					slot = now
				case 1:
					slot -= rapid.Int64Range(0, 12).Draw(rt, "back")
				}
				h := held{slot, ""}
				if falling {
					h.acc = worsening()
				} else {
					h.acc = value()
				}
				before := least(lists[g])
				lists[g] = append(lists[g], h)
				if changed := l.push(uint32(g), slot, []byte(h.acc), slot >= last); !changed && !bytes.Equal(before, least(lists[g])) {
					rt.Fatalf("push of %v changed the winner of %v unsaid", h, lists[g])
				}
				check(g, "push")
			case "slide":
				// The oldest slot leaves every group.
				oldest := int64(1 << 40)
				for _, list := range lists {
					for _, h := range list {
						oldest = min(oldest, h.slot)
					}
				}
				for g := range lists {
					whole := true
					for _, h := range lists[g] {
						if h.slot == oldest && whole {
							before := bytes.Clone(l.winner(uint32(g)))
							var changed bool
							if whole, changed = l.drop(uint32(g), oldest, []byte(h.acc), true); whole && !changed && !bytes.Equal(before, l.winner(uint32(g))) {
								rt.Fatalf("drop of %v changed the winner unsaid", h)
							}
						}
					}
					lists[g] = slices.DeleteFunc(lists[g], func(h held) bool { return h.slot == oldest })
					if !whole {
						anew++
						l.set(uint32(g), least(lists[g]))
					} else {
						rolled++
					}
					check(g, "slide")
				}
			case "vanish":
				if len(lists[g]) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(lists[g])-1).Draw(rt, "which")
				h := lists[g][i]
				lists[g] = slices.Delete(lists[g], i, i+1)
				if whole, _ := l.drop(uint32(g), h.slot, []byte(h.acc), false); !whole {
					anew++
					l.set(uint32(g), least(lists[g]))
				}
				check(g, "vanish")
			case "replace":
				// A partition that an object was added to: what enters comes first.
				if len(lists[g]) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(lists[g])-1).Draw(rt, "which")
				was, is := lists[g][i], held{lists[g][i].slot, value()}
				l.push(uint32(g), is.slot, []byte(is.acc), is.slot >= last)
				lists[g] = append(lists[g], is)
				check(g, "enter")
				lists[g] = slices.Delete(lists[g], i, i+1)
				if whole, _ := l.drop(uint32(g), was.slot, []byte(was.acc), false); !whole {
					anew++
					l.set(uint32(g), least(lists[g]))
				}
				check(g, "replace")
			case "fold":
				l.set(uint32(g), least(lists[g]))
				check(g, "fold")
			case "clear":
				l.clear(uint32(g))
				lists[g] = nil
			}
			if l.cut[g] {
				cut++
			}
			if l.n[g] > rungs {
				long++
			}
			if rapid.IntRange(0, 9).Draw(rt, "compact") == 0 {
				l.compact()
			}
		}
	})
	if anew == 0 || rolled == 0 || cut == 0 || long == 0 {
		t.Errorf("%d folded anew, %d rolled, %d cut, %d long: the test is too tame", anew, rolled, cut, long)
	}
}

// TestLaddersOfManyPartitionsRoll: a key that every partition of an hour or of a
// day has, with values of chance, is not folded anew, however long its window
// moves on.
func TestLaddersOfManyPartitionsRoll(t *testing.T) {
	for _, c := range []struct{ width, keys, moves int }{{60, 200, 300}, {1440, 40, 1500}} {
		l := newLadder(forward{})
		l.grow(c.keys)
		rng := rand.New(rand.NewPCG(1, 2))
		values := make([][]string, c.keys) // by key and slot
		anew := 0
		for slot := range c.width + c.moves {
			for g := range values {
				values[g] = append(values[g], fmt.Sprintf("%07d", rng.IntN(1e7)))
				l.push(uint32(g), int64(slot), []byte(values[g][slot]), true)
				was := slot - c.width
				if was < 0 {
					continue
				}
				whole, changed := l.drop(uint32(g), int64(was), []byte(values[g][was]), true)
				if whole && !changed {
					continue
				}
				least := slices.Min(values[g][was+1:])
				if !whole {
					anew++
					l.set(uint32(g), []byte(least))
				}
				if got := string(l.winner(uint32(g))); got != least {
					t.Fatalf("key %d at %d: %s is the least, want %s", g, slot, got, least)
				}
			}
		}
		if anew > 0 {
			t.Errorf("%d of %d values that left %d keys of %d partitions had a key folded anew", anew, c.keys*c.moves, c.keys, c.width)
		}
	}
}

// TestARungReachesBeyondFourGigabytes: a window's accumulators may take more.
func TestARungReachesBeyondFourGigabytes(t *testing.T) {
	for _, off := range []int{0, 1, 1<<32 - 1, 1 << 32, 100 << 30} {
		for _, size := range []int{short + 1, 1 << 25} { // the most that a run has
			if r := rungOf(-7, make([]byte, size), off); r.off() != off || r.size() != size || r.slot != -7 {
				t.Errorf("%d bytes at %d are %d at %d", size, off, r.size(), r.off())
			}
		}
	}
}
