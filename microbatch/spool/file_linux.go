package spool

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// unnamed makes a file that has no name from the first and can be given one later,
// or is errors.ErrUnsupported.
func unnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, 0o600)
	switch {
	case errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL): // a kernel or a file system that knows of no such thing
		return nil, errors.ErrUnsupported
	case err != nil:
		return nil, err // EOPNOTSUPP is errors.ErrUnsupported
	}
	return f, nil
}

// link gives a file a name that nothing has.
func link(f *os.File, name string) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.FormatUint(uint64(fd), 10), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return nil
}
