package slice

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/partition"
)

// encodedMagic begins a slice at rest: the magic, the length of the head as 4
// bytes little-endian, the head as JSON, the run.
const encodedMagic = "deltads1"

// maxHead bounds the head of a slice at rest.
const maxHead = 64 << 20

type head struct {
	Index          string        `json:"index"`
	Start          time.Time     `json:"start"`
	Observed       []column.Type `json:"observed"`
	Built          []column.Type `json:"built"`
	Objects        []headObject  `json:"objects"`
	Rejected       int64         `json:"rejected,omitempty"`
	NullEventTimes int64         `json:"null_event_times,omitempty"`
}

type headObject struct {
	Key       string        `json:"key"`
	ETag      string        `json:"etag"`
	Size      int64         `json:"bytes"`
	Partition time.Time     `json:"partition"`
	Rows      int64         `json:"rows"`
	Observed  []column.Type `json:"observed"`
}

// Encode writes the slice in its resting form. The rows that were rejected
// stay out of it, their number does not.
func (s *Slice) Encode(w io.Writer) error {
	if err := s.encodeHead(w); err != nil {
		return err
	}
	_, err := io.Copy(w, s.Run.Section())
	return err
}

func (s *Slice) encodeHead(w io.Writer) error {
	h := head{Index: s.Index, Start: s.Start.UTC(), Observed: s.Observed, Built: s.Built, Rejected: s.Rejected, NullEventTimes: s.NullEventTimes}
	for _, o := range s.Objects {
		h.Objects = append(h.Objects, headObject{o.Key, o.ETag, o.Size, o.Partition.UTC(), o.Rows, o.Observed})
	}
	b, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode slice of %s: %w", clock(s.Start), err)
	}
	if len(b) > maxHead {
		return fmt.Errorf("encode slice of %s: a head of %d bytes", clock(s.Start), len(b))
	}
	out := binary.LittleEndian.AppendUint32([]byte(encodedMagic), uint32(len(b)))
	_, err = w.Write(append(out, b...))
	return err
}

// Decode reads what Encode wrote; the run goes into a spool. It believes
// nothing that it reads; the run is checked when it is opened.
func Decode(r io.ReaderAt, size int64, dir string, memory *spool.Budget) (*Slice, error) {
	return decode(io.NewSectionReader(r, 0, size), size, dir, memory)
}

// decode reads a slice at rest of size bytes, all of in.
func decode(in io.Reader, size int64, dir string, memory *spool.Budget) (*Slice, error) {
	fixed := make([]byte, len(encodedMagic)+4)
	if _, err := io.ReadFull(in, fixed); err != nil || string(fixed[:len(encodedMagic)]) != encodedMagic {
		return nil, errors.New("decode slice: not a slice")
	}
	n := int64(binary.LittleEndian.Uint32(fixed[len(encodedMagic):]))
	if n > maxHead || n > size-int64(len(fixed)) {
		return nil, fmt.Errorf("decode slice: a head of %d bytes does not fit", n)
	}
	raw, err := io.ReadAll(io.LimitReader(in, n)) // size may be a claim: memory grows with what is there
	if err == nil && int64(len(raw)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("decode slice: %w", err)
	}
	s, err := decodeHead(raw)
	if err != nil {
		return nil, err
	}
	out := &spoolWriter{out: spool.New(dir, memory)}
	want := size - int64(len(fixed)) - n
	got, err := io.Copy(out, io.LimitReader(in, want+1))
	if err == nil && got != want {
		err = fmt.Errorf("a run of %d bytes, want %d", got, want)
	}
	if err != nil {
		out.out.Abort()
		return nil, fmt.Errorf("decode slice of %s: %w", clock(s.Start), err)
	}
	if s.Run, err = out.out.Seal(); err != nil {
		return nil, fmt.Errorf("decode slice of %s: %w", clock(s.Start), &spoolError{err})
	}
	return s, nil
}

// spoolWriter tells errors of its spool from those of what is read.
type spoolWriter struct{ out *spool.Spool }

func (w *spoolWriter) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	if err != nil {
		err = &spoolError{err}
	}
	return n, err
}

// spoolError is an error of this machine's, not of a slice.
type spoolError struct{ err error }

func (e *spoolError) Error() string { return e.err.Error() }
func (e *spoolError) Unwrap() error { return e.err }

// maxDepth bounds the nesting of types.
const maxDepth = 64

// decodeHead returns a slice without its run.
func decodeHead(raw []byte) (*Slice, error) {
	var h head
	if err := json.Unmarshal(raw, &h); err != nil {
		return nil, fmt.Errorf("decode slice: %w", err)
	}
	if len(h.Built) != len(h.Observed) || len(h.Objects) == 0 {
		return nil, fmt.Errorf("decode slice of %s: %d types built, %d observed, %d objects", clock(h.Start), len(h.Built), len(h.Observed), len(h.Objects))
	}
	for _, types := range [][]column.Type{h.Observed, h.Built} {
		if err := sound(types, maxDepth); err != nil {
			return nil, fmt.Errorf("decode slice of %s: %w", clock(h.Start), err)
		}
	}
	s := &Slice{Index: h.Index, Start: h.Start, Observed: h.Observed, Built: h.Built, Rejected: h.Rejected, NullEventTimes: h.NullEventTimes, Told: true}
	for _, o := range h.Objects {
		if len(o.Observed) != len(h.Built) {
			return nil, fmt.Errorf("decode slice of %s: %d types of %s, want %d", clock(h.Start), len(o.Observed), o.Key, len(h.Built))
		}
		if err := sound(o.Observed, maxDepth); err != nil {
			return nil, fmt.Errorf("decode slice of %s: types of %s: %w", clock(h.Start), o.Key, err)
		}
		s.Objects = append(s.Objects, ReadObject{
			Object: partition.Object{Key: o.Key, ETag: o.ETag, Size: o.Size, Partition: o.Partition}, Rows: o.Rows, Observed: o.Observed,
		})
	}
	return s, nil
}

// Input is what the slice was built of.
func (s *Slice) Input() Input {
	in := Input{Start: s.Start}
	for _, o := range s.Objects {
		in.Objects = append(in.Objects, o.Object)
	}
	return in
}
