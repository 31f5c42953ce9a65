package app_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestRejectedAggregatesAreRefusedWithTheReason: each aggregate that the design
// rejects, under the names it goes by, as a field and within a collect.
func TestRejectedAggregatesAreRefusedWithTheReason(t *testing.T) {
	for _, tt := range []struct {
		name    string
		fns     []string
		reason  string
		instead string
	}{
		{"t-digest", []string{"tdigest", "t-digest", "t_digest", "TDigest", "tdigest_agg", "quantile_tdigest", "approx_percentile", "percentile_approx", "approx_quantile"},
			"depends on the order and the tree of merges", "use quantile"},
		{"KLL", []string{"kll", "KLL", "kll_sketch", "kll-quantiles", "kll_floats", "req", "req_sketch"}, "draw random numbers", "use quantile"},
		{"Misra–Gries", []string{"misra_gries", "Misra–Gries", "misra-gries", "space_saving", "SpaceSaving", "frequent_items", "heavy_hitters", "topk", "top_k", "approx_top_k", "approx_top_count"},
			"depends on the order and the tree of merges", "use counts"},
		{"truncated top by sum", []string{"top_by_sum", "top_k_by_sum", "topk-by-sum", "top_sum", "approx_top_sum", "topKWeighted"},
			"loses items whose sum would have grown", "use counts with a limit"},
		{"concatenation", []string{"concat", "string_agg", "group_concat", "GROUP_CONCAT", "array_agg", "list_agg", "listagg", "collect_list", "concat_ws", "append"},
			"depends on the order of records", "use set or collect"},
		{"first and last seen", []string{"first", "last", "first_value", "last_value"}, "depend on files and arrival", "use earliest or latest"},
		{"plain float sum", []string{"float_sum", "sum_float", "fsum", "double_sum", "plain_sum", "naive_sum", "kahan_sum", "compensated_sum"},
			"depends on their order", "use sum"},
		{"running moments", []string{"welford", "running_mean", "m2"}, "not associative", "use mean, variance or stddev"},
		{"samples", []string{"reservoir", "sample"}, "random", "use any or set"},
		{"moving averages", []string{"ema", "ewma"}, "depends on the order of records", "use sum or mean"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var fields []string
			for i, fn := range tt.fns {
				fields = append(fields, fmt.Sprintf(`f%d: {%q: price}, c%d: {collect: {by: ad, fields: {inner: {%q: price}}}}`, i, fn, i, fn))
			}
			r := lawsRig(t, "ndjson", "{key: [item], fields: {"+strings.Join(fields, ", ")+"}}")
			config := filepath.Join(r.dir, "deltad.yaml")
			code, text, errs := run(t, nil, "check", "-c", config)
			if code != 2 || errs != "" {
				t.Errorf("exit %d: %s", code, errs)
			}
			for i, fn := range tt.fns {
				for _, field := range []string{fmt.Sprintf("f%d", i), fmt.Sprintf("c%d.collect.fields.inner", i)} {
					line := lineWith(text, "error: pipelines.ads.index.fields."+field+": ")
					for _, want := range []string{"must have a combine fn that is a monoid (", tt.reason, tt.instead, ", got " + fn} {
						if !strings.Contains(line, want) {
							t.Errorf("%s: no %q in %q", fn, want, line)
						}
					}
				}
			}
			_, out, _ := run(t, nil, "check", "--laws", "-o", "json", "-c", config)
			var found struct {
				Findings []struct{ Level, Message string }
			}
			if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Findings) != 2*len(tt.fns) {
				t.Errorf("%d findings for %d fields, %v", len(found.Findings), 2*len(tt.fns), err)
			}
			if code, _, errs := run(t, nil, "run", "--once", "-c", config); code != 2 || !strings.Contains(errs, tt.reason) {
				t.Errorf("run: exit %d: %s", code, errs)
			}
		})
	}
}

// lineWith is the line that begins so.
func lineWith(text, prefix string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			return line
		}
	}
	return ""
}
