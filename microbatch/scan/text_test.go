package scan

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func zst(t testing.TB, s string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll([]byte(s), nil)
}

// Compressed, in ranges, in pieces: the same rows.
func TestTextSources(t *testing.T) {
	var b strings.Builder
	for i := range 30000 {
		b.WriteString(`{"a":` + strings.Repeat("1", 1+i%9) + `,"b":"` + strings.Repeat("x", i%50) + "\"}\n")
	}
	text := b.String()
	want, _ := mustRows(t, textBlob("f.json", text), Request{Format: NDJSON, Columns: paths("a", "b")})
	half := len(text) / 2
	for _, tt := range []struct {
		name, key string
		data      []byte
		whole     int64
		reads     int
	}{
		{"whole", "f.json", []byte(text), 0, 1},
		{"ranges", "f.json", []byte(text), 1, 1},
		{"gzip", "f.json.gz", gz(t, text), 0, 1},
		{"gzip without a suffix", "f", gz(t, text), 1, 1},
		{"gzip of two members", "f.gz", append(gz(t, text[:half]), gz(t, text[half:])...), 0, 1},
		{"zstd", "f.json.zst", zst(t, text), 0, 1},
		{"zstd of two frames", "f", append(zst(t, text[:half]), zst(t, text[half:])...), 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			blob := &memBlob{key: tt.key, data: tt.data}
			got, _ := mustRows(t, blob, Request{Format: NDJSON, Columns: paths("a", "b"), Limits: Limits{Whole: tt.whole}})
			if strings.Join(got, "\n") != strings.Join(want, "\n") {
				t.Fatalf("%d rows differ from the %d of the plain text", len(got), len(want))
			}
			if blob.reads != tt.reads {
				t.Errorf("%d reads, want %d", blob.reads, tt.reads)
			}
		})
	}
}

func TestTruncatedCompression(t *testing.T) {
	text := strings.Repeat("{\"a\":1}\n", 500)
	for _, tt := range []struct {
		name string
		data []byte
	}{{"gzip", gz(t, text)}, {"zstd", zst(t, text)}} {
		t.Run(tt.name, func(t *testing.T) {
			for cut := 4; cut < len(tt.data); cut++ {
				_, _, err := rows(&memBlob{key: "f", data: tt.data[:cut]}, Request{Format: NDJSON, Columns: paths("a")})
				wantError(t, err, "scan f", tt.name)
			}
		})
	}
	for _, tt := range []struct{ key, want string }{{"f.gz", "gzip"}, {"f.zst", "zstd"}} {
		_, _, err := rows(textBlob(tt.key, text), Request{Format: NDJSON, Columns: paths("a")})
		wantError(t, err, tt.key, tt.want, "are not")
	}
	_, _, err := rows(&memBlob{key: "f", data: append(gz(t, text), "garbage"...)}, Request{Format: NDJSON, Columns: paths("a")})
	wantError(t, err, "gzip")
}

// A bomb is refused while it streams.
func TestBombs(t *testing.T) {
	zeros := strings.Repeat(" ", 80<<20)
	for _, tt := range []struct {
		name string
		data []byte
		lim  Limits
		want string
	}{
		{"gzip ratio", gz(t, zeros), Limits{Ratio: 500}, "more than 500 to one"},
		{"zstd ratio", zst(t, zeros), Limits{}, "more than 1000 to one"},
		{"size", gz(t, zeros), Limits{Text: 1 << 20}, "more than 1048576 bytes of text"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := rows(&memBlob{key: "f", data: tt.data}, Request{Format: NDJSON, Row: Reject, Limits: tt.lim})
			wantError(t, err, "scan f", tt.want)
		})
	}
}

func TestCancel(t *testing.T) {
	text := strings.Repeat("{\"a\":1}\n", 10*batchRows)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("lost the lease")
	cancel(why)
	for _, req := range []Request{{Format: NDJSON, Columns: paths("a"), Limits: Limits{Whole: 1}}} {
		if _, err := Scan(ctx, textBlob("f", text), req, nil); err == nil {
			t.Fatal("no error without emit")
		}
		if _, err := Observe(ctx, textBlob("f", text), req); !isOneOf(err, why, context.Canceled) {
			t.Fatalf("err %v", err)
		}
	}
}

// pieces is a reader that returns a few bytes at a time, at times none.
type pieces struct {
	in  []byte
	rnd *rand.Rand
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.rnd.IntN(7))], p.in)
	p.in = p.in[n:]
	return n, nil
}

// Lines are those of a split, however the reads fall, and long ones are cut.
func TestLineReader(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var text []byte
		for range rnd.IntN(30) {
			text = append(text, bytes.Repeat([]byte{'x'}, rnd.IntN(40))...)
			text = append(text, []string{"\n", "\r\n", "\n\n", "\r"}[rnd.IntN(4)]...)
		}
		limit := 1 + rnd.IntN(50)
		lr := &lineReader{in: &pieces{in: text, rnd: rnd}, limit: limit, buf: make([]byte, 16)}
		want := strings.Split(string(text), "\n")
		if want[len(want)-1] == "" {
			want = want[:len(want)-1]
		}
		for i, w := range want {
			w = strings.TrimSuffix(w, "\r")
			line, long, err := lr.next()
			if err != nil || long != (len(w) > limit) || string(line) != w[:min(len(w), limit)] || lr.no != int64(i+1) {
				t.Fatalf("line %d of %q at limit %d: %q, %v, %v; want %q", i+1, text, limit, line, long, err, w)
			}
		}
		if _, _, err := lr.next(); !errors.Is(err, io.EOF) {
			t.Fatalf("%v after the last line", err)
		}
	}
}
