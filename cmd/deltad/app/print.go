package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// print writes a result: as one JSON document, or as text.
func (c *cli) print(v any, text func() error) error {
	if c.output == "json" {
		e := json.NewEncoder(c.out)
		e.SetEscapeHTML(false)
		return failed(e.Encode(v))
	}
	return failed(text())
}

// table writes rows under a heading, columns aligned.
func (c *cli) table(heading []string, rows [][]string) error {
	w := tabwriter.NewWriter(c.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(heading, "\t"))
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// when is a time in a table; the zero time is a dash.
func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// whenOrNull is a time in JSON.
func whenOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format(time.RFC3339Nano)
	return &s
}
