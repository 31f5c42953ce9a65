package source_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

func TestBlobReadsOneVersion(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(st *mem.Store) error
		want   error // nil: it reads
	}{
		{"as listed", func(*mem.Store) error { return nil }, nil},
		{"replaced", func(st *mem.Store) error {
			_, err := st.Put(t.Context(), "k", bytes.NewReader([]byte("other bytes")), store.PutOptions{})
			return err
		}, source.ErrChanged},
		{"shorter now", func(st *mem.Store) error {
			_, err := st.Put(t.Context(), "k", bytes.NewReader([]byte("x")), store.PutOptions{})
			return err
		}, source.ErrChanged},
		{"removed", func(st *mem.Store) error { return st.Delete(t.Context(), "k") }, source.ErrChanged},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := mem.New("raw")
			etag, err := st.Put(t.Context(), "k", bytes.NewReader([]byte("0123456789")), store.PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			b := source.NewBlob(st, partition.Object{Key: "k", ETag: etag, Size: 10})
			if err := c.change(st); err != nil {
				t.Fatal(err)
			}
			part, err := b.ReadRange(t.Context(), 2, 3)
			if !errors.Is(err, c.want) || c.want == nil && string(part) != "234" {
				t.Errorf("range %q, %v, want %v", part, err, c.want)
			}
			whole, err := b.ReadAll(t.Context())
			if !errors.Is(err, c.want) || c.want == nil && string(whole) != "0123456789" {
				t.Errorf("whole %q, %v, want %v", whole, err, c.want)
			}
		})
	}
}

func TestBlobKeepsAWholeRead(t *testing.T) {
	st := mem.New("raw")
	etag, err := st.Put(t.Context(), "k", bytes.NewReader([]byte("0123456789")), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := source.NewBlob(st, partition.Object{Key: "k", ETag: etag, Size: 10})
	if _, err := b.ReadAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := st.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	again, err := b.ReadAll(t.Context())
	if err != nil || string(again) != "0123456789" {
		t.Errorf("second read %q, %v", again, err)
	}
	if part, err := b.ReadRange(t.Context(), 8, 2); err != nil || string(part) != "89" {
		t.Errorf("range %q, %v", part, err)
	}
	if none, err := b.ReadRange(t.Context(), 10, 0); err != nil || len(none) != 0 {
		t.Errorf("empty range %q, %v", none, err)
	}
}

func TestBlobListedWithAnotherSize(t *testing.T) {
	st := mem.New("raw")
	etag, err := st.Put(t.Context(), "k", bytes.NewReader([]byte("0123456789")), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, 1, 9, 11, 1 << 40} {
		b := source.NewBlob(st, partition.Object{Key: "k", ETag: etag, Size: size})
		if body, err := b.ReadAll(t.Context()); size > 0 && !errors.Is(err, source.ErrChanged) || err == nil && int64(len(body)) != size {
			t.Errorf("listed with %d bytes: %q, %v", size, body, err)
		}
	}
}
