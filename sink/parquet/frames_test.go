package parquet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// catalogue is n documents of which some texts are long; version changes some
// of one column.
func catalogue(n int, texts, numbers func(i int) int) ([]column.Field, *column.Batch) {
	fields := []column.Field{
		{Name: "id", Type: column.Of(column.String), Key: true}, {Name: "title", Type: column.Of(column.String)},
		{Name: "price", Type: column.Of(column.Float64)}, {Name: "tags", Type: column.ListOf(column.Of(column.String))}, {Name: "stock", Type: column.Of(column.Int64)},
	}
	b := column.NewBatch(fields)
	for i := range n {
		x, y := texts(i), numbers(i)
		b.Columns[0].AppendString(fmt.Sprintf("item-%08d", i))
		b.Columns[1].AppendString(fmt.Sprintf("Offer %d of item %d: now with %d %% off", x%40, i*7919%n, (i+x)%100))
		b.Columns[2].AppendFloat(float64(i*31+y) / 8)
		for k := range i % 3 {
			b.Columns[3].Elem.AppendString(fmt.Sprintf("tag-%d-%d", i*k, x))
		}
		b.Columns[3].EndList()
		b.Columns[4].AppendInt(int64(y))
	}
	b.Len = n
	return fields, b
}

func writeWith(t testing.TB, fields []column.Field, b *column.Batch, f *Frames, workers int) []byte {
	t.Helper()
	var all []byte
	w, err := NewWriter(Options{Fields: fields, Name: "part", Frames: f, Workers: workers, Put: func(_ context.Context, _ Part, body io.ReadSeeker) error {
		b, err := io.ReadAll(body)
		all = append(all, b...)
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFramesChangeNoByte: a series of panes, parts of which are as they were, is
// the same files with pages kept and without, however many there is room for.
func TestFramesChangeNoByte(t *testing.T) {
	used := int64(0)
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.SampledFrom([]int{1, 500, 9000}).Draw(rt, "rows")
		frames := NewFrames(rapid.SampledFrom([]int64{0, 40_000, 1 << 24}).Draw(rt, "room"))
		texts, numbers := make([]int, n), make([]int, n)
		for range 4 {
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
			change := func(v []int, most int) {
				from := rng.IntN(n)
				for i := from; i < min(n, from+most); i++ {
					v[i] = rng.IntN(1000)
				}
			}
			change(numbers, n)
			change(texts, rapid.SampledFrom([]int{0, 1, 3000, n}).Draw(rt, "texts"))
			fields, b := catalogue(n, func(i int) int { return texts[i] }, func(i int) int { return numbers[i] })
			frames.Turn()
			workers := rapid.IntRange(1, 3).Draw(rt, "workers")
			if !bytes.Equal(writeWith(t, fields, b, frames, workers), writeWith(t, fields, b, nil, 1)) {
				rt.Fatal("the files differ")
			}
			if size := framesHeld(frames); size > frames.most {
				rt.Fatalf("%d bytes are held, %d may be", size, frames.most)
			}
		}
		used += frames.Used()
	})
	if used == 0 {
		t.Error("no page was used again")
	}
}

// framesHeld is what is held of both sets of files, counted anew.
func framesHeld(f *Frames) (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, b := range f.mu.now {
		n += int64(cap(b)) + frameEntry
		if before, ok := f.mu.before[k]; ok && &before[0] == &b[0] {
			n -= int64(cap(b))
		}
	}
	for _, b := range f.mu.before {
		n += int64(cap(b)) + frameEntry
	}
	return n
}

// TestFramesOfUnchangedTexts: where numbers change in all pages, those of texts
// are not compressed again, and where nothing is the same nothing is used.
func TestFramesOfUnchangedTexts(t *testing.T) {
	const rows = 5 * pageRows
	frames := NewFrames(64 << 20)
	none := func(int) int { return 0 }
	for version := range 3 {
		before := frames.Used()
		fields, b := catalogue(rows, none, func(i int) int { return i * version })
		frames.Turn()
		writeWith(t, fields, b, frames, 1)
		if used := frames.Used() - before; (version > 0) != (used >= 10) {
			t.Errorf("version %d: %d pages were used again", version, used)
		}
	}
	before := frames.Used()
	frames.Forget()
	fields, b := catalogue(rows, none, none)
	writeWith(t, fields, b, frames, 1)
	if used := frames.Used() - before; used != 0 {
		t.Errorf("%d pages were used again of files before the last", used)
	}
}

// TestFramesOfPagesThatNeverComeAgain: of a column whose pages were looked for in vain few are kept, beside another of which all are, and
// all again when they come again.
func TestFramesOfPagesThatNeverComeAgain(t *testing.T) {
	const pages, version = 2 * seldomEach, 3 // from this version on all is as before
	frames := NewFrames(64 << 20)
	none := func(int) int { return 0 }
	for v := range version + 4 {
		fields, b := catalogue(pages*pageRows, func(i int) int { return i * min(v, version) }, none)
		frames.Turn()
		before := frames.Used()
		got := writeWith(t, fields, b, frames, 2)
		if !bytes.Equal(got, writeWith(t, fields, b, nil, 1)) {
			t.Fatalf("version %d: the files differ", v)
		}
		title, id := frames.mu.columns["title"], frames.mu.columns["id"]
		want := pages
		if v >= 2 && v <= version+1 {
			want = pages / seldomEach
		}
		if title.asked != want {
			t.Errorf("version %d: %d pages of titles were looked for, want %d", v, title.asked, want)
		}
		if id.asked != pages {
			t.Errorf("version %d: %d pages of keys were looked for, want %d", v, id.asked, pages)
		}
		again := 0
		switch {
		case v > version && v < version+3:
			again = pages / seldomEach // as many as were kept
		case v == version+3:
			again = pages
		}
		if title.used != again {
			t.Errorf("version %d: %d pages of titles came again, want %d", v, title.used, again)
		}
		if used := frames.Used() - before; v > 0 && used < pages {
			t.Errorf("version %d: %d pages came again", v, used)
		}
	}
}
