package squeeze

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// source gives contents that are the same everywhere.
type source struct{ *rand.Rand }

func newSource(seed uint64) source { return source{rand.New(rand.NewPCG(seed, 1))} }

func (r source) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func (r source) offers(n int) []byte {
	var b []byte
	for range n {
		b = fmt.Appendf(b, "Offer %d of item %d: now with %d %% off", r.IntN(40), 1+r.IntN(220_000), r.IntN(100))
	}
	return b
}

func (r source) titles(n int) []byte {
	words := strings.Fields("red blue summer shoes shirt small large offer garden chair of for with")
	var b []byte
	for range n {
		for range 1 + r.IntN(5) {
			b = append(append(b, words[r.IntN(len(words))]...), ' ')
		}
		b = fmt.Append(b, r.IntN(1_000_000))
	}
	return b
}

func (r source) digits(n int) []byte {
	var b []byte
	for range n {
		b = fmt.Append(b, r.IntN(100_000))
	}
	return b
}

// copies are random bytes that come again from ever further back.
func (r source) copies(n int) []byte {
	b := r.bytes(100)
	for len(b) < n {
		from := r.IntN(len(b))
		b = append(b, b[from:min(len(b), from+r.IntN(1+r.IntN(3000)))]...)
		b = append(b, r.bytes(r.IntN(1+r.IntN(300)))...)
	}
	return b[:n]
}

func contents() map[string][]byte {
	r := newSource(1)
	return map[string][]byte{
		"nothing":             {},
		"a byte":              {7},
		"as short as a look":  []byte("0123456789abcdef"),
		"one longer":          []byte("0123456789abcdef0"),
		"zeros":               make([]byte, 1000),
		"a block of zeros":    make([]byte, blockSize),
		"many zeros":          make([]byte, 5*blockSize+1),
		"the most":            make([]byte, Most),
		"two values":          bytes.Repeat([]byte("left right "), 20_000),
		"of one length":       bytes.Repeat([]byte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 10_000),
		"noise":               r.bytes(3*blockSize + 100),
		"little noise":        r.bytes(40),
		"offers":              r.offers(4096),
		"few offers":          r.offers(3),
		"titles":              r.titles(4096),
		"digits":              r.digits(4096),
		"copies":              r.copies(1 << 20),
		"texts behind noise":  append(r.bytes(2*blockSize), r.offers(8000)...),
		"noise between texts": bytes.Join([][]byte{r.offers(5000), r.bytes(blockSize), r.offers(5000)}, nil),
		"noise, then again":   bytes.Repeat(r.bytes(blockSize+999), 3),
		"a long way back":     bytes.Join([][]byte{r.bytes(3 << 20), make([]byte, 3<<20), r.bytes(100)}, []byte("0123456789abcdef0123456789")),
	}
}

// check makes the frame of b and holds it to what the package promises.
func check(t interface{ Fatalf(string, ...any) }, e *Encoder, z *zstd.Decoder, b []byte) []byte {
	frame := e.Append([]byte("before"), b)[6:]
	got, err := z.DecodeAll(frame, nil)
	if err != nil {
		t.Fatalf("%d bytes: %v", len(b), err)
	}
	if !bytes.Equal(got, b) {
		t.Fatalf("%d bytes come back as %d others", len(b), len(got))
	}
	if most := 9 + len(b) + 3*(len(b)/blockSize+1); len(frame) > most {
		t.Fatalf("%d bytes are %d, at most %d are allowed", len(b), len(frame), most)
	}
	return frame
}

func decoder(t testing.TB) *zstd.Decoder {
	t.Helper()
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(z.Close)
	return z
}

// TestContents: what was compressed comes back, with an Encoder that has done others before as with a new one.
func TestContents(t *testing.T) {
	z, used := decoder(t), New()
	for name, b := range contents() {
		t.Run(name, func(t *testing.T) {
			frame := check(t, used, z, b)
			if !bytes.Equal(frame, check(t, New(), z, b)) {
				t.Error("an Encoder that was used gives other bytes")
			}
		})
	}
}

// TestSizes: texts get smaller about as much as by the library, and noise and zeros as they should.
func TestSizes(t *testing.T) {
	z, e := decoder(t), New()
	all := contents()
	library, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		most int // percent of what the library needs
	}{
		{"offers", 115}, {"titles", 110}, {"digits", 50}, {"two values", 300}, {"noise", 100}, {"many zeros", 200}, {"noise between texts", 110},
	} {
		got, want := len(check(t, e, z, all[c.name])), len(library.EncodeAll(all[c.name], nil))
		if 100*got > c.most*want+6400 {
			t.Errorf("%s: %d bytes, the library has %d", c.name, got, want)
		}
	}
}

// TestBytes holds the frames to what they were: the bytes of panes depend on them.
func TestBytes(t *testing.T) {
	all, sum, e := contents(), sha256.New(), New()
	for _, name := range []string{"offers", "few offers", "titles", "digits", "copies", "noise between texts", "of one length", "two values"} {
		sum.Write(e.Append(nil, all[name]))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != wantBytes {
		t.Errorf("the frames have the hash %s, want %s", got, wantBytes)
	}
}

const wantBytes = "2014d506ea8510e75be4ade9748f320b952e8e890484dc4598f63815c0cfb13d"

// TestAnything: what is made of pieces that come again, of noise, runs and digits, comes back.
func TestAnything(t *testing.T) {
	z, e := decoder(t), New()
	rapid.Check(t, func(rt *rapid.T) {
		r := newSource(rapid.Uint64().Draw(rt, "seed"))
		var b []byte
		for range rapid.IntRange(0, 12).Draw(rt, "pieces") {
			n := rapid.SampledFrom([]int{1, 5, 16, 17, 60, 300, 5000, 40_000}).Draw(rt, "size")
			switch n = r.IntN(n + 1); rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0:
				b = append(b, r.bytes(n)...)
			case 1:
				b = append(b, bytes.Repeat(r.bytes(1+r.IntN(20)), n)[:n]...)
			case 2:
				b = append(b, r.offers(n/40)...)
			case 3:
				b = append(b, r.titles(n/20)...)
			case 4:
				b = append(b, r.copies(n)...)
			case 5:
				if len(b) > 0 {
					from := r.IntN(len(b))
					b = append(b, b[from:min(len(b), from+n)]...)
				}
			}
		}
		check(rt, e, z, b)
	})
}

// TestShares: codes that are as rare or as frequent as can be have states that a decoder makes too.
func TestShares(t *testing.T) {
	z, e := decoder(t), New()
	rapid.Check(t, func(rt *rapid.T) {
		// Literals and matches of chosen lengths: each value ends with noise of one length, and is a piece of a text of its own.
		r := newSource(rapid.Uint64().Draw(rt, "seed"))
		text := r.bytes(3000)
		b := bytes.Clone(text)
		lengths := rapid.SliceOfN(rapid.SampledFrom([]int{6, 7, 9, 12, 30, 34, 35, 36, 66, 67, 130, 131, 200, 999, 2500}), 1, 6).Draw(rt, "matches")
		noise := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 2, 15, 16, 17, 18, 24, 63, 64, 65, 130, 1000}), 1, 6).Draw(rt, "literals")
		for range rapid.SampledFrom([]int{1, 2, 50, 130, 1000}).Draw(rt, "sequences") {
			m, n := lengths[r.IntN(1+r.IntN(len(lengths)))], noise[r.IntN(1+r.IntN(len(noise)))]
			from := r.IntN(len(text) - m)
			b = append(append(b, text[from:from+m]...), r.bytes(n)...)
		}
		check(rt, e, z, b)
	})
}

// TestManySequences: bits fill words in every way, also to the last bit, which takes many sequences whose codes leave many bits open.
func TestManySequences(t *testing.T) {
	z, e, r := decoder(t), New(), newSource(99)
	for range 40 {
		check(t, e, z, append(r.copies(r.IntN(300_000)), r.titles(r.IntN(5000))...))
	}
}

func FuzzAppend(f *testing.F) {
	for _, b := range contents() {
		if len(b) < 10_000 {
			f.Add(b, uint8(0))
			f.Add(b, uint8(9))
		}
	}
	z, e := decoder(f), New()
	f.Fuzz(func(t *testing.T, b []byte, again uint8) {
		if len(b)*(1+int(again)) > 4*blockSize { // what takes long finds little
			again = 0
		}
		check(t, e, z, bytes.Repeat(b, 1+int(again)))
	})
}
