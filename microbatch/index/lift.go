package index

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/table"
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
	timedFields    []int // those whose values are times
	timedKeys      bool
	ranked         int // fields that go by the order of records, the register among them where it does

	// Reject gets every bad row; where it is nil a bad row is an error.
	Reject func(BadRow)

	// scratch, per batch
	rows  []int32 // those that count: all, or some
	all   []int32 // 0, 1, 2 and so on
	some  []int32
	alive []int32
	sub   []int32
	// selects and removes are the values of where and delete_when, where they
	// are conditions.
	selects, removes []tri
	times            *column.Vector
	own              *column.Vector // times that no column of the batch has as they are
	dead             []tri
	flags            *column.Vector // dead as the register's argument
	keys             []*column.Vector
	keysAt           []int
	timeAt           int // the event time's column, or -1
	groups           []uint32
	order            recordOrder
	in               combine.Input
	whys             map[int32]string // why records are bad that pick took for good
	held             []tri            // of columns whether documents can hold their records: true where not
}

// lifted is one fn of the shape with what it reads.
type lifted struct {
	args    []int // columns, or computed ones as their complement
	where   *compiled
	whereAt []int
	// computed are columns that the fn reads and no object has; computesTimes says
	// that some are times.
	computed      []computed
	computesTimes bool
}

// computed is an expression over records as a column: of booleans where it is
// a filter.
type computed struct {
	name   string
	expr   *compiled
	at     []int
	filter bool
	values *column.Vector
}

// fill computes the column for the rows, which ascend; others are null.
func (c *computed) fill(batch *column.Batch, rows []int32) error {
	v := c.values
	if !c.filter {
		return c.evaluate(batch, rows)
	}
	v.Bools = append(v.Bools[:0], make([]bool, batch.Len)...)
	v.Valid = append(v.Valid[:0], make([]bool, batch.Len)...)
	v.SetLen(batch.Len)
	if says := c.expr.all(batch); says != nil {
		for _, i := range rows {
			v.Bools[i], v.Valid[i] = says[i] == removes, says[i] != unsaid
		}
		return nil
	}
	for _, i := range rows {
		set(c.expr, c.at, batch, int(i))
		yes, known, err := c.expr.truth()
		if err != nil {
			return &rowError{int(i), fmt.Errorf("%s: %w", c.name, err)}
		}
		v.Bools[i], v.Valid[i] = yes, known
	}
	return nil
}

// evaluate is fill for values of any type.
func (c *computed) evaluate(batch *column.Batch, rows []int32) error {
	c.values.Reset()
	for i := range batch.Len {
		if len(rows) == 0 || int(rows[0]) != i {
			c.values.AppendNull()
			continue
		}
		rows = rows[1:]
		set(c.expr, c.at, batch, i)
		x, err := c.expr.eval()
		if err == nil {
			err = unbox(x, c.values)
		}
		if err != nil {
			return &rowError{i, fmt.Errorf("%s: %w", c.name, err)}
		}
	}
	return nil
}

// rowError is a record of a batch that cannot be lifted. Err has the name of the
// setting and not that of the row.
type rowError struct {
	row int
	err error
}

func (e *rowError) Error() string { return fmt.Sprintf("record %d: %v", e.row, e.err) }
func (e *rowError) Unwrap() error { return e.err }

// named is an error of a batch whose first row has the number first within the
// object, with the number of its row, from 1.
func named(err error, first int64) error {
	if row := (*rowError)(nil); errors.As(err, &row) {
		return fmt.Errorf("row %d: %w", first+int64(row.row)+1, row.err)
	}
	return err
}

// tri is the value of a filter for a record, in the words of delete_when: null,
// false or true.
type tri uint8

const (
	unsaid tri = iota
	keeps
	removes
)

// NewLifter returns a lifter into t, which has the program's Shape, for
// records of the partition that starts at start.
func (b *Bound) NewLifter(t *table.Table, start time.Time) (*Lifter, error) {
	l := &Lifter{bound: b, table: t, own: column.New(column.Of(column.Timestamp)), flags: &column.Vector{}, timeAt: -1}
	if b.program.deletes != nil {
		l.flags = column.New(column.Of(column.Bool))
	}
	if c := b.program.spec.EventTime.Column; c != "" {
		l.timeAt = b.program.column(c)
	}
	for _, k := range b.program.spec.Key {
		l.keysAt = append(l.keysAt, b.program.column(k))
		l.timedKeys = l.timedKeys || hasTimes(b.recordType(k))
	}
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
		if b.program.builders[f.Fn].NeedsOrder {
			l.ranked++
		}
	}
	if l.deletes != nil {
		l.ranked++
	}
	if l.timedFields = l.timed(); len(l.timedFields) > 0 {
		l.whys = map[int32]string{}
	}
	return l, nil
}

// Inherit takes over the memory that another lifter has worked with, of any
// program. That one must not be used again.
func (l *Lifter) Inherit(from *Lifter) {
	l.all, l.some, l.alive, l.sub = from.all, from.some, from.alive, from.sub
	l.dead, l.groups = from.dead, from.groups
	l.order = from.order
}

// arguments finds the columns of a fn's arguments: for a collect the by column,
// the verdicts if it deletes, then for each sub-field its filter if it has one
// and its own columns.
func (l *Lifter) arguments(lf *lifted, f *field) error {
	compute := func(e *expression, name string, filter bool) error {
		if e == nil {
			return nil
		}
		c, at, err := l.compile(e, filter)
		if err != nil {
			return err
		}
		if filter {
			c.quick = newCondition(e, l.bound.program.column, l.bound.recordType)
		}
		lf.args = append(lf.args, ^len(lf.computed))
		lf.computesTimes = lf.computesTimes || hasTimes(c.out)
		lf.computed = append(lf.computed, computed{name: name, expr: c, at: at, filter: filter, values: column.New(c.out)})
		return nil
	}
	own := func(at string, f FieldSpec, exprs []*expression) error {
		for i, a := range f.Args {
			switch {
			case a == wholeRecord:
			case exprs[i] != nil:
				if err := compute(exprs[i], at+f.Fn, false); err != nil {
					return err
				}
			default:
				lf.args = append(lf.args, l.bound.program.column(a))
			}
		}
		return nil
	}
	if err := own("", f.FieldSpec, f.args); err != nil || f.Fn != collectFn {
		return err
	}
	exprs, names := f.collect.all(f.FieldSpec)
	if err := compute(exprs[0], names[0], true); err != nil {
		return err
	}
	for i, sub := range f.Fields {
		if err := compute(exprs[i+1], names[i+1], true); err != nil {
			return err
		}
		if err := own("fields."+sub.Name+".", sub, f.collect.args[i]); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lifter) filter(e *expression) (*compiled, []int, error) {
	if e == nil {
		return nil, nil, nil
	}
	c, at, err := l.compile(e, true)
	if err != nil {
		return nil, nil, err
	}
	c.quick = newCondition(e, l.bound.program.column, l.bound.recordType)
	return c, at, nil
}

// compile binds an expression over records and finds its operands.
func (l *Lifter) compile(e *expression, asBool bool) (*compiled, []int, error) {
	c, err := e.bind(l.bound.recordType, asBool)
	if err != nil {
		return nil, nil, err
	}
	at := make([]int, len(c.slots))
	for i, s := range c.slots {
		at[i] = l.bound.program.column(s.path)
	}
	return c, at, nil
}

// zeroed is s made n zeros.
func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// Add lifts one batch, whose columns are Columns() in order; first is the
// number of its first row within the object. An error names the row.
func (l *Lifter) Add(batch *column.Batch, first int64) (Stats, error) {
	for n := len(l.all); n < batch.Len; n++ {
		l.all = append(l.all, int32(n))
	}
	l.dead = zeroed(l.dead, batch.Len)
	good := l.readTimes(batch)
	st, err := l.pick(batch, first, good)
	if err != nil || len(l.rows) == 0 {
		return st, err
	}
	l.order.reset(l, batch)
	if err := l.leaveOut(batch, first, &st); err != nil || len(l.rows) == 0 {
		return st, err
	}
	if l.times.Valid != nil || l.times.Type.Kind == column.Null {
		for _, i := range l.rows {
			if l.times.Null(int(i)) {
				st.NullEventTime++
			}
		}
	}
	if err := l.group(batch); err != nil {
		return st, err
	}
	return st, named(l.fold(batch), first)
}

// all evaluates the filter for the batch at once; nil where that cannot be.
func (c *compiled) all(batch *column.Batch) []tri {
	if c == nil || c.quick == nil {
		return nil
	}
	c.says = append(c.says[:0], make([]tri, batch.Len)...)
	c.quick.eval(batch, c.says)
	return c.says
}

// pick sets rows to the records that count. good says that all event times are
// in times, else they are read here, record by record.
func (l *Lifter) pick(batch *column.Batch, first int64, good bool) (st Stats, err error) {
	if good && l.where == nil && l.deletes == nil && !l.timedKeys && !l.nullKeys(batch) {
		l.rows = l.all[:batch.Len]
		return Stats{Rows: int64(batch.Len)}, nil
	}
	l.rows = l.some[:0]
	l.selects, l.removes = l.where.all(batch), l.deletes.all(batch)
	for i := range batch.Len {
		why := ""
		if !good {
			why = l.eventTime(batch, i)
		}
		keep := false
		if why == "" {
			if keep, why, err = l.judge(batch, i); err != nil {
				return st, fmt.Errorf("row %d: %w", first+int64(i)+1, err)
			}
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
		default:
			st.Filtered++
		}
	}
	l.some = l.rows
	return st, nil
}

// nullKeys says whether a key column may have nulls.
func (l *Lifter) nullKeys(batch *column.Batch) bool {
	for _, k := range l.keysAt {
		if v := batch.Columns[k]; v.Valid != nil || v.Type.Kind == column.Null {
			return true
		}
	}
	return false
}

// judge decides on one record whose event time can be read: keep it, leave it
// out, or why it is bad. It sets its delete verdict.
func (l *Lifter) judge(batch *column.Batch, i int) (keep bool, why string, err error) {
	switch {
	case l.selects != nil:
		if l.selects[i] != removes {
			return false, "", nil
		}
	case l.where != nil:
		set(l.where, l.whereAt, batch, i)
		yes, _, err := l.where.truth()
		if err != nil {
			return false, "", fmt.Errorf("index.where: %w", err)
		}
		if !yes {
			return false, "", nil
		}
	}
	for n, k := range l.keysAt {
		if batch.Columns[k].Null(i) {
			return false, fmt.Sprintf("key column %s is null", l.bound.program.spec.Key[n]), nil
		}
		if l.timedKeys {
			if why := unheld(batch.Columns[k], i); why != "" {
				return false, fmt.Sprintf("key column %s: %s", l.bound.program.spec.Key[n], why), nil
			}
		}
	}
	switch {
	case l.removes != nil:
		l.dead[i] = l.removes[i]
	case l.deletes != nil:
		set(l.deletes, l.deletesAt, batch, i)
		yes, known, err := l.deletes.truth()
		if err != nil {
			return false, "", fmt.Errorf("index.delete_when: %w", err)
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

// group gives each selected row the group of its key.
func (l *Lifter) group(batch *column.Batch) error {
	l.keys = l.keys[:0]
	for _, k := range l.keysAt {
		l.keys = append(l.keys, batch.Columns[k])
	}
	l.groups = zeroed(l.groups, batch.Len)
	return l.table.Groups(l.keys, l.rows, l.groups)
}

// fold adds the selected rows to every fn. Those that delete their key count
// towards the register alone: a delete hides a document and adds nothing to it.
func (l *Lifter) fold(batch *column.Batch) error {
	in := &l.in
	in.Groups, in.Rows, in.Order, in.Args = l.groups, l.rows, &l.order, append(in.Args[:0], l.verdicts())
	columns := l.table.Columns()
	if err := columns[0].Add(in); err != nil {
		return err
	}
	alive := l.rows
	if l.deletes != nil {
		l.alive = slices.DeleteFunc(append(l.alive[:0], l.rows...), func(i int32) bool { return l.dead[i] == removes })
		alive = l.alive
	}
	for n := range l.fields {
		in.Rows, in.Args = alive, in.Args[:0]
		err := l.foldField(&l.fields[n], columns[n+1], batch, in)
		if row := (*rowError)(nil); errors.As(err, &row) {
			return l.inField(n, err)
		} else if err != nil {
			return l.blame(n, in, err)
		}
	}
	return nil
}

// foldField adds those rows of in that the field takes to its column.
func (l *Lifter) foldField(f *lifted, into combine.Column, batch *column.Batch, in *combine.Input) error {
	if err := l.take(f, batch, in); err != nil {
		return err
	}
	return into.Add(in)
}

// take makes in what the field takes of it: those of its rows, its arguments.
func (l *Lifter) take(f *lifted, batch *column.Batch, in *combine.Input) error {
	if f.where != nil {
		l.sub = l.sub[:0]
		says := f.where.all(batch)
		for _, i := range in.Rows {
			if says != nil {
				if says[i] == removes {
					l.sub = append(l.sub, i)
				}
				continue
			}
			set(f.where, f.whereAt, batch, int(i))
			yes, _, err := f.where.truth()
			if err != nil {
				return &rowError{int(i), fmt.Errorf("where: %w", err)}
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
	return nil
}

func (l *Lifter) fieldName(n int) string { return l.bound.program.fields[l.bound.folded[n]].Name }

// blame finds the record for which field n refused the input: the first that is
// refused by a column without any other.
func (l *Lifter) blame(n int, in *combine.Input, err error) error {
	err = l.inField(n, err)
	alone := *in
	alone.Groups = make([]uint32, len(in.Groups))
	for _, i := range in.Rows {
		c := l.bound.fns[n+1].NewColumn()
		c.Grow(1)
		alone.Rows = []int32{i}
		if c.Add(&alone) != nil {
			return &rowError{int(i), err}
		}
	}
	return err
}

// verdicts are the delete verdicts as the register's argument: a nullable
// boolean per record, or a column of nulls where nothing deletes.
func (l *Lifter) verdicts() *column.Vector {
	v, n := l.flags, len(l.dead)
	if l.deletes != nil {
		v.Bools = append(v.Bools[:0], make([]bool, n)...)
		v.Valid = append(v.Valid[:0], make([]bool, n)...)
		for i, d := range l.dead {
			v.Bools[i], v.Valid[i] = d == removes, d != unsaid
		}
	}
	v.SetLen(n)
	return v
}
