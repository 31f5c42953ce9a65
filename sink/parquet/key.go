package parquet

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch/column"
)

// KeyText is row i of a key column as manifests spell it; see the package comment.
func KeyText(v *column.Vector, i int) string {
	switch v.Type.Kind {
	case column.Bool:
		return strconv.FormatBool(v.Bools[i])
	case column.Int32, column.Int64:
		return strconv.FormatInt(v.Ints[i], 10)
	case column.Float32, column.Float64:
		return floatText(v.Floats[i])
	case column.Decimal:
		return decimalText(v.Decimals[i].Big(), int(v.Type.Scale))
	case column.Bytes:
		return hex.EncodeToString([]byte(v.Strings[i]))
	case column.Date:
		return time.Unix(v.Ints[i]*86400, 0).UTC().Format(time.DateOnly)
	case column.Time:
		return time.Unix(0, v.Ints[i]).UTC().Format("15:04:05.999999999")
	case column.Timestamp:
		return v.Instant(i).Format(time.RFC3339Nano)
	case column.String:
		return v.Strings[i]
	}
	return ""
}

// KeyTexts is row i of the key columns among fields.
func KeyTexts(fields []column.Field, b *column.Batch, i int) []string {
	var out []string
	for c, f := range fields {
		if f.Key {
			out = append(out, KeyText(b.Columns[c], i))
		}
	}
	return out
}

func floatText(f float64) string {
	if f == 0 {
		f = 0 // one zero
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func decimalText(unscaled *big.Int, scale int) string {
	s := new(big.Int).Abs(unscaled).String()
	if scale > 0 {
		if pad := scale + 1 - len(s); pad > 0 {
			s = strings.Repeat("0", pad) + s
		}
		s = s[:len(s)-scale] + "." + s[len(s)-scale:]
	}
	if unscaled.Sign() < 0 {
		s = "-" + s
	}
	return s
}

// plain takes off an error of strconv what names the function and repeats the text.
func plain(err error) error {
	var number *strconv.NumError
	if errors.As(err, &number) {
		return number.Err
	}
	return err
}

func appendText(v *column.Vector, s string) error {
	switch v.Type.Kind {
	case column.Bool:
		b, err := strconv.ParseBool(s)
		v.AppendBool(b)
		return err
	case column.Int32, column.Int64:
		bits := 64
		if v.Type.Kind == column.Int32 {
			bits = 32
		}
		i, err := strconv.ParseInt(s, 10, bits)
		v.AppendInt(i)
		return err
	case column.Float32: // 0.1 is the float that a reader of the column prints as 0.1
		f, err := strconv.ParseFloat(s, 32)
		v.AppendFloat(f)
		return err
	case column.Float64:
		f, err := strconv.ParseFloat(s, 64)
		v.AppendFloat(f)
		return err
	case column.Decimal:
		return appendDecimal(v, s)
	case column.String:
		v.AppendString(s)
		return nil
	case column.Bytes:
		b, err := hex.DecodeString(s)
		v.AppendString(string(b))
		return err
	case column.Date:
		t, err := time.Parse(time.DateOnly, s)
		v.AppendInt(t.Unix() / 86400)
		return err
	case column.Time:
		t, err := time.Parse("15:04:05.999999999", s)
		v.AppendInt(t.Sub(t.Truncate(24 * time.Hour)).Nanoseconds())
		return err
	case column.Timestamp:
		t, err := time.Parse(time.RFC3339Nano, s)
		v.AppendTimestamp(t.Unix(), int32(t.Nanosecond()))
		return err
	}
	return fmt.Errorf("this type cannot be a key")
}

func appendDecimal(v *column.Vector, s string) error {
	whole, frac, _ := strings.Cut(s, ".")
	frac = strings.TrimRight(frac, "0")
	scale := int(v.Type.Scale)
	digits := strings.TrimLeft(whole, "+-")
	if digits+frac == "" || strings.Trim(digits+frac, "0123456789") != "" || len(whole)-len(digits) > 1 {
		return fmt.Errorf("not a decimal number")
	}
	if len(frac) > scale {
		return fmt.Errorf("more than %d digits behind the point", scale)
	}
	b, ok := new(big.Int).SetString(whole+frac+strings.Repeat("0", scale-len(frac)), 10)
	if !ok {
		return fmt.Errorf("not a decimal number")
	}
	d, ok := column.Int128FromBig(b)
	if !ok || !fits(d, int(v.Type.Precision)) {
		return fmt.Errorf("more than %d digits", v.Type.Precision)
	}
	v.AppendDecimal(d)
	return nil
}

// CompareKeys orders row i of a against row j of b by the key columns among fields: numbers by value with NaN last, text and bytes by
// bytes, false before true, times by instant.
func CompareKeys(fields []column.Field, a *column.Batch, i int, b *column.Batch, j int) int {
	for c, f := range fields {
		if !f.Key {
			continue
		}
		if d := compare(a.Columns[c], i, b.Columns[c], j); d != 0 {
			return d
		}
	}
	return 0
}

// SameKey says whether rows of both have one key: columns of the same names in the same order, with types whose values CompareKeys orders
// among each other, which is equal types, integers of any width, and floats of any width.
func SameKey(a, b []column.Field) bool {
	return slices.EqualFunc(KeyFields(a), KeyFields(b), func(f, g column.Field) bool {
		return f.Name == g.Name && f.Type.SameRepr(g.Type)
	})
}

// unordered is the first of rows i+1 to j whose key does not come after that of the row before it, or less than 0.
func unordered(fields []column.Field, b *column.Batch, i, j int) int {
	first := 0
	for !fields[first].Key {
		first++
	}
	v := b.Columns[first]
	for k := i + 1; k < j; k++ {
		switch v.Type.Kind {
		case column.Int32, column.Int64:
			if v.Ints[k-1] < v.Ints[k] {
				continue
			}
		case column.String, column.Bytes:
			if v.Strings[k-1] < v.Strings[k] {
				continue
			}
		}
		if CompareKeys(fields, b, k-1, b, k) >= 0 {
			return k
		}
	}
	return -1
}

func compare(a *column.Vector, i int, b *column.Vector, j int) int {
	switch a.Type.Kind {
	case column.Bool:
		return cmp.Compare(bit(a.Bools[i]), bit(b.Bools[j]))
	case column.Int32, column.Int64, column.Date, column.Time:
		return cmp.Compare(a.Ints[i], b.Ints[j])
	case column.Timestamp:
		return cmp.Or(cmp.Compare(a.Ints[i], b.Ints[j]), cmp.Compare(a.Nanos[i], b.Nanos[j]))
	case column.Float32, column.Float64:
		x, y := a.Floats[i], b.Floats[j]
		if math.IsNaN(x) || math.IsNaN(y) {
			return cmp.Compare(bit(math.IsNaN(x)), bit(math.IsNaN(y)))
		}
		return cmp.Compare(x, y)
	case column.Decimal:
		return a.Decimals[i].Cmp(b.Decimals[j])
	case column.String, column.Bytes:
		return cmp.Compare(a.Strings[i], b.Strings[j])
	}
	return 0
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// KeyRow makes a batch of one row out of a key: the columns of keys, of which each value is given as text.
func KeyRow(keys []column.Field, texts []string) (*column.Batch, error) {
	b := column.NewBatch(keys)
	for i, f := range keys {
		if err := appendText(b.Columns[i], texts[i]); err != nil {
			return nil, fmt.Errorf("key column %s: %q is no %s: %w", f.Name, texts[i], f.Type, plain(err))
		}
	}
	b.Len = 1
	return b, nil
}
