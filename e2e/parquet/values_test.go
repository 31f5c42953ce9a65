//go:build integration

package parquet_test

import (
	"context"
	"fmt"
	"maps"
	"math/big"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/scan"
)

// Values of both engines in one form of text, so that equal text is an equal
// value: floats by their shortest digits, times as instants, structs by the
// names of their fields, bytes and strings quoted alike.

// blob is an object in memory.
type blob struct {
	key  string
	data []byte
}

func (b blob) Key() string                             { return b.key }
func (b blob) Size() int64                             { return int64(len(b.data)) }
func (b blob) ReadAll(context.Context) ([]byte, error) { return b.data, nil }
func (b blob) ReadRange(_ context.Context, off, n int64) ([]byte, error) {
	return b.data[off : off+n], nil
}

// open reads a file into a blob.
func open(path string) (blob, error) {
	data, err := os.ReadFile(path)
	return blob{key: path, data: data}, err
}

// deltadColumn reads one column with deltad.
func deltadColumn(ctx context.Context, b scan.Blob, name string, lim scan.Limits) (values []string, err error) {
	req := scan.Request{Format: scan.Parquet, Columns: []scan.Column{{Path: name}}, Limits: lim}
	_, err = scan.Scan(ctx, b, req, func(b *column.Batch) error {
		for i := range b.Len {
			values = append(values, ofVector(b.Columns[0], i))
		}
		return nil
	})
	return values, err
}

// ofVector is the text of row i.
func ofVector(v *column.Vector, i int) string {
	if v.Null(i) {
		return "null"
	}
	switch v.Type.Kind {
	case column.Bool:
		return strconv.FormatBool(v.Bools[i])
	case column.Int32, column.Int64:
		return strconv.FormatInt(v.Ints[i], 10)
	case column.Date:
		return instant(time.Unix(v.Ints[i]*86400, 0))
	case column.Time:
		return instant(time.Date(1, 1, 1, 0, 0, 0, int(v.Ints[i]), time.UTC))
	case column.Timestamp:
		return instant(v.Instant(i))
	case column.Float32, column.Float64:
		return float(v.Floats[i])
	case column.Decimal:
		return decimal(v.Decimals[i].Big(), v.Type.Scale)
	case column.List:
		var parts []string
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			parts = append(parts, ofVector(v.Elem, int(j)))
		}
		return list(parts)
	case column.Struct:
		fields := map[string]string{}
		for j, f := range v.Type.Fields {
			fields[f.Name] = ofVector(v.Fields[j], i)
		}
		return structure(fields)
	}
	return strconv.Quote(v.Strings[i])
}

// ofDuck is the text of a value of DuckDB's driver.
func ofDuck(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case int8, int16, int32, int64, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v)
	case float32:
		return float(float64(v))
	case float64:
		return float(v)
	case string:
		return strconv.Quote(v)
	case []byte:
		return strconv.Quote(string(v))
	case time.Time:
		return instant(v)
	case duckdb.UUID:
		return strconv.Quote(v.String())
	case duckdb.Decimal:
		return decimal(v.Value, v.Scale)
	case *big.Int:
		return decimal(v, 0)
	case []any:
		var parts []string
		for _, x := range v {
			parts = append(parts, ofDuck(x))
		}
		return list(parts)
	case map[string]any:
		fields := map[string]string{}
		for name, x := range v {
			fields[name] = ofDuck(x)
		}
		return structure(fields)
	}
	return fmt.Sprintf("a %T", v)
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func float(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func decimal(unscaled *big.Int, scale uint8) string {
	if scale == 0 {
		return unscaled.String()
	}
	return fmt.Sprintf("%se-%d", unscaled, scale)
}

func list(parts []string) string { return "[" + strings.Join(parts, " ") + "]" }

func structure(fields map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, name+":"+fields[name])
	}
	return "{" + strings.Join(parts, " ") + "}"
}
