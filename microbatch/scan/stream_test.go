package scan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
)

// lined is NDJSON of rows numbered in n, with a text that does not compress well.
func lined(rows int) string {
	var b strings.Builder
	for i, x := 0, uint64(1); i < rows; i++ {
		x = x*6364136223846793005 + 1442695040888963407
		fmt.Fprintf(&b, `{"n":%d,"s":"%x"}`+"\n", i, x)
	}
	return b.String()
}

// TestTextIsReadAhead: the first piece arrives only once the next was asked for.
func TestTextIsReadAhead(t *testing.T) {
	text := lined(2000)
	for _, tt := range []struct {
		name, key string
		data      []byte
	}{{"plain", "f.json", []byte(text)}, {"gzip", "f.json.gz", gz(t, text)}, {"zstd", "f.json.zst", zst(t, text)}} {
		t.Run(tt.name, func(t *testing.T) {
			second := make(chan struct{})
			var asked atomic.Int64
			blob := &rangeBlob{memBlob: memBlob{key: tt.key, data: tt.data}}
			blob.read = func(_ context.Context, off, n int64) ([]byte, error) {
				asked.Add(1)
				switch off {
				case 0:
					select {
					case <-second:
					case <-time.After(10 * time.Second):
						return nil, errors.New("nothing else was asked for meanwhile")
					}
				case 4096:
					close(second)
				}
				return tt.data[off : off+n], nil
			}
			ahead := NewAhead(1 << 20)
			got, err := numbers(blob, Request{Format: NDJSON, Columns: paths("n"), Limits: Limits{Whole: 1, Ahead: ahead, piece: 4096}})
			if want := int64(len(tt.data)+4095) / 4096; err != nil || len(got) != 2000 || asked.Load() != want {
				t.Fatalf("%d rows of %d pieces, of which there are %d: %v", len(got), asked.Load(), want, err)
			}
			if left := ahead.left.Load(); left != ahead.Most() {
				t.Errorf("%d bytes of %d were given back", left, ahead.Most())
			}
		})
	}
}

// TestReadingTextAheadShowsNowhere: rows, order and the error are those of one
// piece after the other, whatever the bytes ahead, which are all given back.
func TestReadingTextAheadShowsNowhere(t *testing.T) {
	text := lined(3000)
	datas := [][]byte{[]byte(text), gz(t, text), zst(t, text), gz(t, lined(50)+strings.Repeat(" ", 300_000)+"\n"+text)}
	broken := errors.New("broken")
	rapid.Check(t, func(rt *rapid.T) {
		blob := faulty(rt, rapid.SampledFrom(datas).Draw(rt, "data"), broken)
		lim := Limits{Whole: 1, piece: rapid.SampledFrom([]int64{512, 4096, 1 << 20}).Draw(rt, "piece")}
		stop := rapid.IntRange(-20, 4).Draw(rt, "stop")
		scan := func(lim Limits) (string, error) {
			var out strings.Builder
			batches := 0
			res, err := Scan(context.Background(), blob, Request{Format: NDJSON, Columns: paths("n", "s"), Limits: lim}, func(b *column.Batch) error {
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
		want, wrong := scan(lim)
		lim.Ahead = NewAhead(rapid.Int64Range(0, 3*lim.piece).Draw(rt, "ahead"))
		got, err := scan(lim)
		if got != want || errors.Is(err, broken) != errors.Is(wrong, broken) {
			rt.Fatalf("with %d bytes ahead\n%.200s\nwithout\n%.200s", lim.Ahead.Most(), got, want)
		}
		if left := lim.Ahead.left.Load(); left != lim.Ahead.Most() {
			rt.Fatalf("%d bytes of %d were given back", left, lim.Ahead.Most())
		}
	})
}

func TestATextMayPanicAhead(t *testing.T) {
	data := []byte(lined(1000))
	blob := &rangeBlob{memBlob: memBlob{key: "f", data: data}}
	blob.read = func(_ context.Context, off, n int64) ([]byte, error) {
		if off > 10_000 {
			panic("a bug")
		}
		return data[off : off+n], nil
	}
	ahead := NewAhead(1 << 20)
	_, err := numbers(blob, Request{Format: NDJSON, Columns: paths("n"), Limits: Limits{Whole: 1, Ahead: ahead, piece: 4096}})
	wantError(t, err, "scan f", "a bug")
	if left := ahead.left.Load(); left != ahead.Most() {
		t.Errorf("%d bytes of %d were given back", left, ahead.Most())
	}
}
