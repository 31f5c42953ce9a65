//go:build unix

package squeeze

import (
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// processor is what the process has used of it, in nanoseconds.
func processor(b *testing.B) int64 {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkAppend compresses what a page has of texts, here and by the library.
func BenchmarkAppend(b *testing.B) {
	library, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		b.Fatal(err)
	}
	r := newSource(1)
	for _, c := range []struct {
		name string
		make func(n int) []byte
	}{{"offers", r.offers}, {"titles", r.titles}, {"digits", r.digits}, {"noise", r.bytes}} {
		const rows = 4096
		pages := make([][]byte, 20) // so many that the processor learns none by heart
		for i := range pages {
			pages[i] = c.make(rows)
		}
		for _, by := range []struct {
			name   string
			append func(dst, src []byte) []byte
		}{{"library", func(dst, src []byte) []byte { return library.EncodeAll(src, dst) }}, {"squeeze", New().Append}} {
			b.Run(c.name+"/"+by.name, func(b *testing.B) {
				var dst []byte
				size := 0
				before := processor(b)
				for b.Loop() {
					size = 0
					for _, p := range pages {
						dst = by.append(dst[:0], p)
						size += len(dst)
					}
				}
				texts := float64(rows * len(pages))
				b.ReportMetric(float64(processor(b)-before)/float64(b.N)/texts, "cpu-ns/doc")
				b.ReportMetric(float64(size)/texts, "bytes/doc")
			})
		}
	}
}
