package app_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/cmd/deltad/app"
)

// nullable are what is null in JSON where there is none: times, numbers and
// objects. A list is empty then, and so it is not among them.
var nullable = strings.Fields(`
	watermark previous_watermark progress coverage coverage_from data_age_seconds published_at planned_at finished_at created_at cut supported_until
	last_run last_run.watermark last_run.previous_watermark last_run.coverage_from last_run.finished_at full full.base full.rebuild full.candidate full.held full.last_failed full.last_failed.cut full.rebuild.cut full.next_rebuild config.newest_since prefixes.newest
	intent now plan.gap plan.to.cut plan.from.cut
	plan.recomputed.first plan.recomputed.last plan.skipped.first plan.skipped.last plan.unread.first plan.unread.last plan.lost.first plan.lost.last
	document base base.newest newest fields.from fields.value before after laws.from laws.to
`)

// nulls are the paths of what is null in the JSON documents that a command
// prints and must not be.
func nulls(out []byte) (wrong []string) {
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case nil:
			if !slices.Contains(nullable, path) {
				wrong = append(wrong, path)
			}
		case []any:
			for _, e := range v {
				walk(path, e)
			}
		case map[string]any:
			for name, e := range v {
				walk(strings.TrimPrefix(path+"."+name, "."), e)
			}
		}
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var v any
		if err := d.Decode(&v); errors.Is(err, io.EOF) {
			return wrong
		} else if err != nil {
			return append(wrong, err.Error())
		}
		walk("", v)
	}
}

// lists runs a command line whose JSON must have empty lists for what there is
// none of, whatever the command has to say.
func (r *rig) lists(args ...string) {
	r.t.Helper()
	var o, e bytes.Buffer
	line := strings.Join(args, " ")
	code := app.Run(r.t.Context(), app.Options{
		Args: append(args, "-o", "json", "-c", filepath.Join(r.dir, "deltad.yaml"), "--log-level", "error"), Stdout: &o, Stderr: &e,
	})
	if wrong := nulls(o.Bytes()); len(wrong) > 0 {
		r.t.Errorf("deltad %s: exit %d: null: %s\n%s", line, code, strings.Join(wrong, ", "), &o)
	}
	if code == 0 && o.Len() == 0 {
		r.t.Errorf("deltad %s: nothing on stdout", line)
	}
}

// TestEmptyListsInJSON: what there is none of is [] and never null, in the
// output of every command, before the first pane and after it.
func TestEmptyListsInJSON(t *testing.T) {
	looks := [][]string{
		{"check"}, {"check", "--laws"}, {"check", "--online"}, {"plan"}, {"status"}, {"runs"}, {"partitions"}, {"watermark", "show"}, {"ls"}, {"ls", "--sql"},
		{"get", "i0"}, {"get", "i0", "--origin"}, {"explain", "i0"}, {"explain", "nobody"}, {"diff"}, {"verify", "--recompute", "--recompute-base"},
		{"gc", "--dry-run"}, {"gc"}, {"recover", "--dry-run"}, {"migrate"}, {"version"}, {"health"}, {"base", "list"},
	}
	r := newFullRig(t, "{}")
	all := func() {
		t.Helper()
		for _, args := range looks {
			r.lists(args...)
		}
	}
	r.lists("migrate") // something is applied
	all()
	r.put(0, 2)
	r.lists("run", "--once")
	all()
	r.put(3)
	r.lists("run", "--once")
	all()
	r.lists("pause", "--reason", "a look at the data")
	for _, to := range []int{0, 30} {
		for _, how := range []string{"--dry-run", "--accept-data-loss"} {
			r.lists("watermark", "reset", "--to", r.minute(to), "--reason", "a test of what is printed", how)
		}
	}
	r.lists("resume", "--reason", "enough was seen")
	r.lists("trigger")
	r.lists("rebuild")
	r.lists("base", "promote")
	all()
	r.put(4)
	r.lists("trigger")
	r.lists("rebuild")
	r.lists("base", "promote")
	id, _ := r.list("base", "list")[1]["generation"].(string)
	r.lists("base", "pin", id, "--reason", "a test of what is printed")
	r.lists("base", "unpin", id)
	r.lists("base", "rollback", "--dry-run")
	r.lists("base", "rollback", "--reason", "a test of what is printed")
	all()
	r.lists("object", "skip", r.base.Format("2006/01/02/15/04")+"/a.ndjson", "--reason", "a test of what is printed")
	r.lists("object", "unskip", r.base.Format("2006/01/02/15/04")+"/a.ndjson", "--reason", "a test of what is printed")
	r.lists("adopt", "--reason", "a test of what is printed")
	current, err := filepath.Glob(filepath.Join(r.dir, "out", "CURRENT"))
	if err != nil || len(current) != 1 {
		t.Fatal(current, err)
	}
	if err := os.Remove(current[0]); err != nil {
		t.Fatal(err)
	}
	r.lists("verify")
	r.lists("recover", "--dry-run")
	r.lists("recover")
}

// TestGarbageCollectionSaysNothingAsLists, which a null is to few programs.
func TestGarbageCollectionSaysNothingAsLists(t *testing.T) {
	r := newRig(t)
	r.put(0)
	r.do(0, "run", "--once")
	for _, args := range [][]string{{"gc", "--dry-run", "-o", "json"}, {"gc", "-o", "json"}} {
		got, _, _ := r.do(0, args...)
		for _, name := range []string{"keep", "bases", "delete", "records", "slices", "cached", "condemn", "drop", "held"} {
			if list, ok := got[name].([]any); !ok {
				t.Errorf("%v: %s is %v, want a list", args, name, got[name])
			} else if name != "keep" && len(list) > 0 {
				t.Errorf("%v: %s is %v", args, name, list)
			}
		}
	}
}
