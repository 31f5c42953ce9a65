package sink_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/sink"
)

func cachedAt(recipe string, address, id byte, start time.Time) string {
	return sink.CachedKey(strings.Repeat(recipe, 64), strings.Repeat(fmt.Sprintf("%x", address), 64), start, fmt.Sprintf("01JDXK0000000000000000000%d", id))
}

// TestPlanCached: what no run can use goes when it is old enough, and nothing
// else does.
func TestPlanCached(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	from := now.Add(-5 * time.Hour)
	live := map[string]bool{strings.Repeat("1", 64): true}
	for _, c := range []struct {
		name   string
		key    string
		age    time.Duration
		rule   sink.CachedRule
		others []string
		gone   bool
	}{
		{"in use, however old", cachedAt("a", 1, 1, from.Add(time.Minute)), 100 * time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: live, From: from}, nil, false},
		{"not in use and young", cachedAt("a", 2, 1, from), 59 * time.Minute, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: live, From: from}, nil, false},
		{"not in use", cachedAt("a", 2, 1, from), time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: live, From: from}, nil, true},
		{"nothing is in use", cachedAt("a", 2, 1, from), time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: map[string]bool{}, From: from}, nil, true},
		{"made again since", cachedAt("a", 1, 1, from), time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: live, From: from}, []string{cachedAt("a", 1, 2, from)}, true},
		{"made again since, and young", cachedAt("a", 1, 1, from), time.Minute, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: live, From: from}, []string{cachedAt("a", 1, 2, from)}, false},
		{"another recipe", cachedAt("b", 2, 1, from), 24 * time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: live, From: from}, nil, true},
		{"another recipe, under a day", cachedAt("b", 2, 1, from), 23 * time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: live, From: from}, nil, false},
		{"not known what is in use, past the coverage", cachedAt("a", 2, 1, from), 24 * time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), From: from}, nil, true},
		{"not known what is in use, past it and under a day", cachedAt("a", 2, 1, from), 23 * time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), From: from}, nil, false},
		{"not known what is in use, covered", cachedAt("a", 2, 1, from.Add(time.Minute)), 100 * time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), From: from}, nil, false},
		{"no name of ours", "state/cache/readme.txt", 1000 * time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: live, From: from}, nil, false},
		{"nearly a name of ours", strings.ToUpper(cachedAt("a", 2, 1, from)), 1000 * time.Hour, sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: live, From: from}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ev := sink.Evidence{Now: now, CachedRule: c.rule, Cached: []sink.Object{{Key: c.key, Modified: now.Add(-c.age)}}}
			for _, key := range c.others {
				ev.Cached = append(ev.Cached, sink.Object{Key: key, Modified: now})
			}
			plan := sink.PlanCollection(ev)
			if got := slices.Contains(plan.Cached, c.key); got != c.gone {
				t.Errorf("deleted %t, want %t", got, c.gone)
			}
			if plan.Empty() == c.gone {
				t.Errorf("empty %t", plan.Empty())
			}
		})
	}
}

// TestPlanCachedBounded: one collection deletes no more than it has time for.
func TestPlanCachedBounded(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ev := sink.Evidence{Now: now, CachedRule: sink.CachedRule{Recipe: strings.Repeat("a", 64), Live: map[string]bool{}}}
	for i := range 1500 {
		ev.Cached = append(ev.Cached, sink.Object{Key: cachedAt("a", byte(i%10), 1, now.Add(-time.Duration(i)*time.Minute)), Modified: now.Add(-2 * time.Hour)})
	}
	if n := len(sink.PlanCollection(ev).Cached); n != 1000 {
		t.Errorf("%d slices in one collection, want 1000", n)
	}
}
