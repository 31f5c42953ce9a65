package app_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
	"github.com/deltad/deltad/watermark/sqlite"
)

// TestCollectingBesideALeader: the leader is asked, and answers with what it did.
func TestCollectingBesideALeader(t *testing.T) {
	r := newRig(t)
	r.put(0)
	r.daemon()
	live := r.get("/api/v1/pipelines/ads")["run_id"]
	if v, _, _ := r.do(0, "gc", "-o", "json"); live == nil || len(v["keep"].([]any)) != 1 || v["keep"].([]any)[0] != live {
		t.Errorf("kept are %v, live is %v", v, live)
	}
	if _, o, _ := r.do(0, "gc"); !strings.Contains(o, "keeps 1 panes; deleted the data of 0 runs") {
		t.Errorf("for people: %s", o)
	}
	r.do(0, "pause", "--reason", "a look at it")
	if _, _, e := r.do(1, "gc"); !strings.Contains(e, "paused by") {
		t.Errorf("while it is paused: %s", e)
	}
}

// TestCollectingWaitsForALeader for so long and no longer.
func TestCollectingWaitsForALeader(t *testing.T) {
	r := newRig(t)
	r.put(0)
	r.do(0, "run", "--once")
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(r.dir, "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	lease, err := st.Acquire(t.Context(), "ads", watermark.RoleDelta, "elsewhere", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, e := r.do(1, "gc", "--wait", "100ms"); !strings.Contains(e, "is pending: the leader has not answered within 100ms") {
		t.Errorf("it said %s", e)
	}
	if err := st.Release(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	r.do(0, "gc")
}
