package microbatch

import (
	"bytes"
	"io"

	"github.com/deltad/deltad/microbatch/slice"
	"github.com/deltad/deltad/microbatch/spool"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
)

// Kept is the run of a slice that the pipeline keeps in memory.
func (p *Pipeline) Kept(in sink.Input) []byte {
	var b []byte
	p.Tamper(in, func(run []byte) []byte {
		b = bytes.Clone(run)
		return run
	})
	return b
}

// Tamper changes bytes of a slice that the pipeline keeps in memory, and says
// whether it does.
func (p *Pipeline) Tamper(in sink.Input, change func([]byte) []byte) bool {
	s := p.cache.Get(slice.IDOf(slice.Input{Start: in.Partition.Time, Objects: []partition.Object{{
		Key: in.Key, ETag: in.ETag, Size: in.Bytes, Partition: in.Partition.Time,
	}}}))
	if s == nil {
		return false
	}
	b, err := io.ReadAll(s.Run.Section())
	if err != nil {
		return false
	}
	out := spool.New("", nil)
	if _, err := out.Write(change(bytes.Clone(b))); err != nil {
		return false
	}
	s.Run, err = out.Seal()
	return err == nil
}
