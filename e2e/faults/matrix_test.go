//go:build integration

package faults_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// matrix counts what the rounds met, for the report of a verbose run.
type matrix struct {
	mu    sync.Mutex
	cells map[string]map[string]*cell
}

type cell struct{ rounds, hits, through, failed int }

var met = &matrix{cells: map[string]map[string]*cell{}}

func (m *matrix) add(fault, at string, hits int, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.cells[fault]
	if row == nil {
		row = map[string]*cell{}
		m.cells[fault] = row
	}
	c := row[at]
	if c == nil {
		c = &cell{}
		row[at] = c
	}
	c.rounds++
	c.hits += hits
	if failed {
		c.failed++
	} else {
		c.through++
	}
}

// String is a line per fault and place: rounds, faults met, steps that went
// through in spite of it, steps that failed.
func (m *matrix) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	var all cell
	for _, fault := range slices.Sorted(maps.Keys(m.cells)) {
		for _, at := range slices.Sorted(maps.Keys(m.cells[fault])) {
			c := m.cells[fault][at]
			fmt.Fprintf(&b, "%-36s  %-30s  rounds %3d  faults %5d  through %3d  failed %3d\n", fault, at, c.rounds, c.hits, c.through, c.failed)
			all.rounds, all.hits, all.through, all.failed = all.rounds+c.rounds, all.hits+c.hits, all.through+c.through, all.failed+c.failed
		}
	}
	fmt.Fprintf(&b, "%-36s  %-30s  rounds %3d  faults %5d  through %3d  failed %3d\n", "all", "", all.rounds, all.hits, all.through, all.failed)
	return b.String()
}
