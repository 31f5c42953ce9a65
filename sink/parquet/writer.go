package parquet

import (
	"context"
	"fmt"
	"io"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
)

// sizes say where pages, row groups and files end.
type sizes struct {
	pageRows, pageWeight   int
	groupRows, groupWeight int
	fileRows, fileBytes    int64
}

// The sizes are part of the output format: changing one changes bytes.
const (
	pageRows  = 4096
	groupRows = 32 * pageRows // 131,072
	bloomBits = 10            // a value
)

func formatSizes() sizes {
	return sizes{
		pageRows: pageRows, pageWeight: 4 << 20,
		groupRows: groupRows, groupWeight: 256 << 20,
		fileRows: 8 * groupRows, fileBytes: 512 << 20,
	}
}

// Options are what a Writer needs.
type Options struct {
	// Fields is the schema; see CheckFields.
	Fields []column.Field
	// Name is what the files are called before their number: part, or tombstones.
	Name string
	// Put takes a finished file. It may keep body no longer than the call.
	Put func(ctx context.Context, p Part, body io.ReadSeeker) error
	// Spool returns where a file's bytes wait for Put; nil keeps them in memory, all of a file at a time.
	Spool func() Spool
}

// Part is a finished file. Its first and last key are as KeyText spells them.
type Part struct {
	Name   string
	Rows   int64
	Bytes  int64
	SHA256 string
	MinKey []string
	MaxKey []string
}

// File is the part as a manifest lists it, for a part stored under key.
func (p Part) File(key string) sink.File {
	return sink.File{Key: key, Format: "parquet", Rows: p.Rows, Bytes: p.Bytes, SHA256: p.SHA256, MinKey: p.MinKey, MaxKey: p.MaxKey}
}

// Writer writes documents in key order into as many files as they need. After an error only Abort makes sense. It is for one goroutine.
type Writer struct {
	o      Options
	size   sizes
	schema *pq.Schema
	config []pq.WriterOption
	cols   []*shredder
	leaves []*leaf
	last   *column.Batch // key columns of the row before, or no row

	out     *output
	file    *pq.Writer //nolint:staticcheck // the generic writer wants a Go type; columns are written without rows here
	columns []*pq.ColumnWriter
	part    Part
	page    struct{ rows, weight int }
	group   struct{ rows, weight int }
	parts   []Part
}

// NewWriter returns a writer; it does no I/O.
func NewWriter(o Options) (*Writer, error) {
	if err := CheckFields(o.Fields); err != nil {
		return nil, fmt.Errorf("write %s: %w", o.Name, err)
	}
	if o.Spool == nil {
		o.Spool = func() Spool { return &memory{} }
	}
	w := &Writer{o: o, size: formatSizes(), schema: pq.NewSchema("document", groupOf(o.Fields)), last: column.NewBatch(o.Fields)}
	var sorting []pq.SortingColumn
	var blooms []pq.BloomFilterColumn
	for _, f := range o.Fields {
		w.cols = append(w.cols, newShredder(f, "", 0, 0, &w.leaves))
		if f.Key {
			sorting = append(sorting, pq.Ascending(f.Name))
			if f.Type.Kind != column.Bool { // two values need no filter, and the format has none for them
				blooms = append(blooms, pq.SplitBlockFilter(bloomBits, f.Name))
			}
		}
	}
	w.config = []pq.WriterOption{
		w.schema,
		pq.CreatedBy("deltad", "1", "1"), // no version: an upgrade must not change bytes
		pq.Compression(&zstd.Codec{Level: zstd.SpeedFastest}),
		pq.DataPageVersion(1),
		pq.PageBufferSize(64 << 10),
		pq.BloomFilters(blooms...),
		pq.SortingWriterConfig(pq.SortingColumns(sorting...)),
	}
	return w, nil
}

// Write adds the rows of a batch, whose columns are those of Options.Fields. The batch may be reused afterwards.
func (w *Writer) Write(ctx context.Context, b *column.Batch) error {
	if err := w.check(b); err != nil {
		return fmt.Errorf("write %s: %w", w.o.Name, err)
	}
	for i := 0; i < b.Len; {
		j, full, err := w.segment(b, i)
		if err != nil {
			return fmt.Errorf("write %s: %w", w.o.Name, err)
		}
		if err := w.add(b, i, j); err != nil {
			return fmt.Errorf("write %s: %w", w.o.Name, err)
		}
		i = j
		if full {
			if err := w.flushPage(ctx); err != nil {
				return fmt.Errorf("write %s: %w", w.o.Name, err)
			}
		}
	}
	return nil
}

func (w *Writer) check(b *column.Batch) error {
	if len(b.Columns) != len(w.o.Fields) {
		return fmt.Errorf("batch of %d columns, want %d", len(b.Columns), len(w.o.Fields))
	}
	for c, f := range w.o.Fields {
		v := b.Columns[c]
		if v.Len() != b.Len {
			return fmt.Errorf("column %s: %d rows in a batch of %d", f.Name, v.Len(), b.Len)
		}
		if !v.Type.SameRepr(f.Type) {
			return fmt.Errorf("column %s: type %s, want %s", f.Name, v.Type, f.Type)
		}
		if f.Key && v.Type.Kind == column.Null && b.Len > 0 {
			return fmt.Errorf("column %s: null in a key column", f.Name)
		}
	}
	return nil
}

// segment finds the rows from i on that still go into the page, checking their order; full says that the page ends with them.
func (w *Writer) segment(b *column.Batch, i int) (j int, full bool, err error) {
	for j = i; j < b.Len; {
		for c, f := range w.o.Fields {
			if f.Key && b.Columns[c].Null(j) {
				return 0, false, fmt.Errorf("column %s: null in a key column", f.Name)
			}
		}
		prev, at := b, j-1
		if j == 0 {
			prev, at = w.last, 0
		}
		if prev.Len > 0 && CompareKeys(w.o.Fields, prev, at, b, j) >= 0 {
			return 0, false, fmt.Errorf("key %q does not follow %q: documents must be sorted by key and unique",
				KeyTexts(w.o.Fields, b, j), KeyTexts(w.o.Fields, prev, at))
		}
		for _, v := range b.Columns {
			w.page.weight += weight(v, j)
		}
		j++
		if w.page.rows++; w.page.rows == w.size.pageRows || w.page.weight >= w.size.pageWeight {
			return j, true, nil
		}
	}
	return j, false, nil
}

func (w *Writer) add(b *column.Batch, i, j int) error {
	if w.file == nil {
		w.begin(KeyTexts(w.o.Fields, b, i))
	}
	for c, s := range w.cols {
		if err := s.rows(b.Columns[c], i, j); err != nil {
			return err
		}
	}
	w.part.Rows += int64(j - i)
	w.part.MaxKey = KeyTexts(w.o.Fields, b, j-1)
	w.last.Reset()
	for c, f := range w.o.Fields {
		if f.Key {
			if err := w.last.Columns[c].AppendFrom(b.Columns[c], j-1); err != nil {
				return fmt.Errorf("column %s: %w", f.Name, err)
			}
		}
	}
	w.last.Len = 1
	return nil
}

func (w *Writer) begin(minKey []string) {
	w.out = newOutput(w.o.Spool())
	w.file = pq.NewWriter(w.out, w.config...)
	w.columns = w.file.ColumnWriters()
	w.part = Part{Name: fmt.Sprintf("%s-%05d.parquet", w.o.Name, len(w.parts)), MinKey: minKey}
}

// flushPage ends the page of every column, and the row group and the file when they are full.
func (w *Writer) flushPage(ctx context.Context) error {
	if w.page.rows == 0 {
		return nil
	}
	for _, l := range w.leaves {
		c := w.columns[l.index]
		if _, err := c.WriteRowValues(l.vals); err != nil {
			return fmt.Errorf("encode page: %w", err)
		}
		if err := c.Flush(); err != nil {
			return fmt.Errorf("encode page: %w", err)
		}
		l.reset()
	}
	w.group.rows, w.group.weight = w.group.rows+w.page.rows, w.group.weight+w.page.weight
	w.page.rows, w.page.weight = 0, 0
	if w.group.rows < w.size.groupRows && w.group.weight < w.size.groupWeight {
		return nil
	}
	if err := w.flushGroup(); err != nil {
		return err
	}
	if w.part.Rows >= w.size.fileRows || w.file.Size() >= w.size.fileBytes {
		return w.finish(ctx)
	}
	return nil
}

func (w *Writer) flushGroup() error {
	w.group.rows, w.group.weight = 0, 0
	if err := w.file.Flush(); err != nil {
		return fmt.Errorf("write row group: %w", err)
	}
	return nil
}

// finish closes the file and hands it over.
func (w *Writer) finish(ctx context.Context) error {
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("write footer: %w", err)
	}
	w.part.Bytes, w.part.SHA256 = w.out.size, w.out.hash()
	spool := w.out.spool
	w.out, w.file, w.columns = nil, nil, nil
	body, err := spool.Seal()
	if err != nil {
		return fmt.Errorf("spool %s: %w", w.part.Name, err)
	}
	defer body.Close()
	if err := w.o.Put(ctx, w.part, io.NewSectionReader(body, 0, w.part.Bytes)); err != nil {
		return err
	}
	w.parts = append(w.parts, w.part)
	return nil
}

// Close hands the last file over and returns all of them. Without any document there is none.
func (w *Writer) Close(ctx context.Context) ([]Part, error) {
	if w.file == nil {
		return w.parts, nil
	}
	err := w.flushPage(ctx)
	if err == nil && w.file != nil {
		if w.group.rows > 0 {
			err = w.flushGroup()
		}
		if err == nil {
			err = w.finish(ctx)
		}
	}
	if err != nil {
		w.Abort()
		return nil, fmt.Errorf("write %s: %w", w.o.Name, err)
	}
	return w.parts, nil
}

// Abort lets go of what was not handed over. It is safe after Close.
func (w *Writer) Abort() {
	if w.out != nil {
		w.out.spool.Abort()
	}
	w.out, w.file = nil, nil
}
