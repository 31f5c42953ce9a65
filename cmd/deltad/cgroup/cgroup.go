// Package cgroup reads what memory the machine's administrator allows the
// process. It decides nothing and fails at nothing: files that are not there or
// make no sense limit nothing.
package cgroup

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Where the two kinds of cgroups are mounted, as systemd and every container
// engine have it, and the file with a group's limit.
const (
	unifiedRoot, unifiedFile       = "sys/fs/cgroup", "memory.max"
	legacyRoot, legacyFile         = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
	membership                     = "proc/self/cgroup"
	noLimit                  int64 = 1 << 50 // v1 says "none" by a number beyond any machine
)

// Memory is the memory that the process's cgroup allows: the smallest
// limit of the group it is in and of every group above, since each of them
// binds. root is the root of the file system. ok is false where nothing limits
// it, where there are no cgroups, and where they cannot be read.
//
// Both kinds are looked at, v2 and the memory controller of v1: on a hybrid
// machine one of them has no limit and the smaller one is the answer. In a
// container whose membership names the path on the host, which is not there,
// what is mounted as the root is the container's own group, and the walk ends
// at it.
func Memory(root fs.FS) (limit int64, ok bool) {
	text, err := fs.ReadFile(root, membership)
	if err != nil {
		text = nil // the roots are looked at even so
	}
	unified, legacy := []string{"/"}, []string{"/"}
	for line := range strings.Lines(string(text)) {
		// hierarchy:controllers:path, and the path may have colons.
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3:
		case parts[0] == "0" && parts[1] == "":
			unified = append(unified, parts[2])
		case slices.Contains(strings.Split(parts[1], ","), "memory"):
			legacy = append(legacy, parts[2])
		}
	}
	limit = noLimit
	for _, group := range unified {
		limit = min(limit, smallest(root, unifiedRoot, unifiedFile, group))
	}
	for _, group := range legacy {
		limit = min(limit, smallest(root, legacyRoot, legacyFile, group))
	}
	return limit, limit < noLimit
}

// smallest is the smallest limit from a group up to the root of its hierarchy.
func smallest(root fs.FS, mount, file, group string) int64 {
	limit := noLimit
	// A path that leaves the namespace ("/../x") becomes one below the root.
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		// "max" is no number, and no limit.
		if text, err := fs.ReadFile(root, path.Join(mount, group, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
				limit = min(limit, n)
			}
		}
		if group == "/" {
			return limit
		}
	}
}
