package sinktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
	"github.com/deltad/deltad/store"
)

// Base is what a rebuild leaves.
type Base struct {
	Generation string
	Cut        time.Time
	Documents  map[string]int64
	Inputs     []sink.Input
	Pane       *sink.Ref // the pane whose watermark is the cut
}

// Manifest is the base's manifest without its files.
func (b Base) Manifest(me sink.Owner) sink.Manifest {
	return sink.Manifest{
		Pipeline: Pipeline, Kind: sink.Full, Version: 1, RunID: b.Generation, Reason: sink.Publish, Cut: sink.AtPtr(b.Cut),
		Writer: sink.Writer{Epoch: me.Epoch, Nonce: me.Nonce, Build: "deltad test"}, Inputs: b.Inputs,
		Schema: parquet.SchemaFields(Fields()), CreatedAt: sink.At(b.Cut.Add(time.Hour)),
		Counts: sink.Counts{Documents: int64(len(b.Documents))},
		Full:   &sink.FullIndex{Pane: b.Pane, Nulls: map[string]int64{"n": 0}, Index: json.RawMessage(`{"test":true}`)},
	}
}

// Write writes the base's data files, accumulators that are no accumulators, and manifest, and returns it with its hash.
func (b Base) Write(ctx context.Context, s *sink.Sink, me sink.Owner) (sink.Manifest, string, error) {
	m := b.Manifest(me)
	var err error
	m.Files, err = Files(ctx, Fields(), "part", Batch(b.Documents), func(ctx context.Context, p parquet.Part, body io.ReadSeeker) (string, error) {
		return s.PutFull(ctx, b.Generation, p.Name, body, p.SHA256)
	})
	if err != nil {
		return m, "", err
	}
	body := []byte(fmt.Sprint("accumulators of ", b.Generation, b.Documents))
	acc := sink.StateFile{Key: sink.FullStateKey(b.Generation, "accumulators.run"), Rows: int64(len(b.Documents)), Bytes: int64(len(body)), SHA256: sink.Sum(body)}
	if err := s.PutState(ctx, acc.Key, bytes.NewReader(body), acc.SHA256); err != nil {
		return m, "", err
	}
	m.Full.Accumulators = []sink.StateFile{acc}
	ref, err := s.WriteManifest(ctx, m)
	return m, ref.SHA256, err
}

// WriteBase writes a generation of the full index and returns its manifest and the manifest's hash.
func WriteBase(ctx context.Context, st store.Store, me sink.Owner, generation string, cut time.Time, documents map[string]int64) (sink.Manifest, string, error) {
	return Base{Generation: generation, Cut: cut, Documents: documents}.Write(ctx, New(st, 30), me)
}

// WriteSlice writes a slice of an unread object and returns what a pane lists.
func WriteSlice(ctx context.Context, s *sink.Sink, content string) (sink.StateFile, error) {
	f := sink.StateFile{Key: sink.SliceKey(sink.Sum([]byte(content))), Rows: 1, Bytes: int64(len(content)), SHA256: sink.Sum([]byte(content))}
	return f, s.PutState(ctx, f.Key, bytes.NewReader([]byte(content)), f.SHA256)
}
