//go:build integration

package acceptance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// jsonLines runs a command that prints a JSON line for each of its results.
func (b *bench) jsonLines(code int, args ...string) (out []map[string]any) {
	b.t.Helper()
	r := b.run(code, nil, args...)
	d := json.NewDecoder(strings.NewReader(r.stdout))
	for d.More() {
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			b.t.Fatalf("deltad %v: %v: %s", args, err, r.stdout)
		}
		out = append(out, v)
	}
	return out
}

// failing are the checks of verify that failed.
func (b *bench) failing(code int, args ...string) (names []string) {
	b.t.Helper()
	for _, l := range b.jsonLines(code, append([]string{"verify"}, args...)...) {
		if l["status"] == "failed" {
			names = append(names, fmt.Sprint(l["check"]))
		}
	}
	return names
}

func (b *bench) remove(key string) {
	b.t.Helper()
	if _, err := b.s3.DeleteObject(b.t.Context(), &s3.DeleteObjectInput{Bucket: &b.bucket, Key: aws.String(b.root + key)}); err != nil {
		b.t.Fatal(err)
	}
}

// TestReadingBaseAndDelta verifies, explains and compares an index of base and
// delta on real servers, whole and damaged.
func TestReadingBaseAndDelta(t *testing.T) {
	t.Parallel()
	each(t, setup{window: "{size: 10m}"}, func(t *testing.T, b *bench) {
		text, err := os.ReadFile(b.config)
		if err != nil {
			t.Fatal(err)
		}
		with := strings.Replace(string(text), "    errors:", "    full: {promote: manual, support_previous_for: 0s}\n    errors:", 1)
		if err := os.WriteFile(b.config, []byte(with), 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			clock := fmt.Sprintf("01:%02d", i)
			b.put(drop(clock, "a.ndjson"), []byte(row(fmt.Sprint("item-", i), at(clock), i, "old")+row("hot", at(clock), 1, clock)))
		}
		b.once("01:40", "advanced")
		b.run(0, nil, "rebuild")
		b.run(0, nil, "base", "promote")
		b.put(drop("03:00", "a.ndjson"), update("hot", "03:00", 5, "new"))
		b.once("03:01", "advanced")

		if f := b.failing(0, "--recompute", "--recompute-base", "--all"); len(f) > 0 {
			t.Fatalf("failing: %v", f)
		}
		var e struct {
			Layer   string
			Base    struct{ Holds bool }
			Scanned int
			Objects []struct{ Object string }
			Notes   []string
		}
		b.run(0, &e, "explain", "hot")
		if e.Layer != "delta" || !e.Base.Holds || len(e.Objects) != 41 || e.Scanned != 41 || len(e.Notes) > 0 {
			t.Errorf("hot: %+v", e)
		}
		if b.run(0, &e, "explain", "item-7"); e.Layer != "base" || len(e.Objects) != 1 || !strings.HasSuffix(e.Objects[0].Object, "01/07/a.ndjson") {
			t.Errorf("item-7: %+v", e)
		}
		diff := b.jsonLines(0, "diff")
		if end := diff[len(diff)-1]; end["changed"] != 6.0 || end["added"] != 0.0 || end["removed"] != 0.0 { // hot, and five whose last clicks are over
			t.Errorf("diff: %v", diff)
		}

		b.put(drop("03:00", "late.ndjson"), update("late", "03:00", 1, "late"))
		if f := b.failing(1); !slices.Equal(f, []string{"unread"}) {
			t.Errorf("with an unread object: %v", f)
		}
		b.once("03:02", "refined")
		if f := b.failing(0, "--recompute"); len(f) > 0 {
			t.Errorf("refined: %v", f)
		}
		var ls struct {
			Base struct {
				Files []struct{ Key string }
			}
		}
		b.run(0, &ls, "ls")
		b.remove("out/" + ls.Base.Files[0].Key)
		if f := b.failing(1); !slices.Equal(f, []string{"files"}) {
			t.Errorf("with a file of the base gone: %v", f)
		}
		b.remove("in/" + drop("03:00", "a.ndjson"))
		if f := b.failing(1); !slices.Equal(f, []string{"files", "lost"}) && !slices.Equal(f, []string{"lost", "files"}) {
			t.Errorf("with an input gone: %v", f)
		}
	})
}
