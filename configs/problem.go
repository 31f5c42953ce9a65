package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a configuration, or where Warnings returns it,
// one that is allowed and most likely not meant.
type Problem struct {
	// Path is that of the setting, such as pipelines.ads.window.size.
	Path string
	// Rule is what must hold, such as "must be a whole number of granules".
	Rule string
	// Got is the value found, as written in the file; empty where there is
	// none to show.
	Got string
	// File, Line and Column say where the setting stands; Line is 0 for a
	// problem that Validate found.
	File         string
	Line, Column int
}

// String is "path: rule, got value", after "file:line:column: " where known.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		if p.File != "" {
			b.WriteString(p.File + ":")
		}
		fmt.Fprintf(&b, "%d:%d: ", p.Line, p.Column)
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Rule)
	if p.Got != "" {
		b.WriteString(", got " + p.Got)
	}
	return b.String()
}

// Problems are all that is wrong with a configuration, in order. As an error
// it is one line for each.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// err returns the problems as an error, and nil for none, so that callers
// never see a typed nil.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// add appends a problem found by a rule.
func (ps *Problems) add(path, rule, got string) {
	*ps = append(*ps, Problem{Path: path, Rule: rule, Got: short(got)})
}

// sortByPlace orders problems of one file by line and column.
func (ps Problems) sortByPlace() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
