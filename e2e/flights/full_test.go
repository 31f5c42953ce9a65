//go:build !race

package flights_test

import "testing"

// TestQuarterFull drives over all hours of the quarter with a full index that
// is rebuilt every day.
func TestQuarterFull(t *testing.T) {
	t.Parallel()
	const hours = 90 * 24
	cases := []struct {
		name string
		o    options
	}{
		{"ndjson, promoted at once", options{seed: 21, format: "ndjson", dead: "NULL", promote: "auto"}},
		{"parquet, promoted by hand", options{seed: 22, format: "parquet", deletes: `delete_when: "delay > 90"`, dead: "(delay > 90)", promote: "manual"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.o.hours, c.o.rest, c.o.every = hours, 200, 3
			c.o.places = []place{embedded(t, 2)}
			s, f := driveFull(t, c.o)
			t.Log(s)
			t.Log(f)
			for name, n := range map[string]int{
				"panes": s.panes - hours/2, "refined panes": s.refined, "absences": s.absences, "late objects": s.late, "replaced objects": s.replaced,
				"removed objects": s.removed, "restarts": s.restarts, "panes without caches": s.recomputed,
				"rebuilds": f.rebuilds - 75, "rebuilds beside panes": f.overlaps, "bases held by the gate": f.held, "promotions": f.promotions - 75,
				"promotions with an advance": f.advancing, "rollbacks": f.rollbacks, "bases approved again": f.again, "stale bases": f.stale,
				"unread objects before the coverage": f.unread, "ends of support": f.expired,
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
