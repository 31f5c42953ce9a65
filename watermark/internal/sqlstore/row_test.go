package sqlstore

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/deltad/deltad/watermark"
)

// cell is any value a driver may hand over.
func cell(kind uint8, n int64, s string) any {
	switch kind % 6 {
	case 0:
		return nil
	case 1:
		return n
	case 2:
		return s
	case 3:
		return n%2 == 0
	case 4:
		return time.Unix(n, 0)
	default:
		return []byte(s)
	}
}

// FuzzDecodePipeline puts anything into one column of a good row: it is either
// refused by name or comes out in range.
func FuzzDecodePipeline(f *testing.F) {
	f.Add(uint8(2), uint8(4), int64(-62135596801), "")
	f.Add(uint8(2), uint8(1), int64(1<<62), "")
	f.Add(uint8(0), uint8(2), int64(0), "")
	f.Add(uint8(10), uint8(1), int64(2), "")
	names := []string{
		"name", "source", "watermark", "progress", "version", "current_version", "run_id", "manifest_key",
		"manifest_sha256", "config_hash", "paused", "pause_reason", "paused_by", "paused_at", "updated_at",
	}
	f.Fuzz(func(t *testing.T, column, kind uint8, n int64, s string) {
		values := []any{
			"ads", "", int64(1e15), int64(1e15), int64(3), int64(2), "", "", "", "", false, "", "", nil, time.Unix(1e9, 0),
		}
		i := int(column) % len(names)
		values[i] = cell(kind, n, s)
		p, err := decodePipeline(NewRow(names, values))
		if err != nil {
			var ce *watermark.CorruptError
			if !errors.As(err, &ce) || ce.Table != "deltad_pipeline" || ce.Column == "" {
				t.Fatalf("column %s = %v: %v names no column", names[i], values[i], err)
			}
			return
		}
		if p.Name == "" || p.Version < 1 || p.CurrentVersion < 0 || p.UpdatedAt.IsZero() {
			t.Fatalf("column %s = %v gives %+v", names[i], values[i], p)
		}
		for _, at := range []time.Time{p.Watermark, p.Progress, p.PausedAt} {
			if !at.IsZero() && (at.Year() < 1 || at.Year() > 9999 || at.Location() != time.UTC) {
				t.Fatalf("column %s = %v gives the time %s", names[i], values[i], at)
			}
		}
	})
}

func TestMissingColumnIsCorrupt(t *testing.T) {
	_, err := decodePipeline(NewRow([]string{"name"}, []any{"ads"}))
	var ce *watermark.CorruptError
	if !errors.As(err, &ce) || ce.Pipeline != "ads" || ce.Column != "source" {
		t.Fatalf("got %v, want the first missing column", err)
	}
}

func FuzzFree(f *testing.F) {
	f.Add("plain")
	f.Add("a\x00b\xff\xfe")
	f.Fuzz(func(t *testing.T, s string) {
		got := free(s)
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Fatalf("%q became %q", s, got)
		}
		if utf8.ValidString(s) && !strings.ContainsRune(s, 0) && got != s {
			t.Fatalf("good text %q became %q", s, got)
		}
	})
}

func TestDocument(t *testing.T) {
	for _, c := range []struct {
		name, in, out, says string
	}{
		{name: "none", in: "", out: "{}"},
		{name: "object", in: `{"a":1}`, out: `{"a":1}`},
		{name: "array", in: `[1]`, says: "not a JSON object"},
		{name: "null", in: `null`, says: "not a JSON object"},
		{name: "cut", in: `{"a":`, says: "not a JSON object"},
		{name: "backslash", in: `{"a":"\\u0000"}`, out: `{"a":"\\u0000"}`},
		{name: "NUL", in: `{"a":"\u0000"}`, says: "NUL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ch checks
			got := ch.document("counts", []byte(c.in))
			switch {
			case c.says == "" && (ch.err != nil || got != c.out):
				t.Fatalf("got %q, %v", got, ch.err)
			case c.says != "" && (ch.err == nil || !strings.Contains(ch.err.Error(), c.says)):
				t.Fatalf("got %v, want …%s…", ch.err, c.says)
			}
		})
	}
}
