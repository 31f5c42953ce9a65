package sink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/deltad/deltad/store"
)

// PutFull creates a data file of a generation and returns its key. It may be called again with the same bytes after any failure. The
// generation's manifest and its inputs are not data: WriteManifest writes them, last.
func (s *Sink) PutFull(ctx context.Context, generation, name string, body io.ReadSeeker, sha256 string) (string, error) {
	key := FullKey(generation, name)
	var k check
	k.id("generation", generation)
	k.key("key", key)
	k.that(!fullRecord(key), "key", "%q is a manifest's", key)
	if k.err != nil {
		return "", fmt.Errorf("put file of the full index: %w", k.err)
	}
	return key, s.create(ctx, key, body, sha256)
}

// PutState creates a private file, whose key is under state/full/<generation>/ or state/slices/ (see FullStateKey and SliceKey). It may be
// called again with the same bytes after any failure; a key that holds other bytes is ErrExists.
//
// A slice is kept while a kept pane lists it in unread_slices, and for OrphanAge after it was written: a run that takes longer than that
// from here to its commit may find it gone, as may one that writes a slice under a name that was used before (see SliceKey). Who reads a
// slice does without where its object is still there.
func (s *Sink) PutState(ctx context.Context, key string, body io.ReadSeeker, sha256 string) error {
	var k check
	k.key("key", key)
	k.that(generationOf(key) != "" && strings.HasPrefix(key, fullStatePrefix) || strings.HasPrefix(key, slicePrefix) && len(key) > len(slicePrefix),
		"key", "%q is neither under %s<generation>/ nor under %s", key, fullStatePrefix, slicePrefix)
	if k.err != nil {
		return fmt.Errorf("put state: %w", k.err)
	}
	return s.create(ctx, key, body, sha256)
}

// OpenState opens a private file for reading from its start. What is read is verified on the way: where size or hash are not the file's,
// the reader ends with an error wrapping ErrCorrupt instead of io.EOF, so nothing may be concluded from it before its end. A missing file
// is store.ErrNotFound.
func (s *Sink) OpenState(ctx context.Context, f StateFile) (io.ReadCloser, error) {
	obj, err := s.st.Get(ctx, f.Key, store.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Key, err)
	}
	return &verified{body: obj.Body, hash: sha256.New(), file: f}, nil
}

// ReadState is a private file whole and verified. One that is larger than it should be is not read.
func (s *Sink) ReadState(ctx context.Context, f StateFile) ([]byte, error) {
	b, _, err := store.ReadAll(ctx, s.st, f.Key, f.Bytes, store.GetOptions{})
	switch {
	case errors.Is(err, store.ErrTooLarge):
		return nil, fmt.Errorf("read %s: %w: more than %d bytes", f.Key, ErrCorrupt, f.Bytes)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", f.Key, err)
	case int64(len(b)) != f.Bytes || Sum(b) != f.SHA256:
		return nil, fmt.Errorf("read %s: %w: %d bytes with sha256 %s, want %d with %s", f.Key, ErrCorrupt, len(b), Sum(b), f.Bytes, f.SHA256)
	}
	return b, nil
}

// verified hashes what passes.
type verified struct {
	body io.ReadCloser
	hash hash.Hash
	file StateFile
	n    int64
	err  error
}

func (v *verified) Read(p []byte) (int, error) {
	if v.err != nil {
		return 0, v.err
	}
	n, err := v.body.Read(p)
	v.hash.Write(p[:n])
	v.n += int64(n)
	switch {
	case v.n > v.file.Bytes:
		v.err = fmt.Errorf("read %s: %w: more than %d bytes", v.file.Key, ErrCorrupt, v.file.Bytes)
		return 0, v.err
	case errors.Is(err, io.EOF):
		v.err = io.EOF
		if got := hex.EncodeToString(v.hash.Sum(nil)); v.n != v.file.Bytes || got != v.file.SHA256 {
			v.err = fmt.Errorf("read %s: %w: %d bytes with sha256 %s, want %d with %s", v.file.Key, ErrCorrupt, v.n, got, v.file.Bytes, v.file.SHA256)
		}
		return n, v.err
	case err != nil:
		v.err = fmt.Errorf("read %s: %w", v.file.Key, err)
		return n, v.err
	}
	return n, nil
}

func (v *verified) Close() error { return v.body.Close() }

// Present is ErrCondemned unless everything m lists is there with its size: data files, for a generation its private files, and the slices of
// objects that were not read: the data of a pane that is not kept may still be there below the layers of one that is, but its slices are not.
// It lists prefixes, a request for each thousand objects, and reads nothing. A promotion or a rollback asks it, after CURRENT was read, of what it
// goes to: what is condemned later than that makes its change of CURRENT fail.
func (s *Sink) Present(ctx context.Context, m Manifest) error {
	want := map[string]int64{}
	prefixes := map[string]bool{}
	for _, f := range m.DataFiles() {
		want[f.Key] = f.Bytes
	}
	for _, f := range m.StateFiles() {
		want[f.Key] = f.Bytes
	}
	for key := range want {
		prefixes[key[:strings.LastIndexByte(key, '/')+1]] = true
	}
	for prefix := range prefixes {
		objects, err := s.list(ctx, prefix)
		if err != nil {
			return fmt.Errorf("look for the data of %s: %w", m.RunID, err)
		}
		for _, o := range objects {
			if size, ok := want[o.Key]; ok && size == o.Bytes {
				delete(want, o.Key)
			}
		}
	}
	for key := range want {
		return fmt.Errorf("look for the data of %s: %w: %s is not there in its size, nor are %d others", m.RunID, ErrCondemned, key, len(want)-1)
	}
	return nil
}

// ReadBase reads and verifies the manifest of a base; its inputs stay where they are, see LoadInputs.
func (s *Sink) ReadBase(ctx context.Context, b ManifestBase) (Manifest, error) {
	m, err := s.ReadManifest(ctx, Ref{b.Manifest, b.SHA256})
	if err == nil && (m.Kind != Full || m.RunID != b.Generation || !m.Cut.Equal(b.Cut.Time)) {
		err = fmt.Errorf("read %s: %w: it is not that of generation %s cut at %s", b.Manifest, ErrCorrupt, b.Generation, b.Cut)
	}
	return m, err
}

// generationOf is the generation of a key under full/<generation>/ or state/full/<generation>/, or "".
func generationOf(key string) string {
	rest, ok := strings.CutPrefix(key, fullStatePrefix)
	if !ok {
		rest, ok = strings.CutPrefix(key, fullPrefix)
	}
	id, name, found := strings.Cut(rest, "/")
	if !ok || !found || name == "" || !ValidID(id) {
		return ""
	}
	return id
}

// fullRecord says whether a key under full/<generation>/ is the generation's manifest or the side file of its inputs.
func fullRecord(key string) bool {
	_, name, _ := strings.Cut(strings.TrimPrefix(key, fullPrefix), "/")
	return name == "manifest.json" || strings.HasPrefix(name, "manifest.inputs-")
}
