package slice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
)

// hired are n hands, of which the caller is one.
func hired(n int) *hands {
	h := newHands(n)
	h.wait()
	return h
}

// TestManyHandsMakeTheSliceOfOne: bytes, rejected rows and the error told are
// the same however many decode, with spills and without.
func TestManyHandsMakeTheSliceOfOne(t *testing.T) {
	made, failed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		format := rapid.SampledFrom([]scan.Format{scan.NDJSON, scan.CSV}).Draw(rt, "format")
		x := &texts{bodies: map[string]string{}}
		for range rapid.IntRange(1, 4).Draw(rt, "draws") {
			for _, body := range randomTexts(rt, format).bodies {
				x.bodies[fmt.Sprint(len(x.bodies))] = body
			}
		}
		s := x.slicer(t, format, rapid.SampledFrom([]scan.RowPolicy{scan.Fail, scan.Reject}).Draw(rt, "row"))
		s.TableBytes = rapid.SampledFrom([]int64{0, 1}).Draw(rt, "table")
		if rapid.Bool().Draw(rt, "reuse") {
			s.Reuse = &Reuse{}
		}
		var hint []column.Type
		if rapid.Bool().Draw(rt, "hint") {
			for _, c := range s.Program.Columns() {
				hint = append(hint, column.Of(map[bool]column.Kind{true: column.Float64, false: column.String}[c.Path == "n"]))
			}
		}
		want, wrong := s.build(t.Context(), x.input(), hint, nil)
		got, err := s.build(t.Context(), x.input(), hint, hired(rapid.IntRange(1, 5).Draw(rt, "hands")))
		if fmt.Sprint(err) != fmt.Sprint(wrong) {
			rt.Fatalf("%v, by one hand %v", err, wrong)
		}
		if err != nil {
			failed++
			return
		}
		made++
		if !bytes.Equal(runOf(rt, got), runOf(rt, want)) {
			rt.Fatal("another run than by one hand")
		}
		got.Run, want.Run = nil, nil
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("%+v\nby one hand %+v", got, want)
		}
	})
	if made == 0 || failed == 0 {
		t.Errorf("%d slices were made, %d failed", made, failed)
	}
}

// meeting is a blob whose bytes come only once so many are being read.
type meeting struct {
	textBlob
	all *sync.WaitGroup
	one *sync.Once
}

func (m meeting) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	m.one.Do(m.all.Done)
	met := make(chan struct{})
	go func() { m.all.Wait(); close(met) }()
	select {
	case <-met:
	case <-time.After(10 * time.Second):
		return nil, errors.New("nobody read another object meanwhile")
	}
	return m.textBlob.ReadRange(ctx, off, n)
}

// TestSpareHandsDecode: the objects of a single partition are decoded by as many
// workers as there are.
func TestSpareHandsDecode(t *testing.T) {
	x := &texts{bodies: map[string]string{}}
	const workers = 3
	for i := range workers {
		x.bodies[fmt.Sprint(i)] = `{"k":"x","n":1,"s":"a"}` + "\n"
	}
	s := x.slicer(t, scan.NDJSON, scan.Fail)
	s.Limits.Whole = 1 // what is larger is read by who decodes it
	var all sync.WaitGroup
	all.Add(workers)
	once := map[string]*sync.Once{"0": {}, "1": {}, "2": {}}
	s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
		return meeting{textBlob{x, o.Key}, &all, once[o.Key]}, nil
	}
	w, err := s.Window(t.Context(), []Input{x.input()}, nil, nil, NewCache(1<<20), workers)
	if err != nil || len(w.Slices) != 1 || w.Slices[0].Objects[2].Rows != 1 {
		t.Fatalf("%+v, %v", w, err)
	}
}

// wholly is meeting for blobs that are read whole.
type wholly struct{ meeting }

func (m wholly) ReadAll(ctx context.Context) ([]byte, error) {
	return m.ReadRange(ctx, 0, m.Size())
}

// TestPartitionsAreFetchedAhead: a single worker has the objects of partitions to
// come fetched while it waits for that of the first, within the bound in bytes.
func TestPartitionsAreFetchedAhead(t *testing.T) {
	x := &texts{bodies: map[string]string{}}
	var inputs []Input
	const partitions, size = 5, 24
	once := map[string]*sync.Once{}
	for i := range partitions {
		key := fmt.Sprint(i)
		x.bodies[key], once[key] = `{"k":"x","n":1,"s":"a"}`+"\n", new(sync.Once)
		start := sliceStart.Add(time.Duration(i) * time.Minute)
		inputs = append(inputs, Input{Start: start, Objects: []partition.Object{{Key: key, ETag: key, Size: size, Partition: start}}})
	}
	s := x.slicer(t, scan.NDJSON, scan.Fail)
	s.Limits.Ahead = scan.NewAhead((partitions - 1) * roomOf(size))
	types := []column.Type{column.Of(column.String), column.Of(column.Int64), column.Of(column.String)}
	var all sync.WaitGroup
	all.Add(partitions)
	s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
		return wholly{meeting{textBlob{x, o.Key}, &all, once[o.Key]}}, nil
	}
	w, err := s.Window(t.Context(), inputs, nil, types, NewCache(1<<20), 1)
	if err != nil || len(w.Slices) != partitions {
		t.Fatalf("%+v, %v", w, err)
	}
	if !s.Limits.Ahead.Take(s.Limits.Ahead.Most()) {
		t.Error("not all bytes were given back")
	}
}

// TestTheFirstRejectsAreKept: of the rows left out the first in the order of the
// objects are kept, whoever is the first to meet one.
func TestTheFirstRejectsAreKept(t *testing.T) {
	x := &texts{bodies: map[string]string{}}
	for i := range 6 {
		x.bodies[fmt.Sprint(i)] = `{"k":"x","n":1,"s":"a"}` + "\n" + strings.Repeat("{\n", []int{300, 0, 600, 2000, 10, 1500}[i])
	}
	s := x.slicer(t, scan.NDJSON, scan.Reject)
	for n := range 6 {
		got, err := s.build(t.Context(), x.input(), nil, hired(1+n))
		if err != nil || got.Rejected != 4410 || len(got.Rejects) != maxRejects {
			t.Fatalf("%d hands: %+v, %v", n, got, err)
		}
		for i, r := range got.Rejects {
			key, row := "0", i
			if i >= 900 {
				key, row = "3", i-900
			} else if i >= 300 {
				key, row = "2", i-300
			}
			if r.Key != key || r.Row != int64(row+2) {
				t.Fatalf("%d hands: reject %d is of %s row %d", n, i, r.Key, r.Row)
			}
		}
	}
}

// TestAPanicOfAnyHandIsAnError.
func TestAPanicOfAnyHandIsAnError(t *testing.T) {
	x := &texts{bodies: map[string]string{}}
	for i := range 8 {
		x.bodies[fmt.Sprint(i)] = `{"k":"x","n":1,"s":"a"}` + "\n"
	}
	s := x.slicer(t, scan.NDJSON, scan.Fail)
	open := s.Open
	s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
		if o.Key >= "3" {
			panic("a bug at " + o.Key)
		}
		return open(o)
	}
	for n := range 4 {
		s.Limits.Ahead = scan.NewAhead(0)
		_, err := s.build(t.Context(), x.input(), nil, hired(1+n))
		if !errors.Is(err, rescue.ErrPanic) || !strings.Contains(err.Error(), "a bug at 3") {
			t.Errorf("%d hands: %v", 1+n, err)
		}
	}
}
