package parquet

import (
	"slices"

	"github.com/parquet-go/parquet-go/bloom"
	"github.com/parquet-go/parquet-go/bloom/xxhash"
	"github.com/parquet-go/parquet-go/format"
)

// chunk is the finished pages of one leaf in the row group that is being filled, and what metadata say of them.
type chunk struct {
	pages     [][]byte              // one after the other, cut anywhere
	packed    int64                 // bytes in pages
	locations []format.PageLocation // offsets from the start of pages
	index     []indexed
	encodings []format.PageEncodingStats
	rows      int64
	values    int64
	nulls     int64
	size      int64      // of pages and their headers, not compressed
	hashes    [][]uint64 // by page, of the values of a key column, for its bloom filter

	dict    *dictionary
	plain   bool  // the pages from here on have no dictionary
	squeeze uint8 // what becomes of fractions
}

// indexed is what the page index has of a page: its bounds as the format writes them, without any where the page has none.
type indexed struct {
	least, greatest []byte
	bounded         bool
	nulls, values   int64
}

// add takes a page of the leaf's values.
func (c *chunk) add(l *leaf, h *pageHeader, packed []byte, size int, encoding format.Encoding) {
	c.locations = append(c.locations, format.PageLocation{
		Offset: c.packed, CompressedPageSize: int32(h.n + len(packed)), FirstRowIndex: c.rows,
	})
	c.append(h.bytes[:h.n])
	c.append(packed)
	c.count(format.DataPage, encoding)
	c.rows += int64(l.rows)
	c.values += int64(l.values)
	c.nulls += int64(l.nulls)
	c.size += int64(h.n + size)
	x := indexed{nulls: int64(l.nulls), values: int64(l.values)}
	x.least, x.greatest, x.bounded = l.bounds()
	c.index = append(c.index, x)
	if l.filtered() {
		c.hashes = append(c.hashes, l.hashes(make([]uint64, 0, l.values)))
	}
}

// Blocks of pages grow to blockBytes and no further, so that a chunk is not copied over and over.
const blockBytes = 64 << 10

// append adds to pages.
func (c *chunk) append(b []byte) {
	c.packed += int64(len(b))
	for len(b) > 0 {
		last := len(c.pages) - 1
		if last < 0 || len(c.pages[last]) == cap(c.pages[last]) {
			size := min(blockBytes, max(len(b), int(c.packed)))
			if last++; last < cap(c.pages) && cap(c.pages[:last+1][last]) > 0 {
				c.pages = c.pages[:last+1] // that of a chunk before
				c.pages[last] = c.pages[last][:0]
			} else {
				c.pages = append(c.pages, make([]byte, 0, size))
			}
		}
		block := c.pages[last]
		n := min(len(b), cap(block)-len(block))
		c.pages[last] = append(block, b[:n]...)
		b = b[n:]
	}
}

func (c *chunk) count(t format.PageType, e format.Encoding) {
	for i := range c.encodings {
		if s := &c.encodings[i]; s.PageType == t && s.Encoding == e {
			s.Count++
			return
		}
	}
	c.encodings = append(c.encodings, format.PageEncodingStats{PageType: t, Encoding: e, Count: 1})
}

// reset makes the chunk that of the next row group.
func (c *chunk) reset() {
	d := c.dict
	if d != nil {
		d.reset()
	}
	*c = chunk{pages: c.pages[:0], dict: d}
}

// filtered says whether the leaf gets a bloom filter: two values need none, and the format has none for them.
func (l *leaf) filtered() bool { return l.key && l.physical != format.Boolean }

// hashes appends the hashes of the page's values, one for a run of equal ones.
func (l *leaf) hashes(dst []uint64) []uint64 {
	switch l.physical {
	case format.Int32:
		for i, v := range l.int32s {
			if i == 0 || v != l.int32s[i-1] {
				dst = append(dst, xxhash.Sum64Uint32(uint32(v)))
			}
		}
	case format.Int64:
		for i, v := range l.int64s {
			if i == 0 || v != l.int64s[i-1] {
				dst = append(dst, xxhash.Sum64Uint64(uint64(v)))
			}
		}
	case format.Float, format.Double:
		return l.fractionHashes(dst)
	case format.FixedLenByteArray:
		for at := 0; at < len(l.fixed); at += wide {
			dst = append(dst, xxhash.Sum64(l.fixed[at:at+wide]))
		}
	case format.ByteArray:
		at := 0
		var before []byte
		for i, n := range l.lengths {
			v := l.text[at : at+int(n)]
			if i == 0 || l.sole || string(v) != string(before) {
				dst = append(dst, xxhash.Sum64(v))
			}
			at, before = at+int(n), v
		}
	}
	return dst
}

// filter is the bloom filter of the chunk, sized by its values.
func (c *chunk) filter() []byte {
	f := make(bloom.SplitBlockFilter, bloom.NumSplitBlocksOf(c.values, bloomBits))
	for _, page := range c.hashes {
		f.InsertBulk(page)
	}
	return f.Bytes()
}

// metadata describes the chunk, whose first page begins at offset.
func (c *chunk) metadata(l *leaf, offset int64) format.ColumnMetaData {
	encodings := []format.Encoding{}
	add := func(e format.Encoding) {
		if !slices.Contains(encodings, e) {
			encodings = append(encodings, e)
		}
	}
	if l.def > 0 {
		add(format.RLE)
	}
	for _, s := range c.encodings {
		add(s.Encoding)
	}
	slices.Sort(encodings)
	m := format.ColumnMetaData{
		Type: l.physical, Encoding: encodings, PathInSchema: l.names, Codec: format.Zstd,
		NumValues: c.values, TotalUncompressedSize: c.size, TotalCompressedSize: c.packed, DataPageOffset: offset,
		EncodingStats: c.encodings,
		Statistics:    format.Statistics{NullCount: c.nulls},
	}
	for _, x := range c.index {
		if !x.bounded {
			continue
		}
		if m.Statistics.MinValue == nil || l.compare(x.least, m.Statistics.MinValue) < 0 {
			m.Statistics.MinValue = x.least
		}
		if m.Statistics.MaxValue == nil || l.compare(x.greatest, m.Statistics.MaxValue) > 0 {
			m.Statistics.MaxValue = x.greatest
		}
	}
	if max(len(m.Statistics.MinValue), len(m.Statistics.MaxValue)) > statisticsBytes {
		m.Statistics.MinValue, m.Statistics.MaxValue = nil, nil
	}
	return m
}

// columnIndex is the page index of the chunk; it has none if a page has values without bounds.
func (c *chunk) columnIndex(l *leaf) (format.ColumnIndex, bool) {
	x := format.ColumnIndex{BoundaryOrder: format.Unordered}
	ascending, descending := true, true
	var last *indexed
	for i := range c.index {
		p := &c.index[i]
		empty := p.nulls == p.values
		if !empty && !p.bounded {
			return x, false
		}
		x.NullPages = append(x.NullPages, empty)
		x.NullCounts = append(x.NullCounts, p.nulls)
		x.MinValues = append(x.MinValues, l.below(p.least))
		x.MaxValues = append(x.MaxValues, l.above(p.greatest))
		if empty {
			continue
		}
		if last != nil {
			a, b := l.compare(last.least, p.least), l.compare(last.greatest, p.greatest)
			ascending, descending = ascending && a <= 0 && b <= 0, descending && a >= 0 && b >= 0
		}
		last = p
	}
	switch {
	case l.physical == format.FixedLenByteArray: // some readers would look for the order of the bytes
	case ascending:
		x.BoundaryOrder = format.Ascending
	case descending:
		x.BoundaryOrder = format.Descending
	}
	return x, true
}
