//go:build !race

package flights_test

import "testing"

// TestQuarter drives over all 2,160 hours of the quarter.
func TestQuarter(t *testing.T) {
	t.Parallel()
	const hours = 90 * 24
	cases := []struct {
		name string
		o    options
	}{
		{"ndjson", options{seed: 1, format: "ndjson", dead: "NULL"}},
		{"parquet", options{seed: 2, format: "parquet", deletes: `delete_when: "delay > 90"`, dead: "(delay > 90)"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.o.hours, c.o.rest = hours, 200
			c.o.places = []place{embedded(t, 2)}
			s := drive(t, c.o)
			t.Log(s)
			for name, n := range map[string]int{
				"panes": s.panes - hours/2, "refined panes": s.refined, "idle steps": s.idle, "absences": s.absences, "jumps over a day": s.jumps,
				"late objects": s.late, "early objects": s.early, "quarantined partitions": s.quarantined, "replaced objects": s.replaced,
				"removed objects": s.removed, "restarts": s.restarts, "panes without caches": s.recomputed,
			} {
				if n <= 0 {
					t.Errorf("the ride met too few %s", name)
				}
			}
			if (c.o.deletes != "") != (s.deleted > 0) {
				t.Errorf("%d tombstones with deletes %q", s.deleted, c.o.deletes)
			}
		})
	}
}
