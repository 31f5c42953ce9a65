package scan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// grouped is a file of so many row groups, each with its number in column n and
// a text of some length in every row.
func grouped(t testing.TB, groups, rows, text int) []byte {
	t.Helper()
	type row struct {
		N int64  `parquet:"n"`
		S string `parquet:"s,plain"`
	}
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[row](&buf)
	for g := range groups {
		for range rows {
			if _, err := w.Write([]row{{int64(g), strings.Repeat("x", text)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// rangeBlob is a blob whose ranges go through a function.
type rangeBlob struct {
	memBlob
	read func(ctx context.Context, off, n int64) ([]byte, error)
}

func (b *rangeBlob) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	return b.read(ctx, off, n)
}

func numbers(blob Blob, req Request) (out []int64, err error) {
	_, err = Scan(context.Background(), blob, req, func(b *column.Batch) error {
		out = append(out, b.Columns[0].Ints...)
		return nil
	})
	return out, err
}

func large(ahead *Ahead) Request {
	return Request{Format: Parquet, Columns: paths("n", "s"), Limits: Limits{Whole: 1, Ahead: ahead}}
}

// TestRowGroupsOverlap: the first row group arrives only once the next was asked
// for, and the next ones while the first is decoded.
func TestRowGroupsOverlap(t *testing.T) {
	data := grouped(t, 4, 100, 1000)
	footer := int64(len(data) - tailBytes)
	second := make(chan struct{})
	var asked atomic.Int64
	blob := &rangeBlob{memBlob: memBlob{key: "f", data: data}}
	blob.read = func(_ context.Context, off, n int64) ([]byte, error) {
		if off < footer {
			switch asked.Add(1) {
			case 1:
				select {
				case <-second:
				case <-time.After(10 * time.Second):
					return nil, errors.New("nothing else was asked for meanwhile")
				}
			case 2:
				close(second)
			}
		}
		return data[off : off+n], nil
	}
	got, err := numbers(blob, large(NewAhead(1<<20)))
	if err != nil || len(got) != 400 || asked.Load() != 4 {
		t.Fatalf("%d rows of %d groups, %v", len(got), asked.Load(), err)
	}
}

// faulty is an object of data with a few bits turned, a read of which may fail as
// broken or come back short where one byte lies.
func faulty(rt *rapid.T, data []byte, broken error) *rangeBlob {
	data = bytes.Clone(data)
	size := int64(len(data))
	for range rapid.IntRange(0, 2).Draw(rt, "flips") {
		data[rapid.IntRange(0, len(data)-1).Draw(rt, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
	}
	fails := rapid.Int64Range(-size, size).Draw(rt, "fails")
	short := rapid.Bool().Draw(rt, "short")
	blob := &rangeBlob{memBlob: memBlob{key: "f", data: data}}
	blob.read = func(ctx context.Context, off, n int64) ([]byte, error) {
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case fails < off || fails >= off+n:
			return data[off : off+n], nil
		case short:
			return data[off:fails], nil
		}
		return nil, broken
	}
	return blob
}

// TestReadingAheadShowsNowhere: rows, order and the error are those of reading
// one group after the other, whatever the bytes ahead, and they are all given
// back.
func TestReadingAheadShowsNowhere(t *testing.T) {
	data := grouped(t, 6, 50, 2000)
	broken := errors.New("broken")
	rapid.Check(t, func(rt *rapid.T) {
		blob := faulty(rt, data, broken)
		stop := rapid.IntRange(-20, 10).Draw(rt, "stop")
		scan := func(ahead *Ahead) (string, error) {
			var out strings.Builder
			batches := 0
			res, err := Scan(context.Background(), blob, large(ahead), func(b *column.Batch) error {
				if batches == stop {
					return io.ErrClosedPipe
				}
				batches++
				fmt.Fprintln(&out, b.Columns[0].Ints, b.Columns[1].Strings)
				return nil
			})
			fmt.Fprintln(&out, res, err)
			return out.String(), err
		}
		want, wrong := scan(nil)
		ahead := NewAhead(rapid.Int64Range(0, 1<<20).Draw(rt, "ahead"))
		got, err := scan(ahead)
		if got != want || errors.Is(err, broken) != errors.Is(wrong, broken) {
			rt.Fatalf("with %d bytes ahead\n%.200s\nwithout\n%.200s", ahead.Most(), got, want)
		}
		if left := ahead.left.Load(); left != ahead.Most() {
			rt.Fatalf("%d bytes of %d were given back", left, ahead.Most())
		}
	})
}

// TestAheadIsABound: scans that share one never have more asked for than it has
// and a group in hand each; one that ends early ends its reads.
func TestAheadIsABound(t *testing.T) {
	data := grouped(t, 12, 50, 2000)
	const most, workers, group = 250_000, 3, 110_000
	ahead := NewAhead(most)
	var mu sync.Mutex
	var held, peak int64
	enough := errors.New("enough")
	var scans sync.WaitGroup
	for w := range workers {
		scans.Go(func() {
			sizes := []int64{}
			blob := &rangeBlob{memBlob: memBlob{key: "f", data: data}}
			blob.read = func(_ context.Context, off, n int64) ([]byte, error) {
				if n == tailBytes {
					return data[off : off+n], nil
				}
				mu.Lock()
				held += n
				peak = max(peak, held)
				sizes = append(sizes, n)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				return data[off : off+n], nil
			}
			last := int64(-1)
			_, err := Scan(t.Context(), blob, large(ahead), func(b *column.Batch) error {
				if n := b.Columns[0].Ints[0]; n != last { // the one before was decoded
					last = n
					mu.Lock()
					if last > 0 {
						held -= sizes[last-1]
					}
					mu.Unlock()
				}
				if w == 0 && last == 5 {
					return enough
				}
				return nil
			})
			if (w == 0) != errors.Is(err, enough) || w > 0 && err != nil {
				t.Error(err)
			}
			mu.Lock()
			for i, n := range sizes {
				if int64(i) >= last {
					held -= n
				}
			}
			mu.Unlock()
		})
	}
	scans.Wait()
	// What a group is decoded from is given up only when the next comes: two each.
	if bound := int64(most + 2*workers*group); peak > bound || peak < most/2 {
		t.Errorf("%d bytes were asked for at a time, the bound is %d", peak, bound)
	}
	if ahead.left.Load() != most || held != 0 {
		t.Errorf("%d bytes were given back of %d, %d are held", ahead.left.Load(), most, held)
	}
}

func TestABlobMayPanicAhead(t *testing.T) {
	data := grouped(t, 4, 50, 2000)
	blob := &rangeBlob{memBlob: memBlob{key: "f", data: data}}
	blob.read = func(_ context.Context, off, n int64) ([]byte, error) {
		if off > 150_000 && n != tailBytes {
			panic("a bug")
		}
		return data[off : off+n], nil
	}
	rows, err := numbers(blob, large(NewAhead(1<<20)))
	wantError(t, err, "scan f", "a bug")
	if len(rows) != 100 {
		t.Errorf("%d rows before it", len(rows))
	}
}
