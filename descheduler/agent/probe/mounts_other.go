//go:build !linux

package probe

import (
	"errors"
	"os/exec"
)

// outputIn runs a command in a mount namespace, which only Linux has.
func outputIn(string, *exec.Cmd) ([]byte, error) { return nil, errors.ErrUnsupported }
