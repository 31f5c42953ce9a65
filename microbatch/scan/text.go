package scan

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/deltad/deltad/microbatch/column"
)

// A text scan is one pass of parser over lines, each row first staged as
// cells, judged as a whole, and only then appended: a bad row leaves no trace
// in any column.
//
// Types are observed on the way. While nothing was handed out, a column that
// needs another type costs a restart with the wider one; the first batch
// settles most objects. Later it ends in ErrRetype, after the rest of the
// object was observed.

// rowParser turns a format's rows into cells.
type rowParser interface {
	// next reads a row into cells. io.EOF ends the object; a badRow leaves
	// the row out or fails the scan; any other error fails the scan.
	next(cells []cell) error
	// finish checks what only the whole object can tell (missing columns).
	finish(rows int64) error
	// bad makes a badRow of the row that next returned last.
	bad(reason string) *badRow
}

// badRow is a row that is wrong by itself.
type badRow struct {
	line   int64
	reason string
	text   []byte
}

func (b *badRow) Error() string { return fmt.Sprintf("line %d: %s", b.line, b.reason) }

// errRestart asks for another pass with the types observed so far.
var errRestart = errors.New("restart")

type textScan struct {
	req     Request
	emit    func(*column.Batch) error // nil to observe only
	cols    []textColumn
	batch   *column.Batch
	scratch *Scratch
	texts   *arena // of the batch's strings
	res     Result

	committed bool   // something was emitted or passed to Reject
	observing bool   // append nothing
	changed   string // the column whose type changed, and where
	rejected  []RejectedRow
	pending   int // bytes of text in rejected

	reading reading
	lines   *lineReader
	since   int   // rows since the last flush
	mark    int64 // lines.taken at the last flush
}

func scanText(ctx context.Context, blob Blob, req Request, emit func(*column.Batch) error) (Result, error) {
	for i, c := range req.Columns {
		if err := textType(req.Format, c.As); err != nil {
			return Result{}, fmt.Errorf("column %s: %w", req.Columns[i].Path, err)
		}
	}
	if blob.Size() <= req.Limits.Whole {
		b, err := readAll(ctx, blob)
		if err != nil {
			return Result{}, err
		}
		blob = &held{Blob: blob, bytes: b}
	}
	var floor []column.Type
	for {
		s := newTextScan(req, emit, floor)
		err := s.pass(ctx, blob)
		s.rest()
		s.res.Observed = make([]column.Type, len(s.cols))
		for i := range s.cols {
			s.res.Observed[i] = s.cols[i].seen
		}
		if !errors.Is(err, errRestart) {
			return s.res, err
		}
		floor = s.res.Observed
	}
}

func newTextScan(req Request, emit func(*column.Batch) error, floor []column.Type) *textScan {
	s := &textScan{req: req, emit: emit, observing: emit == nil, batch: &column.Batch{}}
	if s.scratch = req.Scratch; s.scratch == nil {
		s.scratch = &Scratch{}
	}
	s.texts = &s.scratch.texts
	s.texts.again = req.Scratch != nil
	for i, c := range req.Columns {
		tc := textColumn{name: c.Path, format: req.Format, as: c.As, numeric: c.Numeric, arena: s.texts}
		if floor != nil {
			tc.seen = floor[i]
		}
		s.cols = append(s.cols, tc)
		s.batch.Columns = append(s.batch.Columns, s.scratch.vector(tc.target()))
	}
	return s
}

// rest leaves memory to the next scan.
func (s *textScan) rest() {
	for _, v := range s.batch.Columns {
		s.scratch.giveVector(v)
	}
	if s.texts.again {
		s.texts.reset()
	}
	if s.lines != nil {
		s.reading.line = s.lines.buf
	}
	s.scratch.giveReading(s.reading)
}

func (s *textScan) pass(ctx context.Context, blob Blob) error {
	raw := newStream(ctx, blob, s.req.Limits)
	defer raw.stop()
	s.reading = s.scratch.takeReading()
	in, done, err := openText(raw, &s.reading, blob.Key(), s.req.Limits)
	if err != nil {
		return err
	}
	defer done()
	s.lines = newLineReader(in, s.reading.line, s.req.Limits.Line)
	var p rowParser
	if s.req.Format == CSV {
		p, err = newCSVParser(s.lines, s.req)
	} else {
		p, err = newJSONParser(s.lines, s.req), nil
	}
	if errors.Is(err, io.EOF) {
		return nil // a CSV without even a header
	}
	if err != nil {
		return err
	}
	cells := make([]cell, len(s.cols))
	for n := 1; ; n++ {
		if n%batchRows == 0 {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
		}
		err := p.next(cells)
		if err == nil {
			err = s.row(cells, p)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			if err := p.finish(s.res.Rows); err != nil {
				return err
			}
			return s.end()
		default:
			if err := s.wrong(err); err != nil {
				return err
			}
		}
	}
}

// wrong rejects a bad row; any other error it returns.
func (s *textScan) wrong(err error) error {
	var bad *badRow
	if errors.As(err, &bad) {
		return s.reject(bad)
	}
	return err
}

// row judges and appends a row.
func (s *textScan) row(cells []cell, p rowParser) error {
	for i := range cells {
		if err := s.cols[i].judge(&cells[i]); err != nil {
			return p.bad(fmt.Sprintf("column %s: %v", s.cols[i].name, err))
		}
	}
	for i := range cells {
		c := &s.cols[i]
		if !c.see(&cells[i]) || s.observing || c.as.Kind != column.Null {
			continue
		}
		v, ok, err := s.retyped(s.batch.Columns[i], c.seen)
		if err != nil {
			return err
		}
		s.batch.Columns[i] = v
		if !ok && (s.committed || s.batch.Len > 0) {
			s.observing, s.changed = true, fmt.Sprintf("line %d: column %s", p.bad("").line, c.name)
		}
	}
	s.res.Rows++
	if !s.observing {
		for i := range cells {
			s.cols[i].appendTo(s.batch.Columns[i], &cells[i])
		}
		s.batch.Len++
	}
	if s.since++; s.since == batchRows || s.lines.taken-s.mark > batchBytes {
		return s.flush()
	}
	return nil
}

// retyped returns the vector's rows in a vector of type t, or ok false and an
// empty one where they have another Repr. The vector itself is given back.
func (s *textScan) retyped(v *column.Vector, t column.Type) (out *column.Vector, ok bool, err error) {
	out = s.scratch.vector(t)
	if ok = v.Type.SameRepr(t); ok {
		for i := range v.Len() {
			if err := out.AppendFrom(v, i); err != nil {
				return nil, false, err
			}
		}
	}
	s.scratch.giveVector(v)
	return out, ok, nil
}

// flush hands out what is pending. Rejected rows go with the batch, so that a
// restart does not report them twice.
func (s *textScan) flush() error {
	s.since, s.mark = 0, s.lines.taken
	if s.observing {
		s.dropRejects()
		if s.emit != nil && !s.committed {
			return errRestart
		}
		return nil
	}
	for _, r := range s.rejected {
		s.committed = true
		if s.req.Reject != nil {
			s.req.Reject(r)
		}
	}
	s.dropRejects()
	if s.batch.Len == 0 {
		return nil
	}
	s.committed = true
	err := s.emit(s.batch)
	s.batch.Reset()
	if s.texts.again {
		s.texts.reset()
	}
	return err
}

func (s *textScan) dropRejects() { s.rejected, s.pending = s.rejected[:0], 0 }

func (s *textScan) end() error {
	if err := s.flush(); err != nil {
		return err
	}
	if s.observing && s.emit != nil {
		return fmt.Errorf("%s: %w", s.changed, ErrRetype)
	}
	return nil
}

// rejectText is how much of a bad row's text is kept.
const rejectText = 4 << 10

func (s *textScan) reject(bad *badRow) error {
	if s.req.Row != Reject {
		return bad
	}
	s.res.Rejected++
	text := append([]byte(nil), bad.text[:min(len(bad.text), rejectText)]...)
	s.rejected = append(s.rejected, RejectedRow{Line: bad.line, Reason: bad.reason, Text: text})
	s.pending += len(text)
	if s.pending > 4<<20 || len(s.rejected) >= batchRows {
		return s.flush()
	}
	return nil
}
