package slice

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/scan"
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

// TestReuseLetsGo: what nobody asks for goes with the collector.
func TestReuseLetsGo(t *testing.T) {
	r := &Reuse{}
	a := r.take()
	r.give(a)
	if r.take() != a {
		t.Fatal("what was given back is not there")
	}
	r.give(a)
	left := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.mu.idle)
	}
	for deadline := time.Now().Add(10 * time.Second); left() > 0; {
		if time.Now().After(deadline) {
			t.Fatal("it is still kept")
		}
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
}
