package configs

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       time.Duration
		bad        bool
	}{
		{name: "zero", text: "0"},
		{name: "seconds", text: "30s", want: 30 * time.Second},
		{name: "mixed", text: "1h30m", want: 90 * time.Minute},
		{name: "days", text: "30d", want: 720 * time.Hour},
		{name: "days and hours", text: "1d12h", want: 36 * time.Hour},
		{name: "half a day", text: "0.5d", want: 12 * time.Hour},
		{name: "milliseconds", text: "250ms", want: 250 * time.Millisecond},
		{name: "microseconds", text: "5µs", want: 5 * time.Microsecond},
		{name: "negative", text: "-1d", want: -24 * time.Hour},
		{name: "space around", text: " 5m ", want: 5 * time.Minute},
		{name: "the longest", text: "7300d", want: maxDuration},
		{name: "too long", text: "7301d", bad: true},
		{name: "too long in sum", text: "7300d1ns", bad: true},
		{name: "overflow", text: "9999999999999999999h", bad: true},
		{name: "overflow in days", text: "2562047d", bad: true},
		{name: "no unit", text: "30", bad: true},
		{name: "no number", text: "h", bad: true},
		{name: "other unit", text: "1w", bad: true},
		{name: "empty", text: "", bad: true},
		{name: "sign alone", text: "-", bad: true},
		{name: "two signs", text: "--1h", bad: true},
		{name: "two points", text: "1.2.3h", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseDuration(c.text)
			if (err != nil) != c.bad || got != c.want {
				t.Errorf("got %v, %v; want %v, error %v", got, err, c.want, c.bad)
			}
		})
	}
}

func TestParseSize(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Size
		written    string
		bad        bool
	}{
		{name: "binary", text: "20GiB", want: 20 << 30, written: "20GiB"},
		{name: "decimal", text: "1GB", want: 1e9, written: "1000000000B"},
		{name: "bytes", text: "4096", want: 4096, written: "4KiB"},
		{name: "bytes with unit", text: "5B", want: 5, written: "5B"},
		{name: "fraction", text: "1.5 GiB", want: 3 << 29, written: "1536MiB"},
		{name: "zero", text: "0", written: "0B"},
		{name: "lower case", text: "20gib", bad: true},
		{name: "negative", text: "-1GiB", bad: true},
		{name: "part of a byte", text: "0.1B", bad: true},
		{name: "too large", text: "9000PiB", bad: true},
		{name: "exponent", text: "1e3", bad: true},
		{name: "ratio", text: "1/2GiB", bad: true},
		{name: "two points", text: "1.2.3GiB", bad: true},
		{name: "empty", text: "", bad: true},
		{name: "unit alone", text: "GiB", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseSize(c.text)
			if (err != nil) != c.bad || got != c.want {
				t.Fatalf("got %v, %v; want %v, error %v", got, err, c.want, c.bad)
			}
			if !c.bad && got.String() != c.written {
				t.Errorf("written: got %s, want %s", got, c.written)
			}
		})
	}
}

func TestParseShare(t *testing.T) {
	for _, c := range []struct {
		name, text, written string
		bad                 bool
	}{
		{name: "percent", text: "5%", written: "5%"},
		{name: "fraction", text: "0.005", written: "0.5%"},
		{name: "all", text: "1", written: "100%"},
		{name: "above all", text: "150%", written: "150%"},
		{name: "negative", text: "-1%", bad: true},
		{name: "not a number", text: "NaN", bad: true},
		{name: "infinite", text: "Inf", bad: true},
		{name: "text", text: "few", bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseShare(c.text)
			if (err != nil) != c.bad || !c.bad && got.String() != c.written {
				t.Errorf("got %v, %v; want %s, error %v", got, err, c.written, c.bad)
			}
		})
	}
}

func TestDurationsAndSizesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(maxDuration)).Draw(t, "ns"))
		if rapid.Bool().Draw(t, "whole seconds") {
			d = d.Truncate(time.Second)
		}
		if got, err := ParseDuration(FormatDuration(d)); err != nil || got != d {
			t.Fatalf("%v is written %s and read %v, %v", d, FormatDuration(d), got, err)
		}
		s := Size(rapid.Int64Min(0).Draw(t, "bytes"))
		if got, err := ParseSize(s.String()); err != nil || got != s {
			t.Fatalf("%d is written %s and read %v, %v", s, s, got, err)
		}
	})
}

func TestFormatDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "5h": 5 * time.Hour, "24h": 24 * time.Hour, "30d": 720 * time.Hour,
		"53h": 53 * time.Hour, "0s": 0, "-1h": -time.Hour, "1.5s": 1500 * time.Millisecond, "1m": time.Minute,
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
