package layers

import (
	"bytes"
	"testing"

	"github.com/deltad/deltad/microbatch/spool"
)

func logOf(t testing.TB, b []byte) *Log {
	t.Helper()
	s := spool.New("", nil)
	if _, err := s.Write(b); err != nil {
		t.Fatal(err)
	}
	data, err := s.Seal()
	if err != nil {
		t.Fatal(err)
	}
	return &Log{data}
}

// FuzzLog: a log that is damaged ends in an error, in no more memory than it has bytes, and whatever is read of it is written as it was.
func FuzzLog(f *testing.F) {
	w := newLogWriter("", nil)
	for _, r := range []row{{key: []byte("a"), digest: digest{1, 2}}, {key: nil, dead: true}, {key: bytes.Repeat([]byte("b"), 300), digest: digest{3, 4}}} {
		if err := w.add(r); err != nil {
			f.Fatal(err)
		}
	}
	whole, err := w.seal()
	if err != nil {
		f.Fatal(err)
	}
	seed := make([]byte, whole.data.Size())
	if _, err := whole.data.ReadAt(seed, 0); err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(seed[:len(seed)-1])
	f.Add([]byte{1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Add([]byte{1, 'a', 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := logOf(t, b).read()
		again := newLogWriter("", nil)
		for err == nil && !r.done {
			if cap(r.key) > 2*len(b)+64 {
				t.Fatalf("%d bytes of key in a log of %d", cap(r.key), len(b))
			}
			if werr := again.add(r.row); werr != nil {
				t.Fatal(werr)
			}
			err = r.next()
		}
		if err != nil {
			return
		}
		back, err := again.seal()
		if err != nil {
			t.Fatal(err)
		}
		if int(back.data.Size()) > len(b) {
			t.Fatalf("%d bytes come back as %d", len(b), back.data.Size())
		}
	})
}
