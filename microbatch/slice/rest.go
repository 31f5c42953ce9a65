package slice

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
)

// codecVersion is part of every slice's address. It must be raised with every
// change after which the same objects and the same index make another slice: of
// an accumulator's bytes, of the run format, of what a row is read as. A test
// holds a slice's bytes against it.
const codecVersion = 4

// Recipe names what slices are made by, beside their objects: codec version,
// format, what becomes of bad rows, index. It is 64 lower-case hexadecimal
// digits. What two builders of one recipe make of the same objects at the same
// types is equal.
func (s *Builder) Recipe() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "deltad.slice/%d|%d|%d|%s", codecVersion, s.Format, s.Row, s.index()))
	return hex.EncodeToString(sum[:])
}

// AddressOf is where the slice of an input lies on a shelf: a hash of the
// recipe, the partition and the fingerprint. The types it was built at are not
// in it: they follow from everything else in the window, and a slice of others
// is built again and takes its place.
func AddressOf(recipe string, in Input) ID {
	return IDOf(in).Address(recipe)
}

// Address is AddressOf of the input that has the name.
func (id ID) Address(recipe string) ID {
	return sha256.Sum256(append([]byte(recipe), id[:]...))
}

// String is the ID in lower-case hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// restMagic begins a slice on a shelf: the magic, its address, a SHA-256, and
// what Encode writes. The SHA-256 is of the slice's head and of its run's
// Summary.SHA256, so that the run is not hashed a second time.
const restMagic = "deltadk2"

const restHead = len(restMagic) + 2*sha256.Size

// ErrDamaged says that bytes are not those of the slice that was stored at an
// address.
var ErrDamaged = errors.New("it is not the slice that was stored there")

// Rest is a slice at rest. It reads the slice's run as long as it is read itself.
type Rest struct {
	*io.SectionReader // of the head and the run
	head              []byte
	run               *spool.Data
}

// AtRest is the slice's resting form at an address, as ReadRest reads it.
func (s *Slice) AtRest(at ID) (*Rest, error) {
	var head bytes.Buffer
	head.Write(make([]byte, restHead))
	if err := s.encodeHead(&head); err != nil {
		return nil, err
	}
	run, err := table.Inspect(s.Run, s.Run.Size())
	if err != nil {
		return nil, fmt.Errorf("read slice of %s: %w", clock(s.Start), err)
	}
	b := head.Bytes()
	copy(b, restMagic)
	copy(b[len(restMagic):], at[:])
	copy(b[len(restMagic)+sha256.Size:], restSum(b[restHead:], run))
	return &Rest{io.NewSectionReader(joined{b, s.Run}, 0, int64(len(b))+s.Run.Size()), b, s.Run}, nil
}

// Link makes the slice appear at the path of a file that does not exist, where
// its run is in a file already that can be had there: as WriteTo would write it,
// but nothing is written a second time. Else it is spool.ErrNoFile, or the error
// of the system.
func (r *Rest) Link(path string) error { return r.run.Link(r.head, path) }

// lead is how many bytes stand before the run of the slice at rest, 0 if that is
// not to be known.
func (s *Slice) lead() int {
	var head bytes.Buffer
	if err := s.encodeHead(&head); err != nil {
		return 0 // whoever stores it is told
	}
	return restHead + head.Len()
}

// restSum stands for a head and a run.
func restSum(head []byte, run table.Summary) []byte {
	sum := sha256.New()
	sum.Write(head)
	sum.Write(run.SHA256[:])
	return sum.Sum(nil)
}

// joined is a head and a run one after the other.
type joined struct {
	head []byte
	run  *spool.Data
}

// ReadAt implements io.ReaderAt.
func (j joined) ReadAt(p []byte, off int64) (int, error) {
	if off >= int64(len(j.head)) {
		return j.run.ReadAt(p, off-int64(len(j.head)))
	}
	n := copy(p, j.head[off:])
	if n == len(p) {
		return n, nil
	}
	more, err := j.run.ReadAt(p[n:], 0)
	return n + more, err
}

// WriteTo implements io.WriterTo.
func (r *Rest) WriteTo(w io.Writer) (int64, error) {
	if at, err := r.Seek(0, io.SeekCurrent); err != nil || at > 0 {
		return io.Copy(w, struct{ io.Reader }{r.SectionReader})
	}
	if _, err := r.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	n, err := w.Write(r.head)
	if err != nil {
		return int64(n), err
	}
	more, err := r.run.WriteTo(w)
	return int64(n) + more, err
}

// ReadRest reads what AtRest made, size bytes. Anything else is ErrDamaged; an
// error of r or of the spool is neither. Nothing of r is believed before all
// of it was read and verified.
func ReadRest(r io.Reader, size int64, at ID, dir string, memory *spool.Budget) (*Slice, error) {
	return readRest(&source{r: r}, size, at, dir, memory)
}

// OpenRest is ReadRest of a file that is only ever replaced as a whole, or
// deleted: where there is no room for the run in memory it is not copied, but read
// where it lies. The file is closed, at once or with the run.
func OpenRest(f *os.File, size int64, at ID, dir string, memory *spool.Budget) (*Slice, error) {
	in := &source{r: f, file: f}
	s, err := readRest(in, size, at, dir, memory)
	if in.file != nil {
		err = errors.Join(err, in.file.Close())
	}
	return s, err
}

func readRest(in *source, size int64, at ID, dir string, memory *spool.Budget) (*Slice, error) {
	var fixed [restHead]byte
	if size < int64(restHead) {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, size)
	}
	if _, err := io.ReadFull(in, fixed[:]); err != nil {
		return nil, in.blame(err)
	}
	if string(fixed[:len(restMagic)]) != restMagic || !bytes.Equal(fixed[len(restMagic):len(restMagic)+sha256.Size], at[:]) {
		return nil, fmt.Errorf("%w: its head is that of something else", ErrDamaged)
	}
	d, err := decode(in, size-int64(restHead), dir, memory)
	if err != nil {
		return nil, in.blame(err)
	}
	if !bytes.Equal(restSum(d.head, d.summary), fixed[len(restMagic)+sha256.Size:]) {
		d.slice.Run.Close()
		return nil, fmt.Errorf("%w: it hashes to something else", ErrDamaged)
	}
	return d.slice, nil
}

// source remembers whether reading failed.
type source struct {
	r    io.Reader
	at   int64    // how much was read
	file *os.File // that r is, unless a run has it
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.at += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// blame tells what cannot be read from what was read and is wrong.
func (s *source) blame(err error) error {
	var ours *spoolError
	switch {
	case s.err != nil:
		return s.err
	case errors.As(err, &ours):
		return err
	}
	return fmt.Errorf("%w: %v", ErrDamaged, err)
}

// sound says what is wrong with types that come from outside.
func sound(types []column.Type, depth int) error {
	for _, t := range types {
		switch {
		case t.Kind > column.Struct || strings.HasPrefix(t.Kind.String(), "kind("):
			return fmt.Errorf("a type of kind %d", uint8(t.Kind))
		case depth == 0:
			return errors.New("types that are nested too deeply")
		case t.Kind == column.List && t.Elem == nil:
			return errors.New("a list of nothing")
		case t.Kind == column.List:
			if err := sound([]column.Type{*t.Elem}, depth-1); err != nil {
				return err
			}
		case t.Kind == column.Struct:
			for _, f := range t.Fields {
				if err := sound([]column.Type{f.Type}, depth-1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
