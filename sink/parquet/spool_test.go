package parquet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/rescue"
	"github.com/deltad/deltad/sink"
)

// watched is a spool that counts how it is used and fails where it is told to.
type watched struct {
	memory
	use       *use
	write, at error // of Write and Seal
}

type use struct{ made, sealed, aborted, closed int }

func (w *watched) Write(b []byte) (int, error) {
	if w.write != nil {
		return 0, w.write
	}
	return w.memory.Write(b)
}

func (w *watched) Seal() (Body, error) {
	w.use.sealed++
	if w.at != nil {
		return nil, w.at
	}
	return watchedBody{held{bytes.NewReader(w.Bytes())}, w.use}, nil
}

func (w *watched) Abort() { w.use.aborted++ }

type watchedBody struct {
	held
	use *use
}

func (b watchedBody) Close() { b.use.closed++ }

// TestSpoolsAreGivenBack however a file ends, and their faults are the file's.
func TestSpoolsAreGivenBack(t *testing.T) {
	errFull, errPut := errors.New("disk full"), errors.New("no store")
	fields := []column.Field{{Name: "k", Type: column.Of(column.Int64), Key: true}}
	for _, tc := range []struct {
		name            string
		write, seal, to error
		abort           bool
		want            use
	}{
		{"files handed over", nil, nil, nil, false, use{made: 3, sealed: 3, closed: 3}},
		{"given up", nil, nil, nil, true, use{made: 3, sealed: 2, closed: 2, aborted: 1}},
		{"not written", errFull, nil, nil, false, use{made: 1, aborted: 1}},
		{"not sealed", nil, errFull, nil, false, use{made: 1, sealed: 1}},
		{"not put", nil, nil, errPut, false, use{made: 2, sealed: 2, closed: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got use
			w, err := NewWriter(Options{
				Fields: fields, Name: "part",
				Spool: func() Spool { got.made++; return &watched{use: &got, write: tc.write, at: tc.seal} },
				Put: func(_ context.Context, p Part, body io.ReadSeeker) error {
					for range 2 { // a store may read the body again
						if _, err := body.Seek(0, io.SeekStart); err != nil {
							return err
						}
						b, err := io.ReadAll(body)
						if err != nil || int64(len(b)) != p.Bytes || sink.Sum(b) != p.SHA256 {
							t.Errorf("%d bytes, %v; the part says %+v", len(b), err, p)
						}
					}
					return tc.to
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			w.size = sizes{pageRows: 10, pageWeight: 1 << 20, groupRows: 10, groupWeight: 1 << 20, fileRows: 20, fileBytes: 1 << 20}
			for i := 0; i < 45 && err == nil; i++ {
				b := column.NewBatch(fields)
				b.Columns[0].AppendInt(int64(i))
				b.Len = 1
				err = w.Write(t.Context(), b)
			}
			if err == nil && !tc.abort {
				_, err = w.Close(t.Context())
			}
			w.Abort()
			if want := errors.Join(tc.write, tc.seal, tc.to); (err == nil) != (want == nil) || want != nil && !errors.Is(err, errFull) && !errors.Is(err, errPut) {
				t.Errorf("got %v, want %v", err, want)
			}
			if got != tc.want {
				t.Errorf("spools %+v, want %+v", got, tc.want)
			}
		})
	}
}

// TestNextFileIsWrittenWhileOneIsPut: a store that is slow holds up the file after the next, no sooner.
func TestNextFileIsWrittenWhileOneIsPut(t *testing.T) {
	fields := []column.Field{{Name: "k", Type: column.Of(column.Int64), Key: true}}
	begun, release := make(chan string, 3), make(chan struct{})
	w, err := NewWriter(Options{Fields: fields, Name: "part", Put: func(_ context.Context, p Part, _ io.ReadSeeker) error {
		begun <- p.Name
		<-release
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	w.size = sizes{pageRows: 10, pageWeight: 1 << 20, groupRows: 10, groupWeight: 1 << 20, fileRows: 20, fileBytes: 1 << 20}
	b := column.NewBatch(fields)
	for i := range 45 {
		b.Columns[0].AppendInt(int64(i))
	}
	b.Len = 45
	if err := w.WriteRows(t.Context(), b, 0, 39); err != nil { // returns, though nothing has arrived
		t.Fatal(err)
	}
	if name := <-begun; name != "part-00000.parquet" {
		t.Errorf("%s went first", name)
	}
	close(release)
	if err := w.WriteRows(t.Context(), b, 39, 45); err != nil {
		t.Fatal(err)
	}
	parts, err := w.Close(t.Context())
	if err != nil || len(parts) != 3 || len(begun) != 2 {
		t.Errorf("%d parts, %d of them put, %v", len(parts), 1+len(begun), err)
	}
}

// TestPutEndsWithAbort, and one that panics is an error of its file.
func TestPutEndsWithAbort(t *testing.T) {
	fields := []column.Field{{Name: "k", Type: column.Of(column.Int64), Key: true}}
	row := func(i int64) *column.Batch {
		b := column.NewBatch(fields)
		b.Columns[0].AppendInt(i)
		b.Len = 1
		return b
	}
	start := func(put func(ctx context.Context) error) *Writer {
		w, err := NewWriter(Options{Fields: fields, Name: "part", Put: func(ctx context.Context, _ Part, _ io.ReadSeeker) error { return put(ctx) }})
		if err != nil {
			t.Fatal(err)
		}
		w.size = sizes{pageRows: 1, pageWeight: 1, groupRows: 1, groupWeight: 1, fileRows: 1, fileBytes: 1}
		if err := w.Write(t.Context(), row(1)); err != nil {
			t.Fatal(err)
		}
		return w
	}
	ended := false
	w := start(func(ctx context.Context) error {
		<-ctx.Done()
		ended = true
		return ctx.Err()
	})
	w.Abort()
	w.Abort()
	if !ended {
		t.Error("Abort did not wait for what was being put")
	}
	w = start(func(context.Context) error { panic("broken store") })
	if _, err := w.Close(t.Context()); !errors.Is(err, rescue.ErrPanic) {
		t.Errorf("got %v", err)
	}
}
