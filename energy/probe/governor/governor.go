// Package governor changes the CPU governors of a machine, and restores them.
//
// A governor selects the clock of the CPUs: `performance` always the highest, `powersave` the
// lowest or, with intel_pstate, the most frugal that suffices. The original governors are saved
// on disk before anything is changed, so that they are always restored: by [Switch.Restore], or
// after a crash by [Recover] in another process.
package governor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// The governors that probes compare (HEATS, section III).
const (
	Powersave   = "powersave"
	Performance = "performance"
)

// file is the name of the record. lock is the name of a file that is locked while a process is
// alive that will restore.
const (
	file = "governors.json"
	lock = "governors.lock"
)

// ErrBusy is returned while another live process has changed the governors.
var ErrBusy = errors.New("another process has switched the CPU governors")

// Switch changes the governors of a machine.
type Switch struct {
	// cpufreq is the folder of the frequency policies.
	cpufreq string
	state   string
	lock    *os.File
	// home is the original governor of each policy.
	home map[string]string
	// changed means that something may have been written.
	changed bool
}

// Open reads the governors below the root of a sysfs (/sys), and takes the lock in a folder on
// disk, which it creates. It first restores the governors that a dead process left changed. A
// machine whose kernel has no selectable governors has none: [Switch.Available] is empty.
func Open(sysfs, state string) (*Switch, error) {
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of the record of governors: %w", err)
	}
	s := &Switch{cpufreq: filepath.Join(sysfs, "devices/system/cpu/cpufreq"), state: state, home: map[string]string{}}
	var err error
	if s.lock, err = os.OpenFile(filepath.Join(state, lock), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fmt.Errorf("open the lock of the governors: %w", err)
	}
	// The kernel releases it when the process ends, however it ends.
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = errors.Join(ErrBusy, s.lock.Close())
		return nil, fmt.Errorf("lock the governors in %s: %w", state, err)
	}
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	if err := s.readPolicies(); err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// readPolicies reads the governors of the policies.
func (s *Switch) readPolicies() error {
	entries, err := os.ReadDir(s.cpufreq)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no cpufreq, as on most virtual machines
	}
	if err != nil {
		return fmt.Errorf("list the frequency policies: %w", err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "policy") {
			continue
		}
		g, err := s.read(e.Name(), "scaling_governor")
		if err != nil {
			return err
		}
		s.home[e.Name()] = g
	}
	return nil
}

func (s *Switch) read(policy, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.cpufreq, policy, name))
	if err != nil {
		return "", fmt.Errorf("read the governor of %s: %w", policy, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Home returns the original governor of the machine: empty if it has none, and all names joined
// by commas if policies differ.
func (s *Switch) Home() string {
	var all []string
	for _, g := range s.home {
		all = append(all, g)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// Available returns the wanted governors that all policies support and that can be set, in the
// order wanted. It tests that by writing the current ones.
func (s *Switch) Available(wanted ...string) []string {
	if len(s.home) == 0 {
		return nil
	}
	for policy, g := range s.home {
		if s.write(policy, g) != nil {
			return nil
		}
	}
	var all []string
	for _, w := range wanted {
		has := true
		for policy := range s.home {
			text, err := s.read(policy, "scaling_available_governors")
			has = has && err == nil && slices.Contains(strings.Fields(text), w)
		}
		if has {
			all = append(all, w)
		}
	}
	return all
}

// Set sets the governor of all policies. The record is on disk before the first change. If one
// change fails, Set restores all.
func (s *Switch) Set(governor string) error {
	if !s.changed {
		if err := s.record(); err != nil {
			return err
		}
		s.changed = true
	}
	for _, policy := range s.policies() {
		if err := s.write(policy, governor); err != nil {
			return errors.Join(err, s.Restore())
		}
	}
	return nil
}

func (s *Switch) policies() []string {
	var all []string
	for policy := range s.home {
		all = append(all, policy)
	}
	slices.Sort(all)
	return all
}

// write sets a governor and reads it back, because a kernel may ignore a write without an error.
func (s *Switch) write(policy, governor string) error {
	name := filepath.Join(s.cpufreq, policy, "scaling_governor")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0) // no O_CREATE: sysfs either has it or not
	if err != nil {
		return fmt.Errorf("set the governor of %s: %w", policy, err)
	}
	_, err = f.WriteString(governor)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("set the governor of %s to %s: %w", policy, governor, err)
	}
	if got, err := s.read(policy, "scaling_governor"); err != nil || got != governor {
		return fmt.Errorf("set the governor of %s to %s: it is still %q: %w", policy, governor, got, errors.Join(err, errors.ErrUnsupported))
	}
	return nil
}

// record saves the original governors, so that they survive this process and a power failure.
func (s *Switch) record() error {
	text, err := json.Marshal(s.home)
	if err != nil {
		return fmt.Errorf("write the record of governors: %w", err)
	}
	name := filepath.Join(s.state, file)
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write the record of governors: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(name+".new", name)
	}
	if err == nil {
		err = syncFolder(s.state)
	}
	if err != nil {
		return fmt.Errorf("write the record of governors: %w", err)
	}
	return nil
}

func syncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Restore restores the original governors, and removes the record once all are restored. If it
// fails for one policy, it continues with the others and keeps the record.
func (s *Switch) Restore() error {
	if !s.changed {
		return nil
	}
	var errs []error
	for _, policy := range s.policies() {
		err := s.write(policy, s.home[policy])
		if errors.Is(err, fs.ErrNotExist) {
			continue // the CPU was removed, and its policy with it
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("restore the governors: %w", err)
	}
	if err := os.Remove(filepath.Join(s.state, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of governors: %w", err)
	}
	s.changed = false
	return nil
}

// recover restores the governors of a record, if there is one.
func (s *Switch) recover() error {
	text, err := os.ReadFile(filepath.Join(s.state, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of governors: %w", err)
	}
	if err := json.Unmarshal(text, &s.home); err != nil {
		return fmt.Errorf("read the record of governors %s: %w: set the governors manually and remove the file", filepath.Join(s.state, file), err)
	}
	for policy := range s.home {
		if policy != filepath.Base(policy) || !strings.HasPrefix(policy, "policy") {
			return fmt.Errorf("read the record of governors %s: %q is not a frequency policy: set the governors manually and remove the file", filepath.Join(s.state, file), policy)
		}
	}
	s.changed = true
	if err := s.Restore(); err != nil {
		return err
	}
	s.home = map[string]string{}
	return nil
}

// Close restores the governors and releases the lock.
func (s *Switch) Close() error {
	return errors.Join(s.Restore(), s.lock.Close())
}

// Recover restores the governors that a dead process left changed, and reports whether there were
// any. It does not touch those of a live process.
func Recover(sysfs, state string) (restored bool, err error) {
	if _, err := os.Stat(filepath.Join(state, file)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	s, err := Open(sysfs, state)
	switch {
	case errors.Is(err, ErrBusy):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, s.Close()
}
