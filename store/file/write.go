package file

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/deltad/deltad/store"
)

// abandoned is how long after its last write a temporary file counts as left behind by a process that died.
const abandoned = 24 * time.Hour

// Put implements store.Store. ContentType is not kept.
func (s *Store) Put(ctx context.Context, key string, body io.ReadSeeker, o store.PutOptions) (string, error) {
	path, err := s.path(key)
	if err := cmp.Or(ctx.Err(), err, store.CheckPut(key, o)); err != nil {
		return "", s.fail("put", key, err)
	}
	tag, err := s.put(ctx, key, path, body, o)
	if err != nil {
		return "", s.failPut(key, err)
	}
	return tag, nil
}

// failPut knows that a directory in the way of a file, or the reverse, is about the key.
func (s *Store) failPut(key string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return store.Fail("put", s.String(), key, store.ErrBadKey, fmt.Errorf("a parent of it is an object already: %w", err))
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTEMPTY):
		return store.Fail("put", s.String(), key, store.ErrBadKey, fmt.Errorf("there are objects below it already: %w", err))
	case errors.Is(err, fs.ErrNotExist):
		return store.Fail("put", s.String(), key, store.ErrUnavailable, err) // the root is being removed under us
	}
	return s.fail("put", key, err)
}

func (s *Store) put(ctx context.Context, key, path string, body io.ReadSeeker, o store.PutOptions) (_ string, err error) {
	f, err := s.temp()
	if err != nil {
		return "", err
	}
	name := f.Name()
	defer func() {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			err = errors.Join(err, removeIfThere(name))
		}
	}()
	if err := s.write(ctx, f, body); err != nil {
		return "", err
	}
	if !o.Perishable {
		if err := f.Sync(); err != nil {
			return "", err
		}
	}
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	cur, err := stat(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case o.IfNoneMatch && err == nil, o.IfMatch != "" && (err != nil || etag(cur) != o.IfMatch):
		return "", store.ErrPrecondition
	}
	fi, err := stamp(f, cur, o.Perishable)
	if err != nil {
		return "", err
	}
	tag := etag(fi)
	err = f.Close()
	f = nil
	if err != nil {
		return "", err
	}
	return tag, s.rename(name, path, o.Perishable)
}

// temp opens a new temporary file, and once per Store removes those that were left behind.
func (s *Store) temp() (*os.File, error) {
	dir := filepath.Join(s.root, private, "tmp")
	path := filepath.Join(dir, "put-"+rand.Text())
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	}
	if err == nil {
		s.sweep.Do(func() { removeAbandoned(dir, time.Now().Add(-abandoned)) })
	}
	return f, err
}

// removeAbandoned removes what was last written before a time. What cannot be removed stays: it harms nobody.
func removeAbandoned(dir string, before time.Time) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range es {
		if fi, err := e.Info(); err == nil && fi.ModTime().Before(before) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// copied is how much of a body is written at a time: many small pieces cost a kernel several times as much.
const copied = 256 << 10

// write copies the body, and gives the file a modification time of full precision.
func (s *Store) write(ctx context.Context, f *os.File, body io.ReadSeeker) error {
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind body: %w", err)
	}
	buf, ok := s.bufs.Get().(*[copied]byte)
	if !ok {
		buf = new([copied]byte)
	}
	defer s.bufs.Put(buf)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := body.Read(buf[:])
		if _, err := f.Write(buf[:n]); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read body: %w", err)
		}
	}
	now := time.Now() // the kernel's own stamp is only as fine as its tick
	return os.Chtimes(f.Name(), now, now)
}

// stamp makes sure that the new version is younger than the one it replaces, if any, on file systems with coarse times too.
// Invariant: a put never repeats an ETag of its key.
func stamp(f *os.File, cur fs.FileInfo, perishable bool) (fs.FileInfo, error) {
	fi, err := f.Stat()
	if err != nil || cur == nil || fi.ModTime().After(cur.ModTime()) {
		return fi, err
	}
	for _, step := range []time.Duration{time.Nanosecond, time.Microsecond, time.Millisecond, time.Second, 2 * time.Second} {
		at := cur.ModTime().Add(step)
		if err := os.Chtimes(f.Name(), at, at); err != nil {
			return nil, err
		}
		if fi, err = f.Stat(); err != nil || fi.ModTime().After(cur.ModTime()) {
			break
		}
	}
	if err != nil || perishable {
		return fi, err
	}
	return fi, f.Sync()
}

// rename moves a finished file to its place and makes that durable, unless it is perishable. The directory is made where there is none;
// a delete may remove it in between, when it is empty: then it is made again.
func (s *Store) rename(from, to string, perishable bool) error {
	dir := filepath.Dir(to)
	for try := 0; ; try++ {
		err := notLinkedDir(to)
		if err == nil {
			err = os.Rename(from, to)
		}
		if errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EEXIST) || errors.Is(err, syscall.ENOTEMPTY) {
			// Empty directories do not exist: only one that holds something is in the way.
			if removeEmpty(to) == nil && try < 100 {
				continue
			}
			return err
		}
		if errors.Is(err, fs.ErrNotExist) && try < 100 {
			if _, serr := os.Lstat(from); serr != nil {
				return err // our own file is gone: somebody cleans up below us
			}
			if err := makeDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err != nil || perishable {
			return err
		}
		if err := syncDir(dir); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil // already deleted again, together with its directory
	}
}

// notLinkedDir refuses to replace a link to a directory, which a rename would do: the objects below it would be gone.
func notLinkedDir(path string) error {
	link, err := os.Lstat(path)
	if err == nil && link.Mode()&fs.ModeSymlink != 0 {
		if target, err := os.Stat(path); err == nil && target.IsDir() {
			return syscall.EISDIR
		}
	}
	return nil
}

// makeDir is MkdirAll with each new directory made durable in its parent.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	switch {
	case err == nil:
		return syncDir(filepath.Dir(dir))
	case errors.Is(err, fs.ErrNotExist):
		if err := makeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return syncDir(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		fi, err := os.Stat(dir)
		if err == nil && !fi.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return err
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeEmpty removes a directory that holds nothing but empty directories, or fails.
func removeEmpty(dir string) error {
	es, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range es {
		if !e.IsDir() {
			return syscall.ENOTEMPTY
		}
		if err := removeEmpty(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // a link to an empty directory, for one, is not removed
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Delete implements store.Store. Directories that it leaves empty are removed too.
func (s *Store) Delete(ctx context.Context, key string) error {
	path, err := s.path(key)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return s.fail("delete", key, err)
	}
	if err := s.delete(ctx, key, path); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return s.fail("delete", key, err)
	}
	return nil
}

func (s *Store) delete(ctx context.Context, key, path string) error {
	// Without this look a delete from an absent root would create it for the lock. A dangling link is not an object, and stays.
	if _, err := stat(path); err != nil {
		return err
	}
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := stat(path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	for dir := filepath.Dir(path); dir != s.root; dir = filepath.Dir(dir) {
		if syscall.Rmdir(dir) != nil { // it holds something, or is a link
			return syncDir(dir)
		}
	}
	return syncDir(s.root)
}
