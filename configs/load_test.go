package configs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/combine"
)

// pipelineText is a valid configuration with lines added to the pipeline.
func pipelineText(lines ...string) string {
	text := `state: {url: sqlite:///state.db}
pipelines:
  p:
    source: {url: file:///in, layout: "%Y/%m/%d/%H/%M", format: ndjson}
    window: {size: 1h}
    output: {url: file:///out}
`
	for _, l := range lines {
		text += "    " + l + "\n"
	}
	if !strings.Contains(text, "index:") {
		text += "    index: {key: [id], fields: {n: {count: \"*\", over: 1h}}}\n"
	}
	return text
}

func read(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Read(strings.NewReader(text), "test.yaml", testEnv)
	if err != nil {
		t.Fatalf("read:\n%v\nof\n%s", err, text)
	}
	return c
}

func readPipeline(t *testing.T, lines ...string) *Pipeline {
	t.Helper()
	return read(t, pipelineText(lines...)).Pipelines[0]
}

func TestExpand(t *testing.T) {
	for _, c := range []struct{ name, text, want, err string }{
		{name: "plain", text: "abc", want: "abc"},
		{name: "set", text: "a${SET}b", want: "avalueb"},
		{name: "empty", text: "${EMPTY}", want: ""},
		{name: "default of unset", text: "${NO:-x y}", want: "x y"},
		{name: "default of empty", text: "${EMPTY:-x}", want: "x"},
		{name: "default not needed", text: "${SET:-x}", want: "value"},
		{name: "empty default", text: "${NO:-}", want: ""},
		{name: "escape", text: "$${SET} $$", want: "${SET} $"},
		{name: "dollar alone", text: "cost $5 $", want: "cost $5 $"},
		{name: "not expanded again", text: "${NO:-$SET}", want: "$SET"},
		{name: "missing", text: "${NO}", err: "environment variable NO must be set"},
		{name: "open", text: "${SET", err: "must close ${ with }"},
		{name: "no name", text: "${}", err: "must name a variable as ${NAME} or ${NAME:-default} (write $${ for a plain ${), got ${}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := expand(c.text, testEnv)
			if msg := fmt.Sprint(err); (c.err == "") != (err == nil) || err != nil && msg != c.err {
				t.Fatalf("error: got %v, want %q", err, c.err)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestVariablesCannotBecomeStructure(t *testing.T) {
	c := read(t, "admin: {listen: '${INJECT}'}\nstate:\n  url: ${INJECT}\n")
	if want := "x\nadmin: {listen: evil}"; c.Admin.Listen != want || c.State.URL != want {
		t.Errorf("got %q and %q, want %q in both", c.Admin.Listen, c.State.URL, want)
	}
}

func TestVariablesTakeTheTypeOfTheSetting(t *testing.T) {
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"N": "4", "B": "true", "D": "2h", "A": "auto"}[name]
		return v, ok
	}
	text := "limits: {workers: '${N}', memory: '${A}'}\n" + pipelineText(`trigger: {timeout: "${D}"}`, `index: {key: [id], fields: {a: {set: x, cap: "${N}"}, b: {set: x, cap: 4}}}`) + "    errors:\n      skip_after: ${N}\n"
	c, err := Read(strings.NewReader(text), "t", env)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Pipelines[0]
	if c.Limits.Workers != 4 || c.Limits.Memory != 0 || p.Trigger.Timeout != 2*time.Hour || p.Errors.SkipAfter != 4 {
		t.Errorf("got %+v, %+v", c.Limits, p)
	}
	if a, b := p.Index.Fields[0].Params["cap"], p.Index.Fields[1].Params["cap"]; a != "4" || b != int64(4) {
		t.Errorf("quoted parameter: got %#v, plain one %#v", a, b)
	}
}

func TestDefaultsAreFilledIn(t *testing.T) {
	p := readPipeline(t)
	want := DefaultPipeline("p")
	want.Source.URL, want.Source.Layout, want.Source.Format = "file:///in", "%Y/%m/%d/%H/%M", FormatNDJSON
	want.Window.Size = time.Hour
	want.Output.URL = "file:///out"
	want.Trigger.Every = 30 * time.Second
	want.Index.Key = []string{"id"}
	want.Index.Fields = []Field{{Name: "n", Fn: FnCount, Star: true, Over: time.Hour, OverSet: true}}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got\n%+v\nwant\n%+v", p, want)
	}
	if cron := readPipeline(t, `trigger: {cron: "0 * * * *"}`); cron.Trigger.Every != 0 {
		t.Errorf("every beside cron: got %s", cron.Trigger.Every)
	}
	if full := readPipeline(t, "full: {}").Full; !reflect.DeepEqual(full, DefaultFull()) {
		t.Errorf("empty full: got %+v", full)
	}
	if full := readPipeline(t, "full:").Full; full != nil {
		t.Errorf("full with nothing: got %+v", full)
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Field
	}{
		{name: "star", text: `{count: "*"}`, want: Field{Fn: "count", Star: true}},
		{name: "column", text: `{count: a}`, want: Field{Fn: "count", Columns: []string{"a"}}},
		{name: "columns", text: `{arg_max: [a, b]}`, want: Field{Fn: "arg_max", Columns: []string{"a", "b"}}},
		{name: "options", text: `{over: all, where: "x > 1", optional: true, nulls: keep, latest: a}`, want: Field{
			Fn: "latest", Columns: []string{"a"}, OverSet: true, Where: "x > 1", Optional: true, NullsKeep: true}},
		{name: "parameter before the fn", text: `{cap: 100, set: a}`, want: Field{Fn: "set", Columns: []string{"a"}, Params: map[string]any{"cap": int64(100)}}},
		{name: "parameters named as fns", text: `{max: 10, min: -1.5, histogram: a}`, want: Field{
			Fn: "histogram", Columns: []string{"a"}, Params: map[string]any{"max": int64(10), "min": -1.5}}},
		{name: "a fn of the user's own", text: `{sketch: a, bits: 12, seed: "7", log: true, at: [1, x]}`, want: Field{
			Fn: "sketch", Columns: []string{"a"}, Params: map[string]any{"bits": int64(12), "seed": "7", "log": true, "at": []any{int64(1), "x"}}}},
		{name: "expr", text: `{expr: "a ? b : nil"}`, want: Field{Fn: "expr", Expr: "a ? b : nil"}},
		{name: "collect", text: `{collect: {by: ad, delete_when: "gone", fields: {z: {latest: z}, a: {sum: a}}}, over: 2h}`, want: Field{
			Fn: "collect", By: []string{"ad"}, DeleteWhen: "gone", Over: 2 * time.Hour, OverSet: true,
			Fields: []Field{{Name: "z", Fn: "latest", Columns: []string{"z"}}, {Name: "a", Fn: "sum", Columns: []string{"a"}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Name = "f"
			p := readPipeline(t, "index: {key: id, fields: {f: "+c.text+"}}")
			if got := p.Index.Fields; len(got) != 1 || !reflect.DeepEqual(got[0], c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if !slices.Equal(p.Index.Key, []string{"id"}) {
				t.Errorf("key: got %v", p.Index.Key)
			}
		})
	}
}

// The keys of a field are told apart by the names of built-in fns: each must be
// known here, and none may be the option of another that reads like a column.
func TestBuiltinsAreThoseOfCombine(t *testing.T) {
	for name := range combine.Builtins() {
		if !slices.Contains(builtins(), name) {
			t.Errorf("lacks %s", name)
		}
	}
	for _, name := range builtins() {
		if reason, refused := combine.Refused(name); refused {
			t.Errorf("has %s, which is refused: %s", name, reason)
		}
	}
}

func TestWhatACombineFnIsGiven(t *testing.T) {
	p := readPipeline(t, `index: {key: id, fields: {a: {set: x, cap: 3, nulls: keep}, b: {count: "*"}, c: {collect: {by: [y], fields: {z: {latest: z}}}}, d: {expr: "b"}}}`)
	for i, want := range []string{"[x] map[cap:3 nulls:keep]", "[*] map[]", "[y] map[]", "[] map[]"} {
		if f := p.Index.Fields[i]; fmt.Sprint(f.Args(), f.Options()) != want {
			t.Errorf("%s: got %v %v, want %s", f.Name, f.Args(), f.Options(), want)
		}
	}
	if len(p.Index.Fields[0].Params) != 1 {
		t.Errorf("parameters after Options: got %v", p.Index.Fields[0].Params)
	}
}

func TestEventTime(t *testing.T) {
	for text, want := range map[string]EventTime{
		"at":                        {Column: "at"},
		"{column: ts, unit: ms}":    {Column: "ts", Unit: UnitMillis},
		"{column: offer.at}":        {Column: "offer.at"},
		"\n        column: block\n": {Column: "block"},
	} {
		p := readPipeline(t, "index:", "  key: id", "  fields: {n: {count: a}}", "  event_time: "+text)
		if p.Index.EventTime != want {
			t.Errorf("%s: got %+v, want %+v", text, p.Index.EventTime, want)
		}
	}
}

func TestHostileText(t *testing.T) {
	many := "pipelines: {p: {index: {fields: {\n  f0: &f0 {latest: x}"
	for i := 1; i < 8; i++ {
		many += fmt.Sprintf(",\n  f%d: &f%d {collect: {by: x, fields: {", i, i)
		for j := range 8 {
			many += fmt.Sprintf("a%d: *f%d, ", j, i-1)
		}
		many += "}}}"
	}
	many += "}}}}\n"
	for _, c := range []struct{ name, text, want string }{
		{"open brackets", strings.Repeat("[", 1<<18), "must not nest deeper than 64"},
		{"nested lists", strings.Repeat("- ", 1<<17), "must not nest deeper than 64"},
		{"nested keys", strings.Repeat("? ", 1<<17), "must not nest deeper than 64"},
		{"alias of itself", "admin: &a {listen: *a}", "must refer to an anchor defined above"},
		{"fields within themselves", "pipelines: {p: {index: {fields: {a: &f {collect: {by: x, fields: {a: *f, b: *f}}}}}}}", "must refer to an anchor defined above"},
		{"fields of fields of fields", many, "must not hold more than 200000 values"},
		{"control characters", `admin: {listen: "a\u0007b"}`, "must be UTF-8 text without control characters"},
		{"not UTF-8", "admin: {listen: \"a\xffb\"}", "must"},
		{"null key", "? \n: x", "must"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.text), "t", nil)
			var ps Problems
			if !errors.As(err, &ps) || !strings.Contains(err.Error(), c.want) && c.want != "must" {
				t.Errorf("got %.300v, want %q", err, c.want)
			}
		})
	}
	if _, err := Read(strings.NewReader(strings.Repeat("#", maxFile+1)), "big", nil); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("large file: got %v", err)
	}
}

func TestHarmlessText(t *testing.T) {
	for name, text := range map[string]string{
		"byte order mark":  "\ufeffadmin: {listen: ''}\n",
		"carriage returns": "admin:\r\n  listen: ''\r\n",
		"document marks":   "%YAML 1.2\n---\nadmin: {listen: ''}\n...\n",
		"comments":         "# a\nadmin: # b\n  # c\n  listen: '' # d\n",
		"aliases":          "cache: {dir: &d ''}\nadmin: {listen: *d}\n",
		"trailing comma":   "admin: {listen: '', }\n",
	} {
		t.Run(name, func(t *testing.T) {
			if c := read(t, text); c.Admin.Listen != "" {
				t.Errorf("got %+v", c.Admin)
			}
		})
	}
	for _, text := range []string{"", "\n", "# nothing\n", "---\n", "{}", "~"} {
		if c := read(t, text); !reflect.DeepEqual(c, Default()) {
			t.Errorf("%q: got %+v, want the defaults", text, c)
		}
	}
}

func TestMissingFileIsNoProblemOfText(t *testing.T) {
	_, err := LoadValid(filepath.Join(t.TempDir(), "none.yaml"), nil, Fns{})
	var ps Problems
	if !errors.Is(err, os.ErrNotExist) || errors.As(err, &ps) {
		t.Errorf("got %v", err)
	}
}

func TestProblemsOfTextNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("\n  admni: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path, nil)
	if want := path + ":2:3: admni: unknown key (did you mean admin?)"; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, path, want, warning, err string
	}{
		{name: "not set"},
		{name: "trimmed", path: write("a", " s3cret \n", 0o600), want: "s3cret"},
		{name: "read by everybody", path: write("b", "s3cret", 0o644), want: "s3cret", warning: "everybody on this machine may read"},
		{name: "empty", path: write("c", "\n", 0o600), err: "must hold a secret"},
		{name: "missing", path: filepath.Join(dir, "none"), err: "state.password_file: read secret"},
		{name: "a directory", path: dir, err: "must be a regular file"},
		{name: "too large", path: write("d", strings.Repeat("x", maxSecret+1), 0o600), err: "must be a regular file of at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, warning, err := State{PasswordFile: c.path}.Password()
			if got != c.want || !strings.Contains(warning, c.warning) || (c.warning == "") != (warning == "") {
				t.Errorf("got %q, %q", got, warning)
			}
			if (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error: got %v, want %q", err, c.err)
			}
			for _, text := range []string{warning, fmt.Sprint(err)} {
				if strings.Contains(text, "s3cret") {
					t.Errorf("the secret is shown: %s", text)
				}
			}
		})
	}
	token, _, err := Admin{TokenFile: write("t", "token", 0o600)}.Token()
	if token != "token" || err != nil {
		t.Errorf("token: got %q, %v", token, err)
	}
}

func TestPasswordsAreNotShown(t *testing.T) {
	for _, url := range []string{"postgres://u:s3cret@%zz/d", "mysql://u:s3cret@h/d", "postgres://u:s3cret@h/d", "u:s3cret@h"} {
		c := read(t, pipelineText())
		c.State.URL = url
		if text := fmt.Sprint(c.Validate(Fns{}), c.Warnings()); strings.Contains(text, "s3cret") {
			t.Errorf("%s: got %s", url, text)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, pattern := range []string{"examples/*.yaml", "testdata/*.bad.yml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("seeds: %v, %v", files, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Read(strings.NewReader(string(data)), "fuzz", testEnv)
		if err != nil && err.Error() == "" {
			t.Fatal("an error without a word")
		}
		if c == nil {
			return
		}
		invalid := c.Validate(testFns())
		_ = c.Warnings()
		for _, p := range c.Pipelines {
			if h := Hash(p); len(h) != 64 {
				t.Fatalf("hash: got %q", h)
			}
			lines := Explain(p)
			if err == nil && invalid == nil && p.WindowMax() < p.Reach() {
				t.Fatalf("window.max %s is below the reach %s\n%s", p.WindowMax(), p.Reach(), strings.Join(lines, "\n"))
			}
		}
	})
}
