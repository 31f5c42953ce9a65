package course

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/deltad/deltad/bench/side"
	"github.com/deltad/deltad/e2e/duck"
)

// agree compares the live pane with DuckDB's result of the same window and
// returns how many documents both have. Where DuckDB's own values are
// estimates, it is asked once more, for the exact ones.
func (r *run) agree(ctx context.Context, theirs string) (documents int64, err error) {
	pane, err := r.daemon.Pane(ctx)
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(r.Fields, func(f Field) bool { return f.Exact != "" }) {
		theirs = filepath.Join(r.place.Scratch, "exact.parquet")
		if _, err := side.DuckDB(ctx, r.question(theirs, Field.exact)); err != nil {
			return 0, err
		}
	}
	db, err := duck.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var conditions []string
	for _, f := range r.Fields {
		conditions = append(conditions, f.differs())
	}
	both := fmt.Sprintf("%[2]s AS ours FULL JOIN read_parquet('%[3]s') AS theirs ON ours.%[1]s = theirs.%[1]s", r.Key, pane, theirs)
	differ := fmt.Sprintf("ours.%[1]s IS NULL OR theirs.%[1]s IS NULL OR %[2]s", r.Key, strings.Join(conditions, " OR "))
	counts, err := db.Query(ctx, fmt.Sprintf("SELECT count(*) AS keys, count(*) FILTER (%s) AS differing FROM %s", differ, both))
	if err != nil {
		return 0, err
	}
	documents = counts[0]["keys"].(int64)
	if counts[0]["differing"] == int64(0) && documents > 0 {
		return documents, nil
	}
	first, err := db.Query(ctx, fmt.Sprintf("SELECT ours, theirs FROM %s WHERE %s LIMIT 3", both, differ))
	if err != nil {
		return 0, err
	}
	return 0, fmt.Errorf("the sides differ in %v of %d keys, first: %v", counts[0]["differing"], documents, first)
}
