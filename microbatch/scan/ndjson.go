package scan

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/valyala/fastjson"
)

// NDJSON: one JSON object a line. Types: an integer literal within int64 is
// int64, a literal with a fraction or an exponent double, and a column with
// both is double. An integer beyond int64, or in a double column one beyond
// 2^53 that is no double, makes its row bad, because it would be rounded. Arrays become lists and objects structs where a column names
// them whole. A key that is missing in some rows is null there, unless they have
// one that differs only by case: that is an error of the object, but where some
// row has both they are two columns. A column that
// no row of a non-empty object has is missing. A line that is not strict JSON,
// not valid UTF-8, not an object, or that has a wanted key twice is bad.

// jsonParser turns lines into cells.
type jsonParser struct {
	lines  *lineReader
	cols   []jsonColumn
	top    map[string]int // wanted top-level names, dotted prefixes included, to slots
	slots  []*fastjson.Value
	alike  []string // per slot: a key of the row that differs only by case
	likes  int      // how many slots have one
	shape  []shapeKey
	parser *fastjson.Parser
	line   []byte
	no     int64
	number []byte
}

// shapeKey remembers what the i-th key of the row before was: rows of an
// object mostly have the same keys in the same order.
type shapeKey struct {
	key  string
	slot int   // -1: not wanted
	like []int // of a key that is not wanted: the slots whose key differs only by case
}

// maxShape bounds the memory of shapes.
const maxShape = 4096

type jsonColumn struct {
	Column
	prefix   []jsonPrefix // longest first
	found    bool
	twin     string // of the row: a nested name that differs only by case
	other    likeness
	inPath   bool
	fallback string
}

// likeness is what the rows have beside a column: names that differ from its own
// only by case.
type likeness struct {
	name string // of the first row that has it in place of the column
	line int64
	both bool // a row has it and the column, so they are two
}

// see notes the name in a row that has the column, or that lacks it.
func (l *likeness) see(name string, line int64, has bool) {
	switch {
	case has:
		l.both = true
	case l.name == "":
		l.name, l.line = name, line
	}
}

// jsonPrefix is a leading part of a path that may be a top-level key.
type jsonPrefix struct {
	slot int
	rest string // of the path, "" for all of it
}

func newJSONParser(lines *lineReader, req Request) *jsonParser {
	p := &jsonParser{lines: lines, top: map[string]int{}, parser: new(fastjson.Parser)}
	for _, c := range req.Columns {
		jc := jsonColumn{Column: c}
		jc.fallback, jc.inPath = req.PathValues[c.Path]
		for end := len(c.Path); end >= 0; end = strings.LastIndexByte(c.Path[:end], '.') {
			name := c.Path[:end]
			slot, ok := p.top[name]
			if !ok {
				slot = len(p.slots)
				p.top[name] = slot
				p.slots, p.alike = append(p.slots, nil), append(p.alike, "")
			}
			rest := ""
			if end < len(c.Path) {
				rest = c.Path[end+1:]
			}
			jc.prefix = append(jc.prefix, jsonPrefix{slot: slot, rest: rest})
		}
		p.cols = append(p.cols, jc)
	}
	return p
}

func (p *jsonParser) bad(reason string) *badRow {
	return &badRow{line: p.no, reason: reason, text: p.line}
}

func (p *jsonParser) next(cells []cell) error {
	for {
		line, long, err := p.lines.next()
		if err != nil {
			return err
		}
		p.line, p.no = line, p.lines.no
		if long {
			return p.bad(fmt.Sprintf("longer than %d bytes", p.lines.limit))
		}
		if len(bytes.TrimLeft(line, " \t\r")) == 0 {
			continue
		}
		root, err := p.parse(line)
		if err != nil {
			return p.bad(err.Error())
		}
		if err := p.row(root, cells); err != nil {
			return p.bad(err.Error())
		}
		return nil
	}
}

// bigLine is the line length from which the parser's memory matters. A value
// takes two bytes of a line and, with what becomes of it on the way to a
// document, half a kilobyte of memory.
const (
	bigLine   = 64 << 10
	maxValues = 1 << 16
)

// parse checks the line and parses it. The parser alone is lenient (numbers,
// escapes, control characters), so the line is validated as well; in this
// order, because only the parser bounds the depth.
func (p *jsonParser) parse(line []byte) (*fastjson.Object, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("not valid UTF-8")
	}
	if len(line) > bigLine {
		if n := bytes.Count(line, []byte{','}) + bytes.Count(line, []byte{'['}) + bytes.Count(line, []byte{'{'}); n > maxValues {
			return nil, fmt.Errorf("about %d values, more than %d", n, maxValues)
		}
		p.parser = new(fastjson.Parser) // a parser keeps its largest size
		defer func() { p.parser = new(fastjson.Parser) }()
	}
	v, err := p.parser.ParseBytes(line)
	if err != nil {
		return nil, jsonError(err)
	}
	if err := fastjson.ValidateBytes(line); err != nil {
		return nil, jsonError(err)
	}
	if bytes.Contains(line, []byte(`\u`)) && lonelySurrogate(line) {
		return nil, errors.New("unpaired surrogate in a string")
	}
	o, err := v.Object()
	if err != nil {
		return nil, fmt.Errorf("%s, not an object", v.Type())
	}
	return o, nil
}

// jsonError keeps the innermost cause: the parser wraps it once per level and
// quotes the tail of the text.
func jsonError(err error) error {
	msg, _, _ := strings.Cut(err.Error(), "; unparsed tail")
	for {
		_, rest, ok := strings.Cut(msg, ": ")
		if !ok || !strings.HasPrefix(msg, "cannot parse ") {
			return fmt.Errorf("not JSON: %.200s", msg)
		}
		msg = rest
	}
}

// lonelySurrogate looks through the \u escapes of a valid JSON text.
func lonelySurrogate(s []byte) bool {
	high := -1 // where the low half must start
	for i := 0; i+1 < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		if s[i+1] != 'u' || i+6 > len(s) {
			i++
			continue
		}
		d, e := s[i+2]|0x20, s[i+3]|0x20
		isHigh := d == 'd' && (e == '8' || e == '9' || e == 'a' || e == 'b')
		isLow := d == 'd' && (e >= 'c' && e <= 'f')
		if isLow != (high == i) {
			return true
		}
		if high >= 0 && high != i {
			return true
		}
		high = -1
		if isHigh {
			high = i + 6
		}
		i += 5
	}
	return high >= 0
}

// row finds the columns' values in the object.
func (p *jsonParser) row(o *fastjson.Object, cells []cell) error {
	clear(p.slots)
	if p.likes > 0 {
		clear(p.alike)
		p.likes = 0
	}
	at, twice := 0, -1
	o.Visit(func(key []byte, v *fastjson.Value) {
		slot := p.slot(at, key)
		at++
		if slot < 0 {
			return
		}
		if p.slots[slot] != nil {
			twice = slot
		}
		p.slots[slot] = v
	})
	if twice >= 0 {
		for name, slot := range p.top {
			if slot == twice {
				return fmt.Errorf("key %q occurs twice", name)
			}
		}
	}
	for i := range p.cols {
		c := &p.cols[i]
		v, err := p.resolve(c)
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Path, err)
		}
		if name := p.twin(c); name != "" {
			c.other.see(name, p.no, v != nil)
		}
		switch {
		case v != nil:
			c.found = true
			err = p.cell(v, &cells[i])
		case c.inPath:
			cells[i] = cell{kind: column.String, text: []byte(c.fallback)}
		default:
			cells[i] = cell{}
		}
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Path, err)
		}
	}
	return nil
}

// twin is a name in the row that differs from the column's only by case.
func (p *jsonParser) twin(c *jsonColumn) string {
	if p.likes > 0 {
		for _, x := range c.prefix {
			if name := p.alike[x.slot]; name != "" {
				return name
			}
		}
	}
	return c.twin
}

// slot says which slot the key, the at-th of its row, belongs to, and notes
// which it differs from only by case.
func (p *jsonParser) slot(at int, key []byte) int {
	if at < len(p.shape) && p.shape[at].key == string(key) {
		k := &p.shape[at]
		p.note(k)
		return k.slot
	}
	slot, ok := p.top[string(key)]
	k := shapeKey{key: string(key), slot: slot}
	if !ok {
		k.slot = -1
		for name, s := range p.top {
			if strings.EqualFold(name, k.key) {
				k.like = append(k.like, s)
			}
		}
	}
	p.note(&k)
	switch {
	case at == len(p.shape) && at < maxShape:
		p.shape = append(p.shape, k)
	case at < len(p.shape):
		p.shape[at] = k
	}
	return k.slot
}

// note remembers for the row what a key is like.
func (p *jsonParser) note(k *shapeKey) {
	for _, s := range k.like {
		p.alike[s] = k.key
		p.likes++
	}
}

// resolve finds a column in the row's slots: nil where the row lacks it.
func (p *jsonParser) resolve(c *jsonColumn) (*fastjson.Value, error) {
	c.twin = ""
	for _, x := range c.prefix {
		v := p.slots[x.slot]
		if v == nil {
			continue
		}
		if x.rest == "" {
			return v, nil
		}
		if v, err := c.within(v, x.rest); v != nil || err != nil {
			return v, err
		}
	}
	return nil, nil
}

// within finds the rest of the column's path below a value.
func (c *jsonColumn) within(v *fastjson.Value, rest string) (*fastjson.Value, error) {
	switch v.Type() {
	case fastjson.TypeNull:
		return v, nil // the column of a null struct is null
	case fastjson.TypeObject:
	default:
		return nil, fmt.Errorf("%s where an object was expected", v.Type())
	}
	o := v.GetObject()
	for end := len(rest); end >= 0; end = strings.LastIndexByte(rest[:end], '.') {
		in, err := c.key(o, rest[:end])
		if err != nil {
			return nil, err
		}
		if in == nil {
			continue
		}
		if end == len(rest) {
			return in, nil
		}
		if in, err = c.within(in, rest[end+1:]); in != nil || err != nil {
			return in, err
		}
	}
	return nil, nil
}

// key finds a key that must not be there twice.
func (c *jsonColumn) key(o *fastjson.Object, name string) (*fastjson.Value, error) {
	var found *fastjson.Value
	var twice bool
	o.Visit(func(key []byte, v *fastjson.Value) {
		switch {
		case string(key) == name:
			twice = twice || found != nil
			found = v
		case strings.EqualFold(string(key), name):
			c.twin = string(key)
		}
	})
	if twice {
		return nil, fmt.Errorf("key %q occurs twice", name)
	}
	return found, nil
}

// finish reports columns that no row had, or some under a name that differs
// only by case.
func (p *jsonParser) finish(rows int64) error {
	if rows == 0 {
		return nil
	}
	for i := range p.cols {
		c := &p.cols[i]
		switch {
		case c.found && c.other.name != "" && !c.other.both:
			return fmt.Errorf("column %s: line %d lacks it, but has %q, which differs only by case", c.Path, c.other.line, c.other.name)
		case c.found:
		case c.other.name != "":
			return caseError(c.Path, c.other.name)
		case !c.Optional && !c.inPath:
			return missingError(c.Path)
		}
	}
	return nil
}

func caseError(path, other string) error {
	return fmt.Errorf("column %s: missing, but there is %q, which differs only by case", path, other)
}

func missingError(path string) error { return fmt.Errorf("column %s: missing", path) }

var _ rowParser = (*jsonParser)(nil)
