//go:build integration

package acceptance_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOneRunAtTheNewest: P1, P2 and P3 appear while the watermark is at P0.
func TestOneRunAtTheNewest(t *testing.T) {
	t.Parallel()
	each(t, setup{}, func(t *testing.T, b *bench) {
		b.once("03:00", "idle")
		b.put(drop("03:00", "a.ndjson"), update("x", "03:00", 1, "zero"))
		first := b.once("03:00", "advanced")
		for i, clock := range []string{"03:01", "03:02", "03:03"} {
			b.put(drop(clock, "a.ndjson"), update("x", clock, 10*(i+1), clock))
			b.put(drop(clock, "b.ndjson"), update(clock, clock, 1, "new"))
		}
		l := b.once("03:03", "advanced")
		if !l.Watermark.Equal(at("03:03")) || l.Documents != 4 || l.RunID == first.RunID {
			t.Errorf("one run, at P3: %+v", l)
		}
		m := b.manifest(l.Manifest)
		if !m.PreviousWatermark.Equal(at("03:00")) || !m.Coverage.From.Before(at("03:00")) || !m.Coverage.To.Equal(at("03:03")) || len(m.Inputs) != 7 {
			t.Errorf("the manifest covers (%s, %s] after %s from %d inputs", m.Coverage.From, m.Coverage.To, m.PreviousWatermark, len(m.Inputs))
		}
		if len(m.Jumps) != 1 || !m.Jumps[0].From.Equal(at("03:00")) || !m.Jumps[0].At.Equal(at("03:03")) {
			t.Errorf("jumps %v", m.Jumps)
		}
		want := map[string]string{"03:00": "covered", "03:01": "skipped_then_covered", "03:02": "skipped_then_covered", "03:03": "covered"}
		if got := b.ledger(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("ledger %v, want %v", got, want)
		}
		doc := b.document("x")
		if doc["clicks"] != 61.0 || doc["updates"] != 4.0 || doc["title"] != "03:03" || doc["price"] != 15.5 {
			t.Errorf("document x is %v", doc)
		}
		var runs []map[string]any
		b.run(0, &runs, "runs")
		if len(runs) != 2 {
			t.Errorf("%d runs in the journal, want 2: %v", len(runs), runs)
		}

		b.proxy.take()
		idle := b.once("03:03", "idle")
		if c := b.proxy.take(); c.writes() > 0 || c.total() > 3 || idle.Manifest != l.Manifest {
			t.Errorf("the idle step made %s", c)
		}

		// Three hours of absence: every partition of them is there.
		var keys []string
		for p := at("03:04"); !p.After(at("06:03")); p = p.Add(time.Minute) {
			keys = append(keys, minute(p)+"a.ndjson")
		}
		b.putAll(keys, func(i int) []byte {
			p := at("03:04").Add(time.Duration(i) * time.Minute)
			return []byte(row("y", p, 1, "y"))
		})
		l = b.once("06:03", "advanced")
		m = b.manifest(l.Manifest)
		if !l.Watermark.Equal(at("06:03")) || !m.Coverage.From.Equal(at("03:03")) || len(m.Inputs) != 180 {
			t.Errorf("after three hours: %+v, coverage (%s, %s], %d inputs", l, m.Coverage.From, m.Coverage.To, len(m.Inputs))
		}
		if doc := b.document("y"); doc["clicks"] != 180.0 || doc["clicks_5m"] != 5.0 {
			t.Errorf("document y is %v", doc)
		}
		if got := b.ledger(); len(got) != 184 || got["04:30"] != "skipped_then_covered" || got["06:03"] != "covered" {
			t.Errorf("ledger of %d partitions: 04:30 %s, 06:03 %s", len(got), got["04:30"], got["06:03"])
		}

		// B7: a late object inside the window is in a refined pane.
		b.put(drop("05:30", "late.ndjson"), update("y", "05:30", 100, "y"))
		refined := b.once("06:03", "refined")
		m = b.manifest(refined.Manifest)
		if !refined.Watermark.Equal(at("06:03")) || m.Timing != "late" || len(m.Inputs) != 181 {
			t.Errorf("refined: %+v, timing %s, %d inputs", refined, m.Timing, len(m.Inputs))
		}
		if doc := b.document("y"); doc["clicks"] != 280.0 {
			t.Errorf("document y is %v after a late object", doc)
		}
		b.once("06:03", "idle")
	})
}

// record is one update of the determinism test.
type record struct {
	item   string
	at     time.Time
	clicks int
	title  string
}

// TestSameBytesWhateverTheOrder: the same records shuffled over objects and
// rows, split into other files, with one worker and with eight, on every
// server.
func TestSameBytesWhateverTheOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	partitions := map[string][]record{}
	for i := range 12_000 {
		p := at("10:00").Add(time.Duration(rng.IntN(30)) * time.Minute)
		r := record{fmt.Sprintf("item-%d", rng.IntN(3000)), p.Add(time.Duration(rng.IntN(60)) * time.Second), rng.IntN(1000), fmt.Sprintf("title %d", i%7)}
		partitions[minute(p)] = append(partitions[minute(p)], r)
	}
	hashes := map[string]string{}
	for _, e := range env.S3 {
		for _, workers := range []int{1, 8} {
			name := fmt.Sprintf("%s, %d workers", e.Name, workers)
			b := newBench(t, e, setup{workers: workers})
			var keys []string
			var bodies [][]byte
			for prefix, records := range partitions {
				files := make([]strings.Builder, 1+rng.IntN(6))
				for _, i := range rng.Perm(len(records)) {
					r := records[i]
					files[rng.IntN(len(files))].WriteString(row(r.item, r.at, r.clicks, r.title))
				}
				for i := range files {
					keys = append(keys, fmt.Sprintf("%s%06x-%d.ndjson", prefix, rng.IntN(1<<24), i))
					bodies = append(bodies, []byte(files[i].String()))
				}
			}
			b.putAll(keys, func(i int) []byte { return bodies[i] })
			m := b.manifest(b.once("10:29", "advanced").Manifest)
			var sums []string
			for _, f := range m.Files {
				sums = append(sums, f.SHA256)
			}
			hashes[name] = strings.Join(sums, " ")
			if len(sums) == 0 || m.Counts.Rows != 12_000 {
				t.Fatalf("%s: %d files from %d rows", name, len(sums), m.Counts.Rows)
			}
		}
	}
	var all []string
	for _, h := range hashes {
		all = append(all, h)
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 1 {
		t.Errorf("the same inputs made other bytes: %v", hashes)
	}
}

// TestExitCodes: 0 done and idle, 1 failed, 2 usage or configuration; 3 is in
// TestDaemon.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	each(t, setup{}, func(t *testing.T, b *bench) {
		b.once("03:00", "idle")
		b.put(drop("03:00", "a.ndjson"), update("x", "03:00", 1, "x"))
		b.once("03:00", "advanced")
		b.put(drop("03:01", "bad.ndjson"), []byte("{\"item\": \"x\"\n"))
		l := b.once("03:01", "failed")
		if !strings.Contains(l.Error, "bad.ndjson") || !l.Watermark.Equal(at("03:00")) {
			t.Errorf("the failed step says %+v", l)
		}
		if doc := b.document("x"); doc["updates"] != 1.0 {
			t.Errorf("document x is %v after a failed run", doc)
		}
		for _, args := range [][]string{
			{"run", "--once", "--now", "yesterday"}, {"run", "--role", "none"}, {"no-such-command"}, {"run", "--no-such-flag"}, {"get"},
		} {
			if r := execute(t, append(args, "-c", b.config)...); r.code != 2 || r.stdout != "" {
				t.Errorf("deltad %v: exit code %d, stdout %q", args, r.code, r.stdout)
			}
		}
		bad := filepath.Join(t.TempDir(), "bad.yaml")
		text, err := os.ReadFile(b.config)
		if err == nil {
			err = os.WriteFile(bad, []byte(strings.Replace(string(text), "window:", "windows:", 1)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := execute(t, "run", "--once", "-c", bad); r.code != 2 || !strings.Contains(r.stderr, "windows") {
			t.Errorf("a bad configuration: exit code %d, %s", r.code, r.stderr)
		}
		if r := execute(t, "get", "nobody", "-c", b.config); r.code != 1 {
			t.Errorf("a document that is not there: exit code %d", r.code)
		}
		var found map[string]any
		b.run(0, &found, "check", "--online")
		if found["ok"] != true {
			t.Errorf("check --online says %v", found)
		}
	})
}

// TestExampleConfigurations: `deltad check` takes every one.
func TestExampleConfigurations(t *testing.T) {
	examples, err := filepath.Glob("../../configs/examples/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples (%v)", err)
	}
	t.Setenv("DELTAD_DEMO", t.TempDir())
	for _, path := range examples {
		t.Run(filepath.Base(path), func(t *testing.T) {
			if r := execute(t, "check", "-c", path, "-o", "json"); r.code != 0 || !strings.Contains(r.stdout, `"ok":true`) {
				t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}

// TestB14StrangeKeys: what stores and clients like to escape.
func TestB14StrangeKeys(t *testing.T) {
	t.Parallel()
	names := []string{
		"part+1 a=b%3A.ndjson", "ü.ndjson", `a\b.ndjson`, "100%.ndjson", "a%2Fb.ndjson", "x&y?z#.ndjson", "日本 語.ndjson", "(a)'b\"c.ndjson", "e\u0301.ndjson", "é.ndjson", "a;b,c@d:e$f.ndjson",
	}
	each(t, setup{}, func(t *testing.T, b *bench) {
		names := names
		if b.server.Name == "seaweedfs" {
			// It takes a backslash for a slash: there is no such key on it.
			names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.Contains(n, `\`) })
		}
		for _, n := range names {
			b.put(drop("03:00", n), update(n, "03:00", 1, "t"))
		}
		l := b.once("03:00", "advanced")
		var got []string
		for _, in := range b.manifest(l.Manifest).Inputs {
			got = append(got, strings.TrimPrefix(in.Key, drop("03:00", "")))
		}
		want := slices.Sorted(slices.Values(names))
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("the manifest names %q, want %q", got, want)
		}
		for _, n := range names {
			if doc := b.document(n); doc["item"] != n || doc["updates"] != 1.0 {
				t.Errorf("document %q is %v", n, doc)
			}
		}
		b.once("03:00", "idle")
	})
}

// TestB15ManyObjects: around and beyond a page of a listing.
func TestB15ManyObjects(t *testing.T) {
	t.Parallel()
	each(t, setup{}, func(t *testing.T, b *bench) {
		clock := at("03:00")
		for _, n := range []int{999, 1000, 1001, 2500} {
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("%spart-%05d.ndjson", minute(clock), i)
			}
			b.putAll(keys, func(int) []byte { return []byte(row(fmt.Sprint("n", n), clock, 1, "t")) })
			l := b.once(clock.Format("15:04"), "advanced")
			if doc := b.document(fmt.Sprint("n", n)); doc["updates"] != float64(n) {
				t.Errorf("of %d objects %v were read", n, doc["updates"])
			}
			m := b.manifest(l.Manifest)
			if in := len(m.Inputs); in != n && (m.InputsFile == nil || m.InputsFile.Inputs != n) {
				t.Errorf("the manifest has %d inputs (side file %+v), want %d", in, m.InputsFile, n)
			}
			clock = clock.Add(2 * time.Hour) // the one before is outside the coverage
		}
	})
}

// TestFieldCases: cases that a server's listing takes part in, on each server.
func TestFieldCases(t *testing.T) {
	t.Parallel()
	each(t, setup{prefixes: "[a, b]"}, func(t *testing.T, b *bench) {
		put := func(key string, clock string, item string) { b.put(key, update(item, clock, 1, "t")) }
		// B18, B19: markers and staging trees are no data and no partitions.
		b.put("a/"+drop("03:09", ""), nil)
		put("a/2026/11/30/03/08/_temporary/0/part.ndjson", "03:08", "staging")
		put("a/2026/11/30/_staging/03/07/part.ndjson", "03:07", "staging")
		put("a/.hive-staging_x/2026/11/30/03/07/part.ndjson", "03:07", "staging")
		b.once("03:10", "idle")
		put("a/"+drop("03:05", "part.ndjson"), "03:05", "a")
		put("a/"+drop("03:05", "__magic_job-1/part.ndjson"), "03:05", "staging")
		b.put("a/"+drop("03:05", "_SUCCESS"), nil)
		// B10: stamps in the future and impossible ones are set aside.
		put("a/2027/01/01/00/00/part.ndjson", "03:05", "future")
		put("a/9999/12/31/23/59/part.ndjson", "03:05", "future")
		put("a/2026/02/30/00/00/part.ndjson", "03:05", "never")
		l := b.once("03:10", "advanced")
		if !l.Watermark.Equal(at("03:05")) || l.Documents != 1 {
			t.Fatalf("with staging trees and future stamps: %+v", l)
		}
		m := b.manifest(l.Manifest)
		if len(m.Quarantined) < 2 {
			t.Errorf("quarantined: %v", m.Quarantined)
		}
		// B4: a lagging prefix is read by refinement and moves nothing.
		put("b/"+drop("03:03", "part.ndjson"), "03:03", "b")
		if l = b.once("03:10", "refined"); !l.Watermark.Equal(at("03:05")) || l.Documents != 2 {
			t.Errorf("after the lagging prefix: %+v", l)
		}
		// B5: objects of one second, half of them after the first listing.
		for i := range 50 {
			put(fmt.Sprintf("a/%spart-%d.ndjson", drop("03:05", ""), i), "03:05", "half")
			if i == 24 {
				b.once("03:10", "refined")
			}
		}
		b.once("03:10", "refined")
		if doc := b.document("half"); doc["updates"] != 50.0 {
			t.Errorf("of 50 objects of one second %v were read", doc["updates"])
		}
		// B21: empty objects count as read.
		b.put("a/"+drop("03:06", "empty.ndjson"), nil)
		if l = b.once("03:10", "advanced"); !l.Watermark.Equal(at("03:06")) {
			t.Errorf("after an empty object: %+v", l)
		}
		// B7: far outside the window an object is late, and not silent.
		b.once("05:00", "idle")
		put("a/"+drop("04:59", "part.ndjson"), "04:59", "a")
		b.once("05:00", "advanced")
		for _, clock := range []string{"06:30", "07:40", "08:45"} {
			put("a/"+drop(clock, "part.ndjson"), clock, "a")
			b.once(clock, "advanced")
		}
		put("a/"+drop("06:31", "late.ndjson"), "06:31", "late")
		b.once("08:45", "idle")
		put("a/"+drop("08:46", "part.ndjson"), "08:46", "a")
		b.once("08:46", "advanced")
		var status struct {
			Late int64 `json:"late_objects"`
		}
		if b.run(0, &status, "status"); status.Late != 1 {
			t.Errorf("status counts %d late objects, want 1", status.Late)
		}
	})
}

// TestB1Hole: without a base and with window.max, what cannot be covered is a
// hole that manifest and ledger name.
func TestB1Hole(t *testing.T) {
	t.Parallel()
	each(t, setup{window: "{size: 1h, max: 1h, on_gap: skip}"}, func(t *testing.T, b *bench) {
		b.put(drop("03:00", "a.ndjson"), update("x", "03:00", 1, "x"))
		b.once("03:00", "advanced")
		for _, clock := range []string{"03:30", "04:10", "04:11", "05:10"} {
			b.put(drop(clock, "a.ndjson"), update("x", clock, 1, clock))
		}
		m := b.manifest(b.once("05:10", "advanced").Manifest)
		if len(m.Gap) != 1 || !m.Gap[0].From.Equal(at("03:00")) || !m.Gap[0].To.Equal(at("04:10")) || len(m.Inputs) != 2 {
			t.Errorf("gap %v, %d inputs", m.Gap, len(m.Inputs))
		}
		ledger, never := b.ledger(), 0
		for _, state := range ledger {
			if state == "never_covered" {
				never++
			}
		}
		if never != 70 || ledger["04:10"] != "never_covered" || ledger["04:11"] != "skipped_then_covered" {
			t.Errorf("%d partitions never covered, want 70; 04:10 %s, 04:11 %s", never, ledger["04:10"], ledger["04:11"])
		}
	})
}
