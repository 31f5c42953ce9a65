package reader

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink/parquet"
)

// Document is one row of a snapshot. It must not be changed.
type Document struct {
	Fields []column.Field
	Batch  *column.Batch
	Row    int
}

// Key is the document's key as texts.
func (d Document) Key() []string { return parquet.KeyTexts(d.Fields, d.Batch, d.Row) }

// Column returns the vector of a column by name, in which the document is row Row; ok is false if there is none.
func (d Document) Column(name string) (v *column.Vector, ok bool) {
	for i, f := range d.Fields {
		if f.Name == name {
			return d.Batch.Columns[i], true
		}
	}
	return nil, false
}

// MarshalJSON writes the columns in their order: numbers exactly, decimals as numbers with all digits of their scale, NaN and infinities
// as strings, times, dates and bytes as key texts have them, nulls as null.
func (d Document) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	var err error
	for i, f := range d.Fields {
		if out, err = appendName(out, i, f.Name); err != nil {
			return nil, err
		}
		if out, err = appendJSON(out, d.Batch.Columns[i], d.Row); err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
	}
	return append(out, '}'), nil
}

func appendName(out []byte, i int, name string) ([]byte, error) {
	if i > 0 {
		out = append(out, ',')
	}
	b, err := json.Marshal(name)
	return append(append(out, b...), ':'), err
}

func appendJSON(out []byte, v *column.Vector, i int) ([]byte, error) {
	if v.Null(i) {
		return append(out, "null"...), nil
	}
	var err error
	switch v.Type.Kind {
	case column.Bool, column.Int32, column.Int64, column.Decimal:
		return append(out, parquet.KeyText(v, i)...), nil
	case column.Float32, column.Float64:
		if f := v.Floats[i]; !math.IsNaN(f) && !math.IsInf(f, 0) {
			b, err := json.Marshal(f)
			return append(out, b...), err
		}
	case column.List:
		out = append(out, '[')
		for k := v.Offsets[i]; k < v.Offsets[i+1]; k++ {
			if k > v.Offsets[i] {
				out = append(out, ',')
			}
			if out, err = appendJSON(out, v.Elem, int(k)); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case column.Struct:
		out = append(out, '{')
		for k, f := range v.Type.Fields {
			if out, err = appendName(out, k, f.Name); err != nil {
				return nil, err
			}
			if out, err = appendJSON(out, v.Fields[k], i); err != nil {
				return nil, err
			}
		}
		return append(out, '}'), nil
	}
	b, err := json.Marshal(parquet.KeyText(v, i))
	return append(out, b...), err
}
