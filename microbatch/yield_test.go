package microbatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/watermark"
)

// TestARebuildYields: the newest files, which tell a rebuild at what types to read,
// have a column of another type without a value.
func TestARebuildYields(t *testing.T) {
	type number struct {
		K string `parquet:"k"`
		V int64  `parquet:"v"`
	}
	type text struct {
		K string  `parquet:"k"`
		V *string `parquet:"v,optional"`
	}
	spec := index.Spec{Key: []string{"k"}, Fields: []index.FieldSpec{{Name: "v", Fn: "max", Args: []string{"v"}}, {Name: "rows", Fn: "count", Args: []string{"*"}}}}
	b := newBench(t, benchOptions{spec: spec, rule: window.Rule{Size: 10 * time.Minute, Max: time.Hour, OnGap: window.Rebuild}, change: func(s *microbatch.Settings) {
		s.Full, s.Combiners, s.Format = true, combine.Builtins(), scan.Parquet
	}})
	putRows(b, minuteKey("03:00", "a.parquet"), number{"x", 7})
	const last = 45
	for i := 1; i <= last; i++ {
		putRows(b, minuteKey(fmt.Sprintf("03:%02d", i), "a.parquet"), text{K: "x"})
	}
	b.step("03:45", microbatch.Advanced)
	b.rebuild(watermark.RebuildCandidate)
	b.step("03:45", microbatch.Refined)
	b.same(map[string]string{"x": `{"k":"x","v":7,"rows":46}`})
	putRows(b, minuteKey("03:46", "a.parquet"), text{K: "x"}) // over a base that has the type
	b.step("03:46", microbatch.Advanced)
	b.same(map[string]string{"x": `{"k":"x","v":7,"rows":47}`})
}
