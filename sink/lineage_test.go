package sink_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
)

// over is a pane's manifest over the nth base, 0 for none.
func over(n uint64) sink.Manifest {
	if n == 0 {
		return sink.Manifest{}
	}
	id := sinktest.ID(9, n)
	return sink.Manifest{Base: &sink.ManifestBase{Generation: id, Cut: sink.At(sinktest.Hour(int(n))), Manifest: sink.FullKey(id, "manifest.json"), SHA256: id}}
}

func names(m sink.Manifest) (supports, history []string) {
	for _, s := range m.Supports {
		supports = append(supports, s.Generation)
	}
	for _, f := range m.History {
		history = append(history, f.Generation)
	}
	return supports, history
}

func TestLineage(t *testing.T) {
	now, base := sinktest.Hour(50), func(n uint64) string { return sinktest.ID(9, n) }
	until := func(h int) time.Time { return now.Add(time.Duration(h) * time.Hour) }
	pane := func(n byte) sink.Ref { return sink.Ref{Manifest: string('a' + n)} }
	first := sink.Leave(over(1), over(0), pane(0), now, until(6))
	second := sink.Leave(over(2), first, pane(1), now, until(6))
	third := sink.Leave(over(3), second, pane(2), until(1), until(7))
	for _, tc := range []struct {
		name              string
		got               sink.Manifest
		supports, history []string
	}{
		{"to the first base", first, nil, nil},
		{"to the second", second, []string{base(1)}, []string{base(1)}},
		{"to the third", third, []string{base(2), base(1)}, []string{base(2), base(1)}},
		{"without support", sink.Leave(over(2), first, pane(1), now, now), nil, []string{base(1)}},
		{"an ordinary pane", sink.Inherit(over(3), third, until(2)), []string{base(2), base(1)}, []string{base(2), base(1)}},
		{"when a support ends", sink.Inherit(over(3), third, until(6)), []string{base(2)}, []string{base(2), base(1)}},
		{"back to the second", sink.Leave(over(2), third, pane(3), until(2), until(9)), []string{base(3), base(1)}, []string{base(3), base(1)}},
		{"back to the first", sink.Leave(over(1), third, pane(3), until(2), until(9)), []string{base(3), base(2)}, []string{base(3), base(2)}},
		{"back over the same base", sink.Leave(over(3), third, pane(3), until(2), until(9)), []string{base(2), base(1)}, []string{base(2), base(1)}},
		{"back without a base", sink.Leave(over(0), over(0), pane(3), now, until(9)), nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if s, h := names(tc.got); !slices.Equal(s, tc.supports) || !slices.Equal(h, tc.history) {
				t.Errorf("supports %v, history %v, want %v and %v", s, h, tc.supports, tc.history)
			}
		})
	}
	if f, ok := third.FormerBase(base(1)); !ok || f.Pane != pane(1) {
		t.Errorf("%+v, %t", f, ok)
	}
	if f, ok := third.FormerBase(base(3)); ok {
		t.Errorf("%+v", f)
	}
	if got := third.History[0]; got.Pane != pane(2) || !got.Cut.Equal(sinktest.Hour(2)) || !third.Supports[0].Until.Equal(until(7)) {
		t.Errorf("%+v, %+v", got, third.Supports[0])
	}
}

// Whatever bases are gone to, in any order, the manifest is valid, never names its own base beside it, and keeps the newest former ones.
func TestLineageStaysValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, now := fullManifest(), sinktest.Hour(0)
		m.Base = nil
		left := []string{}
		for i := range rapid.IntRange(1, 40).Draw(t, "panes") {
			now = now.Add(time.Hour)
			next, ref := fullManifest(), sink.Ref{Manifest: m.Key(), SHA256: m.ConfigHash}
			next.Version = int64(i + 1)
			if to := rapid.Uint64Range(0, 30).Draw(t, "base"); to == 0 && i > 0 {
				next.Base = m.Base
				next = sink.Inherit(next, m, now)
			} else {
				next.Base = over(to + 1).Base
				next.Base.SHA256 = m.ConfigHash
				if m.Base != nil && m.Base.Generation != next.Base.Generation {
					left = append([]string{m.Base.Generation}, left...)
				}
				left = slices.DeleteFunc(left, func(id string) bool { return id == next.Base.Generation })
				next = sink.Leave(next, m, ref, now, now.Add(5*time.Hour))
			}
			b, err := next.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if m, err = sink.DecodeManifest(b); err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			want := slices.DeleteFunc(slices.Clone(left), func(id string) bool { twice := seen[id]; seen[id] = true; return twice })
			if _, history := names(m); !slices.Equal(history, want[:min(len(want), sink.MaxHistory)]) {
				t.Fatalf("history %v, left %v", history, want)
			}
		}
	})
}
