package slice

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/partition"
)

// encodedMagic begins a slice at rest: the magic, the length of the head as 4
// bytes little-endian, the head as JSON, the run.
const encodedMagic = "deltads2"

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
	Seen      []column.Type `json:"seen,omitempty"` // where it is not observed
}

// Encode writes the slice in its resting form. The rows that were rejected
// stay out of it, their number does not.
func (s *Slice) Encode(w io.Writer) error {
	if err := s.encodeHead(w); err != nil {
		return err
	}
	_, err := s.Run.WriteTo(w)
	return err
}

func (s *Slice) encodeHead(w io.Writer) error {
	h := head{Index: s.Index, Start: s.Start.UTC(), Observed: s.Observed, Built: s.Built, Rejected: s.Rejected, NullEventTimes: s.NullEventTimes}
	for _, o := range s.Objects {
		seen := o.Seen
		if slices.EqualFunc(seen, o.Observed, column.Type.Equal) {
			seen = nil
		}
		h.Objects = append(h.Objects, headObject{o.Key, o.ETag, o.Size, o.Partition.UTC(), o.Rows, o.Observed, seen})
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
// nothing that it reads; what the run's rows consist of is checked when it is
// opened and read.
func Decode(r io.ReaderAt, size int64, dir string, memory *spool.Budget) (*Slice, error) {
	d, err := decode(&source{r: io.NewSectionReader(r, 0, size)}, size, dir, memory)
	if err != nil {
		return nil, err
	}
	return d.slice, nil
}

// decoded is a slice as it was read.
type decoded struct {
	slice   *Slice
	head    []byte // what stands before the run
	summary table.Summary
}

// decode reads a slice at rest of size bytes, all of in.
func decode(in *source, size int64, dir string, memory *spool.Budget) (d decoded, err error) {
	d.head = make([]byte, len(encodedMagic)+4)
	if _, err := io.ReadFull(in, d.head); err != nil || string(d.head[:len(encodedMagic)]) != encodedMagic {
		return d, errors.New("decode slice: not a slice")
	}
	n := int64(binary.LittleEndian.Uint32(d.head[len(encodedMagic):]))
	if n > maxHead || n > size-int64(len(d.head)) {
		return d, fmt.Errorf("decode slice: a head of %d bytes does not fit", n)
	}
	raw, err := io.ReadAll(io.LimitReader(in, n)) // size may be a claim: memory grows with what is there
	if err == nil && int64(len(raw)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return d, fmt.Errorf("decode slice: %w", err)
	}
	d.head = append(d.head, raw...)
	if d.slice, err = decodeHead(raw); err != nil {
		return d, err
	}
	want := size - int64(len(d.head))
	if d.slice.Run, err = in.spool(want, dir, memory); err == nil {
		if d.summary, err = check(d.slice.Run); err != nil {
			d.slice.Run.Close()
		}
	}
	if err != nil {
		return d, fmt.Errorf("decode slice of %s: %w", clock(d.slice.Start), err)
	}
	return d, nil
}

// spool reads the last want bytes.
func (s *source) spool(want int64, dir string, memory *spool.Budget) (*spool.Data, error) {
	if s.file != nil && memory != nil && memory.Left() < want {
		return s.open(want, memory)
	}
	out := spool.New(dir, memory)
	lead := int(s.at)
	out.Lead(func() int { return lead })
	got, err := out.Fill(s, want+1)
	data, wrong := out.Seal()
	switch {
	case wrong != nil:
		return nil, &spoolError{wrong}
	case err == nil && got != want:
		err = fmt.Errorf("a run of %d bytes, want %d", got, want)
	}
	if err != nil {
		data.Close()
		return nil, err
	}
	return data, nil
}

// open is spool of bytes that stay where they are: in a file, which has them to its
// end.
func (s *source) open(want int64, memory *spool.Budget) (*spool.Data, error) {
	info, err := s.file.Stat()
	if err != nil {
		return nil, &spoolError{err}
	}
	if got := info.Size() - s.at; got != want {
		return nil, fmt.Errorf("a run of %d bytes, want %d", got, want)
	}
	f := s.file
	s.file = nil
	return spool.Open(f, s.at, want, memory), nil
}

// check reads a run in a spool.
func check(run *spool.Data) (table.Summary, error) {
	in := &spooled{Data: run}
	s, err := table.Check(in, run.Size())
	if in.err != nil {
		err = &spoolError{in.err}
	}
	return s, err
}

// spooled remembers whether reading failed.
type spooled struct {
	*spool.Data
	err error
}

// ReadAt implements io.ReaderAt.
func (s *spooled) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.Data.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
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
		if o.Seen == nil {
			o.Seen = o.Observed
		}
		for _, types := range [][]column.Type{o.Observed, o.Seen} {
			if len(types) != len(h.Built) {
				return nil, fmt.Errorf("decode slice of %s: %d types of %s, want %d", clock(h.Start), len(types), o.Key, len(h.Built))
			}
			if err := sound(types, maxDepth); err != nil {
				return nil, fmt.Errorf("decode slice of %s: types of %s: %w", clock(h.Start), o.Key, err)
			}
		}
		s.Objects = append(s.Objects, ReadObject{
			Object: partition.Object{Key: o.Key, ETag: o.ETag, Size: o.Size, Partition: o.Partition}, Rows: o.Rows, Observed: o.Observed, Seen: o.Seen,
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
