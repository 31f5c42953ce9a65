package microbatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
)

// digestsOf are the digests of documents, given by what they say of each key,
// counted against those before. They are shown as a fold has them, or as they
// are read back.
func digestsOf(t *testing.T, p *Pipeline, pane map[string]int64, before *spool.Data, folded, hashed bool) (*digester, *spool.Data) {
	t.Helper()
	d, err := p.newDigester(1, before)
	if err != nil {
		t.Fatal(err)
	}
	keys := slices.Sorted(maps.Keys(pane))
	for len(keys) > 0 {
		n := min(len(keys), 1000)
		b := column.NewBatch([]column.Field{{Name: "k", Type: column.Of(column.String), Key: true}, {Name: "v", Type: column.Of(column.Int64)}})
		out := window.Documents{Docs: b}
		for _, k := range keys[:n] {
			b.Columns[0].AppendString(k)
			b.Columns[1].AppendInt(pane[k])
			b.Len++
			out.Keys = append(out.Keys, tuple.AppendString(nil, k))
		}
		keys = keys[n:]
		if hashed {
			out.Hashes = p.digests.hasher.Append(nil, b.Columns[1:], b.Len)
		}
		if folded {
			err = d.documents(out)
		} else {
			err = d.add(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	log, err := d.finish()
	if err != nil {
		t.Fatal(err)
	}
	return d, log
}

// TestDigestsCount: documents of a pane are new, changed, the same or gone as
// their keys and values say, in whatever way they came and however many there
// are.
func TestDigestsCount(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := &Pipeline{digests: digests{hasher: window.NewHasher()}}
		p.set.TempDir, p.set.Memory = t.TempDir(), spool.NewBudget(rapid.SampledFrom([]int64{0, 1 << 30}).Draw(rt, "memory"))
		most := rapid.SampledFrom([]int{0, 3, 9000}).Draw(rt, "keys")
		pad := strings.Repeat("x", rapid.SampledFrom([]int{0, 0, 300}).Draw(rt, "key bytes"))
		var was map[string]int64
		var log *spool.Data
		for range 4 {
			pane := map[string]int64{}
			seed := rapid.Uint64().Draw(rt, "seed")
			for k := range most {
				seed = seed*6364136223846793005 + 1442695040888963407
				if x := seed >> 40; x%5 > 0 {
					pane[fmt.Sprint(k, pad)] = int64(x % 3)
				}
			}
			d, next := digestsOf(t, p, pane, log, rapid.Bool().Draw(rt, "folded"), rapid.Bool().Draw(rt, "hashed"))
			var added, changed, left int64
			for k, v := range pane {
				if before, ok := was[k]; !ok {
					added++
				} else if before != v {
					changed++
				}
			}
			for k := range was {
				if _, ok := pane[k]; !ok {
					left++
				}
			}
			if d.counts.added != added || d.counts.changed != changed || d.counts.left != left {
				rt.Fatalf("%d new, %d changed, %d left; want %d, %d, %d", d.counts.added, d.counts.changed, d.counts.left, added, changed, left)
			}
			was, log = pane, next
		}
	})
}

// TestDigestsAreNotBelieved: a log that does not hold together is an error, not
// a count or a crash.
func TestDigestsAreNotBelieved(t *testing.T) {
	p := &Pipeline{digests: digests{hasher: window.NewHasher()}}
	p.set.Memory = spool.NewBudget(1 << 20)
	_, log := digestsOf(t, p, map[string]int64{"a": 1, "b": 2, "c": 3}, nil, false, false)
	whole := make([]byte, log.Size())
	if _, err := log.Section().ReadAt(whole, 0); err != nil {
		t.Fatal(err)
	}
	walk := func(b []byte) (n int, err error) {
		s := spool.New("", nil)
		if _, err := s.Write(b); err != nil {
			t.Fatal(err)
		}
		data, err := s.Seal()
		if err != nil {
			t.Fatal(err)
		}
		r, err := readDigests(data)
		for ; err == nil && r.ok; err = r.next() {
			n++
		}
		return n, err
	}
	if n, err := walk(whole); n != 3 || err != nil {
		t.Fatalf("%d documents, %v", n, err)
	}
	for cut := 1; cut < len(whole); cut++ {
		if n, err := walk(whole[:cut]); err == nil {
			t.Errorf("%d of %d bytes: %d documents and no error", cut, len(whole), n)
		}
	}
	for at := range digestHead + 4*3 { // counts, lengths and ends
		for _, x := range []byte{0x01, 0x80, 0xff} {
			broken := slices.Clone(whole)
			broken[at] ^= x
			if n, err := walk(broken); err == nil && n != 3 {
				t.Errorf("byte %d: %d documents and no error", at, n)
			}
		}
	}
}
