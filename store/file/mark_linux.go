package file

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// mark tells one state of a directory from another.
type mark struct {
	dev, ino, links uint64
	size            int64
	mtime, ctime    syscall.Timespec
}

// changed is when the directory last changed.
func (m mark) changed() time.Time { return time.Unix(m.ctime.Unix()) }

func markFrom(st *syscall.Stat_t) mark {
	return mark{
		dev: uint64(st.Dev), ino: st.Ino, links: uint64(st.Nlink), size: st.Size, //nolint:unconvert // their types differ between processors
		mtime: st.Mtim, ctime: st.Ctim,
	}
}

// markOf is the mark of the directory at a path.
func markOf(path string) (mark, bool) {
	var st syscall.Stat_t
	if err := statTo(path, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFDIR {
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
		var st syscall.Stat_t
		var system syscall.Statfs_t
		if syscall.Fstat(int(fd), &st) == nil && syscall.Fstatfs(int(fd), &system) == nil {
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
func look(path string) (is version, modified time.Time, err error) {
	var st syscall.Stat_t
	if err := statTo(path, &st); err != nil {
		return is, modified, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return is, modified, fs.ErrNotExist
	}
	return version{ino: st.Ino, mtime: st.Mtim.Nano(), size: st.Size}, time.Unix(st.Mtim.Unix()), nil
}

func statTo(path string, st *syscall.Stat_t) error {
	for {
		if err := syscall.Stat(path, st); err != syscall.EINTR {
			return err
		}
	}
}
