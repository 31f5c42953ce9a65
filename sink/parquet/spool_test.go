package parquet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/deltad/deltad/microbatch/column"
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
		{"not put", nil, nil, errPut, false, use{made: 1, sealed: 1, closed: 1}},
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
