package slice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	objects "github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
)

// counting counts the reads that reach a store, and those without a condition.
type counting struct {
	store.Store
	gets, loose, bytes atomic.Int64
}

func (c *counting) Get(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	c.gets.Add(1)
	if o.IfMatch == "" {
		c.loose.Add(1)
	}
	obj, err := c.Store.Get(ctx, key, o)
	if err == nil {
		c.bytes.Add(obj.Length)
	}
	return obj, err
}

// put stores a Parquet file of so many rows in so many groups, of which the
// columns read are a small part.
func (c *counting) put(t *testing.T, key string, rows, groups, padding int) partition.Object {
	t.Helper()
	type row struct {
		K   int64  `parquet:"k"`
		N   int64  `parquet:"n"`
		Pad string `parquet:"pad,plain"`
	}
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[row](&buf)
	for g := range groups {
		for i := range rows / groups {
			if _, err := w.Write([]row{{int64(i % 100), int64(g), strings.Repeat("x", padding)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	etag, err := c.Put(t.Context(), key, bytes.NewReader(buf.Bytes()), store.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return partition.Object{Key: key, ETag: etag, Size: int64(buf.Len()), Partition: sliceStart}
}

func sums(t testing.TB, st store.Store) Builder {
	t.Helper()
	program, err := index.Compile(index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "n", Fn: "sum", Args: []string{"n"}}}}, combine.Builtins())
	if err != nil {
		t.Fatal(err)
	}
	return Builder{Program: program, Format: scan.Parquet, Reuse: &Reuse{}, Open: func(o partition.Object) (scan.Blob, map[string]string) {
		return objects.NewBlob(st, o), nil
	}}
}

// TestRequestsOfAParquetFile: a small object is one request, of a larger one
// its end and what is wanted of each row group, types known or not; every read
// is conditional.
func TestRequestsOfAParquetFile(t *testing.T) {
	for _, c := range []struct {
		name            string
		rows, groups    int
		padding         int
		requests        int64
		whole, wantHint bool
	}{
		{"small", 1000, 1, 10, 1, true, false},
		{"small, types known", 1000, 1, 10, 1, true, true},
		{"large, one group", 2000, 1, 5000, 2, false, false},
		{"large, one group, types known", 2000, 1, 5000, 2, false, true},
		{"large, three groups", 3000, 3, 5000, 4, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := &counting{Store: mem.New("raw")}
			o := st.put(t, "a", c.rows, c.groups, c.padding)
			if whole := o.Size <= scan.DefaultWhole; whole != c.whole {
				t.Fatalf("the object has %d bytes", o.Size)
			}
			s := sums(t, st)
			var hint []column.Type
			if c.wantHint {
				hint = []column.Type{column.Of(column.Int64), column.Of(column.Int64)}
			}
			slice, err := s.Build(t.Context(), Input{Start: sliceStart, Objects: []partition.Object{o}}, hint)
			if err != nil || slice.Objects[0].Rows != int64(c.rows) {
				t.Fatal(slice, err)
			}
			if st.gets.Load() != c.requests || st.loose.Load() != 0 {
				t.Errorf("%d requests, want %d; %d of them without a condition", st.gets.Load(), c.requests, st.loose.Load())
			}
			if !c.whole && st.bytes.Load() > o.Size/4 {
				t.Errorf("%d bytes were read of %d", st.bytes.Load(), o.Size)
			}
		})
	}
}

// TestObjectsAreFetchedAhead: the requests of a partition are one an object, and
// an object that fails is the one that is named.
func TestObjectsAreFetchedAhead(t *testing.T) {
	st := &counting{Store: mem.New("raw")}
	in := Input{Start: sliceStart}
	for i := range 12 {
		in.Objects = append(in.Objects, st.put(t, fmt.Sprintf("%02d", i), 500, 1, 10))
	}
	s := sums(t, st)
	want, err := s.Build(t.Context(), in, nil)
	if err != nil || st.gets.Load() != 12 {
		t.Fatalf("%d requests, %v", st.gets.Load(), err)
	}
	s.TableBytes = 4 * roomOf(in.Objects[0].Size) // room for one object ahead
	got, err := s.Build(t.Context(), in, want.Built)
	if err != nil || st.gets.Load() != 24 || !bytes.Equal(runOf(t, got), runOf(t, want)) {
		t.Fatalf("%d requests, %v", st.gets.Load(), err)
	}
	if err := st.Delete(t.Context(), "07"); err != nil {
		t.Fatal(err)
	}
	for _, hint := range [][]column.Type{nil, want.Built} {
		_, err = s.Build(t.Context(), in, hint)
		if e := (*ObjectError)(nil); !errors.As(err, &e) || e.Object.Key != "07" {
			t.Errorf("%v", err)
		}
	}
}

// TestOnePassOfParquet: where types are known and hold the objects', one pass
// makes the slice that two do; where they do not, two passes are made.
func TestOnePassOfParquet(t *testing.T) {
	type narrow struct {
		K int32  `parquet:"k"`
		N *int32 `parquet:"n,optional"`
	}
	type wide struct {
		K int64  `parquet:"k"`
		N *int64 `parquet:"n,optional"`
	}
	rapid.Check(t, func(rt *rapid.T) {
		x := &texts{bodies: map[string]string{}}
		for i := range rapid.IntRange(1, 3).Draw(rt, "objects") {
			var buf bytes.Buffer
			n := rapid.IntRange(0, 5).Draw(rt, "rows")
			var err error
			if rapid.Bool().Draw(rt, "narrow") {
				rows := make([]narrow, n)
				for j := range rows {
					rows[j].K = int32(j)
				}
				err = parquet.Write(&buf, rows)
			} else {
				rows := make([]wide, n)
				for j := range rows {
					v := int64(j) << 40
					rows[j] = wide{int64(j), &v}
				}
				err = parquet.Write(&buf, rows)
			}
			if err != nil {
				rt.Fatal(err)
			}
			x.bodies[fmt.Sprint(i)] = buf.String()
		}
		s := sums(t, nil)
		s.Open = func(o partition.Object) (scan.Blob, map[string]string) { return textBlob{x, o.Key}, nil }
		hint := []column.Type{}
		for range 2 {
			hint = append(hint, column.Of(rapid.SampledFrom([]column.Kind{column.Null, column.Int32, column.Int64}).Draw(rt, "hint")))
		}
		got, err := s.Build(t.Context(), x.input(), hint)
		want, wrong := s.buildObserved(t.Context(), x.input(), hint, nil)
		if err != nil || wrong != nil {
			rt.Fatal(err, wrong)
		}
		if !bytes.Equal(runOf(rt, got), runOf(rt, want)) {
			rt.Fatal("another run")
		}
		got.Run, want.Run = nil, nil
		if !reflect.DeepEqual(got, want) {
			rt.Fatalf("one pass %+v\ntwo passes %+v", got, want)
		}
	})
}
