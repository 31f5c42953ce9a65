package layers

import (
	"bytes"

	"github.com/deltad/deltad/microbatch/window"
)

// rows walks the rows of a Log, the parts of it merged: of a key the newest one says what it is. ok says that it stands at a row.
type rows struct {
	heap []standing // those that stand at a row, the least key first and of equal ones the newest
	ok   bool
	last []byte // scratch
}

// standing is a part that stands at a row.
type standing struct {
	*logReader
	age int // the newest has the least
}

// read stands at the first row of a Log; a nil one has none.
func (l *Log) read() (*rows, error) {
	r := &rows{}
	if l == nil {
		return r, nil
	}
	for i, p := range l.parts {
		in, err := p.read(l.whole)
		if err != nil {
			return nil, err
		}
		if in.ok {
			r.heap = append(r.heap, standing{in, len(l.parts) - i})
		}
	}
	for i := len(r.heap)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
	return r, r.settle()
}

// The row it stands at, until the next one.
func (r *rows) key() []byte      { return r.heap[0].key() }
func (r *rows) same(is row) bool { return r.heap[0].same(is) }
func (r *rows) is() window.Row   { return r.heap[0].is() }

// next stands at the next row.
func (r *rows) next() error {
	if err := r.pass(); err != nil {
		return err
	}
	return r.settle()
}

// pass goes on in all parts that stand at the key of the first.
func (r *rows) pass() error {
	several := len(r.heap) > 1
	if several {
		r.last = append(r.last[:0], r.key()...)
	}
	for {
		if err := r.heap[0].next(); err != nil {
			return err
		}
		if !r.heap[0].ok {
			n := len(r.heap) - 1
			r.heap[0] = r.heap[n]
			r.heap = r.heap[:n]
		}
		r.sink(0)
		if !several || len(r.heap) == 0 || !bytes.Equal(r.key(), r.last) {
			return nil
		}
	}
}

// settle passes keys of which the newest part says that they have left.
func (r *rows) settle() error {
	for len(r.heap) > 0 && r.heap[0].is() == window.NoRow {
		if err := r.pass(); err != nil {
			return err
		}
	}
	r.ok = len(r.heap) > 0
	return nil
}

// sink moves the part at i down to where it belongs.
func (r *rows) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(r.heap); child++ {
			if r.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		r.heap[i], r.heap[least] = r.heap[least], r.heap[i]
		i = least
	}
}

func (r *rows) before(a, b int) bool {
	x, y := r.heap[a], r.heap[b]
	if n := bytes.Compare(x.key(), y.key()); n != 0 {
		return n < 0
	}
	return x.age < y.age
}
