package slice

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/parquet-go/parquet-go"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/partition"
)

// TestReuseDoesNotShow: slices built one after another and side by side with
// what others left behind, a failed one among them, are those built with new
// memory.
func TestReuseDoesNotShow(t *testing.T) {
	inputs := make([]*texts, 6)
	for i := range inputs {
		inputs[i] = &texts{bodies: map[string]string{}}
		for o := range 2 {
			var b strings.Builder
			for r := range 100 + 900*i {
				fmt.Fprintf(&b, `{"k":"k%d","n":%d,"s":"s%d"}`+"\n", r*7919%(50+300*i), r+o, r%13)
			}
			inputs[i].bodies[fmt.Sprint(o)] = b.String()
		}
	}
	broken := &texts{bodies: map[string]string{"0": `{"k":"x","n":1,"s":"a"}` + "\n" + `{"k":"x","n":1,"s":` + "\n"}}
	for _, most := range []int64{0, 1 << 20} {
		reuse := &Reuse{}
		build := func(x *texts, r *Reuse) ([]byte, error) {
			s := x.slicer(t, scan.NDJSON, scan.Fail)
			s.Reuse, s.TableBytes = r, most
			slice, err := s.Build(t.Context(), x.input(), nil)
			if err != nil {
				return nil, err
			}
			return runOf(t, slice), nil
		}
		var all sync.WaitGroup
		for i, x := range inputs {
			want, err := build(x, nil)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				for range 3 {
					if _, err := build(broken, reuse); err == nil {
						t.Error("a broken object was built")
					}
					if got, err := build(x, reuse); err != nil || !bytes.Equal(got, want) {
						t.Errorf("input %d: %d bytes, want %d, %v", i, len(got), len(want), err)
					}
				}
			})
		}
		all.Wait()
	}
}

// intoBlob is a blob that reads into memory of the caller's.
type intoBlob struct{ textBlob }

func (b intoBlob) ReadInto(_ context.Context, buf []byte) ([]byte, error) {
	return append(buf[:0], b.x.bodies[b.key]...), nil
}

// TestObjectsShareMemoryUnseen: values that lie in an object's own bytes
// are read before those belong to another object.
func TestObjectsShareMemoryUnseen(t *testing.T) {
	type row struct {
		K string `parquet:"k,dict"`
		N int64  `parquet:"n"`
		S string `parquet:"s,plain"`
	}
	reuse := &Reuse{}
	for round := range 5 {
		x := &texts{bodies: map[string]string{}}
		for o := range 7 {
			var buf bytes.Buffer
			rows := make([]row, 3000)
			for i := range rows {
				rows[i] = row{fmt.Sprint("key ", (i*7919+o)%800), int64(i), fmt.Sprint("text ", round, o, i)}
			}
			if err := parquet.Write(&buf, rows, parquet.Compression(&parquet.Uncompressed)); err != nil {
				t.Fatal(err)
			}
			x.bodies[fmt.Sprint(o)] = buf.String()
		}
		s := x.slicer(t, scan.Parquet, scan.Fail)
		want, err := s.Build(t.Context(), x.input(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Reuse, s.Limits.Ahead = reuse, scan.NewAhead(2*int64(len(x.bodies["0"])))
		s.Open = func(o partition.Object) (scan.Blob, map[string]string) { return intoBlob{textBlob{x, o.Key}}, nil }
		for n, hint := range [][]column.Type{nil, want.Built, nil, want.Built} {
			got, err := s.build(t.Context(), x.input(), hint, hired(1+n))
			if err != nil || !bytes.Equal(runOf(t, got), runOf(t, want)) {
				t.Fatalf("%d hands: another slice, %v", 1+n, err)
			}
		}
	}
	reuse.mu.Lock() // the collector lets go of some at any time
	defer reuse.mu.Unlock()
	if len(reuse.mu.files) == 0 {
		t.Error("no memory was used again: nothing was compared")
	}
}

// TestReuseLetsGo: what nobody asks for goes with the collector.
func TestReuseLetsGo(t *testing.T) {
	r := &Reuse{}
	a := r.take()
	r.give(a)
	if r.take() != a {
		t.Fatal("what was given back is not there")
	}
	r.give(a)
	r.giveFile(r.takeFile(1000), keptFiles)
	if b := r.takeFile(900); cap(b) < 1000 || r.mu.bytes != 0 {
		t.Fatalf("%d bytes are there, %d beside them", cap(b), r.mu.bytes)
	} else {
		r.giveFile(b, keptFiles)
		r.giveFile(make([]byte, 1000), 1000)
	}
	if len(r.mu.files) != 1 {
		t.Fatalf("%d are kept, more than wanted", len(r.mu.files))
	}
	left := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.mu.idle) + len(r.mu.files)
	}
	for deadline := time.Now().Add(10 * time.Second); left() > 0; {
		if time.Now().After(deadline) {
			t.Fatal("it is still kept")
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}

// TestAReuseGoesWithItsOwner: what is idle is not kept for a Reuse that nobody has.
func TestAReuseGoesWithItsOwner(t *testing.T) {
	r := &Reuse{}
	r.give(r.take())
	r.giveFile(r.takeFile(1<<20), 1<<30)
	left := weak.Make(r)
	runtime.GC()
	runtime.KeepAlive(r)
	if left.Value() == nil {
		t.Fatal("it went while somebody had it")
	}
	r = nil
	runtime.GC() // the last collector may have somebody look at it still
	time.Sleep(time.Millisecond)
	runtime.GC()
	if left.Value() != nil {
		t.Error("it is kept after its owner")
	}
}
