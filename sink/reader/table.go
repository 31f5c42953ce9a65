package reader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/store"
)

// table is a sorted sequence of rows in files: the documents of a pane or a base, or the keys of tombstones.
type table struct {
	st        store.Store
	fields    []column.Field
	keyFields []column.Field
	files     []*file
}

// file is loaded at most once, when its rows are first needed.
type file struct {
	sink.File
	max *column.Batch // one row: the last key
	mu  struct {
		sync.Mutex
		batches []*column.Batch
		loaded  bool
	}
}

func (r *Reader) table(ctx context.Context, m sink.Manifest, files []sink.File, keysOnly bool) (*table, error) {
	fields, err := parquet.Fields(m.Schema)
	if err != nil {
		return nil, fmt.Errorf("manifest of %s: %w", m.RunID, err)
	}
	t := &table{st: r.st, fields: fields, keyFields: parquet.KeyFields(fields)}
	if keysOnly {
		t.fields = t.keyFields
	}
	var last *column.Batch
	for _, f := range files {
		if f.Layer != 0 {
			return nil, fmt.Errorf("%s: %w", f.Key, ErrLayers)
		}
		if f.Format != "parquet" {
			return nil, fmt.Errorf("%s: format %q is unknown to this reader", f.Key, f.Format)
		}
		lo, err := t.row(f.MinKey)
		if err != nil {
			return nil, fmt.Errorf("%s: min_key: %w", f.Key, err)
		}
		hi, err := t.row(f.MaxKey)
		if err != nil {
			return nil, fmt.Errorf("%s: max_key: %w", f.Key, err)
		}
		if t.order(lo, 0, hi, 0) > 0 || last != nil && t.order(last, 0, lo, 0) >= 0 {
			return nil, fmt.Errorf("%s: %w: its keys do not follow the file before", f.Key, sink.ErrCorrupt)
		}
		last = hi
		t.files = append(t.files, &file{File: f, max: hi})
	}
	if r.o.Lazy {
		return t, nil
	}
	for _, f := range t.files {
		if _, err := t.load(ctx, f); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// order compares rows of batches that hold the columns of the table, of another table with the same key, or the key alone.
func (t *table) order(a *column.Batch, i int, b *column.Batch, j int) int {
	return parquet.CompareKeys(t.keyFields, a, i, b, j)
}

// row makes a batch of one key.
func (t *table) row(key []string) (*column.Batch, error) {
	if len(key) != len(t.keyFields) {
		return nil, fmt.Errorf("%d key values, want %d", len(key), len(t.keyFields))
	}
	b, err := parquet.KeyRow(t.keyFields, key)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (t *table) probe(key []string) (*column.Batch, error) {
	b, err := t.row(key)
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	return b, nil
}

// load returns the rows of a file, verified.
func (t *table) load(ctx context.Context, f *file) ([]*column.Batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.loaded {
		return f.mu.batches, nil
	}
	batches, err := t.read(ctx, f)
	f.mu.batches, f.mu.loaded = batches, err == nil
	return batches, err
}

// pass is load for a scan, which comes by once: it does not keep what it read.
func (t *table) pass(ctx context.Context, f *file) ([]*column.Batch, error) {
	f.mu.Lock()
	batches, loaded := f.mu.batches, f.mu.loaded
	f.mu.Unlock()
	if loaded {
		return batches, nil
	}
	return t.read(ctx, f)
}

func (t *table) read(ctx context.Context, f *file) ([]*column.Batch, error) {
	var batches []*column.Batch
	err := t.each(ctx, f, func(b *column.Batch) error {
		batches = append(batches, b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return batches, nil
}

// each calls emit with the rows of a file, whose bytes are verified before, a row group at a time. It holds the file's bytes and one group.
func (t *table) each(ctx context.Context, f *file, emit func(*column.Batch) error) error {
	b, _, err := store.ReadAll(ctx, t.st, f.Key, f.Bytes, store.GetOptions{})
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Key, err)
	}
	if got := sink.Sum(b); got != f.SHA256 {
		return fmt.Errorf("read %s: %w: sha256 %s, want %s", f.Key, sink.ErrCorrupt, got, f.SHA256)
	}
	rd, err := parquet.NewReader(bytes.NewReader(b), int64(len(b)), t.fields)
	if err != nil {
		return fmt.Errorf("read %s: %w", f.Key, err)
	}
	if rd.Rows() != f.Rows {
		return fmt.Errorf("read %s: %w: %d rows, want %d", f.Key, sink.ErrCorrupt, rd.Rows(), f.Rows)
	}
	rows := int64(0)
	for {
		batch, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Key, err)
		}
		rows += int64(batch.Len)
		if err := emit(batch); err != nil {
			return err
		}
	}
	if rows != f.Rows {
		return fmt.Errorf("read %s: %w: %d rows, want %d", f.Key, sink.ErrCorrupt, rows, f.Rows)
	}
	return nil
}

// keyOf narrows a batch to its key columns, as order wants them.
func (t *table) keyOf(b *column.Batch) *column.Batch {
	if len(b.Columns) == len(t.keyFields) {
		return b
	}
	k := &column.Batch{Len: b.Len}
	for i, f := range t.fields {
		if f.Key {
			k.Columns = append(k.Columns, b.Columns[i])
		}
	}
	return k
}

// find returns the row of a key and the file that has it, or "". A nil table has none.
func (t *table) find(ctx context.Context, probe *column.Batch) (Document, string, error) {
	if t == nil {
		return Document{}, "", nil
	}
	at := sort.Search(len(t.files), func(i int) bool { return t.order(t.files[i].max, 0, probe, 0) >= 0 })
	if at == len(t.files) {
		return Document{}, "", nil
	}
	batches, err := t.load(ctx, t.files[at])
	if err != nil {
		return Document{}, "", err
	}
	for _, b := range batches {
		k := t.keyOf(b)
		if b.Len == 0 || t.order(k, b.Len-1, probe, 0) < 0 {
			continue
		}
		i := sort.Search(b.Len, func(i int) bool { return t.order(k, i, probe, 0) >= 0 })
		if t.order(k, i, probe, 0) != 0 {
			break
		}
		return Document{Fields: t.fields, Batch: b, Row: i}, t.files[at].Key, nil
	}
	return Document{}, "", nil
}

// scan walks the rows of a table in order. A nil table has none.
type scan struct {
	t       *table
	file    int
	batches []*column.Batch
	batch   *column.Batch
	key     *column.Batch
	row     int
	done    bool
}

func (t *table) scan() *scan { return &scan{t: t, done: t == nil} }

// fill makes the row at hand available, or sets done.
func (s *scan) fill(ctx context.Context) error {
	for !s.done && (s.batch == nil || s.row == s.batch.Len) {
		switch {
		case len(s.batches) > 0:
			s.batch, s.batches, s.row = s.batches[0], s.batches[1:], 0
			s.key = s.t.keyOf(s.batch)
		case s.file < len(s.t.files):
			var err error
			if s.batches, err = s.t.pass(ctx, s.t.files[s.file]); err != nil {
				return err
			}
			s.file++
		default:
			s.done = true
		}
	}
	return nil
}

func (s *scan) next()               { s.row++ }
func (s *scan) compare(o *scan) int { return s.t.order(s.key, s.row, o.key, o.row) }
func (s *scan) doc() Document       { return Document{Fields: s.t.fields, Batch: s.batch, Row: s.row} }
