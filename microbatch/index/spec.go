// Package index is what a configuration says a document is, compiled: which
// columns a record is read from, which record counts, where it stands in the
// record order, and which combine fn each field folds it into.
//
// A Program is made from the Spec alone and knows no types; Bind gives it the
// column types of a run and yields the Bound program that lifts batches into
// a table and extracts documents from accumulators.
//
// Invariants:
//
//  1. A record's rank is a function of its content (and, without an
//     event_time, of its partition): the event time, whether it deletes, and
//     the canonical bytes of the columns the Spec reads, by name. File, line
//     and arrival have no part in it.
//  2. An expression is a pure function of its operands. An operation on null
//     is null, == and != included unless the other side is nil itself; a
//     filter that is null does not select.
//  3. A bad row (null key, unreadable event time, a time that no document can
//     hold) is refused or rejected by name and never becomes a zero.
//
// It does no I/O.
package index

import "time"

// Spec is what a document is.
type Spec struct {
	// Key names the columns of the index key, in order.
	Key []string `json:"key,omitempty"`
	// EventTime is the column of the record's event time; an empty Column
	// means that the start of the record's partition serves.
	EventTime EventTime `json:"event_time"`
	// Where selects the records that count; empty selects all.
	Where string `json:"where,omitempty"`
	// DeleteWhen says of a record that it deletes its key; empty means never.
	DeleteWhen string `json:"delete_when,omitempty"`
	// Fields are the document's fields in output order.
	Fields []FieldSpec `json:"fields,omitempty"`
}

// EventTime names the column that holds a record's event time. Unit (s, ms,
// us or ns) is for integer columns and empty for timestamps, dates and RFC
// 3339 text.
type EventTime struct {
	Column string `json:"column,omitempty"`
	Unit   string `json:"unit,omitempty"`
}

// FieldSpec is one field of the document: either a combine fn over columns or,
// with Expr, an expression over the fields before it.
type FieldSpec struct {
	Name string `json:"name,omitempty"`
	// Fn is the combine fn's name, Args its columns ("*" for whole records).
	Fn     string         `json:"fn,omitempty"`
	Args   []string       `json:"args,omitempty"`
	Params map[string]any `json:"params,omitempty"`
	// Where selects the records this field folds, within Spec.Where.
	Where string `json:"where,omitempty"`
	// Over is the length of the field's window, whole granules; 0 means all.
	Over time.Duration `json:"over,omitempty"`
	// Optional allows a column that an object lacks: its values are null there.
	Optional bool `json:"optional,omitempty"`
	// Fields are the sub-fields of collect; Args[0] is then its "by" column.
	Fields []FieldSpec `json:"fields,omitempty"`
	// DeleteWhen says of a record that it deletes its sub-entity of a collect;
	// empty means never.
	DeleteWhen string `json:"delete_when,omitempty"`
	// Expr is an expression over extracted fields; Fn is then empty.
	Expr string `json:"expr,omitempty"`
}

// LongestOver is D of the design: the longest window of any field, 0 if none.
func (s Spec) LongestOver() time.Duration {
	var d time.Duration
	for _, f := range s.Fields {
		d = max(d, f.Over)
	}
	return d
}
