package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
)

// holding is what a Data has of the machine.
type holding struct {
	once   sync.Once
	budget *Budget
	taken  int64
	file   file
	size   int64
}

func (h *holding) release() {
	h.once.Do(func() {
		h.budget.give(h.taken)
		if h.file != nil {
			_ = h.file.Close() // nothing that is read can be lost
			if h.budget != nil {
				h.budget.onDisk.Add(-h.size)
			}
		}
	})
}

// Data is what was written.
type Data struct {
	mem     [][]byte
	starts  []int64 // where each begins
	file    file
	lead    int64 // where in the file they begin
	size    int64
	held    *holding
	cleanup runtime.Cleanup
	name    struct {
		sync.Mutex
		given bool
	}
}

// hold has what d takes given back when d is collected. Slices are shared by a
// cache and by runs; whoever lets go last would have to count. The collector does.
func (d *Data) hold(budget *Budget, taken int64) {
	d.held = &holding{budget: budget, taken: taken, file: d.file, size: d.size}
	if d.file != nil && budget != nil {
		budget.onDisk.Add(d.size)
	}
	d.cleanup = runtime.AddCleanup(d, (*holding).release, d.held)
}

// Open returns the size bytes at off of a file, which nobody may write to any
// more, and which is closed with the Data. They are not in memory, and their space
// is not given back.
func Open(f *os.File, off, size int64, budget *Budget) *Data {
	d := &Data{file: f, lead: off, size: size}
	d.name.given = true
	d.hold(budget, 0)
	return d
}

// ErrNoFile says that bytes are in no file that could be given a name.
var ErrNoFile = errors.New("the bytes are in no file that can be given a name")

// Link gives the file that the bytes are in a name, with head before them, for
// which Lead must have left the room. Only one name is ever given: whoever has it
// may delete it, and nobody may write to it. Bytes that are in memory, or whose
// file has a name or cannot be given one, are ErrNoFile; other errors are the
// system's, of that name.
func (d *Data) Link(head []byte, name string) error {
	d.name.Lock()
	defer d.name.Unlock()
	f, ok := d.file.(*os.File)
	if !ok || d.name.given || int64(len(head)) != d.lead {
		return ErrNoFile
	}
	if _, err := f.WriteAt(head, 0); err != nil {
		return fmt.Errorf("write head: %w", err)
	}
	err := link(f, name)
	d.name.given = err == nil
	runtime.KeepAlive(d) // the file is closed when d is collected
	return err
}

// Size is the number of bytes.
func (d *Data) Size() int64 { return d.size }

// Section reads the bytes from the first to the last.
func (d *Data) Section() *io.SectionReader { return io.NewSectionReader(d, 0, d.size) }

// InMemory is the number of bytes held in memory: all or none.
func (d *Data) InMemory() int64 {
	if d.file != nil {
		return 0
	}
	return d.size
}

// ReadAt implements io.ReaderAt.
func (d *Data) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > d.size {
		return 0, fmt.Errorf("read at %d of %d bytes: %w", off, d.size, io.ErrUnexpectedEOF)
	}
	if d.file != nil {
		some := p[:min(int64(len(p)), d.size-off)]
		n, err := d.file.ReadAt(some, d.lead+off)
		runtime.KeepAlive(d) // the file is closed when d is collected
		if err == nil && n < len(p) {
			err = io.EOF
		}
		return n, err
	}
	n := 0
	for i := d.piece(off); n < len(p) && i < len(d.mem); i++ {
		n += copy(p[n:], d.mem[i][off+int64(n)-d.starts[i]:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// piece is the number of the one that has the byte at off.
func (d *Data) piece(off int64) int {
	i, found := slices.BinarySearch(d.starts, off)
	if !found {
		i--
	}
	return max(i, 0)
}

// View returns the n bytes at off where they lie in memory in one piece, else
// nil. They must not be changed, nor read after Close.
func (d *Data) View(off, n int64) []byte {
	if len(d.mem) == 0 || off < 0 || n < 0 || off > d.size-n {
		return nil
	}
	i := d.piece(off)
	from := off - d.starts[i]
	if n > int64(len(d.mem[i]))-from {
		return nil
	}
	return d.mem[i][from : from+n : from+n]
}

// WriteTo implements io.WriterTo: the bytes from the first to the last, without
// a copy of those in memory.
func (d *Data) WriteTo(w io.Writer) (written int64, err error) {
	if d.file != nil {
		buf := d.held.budget.borrow()
		defer d.held.budget.handBack(buf)
		return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{d.Section()}, buf[:])
	}
	for _, b := range d.mem {
		n, err := w.Write(b)
		if written += int64(n); err != nil {
			return written, err
		}
	}
	return written, nil
}

// Close gives memory and file back at once. It must not be read after.
func (d *Data) Close() {
	d.cleanup.Stop()
	d.held.release()
	d.mem, d.starts, d.file = nil, nil, nil
}
