//go:build unix && !linux

package playground

import "syscall"

// childAttributes puts a child into a process group of its own, so that Ctrl-C
// on the terminal reaches it through the orderly stop alone. Only Linux can
// also end it when this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
