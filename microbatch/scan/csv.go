package scan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/deltad/deltad/microbatch/column"
)

// CSV: comma-separated (RFC 4180), a header row required, quoting strict,
// blank lines skipped. An empty cell without quotes is null, with quotes an
// empty string. The reader is our own because encoding/csv does not tell these
// two apart, keeps no text of a bad record, and reads an open quote to the end
// of the file into memory; on records that both accept they agree.
//
// Types: int64 where every value is an integer in plain form, double where
// every one is a number, bool for true and false, else string. An integer with
// a leading zero or beyond int64 makes a string column (it is an identifier,
// or would lose digits), and so does one beyond 2^53 that is no double beside
// fractions. Where the column must be Numeric a leading zero or plus sign is
// fine and an integer that would lose digits makes its row bad. As in other
// text formats NaN and infinities are no numbers.

// csvParser turns records into cells.
type csvParser struct {
	lines *lineReader
	cols  []csvColumn
	width int // fields of the header

	record []byte // a record over several lines
	fields []csvField
	open   bool   // the last field's quote is
	scan   int    // how far the record was cut
	text   []byte // the record as it stands
	no     int64  // its first line
}

type csvColumn struct {
	Column
	at       int // index of the field, or -1
	inPath   bool
	fallback []byte
}

// maxCSVFields bounds the fields of a record: one takes a byte of text and fifty
// of memory.
const maxCSVFields = 1 << 14

type csvField struct {
	from, to int // in the record, quotes left out
	text     []byte
	quoted   bool
	doubled  bool // has doubled quotes
}

// newCSVParser reads the header. io.EOF means that there is none.
func newCSVParser(lines *lineReader, req Request) (*csvParser, error) {
	p := &csvParser{lines: lines}
	if err := p.read(); err != nil {
		var bad *badRow
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("header: %w", err)
		}
		return nil, err
	}
	p.width = len(p.fields)
	names := make([]string, p.width)
	for i, f := range p.fields {
		names[i] = string(f.text)
	}
	for _, c := range req.Columns {
		cc := csvColumn{Column: c, at: -1}
		other := ""
		for i, name := range names {
			switch {
			case name == c.Path && cc.at >= 0:
				return nil, fmt.Errorf("column %s: twice in the header", c.Path)
			case name == c.Path:
				cc.at = i
			case strings.EqualFold(name, c.Path):
				other = name
			}
		}
		v, ok := req.PathValues[c.Path]
		cc.inPath, cc.fallback = ok, []byte(v)
		switch {
		case cc.at >= 0:
		case other != "":
			return nil, caseError(c.Path, other)
		case !c.Optional && !ok:
			return nil, missingError(c.Path)
		}
		p.cols = append(p.cols, cc)
	}
	return p, nil
}

func (p *csvParser) bad(reason string) *badRow {
	return &badRow{line: p.no, reason: reason, text: p.text}
}

func (p *csvParser) finish(int64) error { return nil }

func (p *csvParser) next(cells []cell) error {
	if err := p.read(); err != nil {
		return err
	}
	if len(p.fields) != p.width {
		return p.bad(fmt.Sprintf("%d fields where the header has %d", len(p.fields), p.width))
	}
	for i := range p.cols {
		c := &p.cols[i]
		switch {
		case c.at >= 0:
			if err := csvCell(p.fields[c.at], c.Numeric, &cells[i]); err != nil {
				return p.bad(fmt.Sprintf("column %s: %v", c.Path, err))
			}
		case c.inPath:
			if err := csvCell(csvField{text: c.fallback, quoted: true}, c.Numeric, &cells[i]); err != nil {
				return fmt.Errorf("column %s: value in the key: %w", c.Path, err)
			}
			if !c.Numeric {
				cells[i].kind = column.String
			}
		default:
			cells[i] = cell{}
		}
	}
	return nil
}

// csvCell types a field.
func csvCell(f csvField, numeric bool, x *cell) error {
	*x = cell{text: f.text}
	if len(f.text) == 0 {
		if f.quoted && !numeric {
			x.kind = column.String
		}
		return nil
	}
	s := f.text
	if numeric {
		s = plainForm(s)
	}
	i, n, kind := parseNumber(s)
	switch {
	case kind == isInt && !(i == 0 && s[0] == '-'):
		x.kind, x.i = column.Int64, i
	case kind == isInt && numeric:
		x.kind = column.Int64
	case kind == isFloat:
		x.kind, x.f = column.Float64, n
	case kind == outOfRange && numeric:
		return fmt.Errorf("%.40s: %w", f.text, errBeyond)
	case string(s) == "true", string(s) == "false":
		x.kind, x.b = column.Bool, s[0] == 't'
	default:
		x.kind = column.String
	}
	return nil
}

// plainForm drops what a number may have in front in a column of numbers.
func plainForm(s []byte) []byte {
	if len(s) > 1 && s[0] == '+' && isDigit(s[1]) {
		s = s[1:]
	}
	from := 0
	if s[0] == '-' {
		from = 1
	}
	lead := from
	for lead+1 < len(s) && s[lead] == '0' && isDigit(s[lead+1]) {
		lead++
	}
	if lead == from {
		return s
	}
	return append(append([]byte(nil), s[:from]...), s[lead:]...)
}

// errOpenQuote ends the scan: where the text is cut or a quote is never
// closed, the rows behind it cannot be told.
var errOpenQuote = errors.New("a quote is never closed")

// read reads a record into p.fields. It skips blank lines.
func (p *csvParser) read() error {
	var line []byte
	for len(line) == 0 {
		var long bool
		var err error
		if line, long, err = p.lines.next(); err != nil {
			return err
		}
		p.no, p.text = p.lines.no, line
		if long {
			if bytes.IndexByte(line, '"') >= 0 {
				return fmt.Errorf("line %d: longer than %d bytes, with quotes", p.no, p.lines.limit)
			}
			return p.bad(fmt.Sprintf("longer than %d bytes", p.lines.limit))
		}
	}
	p.fields, p.open, p.scan = p.fields[:0], false, 0
	if err := p.split(line); err != nil || !p.open {
		return p.whole(line, err)
	}
	p.record = append(p.record[:0], line...)
	for p.open {
		line, long, err := p.lines.next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", p.no, errOpenQuote)
		}
		if err != nil {
			return err
		}
		if long || len(p.record)+1+len(line) > p.lines.limit {
			return fmt.Errorf("line %d: %w within %d bytes", p.no, errOpenQuote, p.lines.limit)
		}
		p.record = append(append(p.record, '\n'), line...)
		p.text = p.record
		if err := p.split(p.record); err != nil {
			return p.whole(p.record, err)
		}
	}
	return p.whole(p.record, nil)
}

// split cuts s into p.fields, going on at p.scan: where the last field's
// quote is open, s has grown by a line.
func (p *csvParser) split(s []byte) error {
	quotes := bytes.IndexByte(s[p.scan:], '"') >= 0
	for {
		if len(p.fields) > maxCSVFields {
			return fmt.Errorf("line %d: more than %d fields", p.no, maxCSVFields) // where the record ends is not known
		}
		switch {
		case p.open:
			if !p.close(s) {
				return nil
			}
			if p.scan < len(s) && s[p.scan] != ',' {
				return p.bad(fmt.Sprintf("field %d: text after the closing quote", len(p.fields)))
			}
		case p.scan < len(s) && s[p.scan] == '"':
			p.scan++
			p.open = true
			p.fields = append(p.fields, csvField{from: p.scan, quoted: true})
			continue
		default:
			n := bytes.IndexByte(s[p.scan:], ',')
			if n < 0 {
				n = len(s) - p.scan
			}
			if quotes && bytes.IndexByte(s[p.scan:p.scan+n], '"') >= 0 {
				return p.bad(fmt.Sprintf("field %d: a quote inside an unquoted field", len(p.fields)+1))
			}
			p.fields = append(p.fields, csvField{from: p.scan, to: p.scan + n})
			p.scan += n
		}
		if p.scan == len(s) {
			return nil
		}
		p.scan++ // the comma
	}
}

// close looks for the closing quote of the last field.
func (p *csvParser) close(s []byte) bool {
	f := &p.fields[len(p.fields)-1]
	for {
		i := bytes.IndexByte(s[p.scan:], '"')
		if i < 0 {
			p.scan = len(s)
			return false
		}
		p.scan += i + 1
		if p.scan == len(s) || s[p.scan] != '"' {
			f.to, p.open = p.scan-1, false
			return true
		}
		f.doubled = true
		p.scan++
	}
}

// whole ends a record: it fills in the fields' values.
func (p *csvParser) whole(s []byte, err error) error {
	if err == nil && !utf8.Valid(s) {
		err = p.bad("not valid UTF-8")
	}
	for i := range p.fields {
		f := &p.fields[i]
		if err != nil {
			return err
		}
		f.text = s[f.from:f.to]
		if f.doubled {
			f.text = bytes.ReplaceAll(f.text, []byte(`""`), []byte{'"'})
		}
	}
	return err
}

var _ rowParser = (*csvParser)(nil)
