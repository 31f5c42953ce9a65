package microbatch_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/store"
)

// putBytes drops any object.
func (b *bench) putBytes(key string, body []byte) {
	b.t.Helper()
	if _, err := b.raw.Put(b.t.Context(), key, bytes.NewReader(body), store.PutOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// putRows drops a Parquet object that another library wrote.
func putRows[T any](b *bench, key string, rows ...T) {
	b.t.Helper()
	var buf bytes.Buffer
	if err := parquet.Write(&buf, rows); err != nil {
		b.t.Fatal(err)
	}
	b.putBytes(key, buf.Bytes())
}

func minuteKey(clock, name string) string { return at(clock).Format("2006/01/02/15/04/") + name }

func asFormat(f scan.Format) func(*microbatch.Settings) {
	return func(s *microbatch.Settings) { s.Format = f }
}

// sums is an index that shows every value that counts.
func sums(fns ...string) index.Spec {
	spec := index.Spec{Key: []string{"k"}}
	for _, fn := range fns {
		spec.Fields = append(spec.Fields, index.FieldSpec{Name: fn, Fn: fn, Args: []string{"v"}})
	}
	return spec
}

// cold is a new pipeline's first pane over the inputs of the live pane.
func (b *bench) cold(o benchOptions, clock string) *bench {
	b.t.Helper()
	fresh := newBench(b.t, o)
	for _, in := range b.live().Inputs {
		body, _, err := store.ReadAll(b.t.Context(), b.raw, in.Key, 1<<24, store.GetOptions{})
		if err != nil {
			b.t.Fatal(err)
		}
		fresh.putBytes(in.Key, body)
	}
	fresh.step(clock, microbatch.Advanced)
	return fresh
}

// TestTypesThatWidenMidWindowEqualAColdBuild, and narrow again when the wide
// object leaves the window; whatever the cache holds.
func TestTypesThatWidenMidWindowEqualAColdBuild(t *testing.T) {
	ndjson := func(v string) func(*bench, string) {
		return func(b *bench, clock string) { b.put(clock, "a.ndjson", `{"k":"x","v":`+v+`}`, `{"k":"y","v":`+v+`}`) }
	}
	type i32 struct {
		K string `parquet:"k"`
		V int32  `parquet:"v"`
	}
	type i64 struct {
		K string `parquet:"k"`
		V int64  `parquet:"v"`
	}
	type dec struct {
		K string `parquet:"k"`
		V int64  `parquet:"v,decimal(2:18)"`
	}
	put32 := func(b *bench, clock string) { putRows(b, minuteKey(clock, "a.parquet"), i32{"x", 7}, i32{"y", -7}) }
	put64 := func(b *bench, clock string) {
		putRows(b, minuteKey(clock, "a.parquet"), i64{"x", 1 << 40}, i64{"y", 3})
	}
	putDec := func(b *bench, clock string) { putRows(b, minuteKey(clock, "a.parquet"), dec{"x", 125}, dec{"y", -5}) }
	type text struct {
		K string  `parquet:"k"`
		V *string `parquet:"v,optional"`
	}
	type flag struct {
		K string `parquet:"k"`
		V *bool  `parquet:"v,optional"`
	}
	noText := func(b *bench, clock string) { putRows(b, minuteKey(clock, "a.parquet"), text{K: "x"}, text{K: "y"}) }
	noFlag := func(b *bench, clock string) { putRows(b, minuteKey(clock, "a.parquet"), flag{K: "x"}, flag{K: "z"}) }
	numbers, anything := sums("sum", "min", "max", "latest", "set"), sums("min", "latest", "set", "count")
	for _, c := range []struct {
		name   string
		format scan.Format
		spec   index.Spec
		puts   []func(*bench, string) // one a minute
	}{
		{"ndjson: integers, fractions for a while", scan.NDJSON, numbers,
			[]func(*bench, string){ndjson("1"), ndjson("-0"), ndjson("2.5"), ndjson("3"), ndjson("4"), ndjson("5"), ndjson("6")}},
		{"ndjson: nothing, then strings", scan.NDJSON, anything,
			[]func(*bench, string){ndjson("null"), ndjson(`"a"`), ndjson("null"), ndjson("null"), ndjson("null"), ndjson("null")}},
		{"ndjson: empty lists, then strings in them", scan.NDJSON, anything,
			[]func(*bench, string){ndjson("[]"), ndjson(`["a"]`), ndjson("null"), ndjson("[null]"), ndjson("[]"), ndjson("[]")}},
		{"ndjson: structs that grow", scan.NDJSON, anything,
			[]func(*bench, string){ndjson(`{"c":1}`), ndjson(`{"c":3,"a":null,"b":"z"}`), ndjson(`{"b":"y"}`), ndjson(`{"a":1.5}`), ndjson(`{}`), ndjson(`{"a":2}`)}},
		{"parquet: int32, then int64", scan.Parquet, numbers, []func(*bench, string){put32, put64, put32, put32, put32, put32}},
		{"parquet: integers, decimals for a while", scan.Parquet, numbers, []func(*bench, string){put32, putDec, put64, put32, put32, put32}},
		{"parquet: numbers, nothing of other types for a while", scan.Parquet, numbers,
			[]func(*bench, string){noText, put32, noFlag, putDec, noText, noText, noText, noText, noFlag, noFlag, noFlag, noFlag, put64}},
		{"parquet: nothing of other types, then anything", scan.Parquet, anything,
			[]func(*bench, string){noFlag, noText, noFlag, put32, noText, noFlag, noFlag, noText, noText, noText, noText, putDec}},
	} {
		for _, cache := range []int64{64 << 20, 1} {
			t.Run(fmt.Sprintf("%s, cache of %d bytes", c.name, cache), func(t *testing.T) {
				o := benchOptions{spec: c.spec, rule: window.Rule{Size: 3 * time.Minute, Max: 12 * time.Minute, OnGap: window.Skip}}
				o.change = func(s *microbatch.Settings) { s.Format, s.CacheBytes = c.format, cache }
				b := newBench(t, o)
				for i, put := range c.puts {
					clock := fmt.Sprintf("03:%02d", i)
					put(b, clock)
					b.step(clock, microbatch.Advanced)
					if i == 0 {
						continue
					}
					if got, want := b.files(), b.cold(o, clock).files(); !slices.Equal(got, want) {
						t.Fatalf("%s: %v, cold build %v", clock, got, want)
					}
				}
			})
		}
	}
}

// TestObjectReplacedBetweenListingAndRead: nothing is published, nobody is
// blamed, and the next trigger reads what is there then.
func TestObjectReplacedBetweenListingAndRead(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *bench, key string)
		sum  string
	}{
		{"replaced", func(b *bench, key string) { b.putKey(key, row("x", "03:01", 30, "new")) }, `"clicks":31`},
		{"removed", func(b *bench, key string) {
			if err := b.raw.Delete(b.t.Context(), key); err != nil {
				b.t.Error(err)
			}
		}, `"clicks":1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b *bench
			armed := false
			b = newBench(t, benchOptions{change: func(s *microbatch.Settings) {
				open := s.Open
				s.SkipAfter = 1
				s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
					if armed && strings.HasSuffix(o.Key, "/b.ndjson") {
						armed = false
						c.do(b, o.Key)
					}
					return open(o)
				}
			}})
			b.put("03:00", "a.ndjson", row("x", "03:00", 1, "t"))
			b.step("03:00", microbatch.Advanced)
			b.put("03:01", "a.ndjson", row("y", "03:01", 2, "t"))
			b.put("03:01", "b.ndjson", row("x", "03:01", 20, "old"))
			armed = true
			r := b.step("03:01", microbatch.Failed)
			if !errors.Is(r.Err, source.ErrChanged) || !r.Watermark.Equal(at("03:00")) || b.docs()["y"] != "" {
				t.Errorf("error %v, watermark %s, documents %v", r.Err, r.Watermark, b.docs())
			}
			b.step("03:01", microbatch.Advanced) // at once: no back-off
			if !strings.Contains(b.docs()["x"], c.sum) || len(b.live().Skipped) > 0 {
				t.Errorf("x is %s, skipped %v", b.docs()["x"], b.live().Skipped)
			}
		})
	}
}

// TestFailedRunKeepsWhatItBuilt: the slices beside one that fails are built
// once, however many workers there are.
func TestFailedRunKeepsWhatItBuilt(t *testing.T) {
	for _, workers := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			var mu sync.Mutex
			opened := map[string]int{}
			b := newBench(t, benchOptions{change: func(s *microbatch.Settings) {
				open := s.Open
				s.Workers, s.SkipAfter = workers, 0
				s.Open = func(o partition.Object) (scan.Blob, map[string]string) {
					mu.Lock()
					opened[o.Key]++
					mu.Unlock()
					return open(o)
				}
			}})
			var good []string
			for i := range 12 {
				clock := fmt.Sprintf("03:%02d", i)
				if i == 4 || i == 9 {
					b.put(clock, "bad.ndjson", "nonsense")
					continue
				}
				good = append(good, b.put(clock, "a.ndjson", row("x", clock, 1, "t")))
			}
			r := b.step("03:11", microbatch.Failed)
			for _, clock := range []string{"03:04", "03:09"} {
				if !strings.Contains(r.Err.Error(), minuteKey(clock, "bad.ndjson")) {
					t.Errorf("error %v does not name the object of %s", r.Err, clock)
				}
			}
			clear(opened)
			b.put("03:04", "bad.ndjson", row("x", "03:04", 1, "mended"))
			b.put("03:09", "bad.ndjson", row("x", "03:09", 1, "mended"))
			b.step("03:11", microbatch.Advanced)
			for _, key := range good {
				if opened[key] > 0 {
					t.Errorf("%s was read again", key)
				}
			}
		})
	}
}

// TestCacheMakesNoDifference: with a cache, with next to none, and with none,
// a history of steps publishes the same bytes.
func TestCacheMakesNoDifference(t *testing.T) {
	var want [][]string
	for _, c := range []struct {
		name    string
		cache   int64
		noCache bool
	}{{"cached", 64 << 20, false}, {"tiny", 1, false}, {"none", 0, true}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, benchOptions{spec: everything(), rule: hour(4 * time.Minute), change: func(s *microbatch.Settings) {
				s.CacheBytes, s.NoCache = c.cache, c.noCache
			}})
			var got [][]string
			for i := range 10 {
				clock := fmt.Sprintf("03:%02d", i)
				for j := range 3 {
					b.put(clock, fmt.Sprintf("%d.ndjson", j), fmt.Sprintf(`{"item":"i%d","user":%d,"ts":%q,"clicks":%d,"price":%d.5,"title":"t%d","op":"U"}`,
						(i+j)%4, j, at(clock).Format(time.RFC3339), i, j, i))
				}
				b.step(clock, microbatch.Advanced)
				got = append(got, b.files())
			}
			if want == nil {
				want = got
			}
			for i := range got {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("pane %d: %v, want %v", i, got[i], want[i])
				}
			}
		})
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestCompressedText(t *testing.T) {
	t.Run("csv in gzip, with hive directories as columns", func(t *testing.T) {
		spec := index.Spec{Key: []string{"country", "k"}, Fields: []index.FieldSpec{
			{Name: "v", Fn: "sum", Args: []string{"v"}}, {Name: "day", Fn: "latest", Args: []string{"dt"}},
			{Name: "note", Fn: "latest", Args: []string{"note"}, Optional: true},
		}}
		b := newBench(t, benchOptions{layout: "dt=%Y-%m-%d/hour=%H", spec: spec, rule: window.Rule{Size: 4 * time.Hour, Max: 8 * time.Hour, OnGap: window.Skip}})
		b.set.Format = scan.CSV
		lister := b.set.Lister.(*source.Source)
		open := b.set.Open
		b.set.Open = func(o partition.Object) (scan.Blob, map[string]string) {
			blob, _ := open(o)
			paths := map[string]string{}
			for _, c := range lister.PathColumns(o.Key) {
				paths[c.Name] = c.Value
			}
			return blob, paths
		}
		b.restart()
		b.putBytes("dt=2026-11-30/hour=03/country=de/a.csv.gz", zipped(t, "k,v\nx,1\ny,2\n"))
		b.putBytes("dt=2026-11-30/hour=03/country=fr/a.csv.gz", zipped(t, "note,v,k\n\"a,\"\"b\"\"\",5,x\n"))
		b.step("03:30", microbatch.Advanced)
		want := map[string]string{
			"de|x": `{"country":"de","k":"x","v":1,"day":"2026-11-30","note":null}`,
			"de|y": `{"country":"de","k":"y","v":2,"day":"2026-11-30","note":null}`,
			"fr|x": `{"country":"fr","k":"x","v":5,"day":"2026-11-30","note":"a,\"b\""}`,
		}
		if got := b.docs(); !maps.Equal(got, want) {
			t.Errorf("documents %v, want %v", got, want)
		}
	})
	t.Run("ndjson in zstd", func(t *testing.T) {
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		b := newBench(t, benchOptions{})
		b.putBytes(minuteKey("03:00", "a.ndjson.zst"), w.EncodeAll([]byte(row("x", "03:00", 2, "t")+"\n"), nil))
		b.putBytes(minuteKey("03:00", "b.ndjson.gz"), zipped(t, row("x", "03:00", 3, "u")+"\n"))
		b.put("03:00", "c.ndjson", row("x", "03:00", 4, "v"))
		b.step("03:00", microbatch.Advanced)
		if got := b.docs()["x"]; !strings.Contains(got, `"clicks":9`) {
			t.Errorf("x is %s", got)
		}
	})
	t.Run("a torn gzip is the object's fault", func(t *testing.T) {
		b := newBench(t, benchOptions{})
		whole := zipped(t, strings.Repeat(row("x", "03:00", 3, "u")+"\n", 50))
		b.putBytes(minuteKey("03:00", "torn.ndjson.gz"), whole[:len(whole)-9])
		r := b.step("03:00", microbatch.Failed)
		if !strings.Contains(r.Err.Error(), "torn.ndjson.gz") || !strings.Contains(r.Err.Error(), "gzip") {
			t.Errorf("error %v", r.Err)
		}
	})
}

// TestKeysOfSeveralColumns with every character that could be mistaken.
func TestKeysOfSeveralColumns(t *testing.T) {
	spec := index.Spec{Key: []string{"shop", "offer.id"}, Fields: []index.FieldSpec{
		{Name: "n", Fn: "count", Args: []string{"*"}}, {Name: "price", Fn: "latest", Args: []string{"offer.price"}},
		{Name: "old", Fn: "latest", Args: []string{"offer.was"}, Optional: true},
	}}
	b := newBench(t, benchOptions{spec: spec})
	parts := []string{"a", "", "a=b", "a:b", "a+b", "100%", "%2F", "a b", " a", "a/b", `a\b`, "ü", "u\u0308", "日本", "|", "\x00", "\x00a", "\uffff", "😀"}
	want := map[string]string{}
	var rows []string
	for _, shop := range parts {
		for _, id := range parts {
			rows = append(rows, fmt.Sprintf(`{"shop":%s,"offer":{"id":%s,"price":%d}}`, quoted(shop), quoted(id), len(rows)))
			want[shop+"\x01"+id] = fmt.Sprint(len(rows) - 1)
		}
	}
	b.put("03:00", "a.ndjson", rows...)
	r := b.step("03:00", microbatch.Advanced)
	if r.Documents != int64(len(parts)*len(parts)) {
		t.Fatalf("%d documents, want %d", r.Documents, len(parts)*len(parts))
	}
	if _, err := b.reader.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, shop := range parts {
		for _, id := range parts {
			doc, found, err := b.reader.Snapshot().Get(t.Context(), shop, id)
			if err != nil || !found {
				t.Fatalf("get %q, %q: found %v, %v", shop, id, found, err)
			}
			j, err := doc.MarshalJSON()
			if err != nil || !strings.Contains(string(j), `"price":`+want[shop+"\x01"+id]+",") {
				t.Errorf("%q, %q is %s, %v", shop, id, j, err)
			}
		}
	}
}

func quoted(s string) string {
	j, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(j)
}

type int96Row struct {
	K  string           `parquet:"k"`
	TS deprecated.Int96 `parquet:"ts"`
	V  int64            `parquet:"v"`
}

// int96At is a Julian day and the nanoseconds since its midnight.
func int96At(y int, m time.Month, d int, nanos int64) deprecated.Int96 {
	const epoch = 2440588
	day := epoch + time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()/86400
	return deprecated.Int96{uint32(nanos), uint32(nanos >> 32), uint32(day)}
}

// TestB23NanosecondsAndFarYears: timestamps of every kind come through
// exactly, or the object is refused; never a wrong year.
func TestB23NanosecondsAndFarYears(t *testing.T) {
	const day = int64(24 * time.Hour)
	last, v := index.FieldSpec{Name: "last", Fn: "max", Args: []string{"ts"}}, index.FieldSpec{Name: "v", Fn: "latest", Args: []string{"v"}}
	spec := index.Spec{Key: []string{"k"}, EventTime: index.EventTime{Column: "ts"}}
	t.Run("whole microseconds are published exactly", func(t *testing.T) {
		spec.Fields = []index.FieldSpec{last, v}
		b := newBench(t, benchOptions{spec: spec, change: asFormat(scan.Parquet)})
		putRows(b, minuteKey("03:00", "a.parquet"), int96Row{"first", int96At(1, 1, 1, 0), 1}, int96Row{"last", int96At(9999, 12, 31, day-1000), 2})
		b.step("03:00", microbatch.Advanced)
		docs := b.docs()
		if !strings.Contains(docs["first"], `"last":"0001-01-01T00:00:00Z"`) || !strings.Contains(docs["last"], `"last":"9999-12-31T23:59:59.999999Z"`) {
			t.Errorf("documents %v", docs)
		}
	})
	t.Run("nanoseconds order records", func(t *testing.T) {
		spec.Fields = []index.FieldSpec{v}
		b := newBench(t, benchOptions{spec: spec, change: asFormat(scan.Parquet)})
		putRows(b, minuteKey("03:00", "a.parquet"),
			int96Row{"now", int96At(2026, 11, 30, 1), 4}, int96Row{"now", int96At(2026, 11, 30, 0), 3},
			int96Row{"far", int96At(9999, 12, 31, day-1), 6}, int96Row{"far", int96At(9999, 12, 31, day-100), 5},
			int96Row{"early", int96At(1, 1, 1, 0), 7}, int96Row{"early", int96At(1, 1, 1, 1), 8})
		b.step("03:00", microbatch.Advanced)
		for key, want := range map[string]string{"now": `"v":4`, "far": `"v":6`, "early": `"v":8`} {
			if got := b.docs()[key]; !strings.Contains(got, want) {
				t.Errorf("%s is %s, want %s in it", key, got, want)
			}
		}
	})
	t.Run("nanoseconds in a field are refused, not cut", func(t *testing.T) {
		spec.Fields = []index.FieldSpec{last}
		b := newBench(t, benchOptions{spec: spec, change: asFormat(scan.Parquet)})
		putRows(b, minuteKey("03:00", "a.parquet"), int96Row{"x", int96At(9999, 12, 31, day-100), 1})
		r := b.step("03:00", microbatch.Failed)
		if !strings.Contains(r.Err.Error(), "a.parquet: row group 0: row 1: index.fields.last: column ts: timestamp 9999-12-31T23:59:59.9999999Z has nanoseconds") {
			t.Errorf("error %v", r.Err)
		}
	})
}

// TestB24ListLayouts: the same rows in three levels and in untyped lists give
// the same documents. All layouts are in package scan.
func TestB24ListLayouts(t *testing.T) {
	type three struct {
		K    string   `parquet:"k"`
		Tags []string `parquet:"tags,list"`
	}
	type plain struct {
		K    string   `parquet:"k"`
		Tags []string `parquet:"tags"` // a repeated leaf
	}
	spec := index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "tags", Fn: "latest", Args: []string{"tags"}}}}
	want := map[string]string{}
	for _, c := range []struct {
		name string
		put  func(b *bench)
	}{
		{"three levels", func(b *bench) {
			putRows(b, minuteKey("03:00", "a.parquet"), three{"many", []string{"a", "b"}}, three{"one", []string{"c"}}, three{"none", nil})
		}},
		{"a repeated leaf", func(b *bench) {
			putRows(b, minuteKey("03:00", "a.parquet"), plain{"many", []string{"a", "b"}}, plain{"one", []string{"c"}}, plain{"none", nil})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, benchOptions{spec: spec, change: asFormat(scan.Parquet)})
			c.put(b)
			b.step("03:00", microbatch.Advanced)
			got := b.docs()
			if len(want) == 0 {
				want = got
				if want["many"] != `{"k":"many","tags":["a","b"]}` || want["one"] != `{"k":"one","tags":["c"]}` {
					t.Errorf("documents %v", got)
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("documents %v, want %v", got, want)
			}
		})
	}
}

// TestB12LocalHours: hours of America/New_York over both changes of its clock.
func TestB12LocalHours(t *testing.T) {
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	rule := window.Rule{Size: 6 * time.Hour, Max: 24 * time.Hour, OnGap: window.Skip}
	line := func(k string, v int) string { return fmt.Sprintf(`{"k":%q,"v":%d}`, k, v) }
	t.Run("the repeated hour is one partition of two", func(t *testing.T) {
		b := newBench(t, benchOptions{layout: "%Y/%m/%d/%H", zone: zone, rule: rule, spec: sums("sum")})
		first := time.Date(2026, 11, 1, 5, 0, 0, 0, time.UTC) // 01:00 EDT
		b.putKey("2026/11/01/00/a.ndjson", line("x", 1))
		b.stepAt(first.Add(-30*time.Minute), microbatch.Advanced, first.Add(-time.Hour))
		b.putKey("2026/11/01/01/a.ndjson", line("x", 10)) // 01:xx EDT
		b.stepAt(first.Add(30*time.Minute), microbatch.Advanced, first)
		b.putKey("2026/11/01/01/b.ndjson", line("x", 100)) // 01:xx EST, the same folder
		b.stepAt(first.Add(90*time.Minute), microbatch.Refined, first)
		b.putKey("2026/11/01/02/a.ndjson", line("x", 1000))
		b.stepAt(first.Add(150*time.Minute), microbatch.Advanced, first.Add(2*time.Hour))
		if got := b.docs()["x"]; got != `{"k":"x","sum":1111}` {
			t.Errorf("x is %s", got)
		}
		if m := b.live(); len(m.Jumps) != 0 {
			t.Errorf("jumps %v: no hour lies between", m.Jumps)
		}
	})
	t.Run("the skipped hour does not exist", func(t *testing.T) {
		b := newBench(t, benchOptions{layout: "%Y/%m/%d/%H", zone: zone, rule: rule, spec: sums("sum")})
		last := time.Date(2026, 3, 8, 6, 0, 0, 0, time.UTC) // 01:00 EST; 03:00 EDT follows
		b.putKey("2026/03/08/01/a.ndjson", line("x", 1))
		b.stepAt(last.Add(30*time.Minute), microbatch.Advanced, last)
		b.putKey("2026/03/08/02/a.ndjson", line("x", 10))
		b.stepAt(last.Add(61*time.Minute), microbatch.WasIdle, last)
		b.putKey("2026/03/08/03/a.ndjson", line("x", 100))
		r := b.stepAt(last.Add(90*time.Minute), microbatch.Advanced, last.Add(time.Hour))
		if got := b.docs()["x"]; got != `{"k":"x","sum":101}` || len(b.live().Jumps) != 0 {
			t.Errorf("x is %s, jumps %v", got, b.live().Jumps)
		}
		named := false
		for _, q := range b.live().Quarantined {
			named = named || q.Key == "2026/03/08/02/"
		}
		if !named || r.Quarantined == 0 {
			t.Errorf("quarantined %v", b.live().Quarantined)
		}
	})
}

// stepAt takes one step and wants an outcome and a watermark.
func (b *bench) stepAt(now time.Time, want microbatch.Outcome, watermark time.Time) microbatch.Report {
	b.t.Helper()
	r := b.p.Once(b.t.Context(), now, microbatch.StepOptions{})
	if r.Outcome != want || !r.Watermark.Equal(watermark) {
		b.t.Fatalf("step at %s: %s, watermark %s (%s, %v), want %s and %s", now, r.Outcome, r.Watermark, r.Why, r.Err, want, watermark)
	}
	return r
}
