package spool

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

const (
	tmpfile = 0o20000000 | syscall.O_DIRECTORY // O_TMPFILE, of which the constant is missing
	atCWD   = -100                             // AT_FDCWD
	follow  = 0x400                            // AT_SYMLINK_FOLLOW
)

// unnamed makes a file that has no name from the first and can be given one later,
// or is errors.ErrUnsupported.
func unnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|tmpfile, 0o600)
	switch {
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EINVAL): // a kernel or a file system that knows of no such thing
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
	to, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		from, err := syscall.BytePtrFromString("/proc/self/fd/" + strconv.Itoa(int(fd)))
		if err != nil {
			failed = err
			return
		}
		cwd := atCWD
		_, _, code := syscall.Syscall6(syscall.SYS_LINKAT, uintptr(cwd), uintptr(unsafe.Pointer(from)), uintptr(cwd), uintptr(unsafe.Pointer(to)), follow, 0) //nolint:gosec // two strings for the kernel
		if code != 0 {
			failed = code
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return nil
}
