package index_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
)

// TestDatesAreThoseOfUTC on every machine: what an expression makes of a date, its
// methods included, does not depend on the zone of the machine, and null is null.
func TestDatesAreThoseOfUTC(t *testing.T) {
	machine := time.Local
	defer func() { time.Local = machine }()
	for _, name := range []string{"UTC", "Asia/Tokyo", "America/New_York"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		time.Local = zone
		for _, c := range []struct {
			expr, text string
			want       string
		}{
			{"date(s).Unix()", "2026-11-30T12:00:00+09:00", "1796007600"},
			{"date(s).Hour()", "2026-11-30 23:30:00", "23"},
			{"date(s).String()", "2026-11-30T12:00:00-05:00", "2026-11-30 12:00:00 -0500 -0500"},
			{"date(s, '02.01.2006').Unix()", "30.11.2026", "1795996800"},
			{"date(s, '02.01.2006 15:04', 'Europe/Berlin').Unix()", "30.11.2026 01:00", "1795996800"},
			{"date(s).In(timezone('Europe/Berlin')).Hour()", "2026-07-01 23:30:00", "1"},
			{"date(s) > ts ? 'later' : 'earlier'", "2026-11-30 03:00:01", "later"},
			{"ts.Add(duration('90m')).Hour()", "", "4"},
			{"ts.Truncate(duration('24h')).Hour()", "", "0"},
			{"date(flag ? s : nil).Hour() + 1", "2026-11-30 23:30:00", "null"},
		} {
			p := compile(t, index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "f", Fn: "latest", Args: []string{"=" + c.expr}}}})
			docs, _, err := documents(t, p, types(), map[string]any{"k": "a", "s": c.text, "ts": start})
			if err != nil {
				t.Errorf("in %s: %s: %v", name, c.expr, err)
			} else if got := text(docs.Columns[1], 0); got != c.want {
				t.Errorf("in %s: %s is %s, want %s", name, c.expr, got, c.want)
			}
		}
	}
}

// TestTheMachinesZoneIsRefused, and what is no column.
func TestTheMachinesZoneIsRefused(t *testing.T) {
	for e, want := range map[string]string{
		"ts.Local().Hour() == 3":               "the time zone of the machine is not a function of the record",
		"date(s).Local().Hour() == 3":          "the time zone of the machine",
		"ts?.Local() == nil":                   "the time zone of the machine",
		"ts.In(timezone('Local')).Hour() == 3": "the time zone of the machine",
		"date(s, '02.01.2006', 'Local') > ts":  "the time zone of the machine",
		"date(1) > ts":                         "date",
		"$env == nil":                          "$env is not a column",
		"$env.ts == nil":                       "$env",
		"s in $env":                            "$env is not a column",
	} {
		_, err := index.Compile(index.Spec{Key: []string{"k"}, Where: e, Fields: []index.FieldSpec{{Name: "n", Fn: "count", Args: []string{"*"}}}}, combine.Builtins())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "index.where: ") {
			t.Errorf("%s: %v", e, err)
		}
	}
	p := compile(t, index.Spec{Key: []string{"k"}, Where: "ts.In(timezone(s)).Hour() == 3", Fields: []index.FieldSpec{{Name: "n", Fn: "count", Args: []string{"*"}}}})
	for zone, want := range map[string]string{"Local": "time zone Local is another one on each machine", "../x": `unknown time zone "../x"`} {
		if _, _, err := documents(t, p, types(), map[string]any{"k": "a", "s": zone, "ts": start}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a record's zone %s: %v", zone, err)
		}
	}
}
