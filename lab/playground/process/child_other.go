//go:build unix && !linux

package process

import "syscall"

// childAttributes puts a child into its own process group, so that Ctrl-C on the terminal reaches
// it only through the orderly stop. Only Linux can also kill it when this process is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
