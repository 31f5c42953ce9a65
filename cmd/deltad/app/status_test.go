package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStatusNamesPrefixes with the newest partition of each, and those that
// lag, from the pane alone: no daemon has to run.
func TestStatusNamesPrefixes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(key string) {
		t.Helper()
		file := filepath.Join(dir, "in", filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(`{"id": 1}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "deltad.yaml")
	text := fmt.Sprintf(`state: {url: "sqlite://%[1]s/state.db"}
pipelines:
  p:
    source: {url: "file://%[1]s/in", prefixes: [eu, us/, none], layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    window: {size: 10m}
    index: {key: [id], fields: {n: {count: "*", over: 10m}}}
    output: {url: "file://%[1]s/out"}
`, dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	put("eu/2026/11/30/03/10/a.ndjson")
	put("us/2026/11/30/03/02/a.ndjson")
	put("us/2026/11/30/03/04/a.ndjson")
	do := func(args ...string) string {
		t.Helper()
		code, out, errs := run(t, nil, append(args, "-c", config)...)
		if code != 0 {
			t.Fatalf("%v exits with %d: %s", args, code, errs)
		}
		return out
	}
	if out := do("status", "-o", "json"); !strings.Contains(out, `"prefixes":[]`) {
		t.Errorf("before the first pane: %s", out)
	}
	do("run", "--once", "--now", "2026-11-30T03:10:30Z")
	var got struct{ Prefixes json.RawMessage }
	if err := json.Unmarshal([]byte(do("status", "-o", "json")), &got); err != nil {
		t.Fatal(err)
	}
	want := `[{"prefix":"eu","newest":"2026-11-30T03:10:00Z","lagging":false},` +
		`{"prefix":"us/","newest":"2026-11-30T03:04:00Z","lagging":true},{"prefix":"none","newest":null,"lagging":true}]`
	if string(got.Prefixes) != want {
		t.Errorf("got  %s\nwant %s", got.Prefixes, want)
	}
	text = do("status")
	for _, line := range []string{
		"  prefix eu: newest partition 2026-11-30T03:10:00Z\n", "  prefix us/: newest partition 2026-11-30T03:04:00Z, more than half a window behind\n",
		"  prefix none: newest partition none in the coverage, more than half a window behind\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
}

// TestOnceWithoutStateStore: the step of each pipeline failed, in JSON on
// stdout too, and the reason is there.
func TestOnceWithoutStateStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "deltad.yaml")
	text := `state: {url: "postgres://nobody@127.0.0.1:1/none"}
pipelines:
`
	for _, name := range []string{"a", "b"} {
		text += fmt.Sprintf(`  %[2]s:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    window: {size: 10m}
    index: {key: [id], fields: {n: {count: "*", over: 10m}}}
    output: {url: "file://%[1]s/out/%[2]s"}
`, dir, name)
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string][]string{"": {"a", "b"}, "--pipeline=b": {"b"}} {
		line := []string{"run", "--once", "-o", "json", "-c", config}
		if args != "" {
			line = append(line, args)
		}
		code, out, errs := run(t, nil, line...)
		if code != 1 || !strings.Contains(errs, "state store") {
			t.Errorf("exit %d: %s", code, errs)
		}
		dec := json.NewDecoder(strings.NewReader(out))
		for _, name := range want {
			var got map[string]any
			if err := dec.Decode(&got); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			why, _ := got["error"].(string)
			if got["pipeline"] != name || got["outcome"] != "failed" || got["watermark"] != nil || !strings.Contains(why, "connection refused") {
				t.Errorf("%v", got)
			}
		}
		if dec.More() {
			t.Errorf("lines too many: %s", out)
		}
	}
}

// nightly is a pipeline of two partitions with a pane over them, and one row
// that nobody can read.
func nightly(t *testing.T) (dir, config string, do func(code int, args ...string) string) {
	t.Helper()
	dir = t.TempDir()
	config = filepath.Join(dir, "deltad.yaml")
	text := fmt.Sprintf(`state: {url: "sqlite://%[1]s/state.db"}
pipelines:
  p:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    window: {size: 10m}
    index: {key: [id], fields: {n: {count: "*", over: 10m}}}
    errors: {object: skip}
    full: {}
    output: {url: "file://%[1]s/out"}
`, dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for key, body := range map[string]string{"03/09/a.ndjson": `{"id": 1}`, "03/10/a.ndjson": `{"id": 2}`, "03/10/b.ndjson": `{"id": `} {
		file := filepath.Join(dir, "in/2026/11/30", filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do = func(want int, args ...string) string {
		t.Helper()
		code, out, errs := run(t, nil, append(args, "-c", config)...)
		if code != want {
			t.Fatalf("%v exits with %d, want %d: %s%s", args, code, want, out, errs)
		}
		return out + errs
	}
	do(0, "run", "--once", "--now", "2026-11-30T03:10:30Z")
	return dir, config, do
}

func wantIn(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not in\n%s", line, text)
		}
	}
}

// TestStatusNamesWhatIsSkipped, who paused a pipeline, and why the last rebuild
// failed; plan says that nothing runs.
func TestStatusNamesWhatIsSkipped(t *testing.T) {
	t.Parallel()
	dir, config, do := nightly(t)
	do(0, "pause", "--reason", "a look at it")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	strict := filepath.Join(dir, "strict.yaml")
	if err := os.WriteFile(strict, []byte(strings.Replace(string(text), "object: skip", "object: fail", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "in/2026/11/30/03/09/c.ndjson"), []byte(`{"id": `), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := run(t, nil, "rebuild", "-c", strict); code != 1 {
		t.Fatalf("the rebuild exits with %d: %s%s", code, out, errs)
	}
	wantIn(t, do(0, "status"), "  1 objects skipped, 2026/11/30/03/10/b.ndjson among them: ", "  paused by ", ": a look at it\n",
		" is failed: object 2026/11/30/03/09/c.ndjson: ")
	wantIn(t, do(0, "status", "-o", "json"), `"skipped_objects":[{"key":"2026/11/30/03/10/b.ndjson"`, `"paused_by":"`, `"last_failed":{"pipeline":"p"`)
	wantIn(t, do(0, "plan"), "  paused by ", ": a look at it; no run before `deltad resume`\n")
	wantIn(t, do(0, "plan", "-o", "json"), `"paused":true`)
}

// TestStatusWithoutCurrent says so, and not that there is no index yet.
func TestStatusWithoutCurrent(t *testing.T) {
	t.Parallel()
	dir, _, do := nightly(t)
	if err := os.Remove(filepath.Join(dir, "out/CURRENT")); err != nil {
		t.Fatal(err)
	}
	text := do(0, "status")
	wantIn(t, text, "p: CURRENT is gone although there was a pane: stop the daemons, then `deltad recover --dry-run`\n", "  partitions: 2 covered")
	if strings.Contains(text, "no index yet") {
		t.Error(text)
	}
	wantIn(t, do(0, "status", "-o", "json"), `"current_lost":true`)
	do(0, "recover")
	wantIn(t, do(0, "status"), "p: watermark 2026-11-30T03:10:00Z (data ")
}

// TestStatusWithoutOutput shows what the state store has, and exits with 1.
func TestStatusWithoutOutput(t *testing.T) {
	t.Parallel()
	dir, _, do := nightly(t)
	current := filepath.Join(dir, "out/CURRENT")
	if err := os.WriteFile(current, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := do(1, "status")
	wantIn(t, text, "p: watermark 2026-11-30T03:10:00Z (data ", " as the state store has it: the output cannot be read\n", "deltad: pipeline p: ", "CURRENT")
	wantIn(t, do(1, "status", "-o", "json"), `"watermark":"2026-11-30T03:10:00Z"`, `"output_error":"`)
}

// TestStatusCountsLateObjectsAtOnce, with and without a step that has seen them,
// and once; what the source does not say now is said to be missing.
func TestStatusCountsLateObjectsAtOnce(t *testing.T) {
	t.Parallel()
	dir, config, do := nightly(t)
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(strings.Replace(string(text), "    full: {}\n", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	put := func(key string) {
		t.Helper()
		file := filepath.Join(dir, "in/2026/11/30", filepath.FromSlash(key))
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(`{"id": 9}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wantIn(t, do(0, "status"), "; 0 late objects\n")
	put("02/50/late.ndjson")
	wantIn(t, do(0, "status"), "; 1 late objects\n")
	wantIn(t, do(0, "run", "--once", "--now", "2026-11-30T03:10:40Z"), "1 came late, 2026/11/30/02/50/late.ndjson among them")
	wantIn(t, do(0, "status", "-o", "json"), `"late_objects":1,`)
	put("03/11/a.ndjson")
	wantIn(t, do(0, "status", "-o", "json"), `"late_objects":1,`)
	do(0, "run", "--once", "--now", "2026-11-30T03:11:30Z")
	wantIn(t, do(0, "status", "-o", "json"), `"late_objects":1,`, `"late":1`)

	put("02/51/late.ndjson")
	if err := os.Rename(filepath.Join(dir, "in"), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "in"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantIn(t, do(0, "status", "-o", "json"), `"late_objects":1,"source_error":"`)
	wantIn(t, do(0, "status"), "  the source cannot be asked for more late objects: ")
}
