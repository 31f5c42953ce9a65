package scan

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/deltad/deltad/microbatch/column"
)

// leafReader reads a column chunk from front to back, some rows at a time.
type leafReader struct {
	node   *node
	lt     leafType
	lim    Limits
	codec  int32
	memory pages
	dict   *column.Vector
	pages  []page
	number int // of the current page

	rows   int64 // of the object before the batch
	left   int   // values of the current page not read, nulls included
	def    levels
	rep    levels
	source valueSource
	any    bool // a row that was read has a value

	// Rows with list elements or struct fields, for one batch.
	defs, reps []uint8
	vals       *column.Vector // the values that are there
	at, value  int            // what the assembly has consumed of them
	block      block
	flat       []uint8
}

// block is a stretch of levels that was decoded and is not handed out.
type block struct {
	defs, reps [512]uint8
	at, n      int
}

// open makes the reader ready for a chunk.
func (l *leafReader) open(chunk []byte, m *chunkMeta) error {
	dict, pages, err := walkPages(chunk, m, l.lim.Page)
	if err != nil {
		return err
	}
	l.codec, l.pages, l.number = m.codec, pages, -1
	l.left, l.source, l.dict = 0, nil, nil
	l.block.at, l.block.n = 0, 0
	if dict != nil {
		if err := l.readDictionary(dict); err != nil {
			return fmt.Errorf("dictionary page: %w", err)
		}
	}
	return nil
}

// shares says whether values alias the page, so that its memory is theirs.
func (l *leafReader) shares() bool {
	return l.lt.typ.Kind == column.String || l.lt.typ.Kind == column.Bytes
}

// body returns n decompressed bytes of src, in what room gives for them.
func (l *leafReader) body(src []byte, n int, stored bool, room func(n int, shared bool) []byte) ([]byte, error) {
	if l.codec == codecNone || stored {
		if len(src) != n {
			return nil, fmt.Errorf("%d bytes where the header says %d", len(src), n)
		}
		return src, nil
	}
	if n == 0 && len(src) == 0 {
		return nil, nil
	}
	if !plausible(l.codec, n, len(src)) {
		return nil, fmt.Errorf("%d bytes cannot decompress to %d", len(src), n)
	}
	dst := room(n, l.shares())
	return dst, l.memory.scratch.infl.inflate(l.codec, dst, src)
}

func (l *leafReader) readDictionary(p *page) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.encoding != encPlain && p.encoding != encPlainDictionary {
		return fmt.Errorf("encoding %d", p.encoding)
	}
	b, err := l.body(p.body, p.size, false, l.memory.dictionary)
	if err != nil {
		return err
	}
	if p.values > len(b) || p.values > l.lim.Page/16 { // a value takes a byte at least, and sixteen in memory
		return fmt.Errorf("%d values in %d bytes", p.values, len(b))
	}
	src, err := newSource(l.node, l.lt, encPlain, b, nil, l.lim.Page, &work{})
	if err != nil {
		return err
	}
	if _, ok := src.(noValues); ok {
		return nil
	}
	l.dict = column.New(l.lt.typ)
	err = src.appendTo(l.dict, p.values)
	if w := (*wrongValue)(nil); errors.As(err, &w) {
		err = fmt.Errorf("value %d: %w", w.at, w.err) // rows may have it or not
	}
	return err
}

// nextPage opens the next page with values; false at the end of the chunk.
func (l *leafReader) nextPage() (bool, error) {
	for l.number+1 < len(l.pages) {
		l.number++
		p := &l.pages[l.number]
		if err := p.check(); err != nil {
			return false, l.inPage(err)
		}
		if p.values == 0 {
			continue
		}
		var err error
		if p.kind == pageDataV2 {
			err = l.openV2(p)
		} else {
			err = l.openV1(p)
		}
		if err != nil {
			return false, l.inPage(err)
		}
		l.left = p.values
		return true, nil
	}
	return false, nil
}

func (l *leafReader) inPage(err error) error { return fmt.Errorf("page %d: %w", l.number, err) }

func levelBits(most int) uint { return uint(bits.Len(uint(most))) }

func (l *leafReader) openV1(p *page) error {
	b, err := l.body(p.body, p.size, false, l.memory.next)
	if err != nil {
		return err
	}
	if b, err = l.rep.open(b, l.node.rep, p.repEnc); err != nil {
		return fmt.Errorf("repetition levels: %w", err)
	}
	if b, err = l.def.open(b, l.node.def, p.defEnc); err != nil {
		return fmt.Errorf("definition levels: %w", err)
	}
	l.source, err = newSource(l.node, l.lt, p.encoding, b, l.dict, l.lim.Page, &l.memory.scratch.work)
	return err
}

// open starts the levels of a V1 page and returns what follows them.
func (l *levels) open(b []byte, most int, encoding int32) ([]byte, error) {
	l.most = uint8(most)
	if most == 0 {
		return b, nil
	}
	if encoding != encRLE {
		return nil, fmt.Errorf("encoding %d is not supported", encoding)
	}
	var err error
	l.h, b, err = prefixed(b, levelBits(most))
	return b, err
}

func (l *leafReader) openV2(p *page) error {
	rep, def := p.body[:p.repBytes], p.body[p.repBytes:p.repBytes+p.defBytes]
	l.rep.most, l.rep.h = uint8(l.node.rep), newHybrid(rep, levelBits(l.node.rep))
	l.def.most, l.def.h = uint8(l.node.def), newHybrid(def, levelBits(l.node.def))
	levels := p.repBytes + p.defBytes
	b, err := l.body(p.body[levels:], p.size-levels, p.plain, l.memory.next)
	if err != nil {
		return err
	}
	l.source, err = newSource(l.node, l.lt, p.encoding, b, l.dict, l.lim.Page, &l.memory.scratch.work)
	return err
}

var errRows = errors.New("the chunk has fewer rows than its row group")

// readFlat appends n rows of a leaf without repetition to v: a value where the
// levels say that all of its path is there, else null.
func (l *leafReader) readFlat(v *column.Vector, n int) error {
	for n > 0 {
		if l.left == 0 {
			ok, err := l.nextPage()
			if err != nil {
				return err
			}
			if !ok {
				return errRows
			}
		}
		m := min(n, l.left)
		if err := l.readFlatPage(v, m); err != nil {
			return l.inPage(err)
		}
		l.left -= m
		n -= m
	}
	return nil
}

func (l *leafReader) readFlatPage(v *column.Vector, m int) error {
	base := v.Len()
	all := l.node.def == 0
	if !all {
		var err error
		if all, err = l.def.all(m); err != nil {
			return err
		}
	}
	if all {
		l.any = true
		return l.inRow(l.source.appendTo(v, m), func(at int) int { return base + at })
	}
	l.flat = l.flat[:0]
	defs := more(&l.flat, m)
	if err := l.def.read(defs); err != nil {
		return err
	}
	k, full := 0, uint8(l.node.def)
	for _, d := range defs {
		if d == full {
			k++
		}
	}
	l.any = l.any || k > 0
	if err := l.source.appendTo(v, k); err != nil {
		return l.inRow(err, func(at int) int { return base + nth(defs, full, at) })
	}
	if k < m {
		spread(v, defs, full, k)
	}
	return nil
}

// inRow names the row of a wrong value, which row finds in the batch. The first
// row of an object is 1.
func (l *leafReader) inRow(err error, row func(at int) int) error {
	if err == nil {
		return nil
	}
	if w := (*wrongValue)(nil); errors.As(err, &w) {
		return fmt.Errorf("row %d: %w", l.rows+int64(row(w.at))+1, w.err)
	}
	return err
}

// nth returns where the n-th entry, from 0, of defs that is full is.
func nth(defs []uint8, full uint8, n int) int {
	for i, d := range defs {
		if d != full {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return len(defs)
}

// spread moves the last k rows of v, which has no nulls among them, to where
// defs is full, and makes the other rows of defs null.
func spread(v *column.Vector, defs []uint8, full uint8, k int) {
	base := v.Len() - k
	v.SetLen(base)
	v.MakeValid(max(base+len(defs), batchRows))
	v.Valid = v.Valid[:base]
	for i, valid := 0, more(&v.Valid, len(defs)); i < len(defs); i++ {
		valid[i] = defs[i] == full
	}
	switch v.Type.Kind {
	case column.Bool:
		scatter(&v.Bools, defs, full, base, k)
	case column.Int32, column.Int64, column.Date, column.Time:
		scatter(&v.Ints, defs, full, base, k)
	case column.Timestamp:
		scatter(&v.Ints, defs, full, base, k)
		scatter(&v.Nanos, defs, full, base, k)
	case column.Float32, column.Float64:
		scatter(&v.Floats, defs, full, base, k)
	case column.Decimal:
		scatter(&v.Decimals, defs, full, base, k)
	case column.String, column.Bytes:
		scatter(&v.Strings, defs, full, base, k)
	}
	if len(v.Codes) == base+k {
		scatter(&v.Codes, defs, full, base, k)
	}
	v.SetLen(base + len(defs))
}

func scatter[T any](s *[]T, defs []uint8, full uint8, base, k int) {
	more(s, len(defs)-k)
	out := (*s)[base:]
	var zero T
	from := k
	for i := len(defs) - 1; i >= 0; i-- {
		if defs[i] == full {
			from--
			out[i] = out[from]
		} else {
			out[i] = zero
		}
	}
}

// readRows reads the levels and values of n rows into the leaf's buffers, for
// the assembly of lists and structs.
func (l *leafReader) readRows(n int) error {
	l.defs, l.reps, l.at, l.value = l.defs[:0], l.reps[:0], 0, 0
	if l.vals == nil {
		l.vals = column.New(l.lt.typ)
	}
	l.vals.Reset()
	b, rows, pending := &l.block, 0, 0
	for {
		if b.at == b.n {
			if l.left == 0 {
				if err := l.readValues(pending); err != nil {
					return err
				}
				pending = 0
				ok, err := l.nextPage()
				if err != nil {
					return err
				}
				if !ok {
					break
				}
			}
			if err := l.fillBlock(); err != nil {
				return l.inPage(err)
			}
		}
		if b.reps[b.at] == 0 {
			if rows == n {
				break
			}
			rows++
		} else if rows == 0 {
			return l.inPage(errors.New("the first row starts in its middle"))
		}
		if b.defs[b.at] == uint8(l.node.def) {
			pending++
		}
		l.defs, l.reps = append(l.defs, b.defs[b.at]), append(l.reps, b.reps[b.at])
		b.at++
		if len(l.defs) > l.lim.Values {
			return fmt.Errorf("more than %d list elements in %d rows", l.lim.Values, rows)
		}
	}
	if rows < n {
		return errRows
	}
	return l.readValues(pending)
}

func (l *leafReader) fillBlock() error {
	b := &l.block
	b.at, b.n = 0, min(l.left, len(b.defs))
	l.left -= b.n
	if err := l.rep.read(b.reps[:b.n]); err != nil {
		return err
	}
	return l.def.read(b.defs[:b.n])
}

func (l *leafReader) readValues(n int) error {
	if n == 0 {
		return nil
	}
	before := l.vals.Len()
	err := l.source.appendTo(l.vals, n)
	if err == nil {
		return nil
	}
	return l.inPage(l.inRow(err, func(at int) int {
		row := -1
		for i := range min(nth(l.defs, uint8(l.node.def), before+at)+1, len(l.reps)) {
			if l.reps[i] == 0 {
				row++
			}
		}
		return row
	}))
}

// end checks that nothing is left in the chunk.
func (l *leafReader) end() error {
	if l.left > 0 || l.block.at < l.block.n {
		return errors.New("the chunk has more rows than its row group")
	}
	for _, p := range l.pages[l.number+1:] {
		if p.values > 0 {
			return errors.New("the chunk has more rows than its row group")
		}
	}
	return nil
}
