package playground

import "syscall"

// childAttributes puts a child into a process group of its own, so that Ctrl-C
// on the terminal reaches it through the orderly stop alone, and has the kernel
// kill it when this process dies without one.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
