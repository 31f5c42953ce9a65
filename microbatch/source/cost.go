package source

import (
	"math"
	"strings"
	"time"

	"github.com/deltad/deltad/partition"
)

// Cost is the listing calls to expect.
type Cost struct {
	// Lexical: one ranged listing serves a run.
	Lexical bool
	// Run is the calls of one Scan; -1 if the range is so long that everything is listed.
	Run int
	// Newest bounds the calls of one Newest; -1 where there is no useful bound, because whole levels are listed.
	Newest int
}

// Cost estimates the calls for a run over rg with so many objects in each partition, and for finding the newest in a history of so many
// partitions. It does no I/O.
func (s *Source) Cost(rg partition.Range, objects, history int) Cost {
	n, prefixes := s.layout.Count(rg), len(s.bases)
	pages := func(objects int) int { return max(1, (objects+999)/1000) }
	if s.layout.Lexical() {
		bound := 10
		if history > 1000 && s.layout.Depth() < 5 {
			bound += int(math.Ceil(math.Log2(float64(history) / 1000)))
		}
		return Cost{Lexical: true, Run: prefixes * pages(n*objects), Newest: prefixes * bound}
	}
	if n > mostWanted/int(s.layout.Granularity()/s.layout.Unit()) {
		return Cost{Run: -1, Newest: -1}
	}
	r := s.run(time.Time{})
	depth, calls := s.layout.Depth(), 0
	wanted := r.wanted(rg)
	for path, labels := range wanted {
		level := 0
		if path != "" {
			level = strings.Count(path, "/") + 1
		}
		flat := level > 0 && level == depth-1 && s.layout.Fanout(level) <= 4*labels
		switch {
		case flat:
			calls += pages(labels * objects)
		case level == depth:
			if parent := path[:max(0, strings.LastIndexByte(path, '/'))]; parent == "" || s.layout.Fanout(level-1) > 4*wanted[parent] {
				calls += pages(objects)
			}
		default:
			if _, fixed := s.layout.Fixed(level); !fixed {
				calls += pages(min(s.layout.Fanout(level), max(history, 1)))
			}
		}
	}
	return Cost{Run: prefixes * calls, Newest: -1}
}
