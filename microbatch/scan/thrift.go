package scan

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// compact reads Thrift's compact protocol from bytes. It never allocates from
// a size it reads, and its first error sticks: every read after it returns
// zero, so a caller checks once. It is our own because a decoder that makes a
// list from its claimed length before the first element can be killed by a
// footer of a few bytes.
type compact struct {
	b     []byte
	at    int
	depth int
	err   error
}

// The types of compact fields and elements.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftI8     = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

// maxThriftDepth bounds recursion; Parquet's own metadata nests less than ten deep.
const maxThriftDepth = 64

var errThriftShort = errors.New("metadata ends early")

func (c *compact) fail(err error) {
	if c.err == nil {
		c.err = err
		c.at = len(c.b)
	}
}

func (c *compact) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n < 0 || n > len(c.b)-c.at {
		c.fail(errThriftShort)
		return nil
	}
	c.at += n
	return c.b[c.at-n : c.at]
}

func (c *compact) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *compact) uvarint() uint64 {
	if c.err != nil {
		return 0
	}
	v, n := binary.Uvarint(c.b[c.at:])
	if n <= 0 {
		c.fail(errThriftShort)
		return 0
	}
	c.at += n
	return v
}

// integer reads an integer of the given type.
func (c *compact) integer(typ byte) int64 {
	switch typ {
	case thriftI8:
		return int64(int8(c.byte()))
	case thriftI16, thriftI32, thriftI64:
		u := c.uvarint()
		return int64(u>>1) ^ -int64(u&1)
	}
	c.fail(fmt.Errorf("metadata has type %d where an integer belongs", typ))
	return 0
}

// i32 reads an integer that must fit 32 bits.
func (c *compact) i32(typ byte) int32 {
	v := c.integer(typ)
	if int64(int32(v)) != v {
		c.fail(fmt.Errorf("metadata has %d where 32 bits belong", v))
		return 0
	}
	return int32(v)
}

// boolean is a field's value: it is its type.
func (c *compact) boolean(typ byte) bool {
	if typ != thriftTrue && typ != thriftFalse {
		c.fail(fmt.Errorf("metadata has type %d where a boolean belongs", typ))
	}
	return typ == thriftTrue
}

func (c *compact) binary(typ byte) []byte {
	if typ != thriftBinary {
		c.fail(fmt.Errorf("metadata has type %d where bytes belong", typ))
		return nil
	}
	n := c.uvarint()
	if n > uint64(len(c.b)-c.at) {
		c.fail(errThriftShort)
		return nil
	}
	return c.take(int(n))
}

// structure calls f for each field of a struct; f consumes the value.
func (c *compact) structure(typ byte, f func(id int16, typ byte)) {
	if typ != thriftStruct {
		c.fail(fmt.Errorf("metadata has type %d where a struct belongs", typ))
	}
	if c.depth++; c.depth > maxThriftDepth {
		c.fail(errors.New("metadata nests too deep"))
	}
	defer func() { c.depth-- }()
	id := int16(0)
	for c.err == nil {
		h := c.byte()
		if h == 0 {
			return
		}
		if d := int16(h >> 4); d != 0 {
			id += d
		} else {
			id = int16(c.integer(thriftI16))
		}
		if c.err == nil {
			f(id, h&0xf)
		}
	}
}

// list calls f for each element of a list or set; f consumes it.
func (c *compact) list(typ byte, f func(i int, typ byte)) int {
	if typ != thriftList && typ != thriftSet {
		c.fail(fmt.Errorf("metadata has type %d where a list belongs", typ))
	}
	h := c.byte()
	n := uint64(h >> 4)
	if n == 15 {
		n = c.uvarint()
	}
	if n > uint64(len(c.b)-c.at) { // an element takes a byte at least
		c.fail(errThriftShort)
	}
	for i := 0; i < int(n) && c.err == nil; i++ {
		f(i, h&0xf)
	}
	return int(n)
}

// skip passes over a value. A field's boolean has no bytes, an element's one.
func (c *compact) skip(typ byte) {
	if c.depth++; c.depth > maxThriftDepth {
		c.fail(errors.New("metadata nests too deep"))
	}
	defer func() { c.depth-- }()
	switch typ {
	case thriftTrue, thriftFalse:
	case thriftI8, thriftI16, thriftI32, thriftI64:
		c.integer(typ)
	case thriftDouble:
		c.take(8)
	case thriftBinary:
		c.binary(typ)
	case thriftList, thriftSet:
		c.list(typ, func(_ int, t byte) { c.skipElem(t) })
	case thriftMap:
		c.skipMap()
	case thriftStruct:
		c.structure(typ, func(_ int16, t byte) { c.skip(t) })
	case thriftUUID:
		c.take(16)
	default:
		c.fail(fmt.Errorf("metadata has unknown type %d", typ))
	}
}

func (c *compact) skipElem(typ byte) {
	if typ == thriftTrue || typ == thriftFalse {
		c.byte()
		return
	}
	c.skip(typ)
}

func (c *compact) skipMap() {
	n := c.uvarint()
	if n == 0 {
		return
	}
	types := c.byte()
	if n > uint64(len(c.b)-c.at) {
		c.fail(errThriftShort)
	}
	for i := uint64(0); i < n && c.err == nil; i++ {
		c.skipElem(types >> 4)
		c.skipElem(types & 0xf)
	}
}
