package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestObjectSkipByHand leaves a damaged object out by name and takes it in
// again; both are refinements of the same watermark and audited.
func TestObjectSkipByHand(t *testing.T) {
	r := newRig(t)
	r.put(0, 1)
	bad := r.base.Add(time.Minute).Format("2006/01/02/15/04") + "/b.ndjson"
	if err := os.WriteFile(filepath.Join(r.dir, "raw", bad), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	now := r.base.Add(90 * time.Second).Format(time.RFC3339)
	step := []string{"run", "--once", "--now", now, "-o", "json"}
	if out, _, _ := r.do(1, step...); !strings.Contains(out["error"].(string), bad) {
		t.Fatalf("the damaged object is not named: %v", out)
	}
	_, _, stderr := r.do(2, "object", "skip", bad, "--reason", "short")
	if !strings.Contains(stderr, "ten characters") {
		t.Errorf("a short reason: %s", stderr)
	}
	_, _, stderr = r.do(2, "object", "skip", "no/such/object", "--reason", "it does not exist")
	if !strings.Contains(stderr, "there is no object") {
		t.Errorf("no such object: %s", stderr)
	}
	out, _, _ := r.do(0, "object", "skip", bad, "--reason", "the producer wrote half of it", "-o", "json")
	if out["key"] != bad || out["skipped"] != true || out["etag"] == "" {
		t.Errorf("skip says %v", out)
	}
	if out, _, _ := r.do(0, step...); out["outcome"] != "advanced" || out["documents"] != 2.0 {
		t.Errorf("after the skip: %v", out)
	}
	r.do(0, "object", "unskip", bad, "--reason", "let us see what it says")
	if out, _, _ := r.do(1, step...); !strings.Contains(out["error"].(string), bad) {
		t.Errorf("taken in again, it is not read: %v", out)
	}
}
