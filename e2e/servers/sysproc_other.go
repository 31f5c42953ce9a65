//go:build unix && !linux

package servers

import "syscall"

// ProcAttr puts a child in a process group of its own. Without Linux's parent
// death signal it outlives a starting program that is killed outright.
func ProcAttr(_ syscall.Signal, cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: cred}
}
