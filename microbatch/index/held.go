package index

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
)

// Times are exact to the nanosecond here, the files of a pane have microseconds.
// A record whose time would have to be rounded to be in a document is a bad row:
// only while it is lifted is it known whose it is. What is not seen then, as the
// value of an expression over documents, is an error that names key and field.

// hasTimes says whether values of the type are times, or hold some.
func hasTimes(t column.Type) bool {
	switch t.Kind {
	case column.Timestamp, column.Time:
		return true
	case column.List:
		return hasTimes(*t.Elem)
	}
	return slices.ContainsFunc(t.Fields, func(f column.Field) bool { return hasTimes(f.Type) })
}

// unheld says of a value what no document can hold of it.
func unheld(v *column.Vector, i int) (why string) {
	if v.Null(i) {
		return ""
	}
	switch v.Type.Kind {
	case column.Timestamp:
		return unheldInstant(v, i)
	case column.Time:
		if n := v.Ints[i]; n%1000 != 0 {
			return fmt.Sprintf("time %s has nanoseconds, documents have microseconds", time.Time{}.Add(time.Duration(n)).Format("15:04:05.999999999"))
		}
	case column.List:
		for j := v.Offsets[i]; j < v.Offsets[i+1] && why == ""; j++ {
			why = unheld(v.Elem, int(j))
		}
	case column.Struct:
		for k := 0; k < len(v.Fields) && why == ""; k++ {
			why = unheld(v.Fields[k], i)
		}
	}
	return why
}

func unheldInstant(v *column.Vector, i int) string {
	seconds, nanos := v.Ints[i], v.Nanos[i]
	switch {
	case nanos%1000 != 0:
		return fmt.Sprintf("timestamp %s has nanoseconds, documents have microseconds", v.Instant(i).Format(time.RFC3339Nano))
	case seconds > math.MaxInt64/1_000_000-1 || seconds < math.MinInt64/1_000_000+1:
		return fmt.Sprintf("timestamp %s is out of the range of microseconds", v.Instant(i).Format(time.RFC3339Nano))
	}
	return ""
}

// firstUnheld returns the first row of v from the given one on that no document
// can hold.
func firstUnheld(v *column.Vector, from int) (row int, why string) {
	for i := from; i < v.Len(); i++ {
		if why := unheld(v, i); why != "" {
			return i, why
		}
	}
	return 0, ""
}

// timed are the fields whose values are times, among those that the lifter fills.
func (l *Lifter) timed() (fields []int) {
	for n := range l.fields {
		if hasTimes(l.bound.fns[n+1].Output()) {
			fields = append(fields, n)
		}
	}
	return fields
}

// leaveOut takes the records out of rows whose values no document can hold, and
// counts them as bad.
func (l *Lifter) leaveOut(batch *column.Batch, first int64, st *Stats) error {
	if len(l.timedFields) == 0 {
		return nil
	}
	clear(l.whys)
	l.held = zeroed(l.held, len(batch.Columns))
	for _, n := range l.timedFields {
		if err := l.findUnheld(n, batch); err != nil {
			return named(err, first)
		}
	}
	if len(l.whys) == 0 {
		return nil
	}
	rows := l.some[:0] // which rows may share
	for _, i := range l.rows {
		why, bad := l.whys[i]
		switch row := first + int64(i); {
		case !bad:
			rows = append(rows, i)
		case l.Reject == nil:
			return fmt.Errorf("row %d: %s", row+1, why)
		default:
			l.Reject(BadRow{Row: row, Reason: why})
			st.Rejected, st.Rows = st.Rejected+1, st.Rows-1
		}
	}
	l.some, l.rows = rows, rows
	return nil
}

// findUnheld notes the records that field n takes and no document can hold.
func (l *Lifter) findUnheld(n int, batch *column.Batch) error {
	f := &l.fields[n]
	if !f.computesTimes && !slices.ContainsFunc(f.args, func(c int) bool { return c >= 0 && l.holdsNot(batch, c) }) {
		return nil
	}
	in := combine.Input{Rows: l.rows, Groups: make([]uint32, batch.Len), Order: &l.order}
	if l.deletes != nil { // which add nothing to fields
		in.Rows = slices.DeleteFunc(slices.Clone(l.rows), func(i int32) bool { return l.dead[i] == removes })
	}
	if err := l.take(f, batch, &in); err != nil {
		return l.inField(n, err)
	}
	for _, i := range slices.Clone(in.Rows) {
		if _, known := l.whys[i]; known {
			continue
		}
		columns := l.unheldArgs(n, &in, int(i))
		if len(columns) == 0 {
			continue
		}
		if why := l.alone(n, in, i); why != "" {
			l.whys[i] = fmt.Sprintf("index.fields.%s: %s: %s (key %s)", l.fieldName(n), columns, why, l.keyOf(batch, int(i)))
		}
	}
	return nil
}

// holdsNot says whether some of the records that count have in column c what no
// document can hold. Fields that share the column share the answer.
func (l *Lifter) holdsNot(batch *column.Batch, c int) bool {
	if l.held[c] == unsaid {
		v := batch.Columns[c]
		l.held[c] = keeps
		if hasTimes(v.Type) && slices.ContainsFunc(l.rows, func(i int32) bool { return unheld(v, int(i)) != "" }) {
			l.held[c] = removes
		}
	}
	return l.held[c] == removes
}

// unheldArgs names the arguments of a record that no document can hold.
func (l *Lifter) unheldArgs(n int, in *combine.Input, i int) string {
	var names []string
	f := &l.fields[n]
	for k, v := range in.Args {
		if unheld(v, i) == "" {
			continue
		}
		if c := f.args[k]; c < 0 {
			names = append(names, f.computed[^c].expr.source)
		} else {
			names = append(names, "column "+l.bound.program.columns[c].Path)
		}
	}
	return strings.Join(names, ", ")
}

// alone says what no document can hold of field n of a record without any other.
func (l *Lifter) alone(n int, in combine.Input, i int32) string {
	fn := l.bound.fns[n+1]
	c, out := fn.NewColumn(), column.New(fn.Output())
	c.Grow(1)
	in.Rows = []int32{i}
	if c.Add(&in) != nil || c.Extract(0, out) != nil {
		return "" // whoever adds or extracts it is told
	}
	return unheld(out, 0)
}

// keyOf is the key of a record for messages.
func (l *Lifter) keyOf(batch *column.Batch, i int) string {
	parts := make([]string, len(l.keysAt))
	for n, k := range l.keysAt {
		parts[n] = l.bound.program.spec.Key[n] + "=" + shown(batch.Columns[k], i)
	}
	return strings.Join(parts, ",")
}

// inField gives an error of field n the name of its setting.
func (l *Lifter) inField(n int, err error) error {
	at := "index.fields." + l.fieldName(n)
	if row := (*rowError)(nil); errors.As(err, &row) {
		return &rowError{row.row, fmt.Errorf("%s.%w", at, row.err)}
	}
	return fmt.Errorf("%s: %w", at, err)
}
