//go:build linux

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroupMount is the path of the machine's control groups.
const cgroupMount = "/sys/fs/cgroup"

// makeCgroup makes a control group in every hierarchy, as the parent of the kubelets' control groups. With
// version 1 there are several hierarchies.
func makeCgroup(name string) error {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return makeUnified(name)
	}
	hierarchies, err := os.ReadDir(cgroupMount)
	if err != nil {
		return fmt.Errorf("make control group %s: %w", name, err)
	}
	for _, h := range hierarchies {
		root := filepath.Join(cgroupMount, h.Name())
		if !h.IsDir() { // an alias of another hierarchy
			continue
		}
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return fmt.Errorf("make control group: %w", err)
		}
		if err := inheritCPUs(root, name); err != nil {
			return fmt.Errorf("make control group %s: %w", name, err)
		}
	}
	return nil
}

// inheritCPUs copies a cpuset of version 1 from its parents. A new cpuset has no CPU, and accepts no process.
func inheritCPUs(root, name string) error {
	dir := root
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		parent := dir
		dir = filepath.Join(dir, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(parent, file))
			if errors.Is(err, fs.ErrNotExist) {
				return nil // another hierarchy
			}
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeUnified makes a control group of version 2 with all controllers that the root delegates.
func makeUnified(name string) error {
	dir := cgroupMount
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		available, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
		if err != nil {
			return fmt.Errorf("make control group %s: %w", name, err)
		}
		for controller := range bytes.FieldsSeq(available) {
			// Some controllers cannot be delegated; the kubelet reports those that it needs.
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), append([]byte("+"), controller...), 0)
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make control group: %w", err)
		}
	}
	return nil
}

// Frozen returns the control groups of the node's pods that are frozen.
func (n *Node) Frozen() ([]string, error) {
	var frozen []string
	for _, root := range []string{filepath.Join(cgroupMount, "freezer", n.CgroupRoot), filepath.Join(cgroupMount, n.CgroupRoot)} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			name := ""
			if err == nil {
				name = entry.Name()
			}
			if name == "freezer.state" || name == "cgroup.freeze" {
				var text []byte
				if text, err = os.ReadFile(path); err == nil && string(text) != "THAWED\n" && string(text) != "0\n" {
					frozen = append(frozen, filepath.Dir(path))
				}
			}
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) { // it has just gone
				return nil
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look for frozen pods of node %s: %w", n.Name, err)
		}
	}
	return frozen, nil
}

// thaw thaws all frozen processes below a control group, because a frozen process cannot end.
func thaw(name string) error {
	var errs []error
	for _, pattern := range []string{filepath.Join(cgroupMount, "freezer", name), filepath.Join(cgroupMount, name)} {
		errs = append(errs, filepath.WalkDir(pattern, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist): // it has just gone
				return nil
			case err != nil:
				return err
			case entry.Name() == "freezer.state":
				return writeIfThere(path, "THAWED")
			case entry.Name() == "cgroup.freeze":
				return writeIfThere(path, "0")
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}

func writeIfThere(path, value string) error {
	err := os.WriteFile(path, []byte(value), 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrInvalid) {
		return nil
	}
	return err
}
