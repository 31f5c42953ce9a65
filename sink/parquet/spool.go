package parquet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// spool takes a file's bytes in order, hashes them, and gives them back for reading: from memory while they are few, from a temporary
// file after that.
type spool struct {
	dir  string
	max  int
	mem  []byte
	file *os.File
	size int64
	sum  hash.Hash
}

func newSpool(dir string, limit int) *spool { return &spool{dir: dir, max: limit, sum: sha256.New()} }

func (s *spool) Write(b []byte) (int, error) {
	s.sum.Write(b)
	s.size += int64(len(b))
	if s.file == nil && len(s.mem)+len(b) <= s.max {
		s.mem = append(s.mem, b...)
		return len(b), nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "deltad-output-*.parquet")
		if err != nil {
			return 0, fmt.Errorf("spool output: %w", err)
		}
		s.file = f
		if _, err := f.Write(s.mem); err != nil {
			return 0, fmt.Errorf("spool output: %w", err)
		}
		s.mem = nil
	}
	n, err := s.file.Write(b)
	if err != nil {
		return n, fmt.Errorf("spool output: %w", err)
	}
	return n, nil
}

func (s *spool) hash() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// body returns the bytes from the start.
func (s *spool) body() io.ReadSeeker {
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, s.size)
	}
	return io.NewSectionReader(bytesAt(s.mem), 0, s.size)
}

// Close removes the temporary file, if there is one.
func (s *spool) Close() error {
	if s.file == nil {
		return nil
	}
	err := errors.Join(s.file.Close(), os.Remove(s.file.Name()))
	s.file = nil
	return err
}

type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
