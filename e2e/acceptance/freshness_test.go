//go:build integration

package acceptance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/e2e/duck"
)

// The variables that make TestFreshness a measurement: how long it goes on, on
// the first server alone, with ten partitions a minute; and the file that takes
// what was measured.
const (
	envFreshnessFor  = "DELTAD_FRESHNESS_FOR"
	envFreshnessFile = "DELTAD_FRESHNESS_FILE"
)

// What a partition of TestFreshness has, and how many make its window.
const (
	freshRows    = 20_000
	freshObjects = 4
	freshWindow  = 60
)

// freshness is what was measured on one server; durations are in nanoseconds.
type freshness struct {
	Server              string
	Partitions, Rows    int
	Every, Over         time.Duration
	P50, P90, P99, Most time.Duration
}

// TestFreshness: a partition of four Parquet objects appears every so often on
// a real server; how long it takes, from its last object's PUT having returned,
// until readers are shown a pane of all four. Partitions come by the clock,
// whatever became of those before.
func TestFreshness(t *testing.T) {
	over, every := 20*time.Second, 2*time.Second
	all := env.S3
	if text := os.Getenv(envFreshnessFor); text != "" {
		var err error
		if over, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", envFreshnessFor, err)
		}
		every, all = 6*time.Second, env.S3[:1]
	}
	contents := freshContents(t)
	var measured []freshness
	for _, e := range all {
		t.Run(e.Name, func(t *testing.T) {
			f := newFresh(t, newBench(t, e, setup{}), every, contents)
			m := f.measure(over)
			figure("visible to readable, 1 s trigger, partitions of 20,000 rows: median", e.Name, fmt.Sprintf("%d ms", m.P50.Milliseconds()))
			figure("visible to readable, 1 s trigger, partitions of 20,000 rows: worst of "+fmt.Sprint(m.Partitions), e.Name, fmt.Sprintf("%d ms", m.Most.Milliseconds()))
			measured = append(measured, m)
		})
	}
	if path := os.Getenv(envFreshnessFile); path != "" && !t.Failed() {
		text, err := json.MarshalIndent(measured, "", "  ")
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// freshContents are the objects of some partitions, ad events with keys that
// many partitions share.
func freshContents(t *testing.T) (out [][freshObjects][]byte) {
	t.Helper()
	db, err := duck.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	path := filepath.Join(t.TempDir(), "object.parquet")
	for p := range 16 {
		var objects [freshObjects][]byte
		for o := range objects {
			err := db.Exec(t.Context(), fmt.Sprintf(`
				COPY (
					SELECT CAST(floor(pow(100000, (hash(i, 1) >> 11) / 9007199254740992.0)) AS BIGINT) AS item, CAST(hash(i, 2) %% 4 AS INTEGER) AS clicks,
						CAST(hash(i, 3) %% 500000 AS DOUBLE) / 100 AS price, 'Offer ' || (hash(i, 4) %% 4000) AS title
					FROM (SELECT range AS i FROM range(%[1]d, %[1]d + %[2]d))
				) TO '%[3]s' (FORMAT parquet, COMPRESSION zstd)`,
				(p*freshObjects+o)*(freshRows/freshObjects), freshRows/freshObjects, path))
			if err != nil {
				t.Fatal(err)
			}
			if objects[o], err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, objects)
	}
	return out
}

// fresh is one measurement under way.
type fresh struct {
	*bench
	every    time.Duration
	contents [][freshObjects][]byte

	mu      sync.Mutex
	visible map[time.Time]time.Time // since when each partition is, that no pane has yet
	took    []time.Duration
}

func newFresh(t *testing.T, b *bench, every time.Duration, contents [][freshObjects][]byte) *fresh {
	t.Helper()
	text := fmt.Sprintf(`
state: {url: %q}
admin: {listen: ""}
restart: {every: 0, jitter: 0s}
pipelines:
  items:
    source:
      url: s3://%s/%sin
      s3: &s3 {region: us-east-1, endpoint: %q, path_style: true}
      layout: "%%Y/%%m/%%d/%%H/%%M/%%S"
      granularity: %s
      format: parquet
    trigger: {every: 1s}
    window: {size: %s}
    index:
      key: [item]
      fields:
        updates: {count: "*", over: %[6]s}
        clicks: {sum: clicks, over: %[6]s}
        price: {sum: price, over: %[6]s}
        highest: {max: price, over: %[6]s}
        title: {latest: title, over: %[6]s}
    output: {url: "s3://%[2]s/%[3]sout", s3: *s3}
`, b.dsn, b.bucket, b.root, b.server.URL, every, freshWindow*every)
	b.config = filepath.Join(t.TempDir(), "fresh.yaml")
	if err := os.WriteFile(b.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &fresh{bench: b, every: every, contents: contents, visible: map[time.Time]time.Time{}}
}

// measure runs a daemon over a full window and lets partitions come.
func (f *fresh) measure(over time.Duration) freshness {
	f.t.Helper()
	first := time.Now().UTC().Truncate(f.every)
	for i := range freshWindow {
		f.drop(first.Add(time.Duration(i-freshWindow) * f.every))
	}
	d := start(f.t, f.config)
	eventually(f.t, "the first pane", time.Minute, func() bool { return f.current().Watermark != nil })
	done := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error { return f.watch(done) })
	rng := rand.New(rand.NewPCG(9, 9))
	n := int(over / f.every)
	next := time.Now().UTC().Truncate(f.every).Add(f.every)
	for range n {
		// At any time of the trigger's second.
		time.Sleep(time.Until(next.Add(time.Duration(rng.IntN(1000)) * time.Millisecond)))
		f.drop(next)
		f.mu.Lock()
		f.visible[next] = time.Now()
		f.mu.Unlock()
		next = next.Add(f.every)
	}
	eventually(f.t, "the last partitions are readable", time.Minute, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.visible) == 0
	})
	close(done)
	if err := g.Wait(); err != nil {
		f.t.Fatal(err)
	}
	d.Stop(leaving)
	if len(f.took) != n {
		f.t.Fatalf("%d partitions were measured, want %d", len(f.took), n)
	}
	slices.Sort(f.took)
	at := func(percent int) time.Duration { return f.took[min(n-1, n*percent/100)] }
	return freshness{Server: f.server.Name, Partitions: n, Rows: freshRows, Every: f.every, Over: over, P50: at(50), P90: at(90), P99: at(99), Most: f.took[n-1]}
}

// drop makes a partition visible; its objects are there when it returns.
func (f *fresh) drop(p time.Time) {
	f.t.Helper()
	objects := f.contents[int(p.Unix()/int64(f.every.Seconds()))%len(f.contents)]
	var g errgroup.Group
	for i, body := range objects {
		g.Go(func() error {
			key := f.root + "in/" + p.Format("2006/01/02/15/04/05/") + fmt.Sprintf("part-%d.parquet", i)
			_, err := f.s3.PutObject(f.t.Context(), &s3.PutObjectInput{Bucket: &f.bucket, Key: aws.String(key), Body: bytes.NewReader(body)})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		f.t.Fatal(err)
	}
}

// watch looks at what readers are shown until done, and notes since when a
// pane has all objects of a partition.
func (f *fresh) watch(done chan struct{}) error {
	var seen int64
	for {
		select {
		case <-done:
			return nil
		case <-time.After(10 * time.Millisecond):
		}
		c := f.current()
		if c.Version == seen || c.Delta == nil {
			continue
		}
		at := time.Now() // before the manifest is fetched: it says what was readable then
		seen = c.Version
		objects := map[string]int{}
		for _, in := range f.manifest(c.Delta.Manifest).Inputs {
			objects[in.Key[:strings.LastIndexByte(in.Key, '/')]]++
		}
		f.mu.Lock()
		for p, since := range f.visible {
			if objects[p.Format("2006/01/02/15/04/05")] == freshObjects {
				f.took = append(f.took, at.Sub(since))
				delete(f.visible, p)
			}
		}
		f.mu.Unlock()
	}
}
