//go:build unix && !linux

package servers

import "syscall"

// procAttr puts a server in a process group of its own. Without Linux's parent
// death signal a server outlives a starting program that is killed outright.
func procAttr(_ syscall.Signal, cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: cred}
}
