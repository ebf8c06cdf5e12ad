//go:build !linux

package detect

import (
	"errors"
	"os/exec"
)

// outputIn runs a command in a mount namespace. Only Linux has these.
func outputIn(string, *exec.Cmd) ([]byte, error) { return nil, errors.ErrUnsupported }
