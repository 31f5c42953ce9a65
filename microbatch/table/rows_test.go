package table

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

func threeCounts(t testing.TB) Shape {
	t.Helper()
	s := Shape{Keys: []column.Field{{Name: "k", Type: column.Of(column.Bytes)}}}
	for range 3 {
		fn, err := combine.Builtins()["count"].New(combine.Params{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Fns = append(s.Fns, fn)
	}
	return s
}

// frame makes a run of one block out of rows, with valid checksums.
func frame(s Shape, rows []byte, n int, first []byte) []byte {
	sum := func(b []byte) []byte { return binary.LittleEndian.AppendUint32(nil, crc32.Checksum(b, crcTable())) }
	h := s.header()
	out := append([]byte(magic), binary.LittleEndian.AppendUint32(nil, uint32(len(h)))...)
	out = append(append(out, h...), sum(h)...)
	foot := binary.AppendUvarint(nil, uint64(n))
	foot = append(foot, 1)
	foot = binary.AppendUvarint(foot, uint64(len(out)))
	foot = binary.AppendUvarint(foot, uint64(n))
	foot = appendString(foot, string(first))
	foot = append(foot, make([]byte, hashBytes)...)
	block := binary.LittleEndian.AppendUint32(nil, uint32(len(rows)))
	block = binary.LittleEndian.AppendUint32(block, uint32(len(rows)))
	block = append(append(block, storedRaw), rows...)
	out = append(append(out, block...), sum(block)...)
	out = append(append(out, foot...), sum(foot)...)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(foot)))
	return append(out, magic...)
}

// FuzzRows goes past the checksums: rows that a cursor accepts are those that
// a writer makes of them, byte for byte.
func FuzzRows(f *testing.F) {
	shape := threeCounts(f)
	var seed bytes.Buffer
	w, err := NewWriter(&seed, shape, Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, k := range []string{"", "a", "ab", "abc", "b\xff"} {
		if err := w.Append([]byte(k), [][]byte{{1, 2, 3}, nil, {1, 2, 4}}); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(w.block[frameBytes:], uint8(5), []byte{})
	f.Fuzz(func(t *testing.T, rows []byte, n uint8, first []byte) {
		run, err := OpenBytes(frame(shape, rows, int(n), first), shape)
		if err != nil {
			return
		}
		c := run.Cursor()
		rw, err := NewWriter(&bytes.Buffer{}, shape, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var last []byte
		for i := 0; c.Next(); i++ {
			if i > 0 && c.Shared() != shared(last, c.Key()) {
				t.Fatalf("%x shares %d with %x", c.Key(), c.Shared(), last)
			}
			last = append(last[:0], c.Key()...)
			if len(rw.block) > blockSize/2 {
				return // the writer would begin another block
			}
			if err := rw.Append(c.Key(), [][]byte{c.Acc(0), c.Acc(1), c.Acc(2)}); err != nil {
				t.Fatalf("accepted rows are refused: %v", err)
			}
		}
		if c.Err() == nil && !bytes.Equal(rw.block[frameBytes:], rows) {
			t.Fatalf("accepted %x, written %x", rows, rw.block[frameBytes:])
		}
	})
}

func TestForeignRowsAreRefused(t *testing.T) {
	shape := threeCounts(t)
	tests := []struct {
		name string
		rows []byte
		n    int
		want string
	}{
		{"good", []byte{0, 1, 'a', 1, 5, 0, 0}, 1, ""},
		{"first key shares", []byte{1, 0, 1, 5, 0, 0}, 1, "run block 0: first key differs from the index"},
		{"no accumulator", []byte{0, 1, 'a', 0, 0, 0}, 1, "run block 0: row has no accumulator"},
		{"equal keys", []byte{0, 1, 'a', 1, 5, 0, 0, 1, 0, 1, 5, 0, 0}, 2, "run block 0: keys are out of order or a prefix is not maximal"},
		{"prefix too short", []byte{0, 1, 'a', 1, 5, 0, 0, 0, 2, 'a', 'b', 1, 5, 0, 0}, 2, "run block 0: keys are out of order or a prefix is not maximal"},
		{"accumulator prefix too short", []byte{0, 1, 'a', 1, 5, 1, 0, 5, 0}, 1, "run block 0: a prefix is not maximal"},
		{"accumulator prefix too long", []byte{0, 1, 'a', 1, 5, 2, 2, 0}, 1, "run block 0: cut short or not minimal"},
		{"claims a lot", []byte{0, 1, 'a', 0xff, 0xff, 0xff, 0x7f, 5, 0, 0}, 1, "run block 0: length is cut short, not minimal or too large"},
		{"bytes left", []byte{0, 1, 'a', 1, 5, 0, 0, 9}, 1, "run block 0: bytes are left over"},
		{"row missing", []byte{0, 1, 'a', 1, 5, 0, 0}, 2, "run block 0: length is cut short, not minimal or too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run, err := OpenBytes(frame(shape, tt.rows, tt.n, []byte("a")), shape)
			if err != nil {
				t.Fatal(err)
			}
			c := run.Cursor()
			for c.Next() {
			}
			got := ""
			if c.Err() != nil {
				got = c.Err().Error()
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestVerifyComparesTheHash(t *testing.T) {
	shape := threeCounts(t)
	run, err := OpenBytes(frame(shape, []byte{0, 1, 'a', 1, 5, 0, 0}, 1, []byte("a")), shape)
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Verify(); err == nil || err.Error() != "run content does not match its SHA-256" {
		t.Error(err)
	}
}

// TestHostileClaimsTakeNoMemory: a short file that claims a large block is
// refused for what it claims or what it lacks, within the bound.
func TestHostileClaimsTakeNoMemory(t *testing.T) {
	shape := threeCounts(t)
	b := frame(shape, []byte{0, 1, 'a', 1, 5, 0, 0}, 1, []byte("a"))
	at := len(magic) + 4 + len(shape.header()) + crcBytes
	binary.LittleEndian.PutUint32(b[at+4:], MaxBlock+1)
	b[at+8] = storedZstd
	end := at + frameBytes + 7
	binary.LittleEndian.PutUint32(b[end:], crc32.Checksum(b[at:end], crcTable()))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run, err := OpenBytes(b, shape)
	if err != nil {
		t.Fatal(err)
	}
	if c := run.Cursor(); c.Next() || c.Err() == nil {
		t.Fatal("the claim was believed")
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes taken", n)
	}
}
