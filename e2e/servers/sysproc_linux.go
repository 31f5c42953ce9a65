package servers

import "syscall"

// ProcAttr puts a child in a process group of its own, so that Ctrl-C on the
// terminal reaches the tests first and the servers are stopped after them, and
// has the kernel send sig to it should the starting program die. cred, if any,
// is the user it runs as.
//
// The kernel ties that signal to the thread that started the process. The Go
// runtime ends a thread only when a goroutine locked to it returns, which no
// caller of this package does.
func ProcAttr(sig syscall.Signal, cred *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: sig, Credential: cred}
}
