package table

import (
	"bytes"
	"testing"
)

// TestABlockThatEndsEarlyIsRefused: a block but the last ends with the row that
// fills it. One that ends before is none of a writer's, whoever reads it.
func TestABlockThatEndsEarlyIsRefused(t *testing.T) {
	shape := threeCounts(t)
	key := func(i int) []byte { return []byte{byte(i >> 8), byte(i)} }
	tests := []struct {
		name    string
		rows    int // of the first block
		acc     int // bytes of each but the last
		last    int // bytes of the last
		refused bool
	}{
		{"one row", 1, 1, 1, true},
		{"rows but one", blockRows - 1, 1, 1, true},
		{"rows", blockRows, 1, 1, false},
		{"bytes but one", 7, 9 << 10, blockBytes - 6*9<<10 - 7*2 - 1, true},
		{"bytes", 7, 9 << 10, blockBytes - 6*9<<10 - 7*2, false},
		{"a large row", 1, 1, blockBytes, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := NewWriter(&out, shape, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range tt.rows + 1 {
				n := tt.acc
				switch i {
				case tt.rows - 1:
					n = tt.last
				case tt.rows:
					w.flush(true)
				}
				if err := w.Append(key(i), [][]byte{bytes.Repeat([]byte{1}, n), nil, {}}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Close(); err != nil {
				t.Fatal(err)
			}
			run, err := OpenBytes(out.Bytes(), shape)
			if err != nil || len(run.blocks) != 2 {
				t.Fatalf("%d blocks, %v", len(run.blocks), err)
			}
			rows, blocks := run.Cursor(), run.Blocks()
			for rows.Next() {
			}
			for blocks.Next() {
			}
			for by, err := range map[string]error{"row by row": rows.Err(), "block by block": blocks.Err(), "verified": run.Verify()} {
				if want := "run block 0: it ends where none does"; tt.refused && (err == nil || err.Error() != want) || !tt.refused && err != nil {
					t.Errorf("%s: got %v, want refused %t", by, err, tt.refused)
				}
			}
		})
	}
}
