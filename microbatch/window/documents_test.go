package window_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/tuple"
	"github.com/deltad/deltad/microbatch/window"
)

// shapes is an index whose documents have a column of every shape, and one that
// is derived of others.
func shapes(t testing.TB) *index.Bound {
	t.Helper()
	field := func(name, fn string, over int, args ...string) index.FieldSpec {
		return index.FieldSpec{Name: name, Fn: fn, Args: args, Over: time.Duration(over) * time.Minute}
	}
	program, err := index.Compile(index.Spec{Key: []string{"k"}, DeleteWhen: "op", Fields: []index.FieldSpec{
		field("n", "count", 3, "*"), field("total", "sum", 4, "v"), field("spent", "sum", 3, "f"), {Name: "mean", Expr: "total / n"},
		field("last", "latest", 4, "s"), field("words", "set", 4, "s"), field("flag", "any_of", 2, "b"), field("heights", "top", 4, "v"),
		field("often", "counts", 3, "s"), {Name: "long", Expr: "last"},
	}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]column.Kind{"k": column.String, "v": column.Int64, "op": column.Bool, "f": column.Float64, "s": column.String, "b": column.Bool}
	var kinds []column.Type
	for _, c := range program.Columns() {
		kinds = append(kinds, column.Of(types[c.Path]))
	}
	bound, err := program.Bind(kinds)
	if err != nil {
		t.Fatal(err)
	}
	return bound
}

// emitted is a fold's documents, copied; keys and hashes are held to them.
func emitted(t testing.TB, hasher window.Hasher, hashing bool, fold func(emit func(window.Documents) error) error) (lines []string) {
	t.Helper()
	err := fold(func(d window.Documents) error {
		if len(d.Keys) != d.Docs.Len {
			t.Fatalf("%d keys of %d documents", len(d.Keys), d.Docs.Len)
		}
		for i, key := range d.Keys {
			if want := tuple.Append(nil, d.Docs.Columns[0], i); !bytes.Equal(key, want) {
				t.Fatalf("key %x of document %x", key, want)
			}
		}
		if len(d.Hashes) > 0 && !slices.Equal(d.Hashes, hasher.Append(nil, d.Docs.Columns[1:], d.Docs.Len)) {
			t.Fatalf("hashes %v are not those of the documents", d.Hashes)
		}
		if !hasher.Valid() && len(d.Hashes) > 0 || d.Docs.Len > 0 && hashing && len(d.Hashes) == 0 {
			t.Fatalf("hashes %v of %d documents", d.Hashes, d.Docs.Len)
		}
		out, err := pane(func(emit func(window.Documents) error) error { return emit(d) })
		lines = append(lines, out...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// tide is slices of keys that come and go by the minute.
type tide struct {
	t     testing.TB
	bound *index.Bound
	keys  int
	made  int64
	parts []window.Source
}

// newTide returns slices of minutes 0 to 5.
func newTide(t testing.TB, bound *index.Bound, keys int) *tide {
	t.Helper()
	x := &tide{t: t, bound: bound, keys: keys}
	for at := range 6 {
		x.event("next", at)
	}
	return x
}

func (x *tide) part(at, records int) window.Source {
	x.made++
	run := random(x.t, x.bound, minute(at), x.made, records, x.keys)
	return window.Source{ID: fmt.Sprint(at, "/", x.made), Start: minute(at), Run: run, All: true, Windowed: true}
}

// event is what happens in minute n: a slice comes, of many keys or a few, or one
// late in another's place, or one that only names keys, or the last vanishes.
func (x *tide) event(what string, n int) {
	switch what {
	case "next":
		x.parts = append(x.parts, x.part(n, x.keys))
	case "few":
		x.parts = append(x.parts, x.part(n, 3))
	case "late":
		x.parts[len(x.parts)-2] = x.part(n-2, x.keys/2)
	case "vanish":
		x.parts = x.parts[:len(x.parts)-1]
	case "names":
		s := x.part(n-1, 4)
		s.All, s.Windowed = false, false
		x.parts = append(x.parts, s)
	}
}

// sources are those of the six minutes up to n.
func (x *tide) sources(n int) (out []window.Source) {
	for _, s := range x.parts {
		if s.Start.After(minute(n - 6)) {
			out = append(out, s)
		}
	}
	return out
}

// TestKeptDocumentsAreThoseOfAFold: documents that are kept between runs are
// those that would be extracted, with keys and hashes, where there is room for
// them and where there is not; and they are kept, what changed is extracted
// alone.
func TestKeptDocumentsAreThoseOfAFold(t *testing.T) {
	bound := shapes(t)
	var fewer, refused int
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SampledFrom([]int{5, 60, 1100}).Draw(rt, "keys")
		o := window.RollingOptions{Budget: 1 << 30, Granule: time.Minute, Hasher: window.NewHasher()}
		if rapid.IntRange(0, 3).Draw(rt, "hashing") == 0 {
			o.Hasher = window.Hasher{}
		}
		tight := rapid.IntRange(0, 3).Draw(rt, "tight") == 0
		r := window.NewRolling(o)
		limited, parts := false, newTide(t, bound, keys)
		for n := 6; n < 14; n++ {
			parts.event(rapid.SampledFrom([]string{"next", "next", "few", "late", "vanish", "names"}).Draw(rt, "event"), n)
			sources := parts.sources(n)
			want := emitted(t, window.Hasher{}, false, func(emit func(window.Documents) error) error {
				return window.Fold(bound, sources, nil, minute(n), emit)
			})
			before := r.Extracted()
			got := emitted(t, o.Hasher, o.Hasher.Valid() && !limited, func(emit func(window.Documents) error) error {
				_, err := r.Fold(nil, bound, sources, nil, minute(n), nil, emit)
				return err
			})
			if !slices.Equal(got, want) {
				rt.Fatalf("minute %d:\n%s\nwant\n%s", n, got, want)
			}
			if n > 6 && r.Extracted()-before < int64(len(want)) {
				fewer++
			}
			if tight && n == 7 { // no room from here on
				r.Limit(r.Bytes() - 1)
				limited = true
				refused++
			}
		}
	})
	if fewer == 0 || refused == 0 {
		t.Errorf("%d folds extracted fewer documents than there are, %d had no room: the test is too tame", fewer, refused)
	}
}

// TestKeptDocumentsStayWithinTheBudget: where accumulators fit and documents do
// not, the window is kept without them.
func TestKeptDocumentsStayWithinTheBudget(t *testing.T) {
	bound := shapes(t)
	const keys = 4000
	var sources []window.Source
	for at := range 13 {
		sources = append(sources, window.Source{ID: fmt.Sprint(at), Start: minute(at), Run: random(t, bound, minute(at), int64(at), keys, keys), All: true, Windowed: true})
	}
	fold := func(r *window.Rolling, from, to int) window.Rolled {
		did, err := r.Fold(nil, bound, sources[from:to], nil, minute(to-1), nil, func(window.Documents) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return did
	}
	free := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute, Hasher: window.NewHasher()})
	fold(free, 0, 12)
	budget := free.Bytes() - free.DocumentBytes()
	fold(free, 1, 13)
	kept := free.DocumentBytes()
	if kept == 0 {
		t.Fatal("nothing is kept")
	}
	budget = max(budget, free.Bytes()-kept) + kept/2
	tight := window.NewRolling(window.RollingOptions{Budget: budget, Granule: time.Minute, Hasher: window.NewHasher()})
	fold(tight, 0, 12)
	if did := fold(tight, 1, 13); did.Complete {
		t.Error("the accumulators were let go as well")
	}
	if tight.DocumentBytes() != 0 || tight.Bytes() > budget {
		t.Errorf("%d bytes of documents, %d in all, of %d", tight.DocumentBytes(), tight.Bytes(), budget)
	}
}

// TestKeptTextsAreGivenBack: texts that were replaced do not stay.
func TestKeptTextsAreGivenBack(t *testing.T) {
	bound := shapes(t)
	const keys = 2000
	o := window.RollingOptions{Budget: 1 << 30, Granule: time.Minute, Hasher: window.NewHasher()}
	r := window.NewRolling(o)
	var most, rolled int64
	var sources []window.Source
	fold := func(r *window.Rolling, at int) bool {
		did, err := r.Fold(nil, bound, sources[at-12:], nil, minute(at), nil, func(window.Documents) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return !did.Complete
	}
	for at := range 60 {
		sources = append(sources, window.Source{ID: fmt.Sprint(at), Start: minute(at), Run: random(t, bound, minute(at), int64(at), keys, keys), All: true, Windowed: true})
		if at < 12 {
			continue
		}
		if fold(r, at) {
			rolled++
		}
		most = max(most, r.DocumentBytes())
	}
	anew := window.NewRolling(o)
	fold(anew, 59)
	if least := anew.DocumentBytes(); least == 0 || most > 3*least || rolled < 30 {
		t.Errorf("documents took up to %d bytes, %d at first, in %d folds", most, least, rolled)
	}
}

// TestStaleDocumentsAreNoticed: of the keys that the canary looks at, kept
// documents are held to the accumulators, and a fold after begins anew.
func TestStaleDocumentsAreNoticed(t *testing.T) {
	bound := shapes(t)
	var sources []window.Source
	for at := range 14 {
		n := 2000
		if at > 11 {
			n = 3
		}
		sources = append(sources, window.Source{ID: fmt.Sprint(at), Start: minute(at), Run: random(t, bound, minute(at), int64(at), n, 2000), All: true, Windowed: true})
	}
	for _, stones := range []bool{false, true} {
		r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute, Hasher: window.NewHasher()})
		fold := func(n int) error {
			_, err := r.Fold(nil, bound, sources[:n], nil, minute(12), window.NewSampler("run"), func(window.Documents) error { return nil })
			return err
		}
		for n := 12; n <= 13; n++ {
			if err := fold(n); err != nil {
				t.Fatal(err)
			}
		}
		r.Forge(stones)
		if err := fold(14); !errors.Is(err, window.ErrUnreadable) {
			t.Errorf("stones %t: got %v, want %v", stones, err, window.ErrUnreadable)
		}
		if n := r.Bytes(); n > 0 {
			t.Errorf("stones %t: %d bytes are kept of what was stale", stones, n)
		}
		if err := fold(14); err != nil { // of its own accord
			t.Error(err)
		}
	}
}

// TestAFailedEmitKeepsTheWindow: whoever takes the documents may fail; the next
// fold goes on, and its documents are those of a fold from nothing.
func TestAFailedEmitKeepsTheWindow(t *testing.T) {
	bound := most(t)
	r := window.NewRolling(window.RollingOptions{Budget: 1 << 30, Granule: time.Minute})
	var sources []window.Source
	for at := 1; at <= 12; at++ {
		sources = append(sources, one(t, bound, at, 3000, int64(at*37%20)))
	}
	foldsAlike(t, bound, r, &sources, func() {})
	full := errors.New("no space")
	for blocks := range 3 {
		sources = append(sources[1:], one(t, bound, 13+blocks, 3000, int64(blocks)))
		n := 0
		_, err := r.Fold(nil, bound, sources, nil, minute(12), nil, func(window.Documents) error {
			if n++; n > blocks {
				return full
			}
			return nil
		})
		if !errors.Is(err, full) || errors.Is(err, window.ErrUnreadable) {
			t.Fatalf("got %v, want %v", err, full)
		}
		if did, err := r.Fold(nil, bound, sources, nil, minute(12), nil, func(window.Documents) error { return nil }); err != nil || did.Complete {
			t.Fatalf("%+v, %v: want a fold that goes on", did, err)
		}
		foldsAlike(t, bound, r, &sources, func() {})
	}
}
