package configs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the messages of testdata/*.bad.yml anew")

// Each testdata/*.bad.yml breaks one rule; the comments it ends with are the
// whole of what is said of it, a line each, without the name of the file.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.bad.yml")
	if err != nil || len(files) < 90 {
		t.Fatalf("bad files: got %d, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".bad.yml"), func(t *testing.T) {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			body, want := splitMessages(string(data))
			_, err = LoadValid(f, testEnv, testFns())
			if err == nil {
				t.Fatal("got no problem")
			}
			got := "# " + strings.ReplaceAll(strings.ReplaceAll(err.Error(), f+":", ""), "\n", "\n# ") + "\n"
			if *update {
				if err := os.WriteFile(f, []byte(body+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// splitMessages cuts off the comment lines at the end.
func splitMessages(text string) (body, messages string) {
	lines := strings.SplitAfter(text, "\n")
	n := len(lines) - 1 // what follows the last line end is empty
	for n > 0 && strings.HasPrefix(lines[n-1], "# ") {
		n--
	}
	return strings.Join(lines[:n], ""), strings.Join(lines[n:], "")
}

func TestProblemsComeInOneOrder(t *testing.T) {
	var first string
	for i := range 20 {
		_, err := LoadValid("testdata/many_at_once.bad.yml", testEnv, testFns())
		if got := fmt.Sprint(err); i == 0 {
			first = got
		} else if got != first {
			t.Fatalf("got\n%s\nthen\n%s", first, got)
		}
	}
}
