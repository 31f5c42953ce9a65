package configs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestScheduleInterval(t *testing.T) {
	for _, c := range []struct {
		name, full string
		want       time.Duration
	}{
		{name: "none", full: "errors: {}", want: 0},
		{name: "by hand", full: "full: {}", want: 24 * time.Hour},
		{name: "daily", full: `full: {schedule: "0 3 * * *"}`, want: 24 * time.Hour},
		{name: "descriptor", full: `full: {schedule: "@weekly"}`, want: 7 * 24 * time.Hour},
		{name: "longest of uneven ones", full: `full: {schedule: "0 3,9 * * *"}`, want: 18 * time.Hour},
		{name: "weekdays", full: `full: {schedule: "0 3 * * 1-5"}`, want: 72 * time.Hour},
		{name: "monthly", full: `full: {schedule: "0 0 1 * *"}`, want: 31 * 24 * time.Hour},
		{name: "yearly", full: `full: {schedule: "0 0 1 1 *"}`, want: 366 * 24 * time.Hour},
		{name: "every second of one day", full: `full: {schedule: "* * * 1 * *"}`, want: 30*24*time.Hour + time.Second},
		{name: "leap days", full: `full: {schedule: "0 0 29 2 *"}`, want: 1461 * 24 * time.Hour},
		{name: "every second of one hour", full: `full: {schedule: "* * 3 * * *"}`, want: 23*time.Hour + time.Second},
		{name: "daylight saving adds an hour", full: `full: {schedule: "30 2 * * *", time_zone: America/New_York}`, want: 25 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := readPipeline(t, c.full).ScheduleInterval(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestWindowMax(t *testing.T) {
	day := `index: {key: id, fields: {u: {count: "*", over: 24h}}}`
	for _, c := range []struct {
		name  string
		lines []string
		want  time.Duration
		gap   string
	}{
		{name: "no base: four windows", want: 4 * time.Hour, gap: GapSkip},
		{name: "no base: four times the longest over", lines: []string{day}, want: 96 * time.Hour, gap: GapSkip},
		{name: "base: three intervals", lines: []string{`full: {schedule: "0 3 * * *"}`}, want: 73 * time.Hour, gap: GapRebuild},
		{name: "base: over and three intervals", lines: []string{day, `full: {schedule: "0 3 * * *"}`}, want: 96 * time.Hour, gap: GapRebuild},
		{name: "base: never below the window", lines: []string{`full: {schedule: "* * * * *"}`}, want: time.Hour + 3*time.Minute, gap: GapRebuild},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := readPipeline(t, c.lines...)
			if got := p.WindowMax(); got != c.want || p.GapPolicy() != c.gap {
				t.Errorf("got %s and %s, want %s and %s", got, p.GapPolicy(), c.want, c.gap)
			}
		})
	}
}

// How far a delta reaches follows from the age of the oldest base it fits.
func TestOrdinaryCoverage(t *testing.T) {
	day := `index: {key: id, fields: {n: {latest: a}, u: {count: "*", over: 24h}}}`
	for _, c := range []struct {
		name  string
		lines []string
		want  time.Duration
	}{
		{name: "no base", lines: []string{day}, want: 24 * time.Hour},
		{name: "one base: over, interval and rebuild", lines: []string{day, `full: {schedule: "0 3 * * *", support_previous_for: 0}`}, want: 49 * time.Hour},
		{name: "the base before, for a while", lines: []string{day, `full: {schedule: "0 3 * * *"}`}, want: 55 * time.Hour},
		{name: "the base before, to the next promotion", lines: []string{day, `full: {schedule: "0 * * * *", support_previous_for: 6h}`}, want: 27 * time.Hour},
		{name: "by hand", lines: []string{day, `full: {support_previous_for: 0}`}, want: 49 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := readPipeline(t, c.lines...).OrdinaryCoverage(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestGranuleAndSkew(t *testing.T) {
	for _, c := range []struct {
		layout, more  string
		granule, skew time.Duration
	}{
		{layout: "%Y/%m/%d/%H/%M", granule: time.Minute, skew: time.Minute},
		{layout: "%Y/%m/%d/%H/%M", more: "granularity: 5m", granule: 5 * time.Minute, skew: time.Minute},
		{layout: "%Y%m%d%H%M%S", granule: time.Second, skew: time.Second},
		{layout: "dt=%Y-%m-%d/hour=%H", granule: time.Hour, skew: time.Minute},
		{layout: "%Y/%m/%d", more: "max_future_skew: 0s", granule: 24 * time.Hour},
		{layout: "%Y/%m/%d", more: "max_future_skew: 2h", granule: 24 * time.Hour, skew: 2 * time.Hour},
	} {
		t.Run(c.layout+" "+c.more, func(t *testing.T) {
			p := read(t, "pipelines: {p: {source: {layout: '"+c.layout+"', "+c.more+"}}}").Pipelines[0]
			if p.Granule() != c.granule || p.FutureSkew() != c.skew {
				t.Errorf("got %s and %s, want %s and %s", p.Granule(), p.FutureSkew(), c.granule, c.skew)
			}
		})
	}
}

func TestParseCron(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	from := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ name, spec, want, err string }{
		{name: "five fields", spec: "0 3 * * *", want: "2026-07-01T01:00:00Z"},
		{name: "six fields", spec: "*/30 * * * * *", want: "2026-07-01T00:00:30Z"},
		{name: "descriptor", spec: "@hourly", want: "2026-07-01T01:00:00Z"},
		{name: "zone prefix", spec: "CRON_TZ=UTC 0 3 * * *", err: "must not name a time zone"},
		{name: "zone prefix alone", spec: "TZ=0", err: "must not name a time zone"},
		{name: "interval", spec: "@every 5s", err: "trigger.every takes an interval"},
		{name: "never", spec: "0 0 30 2 *", err: "must come at some time"},
		{name: "four fields", spec: "* * * *", err: "five or six fields"},
		{name: "empty", spec: "", err: "five or six fields"},
		{name: "words", spec: "@sometimes", err: "five or six fields"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := ParseCron(c.spec, berlin)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Next(from).UTC().Format(time.RFC3339); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func FuzzParseCron(f *testing.F) {
	for _, s := range []string{"0 3 * * *", "*/30 * * * * *", "@daily", "@every 1s", "TZ=0", "1-5/2,7 ? * jan-mar mon", "0 0 29 2 *"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := ParseCron(spec, time.UTC)
		if err != nil {
			return
		}
		next := s.Next(epoch())
		if !next.After(epoch()) {
			t.Errorf("%q comes never", spec)
		}
		// Where no clock is changed, rebuilds and triggers have the same times.
		o := occurrences(t, spec, "UTC")
		if at, ok := o.Latest(epoch(), next); !ok || !at.Equal(next) || !o.Next(epoch()).Equal(next) {
			t.Errorf("%q: the trigger fires at %s, the rebuild is at %s, %v", spec, next, at, ok)
		}
	})
}

func TestLocations(t *testing.T) {
	for _, c := range []struct{ url, written, bucket, path, err string }{
		{url: "s3://b", written: "s3://b", bucket: "b"},
		{url: "s3://b/", written: "s3://b", bucket: "b"},
		{url: "s3://b/x/y/", written: "s3://b/x/y", bucket: "b", path: "x/y"},
		{url: "s3://b/a%20b?c#d", written: "s3://b/a%20b?c#d", bucket: "b", path: "a%20b?c#d"},
		{url: "file:///x/../y/", written: "file:///y", path: "/y"},
		{url: "file:///", written: "file:///", path: "/"},
		{url: "file://x", err: "must be an absolute path, file:///path"},
		{url: "s3://", err: "must name a bucket, s3://bucket/path"},
		{url: "s3://key:secret@b/x", err: "must name a bucket, s3://bucket/path"},
		{url: "s3://b/x//y", err: "must not have empty, . or .. segments"},
		{url: "/x", err: "must be s3://bucket/path or file:///path"},
		{url: "", err: "must be s3://bucket/path or file:///path"},
	} {
		t.Run(c.url, func(t *testing.T) {
			l, err := ParseLocation(c.url)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil || l.String() != c.written || l.Bucket != c.bucket || l.Path != c.path {
				t.Errorf("got %+v (%s), %v", l, l, err)
			}
		})
	}
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"s3://b", "s3://b/x", true},
		{"s3://b/x", "s3://b/x", true},
		{"s3://b/x", "s3://b/x/y", true},
		{"s3://b/x", "s3://b/xy", false},
		{"s3://b/x/y", "s3://b/x", false},
		{"s3://b/x", "s3://c/x", false},
		{"file:///", "file:///x", true},
		{"file:///x", "file:///xy", false},
		{"file:///b/x", "s3://b/x", false},
	} {
		a, errA := ParseLocation(c.a)
		b, errB := ParseLocation(c.b)
		if errA != nil || errB != nil || a.Contains(b) != c.want {
			t.Errorf("%s contains %s: got %v, want %v (%v, %v)", c.a, c.b, a.Contains(b), c.want, errA, errB)
		}
	}
	l, err := ParseLocation("s3://b")
	if err != nil || l.Under("/eu/").String() != "s3://b/eu" || l.Under("eu").Under("x/y").Path != "eu/x/y" || l.Under("") != l {
		t.Errorf("under: got %v, %v", l.Under("/eu/"), err)
	}
}

// Two buckets of one name behind two endpoints are two places.
func TestPlacesBehindTwoEndpoints(t *testing.T) {
	text := func(endpoint string) string {
		return `state: {url: sqlite:///s}
pipelines:
  p:
    source: {url: s3://b/x, layout: "%s", format: csv, s3: {endpoint: "http://one:9000"}}
    window: {size: 1h}
    index: {key: id, fields: {n: {count: "*", over: 1m}}}
    output: {url: s3://b/x/out, s3: {endpoint: "` + endpoint + `"}}
`
	}
	if err := read(t, text("http://two:9000")).Validate(Fns{}); err != nil {
		t.Errorf("two endpoints: got %v", err)
	}
	if err := read(t, text("http://ONE:9000/")).Validate(Fns{}); err == nil {
		t.Error("one endpoint: got no problem")
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want []string
	}{
		{name: "nothing", text: pipelineText()},
		{name: "password in the URL", text: strings.Replace(pipelineText(), "sqlite:///state.db", "postgres://u:pw@h/d", 1),
			want: []string{"state.url: should not hold the password (use state.password_file), got postgres://u:xxxxx@h/d"}},
		{name: "password of SQLite", text: strings.Replace(pipelineText(), "state.db}", "state.db, password_file: /x}", 1),
			want: []string{"state.password_file: has no effect on SQLite, got /x"}},
		{name: "short window", text: strings.Replace(pipelineText(`index: {key: id, fields: {n: {latest: a}}}`), "size: 1h", "size: 3m", 1),
			want: []string{"pipelines.p.window.size: should be at least four granules (4m), or one late partition is out of reach, got 3m"}},
		{name: "sum over all", text: pipelineText(`index: {key: id, fields: {n: {sum: a}, m: {max: a}, o: {sum: a, over: all}, c: {collect: {by: x, fields: {k: {count: "*"}}}}}}`),
			want: []string{
				"pipelines.p.index.fields.n.over: should be set: without a full section sum over all is over the coverage, whose length varies, got nothing",
				"pipelines.p.index.fields.c.over: should be set: without a full section collect over all is over the coverage, whose length varies, got nothing",
			}},
		{name: "sum over all with a base", text: pipelineText(`index: {key: id, fields: {n: {sum: a}}}`, "full: {}")},
		{name: "guards", text: pipelineText("guards: {min_documents: 1}")},
		{name: "S3 options of files", text: strings.Replace(pipelineText(), "format:", "s3: {region: x}, format:", 1),
			want: []string{"pipelines.p.source.s3: has no effect on files, got file:///in"}},
		{name: "never skipped", text: pipelineText("errors: {skip_after: 0}"),
			want: []string{"pipelines.p.errors.skip_after: should not be 0: one unreadable object then holds the pipeline until it is mended, got 0"}},
		{name: "support beyond the next", text: pipelineText(`full: {schedule: "0 * * * *", support_previous_for: 2h}`),
			want: []string{"pipelines.p.full.support_previous_for: should be at most the schedule interval (1h), only one previous base is supported, got 2h"}},
		{name: "window.max in the ordinary course", text: strings.Replace(pipelineText(`full: {schedule: "0 3 * * *", support_previous_for: 1d}`), "size: 1h", "size: 4h, max: 49h", 1),
			want: []string{"pipelines.p.window.max: should be at least what coverage reaches while nothing is amiss (53h, if a rebuild takes as long as the window), for beyond it window.on_gap acts, got 49h"}},
		{name: "its default too", text: strings.Replace(pipelineText(`full: {schedule: "0 * * * *", support_previous_for: 1h}`), "size: 1h", "size: 5h", 1),
			want: []string{"pipelines.p.window.max: should be at least what coverage reaches while nothing is amiss (8h, if a rebuild takes as long as the window), for beyond it window.on_gap acts, got 5h"}},
		{name: "short memory of deleted keys", text: pipelineText(`full: {schedule: "0 3 * * *", tombstones: 1d}`),
			want: []string{"pipelines.p.full.tombstones: should be at least what a run lists (34h), or a late object can bring a deleted key back, got 24h"}},
		{name: "enough of it", text: pipelineText(`full: {schedule: "0 3 * * *", tombstones: 34h}`)},
		{name: "chained", text: pipelineText() + `  q:
    source: {url: file:///out, layout: "%s", format: parquet}
    window: {size: 1h}
    index: {key: id, fields: {n: {latest: a}}}
    output: {url: file:///q}
`, want: []string{"pipelines.p.output.url: should be apart from the source of q (file:///out): collection deletes panes while they are read, got file:///out"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := read(t, c.text)
			if err := cfg.Validate(testFns()); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range cfg.Warnings() {
				got = append(got, w.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// B12: partitions of a producer in local time are warned of, with what happens.
func TestB12LocalTimeIsWarnedOf(t *testing.T) {
	c := read(t, `state: {url: sqlite:///s}
pipelines:
  p:
    source: {url: file:///in, layout: "%Y/%m/%d/%H", format: csv, time_zone: America/New_York}
    window: {size: 6h}
    index: {key: id, fields: {n: {latest: a}}}
    output: {url: file:///out}
`)
	if err := c.Validate(Fns{}); err != nil {
		t.Fatal(err)
	}
	w := c.Warnings()
	if len(w) != 1 || w[0].Path != "pipelines.p.source.time_zone" || !strings.Contains(w[0].Rule, "one partition of two hours") {
		t.Errorf("got %v", w)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		edit  []string // replacements in the text
		want  []string
	}{
		{name: "window", lines: []string{`index: {key: id, fields: {n: {latest: a}}}`}, want: []string{
			"coverage of 1 h because window.size is 1 h", "a run lists up to 3 h, 180 partitions",
			"after a longer absence coverage reaches back up to 4 h; what lies before is never covered, and manifest and ledger say so",
			"no full index: documents hold what coverage holds", "objects must stay at the source for 2 h, source.retention does not say for how long they do"}},
		{name: "over", lines: []string{`index: {key: id, fields: {u: {count: "*", over: 24h}}}`, `trigger: {cron: "*/5 * * * *"}`}, want: []string{
			`a run at each "*/5 * * * *" in UTC, ended after 10 min`, "coverage of 24 h because u is over 24 h"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Explain(read(t, strings.NewReplacer(c.edit...).Replace(pipelineText(c.lines...))).Pipelines[0])
			for _, line := range c.want {
				if !slices.Contains(got, line) {
					t.Errorf("lacks %q:\n%s", line, strings.Join(got, "\n"))
				}
			}
		})
	}
}

// What Validate accepts keeps the promises of the coverage rule.
func TestAcceptedArithmeticHolds(t *testing.T) {
	minutes := func(t *rapid.T, name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * 30 * time.Second
	}
	rapid.Check(t, func(t *rapid.T) {
		c := Default()
		c.State.URL = "sqlite:///s"
		p := DefaultPipeline("p")
		p.Source.URL, p.Source.Layout, p.Source.Format = "file:///in", "%Y%m%d%H%M", FormatCSV
		p.Output.URL = "file:///out"
		p.Index.Key = []string{"id"}
		p.Index.Fields = []Field{{Name: "n", Fn: "count", Star: true, Over: minutes(t, "over", 300)}}
		p.Window.Size, p.Window.Max, p.Source.Retention = minutes(t, "size", 300), minutes(t, "max", 2000), minutes(t, "retention", 4000)
		if rapid.Bool().Draw(t, "full") {
			p.Full = DefaultFull()
			p.Full.Schedule = rapid.SampledFrom([]string{"", "0 3 * * *", "0 */6 * * *"}).Draw(t, "schedule")
		}
		p.fill()
		c.Pipelines = []*Pipeline{p}
		if c.Validate(Fns{}) != nil {
			return
		}
		w, d, most, step := p.Window.Size, p.LongestOver(), p.WindowMax(), p.Granule()
		if w <= 0 || w%step != 0 || d%step != 0 || most < w || most < d {
			t.Fatalf("accepted W %s, D %s, max %s", w, d, most)
		}
		if p.Full != nil && most < d+2*p.ScheduleInterval() {
			t.Fatalf("accepted max %s with D %s and intervals of %s", most, d, p.ScheduleInterval())
		}
		if r := p.Source.Retention; r != 0 && r < 2*w+d+3*p.ScheduleInterval() {
			t.Fatalf("accepted a retention of %s", r)
		}
	})
}
