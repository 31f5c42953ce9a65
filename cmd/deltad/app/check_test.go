package app_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAllProblemsAtOnce: what only compiling an index shows is told beside the
// rules that other settings break, by every command, and each warning once.
func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "deltad.yaml")
	write := func(extra, where string) {
		t.Helper()
		text := `state: {url: sqlite:///state.db}
` + extra + `
pipelines:
  p:
    source: {url: file:///in, layout: "%Y/%m/%d/%-H", format: ndjson, time_zone: Europe/Berlin}
    window: {size: 5h}
    index: {key: [id], where: "` + where + `", fields: {n: {count: "*", over: 1h}, r: {expr: "zz + 1"}}}
    output: {url: file:///out}
`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`restart.mode: must be auto, exec or exit, got never`,
		`pipelines.p.index.where: parse expression "country ="`,
		`pipelines.p.index.fields.r: "zz" is neither a key column nor an earlier field`,
	}
	write("restart: {mode: never}", "country =")
	code, text, _ := run(t, nil, "check", "-c", file, "-o", "json")
	var found struct {
		Findings []struct{ Level, Message string }
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil || code != 2 || len(found.Findings) != len(want) {
		t.Fatalf("check exits with %d: %s (%v)", code, text, err)
	}
	for i, f := range found.Findings {
		if f.Level != "error" || !strings.HasPrefix(f.Message, want[i]) {
			t.Errorf("finding %d is %+v, want %q", i, f, want[i])
		}
	}
	code, _, errs := run(t, nil, "run", "--once", "-c", file)
	for _, w := range want {
		if code != 2 || !strings.Contains(errs, w) {
			t.Errorf("run exits with %d and does not say %q: %s", code, w, errs)
		}
	}

	// Nor does one field hide what is wrong with another, but what only follows
	// from it is not told.
	write("restart: {mode: never}", "country =")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fields := `fields: {h: {sum: v, over: 90s}, s: {set: tag, over: 1h, cap: 0}, r: {expr: "zz + 1"}, hr: {expr: "h + yy"}}}`
	text = strings.Replace(string(raw), `fields: {n: {count: "*", over: 1h}, r: {expr: "zz + 1"}}}`, fields, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, text, _ = run(t, nil, "check", "-c", file)
	want = []string{
		"error: restart.mode: ",
		"error: pipelines.p.index.fields.h.over: must be a whole number of granules",
		"error: pipelines.p.index.where: parse expression",
		"error: pipelines.p.index.fields.r: \"zz\" is neither",
		"error: pipelines.p.index.fields.s: set: option cap",
	}
	if code != 2 || strings.Count(text, "\n") != len(want) {
		t.Errorf("check exits with %d and says\n%s", code, text)
	}
	for _, w := range want {
		if !strings.Contains("\n"+text, "\n"+w) {
			t.Errorf("check does not say %q:\n%s", w, text)
		}
	}

	write("", "country == 'DE'")
	_, text, _ = run(t, nil, "check", "-c", file)
	for _, warning := range []string{"changes its offset", "is not time order"} {
		if n := strings.Count(text, warning); n != 1 {
			t.Errorf("check says %d times that the layout %s:\n%s", n, warning, text)
		}
	}
}
