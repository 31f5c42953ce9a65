package parquet

import (
	"encoding/binary"

	"github.com/deltad/deltad/microbatch/column"
)

// int128 reads what a decimal column of more than 18 digits holds.
func int128(b []byte) column.Int128 {
	return column.Int128{Hi: int64(binary.BigEndian.Uint64(b)), Lo: binary.BigEndian.Uint64(b[8:])}
}

// appendWide appends what such a column holds.
func appendWide(dst []byte, d column.Int128) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(d.Hi)), d.Lo)
}
