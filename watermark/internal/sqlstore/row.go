package sqlstore

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/deltad/deltad/watermark"
)

// Row is one result row as the driver gave it: int64, bool, string, time.Time
// or nil, whatever the database holds. What it means is decided here, column
// by column, so that a value that cannot be right is an error which names it.
type Row struct {
	names  []string
	values []any
}

// NewRow pairs column names with values.
func NewRow(names []string, values []any) Row { return Row{names: names, values: values} }

// decoder reads one row and keeps the first thing that is wrong.
type decoder struct {
	row      Row
	table    string
	pipeline string
	err      error
}

// decode starts to read a row of a table. pipeline is empty where a column tells
// it: the caller sets it once that is read.
func decode(r Row, table, pipeline string) *decoder {
	return &decoder{row: r, table: table, pipeline: pipeline}
}

func (d *decoder) fail(column, format string, args ...any) {
	if d.err == nil {
		d.err = &watermark.CorruptError{
			Pipeline: d.pipeline, Table: d.table, Column: column, Detail: fmt.Sprintf(format, args...),
		}
	}
}

func (d *decoder) value(column string) any {
	for i, n := range d.row.names {
		if n == column {
			return d.row.values[i]
		}
	}
	d.fail(column, "column is missing from the result")
	return nil
}

func (d *decoder) text(column string) string {
	s, ok := d.value(column).(string)
	if !ok {
		d.fail(column, "want text, got %T", d.value(column))
	}
	return s
}

func (d *decoder) named(column string) string {
	s := d.text(column)
	if s == "" {
		d.fail(column, "is empty")
	}
	return s
}

// oneOf is a text that must be one of a closed set.
func oneOf[T ~string](d *decoder, column string, allowed ...T) T {
	s := T(d.text(column))
	for _, a := range allowed {
		if s == a {
			return s
		}
	}
	d.fail(column, "unknown value %q", s)
	return s
}

// number is an integer of at least lowest.
func (d *decoder) number(column string, lowest int64) int64 {
	n, ok := d.value(column).(int64)
	switch {
	case !ok:
		d.fail(column, "want an integer, got %T", d.value(column))
	case n < lowest:
		d.fail(column, "%d is below %d", n, lowest)
	}
	return n
}

func (d *decoder) flag(column string) bool {
	switch v := d.value(column).(type) {
	case bool:
		return v
	case int64:
		if v == 0 || v == 1 {
			return v == 1
		}
		d.fail(column, "want 0 or 1, got %d", v)
	default:
		d.fail(column, "want a boolean, got %T", v)
	}
	return false
}

// instant is a time that must be there.
func (d *decoder) instant(column string) time.Time {
	t := d.nullable(column)
	if t.IsZero() {
		d.fail(column, "is null")
	}
	return t
}

// nullable is a time, zero for null.
func (d *decoder) nullable(column string) time.Time {
	var t time.Time
	switch v := d.value(column).(type) {
	case nil:
		return time.Time{}
	case time.Time:
		t = v.UTC()
	case int64:
		t = time.UnixMicro(v).UTC()
	default:
		d.fail(column, "want an instant, got %T %v", v, v)
		return time.Time{}
	}
	if !inRange(t) {
		d.fail(column, "%s is outside the years 1 to 9999", t)
	}
	return t
}

func (d *decoder) object(column string) json.RawMessage {
	s := d.text(column)
	if !isObject([]byte(s)) {
		d.fail(column, "is not a JSON object")
	}
	return json.RawMessage(s)
}

func (d *decoder) array(column string) json.RawMessage {
	s := d.text(column)
	if !isArray([]byte(s)) {
		d.fail(column, "is not a JSON array")
	}
	return json.RawMessage(s)
}

// texts is a JSON array of texts.
func (d *decoder) texts(column string) []string {
	var out []string
	if raw := d.array(column); d.err == nil && json.Unmarshal(raw, &out) != nil {
		d.fail(column, "is not a JSON array of texts")
	}
	return out
}

// inRange keeps to the years that RFC 3339 can write.
func inRange(t time.Time) bool {
	return !t.IsZero() && t.UTC().Year() >= 1 && t.UTC().Year() <= 9999
}

func isObject(text []byte) bool {
	var m map[string]json.RawMessage
	return json.Unmarshal(text, &m) == nil && m != nil
}

func isArray(text []byte) bool {
	var a []json.RawMessage
	return json.Unmarshal(text, &a) == nil && a != nil
}
