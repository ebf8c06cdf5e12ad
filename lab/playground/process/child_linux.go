package process

import "syscall"

// childAttributes puts a child into its own process group, so that Ctrl-C on the terminal reaches
// it only through the orderly stop, and makes the kernel kill it when this process dies without
// one.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
