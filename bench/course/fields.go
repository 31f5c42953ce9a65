package course

import (
	"fmt"
	"strings"
)

// Field is a field of the documents and what DuckDB calls it.
type Field struct {
	Name  string
	Index string // as a configuration has it, without over
	SQL   string // what is measured
	// Exact is what the value must be, where DuckDB's own is an estimate too;
	// empty: SQL.
	Exact string
	// Within is the relative error that a float may have: of the sum in
	// DuckDB, which rounds at every step, and of sketches. 0: equal.
	Within float64
}

func (f Field) sql() string { return f.SQL }

func (f Field) exact() string {
	if f.Exact != "" {
		return f.Exact
	}
	return f.SQL
}

// Plain are the fields of an ordinary index of ads.
func Plain() []Field {
	return []Field{
		{Name: "updates", Index: `count: "*"`, SQL: "count(*)"},
		{Name: "clicks", Index: "sum: clicks", SQL: "CAST(sum(clicks) AS BIGINT)"},
		{Name: "revenue", Index: "sum: price", SQL: "sum(price)", Within: 1e-11},
		{Name: "cost", Index: "sum: cost", SQL: "sum(cost)"},
		{Name: "lowest", Index: "min: price", SQL: "min(price)"},
		{Name: "highest", Index: "max: price", SQL: "max(price)"},
		{Name: "title", Index: "latest: title", SQL: "arg_max(title, updated_at)"},
	}
}

// Sketched are those with two sketches beside them. What a sketch says is held
// to the exact value: four standard errors and more for one key in many.
func Sketched() []Field {
	return append(Plain(),
		Field{Name: "users", Index: "distinct: user_id", SQL: "approx_count_distinct(user_id)", Exact: "count(DISTINCT user_id)", Within: 0.1},
		Field{Name: "typical", Index: "median: price", SQL: "approx_quantile(price, 0.5)", Exact: "quantile_disc(price, 0.5)", Within: 0.01},
	)
}

// index is the section of the configuration.
func (c Course) index() string {
	var b strings.Builder
	fmt.Fprintf(&b, "key: [%s]\nevent_time: updated_at\nfields:\n", c.Key)
	for _, f := range c.Fields {
		fmt.Fprintf(&b, "  %s: {%s, over: %dm}\n", f.Name, f.Index, c.Set.Window)
	}
	return b.String()
}

// differs is the condition under which a key's two rows do not agree, of the
// relations ours and theirs.
func (f Field) differs() string {
	ours, theirs := "ours."+f.Name, "theirs."+f.Name
	if f.Within == 0 {
		return fmt.Sprintf("%s IS DISTINCT FROM %s", ours, theirs)
	}
	return fmt.Sprintf("(%[1]s IS NULL) <> (%[2]s IS NULL) OR abs(%[1]s - %[2]s) > %[3]g * abs(%[2]s)", ours, theirs, f.Within)
}
