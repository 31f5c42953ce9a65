//go:build integration

package reading

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/binary"
	"github.com/deltad/deltad/e2e/duck"
)

// manifest is of a pane, as a reader that shares no code with deltad sees it.
type manifest struct {
	Format string                          `json:"format"`
	RunID  string                          `json:"run_id"`
	Reason string                          `json:"reason"`
	Files  []layerFile                     `json:"files"`
	Stones []layerFile                     `json:"tombstones"`
	Left   []layerFile                     `json:"left"`
	Inputs []input                         `json:"inputs"`
	Base   *struct{ Generation string }    `json:"base"`
	Counts struct{ Documents, Left int64 } `json:"counts"`
}

type input struct{ Key string }

type layerFile struct {
	Key   string `json:"key"`
	Layer int    `json:"layer"`
}

func (m manifest) all() []layerFile { return slices.Concat(m.Files, m.Stones, m.Left) }

func (m manifest) top() (top int) {
	for _, f := range m.all() {
		top = max(top, f.Layer)
	}
	return top
}

// layeredRig is a daemon whose panes are in layers, worked on by command lines,
// and what its index is to have.
type layeredRig struct {
	*rig
	daemon  *binary.Process
	want    map[string]int // clicks by item
	minute  int
	objects int
}

func newLayered(t *testing.T) *layeredRig {
	t.Helper()
	r := &layeredRig{rig: &rig{t: t, dir: t.TempDir(), start: time.Now().UTC().Truncate(time.Hour).Add(-6 * time.Hour)}, want: map[string]int{}}
	text := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
admin: {listen: "127.0.0.1:0"}
pipelines:
  items:
    source: {url: "file://%[1]s/in", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    trigger: {every: 1s}
    window: {size: 10m}
    index:
      key: [item]
      event_time: at
      delete_when: "op == 'D'"
      fields:
        clicks: {sum: clicks, over: all}
        title: {latest: title, over: all}
    full: {promote: manual, support_previous_for: 0s}
    output: {url: "file://%[1]s/out", layers: {above: 4KiB}, retain: {for: 1s, panes: 2, bases: 2}}
`, r.dir)
	if err := os.WriteFile(filepath.Join(r.dir, "deltad.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r.run()
	return r
}

// run starts the daemon.
func (r *layeredRig) run() {
	r.t.Helper()
	r.daemon = binary.Start(r.t, exec.CommandContext(context.Background(), deltad, "run", "-c", filepath.Join(r.dir, "deltad.yaml"), "--log-level", "warn"))
}

// change is what becomes of an item: clicks more, or its end.
type change struct {
	item   string
	clicks int
	dies   bool
}

// publish drops an object into the partition that comes so many minutes after
// the last, and waits for the pane that has read it.
func (r *layeredRig) publish(after int, changes ...change) manifest {
	r.t.Helper()
	r.minute += after
	at := r.start.Add(time.Duration(r.minute) * time.Minute)
	var body strings.Builder
	for _, c := range changes {
		op := "U"
		if c.dies {
			op = "D"
		}
		fmt.Fprintf(&body, `{"item":%q,"at":%q,"op":%q,"clicks":%d,"title":%q}`+"\n", c.item, at.Format(time.RFC3339), op, c.clicks, strings.Repeat(c.item, 3))
	}
	dir := filepath.Join(r.dir, "in", at.Format("2006/01/02/15/04"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	r.objects++
	name := fmt.Sprintf("%04d.ndjson", r.objects)
	hidden := filepath.Join(dir, "_"+name) // a step must not read half of it
	err := os.WriteFile(hidden, []byte(body.String()), 0o600)
	if err == nil {
		err = os.Rename(hidden, filepath.Join(dir, name))
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return r.await(func(m manifest) bool {
		return slices.ContainsFunc(m.Inputs, func(i input) bool { return strings.HasSuffix(i.Key, name) })
	})
}

// await waits for a live pane.
func (r *layeredRig) await(is func(manifest) bool) manifest {
	r.t.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(r.dir, "out", "CURRENT")); err != nil {
			continue
		}
		if m := r.live(); is(m) {
			return m
		}
	}
	r.t.Fatalf("no pane came; the last is %+v", r.live())
	return manifest{}
}

// live is the live pane's manifest.
func (r *layeredRig) live() manifest {
	r.t.Helper()
	var c struct{ Delta struct{ Manifest string } }
	var m manifest
	for _, f := range []struct {
		key func() string
		to  any
	}{{func() string { return "CURRENT" }, &c}, {func() string { return c.Delta.Manifest }, &m}} {
		key := f.key()
		if key == "" {
			return manifest{} // no index yet
		}
		b, err := os.ReadFile(filepath.Join(r.dir, "out", key))
		if err == nil {
			err = json.Unmarshal(b, f.to)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return m
}

// there wants all files of a pane to be there.
func (r *layeredRig) there(m manifest) {
	r.t.Helper()
	for _, f := range m.all() {
		if _, err := os.Stat(filepath.Join(r.dir, "out", f.Key)); err != nil {
			r.t.Errorf("run %s: layer %d: %v", m.RunID, f.Layer, err)
		}
	}
}

// says wants the index to have what it is to have, as DuckDB, `get` and
// `verify` read it.
func (r *layeredRig) says(what string, m manifest, top int) {
	r.t.Helper()
	format := "deltad.manifest/1"
	if top > 0 {
		format = "deltad.manifest/2"
	}
	if m.top() != top || m.Format != format {
		r.t.Errorf("%s: a %s of format %s with %d layers over its snapshot, want %d: %+v", what, m.Reason, m.Format, m.top(), top, m)
	}
	var ls struct {
		SQL string `json:"sql"`
	}
	if err := json.Unmarshal([]byte(r.do("ls", "--sql", "-o", "json")), &ls); err != nil {
		r.t.Fatal(err)
	}
	if got := r.clicks("SELECT item, clicks FROM " + strings.ReplaceAll(ls.SQL, "file://", "") + " x"); !maps.Equal(got, r.want) {
		r.t.Errorf("%s: DuckDB has %v, want %v", what, short(got), short(r.want))
	}
	for _, item := range []string{"changes", "dies", "leaves", "new"} {
		n, there := r.want[item]
		out, err := exec.CommandContext(r.t.Context(), deltad, "get", item, "-c", filepath.Join(r.dir, "deltad.yaml"), "--log-level", "error").Output()
		if (err == nil) != there || there && !strings.Contains(string(out), fmt.Sprintf(`"clicks":%d,`, n)) {
			r.t.Errorf("%s: get %s says %s, %v, want %d, %t", what, item, out, err, n, there)
		}
	}
	r.do("verify", "--recompute") // fails the test where it fails
}

// short is a map without the many items that never change.
func short(m map[string]int) map[string]int {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(item string, _ int) bool { return strings.HasPrefix(item, "bulk") })
	return m
}

func (r *layeredRig) clicks(query string) map[string]int {
	r.t.Helper()
	db, err := duck.Open(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(r.t.Context(), query)
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]int{}
	for _, row := range rows {
		item := row["item"].(string)
		if _, twice := out[item]; twice {
			r.t.Errorf("%s is there twice", item)
		}
		out[item] = int(row["clicks"].(int64))
	}
	return out
}

// bulk are many items, in the partitions of which everything else lies.
func (r *layeredRig) bulk() (out []change) {
	for i := range 2000 {
		c := change{item: fmt.Sprintf("bulk %x", uint64(i+1)*0x9e3779b97f4a7c15), clicks: i}
		out, r.want[c.item] = append(out, c), i
	}
	return out
}

// TestLayers: a daemon whose panes are in layers, through what they have to
// outlive.
func TestLayers(t *testing.T) {
	r := newLayered(t)
	r.want["leaves"], r.want["changes"], r.want["dies"] = 1, 1, 1
	r.publish(0, change{item: "leaves", clicks: 1})
	m := r.publish(6, append(r.bulk(), change{item: "changes", clicks: 1}, change{item: "dies", clicks: 1})...)
	r.says("the first large pane", m, 0)
	r.want["changes"] = 2
	m = r.publish(1, change{item: "changes", clicks: 1})
	r.says("the first pane that is compared", m, 0)
	delete(r.want, "dies")
	r.want["changes"] = 3
	m = r.publish(1, change{item: "dies", dies: true}, change{item: "changes", clicks: 1})
	r.says("a key is deleted", m, 1)
	delete(r.want, "leaves")
	r.want["new"] = 4
	m = r.publish(2, change{item: "new", clicks: 4})
	r.says("a key leaves", m, 2)
	r.documented(m)

	// A start knows no rows.
	r.daemon.Stop(30 * time.Second)
	r.run()
	r.want["new"] = 5
	m = r.publish(1, change{item: "new", clicks: 1})
	r.says("after a start", m, 0)
	for i := range 4 {
		r.want["new"]++
		m = r.publish(0, change{item: "new", clicks: 1})
		r.says("after it", m, i+1)
	}

	// Two panes are kept, and with them the layers below them.
	r.daemon.Stop(30 * time.Second)
	for range 3 {
		r.do("gc")
	}
	r.there(m)
	r.says("collected", m, 4)
	if n := len(r.runs()); n != 5 {
		r.t.Errorf("data of %d runs is there, want that of the snapshot and of four layers", n)
	}

	r.run()

	// A base in between, then layers over it: what has left the delta is the
	// base's again.
	r.do("rebuild")
	r.do("base", "promote")
	m = r.await(func(m manifest) bool { return m.Base != nil })
	r.want["leaves"] = 1 // the base has read it
	r.says("over a base", m, 0)
	before := m
	r.want["new"] = 100
	m = r.publish(1, change{item: "new", clicks: 100 - 9})
	r.says("a layer over a base", m, 1)
	m = r.publish(20, change{item: "new"})
	r.says("all but one have left the delta", m, 2)
	if m.Counts.Documents != 1 || m.Counts.Left < 2000 || len(m.Left) == 0 {
		r.t.Errorf("%d documents, %d left, in %d files", m.Counts.Documents, m.Counts.Left, len(m.Left))
	}

	// And back across layers.
	r.do("base", "rollback", "--pane", before.RunID, "--reason", "the panes since are to be undone")
	r.want["new"] = 9
	m = r.live()
	if m.Reason != "rollback" || len(m.Files) != len(before.Files) {
		r.t.Errorf("rolled back to %+v, want the files of %+v", m, before)
	}
	r.says("rolled back", m, 0)
}

// runs are the runs whose data is there.
func (r *layeredRig) runs() []string {
	r.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(r.dir, "out", "delta", "*", "*"))
	if err != nil {
		r.t.Fatal(err)
	}
	for i, d := range dirs {
		dirs[i] = filepath.Base(filepath.Dir(d))
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// documented asks the query of docs/format.md.
func (r *layeredRig) documented(m manifest) {
	r.t.Helper()
	root, err := binary.Root()
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "format.md"))
	if err != nil {
		r.t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```sql\n(.*?)```").FindSubmatch(text)
	if found == nil {
		r.t.Fatal("docs/format.md has no query")
	}
	query := string(found[1])
	used := map[string]bool{}
	for _, f := range m.all() {
		from := "delta/" + string(rune('A'+f.Layer)) + "/" + filepath.Base(f.Key)
		if !strings.Contains(query, "'"+from+"'") {
			r.t.Errorf("the query does not read %s: %s", from, query)
		}
		used[from] = true
		query = strings.ReplaceAll(query, "'"+from+"'", "'"+filepath.Join(r.dir, "out", f.Key)+"'")
	}
	if strings.Contains(query, "'delta/") {
		r.t.Errorf("the query reads more than there is, %v: %s", slices.Sorted(maps.Keys(used)), query)
	}
	if got := r.clicks(query); !maps.Equal(got, r.want) {
		r.t.Errorf("the documented query has %v, want %v", short(got), short(r.want))
	}
}
