package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/app"
	"github.com/deltad/deltad/microbatch/combine/combinetest"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store/file"
)

// TestLaws is the test that every fn of a program's own should have.
func TestLaws(t *testing.T) {
	if err := combinetest.CheckBuilder(bitOr(), nil, 1); err != nil {
		t.Error(err)
	}
}

// built builds this program as its users do.
func built(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bitor")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// run runs a program and returns its exit code.
func run(t *testing.T, program string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// stock is deltad itself, which is app.Main without combine fns.
func stock(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = app.Run(t.Context(), app.Options{Args: args, Stdout: &o, Stderr: &e})
	return code, o.String(), e.String()
}

// world is a directory with a source of three partitions and a configuration.
func world(t *testing.T) (config, output string) {
	t.Helper()
	dir := t.TempDir()
	now := time.Now().UTC().Truncate(time.Minute)
	files := map[string]string{"ads.yaml": strings.ReplaceAll(`
state: {url: "sqlite://DIR/state.db"}
pipelines:
  ads:
    source: {url: "file://DIR/raw", layout: "%Y/%m/%d/%H/%M", format: ndjson}
    window: {size: 1h}
    index:
      key: [ad]
      fields:
        violations: {bit_or: flags}
        lately: {bit_or: flags, over: 10m}
        severe: {bit_or: flags, where: "severity > 2"}
        by_country: {collect: {by: country, fields: {violations: {bit_or: flags}}}}
        clean: {expr: "violations == 0"}
    output: {url: "file://DIR/out"}
`, "DIR", dir)}
	for minute, text := range map[int]string{
		30: `{"ad":"a","flags":1,"severity":1,"country":"de"}
{"ad":"a","flags":6,"severity":3,"country":"fr"}
{"ad":"b","flags":0,"severity":1,"country":"de"}
{"ad":"c","flags":null,"severity":1,"country":"de"}
`,
		20: `{"ad":"a","flags":2,"severity":1,"country":"de"}` + "\n",
		2:  `{"ad":"a","flags":-9223372036854775808,"severity":1,"country":"fr"}` + "\n",
	} {
		files[now.Add(-time.Duration(minute)*time.Minute).Format("raw/2006/01/02/15/04/x.ndjson")] = text
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "ads.yaml"), filepath.Join(dir, "out")
}

// TestProgram: this program publishes what the fn computes, deltad itself says
// what it lacks.
func TestProgram(t *testing.T) {
	mine := built(t)
	config, output := world(t)

	code, out, _ := stock(t, "check", "-c", config)
	for _, field := range []string{"violations", "lately", "severe", "by_country.collect.fields.violations"} {
		if code != 2 || !strings.Contains(out, "pipelines.ads.index.fields."+field+": must have a combine fn that exists") || !strings.Contains(out, "got bit_or") {
			t.Errorf("deltad itself: exit %d, nothing of %s: %s", code, field, out)
		}
	}
	if code, _, errs := stock(t, "run", "--once", "-c", config); code != 2 || !strings.Contains(errs, "index.fields.violations") || !strings.Contains(errs, "got bit_or") {
		t.Errorf("deltad itself runs it: exit %d: %s", code, errs)
	}
	if _, err := os.Stat(output); err == nil {
		t.Error("deltad itself has published something")
	}

	if code, out, errs := run(t, mine, "run", "--once", "-c", config, "--log-level", "error"); code != 0 {
		t.Fatalf("run: exit %d: %s%s", code, out, errs)
	}
	for key, want := range map[string]string{
		"a": fmt.Sprintf(`"violations":%d,"lately":%d,"severe":6,"by_country":[{"country":"de","violations":3},{"country":"fr","violations":%d}],"clean":false`,
			-1<<63|7, -1<<63, -1<<63|6),
		"b": `"violations":0,"lately":null,"severe":null,"by_country":[{"country":"de","violations":0}],"clean":true`,
		"c": `"violations":null,"lately":null,"severe":null,"by_country":[{"country":"de","violations":null}],"clean":null`,
	} {
		if got := document(t, output, key); !strings.Contains(got, want) {
			t.Errorf("%s: %s\nwant %s", key, got, want)
		}
	}
	for _, command := range []string{"verify --recompute --all", "explain a", "plan", "status", "diff live live"} {
		if code, out, errs := run(t, mine, append(strings.Fields(command), "-c", config, "--log-level", "error")...); code != 0 {
			t.Errorf("%s: exit %d: %s%s", command, code, out, errs)
		}
	}
}

// document reads a document as readers do, who need not know how it was made.
func document(t *testing.T, output, key string) string {
	t.Helper()
	st, err := file.New(output)
	if err != nil {
		t.Fatal(err)
	}
	r := reader.Open(st, reader.Options{})
	if _, err := r.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	doc, found, err := r.Snapshot().Get(t.Context(), key)
	if err != nil || !found {
		t.Fatalf("document %s: found %t, %v", key, found, err)
	}
	text, err := doc.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
