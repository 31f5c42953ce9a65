package window

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/tuple"
)

// fieldOf names fn j of the shape.
func fieldOf(bound *index.Bound, j int) string {
	if j == 0 {
		return "the record register"
	}
	for _, f := range bound.Program().Spec().Fields {
		if f.Expr != "" {
			continue
		}
		if j--; j == 0 {
			return "field " + clip(f.Name)
		}
	}
	return fmt.Sprintf("accumulator %d after the last field", j)
}

// maxClip bounds each part of a message that has no bound of its own.
const maxClip = 200

// keyText is a key for people; one that cannot be decoded is shown as it is.
func keyText(bound *index.Bound, key []byte) string {
	fields := bound.Shape().Keys
	parts := make([]string, len(fields))
	rest := key
	for k, f := range fields {
		v := column.New(f.Type)
		var err error
		if rest, err = tuple.Decode(rest, v); err != nil {
			return clip(hex.EncodeToString(key))
		}
		parts[k] = f.Name + "=" + valueText(v)
	}
	return clip(strings.Join(parts, ","))
}

func clip(s string) string {
	if len(s) > maxClip {
		return strings.ToValidUTF8(s[:maxClip], "") + "…"
	}
	return s
}

// valueText is row 0 of a key column.
func valueText(v *column.Vector) string {
	switch v.Type.Kind {
	case column.Bool:
		return fmt.Sprint(v.Bools[0])
	case column.Int32, column.Int64:
		return fmt.Sprint(v.Ints[0])
	case column.Float32, column.Float64:
		return fmt.Sprint(v.Floats[0])
	case column.Decimal:
		return fmt.Sprintf("%se-%d", v.Decimals[0].Big(), v.Type.Scale)
	case column.String:
		return v.Strings[0]
	case column.Bytes:
		return hex.EncodeToString([]byte(v.Strings[0]))
	case column.Date:
		return time.Unix(v.Ints[0]*86400, 0).UTC().Format(time.DateOnly)
	case column.Time:
		return time.Duration(v.Ints[0]).String()
	case column.Timestamp:
		return v.Instant(0).Format(time.RFC3339Nano)
	}
	return "?"
}
