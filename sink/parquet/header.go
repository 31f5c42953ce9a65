package parquet

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/parquet-go/parquet-go/format"
)

// pageHeader is the header of a page in thrift's compact form, of fewer than 40 bytes.
type pageHeader struct {
	bytes [48]byte
	n     int
}

// field appends an integer, the next field of its structure.
func (h *pageHeader) field(v int32) {
	h.byte(thriftInt)
	h.n += binary.PutUvarint(h.bytes[h.n:], uint64(uint32(v)<<1^uint32(v>>31)))
}

func (h *pageHeader) byte(b byte) { h.bytes[h.n] = b; h.n++ }

// The heads of thrift fields: how far the number is from the one before, and the type.
const (
	thriftInt    = 0x15
	thriftStruct = 0x1C
	thriftStop   = 0
)

func newHeader(t format.PageType, packed []byte, size int) *pageHeader {
	h := &pageHeader{}
	h.field(int32(t))
	h.field(int32(size))
	h.field(int32(len(packed)))
	h.field(int32(crc32.ChecksumIEEE(packed)))
	return h
}

// header is that of a data page of the first version, without statistics: those are in the page index.
func header(packed []byte, size, values int, encoding format.Encoding) *pageHeader {
	h := newHeader(format.DataPage, packed, size)
	h.byte(thriftStruct)
	h.field(int32(values))
	h.field(int32(encoding))
	h.field(int32(format.RLE))
	h.field(int32(format.RLE))
	h.byte(thriftStop)
	h.byte(thriftStop)
	return h
}

// dictionaryHeader is that of the page of a dictionary.
func dictionaryHeader(packed []byte, size, values int) *pageHeader {
	h := newHeader(format.DictionaryPage, packed, size)
	h.byte(thriftStruct + 2<<4)
	h.field(int32(values))
	h.field(int32(format.Plain))
	h.byte(thriftStop)
	h.byte(thriftStop)
	return h
}
