package parquet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
)

// Spool takes a file's bytes in order until the file is handed over. Exactly one of Seal and Abort ends it.
type Spool interface {
	io.Writer
	// Grow says that n more bytes come soon.
	Grow(n int)
	// Seal returns what was written.
	Seal() (Body, error)
	// Abort gives everything back.
	Abort()
}

// Body is what was written to a Spool.
type Body interface {
	io.ReaderAt
	// Close gives memory and files back.
	Close()
}

// output is a file being written: its bytes on their way into a spool, counted and hashed.
type output struct {
	spool Spool
	size  int64
	sum   hash.Hash
}

func newOutput(s Spool) *output { return &output{spool: s, sum: sha256.New()} }

func (o *output) Write(b []byte) (int, error) {
	n, err := o.spool.Write(b)
	o.sum.Write(b[:n])
	o.size += int64(n)
	return n, err
}

func (o *output) hash() string { return hex.EncodeToString(o.sum.Sum(nil)) }

// memory is the spool of a writer that was given none.
type memory struct{ bytes.Buffer }

func (m *memory) Seal() (Body, error) { return held{bytes.NewReader(m.Bytes())}, nil }
func (m *memory) Abort()              {}

type held struct{ *bytes.Reader }

func (held) Close() {}
