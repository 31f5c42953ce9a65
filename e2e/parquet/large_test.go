//go:build integration

package parquet_test

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/parquet-go/parquet-go/format"
)

// largeGood are objects whose rows are large: they are read.
func largeGood() []hostile {
	a := strings.Repeat("a", mib)
	noisy := func(head, tail string, first string) func(t *testing.T, f *os.File) {
		return func(t *testing.T, f *os.File) { // little noise, so that it is no bomb
			z := gzip.NewWriter(f)
			w := bufio.NewWriter(z)
			r := rand.New(rand.NewPCG(1, 2))
			fill(t, w, []byte(first), 1)
			for i := range 300 {
				noise := make([]byte, 4<<10)
				for j := range noise {
					noise[j] = byte('a' + r.IntN(26))
				}
				fill(t, w, fmt.Appendf(nil, head, i%3), 1)
				fill(t, w, noise, 1)
				fill(t, w, []byte(a), 1)
				fill(t, w, []byte(tail), 1)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	value := bytes.Repeat([]byte("v"), mib)
	return []hostile{
		{name: "300 rows of a mebibyte, ndjson", file: "a.ndjson.gz", fields: withText, write: noisy(`{"k":%d,"s":"`, "\"}\n", "")},
		{name: "300 rows of a mebibyte, csv", file: "a.csv.gz", fields: withText, write: noisy(`%d,`, "\n", "k,s\n")},
		{name: "600 rows of one mebibyte of dictionary", file: "a.parquet", fields: `, s: {latest: k}`,
			write: crafted{phys: format.ByteArray, rows: 600, pages: []craftedPage{
				{dict: true, values: 1, body: prefixed(value)},
				{values: 600, encoding: format.RLEDictionary, body: append([]byte{1}, run(600, 0)...)},
			}}.write},
	}
}

// TestLargeRows: objects of large rows are read within the budget and 64 MiB.
func TestLargeRows(t *testing.T) {
	for _, h := range largeGood() {
		t.Run(h.name, func(t *testing.T) {
			code, log, peak := step(t, h)
			t.Logf("%d MiB", peak/mib)
			if code != 0 {
				t.Errorf("exit %d\n%s", code, log)
			}
			if peak > budget+beyond {
				t.Errorf("peak of %d MiB under a budget of %d MiB", peak/mib, budget/mib)
			}
		})
	}
}
