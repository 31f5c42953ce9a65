package configs

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// documented returns the keys of the tables in docs/configuration.md with
// what stands in their default column.
func documented(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("`([^`]+)`")
	keys := make(map[string]string)
	for _, line := range strings.Split(string(data), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		for _, m := range code.FindAllStringSubmatch(cells[1], -1) {
			if strings.Contains(m[1], ".") { // the others are options of a field
				keys[m[1]] = strings.TrimSpace(cells[2])
			}
		}
	}
	return keys
}

// leaves lists the settings of a struct with their values, in the words of the
// file.
func leaves(v reflect.Value, path string, out map[string]string) {
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		f := v.Field(i)
		at := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case option == "inline":
			leaves(f, path, out)
		case name == "" || name == "-" || name == "pipelines":
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
			leaves(f.Elem(), at, out)
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[time.Time]() && f.Type() != reflect.TypeFor[EventTime]():
			leaves(f, at, out)
		case f.IsZero() && option != "":
			out[at] = option
		case f.IsZero() && (f.Kind() == reflect.String || f.Kind() == reflect.Slice || f.Kind() == reflect.Map || f.Kind() == reflect.Pointer || f.Kind() == reflect.Struct):
			out[at] = ""
		case f.Type() == reflect.TypeFor[time.Duration]():
			out[at] = FormatDuration(time.Duration(f.Int()))
		default:
			out[at] = fmt.Sprint(f.Interface())
		}
	}
}

func defaults() map[string]string {
	out := make(map[string]string)
	leaves(reflect.ValueOf(Default()).Elem(), "", out)
	p := DefaultPipeline("p")
	p.fill()
	p.Full = DefaultFull()
	leaves(reflect.ValueOf(p).Elem(), "", out)
	return out
}

func TestDocumentationNamesEveryKeyAndItsDefault(t *testing.T) {
	docs, code := documented(t), defaults()
	for _, key := range sortedKeys(code) {
		got, ok := docs[key]
		want := "`" + code[key] + "`"
		switch {
		case !ok:
			t.Errorf("docs/configuration.md lacks %s", key)
		case code[key] == "" || (code[key] == "0s" && !strings.HasPrefix(got, "`")):
			if strings.HasPrefix(got, "`") && got != want {
				t.Errorf("%s: documented default %s, in the code there is none", key, got)
			}
		case got != want:
			t.Errorf("%s: documented default %q, want %s", key, got, want)
		}
	}
	for _, key := range sortedKeys(docs) {
		if _, ok := code[key]; !ok {
			t.Errorf("docs/configuration.md has %s, which is no key", key)
		}
	}
	if len(code) < 50 {
		t.Errorf("keys in the code: got %d", len(code))
	}
}

// The document calls required what Validate misses in an empty pipeline.
func TestDocumentationNamesWhatIsRequired(t *testing.T) {
	c := Default()
	p := DefaultPipeline("p")
	p.fill()
	c.Pipelines = []*Pipeline{p}
	var missing []string
	var problems Problems
	if !errors.As(c.Validate(Fns{}), &problems) {
		t.Fatal("an empty pipeline has no problem")
	}
	for _, m := range problems {
		missing = append(missing, strings.TrimPrefix(m.Path, "pipelines.p."))
	}
	slices.Sort(missing)
	var want []string
	for key, text := range documented(t) {
		if text == "required" {
			want = append(want, key)
		}
	}
	slices.Sort(want)
	if !slices.Equal(missing, want) {
		t.Errorf("required in the code: %v\nin the document: %v", missing, want)
	}
}

func TestDocumentedExampleLoads(t *testing.T) {
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "```yaml\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("no example in the document")
	}
	if err := read(t, text).Validate(testFns()); err != nil {
		t.Error(err)
	}
}

// TestExamplesOfCombineFnsLoad: the examples of docs/combiners.md are fields.
func TestExamplesOfCombineFnsLoad(t *testing.T) {
	data, err := os.ReadFile("../docs/combiners.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(data), "```yaml\n")[1:]
	if len(blocks) < 5 {
		t.Fatalf("%d examples", len(blocks))
	}
	for _, b := range blocks {
		text, _, _ := strings.Cut(b, "```")
		field := "        " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n        ")
		whole := pipelineText("index:\n      key: [id]\n      fields:\n" + field)
		if err := read(t, whole).Validate(testFns()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
