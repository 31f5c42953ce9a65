package parquet

import (
	"encoding/binary"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/deltad/deltad/microbatch/column"
)

// wideDecimal is a decimal on 16 bytes whose statistics are in the order the format prescribes, that of signed numbers. The library's own
// are in the order of the bytes, in which every negative number is greater than every positive one, so that engines would leave out row
// groups that hold what was asked for.
type wideDecimal struct{ pq.Type }

func wideDecimalNode(precision, scale int) pq.Node {
	return pq.Leaf(wideDecimal{pq.Decimal(scale, precision, pq.FixedLenByteArrayType(16)).Type()})
}

// Compare orders as signed numbers.
func (wideDecimal) Compare(a, b pq.Value) int {
	return int128(a.ByteArray()).Cmp(int128(b.ByteArray()))
}

// NewColumnBuffer makes a buffer whose pages have signed bounds.
func (t wideDecimal) NewColumnBuffer(index, capacity int) pq.ColumnBuffer {
	return wideBuffer{t.Type.NewColumnBuffer(index, capacity)}
}

// NewColumnIndexer makes an index that claims no order of its bounds, since the library would find that of the bytes.
func (t wideDecimal) NewColumnIndexer(limit int) pq.ColumnIndexer {
	return unordered{t.Type.NewColumnIndexer(limit)}
}

type wideBuffer struct{ pq.ColumnBuffer }

func (b wideBuffer) Page() pq.Page { return widePage{b.ColumnBuffer.Page()} }

type widePage struct{ pq.Page }

// Bounds are the least and the greatest value as signed numbers.
func (p widePage) Bounds() (least, greatest pq.Value, ok bool) {
	values := make([]pq.Value, p.NumValues())
	n, _ := p.Values().ReadValues(values) // a page in memory gives all, and io.EOF
	for i, v := range values[:n] {
		if i == 0 || (wideDecimal{}).Compare(v, least) < 0 {
			least = v
		}
		if i == 0 || (wideDecimal{}).Compare(v, greatest) > 0 {
			greatest = v
		}
	}
	return least.Clone(), greatest.Clone(), n > 0
}

type unordered struct{ pq.ColumnIndexer }

func (u unordered) ColumnIndex() format.ColumnIndex {
	x := u.ColumnIndexer.ColumnIndex()
	x.BoundaryOrder = format.Unordered
	return x
}

// int128 reads what a decimal column of more than 18 digits holds.
func int128(b []byte) column.Int128 {
	return column.Int128{Hi: int64(binary.BigEndian.Uint64(b)), Lo: binary.BigEndian.Uint64(b[8:])}
}
