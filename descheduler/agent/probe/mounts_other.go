//go:build !linux

package probe

import (
	"errors"
	"os/exec"
)

// outputIn runs a command in a mount namespace. Only Linux has these.
func outputIn(string, *exec.Cmd) ([]byte, error) { return nil, errors.ErrUnsupported }
