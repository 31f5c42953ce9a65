package configs

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deltad/deltad/microbatch/combine"
)

// testEnv is the environment of the tests.
func testEnv(name string) (string, bool) {
	v, ok := map[string]string{"DELTAD_DEMO": "/tmp/demo", "SET": "value", "EMPTY": "", "INJECT": "x\nadmin: {listen: evil}"}[name]
	return v, ok
}

func testFns() Fns {
	return Fns{Names: builtins(), Refused: func(name string) (string, bool) {
		return "its result depends on the order of merges; use quantile", name == "tdigest"
	}}
}

func loadExample(t *testing.T, name string) *Config {
	t.Helper()
	fns := Fns{Names: slices.Collect(maps.Keys(combine.Builtins())), Refused: combine.Refused} // what there is, not what will be
	c, err := LoadValid(filepath.Join("examples", name), testEnv, fns)
	if err != nil {
		t.Fatalf("load example %s:\n%v", name, err)
	}
	return c
}

func TestEveryExampleLoads(t *testing.T) {
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("examples: got %v, %v", files, err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			c := loadExample(t, filepath.Base(f))
			for _, w := range c.Warnings() {
				t.Errorf("an example should not warn: %s", w)
			}
			for _, p := range c.Pipelines {
				if len(Hash(p)) != 64 {
					t.Errorf("hash of %s: got %q", p.Name, Hash(p))
				}
				for _, line := range Explain(p) {
					if line == "" || strings.Contains(line, "%!") {
						t.Errorf("explain %s: got %q", p.Name, line)
					}
				}
			}
		})
	}
}

func TestAdsExplained(t *testing.T) {
	p, _ := loadExample(t, "ads.yaml").Pipeline("ads")
	want := []string{
		"partitions of 1 min in UTC, eligible from 1 min before their start",
		"a run every 30 s, ended after 10 min",
		"coverage up to 53 h because users_24h is over 24 h and the base is up to 29 h old",
		"after a promotion up to 59 h because the base before is supported for 6 h and up to 35 h old by then",
		"a run lists up to 69 h, 4140 partitions in each of 2 prefixes",
		"an idle run makes up to 10 LIST calls with one object in each partition, 84 with ten: one call lists 1000 objects",
		"coverage beyond 96 h is published whole, raises an alarm and starts one full rebuild",
		`the full index is rebuilt at each "0 3 * * *" in UTC, at most 24 h apart; until it serves as long as the window, 5 h, is allowed for`,
		"a base that passes the gate is promoted by the next run",
		"until the first base is promoted documents hold what coverage holds, up to 96 h",
		"over: all (updates, title, ads) is what the bucket held when the base was built, plus what came since",
		"partitions before 2026-01-01T00:00:00Z do not exist for the pipeline",
		"an object that the base read and that is replaced or gone since starts one full rebuild",
		"objects must stay at the source for 106 h, they do for 30 d",
	}
	if got := Explain(p); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAdsFieldsKeepTheirOrder(t *testing.T) {
	p, _ := loadExample(t, "ads.yaml").Pipeline("ads")
	var names []string
	for _, f := range p.Index.Fields {
		names = append(names, f.Name)
	}
	want := []string{"updates", "title", "ads", "clicks_1h", "views_1h", "ctr_1h", "users_24h"}
	if !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if c := p.Index.Fields[2]; c.Fn != FnCollect || !slices.Equal(c.By, []string{"ad_id"}) || len(c.Fields) != 2 || c.Fields[1].Name != "status" {
		t.Errorf("collect: got %+v", c)
	}
}
