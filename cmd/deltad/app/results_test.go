package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deltad/deltad/cmd/deltad/app"
)

// full is a stdout that takes nothing.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// published is a configuration whose pipeline has a pane.
func published(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	object := filepath.Join(dir, "in/2026/11/30/03/10/a.ndjson")
	if err := os.MkdirAll(filepath.Dir(object), 0o755); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "deltad.yaml")
	for path, text := range map[string]string{
		object: `{"id":"a"}` + "\n",
		config: strings.ReplaceAll(`state: {url: "sqlite://DIR/state.db"}
pipelines:
  p:
    source: {url: "file://DIR/in", layout: "%Y/%m/%d/%H/%M", format: ndjson}
    window: {size: 1h}
    index: {key: [id], fields: {n: {count: "*", over: 1h}}}
    output: {url: "file://DIR/out"}
`, "DIR", dir),
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var errs bytes.Buffer
	o := app.Options{Args: []string{"run", "--once", "--now", "2026-11-30T03:10:30Z", "-c", config}, Stdout: &bytes.Buffer{}, Stderr: &errs}
	if code := app.Run(t.Context(), o); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	return config
}

// TestResultThatDoesNotArriveIsAFailure, in text too, whichever command
// writes it.
func TestResultThatDoesNotArriveIsAFailure(t *testing.T) {
	config := published(t)
	for _, command := range []string{"status", "ls", "runs", "check", "version", "ls -o json", "watermark show"} {
		t.Run(command, func(t *testing.T) {
			var errs bytes.Buffer
			code := app.Run(t.Context(), app.Options{Args: append(strings.Fields(command), "-c", config), Stdout: full{}, Stderr: &errs})
			if code != 1 || !strings.Contains(errs.String(), errFull.Error()) {
				t.Errorf("exit %d: %s", code, errs.String())
			}
		})
	}
}

func TestSQLAsJSON(t *testing.T) {
	config := published(t)
	var out, errs bytes.Buffer
	code := app.Run(t.Context(), app.Options{Args: []string{"ls", "--sql", "-o", "json", "-c", config}, Stdout: &out, Stderr: &errs})
	var got struct{ SQL, Manifest string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || code != 0 || !strings.HasPrefix(got.SQL, "read_parquet([") || got.Manifest == "" {
		t.Errorf("exit %d, %v: %s%s", code, err, out.String(), errs.String())
	}
}

func TestLimitIsUsage(t *testing.T) {
	config := published(t)
	for _, command := range []string{"runs --limit 0", "partitions --limit -1"} {
		var errs bytes.Buffer
		code := app.Run(t.Context(), app.Options{Args: append(strings.Fields(command), "-c", config), Stdout: &bytes.Buffer{}, Stderr: &errs})
		if code != 2 || !strings.Contains(errs.String(), "--limit: must be at least 1") {
			t.Errorf("%s: exit %d: %s", command, code, errs.String())
		}
	}
}

// TestWhatIsNoKeyIsUsage, and a key that is not there is none.
func TestWhatIsNoKeyIsUsage(t *testing.T) {
	config := published(t)
	for command, want := range map[string]int{"get a b": 2, "explain a b": 2, "get": 2, "explain": 2, "get b": 1, "get a": 0, "explain b": 0} {
		var out, errs bytes.Buffer
		code := app.Run(t.Context(), app.Options{Args: append(strings.Fields(command), "-c", config), Stdout: &out, Stderr: &errs})
		if code != want || want > 0 && out.Len() > 0 || code == 2 && strings.Contains(command, " ") && !strings.Contains(errs.String(), "2 key values, want 1") {
			t.Errorf("%s: exit %d, want %d: %s%s", command, code, want, out.String(), errs.String())
		}
	}
}
