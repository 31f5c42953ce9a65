package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/app"
)

// lines runs a command line and decodes the JSON lines it prints.
func (r *rig) lines(want int, args ...string) (out []map[string]any) {
	r.t.Helper()
	var o, e bytes.Buffer
	args = append(args, "-o", "json", "-c", filepath.Join(r.dir, "deltad.yaml"), "--log-level", "error")
	if code := app.Run(r.t.Context(), app.Options{Args: args, Stdout: &o, Stderr: &e}); code != want {
		r.t.Fatalf("deltad %v: exit %d, want %d: %s%s", args, code, want, &o, &e)
	}
	d := json.NewDecoder(&o)
	for d.More() {
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			r.t.Fatalf("deltad %v: %v", args, err)
		}
		out = append(out, v)
	}
	return out
}

// record drops an object of one record into the partition of a minute.
func (r *rig) record(minute int, name, text string) {
	r.t.Helper()
	dir := filepath.Join(r.dir, "raw", r.base.Add(time.Duration(minute)*time.Minute).Format("2006/01/02/15/04"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// grow makes a rig with two bases and a delta over the second.
func grow(t *testing.T) *rig {
	t.Helper()
	r := newFullRig(t, "{promote: manual, support_previous_for: 0s}")
	r.put(1, 2, 3)
	r.do(0, "run", "--once")
	r.do(0, "rebuild")
	r.do(0, "base", "promote")
	r.put(14)
	r.do(0, "trigger")
	r.do(0, "rebuild")
	r.do(0, "base", "promote")
	r.record(26, "a.ndjson", `{"item":"i14","clicks":5}`)
	r.record(26, "b.ndjson", `{"item":"new item","clicks":2}`)
	r.do(0, "trigger")
	return r
}

// TestReadingByHand asks a live index of base and delta by command lines.
func TestReadingByHand(t *testing.T) {
	r := grow(t)
	t.Run("get", func(t *testing.T) {
		doc, _, _ := r.do(0, "get", "i14", "-o", "json")
		if doc["all"] != 2.0 || doc["item"] != "i14" {
			t.Errorf("get: %v", doc)
		}
		for key, layer := range map[string]string{"i14": "delta", "i1": "base", "new item": "delta"} {
			if o, _, _ := r.do(0, "get", key, "--origin", "-o", "json"); o["layer"] != layer || sub(o, "document", "item") != key || !strings.Contains(o["file"].(string), o["run_id"].(string)) {
				t.Errorf("%s: %v", key, o)
			}
		}
		if _, o, _ := r.do(0, "get", "i1", "--origin"); !strings.Contains(o, "from the base: full/") {
			t.Errorf("in text: %s", o)
		}
		if _, _, e := r.do(1, "get", "nobody"); !strings.Contains(e, "no document") {
			t.Errorf("nobody: %s", e)
		}
	})
	t.Run("ls", func(t *testing.T) {
		l, _, _ := r.do(0, "ls", "-o", "json")
		if files, ok := l["files"].([]any); !ok || len(files) != 1 || sub(l, "base", "files") == nil || sub(l, "base", "cut") != r.minute(14) {
			t.Errorf("ls: %v", l)
		}
		if _, o, _ := r.do(0, "ls"); !strings.Contains(o, "  delta") || !strings.Contains(o, "  base") {
			t.Errorf("in text: %s", o)
		}
		if _, o, _ := r.do(0, "ls", "--sql"); !strings.Contains(o, "NOT EXISTS") || strings.Count(o, "full/") != 1 {
			t.Errorf("sql: %s", o)
		}
	})
	t.Run("diff", func(t *testing.T) { diffByHand(t, r) })
	t.Run("explain", func(t *testing.T) {
		e, _, _ := r.do(0, "explain", "i14", "-o", "json")
		if e["layer"] != "delta" || sub(e, "base", "holds") != true || e["scanned"] != e["inputs"] || len(e["objects"].([]any)) != 2 {
			t.Errorf("explain: %v", e)
		}
		_, o, _ := r.do(0, "explain", "i14", "--limit", "1")
		for _, want := range []string{"joins what base", "all     all    2      1      yes", "note: 1 of", "read 1 of"} {
			if !strings.Contains(o, want) {
				t.Errorf("no %q in:\n%s", want, o)
			}
		}
		if _, o, _ := r.do(0, "explain", "nobody"); !strings.Contains(o, "no document: no object that base or pane have read") {
			t.Errorf("nobody: %s", o)
		}
		r.do(2, "explain", "i14", "--limit", "-1")
	})
	t.Run("verify", func(t *testing.T) { verifyByHand(t, r) })
}

func diffByHand(t *testing.T, r *rig) {
	t.Helper()
	d := r.lines(0, "diff")
	last := d[len(d)-1]
	if last["added"] != 1.0 || last["removed"] != 0.0 || last["changed"] != 1.0 || len(d) != 3 {
		t.Fatalf("diff: %v", d)
	}
	if d[0]["change"] != "changed" || sub(d[0], "before", "all") != 1.0 || sub(d[0], "after", "all") != 2.0 || d[1]["change"] != "added" || d[1]["before"] != nil {
		t.Errorf("diff: %v", d)
	}
	_, o, _ := r.do(0, "diff")
	for _, want := range []string{"~ i14 all: 1 → 2\n", `+ ["new item"] {"item":"new item"`, "1 added, 0 removed, 1 changed from manifests/"} {
		if !strings.Contains(o, want) {
			t.Errorf("no %q in:\n%s", want, o)
		}
	}
	if _, o, _ = r.do(0, "diff", "live", "parent", "--limit", "1"); strings.Contains(o, "new item") || !strings.Contains(o, "0 added, 1 removed, 1 changed") {
		t.Errorf("backwards, of which one: %s", o)
	}
	// By run, by manifest, and bases by generation.
	a, b := last["a"].(string), last["b"].(string)
	run := strings.TrimSuffix(a[strings.LastIndex(a, "-")+1:], ".json")
	for _, args := range [][]string{{a, b}, {run}, {run, "live"}} {
		again := r.lines(0, append([]string{"diff"}, args...)...)
		if end := again[len(again)-1]; end["added"] != 1.0 || end["changed"] != 1.0 || end["a"] != a {
			t.Errorf("diff %v: %v", args, again)
		}
	}
	bases := r.lines(0, "diff", "--bases")
	if end := bases[len(bases)-1]; end["added"] != 1.0 || end["removed"] != 0.0 || !strings.HasPrefix(end["a"].(string), "full/") {
		t.Errorf("bases: %v", bases)
	}
	end := bases[len(bases)-1]
	old, now := strings.Split(end["a"].(string), "/")[1], strings.Split(end["b"].(string), "/")[1]
	for _, args := range [][]string{{"--bases", old, now}, {end["a"].(string), end["b"].(string)}} {
		if again := r.lines(0, append([]string{"diff"}, args...)...); again[len(again)-1]["added"] != 1.0 {
			t.Errorf("diff %v: %v", args, again)
		}
	}
	for _, args := range [][]string{{"nonsense"}, {"--limit", "-1"}, {"a", "b", "c"}} {
		r.do(2, append([]string{"diff"}, args...)...)
	}
	if _, _, e := r.do(1, "diff", "01ARZ3NDEKTSV4RRFFQ69G5FAV"); !strings.Contains(e, "collected") {
		t.Errorf("no such run: %s", e)
	}
}

func verifyByHand(t *testing.T, r *rig) {
	t.Helper()
	names := func(lines []map[string]any, status string) (out []string) {
		for _, l := range lines {
			if l["status"] == status {
				out = append(out, l["check"].(string))
			}
		}
		return out
	}
	all := r.lines(0, "verify", "--recompute", "--recompute-base", "--all")
	if passed := names(all, "passed"); len(passed) != 13 || all[0]["pipeline"] != "ads" {
		t.Errorf("verify: %v", all)
	}
	if _, o, _ := r.do(0, "verify"); strings.Count(o, "\nads: passed") != 10 || strings.Contains(o, "recompute") {
		t.Errorf("in text: %s", o)
	}
	// A file of the base is damaged.
	files, err := filepath.Glob(filepath.Join(r.dir, "out", "full", "*", "part-00000.parquet"))
	if err != nil || len(files) != 2 {
		t.Fatalf("files of bases: %v, %v", files, err)
	}
	slices.Sort(files)
	good, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(good)
	bad[40] ^= 1
	rewrite(t, files[1], bad)
	if failed := names(r.lines(1, "verify"), "failed"); !slices.Equal(failed, []string{"files"}) {
		t.Errorf("with a damaged file: %v", failed)
	}
	if _, o, _ := r.do(1, "verify"); !strings.Contains(o, "ads: FAILED    files") || !strings.Contains(o, "    full/") {
		t.Errorf("in text: %s", o)
	}
	rewrite(t, files[1], good)
	// An object nobody has read yet.
	r.record(2, "late.ndjson", `{"item":"i2","clicks":1}`)
	if failed := names(r.lines(1, "verify", "--all"), "failed"); !slices.Equal(failed, []string{"unread"}) {
		t.Errorf("with an unread object: %v", failed)
	}
	r.do(0, "verify", "--all", "--fresh", "10m")
	r.do(2, "verify", "--fresh", "-1s")
	r.do(0, "trigger")
	r.do(0, "verify", "--recompute")
}

func rewrite(t *testing.T, file string, b []byte) {
	t.Helper()
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
