//go:build integration

package acceptance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// figures are what the tests measured, by name and server.
var figures struct {
	sync.Mutex
	names  []string
	values map[[2]string]string
}

// figure notes a measurement; the table is printed after the tests.
func figure(name, server, value string) {
	figures.Lock()
	defer figures.Unlock()
	if figures.values == nil {
		figures.values = map[[2]string]string{}
	}
	if !slices.Contains(figures.names, name) {
		figures.names = append(figures.names, name)
	}
	figures.values[[2]string{name, server}] = value
}

// printFigures writes the table.
func printFigures() {
	figures.Lock()
	defer figures.Unlock()
	if len(figures.names) == 0 {
		return
	}
	var table strings.Builder
	table.WriteString("figure")
	for _, e := range env.S3 {
		table.WriteString("\t" + e.Name)
	}
	for _, name := range figures.names {
		table.WriteString("\n" + name)
		for _, e := range env.S3 {
			table.WriteString("\t" + figures.values[[2]string{name, e.Name}])
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	_, _ = w.Write([]byte(table.String() + "\n")) // the console's own troubles are nobody's here
	_ = w.Flush()
}

// TestIdleCosts: a window of 60 partitions of up to ten objects, and twice as
// many before it, as a pipeline has that runs for long.
func TestIdleCosts(t *testing.T) {
	cases := []struct {
		name    string
		before  int // partitions before the window
		objects int // of a partition
		most    int // requests
	}{
		{"60 partitions of 10 objects", 0, 10, 3},
		{"60 partitions of 5 objects, 120 more before them", 120, 5, 3},
	}
	for _, c := range cases {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			inTurn(t, setup{}, func(t *testing.T, b *bench) {
				newest := at("10:00")
				var keys []string
				for i := range 60 + c.before {
					for n := range c.objects {
						keys = append(keys, fmt.Sprintf("%spart-%02d.ndjson", minute(newest.Add(-time.Duration(i)*time.Minute)), n))
					}
				}
				b.putAll(keys, func(i int) []byte { return []byte(row(fmt.Sprint("item-", i%500), newest, 1, "t")) })
				b.once("10:00", "advanced")
				best := time.Hour
				for range 5 {
					b.proxy.take()
					began := time.Now()
					b.once("10:00", "idle")
					took := time.Since(began)
					got := b.proxy.take()
					if got.writes() > 0 || got.total() > c.most {
						t.Fatalf("the idle step made %s, want at most %d requests and no write", got, c.most)
					}
					if took < best {
						best = took
						figure("idle run --once, "+c.name+": requests", b.server.Name, got.String())
						figure("idle run --once, "+c.name+": of it the S3 server's time", b.server.Name, fmt.Sprintf("%d ms", got.spent.Milliseconds()))
					}
				}
				figure("idle run --once, "+c.name+": whole process", b.server.Name, fmt.Sprintf("%d ms", best.Milliseconds()))

				b.put(minute(newest.Add(time.Minute))+"part-00.ndjson", []byte(row("item-1", newest.Add(time.Minute), 1, "t")))
				began := time.Now()
				b.once("10:01", "advanced")
				figure("run --once over one new partition, "+c.name+": whole process", b.server.Name, fmt.Sprintf("%d ms", time.Since(began).Milliseconds()))
				figure("run --once over one new partition, "+c.name+": requests", b.server.Name, b.proxy.take().String())
			})
		})
	}
}

// TestSteadyCosts: what a daemon that runs for long pays for one new partition
// of a window of 60, each of ten objects.
func TestSteadyCosts(t *testing.T) {
	inTurn(t, setup{trigger: "{every: 1s}"}, func(t *testing.T, b *bench) {
		now := time.Now().UTC().Truncate(time.Minute)
		var keys []string
		for i := range 60 {
			for n := range 10 {
				keys = append(keys, fmt.Sprintf("%spart-%02d.ndjson", minute(now.Add(-time.Duration(i+1)*time.Minute)), n))
			}
		}
		body := func(i int) []byte {
			var rows strings.Builder
			for n := range 20 {
				rows.WriteString(row(fmt.Sprint("item-", (i*20+n)%500), now, 1, "t"))
			}
			return []byte(rows.String())
		}
		b.putAll(keys, body)
		began := time.Now()
		d := start(t, b.config)
		eventually(t, "the first pane", time.Minute, func() bool { return b.reached(now.Add(-time.Minute)) })
		figure("start to first pane over 600 objects", b.server.Name, fmt.Sprintf("%.2f s", time.Since(began).Seconds()))
		time.Sleep(1200 * time.Millisecond) // a step in hand ends
		b.proxy.take()
		b.put(minute(now)+"part-00.ndjson", body(0))
		eventually(t, "the next pane", time.Minute, func() bool { return b.reached(now) })
		time.Sleep(100 * time.Millisecond) // its line is written after it can be read
		c := b.proxy.take()
		if c.byKind["GET"] > 12 {
			t.Errorf("a run over one new object made %s: it read more than is new", c)
		}
		var took []float64
		for line := range strings.Lines(d.Log()) {
			var l struct {
				Msg  string  `json:"msg"`
				Took float64 `json:"took"`
			}
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "pane published" {
				took = append(took, l.Took)
			}
		}
		if len(took) != 2 {
			t.Fatalf("%d panes in the log, want 2:\n%s", len(took), d.Log())
		}
		figure("daemon's run over one new partition of 60", b.server.Name, fmt.Sprintf("%.0f ms", took[1]))
		figure("daemon's run over one new partition of 60: requests, with idle steps", b.server.Name, c.String())
		d.Stop(leaving)
	})
}
