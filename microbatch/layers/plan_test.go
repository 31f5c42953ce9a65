package layers_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/layers"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
)

// live is a pane of a snapshot of whole bytes and layers of so many each.
func live(whole int64, over ...int64) sink.Manifest {
	m := sink.Manifest{
		Kind: sink.Delta, Reason: sink.Publish, Parent: &sink.Ref{Manifest: "before"}, Schema: sink.Schema{Hash: "columns"}, ConfigHash: "config",
		Files: []sink.File{{Key: "s", Bytes: whole}}, Counts: sink.Counts{Documents: 1000, New: 1, Changed: 8, Left: 1},
		Base: &sink.ManifestBase{Generation: "g", Manifest: "full/g", SHA256: "h"}, Pending: []string{"late"},
	}
	for i, n := range over {
		// The tombstones and what left count as well.
		m.Files = append(m.Files, sink.File{Key: "f", Layer: i + 1, Bytes: n - 2})
		m.Tombstones = append(m.Tombstones, sink.File{Key: "t", Layer: i + 1, Bytes: 1})
		m.Left = append(m.Left, sink.File{Key: "l", Layer: i + 1, Bytes: 1})
	}
	return m
}

// next is the pane after it.
func next(m sink.Manifest) sink.Manifest {
	m.Files, m.Tombstones, m.Left, m.Counts = nil, nil, nil, sink.Counts{}
	return m
}

func many(n int, bytes int64) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = bytes
	}
	return out
}

func TestDecide(t *testing.T) {
	const mib = 1 << 20
	settings := layers.Settings{Above: 64 * mib, Most: 20}
	for _, tc := range []struct {
		name  string
		live  sink.Manifest
		next  func(m *sink.Manifest)
		alive func(m *sink.Manifest)
		set   func(s *layers.Settings)
		new   bool // the process did not write the live pane
		layer int
		why   string
	}{
		{name: "small", live: live(64*mib - 1), why: "layers begin at"},
		{name: "large enough", live: live(64 * mib), layer: 1},
		{name: "third", live: live(100*mib, 10, 20), layer: 3},
		{name: "unknown", live: live(100 * mib), new: true, why: "did not write"},
		{name: "off", live: live(100 * mib), set: func(s *layers.Settings) { s.Most = 0 }, why: "off"},
		{name: "twentieth", live: live(100*mib, many(19, 3)...), layer: 20},
		{name: "no more than twenty", live: live(100*mib, many(20, 3)...), why: "20 layers over"},
		{name: "as many as set", live: live(100*mib, many(3, 3)...), set: func(s *layers.Settings) { s.Most = 3 }, why: "3 layers over"},
		{name: "never above the format's", live: live(100*mib, many(20, 3)...), set: func(s *layers.Settings) { s.Most = 1000 }, why: "20 layers over"},
		{name: "another half", live: live(100*mib, 20*mib, 15*mib), layer: 3},
		{name: "beyond half", live: live(100*mib, 20*mib, 15*mib+1), why: "the layers have"},
		{name: "much changes", live: live(100 * mib), alive: func(m *sink.Manifest) { m.Counts.Changed = 600 }, why: "about"},
		{name: "half changes", live: live(100 * mib), alive: func(m *sink.Manifest) { m.Counts.Changed = 490 }, layer: 1},
		{name: "much changed before there were layers", live: live(100*mib, 3), alive: func(m *sink.Manifest) { m.Counts.Changed = 600 }, layer: 2},
		{name: "counted against nothing", live: live(100 * mib), alive: func(m *sink.Manifest) {
			m.Counts.New, m.Checks = 1000, []sink.CheckResult{{Name: layers.Uncompared}}
		}, layer: 1},
		{name: "the first of all", live: live(100 * mib), alive: func(m *sink.Manifest) { m.Counts.New, m.Parent = 1000, nil }, layer: 1},
		{name: "no documents", live: live(100 * mib), alive: func(m *sink.Manifest) { m.Counts = sink.Counts{} }, layer: 1},
		{name: "refined", live: live(100 * mib), next: func(m *sink.Manifest) { m.Reason = sink.Refine }, layer: 1},
		{name: "promoted", live: live(100 * mib), next: func(m *sink.Manifest) { m.Reason = sink.Promote }, why: "is a promote"},
		{name: "after a promotion", live: live(100 * mib), alive: func(m *sink.Manifest) { m.Reason = sink.Promote }, layer: 1},
		{name: "after a reset", live: live(100 * mib), alive: func(m *sink.Manifest) { m.Reason = sink.Reset }, why: "before is a reset"},
		{name: "after a rollback", live: live(100 * mib), alive: func(m *sink.Manifest) { m.Reason = sink.Rollback }, why: "before is a rollback"},
		{name: "columns", live: live(100 * mib), next: func(m *sink.Manifest) { m.Schema.Hash = "others" }, why: "columns"},
		{name: "configuration", live: live(100 * mib), next: func(m *sink.Manifest) { m.ConfigHash = "another" }, why: "configuration"},
		{name: "base", live: live(100 * mib), next: func(m *sink.Manifest) { m.Base = &sink.ManifestBase{Generation: "f"} }, why: "base"},
		{name: "no base", live: live(100 * mib), next: func(m *sink.Manifest) { m.Base = nil }, why: "base"},
		{name: "stale base", live: live(100 * mib), next: func(m *sink.Manifest) {
			b := *m.Base
			b.Stale, b.StaleCount = []string{"x"}, 1
			m.Base = &b
		}, layer: 1},
		{name: "pending", live: live(100 * mib), next: func(m *sink.Manifest) { m.Pending = nil }, why: "base"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, s := tc.live, settings
			n := next(m)
			for f, on := range map[*sink.Manifest]func(*sink.Manifest){&m: tc.alive, &n: tc.next} {
				if on != nil {
					on(f)
				}
			}
			if tc.set != nil {
				tc.set(&s)
			}
			got := layers.Decide(&m, n, !tc.new, s)
			if got.Layer != tc.layer || !strings.Contains(got.Why, tc.why) || (got.Why == "") != (tc.layer > 0) {
				t.Errorf("got %+v, want layer %d, why %q", got, tc.layer, tc.why)
			}
		})
	}
	if got := layers.Decide(nil, next(live(1)), true, settings); got.Layer != 0 || !strings.Contains(got.Why, "no pane before") {
		t.Errorf("before the first pane: %+v", got)
	}
}

// TestWhatAReaderReadsIsBounded: however large the layers become that Decide allows, there are at most Most of them and, but for the last,
// about half of the snapshot.
func TestWhatAReaderReadsIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(64, 1<<40).Draw(t, "snapshot")
		s := layers.Settings{Above: 64, Most: rapid.IntRange(0, 25).Draw(t, "most")}
		m := live(whole)
		over, last := int64(0), int64(0)
		for range 30 {
			d := layers.Decide(&m, next(m), true, s)
			if d.Layer == 0 {
				break
			}
			if d.Layer != m.Top()+1 || d.Layer > s.Most || d.Layer > sink.MaxLayer || over > whole/2 {
				t.Fatalf("layer %d over %d bytes of %d, at most %d layers", d.Layer, over, whole, s.Most)
			}
			last = rapid.Int64Range(1, whole).Draw(t, "bytes")
			m.Files = append(m.Files, sink.File{Layer: d.Layer, Bytes: last})
			over += last
		}
		if over-last > whole/2 {
			t.Fatalf("%d bytes of layers below the last, the snapshot has %d", over-last, whole)
		}
	})
}

func TestKeeps(t *testing.T) {
	s := layers.Settings{Above: 100, Most: 20}
	small, near, layered := live(74), live(75), live(80, 30)
	for _, tc := range []struct {
		name string
		live *sink.Manifest
		s    layers.Settings
		want bool
	}{
		{"none", nil, s, false},
		{"small", &small, s, false},
		{"near", &near, s, true},
		{"layered", &layered, s, true},
		{"off", &near, layers.Settings{Above: 100}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := layers.Keeps(tc.live, tc.s); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestAnotherScaleIsASnapshot: hashes are of values without their scale, so they are not compared where it differs.
func TestAnotherScaleIsASnapshot(t *testing.T) {
	schema := func(scale uint8) sink.Schema {
		return parquet.SchemaFields([]column.Field{
			{Name: "k", Type: column.Of(column.Int64), Key: true}, {Name: "d", Type: column.Type{Kind: column.Decimal, Precision: 38, Scale: scale}},
		})
	}
	s := layers.Settings{Above: 1, Most: 20}
	is := live(1 << 20)
	is.Schema = schema(2)
	for scale, want := range map[uint8]int{2: 1, 3: 0} {
		to := next(is)
		to.Schema = schema(scale)
		if got := layers.Decide(&is, to, true, s); got.Layer != want {
			t.Errorf("scale %d after 2: layer %d (%s), want %d", scale, got.Layer, got.Why, want)
		}
	}
}
