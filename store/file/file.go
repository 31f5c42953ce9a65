// Package file keeps objects as ordinary files: file:///dir. A key's segments are directory names and its last one the file's name,
// nothing is escaped, so people and tests drop files in with cp and read CURRENT with cat.
//
// What it promises beyond package store:
//
//  1. Conditional puts hold between goroutines and between processes on one machine: the check and the rename happen under an flock on
//     <root>/.deltad/lock/, which the kernel releases when a process dies.
//  2. A put is durable when it is acknowledged: written under <root>/.deltad/tmp/, synced, renamed, and the directories synced. A perishable
//     one is not synced: it is as whole and as atomic for everybody who reads while the machine runs, and a power cut may take or tear it.
//  3. A put never repeats an ETag of its key: the ETag is (inode, modification time in nanoseconds, size), and a put moves the time
//     forward past the version it replaces, so that a reused inode cannot bring an old ETag back.
//  4. Listings read only directories that can hold what is asked for. A subtree outside the prefix or at or before StartAfter is not
//     opened, one that a delimiter folds only until its first object is found, and only listed objects are asked for their size.
//  5. A directory of an ordinary local file system that is as it was listed before is not read again; its objects are looked at all the
//     same. How it is known is written at type memory.
//  6. Whatever lies in a directory named .deltad, at any level, is invisible and refused as a key. Empty directories do not exist.
//
// What a directory cannot do: empty, "." and ".." segments, a trailing "/", segments over 255 bytes, and a key that is also the parent
// of another are refused by name (store.ErrBadKey). Symbolic links to files and directories are followed, those to a directory that
// they lie in are left out. A file that others write in place is no atomic put: it is visible while it grows, each change gives it
// another ETag, and a read that meets a change fails with store.ErrUnavailable. One that keeps its size and has its modification time set
// back is not seen. Use mv. A root must not lie inside another root that
// is written to, since the two do not share locks. Locks need a local file system.
package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/deltad/deltad/store"
)

// private is the name of the directory that holds locks and temporary files.
const private = ".deltad"

// Store is a directory of objects. Create it with New.
type Store struct {
	root   string
	locks  locks
	sweep  sync.Once
	memory memory    // what directories held
	bufs   sync.Pool // of *[copied]byte
}

// New returns the store under an absolute directory, which need not exist: it then lists as empty and is created by the first put.
func New(root string) (*Store, error) {
	if !filepath.IsAbs(root) {
		return nil, fmt.Errorf("open file store %q: not an absolute path", root)
	}
	s := &Store{root: filepath.Clean(root)}
	s.memory.coarse = coarse
	s.locks.dir = filepath.Join(s.root, private, "lock")
	return s, nil
}

// String is file:///root.
func (s *Store) String() string { return "file://" + s.root }

// fail gives an error of the file system its class.
func (s *Store) fail(op, key string, err error) error {
	var class error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		class = store.ErrNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		class = store.ErrDenied
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), errors.Is(err, syscall.ESTALE),
		errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		class = store.ErrUnavailable
	}
	return store.Fail(op, s.String(), key, class, err)
}

// path maps a key to its file.
func (s *Store) path(key string) (string, error) {
	if err := store.CheckKey(key); err != nil {
		return "", err
	}
	for seg := range strings.SplitSeq(key, "/") {
		if err := segment(seg); err != nil {
			return "", fmt.Errorf("%w: %w", store.ErrBadKey, err)
		}
	}
	return filepath.Join(s.root, filepath.FromSlash(key)), nil
}

// segment refuses what cannot be a file name here.
func segment(seg string) error {
	switch {
	case seg == "":
		return errors.New(`an empty segment ("//", leading or trailing "/") cannot be a file name`)
	case seg == "." || seg == "..":
		return fmt.Errorf("the segment %q cannot be a file name", seg)
	case seg == private:
		return fmt.Errorf("the segment %q is reserved", seg)
	case len(seg) > 255:
		return fmt.Errorf("a segment of %d bytes cannot be a file name, at most 255", len(seg))
	}
	return nil
}

// version is what an ETag is made of: two versions of an object have different ones.
type version struct {
	ino         uint64
	mtime, size int64 // nanoseconds since 1970, bytes
}

func versionOf(fi fs.FileInfo) version {
	v := version{mtime: fi.ModTime().UnixNano(), size: fi.Size()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		v.ino = st.Ino
	}
	return v
}

func (v version) etag() string {
	b := strconv.AppendUint(make([]byte, 0, 3*16+2), v.ino, 16)
	b = strconv.AppendInt(append(b, '-'), v.mtime, 16)
	return string(strconv.AppendInt(append(b, '-'), v.size, 16))
}

func (v version) info(key string, modified time.Time) store.ObjectInfo {
	return store.ObjectInfo{Key: key, ETag: v.etag(), Size: v.size, LastModified: modified.UTC()}
}

func etag(fi fs.FileInfo) string { return versionOf(fi).etag() }

func info(key string, fi fs.FileInfo) store.ObjectInfo {
	return versionOf(fi).info(key, fi.ModTime())
}

// stat finds a regular file; anything else is absent.
func stat(path string) (fs.FileInfo, error) {
	fi, err := os.Stat(path)
	if err == nil && !fi.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	return fi, err
}

// Head implements store.Store.
func (s *Store) Head(ctx context.Context, key string) (store.ObjectInfo, error) {
	path, err := s.path(key)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return store.ObjectInfo{}, s.fail("head", key, err)
	}
	fi, err := stat(path)
	if err != nil {
		return store.ObjectInfo{}, s.fail("head", key, err)
	}
	return info(key, fi), nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string, o store.GetOptions) (store.Object, error) {
	path, err := s.path(key)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return store.Object{}, s.fail("get", key, err)
	}
	obj, err := open(ctx, key, path, o)
	if err != nil {
		return store.Object{}, s.fail("get", key, err)
	}
	return obj, nil
}

func open(ctx context.Context, key, path string, o store.GetOptions) (_ store.Object, err error) {
	// Not blocking: a named pipe would wait for its writer.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return store.Object{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	fi, err := f.Stat()
	if err != nil {
		return store.Object{}, err
	}
	tag := etag(fi)
	switch {
	case !fi.Mode().IsRegular():
		return store.Object{}, fs.ErrNotExist
	case o.IfMatch != "" && o.IfMatch != tag:
		return store.Object{}, store.ErrPrecondition
	case o.IfNoneMatch != "" && o.IfNoneMatch == tag:
		return store.Object{}, store.ErrNotModified
	}
	offset, length, err := o.Range(fi.Size())
	if err != nil {
		return store.Object{}, err
	}
	b := &body{ctx: ctx, f: f, r: io.NewSectionReader(f, offset, length), left: length, etag: tag}
	return store.Object{Info: info(key, fi), Offset: offset, Length: length, Body: b}, nil
}

// body reads one version of a file and fails if the file is changed in place meanwhile.
type body struct {
	ctx  context.Context
	f    *os.File
	r    io.Reader
	left int64
	etag string
}

func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if err != io.EOF {
		return n, err
	}
	fi, serr := b.f.Stat()
	switch {
	case serr != nil:
		return n, serr
	case b.left > 0 || etag(fi) != b.etag:
		return n, fmt.Errorf("%w: the file was changed in place while it was read", store.ErrUnavailable)
	}
	return n, io.EOF
}

func (b *body) Close() error { return b.f.Close() }
