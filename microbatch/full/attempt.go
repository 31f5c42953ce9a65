package full

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// A maker that dies leaves files of its generation, which is then begun again
// under the same id, maybe with another cut and other objects. No name is ever
// written twice: what is left stays, and goes when the generation is collected.

// attempt writes the files of one attempt at a generation. A name that an
// earlier one has given to other bytes is made the attempt's own by the epoch
// of its lease.
type attempt struct {
	sink  *sink.Sink
	epoch int64
}

func (a attempt) PutFull(ctx context.Context, generation, name string, body io.ReadSeeker, sha256 string) (string, error) {
	key, err := a.sink.PutFull(ctx, generation, name, body, sha256)
	if !errors.Is(err, sink.ErrExists) {
		return key, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	return a.sink.PutFull(ctx, generation, a.own(name), body, sha256)
}

func (a attempt) PutState(ctx context.Context, key string, body io.ReadSeeker, sha256 string) (string, error) {
	err := a.sink.PutState(ctx, key, body, sha256)
	if !errors.Is(err, sink.ErrExists) {
		return key, err
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	key = a.own(key)
	return key, a.sink.PutState(ctx, key, body, sha256)
}

// own is part-00000.7.parquet for part-00000.parquet.
func (a attempt) own(name string) string {
	ext := path.Ext(name)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(name, ext), a.epoch, ext)
}

// earlier is the generation as an attempt before this one has left it, if it
// came as far as the manifest: all of it is there, and it asked the gate.
func (r *Rebuilder) earlier(ctx context.Context, rb watermark.Rebuild) (m made, ok bool, err error) {
	m.ref, m.manifest, ok, err = r.set.Sink.FindFull(ctx, rb.ID)
	switch {
	case err != nil:
		return made{}, false, fmt.Errorf("look for an earlier attempt: %w", err)
	case !ok:
		return made{}, false, nil
	case m.manifest.ConfigHash != r.set.ConfigHash:
		return made{}, false, fmt.Errorf("%s was made with another configuration, by a process that died before it told so: this rebuild cannot end, ask for another", m.ref.Manifest)
	}
	m.passed = len(failed(m.manifest.Checks)) == 0
	return m, true, nil
}
