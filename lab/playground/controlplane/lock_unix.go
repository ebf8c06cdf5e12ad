//go:build unix

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lockFile opens and locks path. The kernel releases the lock when the file is closed or the
// process ends for any reason.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock playground directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another playground is using it; stop that one or use another directory")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock playground directory %s: %w", filepath.Dir(path), err), f.Close())
	}
	return f, nil
}
