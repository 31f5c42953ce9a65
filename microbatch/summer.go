package microbatch

import (
	"crypto/sha256"
	"hash"
	"io"

	"github.com/deltad/deltad/microbatch/spool"
)

// summer hashes what it passes on.
type summer struct {
	out  io.Writer
	hash hash.Hash
}

func newSummer(out io.Writer) *summer { return &summer{out: out, hash: sha256.New()} }

// Write implements io.Writer.
func (s *summer) Write(b []byte) (int, error) {
	s.hash.Write(b)
	return s.out.Write(b)
}

func sectionOf(d *spool.Data) *io.SectionReader { return io.NewSectionReader(d, 0, d.Size()) }
