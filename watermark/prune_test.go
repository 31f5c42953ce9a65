package watermark_test

import (
	"testing"
	"time"

	"github.com/deltad/deltad/watermark"
)

func TestKeepOf(t *testing.T) {
	t.Parallel()
	c := time.Date(2026, 11, 30, 5, 0, 0, 0, time.UTC)
	const reach = 5 * time.Hour
	for _, k := range []struct {
		name     string
		coverage time.Time
		progress time.Time
		reach    time.Duration
		want     time.Time
	}{
		{"a live pane", c, c.Add(reach), reach, c.Add(-3 * reach)},
		{"progress set back before the coverage", c, c.Add(-time.Hour), reach, c.Add(-time.Hour - 3*reach)},
		{"no pane yet", time.Time{}, time.Time{}, reach, time.Time{}},
		{"a run without coverage", time.Time{}, c, reach, time.Time{}},
		{"a window that is not known", c, c, 0, time.Time{}},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			got := watermark.KeepOf(watermark.Pipeline{Progress: k.progress}, watermark.Run{CoverageFrom: k.coverage}, k.reach)
			if !got.Partitions.Equal(k.want) || got.Ended != 35*24*time.Hour || got.Decided != watermark.AuditKept {
				t.Errorf("%+v, want partitions after %s", got, k.want)
			}
		})
	}
}
