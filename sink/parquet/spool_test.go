package parquet

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"testing"
)

func TestSpoolMovesToAFileAndLeavesNone(t *testing.T) {
	for _, tc := range []struct {
		name  string
		size  int
		files int
	}{{"nothing", 0, 0}, {"in memory", 100, 0}, {"just full", 1000, 0}, {"in a file", 1001, 1}, {"much", 50_000, 1}} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			s := newSpool(dir, 1000)
			want := bytes.Repeat([]byte("0123456789"), tc.size/10+1)[:tc.size]
			for rest := want; len(rest) > 0; {
				n := min(len(rest), 77)
				if _, err := s.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			for range 2 { // a store may read the body again
				body := s.body()
				got, err := io.ReadAll(body)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes, %v", len(got), err)
				}
				if end, err := body.Seek(0, io.SeekEnd); err != nil || end != int64(tc.size) {
					t.Errorf("ends at %d, %v", end, err)
				}
			}
			if sum := sha256.Sum256(want); s.hash() != hex.EncodeToString(sum[:]) {
				t.Error("another hash")
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != tc.files {
				t.Errorf("%d files while spooling, %v", len(files), err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
				t.Errorf("%d files left, %v", len(files), err)
			}
		})
	}
}

func TestSpoolSaysWhereItCannotWrite(t *testing.T) {
	s := newSpool(t.TempDir()+"/gone", 1)
	if _, err := s.Write([]byte("ab")); err == nil {
		t.Error("wrote into a directory that is not there")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
