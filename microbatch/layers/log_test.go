package layers

import (
	"bytes"
	"slices"
	"testing"

	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/window"
)

func partOf(t testing.TB, b []byte) *part {
	t.Helper()
	s := spool.New("", nil)
	if _, err := s.Write(b); err != nil {
		t.Fatal(err)
	}
	data, err := s.Seal()
	if err != nil {
		t.Fatal(err)
	}
	return &part{data: data}
}

// written are the bytes of a log of three rows.
func written(t testing.TB, whole bool) []byte {
	t.Helper()
	w := newLogWriter("", nil, whole)
	for _, r := range []row{
		{is: window.TombstoneRow}, {key: []byte("a"), is: window.DocumentRow, hash: window.Hash{1, 2}},
		{key: bytes.Repeat([]byte("b"), 300), is: window.DocumentRow, hash: window.Hash{3, 4}},
	} {
		if err := w.add(r); err != nil {
			t.Fatal(err)
		}
	}
	return sealed(t, w)
}

func sealed(t testing.TB, w *logWriter) []byte {
	t.Helper()
	data, err := w.seal()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, data.Size())
	if _, err := data.Section().ReadAt(b, 0); err != nil && len(b) > 0 {
		t.Fatal(err)
	}
	return b
}

// walk reads a part and returns its rows, one after the other, as far as it can be read.
func walk(t testing.TB, b []byte, whole bool) (rows []row, err error) {
	t.Helper()
	r, err := partOf(t, b).read(whole)
	for ; err == nil && r.ok; err = r.next() {
		if cap(r.raw) > 2*len(b)+64 {
			t.Fatalf("%d bytes of memory for a log of %d", cap(r.raw), len(b))
		}
		rows = append(rows, row{key: bytes.Clone(r.key()), is: r.is(), hash: r.hash()})
	}
	return rows, err
}

// TestALogIsNotBelieved: one that does not hold together is an error, not a count or a crash.
func TestALogIsNotBelieved(t *testing.T) {
	for _, whole := range []bool{false, true} {
		b := written(t, whole)
		if rows, err := walk(t, b, whole); len(rows) != 3 || err != nil {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		for cut := 1; cut < len(b); cut++ {
			if rows, err := walk(t, b[:cut], whole); err == nil {
				t.Errorf("%d of %d bytes: %d rows and no error", cut, len(b), len(rows))
			}
		}
		for at := range blockHead + 4*3 { // counts, lengths and ends
			for _, x := range []byte{0x01, 0x80, 0xff} {
				broken := slices.Clone(b)
				broken[at] ^= x
				if rows, err := walk(t, broken, whole); err == nil && len(rows) != 3 {
					t.Errorf("byte %d: %d rows and no error", at, len(rows))
				}
			}
		}
	}
}

// FuzzLog: a log that is damaged ends in an error, in no more memory than it has bytes, and whatever is read of it is written as it was.
func FuzzLog(f *testing.F) {
	for _, whole := range []bool{false, true} {
		seed := written(f, whole)
		f.Add(seed, whole)
		f.Add(append(slices.Clone(seed), seed...), whole)
		f.Add(seed[:len(seed)-1], whole)
		f.Add([]byte{1}, whole)
		f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, whole)
	}
	f.Fuzz(func(t *testing.T, b []byte, whole bool) {
		rows, err := walk(t, b, whole)
		if err != nil {
			return
		}
		again := newLogWriter("", nil, whole)
		for _, r := range rows {
			if err := again.add(r); err != nil {
				t.Fatal(err)
			}
		}
		back, err := walk(t, sealed(t, again), whole)
		if err != nil {
			t.Fatal(err)
		}
		same := func(a, b row) bool { return bytes.Equal(a.key, b.key) && a.is == b.is && a.hash == b.hash }
		if !slices.EqualFunc(rows, back, same) {
			t.Fatalf("%v come back as %v", rows, back)
		}
	})
}
