package reader

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
)

// Snapshot is one version of the index. It never changes and is safe for concurrent use.
type Snapshot struct {
	Current      sink.Current
	Manifest     sink.Manifest
	BaseManifest *sink.Manifest // nil without a base

	delta, base *stack // base is nil without one
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
	if s.base == nil || s.base.empty() || parquet.SameKey(s.delta.keyFields, s.base.keyFields) {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrPair, ErrKeyTypes)
}

// KeyFields are the columns of a key, at the wider of the types that delta and base have them at: what the texts of Get are values of.
func (s *Snapshot) KeyFields() []column.Field {
	keys := slices.Clone(s.delta.keyFields)
	if s.base == nil || s.base.empty() {
		return keys
	}
	for i, f := range s.base.keyFields {
		if f.Type.Kind == column.Int64 || f.Type.Kind == column.Float64 {
			keys[i].Type = f.Type
		}
	}
	return keys
}

// empty is a snapshot that says nothing of any key.
func (s *Snapshot) empty() bool { return s.delta.empty() && (s.base == nil || s.base.empty()) }

// Fields are the columns of the delta's documents.
func (s *Snapshot) Fields() []column.Field { return s.delta.fields }

// Get returns the document of a key, given as one text per key column in the forms of sink/parquet. found is false if there is none. A
// text that is no value of its column is ErrKey.
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
	probe, err := keyRow(s.KeyFields(), key)
	if err != nil {
		return Found{}, fmt.Errorf("%w: %q: %w", ErrKey, key, err)
	}
	said, doc, file, err := s.delta.find(ctx, probe)
	if err != nil {
		return Found{}, err
	}
	switch said {
	case document:
		return Found{Document: doc, Found: true, Layer: InDelta, File: file}, nil
	case tombstone:
		return Found{Layer: Tombstone, File: file}, nil
	}
	if said, doc, file, err = s.base.find(ctx, probe); err != nil || said != document {
		return Found{}, err
	}
	return Found{Document: doc, Found: true, Layer: InBase, File: file}, nil
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

// merged walks the documents of a snapshot: delta and base side by side.
type merged struct{ delta, base *pile }

func (s *Snapshot) merge() *merged { return &merged{s.delta.pile(), s.base.pile()} }

// at is the pile that stands at the next document, or nil at the end. The caller moves it on.
func (m *merged) at(ctx context.Context) (*pile, error) {
	d, b := m.delta, m.base
	for {
		for _, p := range []*pile{d, b} {
			if err := p.fill(ctx); err != nil {
				return nil, err
			}
		}
		order := -1
		switch {
		case d.done() && b.done():
			return nil, nil
		case d.done():
			order = 1
		case !b.done():
			order = d.compare(b)
		}
		switch {
		case order > 0:
			return b, nil
		case order == 0:
			b.next() // hidden by the delta's document or tombstone
		case d.tombstone():
			d.next() // hides nothing (any more)
		default:
			return d, nil
		}
	}
}
