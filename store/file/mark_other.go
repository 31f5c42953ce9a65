//go:build !linux

package file

import (
	"os"
	"time"
)

// mark would tell one state of a directory from another: nothing is remembered here.
type mark struct{}

func (mark) changed() time.Time { return time.Time{} }

// place would be a directory from which to look: here all looks are by whole paths.
type place struct{}

func (place) nearer(string) (place, bool) { return place{}, false }

func (place) close() {}

func (place) markOf(string) (mark, bool) { return mark{}, false }

func markOfOpen(*os.File) (mark, bool) { return mark{}, false }

// look finds the version of a regular file; anything else is absent.
func (place) look(path string) (is version, modified time.Time, err error) {
	fi, err := stat(path)
	if err != nil {
		return is, modified, err
	}
	return versionOf(fi), fi.ModTime(), nil
}
