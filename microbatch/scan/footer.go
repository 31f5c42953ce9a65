package scan

import (
	"errors"
	"fmt"
	"math"
)

// Numbers of the Parquet format.
const (
	physBoolean = 0
	physInt32   = 1
	physInt64   = 2
	physInt96   = 3
	physFloat   = 4
	physDouble  = 5
	physBytes   = 6
	physFixed   = 7

	repRequired = 0
	repOptional = 1
	repRepeated = 2
)

// schemaElement is an entry of the footer's flattened schema tree.
type schemaElement struct {
	name      string
	phys      int32 // -1: a group
	length    int32
	rep       int32
	children  int32
	converted int32 // -1: none
	scale     int32
	precision int32
	logical   logicalType
}

// logicalType is the LogicalType union: the id of its member, 0 for none.
type logicalType struct {
	id        int16
	scale     int32
	precision int32
	unit      int16 // 1 ms, 2 µs, 3 ns
	bits      int32
	signed    bool
}

// chunkMeta is what a scan needs to know of a column chunk.
type chunkMeta struct {
	phys       int32
	codec      int32
	path       []string
	values     int64
	start      int64 // in the file
	size       int64
	external   bool
	encrypted  bool
	hasMeta    bool
	dataOffset int64
	dictOffset int64
}

// rowGroup has one chunkMeta for each wanted leaf, by leaf index.
type rowGroup struct {
	rows   int64
	chunks map[int]*chunkMeta
}

// footer is the parsed file metadata.
type footer struct {
	rows      int64
	elements  []schemaElement
	encrypted bool

	raw      []byte
	groupsAt int // of the row group list in raw, or -1
}

// maxElements bounds the memory of a schema.
const maxElements = 1 << 17

// parseFooter reads the metadata without the row groups.
func parseFooter(raw []byte) (*footer, error) {
	f := &footer{raw: raw, groupsAt: -1, rows: -1}
	c := &compact{b: raw}
	c.structure(thriftStruct, func(id int16, typ byte) {
		switch id {
		case 2:
			c.list(typ, func(_ int, typ byte) {
				if len(f.elements) == maxElements {
					c.fail(fmt.Errorf("more than %d schema elements", maxElements))
					return
				}
				f.elements = append(f.elements, parseElement(c, typ))
			})
		case 3:
			f.rows = c.integer(typ)
		case 4:
			f.groupsAt = c.at
			c.skip(typ)
		case 8:
			f.encrypted = true
			c.skip(typ)
		default:
			c.skip(typ)
		}
	})
	switch {
	case c.err != nil:
		return nil, fmt.Errorf("footer: %w", c.err)
	case len(f.elements) == 0:
		return nil, errors.New("footer: no schema")
	case f.rows < 0:
		return nil, errors.New("footer: no row count")
	case f.groupsAt < 0:
		return nil, errors.New("footer: no row groups")
	}
	return f, nil
}

func parseElement(c *compact, typ byte) schemaElement {
	e := schemaElement{phys: -1, converted: -1}
	named := false
	c.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			e.phys = c.i32(typ)
		case 2:
			e.length = c.i32(typ)
		case 3:
			e.rep = c.i32(typ)
		case 4:
			e.name, named = string(c.binary(typ)), true
		case 5:
			e.children = c.i32(typ)
		case 6:
			e.converted = c.i32(typ)
		case 7:
			e.scale = c.i32(typ)
		case 8:
			e.precision = c.i32(typ)
		case 10:
			e.logical = parseLogical(c, typ)
		default:
			c.skip(typ)
		}
	})
	if !named {
		c.fail(errors.New("a schema element without a name"))
	}
	return e
}

func parseLogical(c *compact, typ byte) logicalType {
	var l logicalType
	c.structure(typ, func(id int16, typ byte) {
		l.id = id
		c.structure(typ, func(field int16, typ byte) {
			switch {
			case id == 5 && field == 1:
				l.scale = c.i32(typ)
			case id == 5 && field == 2:
				l.precision = c.i32(typ)
			case (id == 7 || id == 8) && field == 2:
				c.structure(typ, func(unit int16, typ byte) {
					l.unit = unit
					c.skip(typ)
				})
			case id == 10 && field == 1:
				l.bits = int32(c.integer(typ))
			case id == 10 && field == 2:
				l.signed = c.boolean(typ)
			default:
				c.skip(typ)
			}
		})
	})
	return l
}

// groups calls each for every row group in turn, with its number and the chunks
// of the wanted leaves. It checks that the groups have the file's rows.
func (f *footer) groups(leaves int, wanted map[int]bool, each func(int, rowGroup) error) error {
	c := &compact{b: f.raw, at: f.groupsAt}
	var sum int64
	var failed error
	c.list(thriftList, func(i int, typ byte) {
		if failed != nil {
			c.fail(failed)
			return
		}
		g := parseGroup(c, typ, leaves, wanted)
		if c.err != nil {
			return
		}
		if g.rows > math.MaxInt64-sum {
			c.fail(errors.New("row counts overflow"))
			return
		}
		sum += g.rows
		if failed = each(i, g); failed != nil {
			c.fail(failed)
		}
	})
	switch {
	case failed != nil:
		return failed
	case c.err != nil:
		return fmt.Errorf("footer: %w", c.err)
	case sum != f.rows && f.rows != 0: // some writers leave it 0; pages and groups still have to agree
		return fmt.Errorf("footer: row groups have %d rows, the file %d", sum, f.rows)
	}
	return nil
}

// empty says whether the file has no row. A footer that says so is not enough:
// some writers leave the number 0.
func (f *footer) empty(leaves int) (bool, error) {
	if f.rows > 0 {
		return false, nil
	}
	var sum int64
	err := f.groups(leaves, nil, func(_ int, g rowGroup) error {
		sum += g.rows
		return nil
	})
	return sum == 0, err
}

func parseGroup(c *compact, typ byte, leaves int, wanted map[int]bool) rowGroup {
	g := rowGroup{rows: -1, chunks: make(map[int]*chunkMeta, len(wanted))}
	chunks := -1
	c.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			chunks = c.list(typ, func(i int, typ byte) {
				if wanted[i] {
					g.chunks[i] = parseChunk(c, typ)
				} else {
					c.skipElem(typ)
				}
			})
		case 3:
			g.rows = c.integer(typ)
		default:
			c.skip(typ)
		}
	})
	if c.err == nil && (g.rows < 0 || chunks != leaves) {
		c.fail(fmt.Errorf("a row group of %d rows and %d column chunks, where the schema has %d leaves", g.rows, chunks, leaves))
	}
	return g
}

func parseChunk(c *compact, typ byte) *chunkMeta {
	m := &chunkMeta{phys: -1, codec: -1, values: -1, size: -1, dataOffset: -1, dictOffset: -1}
	c.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			m.external = len(c.binary(typ)) > 0
		case 3:
			m.hasMeta = true
			parseChunkMeta(c, typ, m)
		case 8:
			m.encrypted = true
			c.skip(typ)
		default:
			c.skip(typ)
		}
	})
	m.start = m.dataOffset
	if m.dictOffset > 0 && m.dictOffset < m.dataOffset { // some writers say 0 for none
		m.start = m.dictOffset
	}
	return m
}

func parseChunkMeta(c *compact, typ byte, m *chunkMeta) {
	c.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			m.phys = c.i32(typ)
		case 3:
			m.path = m.path[:0]
			c.list(typ, func(_ int, typ byte) { m.path = append(m.path, string(c.binary(typ))) })
		case 4:
			m.codec = c.i32(typ)
		case 5:
			m.values = c.integer(typ)
		case 7:
			m.size = c.integer(typ)
		case 9:
			m.dataOffset = c.integer(typ)
		case 11:
			m.dictOffset = c.integer(typ)
		default:
			c.skip(typ)
		}
	})
}
