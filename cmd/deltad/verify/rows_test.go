package verify_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/cmd/deltad/indextest"
	"github.com/deltad/deltad/cmd/deltad/verify"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
)

// rewrite puts other rows in the place of the files of a manifest: change is
// handed each document, and says whether it stays.
func rewrite(t *testing.T, x *indextest.Index, m *sink.Manifest, change func(key string, set func(column string, to int64)) bool) {
	t.Helper()
	fields, err := parquet.Fields(m.Schema)
	if err != nil {
		t.Fatal(err)
	}
	var files []sink.File
	w, err := parquet.NewWriter(parquet.Options{Fields: fields, Name: "part", Put: func(ctx context.Context, p parquet.Part, body io.ReadSeeker) error {
		key := strings.Replace(m.Files[len(files)].Key, "part-", "part-9", 1)
		files = append(files, p.File(key))
		_, err := x.Out.Put(ctx, key, body, store.PutOptions{})
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = reader.Pane(t.Context(), x.Out, *m, func(b *column.Batch) error {
		out := column.NewBatch(fields)
		for row := range b.Len {
			key := reader.Document{Fields: fields, Batch: b, Row: row}.Key()[0]
			set := func(name string, to int64) {
				for i, f := range fields {
					if f.Name == name {
						b.Columns[i].Ints[row] = to
					}
				}
			}
			if !change(key, set) {
				continue
			}
			for i, v := range out.Columns {
				if err := v.AppendFrom(b.Columns[i], row); err != nil {
					return err
				}
			}
			out.Len++
		}
		return w.Write(t.Context(), out)
	})
	if err == nil {
		_, err = w.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Files, m.Counts.Documents = files, 0
	for _, f := range files {
		m.Counts.Documents += f.Rows
	}
}

// TestRecomputeNamesWhatDiffers: key, column, both values and the file of what
// was published and is not what the inputs make, in a pane and in a base.
func TestRecomputeNamesWhatDiffers(t *testing.T) {
	x := indextest.Grown(t)
	forge(t, x, func(m *sink.Manifest) {
		rewrite(t, x, m, func(key string, set func(string, int64)) bool {
			if key == "x" {
				set("clicks", 4711)
				set("updates", 9)
			}
			return key != "z"
		})
	})
	m := x.Live()
	file := m.Files[0].Key
	all, ok := checks(t, x, verify.Options{Recompute: true})
	c := all[verify.CheckRecompute]
	if ok || c.Status != verify.Failed || c.Found < 5 || len(c.Findings) != c.Found {
		t.Fatalf("%+v", c)
	}
	for i, want := range []string{
		`key ["x"], column updates: 4 comes out, 9 was published in ` + file,
		`key ["x"], column clicks: 12 comes out, 4711 was published in ` + file,
		`key ["z"]: a document comes out, and none was published`,
	} {
		if c.Findings[i] != want {
			t.Errorf("finding %d: %s\nwant %s", i, c.Findings[i], want)
		}
	}
	if last := c.Findings[c.Found-1]; !strings.Contains(last, file) {
		t.Errorf("the file is named last, not %s", last)
	}
}

// TestRecomputeNamesAFew: however many rows differ, and however long they are.
func TestRecomputeNamesAFew(t *testing.T) {
	x := indextest.New(t, false)
	var rows []string
	for i := range 100 {
		rows = append(rows, indextest.Row(fmt.Sprintf("item %03d", i), "03:00", 1, strings.Repeat("long ", 1000)))
	}
	x.Put("03:00", "a.ndjson", rows...)
	x.Step("03:00", microbatch.Advanced)
	body := read(t, x.Raw, indextest.Key("03:00", "a.ndjson"))
	forge(t, x, func(m *sink.Manifest) {
		rewrite(t, x, m, func(_ string, set func(string, int64)) bool {
			set("clicks", 7)
			return true
		})
	})
	if !bytes.Equal(body, read(t, x.Raw, indextest.Key("03:00", "a.ndjson"))) {
		t.Fatal("the source was changed")
	}
	all, _ := checks(t, x, verify.Options{Recompute: true})
	c := all[verify.CheckRecompute]
	if len(c.Findings) != verify.MaxFindings || c.Found != 100+2 || !strings.HasPrefix(c.Findings[19], `key ["item 019"], column clicks: 1 comes out, 7 was`) {
		t.Errorf("%d of %d: %v", len(c.Findings), c.Found, c.Findings)
	}
	for _, f := range c.Findings {
		if len(f) > 500 {
			t.Errorf("a finding of %d bytes", len(f))
		}
	}
}

// TestRecomputeNamesWhatLayersComeTo: the layers together hold keys that the
// inputs do not make.
func TestRecomputeNamesWhatLayersComeTo(t *testing.T) {
	x := layered(t)
	forge(t, x, func(m *sink.Manifest) { m.Left = nil; m.Counts.Documents += 2; m.Counts.Tombstones++ })
	all, _ := checks(t, x, verify.Options{Recompute: true})
	c := all[verify.CheckRecompute]
	text := strings.Join(c.Findings, "\n")
	for _, want := range []string{
		`key ["leaves"]: a document was published, and does not come out in delta/`, `key ["leaves later"]: a document was published`,
		`key ["stone leaves"]: a tombstone was published, and does not come out in delta/`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nis not among\n%s", want, text)
		}
	}
}

// otherwise computes a base whose documents of one key have other clicks.
type otherwise struct {
	*microbatch.Pipeline
	fields []column.Field
}

func (o otherwise) RecomputeBase(ctx context.Context, m sink.Manifest, tombstones time.Duration) (sink.Manifest, error) {
	again, err := o.Pipeline.RecomputeBase(ctx, m, tombstones)
	again.Files[0].SHA256 = strings.Repeat("0", 64)
	return again, err
}

func (o otherwise) RecomputeBaseRows(ctx context.Context, m sink.Manifest, tombstones time.Duration, each func(*column.Batch) error) (sink.Manifest, error) {
	return o.Pipeline.RecomputeBaseRows(ctx, m, tombstones, func(docs *column.Batch) error {
		for row := range docs.Len {
			d := reader.Document{Fields: o.fields, Batch: docs, Row: row}
			if v, ok := d.Column("clicks"); ok && d.Key()[0] == "deep" {
				v.Ints[row] = -5
			}
		}
		return each(docs)
	})
}

// TestRecomputeBaseNamesWhatDiffers, as that of a pane does.
func TestRecomputeBaseNamesWhatDiffers(t *testing.T) {
	x := indextest.Grown(t)
	fields, err := parquet.Fields(x.Live().Schema)
	if err != nil {
		t.Fatal(err)
	}
	s := subject(x)
	s.Engine = otherwise{x.Pipeline(), fields}
	var got verify.Check
	ok, err := verify.Run(t.Context(), s, verify.Options{Now: x.Clock, RecomputeBase: true}, func(c verify.Check) error {
		if c.Name == verify.CheckRecomputeBase {
			got = c
		}
		return nil
	})
	file := "full/" + x.Live().Base.Generation + "/part-00000.parquet"
	if err != nil || ok || got.Found != 2 || got.Findings[0] != `key ["deep"], column clicks: -5 comes out, 4 was published in `+file || !strings.Contains(got.Findings[1], file) {
		t.Errorf("%v, %+v", err, got)
	}
}
