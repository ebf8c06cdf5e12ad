package ociruntime

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// InstallCommand is the command with which the program copies itself into a folder. runc has no command of that name.
const InstallCommand = "supercargo-install"

// Install copies a program into a folder of the node, under its own name. containerd may start the program at any
// time, so there is always a complete one: the old one, until the new one is written. Nothing is written if they are
// equal.
func Install(program, folder string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("install the container runtime: %w", err)
	}
	to := filepath.Join(folder, filepath.Base(program))
	if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("install the container runtime: %w", err)
	}
	if err := replace(to, text); err != nil {
		return fmt.Errorf("install the container runtime: %w", err)
	}
	return nil
}

// replace writes a program. A crash of the machine leaves the old one or the new one.
func replace(to string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o755), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
