// Package events makes the ad events that deltad is measured on: Parquet files
// in partitions of a minute, as producers write them.
//
// What it promises:
//
//  1. The rows are a function of the shape and of nothing else: not of
//     threads, of time or of chance. Every draw is a hash of the row's number.
//  2. No two rows of a set have one event time, so that the latest value of a
//     key is one value for everybody.
//  3. A set that is there is whole: it is made beside its place and renamed.
//
// Keys follow a Zipf distribution and come as an integer and as a string of
// about 21 bytes, of which 10 are shared by many: item_id and item name the
// same entity.
package events

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/deltad/deltad/e2e/duck"
)

// version is of the rows that a shape gives; a change of the query is a new one.
const version = 1

// Layout is the sets' layout as a configuration spells it, Granule the length
// of a partition.
const (
	Layout  = "%Y/%m/%d/%H/%M"
	Granule = time.Minute
)

// The distribution of keys: ranks 1 to Keys with a probability that falls with
// rank^-Skew.
const (
	Keys = 220_000
	Skew = 1.05
)

// Shape says how large a set is.
type Shape struct {
	Window  int // partitions of the window
	Further int // partitions behind it, for what happens after the first pane
	Rows    int // of a partition
	Files   int // of a partition; rows go round
}

// Set is a set of events on disk.
type Set struct {
	Shape
	Dir string
}

// Start is when the partition of an index starts; the first has index 0. A
// daemon may be shown it at another time: nothing holds event times to it.
func Start(i int) time.Time {
	return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * Granule)
}

// Folder is where the objects of a partition are, by its start.
func Folder(start time.Time) string { return filepath.FromSlash(start.Format("2006/01/02/15/04")) }

// Objects are the paths of a partition's files.
func (s Set) Objects(i int) []string {
	out := make([]string, s.Files)
	for f := range out {
		out[f] = filepath.Join(s.Dir, Folder(Start(i)), fmt.Sprintf("part-%d.parquet", f))
	}
	return out
}

// Late is the path of one further object that belongs to the partition of an
// index and is not among its Objects: as many rows as one of them has.
func (s Set) Late(i int) string {
	return filepath.Join(s.Dir, "late", Start(i).Format("1504")+".parquet")
}

// Make returns the set of a shape in the directory cache, made now unless it is
// there. late names the partitions that get a late object.
func Make(ctx context.Context, cache string, shape Shape, late ...int) (Set, error) {
	name := fmt.Sprintf("events-v%d-%dx%d-%d-rows-in-%d", version, shape.Window, shape.Rows, shape.Further, shape.Files)
	for _, i := range late {
		name += fmt.Sprintf("-late%d", i)
	}
	set := Set{shape, filepath.Join(cache, name)}
	if _, err := os.Stat(set.Dir); err == nil {
		return set, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Set{}, fmt.Errorf("look for the events: %w", err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return Set{}, fmt.Errorf("make the cache of events: %w", err)
	}
	half, err := os.MkdirTemp(cache, name+".")
	if err != nil {
		return Set{}, fmt.Errorf("make the events %s: %w", name, err)
	}
	if err := fill(ctx, Set{shape, half}, late); err != nil {
		return Set{}, errors.Join(fmt.Errorf("make the events %s: %w", name, err), os.RemoveAll(half))
	}
	if err := os.Rename(half, set.Dir); err != nil {
		return Set{}, fmt.Errorf("make the events %s: %w", name, err)
	}
	return set, nil
}

func fill(ctx context.Context, s Set, late []int) (err error) {
	db, err := duck.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for i := range s.Window + s.Further {
		if err := os.MkdirAll(filepath.Join(s.Dir, Folder(Start(i))), 0o755); err != nil {
			return err
		}
		for f, path := range s.Objects(i) {
			if err := db.Exec(ctx, rows(path, i, i*s.Rows, f, s.Files, s.Rows)); err != nil {
				return err
			}
		}
	}
	if len(late) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, "late"), 0o755); err != nil {
		return err
	}
	for n, i := range late {
		// Rows that no partition has, at times between those of its own.
		if err := db.Exec(ctx, rows(s.Late(i), i, (s.Window+s.Further+n)*s.Rows, 0, s.Files, s.Rows)); err != nil {
			return err
		}
	}
	return nil
}

// rows is the query that writes every step-th row of a partition, from the
// from-th on, into a file. base is the number of the partition's first row.
func rows(path string, partition, base, from, step, rows int) string {
	shift := 0
	if base != partition*rows {
		shift = 1 // µs: a late row is at no time that the partition has already
	}
	return fmt.Sprintf(`
COPY (
  WITH numbers AS (SELECT range AS j, range + %[2]d AS i FROM range(%[3]d, %[5]d, %[4]d)),
  draws AS (
    SELECT j, i,
      CAST(floor(pow((pow(%[6]d, %[7]g) - 1) * ((hash(i, 1) >> 11) / 9007199254740992.0) + 1, 1 / %[7]g)) AS BIGINT) AS rank,
      hash(i, 2) AS a, hash(i, 3) AS b, hash(i, 4) AS c, hash(i, 5) AS d, hash(i, 6) AS e
    FROM numbers),
  named AS (SELECT *, (rank * 2654435761) %% 1099511627776 AS id FROM draws)
  SELECT
    make_timestamp(%[8]d + j * 60000000 // %[5]d + %[9]d) AS updated_at,
    id AS item_id,
    'shop-' || lpad(CAST(rank %% 97 AS VARCHAR), 2, '0') || '/ad-' || lpad(lower(to_hex(id)), 10, '0') AS item,
    'campaign-' || (a %% 1200) AS campaign,
    CAST(b %% 4 AS INTEGER) AS clicks,
    CAST(c %% 500000 AS DOUBLE) / 100 AS price,
    CAST(CAST(d %% 90000 AS BIGINT) / 10000.0 AS DECIMAL(18, 4)) AS cost,
    CAST(e %% 3000000 AS BIGINT) AS user_id,
    'Offer ' || (a %% 40) || ' of item ' || rank || ': now with ' || (b %% 100) || ' %% off' AS title,
    CASE WHEN e %% 50 = 0 THEN 'D' ELSE 'U' END AS op
  FROM named
) TO '%[1]s' (FORMAT parquet, COMPRESSION zstd)`,
		path, base, from, step, rows, Keys, 1-Skew, Start(partition).UnixMicro(), shift)
}
