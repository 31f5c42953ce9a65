package slice

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/scan"
	objects "github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/fault"
	"github.com/deltad/deltad/store/mem"
)

// TestFaultsOfALargeObject: a read that breaks, or an object that is replaced,
// between any two of its row groups is told as that, however far ahead the row
// groups are read; and a slow store makes no other slice.
func TestFaultsOfALargeObject(t *testing.T) {
	const groups = 5
	inner := mem.New("raw")
	plain := &counting{Store: inner}
	o := plain.put(t, "a", 5000, groups, 500)
	var before bytes.Buffer
	obj, err := inner.Get(t.Context(), "a", store.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.ReadFrom(obj.Body); err != nil {
		t.Fatal(err)
	}
	build := func(ahead int64, rules ...fault.Rule) (*Slice, *counting, error) {
		st := &counting{Store: fault.New(inner, rules...)}
		s := sums(t, st)
		s.Limits.Whole, s.Limits.Ahead = 1, scan.NewAhead(ahead)
		slice, err := s.Build(t.Context(), Input{Start: sliceStart, Objects: []partition.Object{o}}, nil)
		if !s.Limits.Ahead.Take(ahead) {
			t.Errorf("not all of %d bytes were given back", ahead)
		}
		return slice, st, err
	}
	want, _, err := build(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []int64{0, 20_000, 8 << 20} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			got, st, err := build(ahead, fault.Rule{Kind: fault.Delay, Op: "get", Delay: 2 * time.Millisecond})
			if err != nil || !bytes.Equal(runOf(t, got), runOf(t, want)) {
				t.Errorf("of a slow store: %v", err)
			}
			if st.gets.Load() != 1+groups || st.loose.Load() != 0 {
				t.Errorf("%d requests, %d of them without a condition", st.gets.Load(), st.loose.Load())
			}
			for k := range 1 + groups {
				_, _, err := build(ahead, fault.Rule{Kind: fault.Truncate, Op: "get", Skip: k, Times: 1, N: 100})
				if e := (*ObjectError)(nil); !errors.As(err, &e) || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, objects.ErrChanged) {
					t.Errorf("read %d breaks: %v", k, err)
				}
				replaced := func() {
					if _, err := inner.Put(t.Context(), "a", bytes.NewReader(append(bytes.Clone(before.Bytes()), 0)), store.PutOptions{}); err != nil {
						t.Error(err)
					}
				}
				_, _, err = build(ahead, fault.Rule{Kind: fault.Delay, Op: "get", Skip: k, Times: 1, OnHit: replaced})
				if e := (*ObjectError)(nil); !errors.As(err, &e) || e.Object.Key != "a" || !errors.Is(err, objects.ErrChanged) {
					t.Errorf("replaced before read %d: %v", k, err)
				}
				o.ETag, err = inner.Put(t.Context(), "a", bytes.NewReader(before.Bytes()), store.PutOptions{})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestNoObjectIsBlamedForADisk: where runs cannot be spilled the slice fails, and
// no object is named, for it would be left out as if it could not be read.
func TestNoObjectIsBlamedForADisk(t *testing.T) {
	st := &counting{Store: mem.New("raw")}
	o := st.put(t, "a", 5000, 5, 500)
	for name, hint := range map[string][]column.Type{"types unknown": nil, "types known": built(t, st, o)} {
		s := sums(t, st)
		s.TableBytes, s.Memory, s.Dir = 1, spool.NewBudget(0), filepath.Join(t.TempDir(), "gone")
		_, err := s.Build(t.Context(), Input{Start: sliceStart, Objects: []partition.Object{o}}, hint)
		if blamed := (*ObjectError)(nil); !errors.Is(err, fs.ErrNotExist) || errors.As(err, &blamed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// built are the types at which a slice of an object is built.
func built(t *testing.T, st store.Store, o partition.Object) []column.Type {
	t.Helper()
	s := sums(t, st)
	slice, err := s.Build(t.Context(), Input{Start: sliceStart, Objects: []partition.Object{o}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return slice.Built
}
