package process

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program is a program that a playground runs as a child process.
type Program struct {
	Name string // of the file
	Env  string // the environment variable with its path
	Does string // why it is needed: "simulates the nodes"
	Made string // the command that puts it beside supercargo; empty for make build
}

// Find returns the path of the program: path itself if it is set, else the value of the environment
// variable, else the first one found next to the running program, in a test in bin/ of its Go
// module, and on PATH.
func (p Program) Find(path string) (string, error) {
	if path != "" {
		return p.Check(path, "the given path")
	}
	if path := os.Getenv(p.Env); path != "" {
		return p.Check(path, p.Env)
	}
	var candidates []string
	if self, err := os.Executable(); err == nil {
		candidates = append(candidates, filepath.Join(filepath.Dir(self), p.Name))
	}
	// Outside tests, this would run a program only because the working directory is inside a source
	// tree.
	if testing.Testing() {
		for _, root := range moduleRoots() {
			candidates = append(candidates, filepath.Join(root, "bin", p.Name))
		}
	}
	for _, candidate := range candidates {
		if path, err := p.Check(candidate, ""); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath(p.Name); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("find %s, which %s: it is neither beside this program nor on PATH; "+
		"run `%s`, which puts it beside supercargo, or set %s to its path", p.Name, p.Does, cmp.Or(p.Made, "make build"), p.Env)
}

// Check returns the absolute path of an executable file. from names the source of the path in
// errors.
func (p Program) Check(path, from string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Mode()&0o111 == 0) {
		err = &fs.PathError{Op: "run", Path: path, Err: errors.New("not an executable file")}
	}
	if err != nil {
		return "", fmt.Errorf("find %s at %s: %w", p.Name, from, err)
	}
	return filepath.Abs(path)
}

// moduleRoots returns the parent directories that contain a go.mod, nearest first.
func moduleRoots() []string {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	var roots []string
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			roots = append(roots, dir)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return roots
		}
		dir = parent
	}
}
