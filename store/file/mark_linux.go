package file

import (
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mark tells one state of a directory from another.
type mark struct {
	dev, ino, links uint64
	size            int64
	mtime, ctime    unix.Timespec
}

// changed is when the directory last changed.
func (m mark) changed() time.Time { return time.Unix(m.ctime.Unix()) }

func markFrom(st *unix.Stat_t) mark {
	return mark{
		dev: uint64(st.Dev), ino: st.Ino, links: uint64(st.Nlink), size: st.Size, //nolint:unconvert // their types differ between processors
		mtime: st.Mtim, ctime: st.Ctim,
	}
}

// place is a directory from which the kernel looks at what lies below it, so that a look walks a name or two and not all that lead
// there. The zero place looks by whole paths.
type place struct {
	fd  int
	cut int // how much of a path leads here, with its slash; 0 is nothing: of an absolute path the kernel does not ask from where
}

// nearer is the directory at a path as a place. The caller closes it; ok is false where there is none.
func (p place) nearer(path string) (q place, ok bool) {
	for {
		fd, err := unix.Openat(p.fd, path[p.cut:], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return place{fd: fd, cut: len(strings.TrimSuffix(path, "/")) + 1}, err == nil
		}
	}
}

func (p place) close() { _ = unix.Close(p.fd) } // it holds nothing

// stat looks at a path below the place: what it finds, whole paths find.
func (p place) stat(path string, st *unix.Stat_t) error {
	if len(path) >= unix.PathMax {
		return unix.ENAMETOOLONG // nobody could open it
	}
	for {
		switch err := unix.Fstatat(p.fd, path[p.cut:], st, 0); {
		case err == nil:
			return nil
		case err == unix.EINTR:
		case p.cut > 0 && gone(err):
			p = place{} // another directory may lie here by now, with the same names in it
		default:
			return err
		}
	}
}

// markOf is the mark of the directory at a path.
func (p place) markOf(path string) (mark, bool) {
	var st unix.Stat_t
	if err := p.stat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return mark{}, false
	}
	return markFrom(&st), true
}

// markOfOpen is the mark of an open directory whose file system tells changes.
func markOfOpen(f *os.File) (is mark, ok bool) {
	conn, err := f.SyscallConn()
	if err != nil {
		return is, false
	}
	err = conn.Control(func(fd uintptr) {
		var st unix.Stat_t
		var system unix.Statfs_t
		if unix.Fstat(int(fd), &st) == nil && unix.Fstatfs(int(fd), &system) == nil {
			is, ok = markFrom(&st), changes(int64(system.Type)) //nolint:unconvert // its type differs between processors
		}
	})
	return is, ok && err == nil
}

// changes says whether a file system, by its number in statfs(2), gives a directory a change time of this kernel's clock with every entry
// that comes or goes. Those that others write to behind this kernel's back (networks, FUSE, overlays) do not, or it is not known.
func changes(system int64) bool {
	switch uint32(system) { //nolint:gosec // the low half is the number
	case 0xef53, // ext2, ext3, ext4
		0x58465342, // xfs
		0x9123683e, // btrfs
		0x01021994: // tmpfs
		return true
	}
	return false
}

// look finds the version of a regular file; anything else is absent.
func (p place) look(path string) (is version, modified time.Time, err error) {
	var st unix.Stat_t
	if err := p.stat(path, &st); err != nil {
		return is, modified, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return is, modified, fs.ErrNotExist
	}
	return version{ino: st.Ino, mtime: st.Mtim.Nano(), size: st.Size}, time.Unix(st.Mtim.Unix()), nil
}
