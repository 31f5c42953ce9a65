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

// table is a sorted sequence of rows in files: the documents of one layer of a pane or of a base, or keys that the layer says something of.
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

// table opens files in their order; known are files that are open already, by what nameOf says.
func (r *Reader) table(ctx context.Context, m sink.Manifest, files []sink.File, keysOnly bool, known map[string]*file) (*table, error) {
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
		if f.Format != "parquet" {
			return nil, fmt.Errorf("%s: format %q is unknown to this reader", f.Key, f.Format)
		}
		lo, err := keyRow(t.keyFields, f.MinKey)
		if err != nil {
			return nil, fmt.Errorf("%s: min_key: %w", f.Key, err)
		}
		hi, err := keyRow(t.keyFields, f.MaxKey)
		if err != nil {
			return nil, fmt.Errorf("%s: max_key: %w", f.Key, err)
		}
		if t.order(lo, 0, hi, 0) > 0 || last != nil && t.order(last, 0, lo, 0) >= 0 {
			return nil, fmt.Errorf("%s: %w: its keys do not follow the file before", f.Key, sink.ErrCorrupt)
		}
		last = hi
		open := known[nameOf(f)]
		if open == nil || open.Rows != f.Rows || open.Bytes != f.Bytes {
			open = &file{File: f, max: hi}
		}
		t.files = append(t.files, open)
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

// nameOf tells a file from every other: no key is used twice, and the hash is of its bytes.
func nameOf(f sink.File) string { return f.SHA256 + " " + f.Key }

// order compares rows of batches that hold the columns of the table, of another table with the same key, or the key alone.
func (t *table) order(a *column.Batch, i int, b *column.Batch, j int) int {
	return parquet.CompareKeys(t.keyFields, a, i, b, j)
}

// keyRow makes a batch of one key.
func keyRow(keyFields []column.Field, key []string) (*column.Batch, error) {
	if len(key) != len(keyFields) {
		return nil, fmt.Errorf("%d key values, want %d", len(key), len(keyFields))
	}
	return parquet.KeyRow(keyFields, key)
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

// kept are the rows of a file that was loaded, else nil.
func (f *file) kept() []*column.Batch {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.batches
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

// each calls emit with the rows of a file, a row group at a time. It holds the file's bytes and one group.
func (t *table) each(ctx context.Context, f *file, emit func(*column.Batch) error) error {
	o, err := t.open(ctx, f)
	for err == nil {
		var b *column.Batch
		if b, err = o.next(); err == nil {
			err = emit(b)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// opened is a file whose bytes are at hand and verified.
type opened struct {
	*file
	rd   *parquet.Reader
	rows int64
}

func (t *table) open(ctx context.Context, f *file) (*opened, error) {
	b, _, err := store.ReadAll(ctx, t.st, f.Key, f.Bytes, store.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Key, err)
	}
	if got := sink.Sum(b); got != f.SHA256 {
		return nil, fmt.Errorf("read %s: %w: sha256 %s, want %s", f.Key, sink.ErrCorrupt, got, f.SHA256)
	}
	rd, err := parquet.NewReader(bytes.NewReader(b), int64(len(b)), t.fields)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Key, err)
	}
	if rd.Rows() != f.Rows {
		return nil, fmt.Errorf("read %s: %w: %d rows, want %d", f.Key, sink.ErrCorrupt, rd.Rows(), f.Rows)
	}
	return &opened{file: f, rd: rd}, nil
}

// next is the next row group, or io.EOF after the last.
func (o *opened) next() (*column.Batch, error) {
	b, err := o.rd.Next()
	switch {
	case errors.Is(err, io.EOF) && o.rows != o.Rows:
		return nil, fmt.Errorf("read %s: %w: %d rows, want %d", o.Key, sink.ErrCorrupt, o.rows, o.Rows)
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	o.rows += int64(b.Len)
	return b, nil
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

// find returns the row of a key and the file that has it, or "".
func (t *table) find(ctx context.Context, probe *column.Batch) (Document, string, error) {
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

// scan walks the rows of a table in order. What it reads itself it does not keep, since it comes by once: it holds the bytes of one file
// and one row group.
type scan struct {
	t       *table
	file    int
	open    *opened         // where the file at hand was not loaded before
	batches []*column.Batch // of one that was
	batch   *column.Batch
	key     *column.Batch
	row     int
	done    bool
}

func (t *table) scan() *scan { return &scan{t: t} }

// fill makes the row at hand available, or sets done.
func (s *scan) fill(ctx context.Context) error {
	for !s.done && (s.batch == nil || s.row == s.batch.Len) {
		b, err := s.group(ctx)
		switch {
		case errors.Is(err, io.EOF):
			s.done = true
		case err != nil:
			return err
		default:
			s.batch, s.key, s.row = b, s.t.keyOf(b), 0
		}
	}
	return nil
}

// group is the next row group of the table, or io.EOF.
func (s *scan) group(ctx context.Context) (*column.Batch, error) {
	for {
		if len(s.batches) > 0 {
			b := s.batches[0]
			s.batches = s.batches[1:]
			return b, nil
		}
		if s.open != nil {
			b, err := s.open.next()
			if !errors.Is(err, io.EOF) {
				return b, err
			}
			s.open = nil
		}
		if s.file == len(s.t.files) {
			return nil, io.EOF
		}
		f := s.t.files[s.file]
		s.file++
		if s.batches = f.kept(); s.batches == nil {
			var err error
			if s.open, err = s.t.open(ctx, f); err != nil {
				return nil, err
			}
		}
	}
}

func (s *scan) compareKeys(o *scan) int { return s.t.order(s.key, s.row, o.key, o.row) }
func (s *scan) doc() Document           { return Document{Fields: s.t.fields, Batch: s.batch, Row: s.row} }
