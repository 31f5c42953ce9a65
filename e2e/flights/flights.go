// Package flights drives deltad over a quarter of real flights and compares
// every pane it publishes with DuckDB.
//
// The flights are cut by hour into partitions and dropped into a source as
// files, in pieces, some late, some early, some replaced or removed; the
// daemon's code takes a step about every hour of the quarter, by a clock that
// the test moves, with absences and restarts. After every pane the test
//
//   - decides from its own record of what it dropped, in SQL, what the pane has
//     to cover and which files it has to have read, and compares the manifest;
//   - computes every document from the raw files in SQL and compares it with
//     the document that DuckDB reads from the published Parquet.
//
// With a full index, rebuilt once a day while deltas go on, the same holds for
// what a reader of base and delta finds: promotions come at once or hours later,
// bases are rolled back and approved again, and fields over all count every
// record that the source ever showed.
//
// Nothing but the published files, manifests and reports is taken from deltad.
package flights

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"time"
)

//go:embed testdata/flights-20k.json.gz
var packed []byte

// Flight is one record. Delay and Destination are null where they are nil.
type Flight struct {
	Date        time.Time
	Delay       *int64
	Distance    int64
	Origin      string
	Destination *string
}

// Load returns the flights in the order of the file, which is that of time.
// The data has no nulls; so that rules about nulls meet real data too, every
// 53rd flight is given without its delay and every 71st without its
// destination.
func Load() ([]Flight, error) {
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack the flights: %w", err)
	}
	var raw []struct {
		Date        string `json:"date"`
		Delay       int64  `json:"delay"`
		Distance    int64  `json:"distance"`
		Origin      string `json:"origin"`
		Destination string `json:"destination"`
	}
	if err := json.NewDecoder(zr).Decode(&raw); err != nil {
		return nil, fmt.Errorf("decode the flights: %w", err)
	}
	all := make([]Flight, len(raw))
	for i, r := range raw {
		date, err := time.Parse("2006/01/02 15:04", r.Date)
		if err != nil {
			return nil, fmt.Errorf("decode flight %d: %w", i, err)
		}
		all[i] = Flight{Date: date, Distance: r.Distance, Origin: r.Origin}
		if i%53 != 52 {
			all[i].Delay = &raw[i].Delay
		}
		if i%71 != 70 {
			all[i].Destination = &raw[i].Destination
		}
	}
	return all, nil
}
