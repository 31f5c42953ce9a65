package scan

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
)

// memBlob is an object in memory.
type memBlob struct {
	key   string
	data  []byte
	reads int
}

func (b *memBlob) Key() string { return b.key }
func (b *memBlob) Size() int64 { return int64(len(b.data)) }
func (b *memBlob) ReadAll(ctx context.Context) ([]byte, error) {
	b.reads++
	return b.data, ctx.Err()
}
func (b *memBlob) ReadRange(ctx context.Context, off, n int64) ([]byte, error) {
	b.reads++
	if off < 0 || n < 0 || off+n > int64(len(b.data)) {
		return nil, fmt.Errorf("range %d+%d outside %d", off, n, len(b.data))
	}
	return b.data[off : off+n], ctx.Err()
}

func textBlob(key, s string) *memBlob { return &memBlob{key: key, data: []byte(s)} }

// paths makes columns of paths; a leading ? means Optional, a leading # Numeric.
func paths(names ...string) []Column {
	var out []Column
	for _, n := range names {
		c := Column{Path: strings.TrimLeft(n, "?#")}
		marks := strings.TrimSuffix(n, c.Path)
		c.Optional, c.Numeric = strings.Contains(marks, "?"), strings.Contains(marks, "#")
		out = append(out, c)
	}
	return out
}

// rows renders a scan: a line of "a|b" per row.
func rows(blob Blob, req Request) ([]string, Result, error) {
	var out []string
	res, err := Scan(context.Background(), blob, req, func(b *column.Batch) error {
		for _, c := range b.Columns {
			if c.Len() != b.Len {
				return fmt.Errorf("column of %d rows in a batch of %d", c.Len(), b.Len)
			}
		}
		for i := range b.Len {
			var cells []string
			for _, c := range b.Columns {
				cells = append(cells, show(c, i))
			}
			out = append(out, strings.Join(cells, "|"))
		}
		return nil
	})
	return out, res, err
}

// show renders row i of a vector and thereby touches all of its storage.
func show(v *column.Vector, i int) string {
	if v.Null(i) {
		return "null"
	}
	switch v.Type.Kind {
	case column.Bool:
		return fmt.Sprint(v.Bools[i])
	case column.Int32, column.Int64, column.Date, column.Time:
		return fmt.Sprint(v.Ints[i])
	case column.Timestamp:
		return v.Instant(i).Format("2006-01-02T15:04:05.999999999Z07:00")
	case column.Float32, column.Float64:
		return fmt.Sprintf("%vf", v.Floats[i])
	case column.Decimal:
		return v.Decimals[i].Big().String() + fmt.Sprintf("e-%d", v.Type.Scale)
	case column.String, column.Bytes:
		return fmt.Sprintf("%q", v.Strings[i])
	case column.List:
		var parts []string
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			parts = append(parts, show(v.Elem, int(j)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case column.Struct:
		var parts []string
		for j, f := range v.Fields {
			parts = append(parts, v.Type.Fields[j].Name+":"+show(f, i))
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	return "?" + v.Type.String()
}

func types(ts []column.Type) string {
	var out []string
	for _, t := range ts {
		out = append(out, t.String())
	}
	return strings.Join(out, " ")
}

// mustRows scans and fails the test on an error.
func mustRows(t *testing.T, blob Blob, req Request) ([]string, Result) {
	t.Helper()
	out, res, err := rows(blob, req)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(out)) != res.Rows {
		t.Fatalf("%d rows emitted, result says %d", len(out), res.Rows)
	}
	return out, res
}

// wantError checks that the error names all the parts.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

func isOneOf(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
