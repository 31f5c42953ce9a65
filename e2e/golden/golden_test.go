//go:build integration

package golden_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/open"
)

var update = flag.Bool("update", false, "write the hash that the documents have")

const goldenFile = "testdata/documents.sha256"

// setting is how a build is run.
type setting struct{ workers, procs int }

// pane and base are what a pipeline made, as hashes: documents that of values,
// the others those of files, which manifests name.
type pane struct{ documents, files string }

type base struct{ documents, files, accumulators string }

// TestGoldenHash runs every variant by every build and setting; see the package.
func TestGoldenHash(t *testing.T) {
	all := fixture()
	golden := goldenHash(t)
	bases := map[string]base{} // of each architecture
	panes := map[string]pane{}
	for _, b := range builds {
		if b.exec == nil {
			continue // TestNativeBuildRuns says so
		}
		settings, vs := []setting{{8, 4}}, variants()
		switch {
		case b.native():
			settings = []setting{{1, 1}, {8, 4}}
		case b.emulated():
			// A tenth of the speed: of orders every eighth.
			vs = slices.DeleteFunc(vs, func(v variant) bool { return v.order != nil && !strings.HasSuffix(v.name, "7") })
		}
		for n, s := range settings {
			began := time.Now()
			r := b.rig(t, s, vs, all)
			r.run("run", "--once")
			for _, v := range vs {
				got := r.pane(v.name)
				if want, ok := panes[b.arch]; !ok {
					panes[b.arch] = got
				} else if got != want {
					t.Errorf("%s, %+v, %s: %+v, want %+v", b.name, s, v.name, got, want)
				}
			}
			v := vs[(7*n+3)%len(vs)]
			r.run("rebuild", "--pipeline", v.name)
			if got, want := r.base(v.name), bases[b.arch]; want == (base{}) {
				bases[b.arch] = got
			} else if got != want {
				t.Errorf("%s, %+v, base of %s: %+v, want %+v", b.name, s, v.name, got, want)
			}
			t.Logf("%s with %d workers and GOMAXPROCS=%d: %d variants in %.1f s. %s", b.name, s.workers, s.procs, len(vs), time.Since(began).Seconds(), b.why)
		}
	}
	if *update {
		golden = panes[runtime.GOARCH].documents
		if err := os.WriteFile(goldenFile, []byte(golden+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	wantPane, wantBase := panes[runtime.GOARCH], bases[runtime.GOARCH]
	if wantPane.documents != golden || wantBase.documents != golden {
		t.Errorf("the documents have the hash %s, those of the base %s, want %s", wantPane.documents, wantBase.documents, golden)
	}
	for arch, p := range panes {
		if p != wantPane || bases[arch] != wantBase {
			t.Errorf("%s: pane %+v and base %+v, want %+v and %+v", arch, p, bases[arch], wantPane, wantBase)
		}
	}
}

func goldenHash(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(goldenFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// rig is an installation of a build, with a pipeline for each variant.
type rig struct {
	t   *testing.T
	b   *build
	s   setting
	dir string
}

func (b *build) rig(t *testing.T, s setting, vs []variant, all [][]record) *rig {
	t.Helper()
	r := &rig{t, b, s, t.TempDir()}
	names := make([]string, len(vs))
	for i, v := range vs {
		names[i] = v.name
		for path, body := range v.files(t, all) {
			r.write(filepath.Join(v.name, filepath.FromSlash(path)), body)
		}
	}
	r.write("deltad.yaml", []byte(yaml(r.dir, names, s.workers)))
	return r
}

func (r *rig) write(name string, body []byte) {
	r.t.Helper()
	file := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, body, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) run(args ...string) {
	r.t.Helper()
	r.b.run(r.t, r.s.procs, append(args, "-c", filepath.Join(r.dir, "deltad.yaml"))...)
}

// pane reads what a pipeline published.
func (r *rig) pane(name string) pane {
	r.t.Helper()
	st := r.output(name)
	head, err := sink.ReadHead(r.t.Context(), st, "")
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := sink.ReadManifest(r.t.Context(), st, head.Delta.Ref())
	if err != nil {
		r.t.Fatal(err)
	}
	return pane{documents(r.t, st, m), fileHashes(m)}
}

// base reads the only base that a pipeline made.
func (r *rig) base(name string) base {
	r.t.Helper()
	keys, err := filepath.Glob(filepath.Join(r.dir, "out", name, "full", "*", "manifest.json"))
	if err != nil || len(keys) != 1 {
		r.t.Fatalf("manifests of bases: %v, err %v", keys, err)
	}
	body, err := os.ReadFile(keys[0])
	if err != nil {
		r.t.Fatal(err)
	}
	var m sink.Manifest
	if err := json.Unmarshal(body, &m); err != nil {
		r.t.Fatal(err)
	}
	out := base{documents: documents(r.t, r.output(name), m), files: fileHashes(m)}
	for _, f := range m.Full.Accumulators {
		out.accumulators += fmt.Sprintf("%d rows %s ", f.Rows, f.SHA256)
	}
	return out
}

func (r *rig) output(name string) store.Store {
	r.t.Helper()
	st, err := open.Open(r.t.Context(), "file://"+filepath.Join(r.dir, "out", name), open.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// fileHashes are those of the data files, without the names of runs.
func fileHashes(m sink.Manifest) string {
	var parts []string
	for _, f := range m.DataFiles() {
		parts = append(parts, fmt.Sprintf("%s %d rows %s", f.Key[strings.LastIndex(f.Key, "/")+1:], f.Rows, f.SHA256))
	}
	return strings.Join(parts, ", ")
}

// documents hashes the values of a manifest's documents in order, and the keys of
// its tombstones.
func documents(t *testing.T, st store.Store, m sink.Manifest) string {
	t.Helper()
	h := sha256.New()
	for _, f := range m.Schema.Fields {
		h.Write([]byte(f.Name + " " + f.Type + "\n"))
	}
	rows := 0
	err := reader.Pane(t.Context(), st, m, func(b *column.Batch) error {
		for i := range b.Len {
			for _, v := range b.Columns {
				h.Write([]byte(render(v, i) + "\t"))
			}
			h.Write([]byte("\n"))
		}
		rows += b.Len
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if rows < 30 {
		t.Errorf("only %d documents", rows)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// render writes a value so that no two values look alike; of floats every bit.
func render(v *column.Vector, i int) string {
	if v.Null(i) {
		return "null"
	}
	var parts []string
	switch v.Type.Kind {
	case column.List:
		for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
			parts = append(parts, render(v.Elem, int(j)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case column.Struct:
		for _, f := range v.Fields {
			parts = append(parts, render(f, i))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case column.Bool:
		return fmt.Sprint(v.Bools[i])
	case column.Float32, column.Float64:
		return fmt.Sprintf("%016x", math.Float64bits(v.Floats[i]))
	case column.Decimal:
		return v.Decimals[i].Big().String()
	case column.String, column.Bytes:
		return fmt.Sprintf("%q", v.Strings[i])
	case column.Timestamp:
		return fmt.Sprint(v.Ints[i], ".", v.Nanos[i])
	}
	return fmt.Sprint(v.Ints[i])
}
