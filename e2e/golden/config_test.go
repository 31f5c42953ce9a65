//go:build integration

package golden_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch/combine"
)

// index is the one of every pipeline.
const index = `
      key: [item, shard]
      event_time: ts
      where: "n != 13"
      delete_when: "op == 'D'"
      fields:
        rows: {count: "*"}
        priced: {count: f}
        sum_f: {sum: f}
        sum_g: {sum: g}
        sum_h: {sum: h}
        sum_n: {sum: n}
        sum_d: {sum: d}
        sum_wide: {sum: wide}
        recent_h: {sum: h, over: 2m}
        small_h: {sum: h, where: "h < 1 and g ** 0.5 < 60.1"}
        mean_f: {mean: f}
        mean_h: {mean: h}
        mean_i: {mean: i}
        mean_wide: {mean: wide}
        var_f: {variance: f}
        var_h: {variance: h}
        var_i: {variance: i, population: true}
        var_wide: {variance: wide}
        dev_g: {stddev: g}
        dev_d: {stddev: d, over: 3m}
        cov: {covariance: [h, i]}
        cov_d: {covariance: [d, h], population: true}
        min_f: {min: f}
        max_f: {max: f}
        min_g: {min: g}
        min_i: {min: i}
        max_wide: {max: wide}
        max_day: {max: day}
        min_clock: {min: clock}
        max_tags: {max: tags}
        min_offer: {min: offer}
        max_raw: {max: raw, over: 1m}
        any_s: {any: s}
        all_b: {all_of: b}
        any_b: {any_of: b}
        latest_f: {latest: f}
        latest_s: {latest: s, nulls: keep}
        latest_offer: {latest: offer}
        first_i: {earliest: i}
        first_tags: {earliest: tags, where: "shard > 0"}
        at_best: {arg_max: [s, f]}
        at_least: {arg_min: [raw, h], nulls: keep}
        set_s: {set: s}
        set_f: {set: f, cap: 5}
        set_offer: {set: offer}
        exact_i: {distinct_exact: i}
        exact_tags: {distinct_exact: tags}
        counts_s: {counts: s, limit: 3}
        counts_f: {counts: f}
        mode_n: {mode: n}
        mode_day: {mode: day, cap: 30}
        median_f: {median_exact: f}
        median_i: {median_exact: i}
        median_d: {median_exact: d}
        newest_s: {newest: s, n: 4}
        newest_f: {newest: f, nulls: keep}
        top_h: {top: h, n: 3}
        top_s: {top: [s, f], n: 3}
        distinct_user: {distinct: user}
        distinct_f: {distinct: f, precision: 4}
        sketch_user: {distinct: user, output: sketch, precision: 6}
        theta_s: {theta: s, nominal: 16}
        theta_user: {theta: user, output: sketch, nominal: 32}
        quantile_f: {quantile: f, q: [0, 0.1, 0.5, 0.999, 1]}
        quantile_h: {quantile: h, q: 0.25, relative_error: 0.0001}
        quantile_d: {quantile: d, q: [0.3]}
        median_g: {median: g}
        median_near_i: {median: i, relative_error: 0.2}
        buckets_f: {histogram: f, boundaries: [-1, 0.1, 1.0e+10]}
        buckets_h: {histogram: h, relative_error: 0.2}
        buckets_d: {histogram: d, boundaries: [0, 0.1]}
        bloom_s: {bloom: s, expected: 10}
        bloom_f: {bloom: f, fpp: 0.001}
        bitmap_user: {bitmap: user}
        by_s:
          collect:
            by: s
            delete_when: "op == 'D'"
            fields:
              n: {count: "*"}
              h: {sum: h, where: "h > 0.1"}
              f: {latest: f}
              users: {distinct: user, precision: 5}
              days: {counts: day}
              low: {min: d}
        by_d: {collect: {by: d, fields: {g: {variance: g}, last: {newest: raw, n: 2}}}, over: 2m}
        ratio: {expr: "sum_n / rows"}
        nothing: {expr: "(rows - rows) / (rows - rows)"}
        fused: {expr: "mean_h * var_h + sum_h"}
        fused_again: {expr: "sum_h - mean_h * rows"}
        root: {expr: "dev_g ** 0.3 + var_i ** -0.77 + rows ** 2"}
        rounded: {expr: "round(mean_f * 3.3) + floor(dev_g / 7)"}
        label: {expr: "latest_s == nil ? 'none' : upper(latest_s) + string(rows) + string(mean_h)"}
        big: {expr: "abs(mean_i) > 1e18 or max_f > 1"}
`

// yaml is a configuration with a pipeline for each variant.
func yaml(dir string, names []string, workers int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "state: {url: \"sqlite://%s/state.db\"}\nlimits: {workers: %d}\nadmin: {listen: \"\"}\npipelines:", dir, workers)
	for _, name := range names {
		fmt.Fprintf(&b, `
  %[2]s:
    source: {url: "file://%[1]s/%[2]s", layout: "%%Y/%%m/%%d/%%H/%%M", format: parquet}
    window: {size: 4m}
    full: {promote: auto}
    output: {url: "file://%[1]s/out/%[2]s"}
    index:%[3]s`, dir, name, index)
	}
	return b.String()
}

// TestFixtureHasEveryFn: a combine fn that deltad brings has its place here.
func TestFixtureHasEveryFn(t *testing.T) {
	c, err := configs.Read(strings.NewReader(yaml("/golden", []string{"p"}, 1)), "golden.yaml", func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range c.Pipelines[0].Index.Fields {
		seen[f.Fn] = true
	}
	for name := range combine.Builtins() {
		if !seen[name] {
			t.Errorf("no field is a %s", name)
		}
	}
}
