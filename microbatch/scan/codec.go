package scan

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The compression codecs.
const (
	codecNone   = 0
	codecSnappy = 1
	codecGzip   = 2
	codecLZO    = 3
	codecBrotli = 4
	codecLZ4    = 5
	codecZstd   = 6
	codecLZ4Raw = 7
)

func checkCodec(codec int32) error {
	switch codec {
	case codecNone, codecSnappy, codecGzip, codecBrotli, codecZstd, codecLZ4Raw:
		return nil
	case codecLZO:
		return errors.New("codec LZO is not supported")
	case codecLZ4:
		return errors.New("codec LZ4 (deprecated, of several framings) is not supported; LZ4_RAW is")
	}
	return fmt.Errorf("unknown codec %d", codec)
}

// inflater decompresses pages. It keeps the decoders that are dear to make.
type inflater struct {
	limit int
	zstd  *zstd.Decoder
	room  int // the limit that zstd was made with
	gzip  *gzip.Reader
}

func (f *inflater) close() {
	if f.zstd != nil {
		f.zstd.Close()
		f.zstd = nil
	}
}

// slack is room that a decoder likes to have behind what it writes.
const slack = 64

// inflate decompresses src, whose size decompressed must be exactly len(dst).
// What lies behind that, up to the capacity, is undefined afterwards.
func (f *inflater) inflate(codec int32, dst, src []byte) error {
	var n int
	var err error
	switch codec {
	case codecSnappy:
		if n, err = snappy.DecodedLen(src); err == nil && n == len(dst) {
			var out []byte
			if out, err = snappy.Decode(dst, src); err == nil && len(out) > 0 && &out[0] != &dst[0] {
				copy(dst, out)
			}
		}
	case codecZstd:
		n, err = f.unzstd(dst, src)
	case codecGzip:
		n, err = f.gunzip(dst, src)
	case codecBrotli:
		n, err = readExactly(brotli.NewReader(bytes.NewReader(src)), dst)
	case codecLZ4Raw:
		n, err = lz4.UncompressBlock(src, dst)
	default:
		err = checkCodec(codec)
	}
	if err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	if n != len(dst) {
		return fmt.Errorf("decompress: %d bytes where the header says %d", n, len(dst))
	}
	return nil
}

// plausible says whether src can decompress to size bytes with the codec, as
// far as the codec itself bounds it.
func plausible(codec int32, size, src int) bool {
	most := map[int32]int{codecSnappy: 64, codecGzip: 1040, codecLZ4Raw: 256}[codec]
	return most == 0 || size <= 64+src*most
}

func (f *inflater) unzstd(dst, src []byte) (int, error) {
	if f.zstd != nil && f.room != f.limit {
		f.close()
	}
	if f.zstd == nil {
		// Not sparing its 128 KiB for literals: with room behind them too it copies in whole words.
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(false),
			zstd.WithDecoderMaxMemory(uint64(f.limit)+1), zstd.WithDecoderMaxWindow(max(uint64(f.limit), 1<<10)))
		if err != nil {
			return 0, err
		}
		f.zstd, f.room = d, f.limit
	}
	out, err := f.zstd.DecodeAll(src, dst[:0])
	if err == nil && len(out) == len(dst) && len(dst) > 0 && &out[0] != &dst[0] {
		copy(dst, out)
	}
	return len(out), err
}

func (f *inflater) gunzip(dst, src []byte) (int, error) {
	in := bytes.NewReader(src)
	var err error
	if f.gzip == nil {
		f.gzip, err = gzip.NewReader(in)
	} else {
		err = f.gzip.Reset(in)
	}
	if err != nil {
		f.gzip = nil
		return 0, cut(err)
	}
	return readExactly(f.gzip, dst)
}

// readExactly fills dst and checks that the stream ends there, cleanly.
func readExactly(r io.Reader, dst []byte) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err != nil {
		return n, cut(err)
	}
	var one [1]byte
	switch extra, err := io.ReadFull(r, one[:]); {
	case extra > 0:
		return n + extra, nil
	case !errors.Is(err, io.EOF):
		return n, err
	}
	return n, nil
}
