package reader

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
)

// Snapshot is one version of the index. It never changes and is safe for concurrent use.
type Snapshot struct {
	Current      sink.Current
	Manifest     sink.Manifest
	BaseManifest *sink.Manifest // nil without a base

	delta, tombstones, base *table
}

// pair checks that the manifests belong to CURRENT and to each other (Invariant 2).
func (s *Snapshot) pair() error {
	c, m := s.Current, s.Manifest
	switch {
	case m.Kind != sink.Delta || m.RunID != c.RunID || m.Pipeline != c.Pipeline:
		return fmt.Errorf("%w: manifest of %s run %s of pipeline %s under CURRENT's run %s of %s", ErrPair, m.Kind, m.RunID, m.Pipeline, c.RunID, c.Pipeline)
	case (m.Base == nil) != (c.Base == nil):
		return fmt.Errorf("%w: only one of CURRENT and %s names a base", ErrPair, c.Delta.Manifest)
	case c.Base == nil:
		return nil
	case m.Base.Generation != c.Base.Generation || m.Base.SHA256 != c.Base.SHA256:
		return fmt.Errorf("%w: the delta was computed for base %s, CURRENT names %s", ErrPair, m.Base.Generation, c.Base.Generation)
	}
	b := s.BaseManifest
	if b.Kind != sink.Full || b.RunID != c.Base.Generation || b.Cut == nil || !b.Cut.Equal(c.Base.Cut.Time) {
		return fmt.Errorf("%w: %s is not the manifest of base %s cut at %s", ErrPair, c.Base.Manifest, c.Base.Generation, c.Base.Cut)
	}
	if m.Coverage.From.After(b.Cut.Time) {
		return fmt.Errorf("%w: the delta covers from %s, the base ends at %s", ErrPair, m.Coverage.From, b.Cut)
	}
	return nil
}

// compatible checks that one key means the same in both.
func (s *Snapshot) compatible() error {
	if s.base == nil {
		return nil
	}
	a, b := s.delta.keyFields, s.base.keyFields
	if parquet.SchemaHash(a) != parquet.SchemaHash(b) {
		return fmt.Errorf("%w: their keys have different columns or types", ErrPair)
	}
	return nil
}

// Fields are the columns of the delta's documents.
func (s *Snapshot) Fields() []column.Field { return s.delta.fields }

// Get returns the document of a key, given as one text per key column in the forms of sink/parquet. found is false if there is none. A
// text that is no value of its column is an error.
func (s *Snapshot) Get(ctx context.Context, key ...string) (doc Document, found bool, err error) {
	f, err := s.Find(ctx, key...)
	return f.Document, f.Found, err
}

// Layer is where a key stands.
type Layer string

// The layers.
const (
	InDelta   Layer = "delta"
	Tombstone Layer = "tombstone" // the delta says that there is no document
	InBase    Layer = "base"
	Nowhere   Layer = ""
)

// Found is what an index says of a key, and what says it.
type Found struct {
	Document // where Found
	Found    bool
	Layer    Layer
	// File is the data file that has the key, relative to the output; empty where none has.
	File string
}

// Find is Get, and tells where the answer came from.
func (s *Snapshot) Find(ctx context.Context, key ...string) (Found, error) {
	probe, err := s.delta.probe(key)
	if err != nil {
		return Found{}, err
	}
	for _, l := range []struct {
		layer Layer
		table *table
	}{{InDelta, s.delta}, {Tombstone, s.tombstones}, {InBase, s.base}} {
		doc, file, err := l.table.find(ctx, probe)
		if err != nil {
			return Found{}, err
		}
		if file != "" {
			f := Found{Found: l.layer != Tombstone, Layer: l.layer, File: file}
			if f.Found {
				f.Document = doc
			}
			return f, nil
		}
	}
	return Found{}, nil
}

// All iterates over every document in key order, those of the delta before those of the base where keys are equal (the base's are left
// out then). It stops after the first error. Of a lazy snapshot it holds one file of each at a time.
func (s *Snapshot) All(ctx context.Context) iter.Seq2[Document, error] {
	return func(yield func(Document, error) bool) {
		for m := s.merge(); ; {
			row, err := m.at(ctx)
			if err != nil {
				yield(Document{}, err)
				return
			}
			if row == nil || !yield(row.doc(), nil) {
				return
			}
			row.next()
		}
	}
}

// merged walks the documents of a snapshot: delta, tombstones and base side by side.
type merged struct{ delta, tombstones, base *scan }

func (s *Snapshot) merge() *merged {
	return &merged{s.delta.scan(), s.tombstones.scan(), s.base.scan()}
}

// at is the scan that stands at the next document, or nil at the end. The caller moves it on.
func (m *merged) at(ctx context.Context) (*scan, error) {
	d, t, b := m.delta, m.tombstones, m.base
	for {
		for _, c := range []*scan{d, t, b} {
			if err := c.fill(ctx); err != nil {
				return nil, err
			}
		}
		switch {
		case d.done && b.done:
			return nil, nil
		case !b.done && !d.done && b.compare(d) == 0, !b.done && !t.done && b.compare(t) == 0:
			b.next() // hidden by the delta or by a tombstone
		case !t.done && (b.done || t.compare(b) < 0):
			t.next() // hides nothing (any more)
		case b.done || !d.done && d.compare(b) < 0:
			return d, nil
		default:
			return b, nil
		}
	}
}

// Files are the keys of the live data files relative to the output: the delta's, its tombstones, the base's.
func (s *Snapshot) Files() (delta, tombstones, base []string) {
	delta, tombstones = keys(s.Manifest.Files), keys(s.Manifest.Tombstones)
	if s.BaseManifest != nil {
		base = keys(s.BaseManifest.Files)
	}
	return delta, tombstones, base
}

func keys(files []sink.File) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.Key
	}
	return out
}

// SQL is a DuckDB table expression over exactly the live files below root: read_parquet([…]), or with a base a subquery that lets the
// delta's documents and tombstones hide the base's.
func (s *Snapshot) SQL(root string) string {
	delta, tombstones, base := s.Files()
	if len(base) == 0 {
		return readParquet(root, delta, s.delta.fields)
	}
	var on []string
	for _, f := range s.delta.keyFields {
		name := `"` + strings.ReplaceAll(f.Name, `"`, `""`) + `"`
		on = append(on, fmt.Sprintf("h.%s = b.%s", name, name))
	}
	hide := "SELECT * FROM " + readParquet(root, delta, s.delta.fields)
	if len(tombstones) > 0 {
		hide += " UNION ALL BY NAME SELECT * FROM " + readParquet(root, tombstones, s.delta.keyFields)
	}
	return fmt.Sprintf("(SELECT * FROM %s UNION ALL BY NAME SELECT * FROM %s b WHERE NOT EXISTS (SELECT 1 FROM (%s) h WHERE %s))",
		readParquet(root, delta, s.delta.fields), readParquet(root, base, s.base.fields), hide, strings.Join(on, " AND "))
}

func readParquet(root string, keys []string, fields []column.Field) string {
	if len(keys) == 0 {
		cols := make([]string, len(fields))
		for i, f := range fields {
			cols[i] = `NULL AS "` + strings.ReplaceAll(f.Name, `"`, `""`) + `"`
		}
		return "(SELECT " + strings.Join(cols, ", ") + " WHERE false)"
	}
	quoted := make([]string, len(keys))
	for i, k := range keys {
		quoted[i] = "'" + strings.ReplaceAll(strings.TrimSuffix(root, "/")+"/"+k, "'", "''") + "'"
	}
	return "read_parquet([" + strings.Join(quoted, ", ") + "])"
}
