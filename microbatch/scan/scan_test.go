package scan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// threeFormats is the same table of 3 batches and a bit in each format.
func threeFormats(t testing.TB) map[Format]*memBlob {
	t.Helper()
	type row struct {
		N int64   `parquet:"n"`
		S *string `parquet:"s,optional"`
	}
	var js, cs strings.Builder
	var in []row
	cs.WriteString("n,s\n")
	for i := range 3*batchRows + 7 {
		s := fmt.Sprintf("value %d", i)
		in = append(in, row{int64(i), &s})
		fmt.Fprintf(&js, "{\"n\":%d,\"s\":%q}\n", i, s)
		fmt.Fprintf(&cs, "%d,%s\n", i, s)
	}
	return map[Format]*memBlob{
		Parquet: {key: "f.parquet", data: write(t, in, parquet.Compression(&parquet.Zstd))},
		NDJSON:  textBlob("f.json", js.String()),
		CSV:     textBlob("f.csv", cs.String()),
	}
}

// Strings stay valid after their batch, and vectors are used again.
func TestStringsOutliveTheirBatch(t *testing.T) {
	for f, blob := range threeFormats(t) {
		t.Run(f.String(), func(t *testing.T) {
			var kept []string
			vectors := map[*column.Vector]bool{}
			_, err := Scan(context.Background(), blob, Request{Format: f, Columns: paths("n", "s")}, func(b *column.Batch) error {
				vectors[b.Columns[1]] = true
				kept = append(kept, b.Columns[1].Strings...)
				return nil
			})
			if err != nil || len(kept) != 3*batchRows+7 {
				t.Fatalf("%d strings, %v", len(kept), err)
			}
			for i, s := range kept {
				if s != fmt.Sprintf("value %d", i) {
					t.Fatalf("string %d became %q", i, s)
				}
			}
			if len(vectors) > 2 { // a text column starts as null
				t.Errorf("%d vectors for one column", len(vectors))
			}
		})
	}
}

// An error of emit ends the scan as it is, and cancellation ends it between
// batches with its cause.
func TestScanEnds(t *testing.T) {
	for f, blob := range threeFormats(t) {
		t.Run(f.String(), func(t *testing.T) {
			req := Request{Format: f, Columns: paths("n", "s")}
			full := errors.New("disk full")
			calls := 0
			_, err := Scan(context.Background(), blob, req, func(*column.Batch) error { calls++; return full })
			if !errors.Is(err, full) || calls != 1 {
				t.Fatalf("%v after %d batches", err, calls)
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			fenced := errors.New("fenced")
			calls = 0
			_, err = Scan(ctx, blob, req, func(*column.Batch) error { calls++; cancel(fenced); return nil })
			if !errors.Is(err, fenced) || calls > 2 {
				t.Fatalf("%v after %d batches", err, calls)
			}
		})
	}
}

func TestParseFormat(t *testing.T) {
	for f := Parquet; f <= CSV; f++ {
		if got, err := ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("%s: %v, %v", f, got, err)
		}
	}
	_, err := ParseFormat("orc")
	wantError(t, err, `"orc"`)
	_, _, err = rows(textBlob("f.x", "x"), Request{})
	wantError(t, err, "scan f.x", "format(0)")
}

// A read that returns less than asked is an error, not a short object.
func TestShortReads(t *testing.T) {
	for f, blob := range threeFormats(t) {
		for _, whole := range []int64{0, 1} {
			t.Run(fmt.Sprint(f, whole), func(t *testing.T) {
				_, _, err := rows(&shortBlob{*blob}, Request{Format: f, Columns: paths("n"), Limits: Limits{Whole: whole}})
				wantError(t, err, blob.key, "unexpected EOF")
			})
		}
	}
}

// shortBlob lies about its size.
type shortBlob struct{ memBlob }

func (b *shortBlob) Size() int64 { return int64(len(b.data)) + 100 }
func (b *shortBlob) ReadRange(_ context.Context, off, n int64) ([]byte, error) {
	return b.data[min(off, int64(len(b.data))):min(off+n, int64(len(b.data)))], nil
}

// Widen is the join of a lattice, whatever the format: commutative,
// idempotent, and an upper bound of both.
func TestWidenIsAJoin(t *testing.T) {
	kinds := []column.Type{column.Of(column.Null), column.Of(column.Bool), column.Of(column.Int64), column.Of(column.Float64), column.Of(column.String)}
	var draw func(t *rapid.T, depth int) column.Type
	draw = func(t *rapid.T, depth int) column.Type {
		switch n := rapid.IntRange(0, 6).Draw(t, "kind"); {
		case n == 5 && depth > 0:
			return column.ListOf(draw(t, depth-1))
		case n == 6 && depth > 0:
			return column.StructOf(column.Field{Name: "x", Type: draw(t, depth-1)}, column.Field{Name: rapid.SampledFrom([]string{"y", "z"}).Draw(t, "name"), Type: draw(t, depth-1)})
		default:
			return kinds[n%5]
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom([]Format{Parquet, NDJSON, CSV}).Draw(t, "format")
		a, b := draw(t, 2), draw(t, 2)
		ab, err := Widen(f, a, b)
		ba, err2 := Widen(f, b, a)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%s and %s: %v, the other way %v", a, b, err, err2)
		}
		if err != nil {
			return
		}
		if again, err := Widen(f, ab, ba); err != nil || !again.Equal(ab) {
			t.Fatalf("%s and %s: %s, then %s, %v", a, b, ab, again, err)
		}
		for _, part := range []column.Type{a, b} {
			if err := fits(f, part, ab); err != nil {
				t.Fatalf("%s is not above %s: %v", ab, part, err)
			}
		}
		if self, err := Widen(f, a, a); err != nil || !self.Equal(a) {
			t.Fatalf("%s with itself: %s, %v", a, self, err)
		}
	})
}

// Two passes and one agree: a scan without As yields what a scan with the
// observed types does, and the same rows are bad.
func TestTwoPhaseTyping(t *testing.T) {
	cell := rapid.SampledFrom([]string{"1", "2", "-7", "2.5", "1e2", `"x"`, "true", "null", "[1]", "[2.5,null]", "[]", `{"y":1}`, `{"z":"s","y":0.5}`, "99999999999999999999", "[1,\"x\"]"})
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(1, 12).Draw(t, "rows") {
			fmt.Fprintf(&b, "{\"a\":%s,\"b\":%s}\n", cell.Draw(t, "a"), cell.Draw(t, "b"))
		}
		blob := textBlob("f", b.String())
		req := Request{Format: NDJSON, Columns: paths("?a", "?b"), Row: Reject}
		var bad1, bad2 []int64
		req.Reject = func(r RejectedRow) { bad1 = append(bad1, r.Line) }
		one, res1, err := rows(blob, req)
		if err != nil {
			t.Fatal(err)
		}
		observed, err := Observe(context.Background(), blob, req)
		if err != nil || types(observed) != types(res1.Observed) {
			t.Fatalf("observe %s, scan %s, %v", types(observed), types(res1.Observed), err)
		}
		for i := range req.Columns {
			req.Columns[i].As = observed[i]
		}
		req.Reject = func(r RejectedRow) { bad2 = append(bad2, r.Line) }
		two, res2, err := rows(blob, req)
		if err != nil || strings.Join(one, "\n") != strings.Join(two, "\n") || fmt.Sprint(bad1) != fmt.Sprint(bad2) || types(res1.Observed) != types(res2.Observed) {
			t.Fatalf("%s%q, bad %v of %s\nthen\n%q, bad %v of %s, %v", b.String(), one, bad1, types(res1.Observed), two, bad2, types(res2.Observed), err)
		}
	})
}
