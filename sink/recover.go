package sink

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/deltad/deltad/store"
)

// RecoveryLeap is how far a recovered CURRENT's version lies above everything seen, so that readers that saw a lost version go on.
const RecoveryLeap = 1_000_000

// RecoverOptions say what is known when CURRENT is lost.
type RecoverOptions struct {
	// Published says whether the state store has a run as published; nil if it knows nothing.
	Published func(runID string) bool
	// Reason allows the newest manifest that is whole to be taken where none is known as published.
	Reason string
	// MaxVersion is the largest version the state store knows.
	MaxVersion int64
}

// Recovery is what a recovery would do.
type Recovery struct {
	Ref      Ref
	Manifest Manifest
	// Proven says that the state store has the run as published; otherwise all files were read and verified.
	Proven bool
	// Version is that of the new CURRENT. MinEpoch is the least epoch its owner may have.
	Version  int64
	MinEpoch int64
	// Passed names newer manifests that were not taken, with the reason.
	Passed []string

	base Head
}

// stillThere is the ErrExists of a recovery of what is not lost: the version of CURRENT.
type stillThere int64

func (v stillThere) Error() string {
	return fmt.Sprintf("nothing is lost: CURRENT is there, version %d, and what it names can be read", int64(v))
}

func (stillThere) Is(target error) bool { return target == ErrExists }

// PlanRecovery finds the manifest that a lost CURRENT is to name: the newest that Published knows and whose files exist, else, with a
// reason, the newest whose files all exist and have the right hash. A CURRENT is lost too if a manifest it names is gone or damaged: no
// run can go on from it. It refuses where CURRENT and its manifest are there and readable (ErrExists), is ErrNeedReason where only the
// unproven way is left and no reason was given, and ErrNoPane where no manifest will do.
func (s *Sink) PlanRecovery(ctx context.Context, o RecoverOptions) (Recovery, error) {
	head, err := s.Head(ctx)
	if err == nil && head.Exists {
		if err = s.readable(ctx, head); err == nil {
			return Recovery{}, fmt.Errorf("recover: %w", stillThere(head.Version))
		}
	}
	if err != nil && !errors.Is(err, ErrLostCurrent) {
		return Recovery{}, fmt.Errorf("recover: %w", err)
	}
	r := Recovery{Version: max(o.MaxVersion, head.Version), MinEpoch: head.Owner.Epoch + 1, base: Head{ETag: head.ETag}}
	keys, err := s.manifestKeys(ctx)
	if err != nil {
		return Recovery{}, fmt.Errorf("recover: %w", err)
	}
	var all []found
	for _, key := range keys {
		if v, _, _, _ := parseManifestKey(key); v > r.Version {
			r.Version = v
		}
		if head.Delta != nil && key == head.Delta.Manifest {
			// It may look whole, but it is not what was published under its name.
			r.Passed = append(r.Passed, key+": CURRENT names it by another hash")
			continue
		}
		f, err := s.readUnverified(ctx, key)
		if errors.Is(err, ErrFormat) {
			return Recovery{}, fmt.Errorf("recover: %w", err)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return Recovery{}, fmt.Errorf("recover: %w", err)
		}
		if err != nil {
			r.Passed = append(r.Passed, err.Error())
			continue
		}
		r.MinEpoch = max(r.MinEpoch, f.m.Writer.Epoch+1)
		all = append(all, f)
	}
	r.Version += RecoveryLeap
	return s.choose(ctx, r, all, o)
}

// readable is ErrLostCurrent if what a CURRENT names cannot be read for good.
func (s *Sink) readable(ctx context.Context, head Head) error {
	if head.Delta == nil {
		return nil
	}
	m, err := s.ReadManifest(ctx, head.Delta.Ref())
	if err == nil {
		err = s.LoadInputs(ctx, &m)
	}
	if err == nil && head.Base != nil {
		_, err = s.ReadManifest(ctx, head.Base.Ref())
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("%w: version %d: %w", ErrLostCurrent, head.Version, err)
	}
	return err
}

type found struct {
	ref Ref
	m   Manifest
}

// choose tries the manifests, newest first: the published ones, then the others.
func (s *Sink) choose(ctx context.Context, r Recovery, all []found, o RecoverOptions) (Recovery, error) {
	for _, proven := range []bool{true, false} {
		if len(all) == 0 {
			break
		}
		if !proven && o.Reason == "" {
			return Recovery{}, fmt.Errorf("recover: %w", ErrNeedReason)
		}
		for _, f := range all {
			if f.m.Kind != Delta || f.m.Pipeline != s.set.Pipeline || proven && (o.Published == nil || !o.Published(f.m.RunID)) {
				continue
			}
			err := s.verifyFiles(ctx, f.m, !proven)
			if err == nil {
				err = s.verifyBase(ctx, f.m, !proven)
			}
			if err == nil {
				r.Ref, r.Manifest, r.Proven = f.ref, f.m, proven
				return r, nil
			}
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrCondemned) && !errors.Is(err, store.ErrNotFound) {
				return Recovery{}, fmt.Errorf("recover: %w", err)
			}
			r.Passed = append(r.Passed, fmt.Sprintf("%s: %v", f.ref.Manifest, err))
		}
	}
	return Recovery{}, fmt.Errorf("recover: %w: none of %d manifests is whole", ErrNoPane, len(all))
}

// Recover writes the CURRENT that the plan says, owned by me, whose epoch must be at least MinEpoch. No other daemon of the pipeline may
// be alive: what it would condemn is unknown now.
func (s *Sink) Recover(ctx context.Context, me Owner, r Recovery, now time.Time) (Head, error) {
	if me.Epoch < r.MinEpoch {
		return Head{}, fmt.Errorf("recover CURRENT: epoch %d is below %d, which follows from the manifests", me.Epoch, r.MinEpoch)
	}
	want := Pane(r.Ref, r.Manifest)
	want.Reason, want.PublishedAt = Recover, At(now)
	if err := Transition(Current{}, want); err != nil {
		return Head{}, err
	}
	return s.swap(ctx, me, r.base, want, r.Version)
}

// manifestKeys lists the delta manifests, newest first by planned version, then run id.
func (s *Sink) manifestKeys(ctx context.Context) ([]string, error) {
	var keys []string
	for p, err := range store.Pages(ctx, s.st, store.ListOptions{Prefix: manifestPrefix}) {
		if err != nil {
			return nil, fmt.Errorf("list manifests: %w", err)
		}
		for _, o := range p.Objects {
			if _, _, side, ok := parseManifestKey(o.Key); ok && !side {
				keys = append(keys, o.Key)
			}
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(keys)))
	return keys, nil
}

// readUnverified reads a manifest whose hash nobody knows any more.
func (s *Sink) readUnverified(ctx context.Context, key string) (found, error) {
	return readUnverified(ctx, s.st, key)
}

// FindPane is the newest manifest under manifests/ that a run wrote, in a store rooted at the output. It is found by its name: its hash is
// what its bytes have, and whether CURRENT ever named it is not known. If there is none, it is store.ErrNotFound.
func FindPane(ctx context.Context, st store.Store, runID string) (Ref, Manifest, error) {
	last := ""
	for p, err := range store.Pages(ctx, st, store.ListOptions{Prefix: manifestPrefix}) {
		if err != nil {
			return Ref{}, Manifest{}, fmt.Errorf("look for the manifest of run %s: %w", runID, err)
		}
		for _, o := range p.Objects {
			if _, id, side, ok := parseManifestKey(o.Key); ok && !side && id == runID {
				last = max(last, o.Key)
			}
		}
	}
	if last == "" {
		return Ref{}, Manifest{}, fmt.Errorf("look for the manifest of run %s: %w", runID, store.ErrNotFound)
	}
	f, err := readUnverified(ctx, st, last)
	return f.ref, f.m, err
}

// FindFull is the manifest of a generation; ok says that one was written. Its hash is what its bytes have, and whether anything ever named
// it is not known.
func (s *Sink) FindFull(ctx context.Context, generation string) (ref Ref, m Manifest, ok bool, err error) {
	ref, m, err = FindManifest(ctx, s.st, FullKey(generation, "manifest.json"))
	if errors.Is(err, store.ErrNotFound) {
		return Ref{}, Manifest{}, false, nil
	}
	return ref, m, err == nil, err
}

// FindManifest is the manifest at a key, of a pane or of a base, in a store rooted at the output: its hash is what its bytes have, and
// whether anything ever named it is not known.
func FindManifest(ctx context.Context, st store.Store, key string) (Ref, Manifest, error) {
	f, err := readUnverified(ctx, st, key)
	return f.ref, f.m, err
}

func readUnverified(ctx context.Context, st store.Store, key string) (found, error) {
	b, _, err := store.ReadAll(ctx, st, key, MaxManifest, store.GetOptions{})
	if err != nil {
		return found{}, fmt.Errorf("read %s: %w", key, err)
	}
	m, err := DecodeManifest(b)
	switch {
	case errors.Is(err, ErrFormat):
		return found{}, fmt.Errorf("read %s: %w", key, err)
	case err != nil:
		return found{}, fmt.Errorf("read %s: %w: %v", key, ErrCorrupt, err)
	case m.Key() != key:
		return found{}, fmt.Errorf("read %s: %w: it says it is %s", key, ErrCorrupt, m.Key())
	}
	return found{Ref{key, Sum(b)}, m}, nil
}

// verifyBase is verifyFiles for the base of a pane, if it has one, which needs its private files too.
func (s *Sink) verifyBase(ctx context.Context, m Manifest, hashes bool) error {
	if m.Base == nil {
		return nil
	}
	base, err := s.ReadBase(ctx, *m.Base)
	if err == nil {
		err = s.Present(ctx, base)
	}
	if err == nil && hashes {
		err = s.verifyFiles(ctx, base, true)
	}
	if err != nil {
		return fmt.Errorf("base of %s: %w", m.RunID, err)
	}
	return nil
}

// verifyFiles checks that every data file exists with its size and, if asked, its hash.
func (s *Sink) verifyFiles(ctx context.Context, m Manifest, hashes bool) error {
	for _, f := range m.DataFiles() {
		info, err := s.st.Head(ctx, f.Key)
		if err != nil {
			return fmt.Errorf("verify %s: %w", f.Key, err)
		}
		if info.Size != f.Bytes {
			return fmt.Errorf("verify %s: %w: %d bytes, want %d", f.Key, ErrCorrupt, info.Size, f.Bytes)
		}
		if !hashes {
			continue
		}
		got, err := s.hash(ctx, f.Key)
		if err != nil {
			return fmt.Errorf("verify %s: %w", f.Key, err)
		}
		if got != f.SHA256 {
			return fmt.Errorf("verify %s: %w: sha256 %s, want %s", f.Key, ErrCorrupt, got, f.SHA256)
		}
	}
	return nil
}
