package combinetest

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/tuple"
)

// longestText is what is shown of a string.
const longestText = 60

// valueText is row i of a vector for people.
func valueText(v *column.Vector, i int) string {
	if v.Null(i) {
		return "null"
	}
	switch v.Type.Kind {
	case column.Null: // every row of it is null
	case column.Bool:
		return strconv.FormatBool(v.Bools[i])
	case column.Int32, column.Int64:
		return strconv.FormatInt(v.Ints[i], 10)
	case column.Float32, column.Float64:
		return floatText(v.Floats[i])
	case column.Decimal:
		return decimalText(v.Decimals[i].Big(), int(v.Type.Scale))
	case column.String:
		return cut(strconv.Quote(v.Strings[i]))
	case column.Bytes:
		return cut(fmt.Sprintf("x'%x'", v.Strings[i]))
	case column.Date:
		return time.Unix(v.Ints[i]*86400, 0).UTC().Format(time.DateOnly)
	case column.Time:
		return time.Unix(0, v.Ints[i]).UTC().Format("15:04:05.999999999")
	case column.Timestamp:
		return v.Instant(i).Format(time.RFC3339Nano)
	case column.List:
		var parts []string
		for k := v.Offsets[i]; k < v.Offsets[i+1]; k++ {
			parts = append(parts, valueText(v.Elem, int(k)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case column.Struct:
		var parts []string
		for k, f := range v.Fields {
			parts = append(parts, v.Type.Fields[k].Name+": "+valueText(f, i))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "null"
}

// floatText tells apart what other notations do not: zeros and NaNs.
func floatText(f float64) string {
	if math.IsNaN(f) {
		return fmt.Sprintf("NaN(%x)", math.Float64bits(f))
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func decimalText(x *big.Int, scale int) string {
	if scale == 0 {
		return x.String()
	}
	digits := new(big.Int).Abs(x).String()
	if short := scale + 1 - len(digits); short > 0 {
		digits = strings.Repeat("0", short) + digits
	}
	sign := ""
	if x.Sign() < 0 {
		sign = "-"
	}
	return sign + digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
}

func cut(s string) string {
	if len(s) <= longestText {
		return s
	}
	return fmt.Sprintf("%s… (%d characters)", strings.ToValidUTF8(s[:longestText], ""), len(s))
}

// rankText says of a rank when the record is of and whether it deletes. The
// record's content, which follows, is what its arguments show.
func rankText(rank []byte) string {
	at := column.New(column.Of(column.Timestamp))
	rest, err := tuple.Decode(rank, at)
	if err != nil {
		return fmt.Sprintf("of rank %x", rank)
	}
	text := "without an event time"
	if !at.Null(0) {
		text = "of " + at.Instant(0).Format(time.RFC3339Nano)
	}
	if tuple.IsTrue(rest) {
		text += ", deletes"
	}
	return text
}
