package sink_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/sinktest"
	"github.com/deltad/deltad/store"
)

var update = flag.Bool("update", false, "write golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func fullCurrent() sink.Current {
	hash := strings.Repeat("ab", 32)
	return sink.Current{
		Pipeline: "ads", Version: 184467, ChangeID: sinktest.ID(1, 9), Reason: sink.Publish,
		Owner: sink.Owner{Epoch: 42, Nonce: "6f0c", State: "0d9e", Instance: "deltad-b"},
		RunID: sinktest.ID(1, 1), Watermark: sink.AtPtr(sinktest.Hour(10)), Progress: sink.AtPtr(sinktest.Hour(10)), PublishedAt: sink.At(sinktest.Hour(11)),
		Delta:     &sink.DeltaRef{Manifest: "manifests/00000000000000184467-" + sinktest.ID(1, 1) + ".json", SHA256: hash, Documents: 1234},
		Base:      &sink.BaseRef{Generation: sinktest.ID(2, 1), Manifest: "full/" + sinktest.ID(2, 1) + "/manifest.json", SHA256: hash, Cut: sink.At(sinktest.Hour(4))},
		Condemned: []string{sinktest.ID(1, 2)},
	}
}

func fullManifest() sink.Manifest {
	hash := strings.Repeat("cd", 32)
	run := sinktest.ID(1, 1)
	at := sink.At(sinktest.Hour(9))
	return sink.Manifest{
		Pipeline: "ads", Kind: sink.Delta, Version: 184467, RunID: run, Parent: &sink.Ref{Manifest: "manifests/p.json", SHA256: hash},
		Writer: sink.Writer{Epoch: 42, Nonce: "6f0c", Build: "deltad 0.1.0"}, Timing: "on_time", Reason: sink.Publish,
		Watermark: sink.AtPtr(sinktest.Hour(10)), PreviousWatermark: &at, Coverage: &sink.Range{From: sink.At(sinktest.Hour(4)), To: sink.At(sinktest.Hour(10))},
		Jumps: []sink.Jump{{From: sink.At(sinktest.Hour(5)), At: at}}, Gap: []sink.Range{{From: sink.At(sinktest.Hour(1)), To: sink.At(sinktest.Hour(2))}},
		Base:       &sink.ManifestBase{Generation: sinktest.ID(2, 1), Cut: sink.At(sinktest.Hour(4)), Manifest: "full/x/manifest.json", SHA256: hash},
		Schema:     sink.Schema{Hash: hash, Fields: []sink.SchemaField{{Name: "item_id", Type: "int64", Key: true}, {Name: "<n>", Type: "string"}}},
		ConfigHash: hash, Inputs: []sink.Input{{Key: "eu/2026/part+1 a=b%3A ü\\b.parquet", Partition: at, ETag: "abc-2", Bytes: 1, Rows: 1}},
		Quarantined: []sink.Passed{{Key: "eu/9999/", Reason: "in the future"}},
		Skipped:     []sink.Passed{{Key: "eu/2026/bad.parquet", Partition: &at, ETag: "x", Bytes: 7, Reason: "footer is cut off"}},
		Files:       []sink.File{{Key: "delta/" + run + "/part-00000.parquet", Format: "parquet", Rows: 1, Bytes: 1, SHA256: hash, MinKey: []string{"1"}, MaxKey: []string{"1"}}},
		Tombstones:  []sink.File{{Key: "delta/" + run + "/tombstones-00000.parquet", Format: "parquet", Rows: 1, Bytes: 1, SHA256: hash, MinKey: []string{"2"}, MaxKey: []string{"2"}}},
		Counts:      sink.Counts{Rows: 1, Documents: 1, New: 1, Changed: 1, Tombstones: 1}, Checks: []sink.CheckResult{{Name: "keys", Passed: true}},
		TimingsMS: map[string]int64{"slice": 3, "list": 1}, CreatedAt: at,
	}
}

// fullDelta is a pane that has every member there is for bases.
func fullDelta() sink.Manifest {
	m, hash := fullManifest(), strings.Repeat("ef", 32)
	base := *m.Base
	base.Stale, base.StaleCount = []string{"eu/2026/gone.parquet"}, 1001
	m.Base = &base
	id := func(n uint64) string { return sinktest.ID(2, n) }
	m.Supports = []sink.Support{{Generation: id(3), Cut: sink.At(sinktest.Hour(2)), Manifest: sink.FullKey(id(3), "manifest.json"), SHA256: hash, Until: sink.At(sinktest.Hour(16))}}
	m.History = []sink.Former{{Generation: id(3), Cut: sink.At(sinktest.Hour(2)), Pane: sink.Ref{Manifest: "manifests/q.json", SHA256: hash}}}
	m.UnreadSlices = []sink.StateFile{{Key: sink.SliceKey(hash), Rows: 7, Bytes: 9, SHA256: hash}}
	return m
}

// fullLayers is a pane of three layers.
func fullLayers() sink.Manifest {
	m, hash := fullManifest(), strings.Repeat("cd", 32)
	file := func(run uint64, name string, layer int) sink.File {
		return sink.File{
			Key: sink.DataKey(sinktest.ID(1, run), name+"-00000.parquet"), Layer: layer, Format: "parquet", Rows: 1, Bytes: 1, SHA256: hash,
			MinKey: []string{"1"}, MaxKey: []string{"1"},
		}
	}
	m.Files = []sink.File{file(7, "part", 0), file(8, "part", 1), file(1, "part", 2)}
	m.Tombstones = []sink.File{file(7, "tombstones", 0), file(1, "tombstones", 2)}
	m.Left = []sink.File{file(8, "left", 1)}
	return m
}

// fullGeneration is a generation that has every member there is.
func fullGeneration() sink.Manifest {
	m, hash := fullManifest(), strings.Repeat("ef", 32)
	id := sinktest.ID(2, 1)
	m.Kind, m.RunID, m.Timing, m.Cut = sink.Full, id, "", m.Watermark
	m.Watermark, m.PreviousWatermark, m.Coverage, m.Jumps, m.Gap, m.Base, m.Parent, m.Tombstones = nil, nil, nil, nil, nil, nil, nil, nil
	m.Files = append([]sink.File(nil), m.Files...)
	m.Files[0].Key = sink.FullKey(id, "part-00000.parquet")
	m.Full = &sink.FullIndex{
		Since: sink.AtPtr(sinktest.Hour(-9)), Pane: &sink.Ref{Manifest: "manifests/q.json", SHA256: hash},
		Accumulators: []sink.StateFile{{Key: sink.FullStateKey(id, "accumulators.run"), Rows: 8, Bytes: 9, SHA256: hash}},
		Seen:         []sink.StateFile{{Key: sink.FullStateKey(id, "seen.run"), Rows: 3, Bytes: 4, SHA256: hash}},
		Nulls:        map[string]int64{"<n>": 2, "clicks": 0}, Index: []byte(` { "z": "<&>", "a": [ 1.50 ] }`),
	}
	return m
}

func TestFormatsAreGolden(t *testing.T) {
	c, err := fullCurrent().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/current.json", c)
	empty, err := sink.Current{Pipeline: "ads", Version: 1, ChangeID: sinktest.ID(1, 9), Reason: sink.Claim, Owner: owner(1, "n"), PublishedAt: sink.At(sinktest.Hour(0))}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/current_first.json", empty)
	m, err := fullManifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/manifest.json", m)
	least, err := sink.Manifest{
		Pipeline: "ads", Kind: sink.Full, Version: 1, RunID: sinktest.ID(2, 1), Reason: sink.Publish, Writer: sink.Writer{Epoch: 1, Nonce: "n"}, CreatedAt: sink.At(sinktest.Hour(9)),
		Cut: sink.AtPtr(sinktest.Hour(4)), Schema: fullManifest().Schema, Full: &sink.FullIndex{},
	}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/manifest_full.json", least)
	for name, m := range map[string]sink.Manifest{
		"testdata/manifest_over_base.json": fullDelta(), "testdata/manifest_generation.json": fullGeneration(), "testdata/manifest_layers.json": fullLayers(),
	} {
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, b)
		back, err := sink.DecodeManifest(b)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := back.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: comes back as %s, %v", name, again, err)
		}
	}
}

func TestReadersIgnoreUnknownFieldsAndRefuseUnknownFormats(t *testing.T) {
	c, _ := fullCurrent().Encode()
	m, _ := fullManifest().Encode()
	for _, tc := range []struct {
		name, from, to string
		format         bool
	}{
		{"unknown field", `"pipeline":"ads"`, `"pipeline":"ads","later":{"deep":[1]}`, false},
		{"minor version", `/1"`, `/1.7"`, false},
		{"major version", `/1"`, `/3"`, true},
		{"longer major version", `/1"`, `/10"`, true},
		{"another kind of file", `"deltad.`, `"other.`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := sink.DecodeCurrent(bytes.Replace(c, []byte(tc.from), []byte(tc.to), 1))
			if errors.Is(err, sink.ErrFormat) != tc.format || !tc.format && err != nil {
				t.Errorf("CURRENT: %v", err)
			}
			_, err = sink.DecodeManifest(bytes.Replace(m, []byte(tc.from), []byte(tc.to), 1))
			if errors.Is(err, sink.ErrFormat) != tc.format || !tc.format && err != nil {
				t.Errorf("manifest: %v", err)
			}
		})
	}
}

// TestWhatIsNoObjectIsDamaged and not of a newer format: an operator who is told to upgrade would look in the wrong place.
func TestWhatIsNoObjectIsDamaged(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"nothing", "", "not a JSON object"},
		{"null", "null\n", "not a JSON object but null"},
		{"list", "[]", "not a JSON object"},
		{"text", `"deltad.current/1"`, "not a JSON object"},
		{"number", "1", "not a JSON object"},
		{"page", "<html>", "not a JSON object"},
		{"empty object", "{}", "without a format"},
		{"null format", `{"format":null}`, "without a format"},
		{"numeric format", `{"format":2}`, "damaged"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOutput(t)
			ref := sink.Ref{Manifest: fullManifest().Key(), SHA256: sink.Sum([]byte(tc.body))}
			for _, key := range []string{sink.CurrentKey, ref.Manifest} {
				if _, err := store.PutBytes(t.Context(), o.mem, key, []byte(tc.body), store.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			_, current := sink.ReadHead(t.Context(), o.mem, "")
			_, manifest := sink.ReadManifest(t.Context(), o.mem, ref)
			for key, err := range map[string]error{sink.CurrentKey: current, ref.Manifest: manifest} {
				if err == nil || errors.Is(err, sink.ErrFormat) || !strings.Contains(err.Error(), "damaged: ") ||
					!strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), key) {
					t.Errorf("%s: %v, want %s", key, err, tc.want)
				}
			}
			if !errors.Is(current, sink.ErrLostCurrent) {
				t.Errorf("CURRENT: %v, want one that recovery restores", current)
			}
		})
	}
}

func TestCurrentThatIsRefused(t *testing.T) {
	good, err := fullCurrent().Encode()
	if err != nil {
		t.Fatal(err)
	}
	run := fullCurrent().RunID
	for _, tc := range []struct{ name, from, to, want string }{
		{"cut off", `,"condemned"`, "", "not a JSON object"},
		{"two objects", "]}\n", "]}{}", "not a JSON object"},
		{"absolute key", `"manifests/`, `"/manifests/`, "is not a relative key"},
		{"key upwards", `"manifests/`, `"../manifests/`, "is not a relative key"},
		{"key with an empty segment", `"manifests/`, `"manifests//`, "is not a relative key"},
		{"upper-case hash", `"sha256":"ab`, `"sha256":"AB`, "lower-case hexadecimal"},
		{"short hash", `"sha256":"ab`, `"sha256":"`, "lower-case hexadecimal"},
		{"time with an offset", "T10:00:00Z", "T10:00:00+00:00", "want RFC 3339 with Z"},
		{"time without a zone", "T10:00:00Z", "T10:00:00", "want RFC 3339 with Z"},
		{"time as a number", `"2026-11-30T10:00:00Z"`, "1", "not a string"},
		{"version 0", `"version":184467`, `"version":0`, "version is 0"},
		{"fractional version", `"version":184467`, `"version":1.5`, "version"},
		{"epoch 0", `"epoch":42`, `"epoch":0`, "owner.epoch is 0"},
		{"no nonce", `"nonce":"6f0c"`, `"nonce":""`, "owner.nonce is empty"},
		{"unknown reason", `"reason":"publish"`, `"reason":"because"`, "is no reason"},
		{"run id", `"run_id":"01JDXK`, `"run_id":"01jdxk`, "is not a ULID"},
		{"half a pane", `"progress":"2026-11-30T10:00:00Z"`, `"progress":null`, "together or not at all"},
		{"condemned pane", `"condemned":["` + sinktest.ID(1, 2), `"condemned":["` + run, "names the pane's own run"},
		{"null owner", `"owner":{"epoch":42,"nonce":"6f0c","state":"0d9e","instance":"deltad-b"}`, `"owner":null`, "owner.epoch"},
		{"too large", "]}\n", `],"pad":"` + strings.Repeat("x", sink.MaxCurrent) + `"}`, "more than 4096 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bad := bytes.Replace(good, []byte(tc.from), []byte(tc.to), 1)
			if bytes.Equal(bad, good) {
				t.Fatal("nothing replaced")
			}
			if _, err := sink.DecodeCurrent(bad); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	c := fullCurrent()
	for i := uint64(0); i <= sink.MaxCondemned; i++ {
		c.Condemned = append(c.Condemned, sinktest.ID(3, i))
	}
	if _, err := c.Encode(); err == nil {
		t.Error("66 condemned ids were taken")
	}
	c.Condemned = c.Condemned[:sink.MaxCondemned]
	if b, err := c.Encode(); err != nil || len(b) > sink.MaxCurrent {
		t.Errorf("64 condemned ids: %d bytes, %v", len(b), err)
	}
}

func TestManifestThatIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		change     func(m *sink.Manifest)
	}{
		{"file outside", "neither under delta/", func(m *sink.Manifest) { m.Files[0].Key = "state/x" }},
		{"file twice", "names delta/", func(m *sink.Manifest) { m.Tombstones = m.Files }},
		{"file without a hash", "lower-case hexadecimal", func(m *sink.Manifest) { m.Files[0].SHA256 = "" }},
		{"file without bounds", "key bounds of 0", func(m *sink.Manifest) { m.Files[0].MinKey = nil }},
		{"empty file", "0 bytes", func(m *sink.Manifest) { m.Files[0].Bytes = 0 }},
		{"no key column", "has no key column", func(m *sink.Manifest) { m.Schema.Fields = m.Schema.Fields[1:] }},
		{"column twice", `names "item_id" twice`, func(m *sink.Manifest) { m.Schema.Fields[1] = m.Schema.Fields[0] }},
		{"quoted etag", "quoted etag", func(m *sink.Manifest) { m.Inputs[0].ETag = `"a"` }},
		{"no watermark", "watermark is missing", func(m *sink.Manifest) { m.Watermark = nil }},
		{"no coverage", "coverage is missing", func(m *sink.Manifest) { m.Coverage = nil }},
		{"coverage back", "back to", func(m *sink.Manifest) { m.Coverage.From = sink.At(sinktest.Hour(11)) }},
		{"coverage elsewhere", "want the watermark", func(m *sink.Manifest) { m.Coverage.To = sink.At(sinktest.Hour(9)) }},
		{"timing", "want on_time", func(m *sink.Manifest) { m.Timing = "" }},
		{"reason", "writes no manifest", func(m *sink.Manifest) { m.Reason = sink.Claim }},
		{"kind", "want delta or full", func(m *sink.Manifest) { m.Kind = "slice" }},
		{"full with a base", "given for a full index", func(m *sink.Manifest) { m.Kind, m.Cut = sink.Full, m.Watermark }},
		{"delta with a cut", "given for a delta", func(m *sink.Manifest) { m.Cut = m.Watermark }},
		{"delta with full", "given for a delta", func(m *sink.Manifest) { m.Full = &sink.FullIndex{} }},
		{"fewer stale objects than are named", "stale_count is 0", func(m *sink.Manifest) { *m = fullDelta(); m.Base.StaleCount = 0 }},
		{"too many stale objects", "at most 1000", func(m *sink.Manifest) {
			*m = fullDelta()
			m.Base.Stale, m.Base.StaleCount = make([]string, 1001), 1001
		}},
		{"supports its own base", "names the own base", func(m *sink.Manifest) { *m = fullDelta(); m.Supports[0].Generation = m.Base.Generation }},
		{"supports a base twice", "twice", func(m *sink.Manifest) { *m = fullDelta(); m.Supports = append(m.Supports, m.Supports[0]) }},
		{"support without an end", "no until", func(m *sink.Manifest) { *m = fullDelta(); m.Supports[0].Until = sink.Time{} }},
		{"former base is its own", "names the own base", func(m *sink.Manifest) { *m = fullDelta(); m.History[0].Generation = m.Base.Generation }},
		{"former base twice", "twice", func(m *sink.Manifest) { *m = fullDelta(); m.History = append(m.History, m.History[0]) }},
		{"former base without a name", "not a ULID", func(m *sink.Manifest) { *m = fullDelta(); m.History[0].Generation = "" }},
		{"too many former bases", "at most 16", func(m *sink.Manifest) {
			*m = fullDelta()
			for n := range uint64(sink.MaxHistory) {
				f := m.History[0]
				f.Generation = sinktest.ID(4, n)
				m.History = append(m.History, f)
			}
		}},
		{"slice elsewhere", "not under state/slices/", func(m *sink.Manifest) { *m = fullDelta(); m.UnreadSlices[0].Key = "state/x" }},
		{"slice without a hash", "lower-case hexadecimal", func(m *sink.Manifest) { *m = fullDelta(); m.UnreadSlices[0].SHA256 = "" }},
		{"generation without its part", "full is missing", func(m *sink.Manifest) { *m = fullGeneration(); m.Full = nil }},
		{"generation without a cut", "cut is missing", func(m *sink.Manifest) { *m = fullGeneration(); m.Cut = nil }},
		{"generation with a watermark", "given for a full index", func(m *sink.Manifest) { *m = fullGeneration(); m.Watermark = m.Cut }},
		{"generation with a history", "given for a full index", func(m *sink.Manifest) { *m = fullGeneration(); m.History = fullDelta().History }},
		{"generation of another's files", "not of the generation", func(m *sink.Manifest) { *m = fullGeneration(); m.Files[0].Key = sink.FullKey(sinktest.ID(2, 2), "x") }},
		{"accumulators of another", "is not under state/full/", func(m *sink.Manifest) { *m = fullGeneration(); m.Full.Seen[0].Key = "state/full/x" }},
		{"accumulators twice", "twice", func(m *sink.Manifest) { *m = fullGeneration(); m.Full.Seen = m.Full.Accumulators }},
		{"index that is a list", "not a JSON object", func(m *sink.Manifest) { *m = fullGeneration(); m.Full.Index = []byte(`[]`) }},
		{"index that is cut off", "not a JSON object", func(m *sink.Manifest) { *m = fullGeneration(); m.Full.Index = []byte(`{"a":`) }},
		{"fewer nulls than none", "full.nulls", func(m *sink.Manifest) { *m = fullGeneration(); m.Full.Nulls["clicks"] = -1 }},
		{"created at", "created_at is missing", func(m *sink.Manifest) { m.CreatedAt = sink.Time{} }},
		{"layers out of order", "is 1 for", func(m *sink.Manifest) { *m = fullLayers(); m.Files[1], m.Files[2] = m.Files[2], m.Files[1] }},
		{"layer missing", "nothing is in layer 1", func(m *sink.Manifest) { *m = fullLayers(); m.Files, m.Left = append(m.Files[:1:1], m.Files[2]), nil }},
		{"too many layers", "at most 20", func(m *sink.Manifest) { *m = fullLayers(); m.Files[2].Layer = 21 }},
		{"negative layer", "layer -1", func(m *sink.Manifest) { m.Files[0].Layer = -1 }},
		{"what leaves nothing", "below which is nothing", func(m *sink.Manifest) { *m = fullLayers(); m.Left[0].Layer = 0 }},
		{"what left without bounds", "key bounds of 0", func(m *sink.Manifest) { *m = fullLayers(); m.Left[0].MinKey = nil }},
		{"retractions in a layer", "retractions has", func(m *sink.Manifest) {
			*m = fullLayers()
			m.Retractions, m.Left = m.Left, nil
		}},
		{"generation in layers", "of a full index", func(m *sink.Manifest) { *m = fullGeneration(); m.Files[0].Layer = 1 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := fullManifest()
			cov := *m.Coverage
			m.Coverage = &cov
			tc.change(&m)
			if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestManifestIsCreatedOnceAndMayBeWrittenAgain(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	m := sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1)}.Manifest(me, o.claim(me))
	ref, err := o.s.WriteManifest(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := o.s.WriteManifest(t.Context(), m)
	if err != nil || again != ref {
		t.Fatalf("again: %v, %v", again, err)
	}
	m.Counts.Late++
	if _, err := o.s.WriteManifest(t.Context(), m); !errors.Is(err, sink.ErrExists) {
		t.Errorf("another manifest under the same name: %v", err)
	}
	if back, err := o.s.ReadManifest(t.Context(), ref); err != nil || back.RunID != m.RunID {
		t.Errorf("%v, %v", back.RunID, err)
	}
	if _, err := o.s.ReadManifest(t.Context(), sink.Ref{Manifest: ref.Manifest, SHA256: strings.Repeat("0", 64)}); !errors.Is(err, sink.ErrCorrupt) {
		t.Errorf("another hash: %v", err)
	}
	if _, err := o.s.PutData(t.Context(), m.RunID, "../x", strings.NewReader(""), ""); err == nil {
		t.Error("a name that leaves the run's prefix was taken")
	}
	if _, err := o.s.PutData(t.Context(), m.RunID, "part-00000.parquet", strings.NewReader("a"), sink.Sum([]byte("a"))); err != nil {
		t.Error(err)
	}
	if _, err := o.s.PutData(t.Context(), m.RunID, "part-00000.parquet", strings.NewReader("b"), sink.Sum([]byte("b"))); !errors.Is(err, sink.ErrExists) {
		t.Errorf("other data under the same name: %v", err)
	}
}

func TestManyInputsMoveToASideFile(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	h := o.claim(me)
	inputs := func(n int) []sink.Input {
		var out []sink.Input
		for i := 0; i < n; i++ {
			out = append(out, sink.Input{Key: fmt.Sprintf("eu/%05d", i), Partition: sink.At(sinktest.Hour(1)), ETag: "e", Bytes: 1, Rows: 1})
		}
		return out
	}
	for _, tc := range []struct {
		n    int
		side bool
	}{{0, false}, {sink.MaxInlineInputs, false}, {sink.MaxInlineInputs + 1, true}} {
		m := sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1), Inputs: inputs(tc.n)}.Manifest(me, h)
		ref, err := o.s.WriteManifest(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := o.s.ReadManifest(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if (got.InputsFile != nil) != tc.side {
			t.Errorf("%d inputs: side file %+v", tc.n, got.InputsFile)
		}
		if tc.side && (len(got.Inputs) != 0 || !strings.HasPrefix(got.InputsFile.Key, strings.TrimSuffix(ref.Manifest, ".json")+".inputs-"+got.InputsFile.SHA256)) {
			t.Errorf("side file %s beside %d inputs", got.InputsFile.Key, len(got.Inputs))
		}
		if err := o.s.LoadInputs(t.Context(), &got); err != nil || len(got.Inputs) != tc.n {
			t.Errorf("%d inputs loaded, want %d, %v", len(got.Inputs), tc.n, err)
		}
		if tc.side {
			if err := o.mem.Delete(t.Context(), got.InputsFile.Key); err != nil {
				t.Fatal(err)
			}
			if _, err := store.PutBytes(t.Context(), o.mem, got.InputsFile.Key, []byte("x"), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			got.Inputs = nil
			if err := o.s.LoadInputs(t.Context(), &got); !errors.Is(err, sink.ErrCorrupt) {
				t.Errorf("changed side file: %v", err)
			}
		}
	}
}

// B14: what producers call their objects comes back from a manifest as it was.
func TestB14InputKeysRoundTrip(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	m := sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1)}.Manifest(me, o.claim(me))
	keys := []string{"p/part+1 a=b%3A.parquet", "p/ü.parquet", `p/a\b.parquet`, "p/<&>'\".parquet", "p/\u2028\t.parquet", "p/%2525"}
	for _, k := range keys {
		m.Inputs = append(m.Inputs, sink.Input{Key: k, Partition: sink.At(sinktest.Hour(1)), ETag: "e"})
	}
	ref, err := o.s.WriteManifest(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	back, err := o.s.ReadManifest(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range keys {
		if back.Inputs[i].Key != k {
			t.Errorf("%q came back as %q", k, back.Inputs[i].Key)
		}
	}
	m.Inputs[0].Key = "p/\xff"
	m.RunID = o.runs()
	if _, err := o.s.WriteManifest(t.Context(), m); err == nil {
		t.Error("a key that is no text was taken, and would come back as another")
	}
}

func TestResetKeepsManyInputs(t *testing.T) {
	o, me := newOutput(t), owner(1, "n1")
	var inputs []sink.Input
	for i := range sink.MaxInlineInputs + 1 {
		inputs = append(inputs, sink.Input{Key: fmt.Sprintf("p/%05d", i), Partition: sink.At(sinktest.Hour(1)), ETag: "e"})
	}
	h, err := sinktest.Publish(t.Context(), o.s, me, o.claim(me), sinktest.Pane{RunID: o.runs(), Watermark: sinktest.Hour(1), Inputs: inputs})
	if err != nil {
		t.Fatal(err)
	}
	h, _, err = o.s.ResetProgress(t.Context(), me, h, sink.ResetOptions{To: sinktest.Hour(0), RunID: o.runs(), Now: sinktest.Hour(2)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := o.s.ReadManifest(t.Context(), h.Delta.Ref())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.s.WriteManifest(t.Context(), m); err == nil {
		t.Error("a manifest whose inputs were not loaded was written without them")
	}
	if err := o.s.LoadInputs(t.Context(), &m); err != nil || len(m.Inputs) != len(inputs) {
		t.Errorf("%d inputs, %v", len(m.Inputs), err)
	}
}

func FuzzDecodeCurrent(f *testing.F) {
	b, err := fullCurrent().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":"deltad.current/1","version":1e400}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := sink.DecodeCurrent(b)
		if err != nil {
			return
		}
		canonical, err := c.Encode()
		if err != nil {
			t.Fatalf("decoded but not encoded: %v", err)
		}
		again, err := sink.DecodeCurrent(canonical)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(twice, canonical) {
			t.Fatalf("not canonical: %s, %s, %v", canonical, twice, err)
		}
	})
}

func FuzzDecodeManifest(f *testing.F) {
	b, err := fullManifest().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	for _, m := range []sink.Manifest{fullDelta(), fullGeneration(), fullLayers()} {
		seed, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	f.Add([]byte(`{"format":"deltad.manifest/1","kind":"full","files":[null]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := sink.DecodeManifest(b)
		if err != nil {
			return
		}
		canonical, err := m.Encode()
		if err != nil {
			t.Fatalf("decoded but not encoded: %v", err)
		}
		again, err := sink.DecodeManifest(canonical)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := again.Encode(); err != nil || !bytes.Equal(twice, canonical) {
			t.Fatalf("not canonical: %s, %s, %v", canonical, twice, err)
		}
	})
}
