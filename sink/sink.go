package sink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/deltad/deltad/store"
)

// MaxManifest is the most bytes of a manifest or an inputs file that are read.
const MaxManifest = 256 << 20

// Settings are what a Sink is made of. Store is rooted at the output: every key is relative to it.
type Settings struct {
	Store    store.Store
	Pipeline string
	// NewID returns a ULID never returned before; change ids come from it.
	NewID func() string
	// Attempts bounds how often one change of CURRENT is sent; 0 means 6.
	Attempts int
	// Backoff is the pause before CURRENT is read again after an unclear answer, doubled each time up to 16 times itself; 0 means 50 ms.
	Backoff time.Duration
}

// Sink publishes the panes of one pipeline to one output. It holds no state of its own and is safe for concurrent use, though only one
// goroutine of one leader may change CURRENT.
type Sink struct {
	set Settings
	st  store.Store
}

// New returns a sink; it does no I/O.
func New(set Settings) *Sink {
	if set.Attempts <= 0 {
		set.Attempts = 6
	}
	if set.Backoff <= 0 {
		set.Backoff = 50 * time.Millisecond
	}
	return &Sink{set: set, st: set.Store}
}

// Head is CURRENT as it was read: a version of it, or its absence.
type Head struct {
	Current
	ETag   string
	Exists bool
}

// Head reads CURRENT. Absence is no error. A CURRENT of another pipeline is an error, an unreadable one is ErrLostCurrent, one of an
// unknown major format ErrFormat.
func (s *Sink) Head(ctx context.Context) (Head, error) {
	h, err := ReadHead(ctx, s.st, "")
	if err != nil {
		return h, err
	}
	if h.Exists && h.Pipeline != s.set.Pipeline {
		return h, fmt.Errorf("read CURRENT: it belongs to pipeline %q, not %q: two pipelines must not share an output", h.Pipeline, s.set.Pipeline)
	}
	return h, nil
}

// ReadHead reads CURRENT from a store rooted at the output. With notETag set, an unchanged CURRENT is store.ErrNotModified.
func ReadHead(ctx context.Context, st store.Store, notETag string) (Head, error) {
	b, info, err := store.ReadAll(ctx, st, CurrentKey, MaxCurrent, store.GetOptions{IfNoneMatch: notETag})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Head{}, nil
	case errors.Is(err, store.ErrTooLarge):
		return Head{ETag: info.ETag}, fmt.Errorf("read CURRENT: %w: %w", ErrLostCurrent, err)
	case err != nil:
		return Head{}, fmt.Errorf("read CURRENT: %w", err)
	}
	c, err := DecodeCurrent(b)
	switch {
	case errors.Is(err, ErrFormat):
		return Head{}, fmt.Errorf("read CURRENT: %w", err)
	case err != nil:
		return Head{ETag: info.ETag}, fmt.Errorf("read CURRENT: %w: %v", ErrLostCurrent, err)
	}
	return Head{Current: c, ETag: info.ETag, Exists: true}, nil
}

// PutData creates a data file and returns its key. It may be called again with the same bytes after any failure.
func (s *Sink) PutData(ctx context.Context, runID, name string, body io.ReadSeeker, sha256 string) (string, error) {
	key := DataKey(runID, name)
	var k check
	k.id("run id", runID)
	k.key("key", key)
	if k.err != nil {
		return "", fmt.Errorf("put data file: %w", k.err)
	}
	return key, s.create(ctx, key, body, sha256)
}

// create writes a create-only object. A name that is taken is fine if it holds the same bytes: that was an earlier attempt.
func (s *Sink) create(ctx context.Context, key string, body io.ReadSeeker, hash string) error {
	var err error
	for attempt := 0; attempt < s.set.Attempts; attempt++ {
		if attempt > 0 {
			if err := s.pause(ctx, attempt); err != nil {
				return fmt.Errorf("create %s: %w", key, err)
			}
		}
		_, err = s.st.Put(ctx, key, body, store.PutOptions{IfNoneMatch: true})
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrPrecondition) && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("create %s: %w", key, err)
		}
		got, herr := s.hash(ctx, key)
		switch {
		case herr == nil && got == hash:
			return nil
		case herr == nil:
			return fmt.Errorf("create %s: %w: has sha256 %s, want %s", key, ErrExists, got, hash)
		case !errors.Is(herr, store.ErrNotFound):
			return fmt.Errorf("create %s: %w", key, herr)
		}
	}
	return fmt.Errorf("create %s: %w", key, err)
}

// hash streams an object through SHA-256.
func (s *Sink) hash(ctx context.Context, key string) (string, error) {
	obj, err := s.st.Get(ctx, key, store.GetOptions{})
	if err != nil {
		return "", err
	}
	defer obj.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, obj.Body); err != nil {
		return "", fmt.Errorf("read %s: %w", key, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Sum is the lower-case hexadecimal SHA-256 of b.
func Sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

const inputsFormat = "deltad.inputs/1"

type inputsFile struct {
	Format string  `json:"format"`
	Inputs []Input `json:"inputs"`
}

// WriteManifest creates the manifest, after the side file of its inputs if there are more than MaxInlineInputs. Its data files must be
// complete. It may be called again with the same manifest after any failure.
func (s *Sink) WriteManifest(ctx context.Context, m Manifest) (Ref, error) {
	if m.Pipeline != s.set.Pipeline {
		return Ref{}, fmt.Errorf("write manifest %s: pipeline %q, want %q", m.RunID, m.Pipeline, s.set.Pipeline)
	}
	if f := m.InputsFile; f != nil && len(m.Inputs) != f.Inputs {
		return Ref{}, fmt.Errorf("write manifest %s: %d of its %d inputs are loaded", m.RunID, len(m.Inputs), f.Inputs)
	}
	m.InputsFile = nil
	if len(m.Inputs) > MaxInlineInputs {
		if err := s.writeInputs(ctx, &m); err != nil {
			return Ref{}, err
		}
	}
	b, err := m.Encode()
	if err != nil {
		return Ref{}, err
	}
	ref := Ref{Manifest: m.Key(), SHA256: Sum(b)}
	if err := s.create(ctx, ref.Manifest, bytes.NewReader(b), ref.SHA256); err != nil {
		return Ref{}, fmt.Errorf("write manifest: %w", err)
	}
	return ref, nil
}

func (s *Sink) writeInputs(ctx context.Context, m *Manifest) error {
	b, err := encode(inputsFile{inputsFormat, m.Inputs})
	if err != nil {
		return fmt.Errorf("encode inputs of %s: %w", m.RunID, err)
	}
	sum := Sum(b)
	key := m.Key()
	key = key[:len(key)-len(".json")] + ".inputs-" + sum + ".json"
	if err := s.create(ctx, key, bytes.NewReader(b), sum); err != nil {
		return fmt.Errorf("write inputs: %w", err)
	}
	m.InputsFile = &InputsFile{Key: key, SHA256: sum, Bytes: int64(len(b)), Inputs: len(m.Inputs)}
	m.Inputs = nil
	return nil
}

// ReadManifest reads and verifies a manifest. Inputs in a side file stay there, see LoadInputs. A missing one is store.ErrNotFound.
func (s *Sink) ReadManifest(ctx context.Context, ref Ref) (Manifest, error) {
	return ReadManifest(ctx, s.st, ref)
}

// ReadManifest reads and verifies a manifest from a store rooted at the output.
func ReadManifest(ctx context.Context, st store.Store, ref Ref) (Manifest, error) {
	b, err := readVerified(ctx, st, ref.Manifest, ref.SHA256)
	if err != nil {
		return Manifest{}, fmt.Errorf("read manifest: %w", err)
	}
	m, err := DecodeManifest(b)
	if err != nil {
		return Manifest{}, fmt.Errorf("read %s: %w", ref.Manifest, err)
	}
	if m.Key() != ref.Manifest {
		return Manifest{}, fmt.Errorf("read %s: %w: it says it is %s", ref.Manifest, ErrCorrupt, m.Key())
	}
	return m, nil
}

// LoadInputs fills m.Inputs from the side file if there is one.
func (s *Sink) LoadInputs(ctx context.Context, m *Manifest) error {
	f := m.InputsFile
	if f == nil || len(m.Inputs) > 0 {
		return nil
	}
	b, err := readVerified(ctx, s.st, f.Key, f.SHA256)
	if err != nil {
		return fmt.Errorf("read inputs of %s: %w", m.RunID, err)
	}
	var in inputsFile
	if err := decode(b, &in, inputsFormat); err != nil {
		return fmt.Errorf("decode %s: %w", f.Key, err)
	}
	if len(in.Inputs) != f.Inputs {
		return fmt.Errorf("decode %s: %w: %d inputs, want %d", f.Key, ErrCorrupt, len(in.Inputs), f.Inputs)
	}
	m.Inputs = in.Inputs
	return nil
}

func readVerified(ctx context.Context, st store.Store, key, hash string) ([]byte, error) {
	b, _, err := store.ReadAll(ctx, st, key, MaxManifest, store.GetOptions{})
	if err != nil {
		return nil, err
	}
	if got := Sum(b); got != hash {
		return nil, fmt.Errorf("read %s: %w: sha256 %s, want %s", key, ErrCorrupt, got, hash)
	}
	return b, nil
}

// Walk visits the panes from the one CURRENT names along the parent links, newest first, until visit returns false, the first pane of
// all was visited, or a parent is gone (collected records end the history; that is no error).
func (s *Sink) Walk(ctx context.Context, head Head, visit func(Ref, Manifest) (more bool, err error)) error {
	if head.Delta == nil {
		return nil
	}
	ref, first := head.Delta.Ref(), true
	seen := map[string]bool{}
	for {
		if seen[ref.Manifest] {
			return fmt.Errorf("walk manifests: %w: %s is its own ancestor", ErrCorrupt, ref.Manifest)
		}
		seen[ref.Manifest] = true
		m, err := s.ReadManifest(ctx, ref)
		if errors.Is(err, store.ErrNotFound) && !first {
			return nil
		}
		if err != nil {
			return fmt.Errorf("walk manifests: %w", err)
		}
		more, err := visit(ref, m)
		if err != nil || !more || m.Parent == nil {
			return err
		}
		ref, first = *m.Parent, false
	}
}

// pause waits before another attempt, doubling, without outliving ctx.
func (s *Sink) pause(ctx context.Context, attempt int) error {
	d := s.set.Backoff << min(attempt-1, 4)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
