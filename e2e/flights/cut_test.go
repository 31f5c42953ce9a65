package flights_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/e2e/flights"
)

const hour = time.Hour

// piece is a part of one hour's flights that arrives as one object.
type piece struct {
	hour    time.Time
	flights []flights.Flight
}

func partitionOf(t time.Time) string { return t.Format("2006/01/02/15/") }

// cut splits the flights by hour, and every hour's into pieces.
func cut(t *testing.T, rng *rand.Rand, from, to time.Time) [][]piece {
	t.Helper()
	all, err := flights.Load()
	if err != nil {
		t.Fatal(err)
	}
	hours := make([][]piece, to.Sub(from)/hour)
	for len(all) > 0 {
		start := all[0].Date.Truncate(hour)
		n := 0
		for n < len(all) && all[n].Date.Truncate(hour).Equal(start) {
			n++
		}
		if !start.Before(from) && start.Before(to) {
			h := start.Sub(from) / hour
			hours[h] = pieces(rng, start, all[:n])
		}
		all = all[n:]
	}
	return hours
}

// pieces deals an hour's flights out to one to four objects, in any order.
func pieces(rng *rand.Rand, start time.Time, all []flights.Flight) []piece {
	n := 1 + rng.IntN(min(4, len(all)))
	out := make([]piece, n)
	for i, at := range rng.Perm(len(all)) {
		p := &out[i%n]
		p.hour, p.flights = start, append(p.flights, all[at])
	}
	return out
}

// writer makes an object of flights; it returns what its name ends in.
type writer func(t *testing.T, rng *rand.Rand, rows []flights.Flight) (body []byte, ext string)

type line struct {
	Date        string  `json:"date"`
	Delay       *int64  `json:"delay"`
	Distance    int64   `json:"distance"`
	Origin      string  `json:"origin"`
	Destination *string `json:"destination,omitempty"`
	Note        string  `json:"note,omitempty"` // no configuration reads it
}

// ndjson writes plain, gzip or zstd. A null delay is written as null, a null
// destination is left out unless no row has one.
func ndjson(t *testing.T, rng *rand.Rand, rows []flights.Flight) ([]byte, string) {
	t.Helper()
	var plain bytes.Buffer
	named := false
	for _, f := range rows {
		named = named || f.Destination != nil
	}
	for _, f := range rows {
		l := line{f.Date.Format(time.RFC3339), f.Delay, f.Distance, f.Origin, f.Destination, strings.Repeat("x", rng.IntN(4))}
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if !named {
			b = append(b[:len(b)-1], []byte(`,"destination":null}`)...)
		}
		plain.Write(append(b, '\n'))
	}
	var packed bytes.Buffer
	switch rng.IntN(4) {
	case 0:
		w := gzip.NewWriter(&packed)
		_, err := w.Write(plain.Bytes())
		if err = firstOf(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return packed.Bytes(), "ndjson.gz"
	case 1:
		w, err := zstd.NewWriter(&packed)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write(plain.Bytes())
		if err = firstOf(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return packed.Bytes(), "ndjson.zst"
	}
	return plain.Bytes(), "ndjson"
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Rows of a Parquet file as two producers write them: the delay in 32 or 64
// bits, the time in microseconds or milliseconds, columns in another order.
type (
	wide struct {
		Date        int64   `parquet:"date,timestamp(microsecond)"`
		Delay       *int64  `parquet:"delay,optional"`
		Distance    int64   `parquet:"distance"`
		Origin      string  `parquet:"origin"`
		Destination *string `parquet:"destination,optional"`
	}
	narrow struct {
		Origin      string  `parquet:"origin,dict"`
		Destination *string `parquet:"destination,optional,dict"`
		Note        string  `parquet:"note"`
		Delay       *int32  `parquet:"delay,optional"`
		Distance    int32   `parquet:"distance"`
		Date        int64   `parquet:"date,timestamp(millisecond)"`
	}
)

// parquets writes files with parquet-go and with DuckDB.
func parquets(db *duck.DB) writer {
	return func(t *testing.T, rng *rand.Rand, rows []flights.Flight) ([]byte, string) {
		t.Helper()
		switch rng.IntN(3) {
		case 0:
			out := make([]wide, len(rows))
			for i, f := range rows {
				out[i] = wide{f.Date.UnixMicro(), f.Delay, f.Distance, f.Origin, f.Destination}
			}
			return written(t, out, parquet.Compression(&parquet.Zstd)), "parquet"
		case 1:
			out := make([]narrow, len(rows))
			for i, f := range rows {
				var delay *int32
				if f.Delay != nil {
					d := int32(*f.Delay)
					delay = &d
				}
				out[i] = narrow{f.Origin, f.Destination, "n", delay, int32(f.Distance), f.Date.UnixMilli()}
			}
			return written(t, out, parquet.Compression(&parquet.Snappy), parquet.PageBufferSize(64)), "parquet"
		}
		return copied(t, db, rng, rows), "parquet"
	}
}

func written[T any](t *testing.T, rows []T, options ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, options...)
	_, err := w.Write(rows)
	if err = firstOf(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// copied has DuckDB write the file.
func copied(t *testing.T, db *duck.DB, rng *rand.Rand, rows []flights.Flight) []byte {
	t.Helper()
	values := make([]string, len(rows))
	for i, f := range rows {
		delay, destination := "NULL", "NULL"
		if f.Delay != nil {
			delay = fmt.Sprint(*f.Delay)
		}
		if f.Destination != nil {
			destination = literal(*f.Destination)
		}
		values[i] = fmt.Sprintf("(%s, %s, %d, %s, %s)", stamp(f.Date), delay, f.Distance, literal(f.Origin), destination)
	}
	path := filepath.Join(t.TempDir(), "copy.parquet")
	codec := []string{"snappy", "zstd", "gzip", "uncompressed"}[rng.IntN(4)]
	delay := []string{"INTEGER", "BIGINT", "SMALLINT"}[rng.IntN(3)]
	exec(t.Context(), t, db, fmt.Sprintf(`COPY (SELECT d::TIMESTAMPTZ AS date, delay::%s AS delay, distance::INTEGER AS distance, origin::VARCHAR AS origin, destination::VARCHAR AS destination
		FROM (VALUES %s) v(d, delay, distance, origin, destination)) TO %s (FORMAT parquet, COMPRESSION %s)`,
		delay, strings.Join(values, ", "), literal(path), codec))
	b, err := os.ReadFile(path)
	if err = firstOf(err, os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	return b
}

func exec(ctx context.Context, t *testing.T, db *duck.DB, query string) {
	t.Helper()
	if err := db.Exec(ctx, query); err != nil {
		t.Fatal(err)
	}
}

func query(ctx context.Context, t *testing.T, db *duck.DB, q string) []duck.Row {
	t.Helper()
	rows, err := db.Query(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// literal and stamp are SQL literals.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func stamp(t time.Time) string { return "TIMESTAMP '" + t.UTC().Format("2006-01-02 15:04:05") + "'" }
