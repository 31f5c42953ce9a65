package index

import (
	"errors"
	"fmt"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
	"github.com/deltad/deltad/microbatch/tuple"
)

// BadRow is a record that cannot be indexed. Row counts from 0 within the
// batches of one object.
type BadRow struct {
	Row    int64
	Reason string
}

// Stats counts the records of one object.
type Stats struct {
	Rows          int64 // records that count
	Filtered      int64 // records that where left out
	Rejected      int64 // bad rows
	NullEventTime int64 // records that count, without an event time
}

// Lifter adds the records of batches to a table. It serves one goroutine.
type Lifter struct {
	bound *Bound
	table *table.Table
	start column.Vector // the partition's start, for records without event_time

	where, deletes *compiled
	whereAt        []int
	deletesAt      []int
	fields         []lifted

	// Reject gets every bad row; where it is nil a bad row is an error.
	Reject func(BadRow)

	// scratch, per batch
	rows   []int32
	alive  []int32
	sub    []int32
	times  *column.Vector
	dead   []tri
	keys   []*column.Vector
	groups []uint32
	order  recordOrder
}

// lifted is one fn of the shape with what it reads.
type lifted struct {
	args    []int // columns, or computed ones as their complement
	where   *compiled
	whereAt []int
	// computed are columns that a collect reads and no object has.
	computed []computed
}

// computed is an expression over records as a column of booleans.
type computed struct {
	name   string
	expr   *compiled
	at     []int
	values *column.Vector
}

// fill computes the column for the rows; others are null.
func (c *computed) fill(batch *column.Batch, rows []int32) error {
	v := c.values
	v.Bools = append(v.Bools[:0], make([]bool, batch.Len)...)
	v.Valid = append(v.Valid[:0], make([]bool, batch.Len)...)
	v.SetLen(batch.Len)
	for _, i := range rows {
		set(c.expr, c.at, batch, int(i))
		yes, known, err := c.expr.truth()
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		v.Bools[i], v.Valid[i] = yes, known
	}
	return nil
}

// tri is the value of delete_when for a record.
type tri uint8

const (
	unsaid tri = iota
	keeps
	removes
)

// NewLifter returns a lifter into t, which has the program's Shape, for
// records of the partition that starts at start.
func (b *Bound) NewLifter(t *table.Table, start time.Time) (*Lifter, error) {
	l := &Lifter{bound: b, table: t, times: column.New(column.Of(column.Timestamp))}
	l.start = *column.New(column.Of(column.Timestamp))
	l.start.AppendTimestamp(start.Unix(), int32(start.Nanosecond()))
	var err error
	if l.where, l.whereAt, err = l.filter(b.program.where); err != nil {
		return nil, err
	}
	if l.deletes, l.deletesAt, err = l.filter(b.program.deletes); err != nil {
		return nil, err
	}
	for _, i := range b.folded {
		f := &b.program.fields[i]
		var lf lifted
		if lf.where, lf.whereAt, err = l.filter(f.where); err != nil {
			return nil, err
		}
		if err := l.arguments(&lf, f); err != nil {
			return nil, err
		}
		l.fields = append(l.fields, lf)
	}
	return l, nil
}

// arguments finds the columns of a fn's arguments: for a collect the by column,
// the verdicts if it deletes, then for each sub-field its filter if it has one
// and its own columns.
func (l *Lifter) arguments(lf *lifted, f *field) error {
	compute := func(e *expression, name string) error {
		if e == nil {
			return nil
		}
		c, at, err := l.filter(e)
		if err != nil {
			return err
		}
		lf.args = append(lf.args, ^len(lf.computed))
		lf.computed = append(lf.computed, computed{name: name, expr: c, at: at, values: column.New(column.Of(column.Bool))})
		return nil
	}
	lf.args = append(lf.args, l.bound.argColumns(f.FieldSpec)...)
	if f.Fn != collectFn {
		return nil
	}
	exprs, names := f.collect.all(f.FieldSpec)
	if err := compute(exprs[0], names[0]); err != nil {
		return err
	}
	for i, sub := range f.Fields {
		if err := compute(exprs[i+1], names[i+1]); err != nil {
			return err
		}
		lf.args = append(lf.args, l.bound.argColumns(sub)...)
	}
	return nil
}

// argColumns are the columns that a fn's own arguments name.
func (b *Bound) argColumns(f FieldSpec) []int {
	var at []int
	for _, a := range f.Args {
		if a != wholeRecord {
			at = append(at, b.program.column(a))
		}
	}
	return at
}

func (l *Lifter) filter(e *expression) (*compiled, []int, error) {
	if e == nil {
		return nil, nil, nil
	}
	c, err := e.bind(l.bound.recordType, true)
	if err != nil {
		return nil, nil, err
	}
	at := make([]int, len(c.slots))
	for i, s := range c.slots {
		at[i] = l.bound.program.column(s.path)
	}
	return c, at, nil
}

// Add lifts one batch, whose columns are Columns() in order; first is the
// number of its first row within the object. An error names the row.
func (l *Lifter) Add(batch *column.Batch, first int64) (Stats, error) {
	var st Stats
	l.rows, l.dead = l.rows[:0], l.dead[:0]
	l.times.Reset()
	for i := range batch.Len {
		keep, why, err := l.judge(batch, i)
		if err != nil {
			return st, fmt.Errorf("row %d: %w", first+int64(i)+1, err)
		}
		switch {
		case why != "" && l.Reject == nil:
			return st, fmt.Errorf("row %d: %s", first+int64(i)+1, why)
		case why != "":
			l.Reject(BadRow{Row: first + int64(i), Reason: why})
			st.Rejected++
		case keep:
			l.rows = append(l.rows, int32(i))
			st.Rows++
			if l.times.Null(i) {
				st.NullEventTime++
			}
		default:
			st.Filtered++
		}
	}
	if len(l.rows) == 0 {
		return st, nil
	}
	if err := l.group(batch); err != nil {
		return st, err
	}
	l.order.reset(l, batch)
	return st, l.fold(batch)
}

// judge decides on one record: keep it, leave it out, or why it is bad. It
// appends the record's event time and its delete verdict either way.
func (l *Lifter) judge(batch *column.Batch, i int) (keep bool, why string, err error) {
	why = l.eventTime(batch, i)
	l.dead = append(l.dead, unsaid)
	if why != "" {
		return false, why, nil
	}
	if l.where != nil {
		set(l.where, l.whereAt, batch, i)
		yes, _, err := l.where.truth()
		if err != nil {
			return false, "", fmt.Errorf("where: %w", err)
		}
		if !yes {
			return false, "", nil
		}
	}
	for _, k := range l.bound.program.spec.Key {
		if batch.Columns[l.bound.program.column(k)].Null(i) {
			return false, fmt.Sprintf("key column %s is null", k), nil
		}
	}
	if l.deletes != nil {
		set(l.deletes, l.deletesAt, batch, i)
		yes, known, err := l.deletes.truth()
		if err != nil {
			return false, "", fmt.Errorf("delete_when: %w", err)
		}
		if known {
			l.dead[i] = keeps
			if yes {
				l.dead[i] = removes
			}
		}
	}
	return true, "", nil
}

func set(c *compiled, at []int, batch *column.Batch, row int) {
	for s, col := range at {
		c.set(s, batch.Columns[col], row)
	}
}

// eventTime appends the record's event time to times, or says why it is bad.
func (l *Lifter) eventTime(batch *column.Batch, i int) (why string) {
	et := l.bound.program.spec.EventTime
	if et.Column == "" {
		l.times.AppendTimestamp(l.start.Ints[0], l.start.Nanos[0])
		return ""
	}
	v := batch.Columns[l.bound.program.column(et.Column)]
	if v.Null(i) {
		l.times.AppendNull()
		return ""
	}
	seconds, nanos, err := instant(v, i, et.Unit)
	if err != nil {
		l.times.AppendNull()
		return fmt.Sprintf("event time %s: %v", et.Column, err)
	}
	l.times.AppendTimestamp(seconds, nanos)
	return ""
}

// instant reads a value as an event time.
func instant(v *column.Vector, i int, unit string) (seconds int64, nanos int32, err error) {
	switch {
	case v.Type.Kind == column.Timestamp:
		return v.Ints[i], v.Nanos[i], nil
	case v.Type.Kind == column.Date:
		return v.Ints[i] * 86400, 0, nil
	case v.Type.Kind == column.String:
		t, err := time.Parse(time.RFC3339Nano, v.Strings[i])
		if err != nil {
			return 0, 0, fmt.Errorf("%.40q is not an RFC 3339 time", v.Strings[i])
		}
		return t.Unix(), int32(t.Nanosecond()), nil
	case v.Type.IsInt() && unit != "":
		per, ok := map[string]int64{"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]
		if !ok {
			return 0, 0, fmt.Errorf("unit %q is none of s, ms, us, ns", unit)
		}
		n := v.Ints[i]
		seconds, rest := n/per, n%per
		if rest < 0 {
			seconds, rest = seconds-1, rest+per
		}
		return seconds, int32(rest * (1e9 / per)), nil
	case v.Type.IsInt():
		return 0, 0, errors.New("an integer needs a unit: event_time: {column: …, unit: s, ms, us or ns}")
	}
	return 0, 0, fmt.Errorf("a %s is not a time", v.Type)
}

// group gives each selected row the group of its key.
func (l *Lifter) group(batch *column.Batch) error {
	l.keys = l.keys[:0]
	for _, k := range l.bound.program.spec.Key {
		l.keys = append(l.keys, batch.Columns[l.bound.program.column(k)])
	}
	l.groups = append(l.groups[:0], make([]uint32, batch.Len)...)
	return l.table.Groups(l.keys, l.rows, l.groups)
}

// fold adds the selected rows to every fn. Those that delete their key count
// towards the register alone: a delete hides a document and adds nothing to it.
func (l *Lifter) fold(batch *column.Batch) error {
	in := combine.Input{Groups: l.groups, Rows: l.rows, Order: &l.order, Args: []*column.Vector{l.verdicts()}}
	columns := l.table.Columns()
	if err := columns[0].Add(&in); err != nil {
		return err
	}
	l.alive = l.alive[:0]
	for _, i := range l.rows {
		if l.dead[i] != removes {
			l.alive = append(l.alive, i)
		}
	}
	for n := range l.fields {
		in.Rows, in.Args = l.alive, in.Args[:0]
		err := l.foldField(&l.fields[n], columns[n+1], batch, &in)
		if err != nil {
			return fmt.Errorf("field %s: %w", l.bound.program.fields[l.bound.folded[n]].Name, err)
		}
	}
	return nil
}

// foldField adds those rows of in that the field takes to its column.
func (l *Lifter) foldField(f *lifted, into combine.Column, batch *column.Batch, in *combine.Input) error {
	if f.where != nil {
		l.sub = l.sub[:0]
		for _, i := range l.alive {
			set(f.where, f.whereAt, batch, int(i))
			yes, _, err := f.where.truth()
			if err != nil {
				return fmt.Errorf("where: %w", err)
			}
			if yes {
				l.sub = append(l.sub, i)
			}
		}
		in.Rows = l.sub
	}
	for k := range f.computed {
		if err := f.computed[k].fill(batch, in.Rows); err != nil {
			return err
		}
	}
	for _, c := range f.args {
		if c < 0 {
			in.Args = append(in.Args, f.computed[^c].values)
		} else {
			in.Args = append(in.Args, batch.Columns[c])
		}
	}
	return into.Add(in)
}

// verdicts are the delete verdicts as the register's argument: a nullable
// boolean per record.
func (l *Lifter) verdicts() *column.Vector {
	v := column.New(column.Of(column.Bool))
	for _, d := range l.dead {
		if d == unsaid {
			v.AppendNull()
		} else {
			v.AppendBool(d == removes)
		}
	}
	return v
}

// recordOrder ranks the records of a batch; see invariant 1.
type recordOrder struct {
	lifter *Lifter
	batch  *column.Batch
	ranks  [][]byte
	record []byte
}

func (o *recordOrder) reset(l *Lifter, batch *column.Batch) {
	o.lifter, o.batch = l, batch
	o.ranks = append(o.ranks[:0], make([][]byte, batch.Len)...)
}

// Rank implements combine.Order; it makes each rank once.
func (o *recordOrder) Rank(i int) []byte {
	if o.ranks[i] != nil {
		return o.ranks[i]
	}
	o.record = o.record[:0]
	for _, v := range o.batch.Columns {
		o.record = tuple.Append(o.record, v, i)
	}
	o.ranks[i] = combine.AppendRank(nil, o.lifter.times, i, o.lifter.dead[i] == removes, o.record)
	return o.ranks[i]
}
