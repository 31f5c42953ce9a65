package report_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/bench/course"
	"github.com/deltad/deltad/bench/meter"
	"github.com/deltad/deltad/bench/report"
)

func sample(s course.Step, ours, theirs time.Duration) course.Sample {
	return course.Sample{
		Step: s, Documents: 1, Ours: meter.Usage{CPU: ours, Wall: ours, Peak: 700 << 20, Requests: 2},
		Peer: &meter.Usage{CPU: theirs, Wall: theirs, Peak: 300 << 20},
	}
}

// result is one in which the cold goal is missed and that of steady steps met.
func result() report.Result {
	return report.Result{
		When: time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC), Source: "abc", Threads: 2, Memory: 1 << 30,
		Courses: []report.Course{
			{Name: "nothing yet", Window: 60},
			{Name: "an hour", Window: 60, Rows: 233_333, Objects: 4, Samples: []course.Sample{
				sample(course.Cold, 3*time.Second, time.Second), sample(course.Steady, 100*time.Millisecond, 4*time.Second),
				sample(course.Steady, 100*time.Millisecond, 2*time.Second), sample(course.Steady, 100*time.Millisecond, 3*time.Second),
				sample(course.Settled, 200*time.Millisecond, 4*time.Second),
				{Step: course.Idle, Ours: meter.Usage{CPU: time.Millisecond, Requests: 4}},
			}},
		},
		Freshness: []report.Freshness{{Server: "s", Partitions: 100, Rows: 20_000, P50: 900 * time.Millisecond, P99: 3 * time.Second, Most: 4 * time.Second}},
	}
}

func TestMarkdown(t *testing.T) {
	text := result().Markdown()
	for _, want := range []string{
		"| | cold | first | steady | late | jump | restart | settled |",
		"| an hour | **0.33** (0.33 to 0.33) | | **30.00** (20.00 to 40.00) | | | | **20.00** (20.00 to 20.00) |",
		"| cold recompute: at most 0.6 × DuckDB's CPU | an hour | 3.00 × | **not reached** |",
		"| steady step: at least 25 × less CPU than DuckDB's recompute | an hour | 30.0 × | reached |",
		"| settled step: at least 25 × less CPU than DuckDB's recompute | an hour | 20.0 × | **not reached** |",
		"| idle step of 60 partitions: at most 3 requests | an hour | 4 | **not reached** |",
		"| 900 ms | reached |",
		"| 3000 ms (worst of 100: 4000 ms) | **not reached** |",
		"60 partitions of 233,333 rows in 4 objects",
		"700 MiB",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "nothing yet") {
		t.Errorf("a course without samples is in\n%s", text)
	}
}

// TestWriteKeepsWhatPeopleWrote: only what stands between the marks changes.
func TestWriteKeepsWhatPeopleWrote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(path, []byte("# Performance\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := result()
	write := func() string {
		t.Helper()
		if err := r.Write(path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := write()
	if err := os.WriteFile(path, []byte(first+"\nSaid by hand.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Source = "def"
	second := write()
	if want := strings.Replace(first, "commit abc", "commit def", 1) + "\nSaid by hand.\n"; second != want || !strings.HasPrefix(first, "# Performance\n") {
		t.Errorf("it is\n%s\nwant\n%s", second, want)
	}
	if err := os.WriteFile(path, []byte("<!-- measured: written by make bench, do not edit -->"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Write(path); err == nil {
		t.Error("a document with half of the marks is written")
	}
}
