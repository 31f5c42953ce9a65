//go:build integration

package dataflow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/deltad/deltad/e2e/binary"
)

var deltad string

func TestMain(m *testing.M) {
	os.Exit(binary.Rig{Name: "dataflow", Builds: map[*string]binary.Build{&deltad: {}}}.Main(m))
}

// datum is one value. Its times are whole ninths of a minute: of the event from
// 12:00, of the arrival from 12:05.
type datum struct {
	value          int64
	event, arrival int
}

// paper is the example of the paper, in order of arrival; the 9 is late.
func paper() []datum {
	return []datum{{5, 4, 3}, {7, 22, 6}, {3, 33, 11}, {4, 35, 13}, {3, 39, 15}, {8, 28, 19}, {3, 60, 21}, {9, 13, 30}, {8, 67, 33}, {1, 70, 36}}
}

func noon() time.Time { return time.Date(2015, 8, 31, 12, 0, 0, 0, time.UTC) }

// minute is an instant after noon.
func minute(n int) time.Time { return noon().Add(time.Duration(n) * time.Minute) }

func ninths(n int) time.Duration { return time.Duration(n) * time.Minute / 9 }

func (d datum) happened() time.Time { return noon().Add(ninths(d.event)).Truncate(time.Microsecond) }
func (d datum) arrived() time.Time  { return minute(5).Add(ninths(d.arrival)) }

// window is the fixed window of two minutes that a datum lies in.
func (d datum) window() time.Time { return d.happened().Truncate(2 * time.Minute) }

func clock(t time.Time) string { return t.Format("15:04") }

// row is a record as producers write it.
type row struct {
	Key    string    `parquet:"key" json:"key"`
	Window string    `parquet:"window" json:"window"`
	Value  int64     `parquet:"value" json:"value"`
	Time   time.Time `parquet:"time,timestamp(microsecond)" json:"time"`
}

// body is a file of one datum.
func body(t *testing.T, format string, d datum) []byte {
	t.Helper()
	r, b := row{"k", clock(d.window()), d.value, d.happened()}, &bytes.Buffer{}
	var err error
	switch format {
	case "ndjson":
		err = json.NewEncoder(b).Encode(r)
	case "csv":
		fmt.Fprintf(b, "key,window,value,time\n%s,%s,%d,%s\n", r.Key, r.Window, r.Value, r.Time.Format(time.RFC3339Nano))
	case "parquet":
		err = parquet.Write(b, []row{r})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bench is a pipeline over a directory, and a clock.
type bench struct {
	t      *testing.T
	dir    string
	format string
	event  bool // partitions are windows of event time, not minutes of arrival
	now    time.Time
	drops  int
}

// settings is what benches differ in.
type settings struct {
	format string
	key    string // of the index
	event  bool
	window string // default 1h
	full   bool
}

func newBench(t *testing.T, s settings) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), format: s.format, event: s.event}
	granularity, full, window, over := "1m", "", "1h", ", over: 1h"
	if s.event {
		granularity = "2m"
	}
	if s.window != "" {
		window, over = s.window, ", over: "+s.window
	}
	if s.full {
		full, over = `full: {schedule: ""}`, ""
	}
	text := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
pipelines:
  sums:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M", granularity: %[2]s, format: %[3]s}
    window: {size: %[4]s}
    index: {key: [%[5]s], event_time: time, fields: {sum: {sum: value%[6]s}}}
    %[7]s
    output: {url: "file://%[1]s/out"}
`, b.dir, granularity, s.format, window, s.key, over, full)
	for _, dir := range []string{"in", "out"} {
		if err := os.Mkdir(filepath.Join(b.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "deltad.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return b
}

// drop writes a datum, by the clock at its arrival.
func (b *bench) drop(d datum) {
	b.t.Helper()
	start := d.arrived().Truncate(time.Minute)
	if b.event {
		start = d.window()
	}
	b.drops++
	path := filepath.Join(b.dir, "in", start.Format("2006/01/02/15/04"), fmt.Sprintf("%02d.%s", b.drops, b.format))
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, body(b.t, b.format, d), 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.now = d.arrived()
}

// until drops what arrives up to an instant, that at the instant too, and
// returns what is left.
func (b *bench) until(at time.Time, data []datum) (left []datum) {
	b.t.Helper()
	for len(data) > 0 && !data[0].arrived().After(at) {
		b.drop(data[0])
		data = data[1:]
	}
	b.now = at
	return data
}

// run runs deltad and returns what it prints, a JSON value a line.
func (b *bench) run(args ...string) []map[string]any {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), deltad, append(args, "-c", filepath.Join(b.dir, "deltad.yaml"), "-o", "json")...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("deltad %s: %v\n%s%s", strings.Join(args, " "), err, out, log.Bytes())
	}
	var all []map[string]any
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var v map[string]any
		if err := dec.Decode(&v); err != nil {
			b.t.Fatalf("deltad %s: %v in %s", strings.Join(args, " "), err, out)
		}
		all = append(all, v)
	}
	return all
}

// step takes one step by the clock.
func (b *bench) step(want string) map[string]any {
	b.t.Helper()
	got := b.run("run", "--once", "--now", b.now.Format(time.RFC3339Nano))
	if len(got) != 1 || got[0]["outcome"] != want {
		b.t.Fatalf("step at %s: %v, want %s", b.now, got, want)
	}
	return got[0]
}

// sum is the sum of a key in the live index.
func (b *bench) sum(key ...string) string {
	b.t.Helper()
	return fmt.Sprint(b.run(append([]string{"get"}, key...)...)[0]["sum"])
}

// changed are the windows that the live pane changed, with their sums.
func (b *bench) changed() string {
	b.t.Helper()
	var out []string
	for _, line := range b.run("diff") {
		if after, ok := line["after"].(map[string]any); ok {
			out = append(out, fmt.Sprintf("%s=%v", after["window"], after["sum"]))
		}
	}
	return strings.Join(out, " ")
}

func (b *bench) windows() string {
	b.t.Helper()
	var out []string
	for _, w := range []string{"12:00", "12:02", "12:04", "12:06"} {
		out = append(out, b.sum("k", w))
	}
	return strings.Join(out, " ")
}

func (b *bench) want(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s at %s: %s, want %s", what, b.now.Format("15:04:05"), got, want)
	}
}

// each runs a test for each format.
func each(t *testing.T, test func(t *testing.T, format string)) {
	for _, format := range []string{"ndjson", "csv", "parquet"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			test(t, format)
		})
	}
}

// TestGlobalWindow is figures 6 and 7: one window, a pane a minute.
func TestGlobalWindow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, format string) {
		b, data := newBench(t, settings{format: format, key: "key"}), paper()
		for i, want := range []string{"12", "22", "33", "51"} {
			data = b.until(minute(6+i), data)
			b.step("advanced")
			b.want("figure 7", b.sum("k"), want)
		}
		b.step("idle")

		batch := newBench(t, settings{format: format, key: "key"})
		batch.until(minute(10), paper())
		batch.step("advanced")
		batch.want("figure 6", batch.sum("k"), "51")
	})
}

// TestEveryTwoElements is figure 9, accumulated: a pane after every second
// value, so that partitions grow after they were published.
func TestEveryTwoElements(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, format string) {
		b := newBench(t, settings{format: format, key: "key"})
		for i, want := range []string{"12", "19", "30", "42", "51"} {
			data := paper()[2*i:]
			b.drop(data[0])
			b.drop(data[1])
			b.step("advanced")
			b.want("figure 9", b.sum("k"), want)
		}
	})
}

// TestFixedWindows is figures 10 and 11: windows of two minutes, a pane a
// minute that changes some of them, and the full index of all.
func TestFixedWindows(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, format string) {
		b, data := newBench(t, settings{format: format, key: "key, window", full: true}), paper()
		data = b.until(minute(6), data)
		if got := b.step("advanced"); got["documents"] != 2.0 {
			t.Errorf("the first pane: %v", got)
		}
		b.want("figure 11", b.sum("k", "12:00")+" "+b.sum("k", "12:02"), "5 7")
		for i, want := range []string{"12:02=14 12:04=3", "12:02=22 12:06=3", "12:00=14 12:06=12"} {
			data = b.until(minute(7+i), data)
			b.step("advanced")
			b.want("figure 11", b.changed(), want)
		}
		b.want("figure 10", b.windows(), "14 22 3 12")

		b.run("rebuild")
		b.run("base", "promote", "--reason", "figure 10")
		b.want("figure 10, base and delta", b.windows(), "14 22 3 12")
		b.drop(datum{value: 1, event: 9 * 70, arrival: 9 * 70}) // long after, so that the delta has let go of the rest
		b.step("advanced")
		b.want("figure 10, from the base", b.windows(), "14 22 3 12")
		if got := b.run("get", "--origin", "k", "12:00")[0]; got["layer"] != "base" {
			t.Errorf("window 12:00 is read from %v", got)
		}
	})
}

// TestLateDatum is figure 12: windows are partitions of the source, published
// one after the other, and the 9 comes when its own was published long ago. The
// overlap of what is covered heals it, and beyond it is counted, by name.
func TestLateDatum(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, format string) {
		for _, tt := range []struct {
			name     string
			settings settings
			late     string // outcome of the step after the 9
			want     string // the window's sum then
		}{
			{"within the coverage", settings{window: "1h"}, "refined", "14"},
			{"beyond it", settings{window: "8m"}, "idle", ""},
			{"over a full index that has not read it", settings{window: "8m", full: true}, "refined", "14"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				s := tt.settings
				s.format, s.key, s.event = format, "key, window", true
				b, data := newBench(t, s), paper()
				data = b.until(minute(8), data)
				b.step("advanced")
				if s.full {
					b.run("rebuild")
					b.run("base", "promote", "--reason", "before the 9")
				}
				// Until the 9 comes, more windows have passed.
				b.drop(datum{value: 100, event: 9 * 12, arrival: 9 * 8})
				b.step("advanced")
				b.drop(data[0])
				b.now = minute(14)
				got := b.step(tt.late)
				if tt.want != "" {
					b.want("the late datum's window", b.sum("k", "12:00"), tt.want)
					return
				}
				if why := fmt.Sprint(got["why"]); !strings.Contains(why, "1 came late") || !strings.Contains(why, "2015/08/31/12/00/") {
					t.Errorf("nothing is said of it: %v", got)
				}
			})
		}
	})
}

// TestSecondSet is the nine values of the Streaming Systems book, whose fixed
// windows of two minutes have other sums.
func TestSecondSet(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, format string) {
		b := newBench(t, settings{format: format, key: "key, window"})
		for _, d := range []datum{{5, 4, 3}, {7, 22, 6}, {3, 33, 11}, {4, 39, 15}, {8, 28, 19}, {3, 60, 21}, {9, 13, 30}, {8, 67, 33}, {1, 70, 36}} {
			b.drop(d)
		}
		b.step("advanced")
		b.want("the book's windows", b.windows(), "14 18 4 12")
	})
}
