package scan

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// The page types.
const (
	pageData       = 0
	pageIndex      = 1
	pageDictionary = 2
	pageDataV2     = 3
)

// The encodings.
const (
	encPlain           = 0
	encPlainDictionary = 2
	encRLE             = 3
	encBitPacked       = 4
	encDeltaBinary     = 5
	encDeltaLength     = 6
	encDeltaBytes      = 7
	encDictionary      = 8
	encByteStreamSplit = 9
)

// page is a page of a column chunk, as its header describes it, checked
// against the bytes that are there.
type page struct {
	kind     int32
	body     []byte // compressed; of V2 with the levels in front
	size     int    // of the body decompressed
	values   int    // nulls included
	encoding int32
	defEnc   int32
	repEnc   int32
	defBytes int // V2
	repBytes int
	plain    bool // V2: the values are not compressed
	crc      uint32
	hasCRC   bool
}

// walkPages reads all page headers of a chunk. It returns the dictionary page,
// if there is one, and the data pages, which together have exactly the
// chunk's values.
func walkPages(chunk []byte, m *chunkMeta, limit int) (dict *page, data []page, err error) {
	var values int64
	for at := 0; at < len(chunk); {
		p, n, err := parsePage(chunk[at:], limit)
		if err != nil {
			return nil, nil, fmt.Errorf("page at %d of the chunk: %w", at, err)
		}
		at += n
		switch p.kind {
		case pageDictionary:
			if dict != nil || len(data) > 0 {
				return nil, nil, errors.New("a dictionary page that is not the first page")
			}
			dict = &p
		case pageData, pageDataV2:
			values += int64(p.values)
			if values > m.values {
				return nil, nil, fmt.Errorf("pages with more than the chunk's %d values", m.values)
			}
			data = append(data, p)
		}
	}
	if values != m.values {
		return nil, nil, fmt.Errorf("pages with %d values, the chunk has %d", values, m.values)
	}
	return dict, data, nil
}

// parsePage reads a header and returns its page and the bytes both take.
func parsePage(b []byte, limit int) (page, int, error) {
	p := page{kind: -1, size: -1, values: -1, encoding: -1}
	compressed := int32(-1)
	c := &compact{b: b}
	c.structure(thriftStruct, func(id int16, typ byte) {
		switch id {
		case 1:
			p.kind = c.i32(typ)
		case 2:
			p.size = int(c.i32(typ))
		case 3:
			compressed = c.i32(typ)
		case 4:
			p.crc, p.hasCRC = uint32(c.i32(typ)), true
		case 5:
			parseDataHeader(c, typ, &p)
		case 7:
			parseDictHeader(c, typ, &p)
		case 8:
			parseDataHeaderV2(c, typ, &p)
		default:
			c.skip(typ)
		}
	})
	if c.err != nil {
		return p, 0, fmt.Errorf("header: %w", c.err)
	}
	if compressed < 0 || int(compressed) > len(b)-c.at {
		return p, 0, fmt.Errorf("%d bytes where the chunk has %d left", compressed, len(b)-c.at)
	}
	if p.size < 0 || p.size > limit {
		return p, 0, fmt.Errorf("%d bytes decompressed, the limit is %d", p.size, limit)
	}
	if p.kind != pageIndex && (p.values < 0 || p.encoding < 0) {
		return p, 0, fmt.Errorf("type %d without its header", p.kind)
	}
	if p.kind < pageData || p.kind > pageDataV2 {
		return p, 0, fmt.Errorf("unknown type %d", p.kind)
	}
	p.body = b[c.at : c.at+int(compressed)]
	if p.kind == pageDataV2 {
		levels := int64(p.defBytes) + int64(p.repBytes)
		if p.defBytes < 0 || p.repBytes < 0 || levels > int64(len(p.body)) || levels > int64(p.size) {
			return p, 0, fmt.Errorf("levels of %d bytes in a page of %d", levels, len(p.body))
		}
	}
	return p, c.at + int(compressed), nil
}

func parseDataHeader(c *compact, typ byte, p *page) {
	c.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			p.values = int(c.i32(typ))
		case 2:
			p.encoding = c.i32(typ)
		case 3:
			p.defEnc = c.i32(typ)
		case 4:
			p.repEnc = c.i32(typ)
		default:
			c.skip(typ)
		}
	})
}

func parseDictHeader(c *compact, typ byte, p *page) {
	c.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			p.values = int(c.i32(typ))
		case 2:
			p.encoding = c.i32(typ)
		default:
			c.skip(typ)
		}
	})
}

func parseDataHeaderV2(c *compact, typ byte, p *page) {
	p.defEnc, p.repEnc = encRLE, encRLE
	c.structure(typ, func(id int16, typ byte) {
		switch id {
		case 1:
			p.values = int(c.i32(typ))
		case 4:
			p.encoding = c.i32(typ)
		case 5:
			p.defBytes = int(c.i32(typ))
		case 6:
			p.repBytes = int(c.i32(typ))
		case 7:
			p.plain = !c.boolean(typ)
		default:
			c.skip(typ)
		}
	})
}

// check compares the body with its checksum, where it has one.
func (p *page) check() error {
	if p.hasCRC && crc32.ChecksumIEEE(p.body) != p.crc {
		return errors.New("checksum mismatch")
	}
	return nil
}

// check says what makes a chunk unreadable before a byte of it is read.
func (m *chunkMeta) check(n *node, rows, dataEnd int64) error {
	switch {
	case m.encrypted:
		return errors.New("encrypted")
	case m.external:
		return errors.New("its data is in another file")
	case !m.hasMeta:
		return errors.New("no metadata")
	case m.phys != n.phys && n.logical.id != unknownType: // some writers name no type of what has no value
		return fmt.Errorf("physical type %d, in the schema %d", m.phys, n.phys)
	case !samePath(m.path, n.path):
		return fmt.Errorf("the chunk is of column %q", m.path)
	case m.values < 0 || m.values > math.MaxInt64/2:
		return fmt.Errorf("%d values", m.values)
	case n.rep == 0 && m.values != rows:
		return fmt.Errorf("%d values in %d rows", m.values, rows)
	case m.start < 0 || m.size < 0 || m.start > dataEnd || m.size > dataEnd-m.start:
		return fmt.Errorf("chunk of %d bytes at %d, outside the file's %d bytes of data", m.size, m.start, dataEnd)
	}
	return checkCodec(m.codec)
}

func samePath(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
