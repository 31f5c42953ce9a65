package combinetest

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
)

// Violation is a law that a fn breaks, with the smallest multiset of records
// that it could be reduced to.
type Violation struct {
	// Law is one of Laws.
	Law    string
	TypeID string
	// Detail says in words what should have been equal, or what went wrong.
	Detail string
	// Got and Want are the accumulators that should have been equal, or where
	// the law is of values their encodings; of the law "strict" Got alone need
	// not be an accumulator. Both are nil where Detail says it all.
	Got, Want []byte
	Records   Records
}

// Error is the violation with its records and accumulators, a line each.
func (v *Violation) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s breaks the law %q: %s", v.TypeID, v.Law, v.Detail)
	if v.Got != nil || v.Want != nil {
		fmt.Fprintf(&b, "\n  got  %s\n  want %s", show(v.Got), show(v.Want))
	}
	b.WriteString("\n  of " + v.Records.head())
	b.WriteString(v.Records.String())
	return b.String()
}

// show is an accumulator for people.
func show(b []byte) string {
	const most = 64
	switch {
	case bytes.HasPrefix(b, []byte("error: ")):
		return string(b)
	case len(b) == 0:
		return "nothing"
	case len(b) > most:
		return fmt.Sprintf("%x… (%d bytes)", b[:most], len(b))
	}
	return fmt.Sprintf("%x", b)
}

// difference is how a law is broken: two results that should have been one, or
// nil twice and what went wrong.
type difference struct {
	what      string
	got, want []byte
}

// wrong is a difference that consists of what went wrong.
func wrong(format string, args ...any) *difference {
	return &difference{what: fmt.Sprintf(format, args...)}
}

// same compares two results; nil where they are equal.
func same(what string, got, want []byte) *difference {
	if bytes.Equal(got, want) {
		return nil
	}
	// An accumulator of nothing is one, and must be shown.
	return &difference{what: what, got: append([]byte{}, got...), want: append([]byte{}, want...)}
}

// Records are a multiset of records: their arguments, a row each, and ranks.
type Records struct {
	Args  []*column.Vector
	Ranks [][]byte
}

// Rank implements combine.Order.
func (r Records) Rank(i int) []byte { return r.Ranks[i] }

// String lists the records, a line each, for messages.
func (r Records) String() string {
	const most = 20
	var b strings.Builder
	for i, line := range r.Lines() {
		if i == most {
			fmt.Fprintf(&b, "\n    and %d more", len(r.Ranks)-most)
			break
		}
		fmt.Fprintf(&b, "\n    %s", line)
	}
	return b.String()
}

// head says how many records there are and, where that is one for all, when
// they are of.
func (r Records) head() string {
	switch n := len(r.Ranks); {
	case n == 0:
		return "no records"
	case n == 1:
		return "1 record:"
	case r.alike():
		return fmt.Sprintf("%d records, all %s:", n, rankText(r.Ranks[0]))
	default:
		return fmt.Sprintf("%d records:", n)
	}
}

// alike says whether all records have one rank.
func (r Records) alike() bool {
	for _, rank := range r.Ranks {
		if !bytes.Equal(rank, r.Ranks[0]) {
			return false
		}
	}
	return true
}

// Lines are the records for people: numbered from 1, their arguments and, if
// they differ in it, when they are of.
func (r Records) Lines() []string {
	out := make([]string, len(r.Ranks))
	alike := r.alike()
	for i, rank := range r.Ranks {
		values := make([]string, len(r.Args))
		for j, a := range r.Args {
			values[j] = valueText(a, i)
		}
		if len(values) == 0 {
			values = []string{"a record"}
		}
		out[i] = fmt.Sprintf("%d: %s", i+1, strings.Join(values, ", "))
		if !alike {
			out[i] += "  " + rankText(rank)
		}
	}
	return out
}

// Only returns the records at the places, in that order.
func (r Records) Only(rows []int32) Records {
	out := Records{Args: make([]*column.Vector, len(r.Args))}
	for j, a := range r.Args {
		out.Args[j] = column.New(a.Type)
		for _, i := range rows {
			// Equal types always append.
			_ = out.Args[j].AppendFrom(a, int(i))
		}
	}
	for _, i := range rows {
		out.Ranks = append(out.Ranks, r.Ranks[i])
	}
	return out
}
