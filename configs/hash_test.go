package configs

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const hashText = `state: {url: sqlite:///state.db}
pipelines:
  p:
    source: {url: s3://b/in, prefixes: [eu, us], layout: "%Y/%m/%d/%H/%M", format: ndjson}
    window: {size: 1h}
    index:
      key: [id, country]
      event_time: at
      where: "a > 1"
      delete_when: "gone"
      fields:
        n: {count: "*", over: 1h}
        s: {set: tag, cap: 10, seed: 3}
        c: {collect: {by: ad, fields: {x: {latest: x}, y: {latest: y}}}}
        e: {expr: "n + 1"}
    errors: {object: fail, skip_after: 10}
    full: {schedule: "0 3 * * *", since: 2026-01-01T00:00:00Z}
    output: {url: s3://b/out}
`

// The hash is written into manifests: the one of a known configuration must
// not change unless OutputFormat does.
func TestHashIsStable(t *testing.T) {
	const want = "761173a2aacf30ac5d64ae560d2209509a17cbe885908eebb8e28b4b5e362646"
	if got := Hash(read(t, hashText).Pipelines[0]); got != want {
		t.Errorf("got %s of\n%s", got, canonical(read(t, hashText).Pipelines[0]))
	}
}

func TestHash(t *testing.T) {
	before := Hash(read(t, hashText).Pipelines[0])
	for _, c := range []struct {
		name, old, new string
		same           bool
	}{
		{name: "spelling of a duration", old: "size: 1h", new: "size: 60m", same: true},
		{name: "spelling of over", old: "over: 1h", new: "over: 3600s", same: true},
		{name: "written granularity", old: "format: ndjson", new: "format: ndjson, granularity: 60s", same: true},
		{name: "written zone", old: "format: ndjson", new: "format: ndjson, time_zone: UTC", same: true},
		{name: "order of prefixes", old: "[eu, us]", new: "[us/, /eu]", same: true},
		{name: "slash after the layout", old: "/%M", new: "/%M/", same: true},
		{name: "order of parameters", old: "cap: 10, seed: 3", new: "seed: 3, cap: 10", same: true},
		{name: "spelling of a number", old: "cap: 10", new: "cap: 10.0", same: true},
		{name: "order of options", old: `{count: "*", over: 1h}`, new: `{over: 1h, count: ["*"]}`, same: true},
		{name: "default written", old: "object: fail, skip_after: 10", new: "row: fail, skip_after: 10, object: fail", same: true},
		{name: "long event time", old: "event_time: at", new: "event_time: {column: at}", same: true},
		{name: "over all", old: "{latest: x}", new: "{latest: x, optional: false, nulls: skip}", same: true},
		{name: "zone of since", old: "2026-01-01T00:00:00Z", new: "2026-01-01T01:00:00+01:00", same: true},
		{name: "date of since", old: "2026-01-01T00:00:00Z", new: "2026-01-01", same: true},
		{name: "schedule", old: "0 3 * * *", new: "0 4 * * *", same: true},
		{name: "promotion", old: "since:", new: "promote: manual, since:", same: true},
		{name: "name", old: "  p:\n", new: "  q:\n", same: true},
		{name: "source", old: "s3://b/in", new: "s3://c/in", same: true},
		{name: "output", old: "s3://b/out", new: "file:///out", same: true},
		{name: "settle", old: "format: ndjson", new: "format: ndjson, settle: 1m, max_future_skew: 0s, retention: 90d", same: true},
		{name: "S3 options", old: "format: ndjson", new: "format: ndjson, s3: {region: x}", same: true},
		{name: "trigger", old: "    errors:", new: "    trigger: {every: 1s}\n    guards: {min_documents: 1}\n    errors:", same: true},
		{name: "anchor", old: "key: [id, country]", new: "key: &k [id, country]", same: true},

		{name: "window", old: "size: 1h", new: "size: 2h"},
		{name: "window.max", old: "size: 1h", new: "size: 1h, max: 4d"},
		{name: "on_gap", old: "size: 1h", new: "size: 1h, on_gap: fail"},
		{name: "layout", old: "/%H/%M", new: "/%H%M"},
		{name: "granularity", old: "format: ndjson", new: "format: ndjson, granularity: 5m"},
		{name: "zone", old: "format: ndjson", new: "format: ndjson, time_zone: Asia/Kolkata"},
		{name: "prefixes", old: "[eu, us]", new: "[eu]"},
		{name: "format", old: "format: ndjson", new: "format: csv"},
		{name: "key order", old: "[id, country]", new: "[country, id]"},
		{name: "event time", old: "event_time: at", new: "event_time: {column: at, unit: ms}"},
		{name: "where", old: "a > 1", new: "a > 2"},
		{name: "delete_when", old: `"gone"`, new: `"!gone"`},
		{name: "field order", old: "{x: {latest: x}, y: {latest: y}}", new: "{y: {latest: y}, x: {latest: x}}"},
		{name: "field name", old: "n: {count", new: "m: {count"},
		{name: "over", old: "over: 1h", new: "over: 2h"},
		{name: "parameter", old: "cap: 10", new: "cap: 11"},
		{name: "type of a parameter", old: "cap: 10", new: `cap: "10"`},
		{name: "star and column", old: `{count: "*"`, new: `{count: id`},
		{name: "by", old: "by: ad", new: "by: ad2"},
		{name: "fn", old: "{latest: x}", new: "{earliest: x}"},
		{name: "optional", old: "{latest: x}", new: "{latest: x, optional: true}"},
		{name: "nulls", old: "{latest: x}", new: "{latest: x, nulls: keep}"},
		{name: "expr", old: "n + 1", new: "n + 2"},
		{name: "errors.object", old: "object: fail", new: "object: skip"},
		{name: "skip_after", old: "skip_after: 10", new: "skip_after: 11"},
		{name: "row", old: "object: fail", new: "object: fail, row: reject"},
		{name: "reject_limit", old: "object: fail", new: "object: fail, reject_limit: 2%"},
		{name: "since", old: "2026-01-01T00:00:00Z", new: "2026-01-02T00:00:00Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(hashText, c.old, c.new, 1)
			if text == hashText {
				t.Fatalf("%q is not in the text", c.old)
			}
			if same := Hash(read(t, text).Pipelines[0]) == before; same != c.same {
				t.Errorf("same hash: got %v, want %v", same, c.same)
			}
		})
	}
	without := strings.Replace(hashText, `    full: {schedule: "0 3 * * *", since: 2026-01-01T00:00:00Z}`, "", 1)
	empty := strings.Replace(hashText, `    full: {schedule: "0 3 * * *", since: 2026-01-01T00:00:00Z}`, "    full: {}", 1)
	if Hash(read(t, without).Pipelines[0]) != Hash(read(t, empty).Pipelines[0]) {
		t.Error("a full section without since changes the hash")
	}
}

// Two different lists of fields never have one canonical form, whatever the
// texts in them are.
func TestHashTellsTextsApart(t *testing.T) {
	text := rapid.StringMatching(`[a-c"\\,{}:\[\] ]{0,4}`)
	field := rapid.Custom(func(t *rapid.T) Field {
		return Field{Name: text.Draw(t, "name"), Fn: text.Draw(t, "fn"), Columns: rapid.SliceOfN(text, 0, 2).Draw(t, "columns"), Where: text.Draw(t, "where")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := DefaultPipeline("p"), DefaultPipeline("p")
		a.Index.Fields, b.Index.Fields = rapid.SliceOfN(field, 0, 2).Draw(t, "a"), rapid.SliceOfN(field, 0, 2).Draw(t, "b")
		same := fmt.Sprintf("%#v", a.Index.Fields) == fmt.Sprintf("%#v", b.Index.Fields)
		if got := Hash(a) == Hash(b); got != same {
			t.Fatalf("one hash: %v, one configuration: %v\n%+v\n%+v", got, same, a.Index.Fields, b.Index.Fields)
		}
	})
}

// Keys of YAML maps may come in any order, except where order has a meaning.
func TestHashDoesNotDependOnTheOrderOfKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flow := func(keys ...string) string {
			return "{" + strings.Join(rapid.Permutation(keys).Draw(t, "order"), ", ") + "}"
		}
		field := flow("set: tag", "cap: 10", "seed: 3", "over: 2h", `where: "x"`, "optional: true")
		index := flow("key: [id, country]", "event_time: "+flow("column: ts", "unit: ms"), "fields: {s: "+field+", t: {latest: x}}")
		pipeline := flow(
			"source: "+flow("url: file:///in", `layout: "%Y/%m/%d/%H"`, "format: csv"), "window: "+flow("size: 6h", "max: 12h"),
			"index: "+index, "errors: "+flow("row: reject", "object: skip"), "output: {url: file:///out}")
		c, err := Read(strings.NewReader("pipelines: {p: "+pipeline+"}"), "t", nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, pipeline)
		}
		const want = "4de46c00a403fb290bcb055c779598ae096ece6a478fb3b6cb06133dcfeb15ce"
		if got := Hash(c.Pipelines[0]); got != want {
			t.Fatalf("got %s of\n%s", got, canonical(c.Pipelines[0]))
		}
	})
}
