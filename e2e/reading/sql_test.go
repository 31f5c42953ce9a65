//go:build integration

// Package reading compares what the reading commands say of an index with what
// an engine that shares no code with deltad makes of its files.
package reading

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/binary"
	"github.com/deltad/deltad/e2e/duck"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store/file"
)

// deltad is the binary under test, set once by TestMain.
var deltad string

func TestMain(m *testing.M) {
	os.Exit(binary.Rig{Name: "reading", Builds: map[*string]binary.Build{&deltad: {}}}.Main(m))
}

// rig is a pipeline on files with a full index, worked on by command lines.
type rig struct {
	t     *testing.T
	dir   string
	start time.Time
}

// fields are those of the documents beside the key, of all kinds of types; late
// is added when there is a base already.
var fields = []string{"updates", "clicks", "price", "last", "title", "titles", "offers"}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), start: time.Now().UTC().Truncate(time.Hour).Add(-6 * time.Hour)}
	r.configure("")
	return r
}

// configure writes the configuration, with one more field where it is given.
func (r *rig) configure(more string) {
	r.t.Helper()
	text := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
pipelines:
  items:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    trigger: {every: 1h}
    window: {size: 10m}
    index:
      key: [item, shop]
      event_time: at
      where: "op != 'X'"
      delete_when: "op == 'D'"
      fields:
        updates: {count: "*", over: all}
        clicks: {sum: clicks, over: all}
        price: {mean: price, over: all}
        last: {max: at, over: all}
        title: {latest: title, over: all}
        titles: {set: title, cap: 100, over: all}
        offers: {collect: {by: title, fields: {clicks: {latest: clicks}}}, over: all}
        %[2]s
    full: {promote: manual, support_previous_for: 0s}
    output: {url: "file://%[1]s/out"}
`, r.dir, more)
	if err := os.WriteFile(filepath.Join(r.dir, "deltad.yaml"), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) do(args ...string) string {
	r.t.Helper()
	var o, e bytes.Buffer
	cmd := exec.CommandContext(r.t.Context(), deltad, append(args, "-c", filepath.Join(r.dir, "deltad.yaml"), "--log-level", "error")...)
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("deltad %v: %v: %s%s", args, err, &o, &e)
	}
	return o.String()
}

// put drops an object into the partition of a minute: a line for each item,
// which says what becomes of it.
func (r *rig) put(minute int, items map[string]string) {
	r.t.Helper()
	at := r.start.Add(time.Duration(minute) * time.Minute)
	dir := filepath.Join(r.dir, "in", at.Format("2006/01/02/15/04"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	var body bytes.Buffer
	for i, item := range slices.Sorted(maps.Keys(items)) {
		fmt.Fprintf(&body, `{"item":%q,"shop":%d,"at":%q,"op":%q,"clicks":%d,"price":%d.5,"title":%q}`+"\n",
			item, len(item)%3, at.Add(time.Duration(i)*time.Second).Format(time.RFC3339), items[item], minute+i, i, fmt.Sprintf("t%d of %s", minute%3, strings.ToUpper(item)))
	}
	if err := os.WriteFile(filepath.Join(dir, "a.ndjson"), body.Bytes(), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// all is what every item becomes.
func all(what string, items ...string) map[string]string {
	out := map[string]string{}
	for _, i := range items {
		out[i] = what
	}
	return out
}

// TestSQLIsWhatTheReaderSays: DuckDB over `ls --sql` has exactly the reader's
// documents, whatever delta and base consist of.
func TestSQLIsWhatTheReaderSays(t *testing.T) {
	r := newRig(t)
	items := []string{"a", "b", "o'clock", `"quoted"`, "ü=%:+ x", "zz"}
	for i := len(items); i < 40; i++ {
		items = append(items, fmt.Sprintf("item %02d", i))
	}
	for _, step := range []struct {
		name string
		do   func()
		want int
		sql  string // part of the expression
	}{
		{"without a base", func() {
			r.put(1, all("U", items...))
			r.do("run", "--once")
		}, 40, "read_parquet"},
		{"a base and a delta of the same keys", func() {
			r.do("rebuild")
			r.do("base", "promote")
		}, 40, "NOT EXISTS"},
		{"a delta of no documents", func() {
			r.put(61, all("X", "filtered"))
			r.do("trigger")
		}, 40, "WHERE false"},
		{"tombstones alone", func() {
			r.put(121, all("D", "a", "o'clock", "never there"))
			r.do("trigger")
		}, 38, "WHERE false"},
		{"documents alone", func() {
			r.do("rebuild")
			r.do("base", "promote")
			r.put(181, all("U", "zz", "new"))
			r.do("trigger")
		}, 39, "NOT EXISTS"},
		{"documents and tombstones", func() {
			m := all("U", "a", "new", "newer")
			m["b"] = "D"
			r.put(190, m)
			r.do("trigger")
		}, 40, "tombstones-00000"},
		{"a field that the base does not have", func() {
			r.configure(`late: {max: clicks, over: all}`)
			r.do("trigger")
		}, 40, "NOT EXISTS"},
	} {
		t.Run(step.name, func(t *testing.T) {
			r.t = t
			step.do()
			r.compare(step.want, step.sql)
		})
	}
}

// compare asks DuckDB and the reader for all documents.
func (r *rig) compare(want int, sql string) {
	r.t.Helper()
	var ls struct {
		SQL      string `json:"sql"`
		Manifest string `json:"manifest"`
	}
	if err := json.Unmarshal([]byte(r.do("ls", "--sql", "-o", "json")), &ls); err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(ls.SQL, sql) {
		r.t.Errorf("no %s in %s", sql, ls.SQL)
	}
	st, err := file.New(filepath.Join(r.dir, "out"))
	if err != nil {
		r.t.Fatal(err)
	}
	rd := reader.Open(st, reader.Options{})
	if _, err := rd.Poll(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	documents := map[string]any{}
	var columns []string
	for _, f := range rd.Snapshot().Fields() {
		columns = append(columns, f.Name)
	}
	for d, err := range rd.Snapshot().All(r.t.Context()) {
		if err != nil {
			r.t.Fatal(err)
		}
		b, err := d.MarshalJSON()
		if err != nil {
			r.t.Fatal(err)
		}
		doc := decode(r.t, string(b))
		for _, c := range columns {
			if _, ok := doc[c]; !ok {
				doc[c] = nil // the base lacks it
			}
		}
		documents[strings.Join(d.Key(), "|")] = doc
	}
	got := r.asked(ls.SQL, columns)
	if len(documents) != want || !reflect.DeepEqual(got, documents) {
		r.t.Errorf("%s: DuckDB has %d documents, the reader %d, want %d\n%v\n%v", ls.Manifest, len(got), len(documents), want, got, documents)
	}
}

// asked are the documents that DuckDB finds, in the reader's spelling.
func (r *rig) asked(expression string, columns []string) map[string]any {
	r.t.Helper()
	if !slices.Equal(columns[:9], append([]string{"item", "shop"}, fields...)) {
		r.t.Fatalf("columns %v", columns)
	}
	db, err := duck.Open(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = fmt.Sprintf("'%s': %s", c, c)
	}
	rows, err := db.Query(r.t.Context(), fmt.Sprintf("SELECT item, shop, CAST(to_json({%s}) AS VARCHAR) doc FROM %s x", strings.Join(parts, ", "), strings.ReplaceAll(expression, "file://", "")))
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]any{}
	for _, row := range rows {
		key := fmt.Sprintf("%v|%v", row["item"], row["shop"])
		if _, twice := out[key]; twice {
			r.t.Errorf("%s is there twice", key)
		}
		text, ok := row["doc"].(string)
		if !ok {
			r.t.Fatalf("%s is a %T", key, row["doc"])
		}
		out[key] = decode(r.t, text)
	}
	return out
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}
