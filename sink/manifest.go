package sink

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

const manifestFormat = "deltad.manifest/1"

// MaxInlineInputs is the most inputs a manifest holds itself; more move to a side file.
const MaxInlineInputs = 2000

// Kind says what a manifest lists: a pane of the delta or a generation of the full index.
type Kind string

// The kinds.
const (
	Delta Kind = "delta"
	Full  Kind = "full"
)

// Writer is who wrote a manifest.
type Writer struct {
	Epoch int64  `json:"epoch"`
	Nonce string `json:"nonce"`
	Build string `json:"build"`
}

// Range is the half-open interval (From, To] of partition starts.
type Range struct {
	From Time `json:"from"`
	To   Time `json:"to"`
}

// Jump is an advance from From to At that skipped partitions.
type Jump struct {
	From Time `json:"from"`
	At   Time `json:"at"`
}

// ManifestBase is the base a pane was computed against. Stale names objects that the base read and that were replaced or are gone since,
// at most MaxStale of them; StaleCount is how many there are.
type ManifestBase struct {
	Generation string   `json:"generation"`
	Cut        Time     `json:"cut"`
	Manifest   string   `json:"manifest"`
	SHA256     string   `json:"sha256"`
	Stale      []string `json:"stale"`
	StaleCount int64    `json:"stale_count,omitempty"`
}

// Schema is the documents' columns; Hash is that of sink/parquet over the fields.
type Schema struct {
	Hash   string        `json:"hash"`
	Fields []SchemaField `json:"fields"`
}

// SchemaField is one column, its type by the names of microbatch/column.
type SchemaField struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Key  bool   `json:"key,omitempty"`
}

// Input is an object that was read. ETag is unquoted.
type Input struct {
	Key       string `json:"key"`
	Partition Time   `json:"partition"`
	ETag      string `json:"etag"`
	Bytes     int64  `json:"bytes"`
	Rows      int64  `json:"rows"`
}

// SortInputs puts inputs into the order that manifests have them in: by partition, then key.
func SortInputs(inputs []Input) {
	slices.SortFunc(inputs, func(a, b Input) int {
		return cmp.Or(a.Partition.Compare(b.Partition.Time), strings.Compare(a.Key, b.Key))
	})
}

// Passed is an object, or with a trailing slash a prefix, that was seen and not read, and why.
type Passed struct {
	Key       string `json:"key"`
	Partition *Time  `json:"partition,omitempty"`
	ETag      string `json:"etag,omitempty"`
	Bytes     int64  `json:"bytes"`
	Reason    string `json:"reason"`
}

// File is a data file. MinKey and MaxKey hold the key columns of its first and last row as text (see sink/parquet). Layer is the layer of the
// pane that it belongs to, see Manifest.Layers.
type File struct {
	Key    string   `json:"key"`
	Layer  int      `json:"layer"`
	Format string   `json:"format"`
	Rows   int64    `json:"rows"`
	Bytes  int64    `json:"bytes"`
	SHA256 string   `json:"sha256"`
	MinKey []string `json:"min_key"`
	MaxKey []string `json:"max_key"`
}

// InputsFile names the side file that holds the inputs of a manifest with more than MaxInlineInputs of them: a JSON object
// {"format":"deltad.inputs/1","inputs":[…]} at <manifest name without .json>.inputs-<sha256>.json.
type InputsFile struct {
	Key    string `json:"key"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Inputs int    `json:"inputs"`
}

// Counts is what a run counted.
type Counts struct {
	Rows       int64 `json:"rows"`
	Documents  int64 `json:"documents"`
	New        int64 `json:"new"`
	Changed    int64 `json:"changed"`
	Left       int64 `json:"left"`
	Tombstones int64 `json:"tombstones"`
	Rejected   int64 `json:"rejected"`
	Late       int64 `json:"late"`
}

// RejectedShare is the bad rows as a share of all.
func (c Counts) RejectedShare() float64 {
	if c.Rows == 0 {
		return 0
	}
	return float64(c.Rejected) / float64(c.Rows)
}

// CheckResult is a guard that was asked.
type CheckResult struct {
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	Detail string `json:"detail,omitempty"`
}

// Manifest lists what a pane or a generation consists of and how it came about. Slices are never null when written.
//
// Watermark, PreviousWatermark, Coverage, Base, Supports, History and UnreadSlices belong to a delta, Cut and Full to a full one, whose
// RunID is its generation. Supports are the bases beside Base that the pane still fits; History are the bases before it, newest first, at
// most MaxHistory (see Inherit and Leave); UnreadSlices are the slices of objects that a supported base did not read, kept as long as the
// pane is. Progress is given only where it is not the
// watermark, which is after a reset. Inputs is empty and InputsFile set where the inputs are in a side file: ReadManifest leaves it so,
// LoadInputs fills Inputs.
type Manifest struct {
	Format            string           `json:"format"`
	Pipeline          string           `json:"pipeline"`
	Kind              Kind             `json:"kind"`
	Version           int64            `json:"version"`
	RunID             string           `json:"run_id"`
	Parent            *Ref             `json:"parent"`
	Writer            Writer           `json:"writer"`
	Timing            string           `json:"timing,omitempty"`
	Reason            Reason           `json:"reason"`
	Watermark         *Time            `json:"watermark,omitempty"`
	Progress          *Time            `json:"progress,omitempty"`
	Cut               *Time            `json:"cut,omitempty"`
	PreviousWatermark *Time            `json:"previous_watermark"`
	Coverage          *Range           `json:"coverage"`
	Jumps             []Jump           `json:"jumps"`
	Gap               []Range          `json:"gap"`
	Base              *ManifestBase    `json:"base"`
	Supports          []Support        `json:"supports,omitempty"`
	History           []Former         `json:"history,omitempty"`
	UnreadSlices      []StateFile      `json:"unread_slices,omitempty"`
	Full              *FullIndex       `json:"full,omitempty"`
	Schema            Schema           `json:"schema"`
	Pending           []string         `json:"pending"`
	ConfigHash        string           `json:"config_hash"`
	Inputs            []Input          `json:"inputs"`
	InputsFile        *InputsFile      `json:"inputs_file,omitempty"`
	Quarantined       []Passed         `json:"quarantined"`
	Skipped           []Passed         `json:"skipped"`
	Files             []File           `json:"files"`
	Tombstones        []File           `json:"tombstones"`
	Left              []File           `json:"left,omitempty"`
	Retractions       []File           `json:"retractions"`
	Counts            Counts           `json:"counts"`
	Checks            []CheckResult    `json:"checks"`
	TimingsMS         map[string]int64 `json:"timings_ms"`
	CreatedAt         Time             `json:"created_at"`
}

// ProgressOr is what the next run compares with when this manifest is the pane: Progress, else the watermark.
func (m Manifest) ProgressOr() *Time {
	if m.Progress != nil {
		return m.Progress
	}
	return m.Watermark
}

// DataFiles are all files a reader of the pane may open.
func (m Manifest) DataFiles() []File {
	return slices.Concat(m.Files, m.Tombstones, m.Left, m.Retractions)
}

// DataIDs are the ids, sorted, of the runs whose data the pane is made of: each layer is another run's, and a reset or a rollback names
// others' alone, as does a pane in which nothing differs from the one before. A file's key names its run, so where these are kept every
// file of the pane is.
func (m Manifest) DataIDs() []string {
	set := map[string]bool{}
	for _, f := range m.DataFiles() {
		if id := idOf(f.Key); id != "" {
			set[id] = true
		}
	}
	out := make([]string, 0, len(set))
	for id := range set {
		out = append(out, id)
	}
	sort.Strings(out)
	return out
}

// Key is where the manifest stands: manifests/<20-digit version>-<run id>.json, or full/<generation>/manifest.json.
func (m Manifest) Key() string {
	if m.Kind == Full {
		return FullKey(m.RunID, "manifest.json")
	}
	return fmt.Sprintf("%s%020d-%s.json", manifestPrefix, m.Version, m.RunID)
}

const (
	manifestPrefix = "manifests/"
	deltaPrefix    = "delta/"
)

// DataKey is the key of a data file of a run.
func DataKey(runID, name string) string { return deltaPrefix + runID + "/" + name }

// idOf is the run of a key under delta/<run id>/ or full/<generation>/, or "".
func idOf(key string) string {
	parts := strings.SplitN(key, "/", 3)
	if len(parts) == 3 && (parts[0] == "delta" || parts[0] == "full") && ValidID(parts[1]) {
		return parts[1]
	}
	return ""
}

// RunOf is the run of a delta manifest's key, or "".
func RunOf(key string) string {
	_, id, _, _ := parseManifestKey(key)
	return id
}

// parseManifestKey splits the key of a delta manifest; side is set for the side files that belong to one.
func parseManifestKey(key string) (version int64, runID string, side, ok bool) {
	name, found := strings.CutPrefix(key, manifestPrefix)
	if !found || len(name) < 20+1+26+len(".json") || name[20] != '-' || !strings.HasSuffix(name, ".json") {
		return 0, "", false, false
	}
	v, err := strconv.ParseInt(name[:20], 10, 64)
	if err != nil || v < 1 || !ValidID(name[21:47]) {
		return 0, "", false, false
	}
	rest := strings.TrimSuffix(name[47:], ".json")
	return v, name[21:47], rest != "", rest == "" || strings.HasPrefix(rest, ".inputs-")
}

// Validate says what is wrong with m, naming the field.
func (m Manifest) Validate() error {
	var k check
	k.format("format", m.Format, m.formatOf())
	k.that(m.Pipeline != "", "pipeline", "is empty")
	k.that(m.Version >= 1, "version", "is %d, want at least 1", m.Version)
	k.id("run_id", m.RunID)
	if m.Parent != nil {
		k.ref("parent", *m.Parent)
	}
	k.that(m.Writer.Epoch >= 1, "writer.epoch", "is %d, want at least 1", m.Writer.Epoch)
	k.that(m.Writer.Nonce != "", "writer.nonce", "is empty")
	k.that(m.Reason.valid(), "reason", "is %q, which is no reason", m.Reason)
	k.that(!m.CreatedAt.IsZero(), "created_at", "is missing")
	switch m.Kind {
	case Delta:
		m.validateDelta(&k)
		m.validateLineage(&k)
	case Full:
		m.validateFull(&k)
	default:
		k.that(false, "kind", "is %q, want delta or full", m.Kind)
	}
	m.validateSchema(&k)
	m.validateInputs(&k)
	m.validateFiles(&k)
	m.validateLayers(&k)
	return k.err
}

func (m Manifest) validateDelta(k *check) {
	k.that(m.Timing == "on_time" || m.Timing == "late" || m.Timing == "early", "timing", "is %q, want on_time, late or early", m.Timing)
	k.that(!m.Reason.keepsTargets(), "reason", "is %q, which writes no manifest", m.Reason)
	k.that(m.Watermark != nil, "watermark", "is missing")
	k.that(m.Coverage != nil, "coverage", "is missing")
	k.that(m.Cut == nil && m.Full == nil, "cut", "or full is given for a delta")
	if m.Watermark != nil && m.Coverage != nil {
		k.that(!m.Coverage.From.After(m.Coverage.To.Time), "coverage", "runs from %s back to %s", m.Coverage.From, m.Coverage.To)
		k.that(m.Coverage.To.Equal(m.Watermark.Time), "coverage.to", "is %s, want the watermark %s", m.Coverage.To, m.Watermark)
	}
	for _, g := range m.Gap {
		k.that(!g.From.After(g.To.Time), "gap", "runs from %s back to %s", g.From, g.To)
	}
	if b := m.Base; b != nil {
		k.id("base.generation", b.Generation)
		k.ref("base", Ref{b.Manifest, b.SHA256})
		k.that(!b.Cut.IsZero(), "base.cut", "is missing")
	}
}

func (m Manifest) validateSchema(k *check) {
	names, keys := map[string]bool{}, 0
	for i, f := range m.Schema.Fields {
		k.that(f.Name != "", "schema.fields", "has a column %d without a name", i)
		k.that(f.Type != "", "schema.fields", "has column %q without a type", f.Name)
		k.that(!names[f.Name], "schema.fields", "names %q twice", f.Name)
		names[f.Name] = true
		if f.Key {
			keys++
		}
	}
	k.that(keys > 0, "schema.fields", "has no key column")
	k.hash("schema.hash", m.Schema.Hash)
	for _, p := range m.Pending {
		k.that(p != "", "pending", "has an empty name")
	}
}

func (m Manifest) validateInputs(k *check) {
	k.that(m.InputsFile == nil || len(m.Inputs) == 0 || len(m.Inputs) == m.InputsFile.Inputs, "inputs", "differ from inputs_file")
	if f := m.InputsFile; f != nil {
		k.key("inputs_file.key", f.Key)
		k.hash("inputs_file.sha256", f.SHA256)
		k.that(f.Inputs >= 0 && f.Bytes >= 0, "inputs_file", "has negative counts")
	}
	for _, in := range m.Inputs {
		k.that(in.Key != "" && utf8.ValidString(in.Key), "inputs", "has the key %q, which is empty or not UTF-8", in.Key)
		k.that(in.Bytes >= 0 && in.Rows >= 0, "inputs", "counts %d bytes and %d rows of %s", in.Bytes, in.Rows, in.Key)
		k.that(!strings.HasPrefix(in.ETag, `"`), "inputs", "has a quoted etag for %s", in.Key)
	}
}

func (m Manifest) validateFiles(k *check) {
	seen := map[string]bool{}
	keys := 0
	for _, f := range m.Schema.Fields {
		if f.Key {
			keys++
		}
	}
	for _, f := range m.DataFiles() {
		k.key("files", f.Key)
		k.that(idOf(f.Key) != "", "files", "names %q, which is neither under delta/<run id>/ nor under full/<generation>/", f.Key)
		k.that(!seen[f.Key], "files", "names %s twice", f.Key)
		seen[f.Key] = true
		k.hash("files.sha256", f.SHA256)
		k.that(f.Format != "", "files.format", "is empty for %s", f.Key)
		k.that(f.Rows >= 0 && f.Bytes > 0 && f.Layer >= 0, "files", "counts %d rows, %d bytes, layer %d of %s", f.Rows, f.Bytes, f.Layer, f.Key)
		if f.Rows > 0 {
			k.that(len(f.MinKey) == keys && len(f.MaxKey) == keys, "files", "gives key bounds of %d and %d columns for %s, want %d", len(f.MinKey), len(f.MaxKey), f.Key, keys)
		}
	}
}

// normal makes every slice and map non-nil, as they are written.
func (m Manifest) normal() Manifest {
	m.Format = m.formatOf()
	m.Jumps, m.Gap, m.Pending = some(m.Jumps), some(m.Gap), some(m.Pending)
	m.Inputs, m.Quarantined, m.Skipped = some(m.Inputs), some(m.Quarantined), some(m.Skipped)
	m.Files, m.Tombstones, m.Left, m.Retractions = bounded(m.Files), bounded(m.Tombstones), bounded(m.Left), bounded(m.Retractions)
	m.Checks, m.Schema.Fields = some(m.Checks), some(m.Schema.Fields)
	if m.TimingsMS == nil {
		m.TimingsMS = map[string]int64{}
	}
	if m.Base != nil {
		b := *m.Base
		b.Stale = some(b.Stale)
		m.Base = &b
	}
	if m.Full != nil {
		m.Full = m.Full.normal()
	}
	return m
}

func some[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func bounded(files []File) []File {
	out := make([]File, len(files))
	for i, f := range files {
		f.MinKey, f.MaxKey = some(f.MinKey), some(f.MaxKey)
		out[i] = f
	}
	return out
}

// Encode returns the canonical bytes: fields in the documented order, maps by name, no needless escapes, one line.
func (m Manifest) Encode() ([]byte, error) {
	m = m.normal()
	if m.InputsFile != nil {
		m.Inputs = []Input{}
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("encode manifest %s: %w", m.RunID, err)
	}
	b, err := encode(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest %s: %w", m.RunID, err)
	}
	return b, nil
}

// DecodeManifest reads what Encode wrote, and what a later minor version writes: unknown fields are ignored, an unknown major format
// number is ErrFormat.
func DecodeManifest(b []byte) (Manifest, error) {
	var m Manifest
	if err := decode(b, &m, manifestFormat, layeredFormat); err != nil {
		return Manifest{}, fmt.Errorf("decode manifest: %w", err)
	}
	if said := m.Format; m.formatOf() == layeredFormat && major(said) != layeredFormat {
		// A reader that went by the format would have taken each layer for the whole.
		return Manifest{}, fmt.Errorf("decode manifest: it has layers and says it is of format %q", said)
	}
	m = m.normal()
	if err := m.Validate(); err != nil {
		return Manifest{}, fmt.Errorf("decode manifest: %w", err)
	}
	return m, nil
}
