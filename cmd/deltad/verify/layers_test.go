package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/cmd/deltad/indextest"
	"github.com/deltad/deltad/cmd/deltad/verify"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/layers"
	"github.com/deltad/deltad/sink"
)

// layered is an index without a base whose live pane has two layers over its snapshot, each of which has all that a layer can have. x is in
// both.
func layered(t *testing.T) *indextest.Index {
	t.Helper()
	x := indextest.New(t, false)
	x.Set.Layers = layers.Settings{Above: 1, Most: sink.MaxLayer}
	x.Restart()
	var bulk []string
	for i := range 2000 {
		bulk = append(bulk, indextest.Row(fmt.Sprintf("bulk %04d", i), "03:08", i, sink.Sum([]byte(fmt.Sprint(i)))))
	}
	x.Put("03:00", "a.ndjson", indextest.Row("leaves", "03:00", 1, "first"), indextest.Del("stone leaves", "03:00"))
	x.Put("03:01", "a.ndjson", indextest.Row("leaves later", "03:01", 1, "first"))
	x.Put("03:08", "a.ndjson", append(bulk, indextest.Row("x", "03:08", 1, "first"), indextest.Row("dies", "03:08", 1, "first"), indextest.Row("dies later", "03:08", 1, "first"))...)
	x.Step("03:08", microbatch.Advanced)
	x.Put("03:09", "a.ndjson", indextest.Row("x", "03:09", 1, "second"))
	x.Step("03:09", microbatch.Advanced)
	x.Put("03:10", "a.ndjson", indextest.Row("x", "03:10", 1, "third"), indextest.Row("new", "03:10", 1, "third"), indextest.Del("dies", "03:10"))
	x.Step("03:10", microbatch.Advanced)
	x.Put("03:11", "a.ndjson", indextest.Row("x", "03:11", 1, "fourth"), indextest.Row("newer", "03:11", 1, "fourth"), indextest.Del("dies later", "03:11"))
	x.Step("03:11", microbatch.Advanced)
	if m := x.Live(); m.Top() != 2 || len(m.Files) != 3 || len(m.Tombstones) != 3 || len(m.Left) != 2 {
		t.Fatalf("%d layers: %+v", m.Top()+1, m.DataFiles())
	}
	return x
}

// TestAPaneInLayersPasses, as does one that wrote none of them.
func TestAPaneInLayersPasses(t *testing.T) {
	x := layered(t)
	for i, what := range []string{"layers", "nothing differs", "nothing differs again"} {
		if i > 0 {
			x.Put("03:11", fmt.Sprint("empty ", i, ".ndjson"))
			x.Step("03:11", microbatch.Refined)
		}
		all, ok := checks(t, x, verify.Options{All: true, Recompute: true})
		if !ok {
			t.Errorf("%s: %+v", what, all)
		}
		if got := all[verify.CheckRecompute].Detail; !strings.Contains(got, "3 layers") {
			t.Errorf("%s: recompute says %s", what, got)
		}
	}
}

// TestLayersThatLie: hashes down the chain agree, and what the layers come to is not so.
func TestLayersThatLie(t *testing.T) {
	last := func(files []sink.File) []sink.File { return files[:len(files)-1] }
	for _, tt := range []struct {
		name   string
		change func(*sink.Manifest)
		want   string
	}{
		{"what left is dropped", func(m *sink.Manifest) { m.Left = nil }, verify.CheckKeys},
		{"what left is dropped and counted", func(m *sink.Manifest) { m.Left = nil; m.Counts.Documents += 2; m.Counts.Tombstones++ }, verify.CheckRecompute},
		{"tombstones are dropped", func(m *sink.Manifest) { m.Tombstones = last(m.Tombstones) }, verify.CheckKeys},
		{"documents are dropped", func(m *sink.Manifest) { m.Files = last(m.Files) }, verify.CheckKeys},
		{"documents are dropped and counted", func(m *sink.Manifest) { m.Files = last(m.Files); m.Counts.Documents-- }, verify.CheckRecompute},
		{"layers change places", func(m *sink.Manifest) {
			m.Files[1], m.Files[2] = m.Files[2], m.Files[1]
			m.Files[1].Layer, m.Files[2].Layer = 1, 2
		}, verify.CheckRecompute},
		{"one layer says two things", func(m *sink.Manifest) {
			m.Files[1].Layer = 2
			m.Tombstones[1].Layer, m.Left[0].Layer = 1, 1
		}, verify.CheckManifests},
		{"more documents counted", func(m *sink.Manifest) { m.Counts.Documents++ }, verify.CheckKeys},
		{"fewer tombstones counted", func(m *sink.Manifest) { m.Counts.Tombstones-- }, verify.CheckKeys},
		{"fewer rows", func(m *sink.Manifest) { m.Left[0].Rows-- }, verify.CheckKeys},
		{"another last key", func(m *sink.Manifest) { m.Tombstones[1].MaxKey = []string{"zz"} }, verify.CheckKeys},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := layered(t)
			forge(t, x, tt.change)
			if all, ok := checks(t, x, verify.Options{All: true, Recompute: true}); ok || !slices.Contains(failing(all), tt.want) {
				t.Errorf("failing %v, want %s: %+v", failing(all), tt.want, all)
			}
		})
	}
}

// TestAFileOfALayerIsGone: of a layer below the pane's own.
func TestAFileOfALayerIsGone(t *testing.T) {
	x := layered(t)
	m := x.Live()
	for _, f := range []sink.File{m.Files[0], m.Files[1], m.Left[0]} {
		body := read(t, x.Out, f.Key)
		if err := x.Out.Delete(t.Context(), f.Key); err != nil {
			t.Fatal(err)
		}
		if all, ok := checks(t, x, verify.Options{}); ok || !slices.Equal(failing(all), []string{verify.CheckFiles}) {
			t.Errorf("%s is gone: failing %v: %+v", f.Key, failing(all), all)
		}
		write(t, x.Out, f.Key, body)
	}
}
