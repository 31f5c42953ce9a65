package table

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/tuple"
)

// TestARunOfLongKeysCanBeOpened: the block index has a key for each block, in
// full, and may be larger than a block.
func TestARunOfLongKeysCanBeOpened(t *testing.T) {
	shape := threeCounts(t)
	var out bytes.Buffer
	out.Grow(MaxBlock + 3<<20)
	w, err := NewWriter(&out, shape, Options{Compress: true})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 9
	long := bytes.Repeat([]byte("x"), MaxBlock/(keys-1))
	for i := range keys {
		if err := w.Append(tuple.AppendString(nil, fmt.Sprint(i)+string(long)), [][]byte{{1}, nil, nil}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := OpenBytes(out.Bytes(), shape)
	if err != nil {
		t.Fatal(err)
	}
	c, n := run.Cursor(), 0
	for c.Next() {
		n++
	}
	if c.Err() != nil || n != keys {
		t.Errorf("%d keys of %d came back (%v)", n, keys, c.Err())
	}
}

// TestAnIndexBeyondItsLengthIsRefused: the trailer has four bytes for its length.
func TestAnIndexBeyondItsLengthIsRefused(t *testing.T) {
	w, err := NewWriter(io.Discard, threeCounts(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	size := uint64(math.MaxUint32)
	w.index = make([]byte, size) // which nobody touches
	if _, err := w.Close(); err == nil || !strings.Contains(err.Error(), "block index of 4294967329 bytes exceeds 4294967295") {
		t.Errorf("got %v, want that the index is too large", err)
	}
	if _, err := w.Close(); err == nil {
		t.Error("the writer closes after all")
	}
}
