package scan

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/parquet-go/parquet-go"
)

// event is the row of the benchmarks.
type event struct {
	Item    int64   `parquet:"item_id" json:"item_id"`
	Key     string  `parquet:"item_key" json:"item_key"`
	At      int64   `parquet:"ts,timestamp(microsecond)" json:"ts"`
	Clicks  int32   `parquet:"clicks" json:"clicks"`
	Cost    float64 `parquet:"cost" json:"cost"`
	Status  *string `parquet:"status,optional,dict" json:"status"`
	Title   string  `parquet:"title" json:"title"`
	Ad      int64   `parquet:"ad_id" json:"ad_id"`
	Country string  `parquet:"country,dict" json:"country"`
}

const benchRows = 50_000

func events() []event {
	rnd := rand.New(rand.NewPCG(1, 2))
	status := []string{"active", "paused", "deleted"}
	out := make([]event, benchRows)
	for i := range out {
		id := rnd.Int64N(20_000)
		out[i] = event{Item: id, Key: fmt.Sprintf("item-%010d", id), At: 1_795_000_000_000_000 + int64(i), Clicks: rnd.Int32N(50),
			Cost: rnd.Float64(), Title: strings.Repeat("word ", 5) + strconv.Itoa(i), Ad: rnd.Int64N(1000), Country: status[i%3][:2]}
		if i%50 > 0 {
			out[i].Status = &status[i%3]
		}
	}
	return out
}

// benchColumns are six of the nine columns.
func benchColumns() []Column {
	return []Column{{Path: "item_id"}, {Path: "item_key"}, {Path: "ts"}, {Path: "clicks", Numeric: true}, {Path: "cost", Numeric: true}, {Path: "status"}}
}

func benchScan(b *testing.B, f Format, data []byte) {
	b.Helper()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var sum int64
		res, err := Scan(b.Context(), &memBlob{key: "f", data: data}, Request{Format: f, Columns: benchColumns()}, func(batch *column.Batch) error {
			for _, v := range batch.Columns[3].Ints {
				sum += v
			}
			return nil
		})
		if err != nil || res.Rows != benchRows || sum == 0 {
			b.Fatal(res, err)
		}
	}
	b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func peerRows(b *testing.B, data []byte, read func() (int, error)) {
	b.Helper()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := read(); n != benchRows || err != nil {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(benchRows*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkParquet(b *testing.B) {
	data := write(b, events(), parquet.Compression(&parquet.Snappy))
	b.Run("scan", func(b *testing.B) { benchScan(b, Parquet, data) })
	b.Run("peer=parquet.GenericReader", func(b *testing.B) {
		type six struct {
			Item   int64   `parquet:"item_id"`
			Key    string  `parquet:"item_key"`
			At     int64   `parquet:"ts,timestamp(microsecond)"`
			Clicks int32   `parquet:"clicks"`
			Cost   float64 `parquet:"cost"`
			Status *string `parquet:"status,optional,dict"`
		}
		buf := make([]six, batchRows)
		peerRows(b, data, func() (int, error) {
			r := parquet.NewGenericReader[six](bytes.NewReader(data))
			total := 0
			for {
				n, err := r.Read(buf)
				total += n
				if errors.Is(err, io.EOF) {
					return total, r.Close()
				}
				if err != nil {
					return total, err
				}
			}
		})
	})
}

func BenchmarkNDJSON(b *testing.B) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	for _, e := range events() {
		if err := enc.Encode(e); err != nil {
			b.Fatal(err)
		}
	}
	data := buf.Bytes()
	b.Run("scan", func(b *testing.B) { benchScan(b, NDJSON, data) })
	b.Run("peer=encoding/json", func(b *testing.B) {
		peerRows(b, data, func() (int, error) {
			dec := json.NewDecoder(bytes.NewReader(data))
			for n := 0; ; n++ {
				var e event
				if err := dec.Decode(&e); errors.Is(err, io.EOF) {
					return n, nil
				} else if err != nil {
					return n, err
				}
			}
		})
	})
}

func BenchmarkCSV(b *testing.B) {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	if err := w.Write([]string{"item_id", "item_key", "ts", "clicks", "cost", "status", "title", "ad_id", "country"}); err != nil {
		b.Fatal(err)
	}
	for _, e := range events() {
		s := ""
		if e.Status != nil {
			s = *e.Status
		}
		if err := w.Write([]string{strconv.FormatInt(e.Item, 10), e.Key, strconv.FormatInt(e.At, 10), strconv.Itoa(int(e.Clicks)),
			strconv.FormatFloat(e.Cost, 'f', -1, 64), s, e.Title, strconv.FormatInt(e.Ad, 10), e.Country}); err != nil {
			b.Fatal(err)
		}
	}
	w.Flush()
	data := buf.Bytes()
	b.Run("scan", func(b *testing.B) { benchScan(b, CSV, data) })
	b.Run("peer=encoding/csv", func(b *testing.B) {
		peerRows(b, data, func() (int, error) {
			r := csv.NewReader(bytes.NewReader(data))
			r.ReuseRecord = true
			sum := 0.0
			for n := -1; ; n++ {
				rec, err := r.Read()
				if errors.Is(err, io.EOF) {
					return n, nil
				}
				if err != nil {
					return n, err
				}
				for _, i := range []int{0, 2, 3, 4} { // the numbers among the six columns
					f, _ := strconv.ParseFloat(rec[i], 64)
					sum += f
				}
			}
		})
	})
}
