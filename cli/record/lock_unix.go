//go:build unix

package record

import (
	"errors"
	"os"
	"syscall"
)

// lock excludes other recorders from a file until it is closed or the process ends in any way.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another supercargo record appends to it: stop that one, or use another file")
	}
	return err
}
