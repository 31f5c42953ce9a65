package parquet

import (
	"context"
	"fmt"
	"io"

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
	// Put takes a finished file: one at a time, in their order, on a goroutine of its own while the next file is written. It may keep body
	// no longer than the call. Its context is that of the Write or Close that finished the file, and ends with Abort.
	Put func(ctx context.Context, p Part, body io.ReadSeeker) error
	// Spool returns where a file's bytes wait for Put; nil keeps them in memory, all of a file at a time.
	Spool func() Spool
	// Frames keeps compressed pages for the files that another Writer writes next; nil keeps none. The bytes are the same.
	Frames *Frames
	// Workers is how many columns are encoded at a time; 0 and 1 are one after the other. The bytes are the same.
	Workers int
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
	layout *layout
	cols   []*shredder
	leaves []*leaf
	pagers []*pager      // by worker, once there is a document
	order  []*leaf       // the leaves, the most laborious first
	last   *column.Batch // key columns of the row before, or no row

	out   *output
	file  *file
	part  Part
	page  struct{ rows, weight int }
	group struct{ rows, weight int }
	put   *flight // the file before, on its way
	parts []Part
}

// NewWriter returns a writer; it does no I/O.
func NewWriter(o Options) (*Writer, error) {
	if err := CheckFields(o.Fields); err != nil {
		return nil, fmt.Errorf("write %s: %w", o.Name, err)
	}
	if o.Spool == nil {
		o.Spool = func() Spool { return &memory{} }
	}
	w := &Writer{o: o, size: formatSizes(), last: column.NewBatch(o.Fields)}
	w.cols, w.leaves = newShredders(o.Fields)
	w.layout = newLayout(o.Fields, w.leaves)
	return w, nil
}

// Write adds the rows of a batch, whose columns are those of Options.Fields. The batch may be reused afterwards.
func (w *Writer) Write(ctx context.Context, b *column.Batch) error {
	return w.WriteRows(ctx, b, 0, b.Len)
}

// WriteRows adds rows i to j of a batch, as Write does with all.
func (w *Writer) WriteRows(ctx context.Context, b *column.Batch, i, j int) error {
	if err := w.writeRows(ctx, b, i, j); err != nil {
		return fmt.Errorf("write %s: %w", w.o.Name, err)
	}
	return nil
}

func (w *Writer) writeRows(ctx context.Context, b *column.Batch, i, j int) error {
	if err := w.check(b, i, j); err != nil {
		return err
	}
	for i < j {
		to, full := w.segment(b, i, j)
		if err := w.add(b, i, to); err != nil {
			return err
		}
		i = to
		if full {
			if err := w.flushPage(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// check holds rows i to j of the batch against the schema and the order of keys.
func (w *Writer) check(b *column.Batch, i, j int) error {
	switch {
	case i < 0 || i > j || j > b.Len:
		return fmt.Errorf("rows %d to %d of a batch of %d", i, j, b.Len)
	case len(b.Columns) != len(w.o.Fields):
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
		if f.Key && countNulls(v, i, j) > 0 {
			return fmt.Errorf("column %s: null in a key column", f.Name)
		}
	}
	if i == j {
		return nil
	}
	if w.last.Len > 0 && CompareKeys(w.o.Fields, w.last, 0, b, i) >= 0 {
		return w.disorder(w.last, 0, b, i)
	}
	if k := unordered(w.o.Fields, b, i, j); k >= 0 {
		return w.disorder(b, k-1, b, k)
	}
	return nil
}

func (w *Writer) disorder(prev *column.Batch, i int, b *column.Batch, j int) error {
	return fmt.Errorf("key %q does not follow %q: documents must be sorted by key and unique",
		KeyTexts(w.o.Fields, b, j), KeyTexts(w.o.Fields, prev, i))
}

// segment finds the rows from i on that still go into the page; full says that the page ends with them.
func (w *Writer) segment(b *column.Batch, i, j int) (to int, full bool) {
	to = min(j, i+w.size.pageRows-w.page.rows)
	sum := 0
	for _, v := range b.Columns {
		sum += weight(v, i, to)
	}
	if w.page.weight+sum < w.size.pageWeight {
		w.page.weight += sum
		w.page.rows += to - i
		return to, w.page.rows == w.size.pageRows
	}
	for to = i; to < j; { // the page ends somewhere here
		for _, v := range b.Columns {
			w.page.weight += weight(v, to, to+1)
		}
		to++
		if w.page.rows++; w.page.rows == w.size.pageRows || w.page.weight >= w.size.pageWeight {
			return to, true
		}
	}
	return to, false
}

func (w *Writer) add(b *column.Batch, i, j int) error {
	if w.file == nil {
		if err := w.begin(KeyTexts(w.o.Fields, b, i)); err != nil {
			return err
		}
	}
	for c, s := range w.cols {
		if err := s.rows(b.Columns[c], i, j); err != nil {
			return err
		}
	}
	w.part.Rows += int64(j - i)
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

func (w *Writer) begin(minKey []string) (err error) {
	if err := w.hire(); err != nil {
		return err
	}
	w.out = newOutput(w.o.Spool())
	w.part = Part{Name: fmt.Sprintf("%s-%05d.parquet", w.o.Name, len(w.parts)), MinKey: minKey}
	w.file, err = newFile(w.out, w.layout)
	return err
}

// flushPage ends the page of every column, and the row group and the file when they are full.
func (w *Writer) flushPage(ctx context.Context) error {
	if w.page.rows == 0 {
		return nil
	}
	if err := w.encode(); err != nil {
		return err
	}
	w.group.rows, w.group.weight = w.group.rows+w.page.rows, w.group.weight+w.page.weight
	w.page.rows, w.page.weight = 0, 0
	if w.group.rows < w.size.groupRows && w.group.weight < w.size.groupWeight {
		return nil
	}
	if err := w.flushGroup(); err != nil {
		return err
	}
	if w.part.Rows >= w.size.fileRows || w.out.size >= w.size.fileBytes {
		return w.finish(ctx)
	}
	return nil
}

func (w *Writer) flushGroup() error {
	w.group.rows, w.group.weight = 0, 0
	if err := w.file.group(w.pagers[0], w.leaves); err != nil {
		return fmt.Errorf("write row group: %w", err)
	}
	return nil
}

// finish closes the file and hands it over.
func (w *Writer) finish(ctx context.Context) error {
	if err := w.file.close(); err != nil {
		return fmt.Errorf("write footer: %w", err)
	}
	w.part.MaxKey = KeyTexts(w.o.Fields, w.last, 0)
	w.part.Bytes, w.part.SHA256 = w.out.size, w.out.hash()
	part, spool := w.part, w.out.spool
	w.out, w.file = nil, nil
	body, err := spool.Seal()
	if err != nil {
		return fmt.Errorf("spool %s: %w", part.Name, err)
	}
	if err := w.landed(); err != nil {
		body.Close()
		return err
	}
	w.put = fly(ctx, part.Name, func(ctx context.Context) error {
		defer body.Close()
		return w.o.Put(ctx, part, io.NewSectionReader(body, 0, part.Bytes))
	})
	w.parts = append(w.parts, part)
	return nil
}

// landed waits for the file that is on its way and returns what became of it.
func (w *Writer) landed() error {
	if w.put == nil {
		return nil
	}
	err := w.put.wait()
	w.put = nil
	return err
}

// Close hands the last file over, waits until it has arrived, and returns all of them. Without any document there is none.
func (w *Writer) Close(ctx context.Context) ([]Part, error) {
	err := w.flushPage(ctx)
	if err == nil && w.file != nil {
		if w.group.rows > 0 {
			err = w.flushGroup()
		}
		if err == nil {
			err = w.finish(ctx)
		}
	}
	if err == nil {
		err = w.landed()
	}
	if err != nil {
		w.Abort()
		return nil, fmt.Errorf("write %s: %w", w.o.Name, err)
	}
	return w.parts, nil
}

// Abort lets go of what was not handed over, and of the file that is being handed over. It is safe after Close.
func (w *Writer) Abort() {
	if w.put != nil {
		w.put.cancel()
		_ = w.landed() // given up
	}
	if w.out != nil {
		w.out.spool.Abort()
	}
	w.out, w.file = nil, nil
}
