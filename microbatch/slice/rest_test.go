package slice

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
)

// atRest is a slice's resting form.
func atRest(t rapid.TB, s *Slice, at ID) []byte {
	t.Helper()
	body, err := s.AtRest(at)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(body)
	if err != nil || int64(len(b)) != body.Size() {
		t.Fatalf("read %d of %d bytes: %v", len(b), body.Size(), err)
	}
	for _, from := range []int64{0, 1, int64(len(b)) - 1} {
		if _, err := body.Seek(from, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		var written bytes.Buffer
		if n, err := body.WriteTo(&written); err != nil || n != int64(written.Len()) || !bytes.Equal(written.Bytes(), b[from:]) {
			t.Fatalf("wrote %d of %d bytes from %d: %v", n, len(b), from, err)
		}
		if n, err := body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("%d bytes are left, %v", n, err)
		}
	}
	return b
}

func smallSlice(t testing.TB) (*Slice, ID) {
	t.Helper()
	x := &texts{bodies: map[string]string{"0": `{"k":"x","n":1,"s":"a"}` + "\n" + `{"k":"y","n":2.5,"s":"b"}` + "\n"}}
	b := x.slicer(t, scan.NDJSON, scan.Fail)
	s, err := b.Build(t.Context(), x.input(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, AddressOf(b.Recipe(), x.input())
}

// TestEveryDamageOfASliceIsFound: each truncation, each flipped bit and each
// byte too many of a slice at rest is damage, and never another slice.
func TestEveryDamageOfASliceIsFound(t *testing.T) {
	s, at := smallSlice(t)
	whole := atRest(t, s, at)
	if got, err := ReadRest(bytes.NewReader(whole), int64(len(whole)), at, "", nil); err != nil || !bytes.Equal(atRest(t, got, at), whole) {
		t.Fatalf("read back: %v", err)
	}
	damaged := func(what string, n int, b []byte) {
		t.Helper()
		if _, err := ReadRest(bytes.NewReader(b), int64(len(b)), at, "", nil); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%s at %d of %d: %v, want damage", what, n, len(whole), err)
		}
	}
	for n := range whole {
		damaged("truncated", n, whole[:n])
		for bit := range 8 {
			flipped := bytes.Clone(whole)
			flipped[n] ^= 1 << bit
			damaged("bit flipped", n, flipped)
		}
	}
	damaged("a byte too many", len(whole), append(bytes.Clone(whole), 0))
	damaged("twice", len(whole), append(bytes.Clone(whole), whole...))
	other := at
	other[0]++
	if _, err := ReadRest(bytes.NewReader(whole), int64(len(whole)), other, "", nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("a slice of another address: %v, want damage", err)
	}
	if _, err := ReadRest(bytes.NewReader(whole), int64(len(whole))+9, at, "", nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("fewer bytes than were said: %v, want damage", err)
	}
}

// TestOutageIsNoDamage: a slice that could not be read is not one that is
// damaged, or it would be deleted.
func TestOutageIsNoDamage(t *testing.T) {
	s, at := smallSlice(t)
	whole := atRest(t, s, at)
	for n := range whole {
		broken := io.MultiReader(bytes.NewReader(whole[:n]), iotest.ErrReader(io.ErrClosedPipe))
		if _, err := ReadRest(broken, int64(len(whole)), at, "", nil); err == nil || errors.Is(err, ErrDamaged) || !errors.Is(err, io.ErrClosedPipe) {
			t.Fatalf("broken at %d: %v, want the reader's error", n, err)
		}
	}
	if _, err := ReadRest(bytes.NewReader(whole), int64(len(whole)), at, "/nowhere/at/all", spool.NewBudget(0)); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("no room for the run: %v, want the spool's error", err)
	}
}

// TestSliceAtRestIsTheSlice: whatever was built comes back, but for the texts
// of rejected rows.
func TestSliceAtRestIsTheSlice(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		format := rapid.SampledFrom([]scan.Format{scan.NDJSON, scan.CSV}).Draw(rt, "format")
		x := randomTexts(rt, format)
		b := x.slicer(t, format, scan.Reject)
		built, err := b.Build(t.Context(), x.input(), nil)
		if err != nil {
			return // which other tests are about
		}
		at := AddressOf(b.Recipe(), x.input())
		whole := atRest(rt, built, at)
		got, err := ReadRest(bytes.NewReader(whole), int64(len(whole)), at, "", nil)
		if err != nil {
			rt.Fatal(err)
		}
		if !bytes.Equal(runOf(rt, got), runOf(rt, built)) {
			rt.Fatal("another run")
		}
		if check := (checker{builder: &b}); !check.serves(got, x.input()) {
			rt.Fatal("it does not serve")
		}
		built.Run, got.Run, built.Rejects, built.Told = nil, nil, nil, true
		got.opened.Store(nil) // by check
		if !reflect.DeepEqual(built, got) {
			rt.Fatalf("built %+v\ngot   %+v", built, got)
		}
	})
}

// TestAddressTellsRecipesApart: what makes another slice of the same objects
// makes another address.
func TestAddressTellsRecipesApart(t *testing.T) {
	x := &texts{bodies: map[string]string{"0": "{}\n"}}
	b := x.slicer(t, scan.NDJSON, scan.Fail)
	seen := map[string]string{b.Recipe(): "the first"}
	for name, other := range map[string]Builder{
		"rows that are rejected": x.slicer(t, scan.NDJSON, scan.Reject), "another format": x.slicer(t, scan.CSV, scan.Fail),
	} {
		if was, ok := seen[other.Recipe()]; ok {
			t.Errorf("%s: the recipe of %s", name, was)
		}
		seen[other.Recipe()] = name
	}
	in := x.input()
	at := AddressOf(b.Recipe(), in)
	later, replaced := in, x.input()
	later.Start = later.Start.Add(1)
	replaced.Objects[0].ETag = "other"
	for name, other := range map[string]ID{"another partition": AddressOf(b.Recipe(), later), "a replaced object": AddressOf(b.Recipe(), replaced), "another recipe": AddressOf("x", in)} {
		if other == at {
			t.Errorf("%s has the same address", name)
		}
	}
}

// everyFn is an index with every fn that deltad brings.
func everyFn() index.Spec {
	type params = map[string]any
	spec := index.Spec{Key: []string{"k", "i"}, EventTime: index.EventTime{Column: "ts"}, DeleteWhen: "b", Fields: []index.FieldSpec{
		{Fn: "count", Args: []string{"*"}}, {Fn: "sum", Args: []string{"i"}}, {Fn: "sum", Args: []string{"f"}}, {Fn: "mean", Args: []string{"f"}},
		{Fn: "variance", Args: []string{"f"}}, {Fn: "stddev", Args: []string{"i"}}, {Fn: "covariance", Args: []string{"f", "g"}},
		{Fn: "all_of", Args: []string{"b"}}, {Fn: "any_of", Args: []string{"b"}}, {Fn: "min", Args: []string{"f"}}, {Fn: "max", Args: []string{"s"}},
		{Fn: "any", Args: []string{"i"}}, {Fn: "latest", Args: []string{"s"}}, {Fn: "earliest", Args: []string{"f"}, Params: params{"nulls": "keep"}},
		{Fn: "arg_min", Args: []string{"s", "i"}}, {Fn: "arg_max", Args: []string{"s", "f"}}, {Fn: "newest", Args: []string{"s"}, Params: params{"n": 3}},
		{Fn: "top", Args: []string{"s", "f"}, Params: params{"n": 2}}, {Fn: "counts", Args: []string{"s"}, Params: params{"cap": 9}}, {Fn: "mode", Args: []string{"i"}},
		{Fn: "median_exact", Args: []string{"i"}}, {Fn: "set", Args: []string{"s"}, Params: params{"cap": 3}}, {Fn: "distinct_exact", Args: []string{"f"}},
		{Fn: "collect", Args: []string{"s"}, Fields: []index.FieldSpec{{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "f", Fn: "latest", Args: []string{"f"}}}},
		{Fn: "distinct", Args: []string{"s"}}, {Fn: "theta", Args: []string{"f"}}, {Fn: "quantile", Args: []string{"f"}, Params: params{"q": 0.9}},
		{Fn: "median", Args: []string{"g"}}, {Fn: "histogram", Args: []string{"f"}, Params: params{"relative_error": 0.05}},
		{Fn: "bloom", Args: []string{"s"}, Params: params{"expected": 100, "fpp": 0.01}}, {Fn: "bitmap", Args: []string{"u"}},
	}}
	for i := range spec.Fields {
		spec.Fields[i].Name = fmt.Sprint(spec.Fields[i].Fn, i)
	}
	return spec
}

// TestCodecVersion: the run of one fixture at this version of the codec, with
// the accumulators of every fn. Where it fails, slices that were kept would be
// taken for what they are not: raise codecVersion, and write the new hash here.
func TestCodecVersion(t *testing.T) {
	spec := everyFn()
	fns := combine.Builtins()
	for _, f := range spec.Fields {
		delete(fns, f.Fn)
	}
	if len(fns) > 0 {
		t.Errorf("the fixture lacks %v", slices.Sorted(maps.Keys(fns)))
	}
	program, err := index.Compile(spec, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	x := &texts{bodies: map[string]string{}}
	var body strings.Builder
	for n := range 500 {
		fmt.Fprintf(&body, `{"k":"key-%d","i":%d,"f":%g,"g":%g,"s":"s%d","b":%t,"u":%d,"ts":"2026-11-30T03:00:%02dZ"}`+"\n",
			n%7, n%5-2, float64(n*n)/7-1000, float64(n)*1.5, n%11, n%97 == 0, n*3, n%60)
	}
	x.bodies["0"] = body.String()
	b := x.slicer(t, scan.NDJSON, scan.Fail)
	b.Program = program
	s, err := b.Build(t.Context(), x.input(), nil)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := program.Bind(s.Built)
	if err != nil {
		t.Fatal(err)
	}
	run, err := table.Open(s.Run, s.Run.Size(), bound.Shape())
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Verify(); err != nil {
		t.Fatal(err)
	}
	const version, want = 4, "8cf9ec141df941653c5109935db5f2ef5ee91b4b5a466fb0b614f8a8a4e99743"
	// The content's hash is over the format's version and all blocks.
	sum := run.Summary().SHA256
	if got := hex.EncodeToString(sum[:]); codecVersion != version || got != want {
		t.Errorf("version %d makes %s, want version %d and %s", codecVersion, got, version, want)
	}
}

// FuzzReadRest: whatever lies there, it is a slice or an error.
func FuzzReadRest(f *testing.F) {
	f.Add([]byte(restMagic))
	f.Add([]byte(encodedMagic + "\x02\x00\x00\x00{}"))
	s, at := smallSlice(f)
	f.Add(atRest(f, s, at)[restHead:])
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Decode(bytes.NewReader(b), int64(len(b)), "", nil); err == nil {
			var out bytes.Buffer
			if err := s.Encode(&out); err != nil {
				t.Fatalf("encode what was decoded: %v", err)
			}
		}
		var at ID
		sealed := append([]byte(restMagic), at[:]...)
		sum := make([]byte, sha256.Size)
		if d, err := decode(&source{r: bytes.NewReader(b)}, int64(len(b)), "", nil); err == nil {
			sum = restSum(d.head, d.summary)
		}
		sealed = append(append(sealed, sum...), b...)
		s, err := ReadRest(bytes.NewReader(sealed), int64(len(sealed)), at, "", nil)
		if (err == nil) != (s != nil) || err != nil && !errors.Is(err, ErrDamaged) {
			t.Fatalf("%v, want a slice or damage", err)
		}
		if s != nil {
			_ = SameTypes(s.Built, s.Built)
		}
	})
}

// TestARunIsOpenedOnce: at one shape, by however many at a time.
func TestARunIsOpenedOnce(t *testing.T) {
	x := &texts{bodies: map[string]string{"0": `{"k":"x","n":1,"s":"a"}` + "\n"}}
	b := x.slicer(t, scan.NDJSON, scan.Fail)
	s, err := b.Build(t.Context(), x.input(), nil)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *table.Run {
		bound, err := b.Program.Bind(s.Built)
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Open(bound.Shape())
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	first := open()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if open() != first {
				t.Error("it was opened again")
			}
		})
	}
	all.Wait()
	other := slices.Clone(s.Built)
	for i, c := range b.Program.Columns() {
		if c.Path == "n" {
			other[i] = column.Of(column.Float64)
		}
	}
	bound, err := b.Program.Bind(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(bound.Shape()); err == nil {
		t.Error("it was opened at other types")
	}
}
