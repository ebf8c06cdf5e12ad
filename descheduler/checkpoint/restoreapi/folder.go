package restoreapi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

const (
	podsFolder = "pods"
	socketName = "agent.sock"
)

// Folder is the path of the shared folder.
type Folder string

// podUID matches what may be the name of a pod's file.
var podUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,127}$`)

func (f Folder) pods() string                    { return filepath.Join(string(f), podsFolder) }
func (f Folder) file(uid string) string          { return filepath.Join(f.pods(), uid) }
func (f Folder) socket() string                  { return filepath.Join(string(f), socketName) }
func (f Folder) valid(uid string) bool           { return podUID.MatchString(uid) }
func (f Folder) invalid(uid string) error        { return fmt.Errorf("%q is not the UID of a pod", uid) }
func (f Folder) wrap(what string, e error) error { return fmt.Errorf("%s in %s: %w", what, f, e) }

// Make creates the folder for root alone.
func (f Folder) Make() error {
	for _, dir := range []string{string(f), f.pods()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return f.wrap("keep the list of expected pods", err)
		}
	}
	if err := private(string(f)); err != nil {
		return f.wrap("keep the list of expected pods", err)
	}
	return nil
}

// Expect lists a pod: its container does not start without the agent from here on.
func (f Folder) Expect(uid string) error {
	if !f.valid(uid) {
		return f.invalid(uid)
	}
	file, err := os.OpenFile(f.file(uid), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return f.wrap("list pod "+uid, err)
	}
	return nil
}

// Release removes a pod from the list. A pod that is not listed is no error.
func (f Folder) Release(uid string) error {
	if !f.valid(uid) {
		return f.invalid(uid)
	}
	if err := os.Remove(f.file(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return f.wrap("remove pod "+uid+" from the list", err)
	}
	return nil
}

// Listed returns the listed pods.
func (f Folder) Listed() ([]string, error) {
	entries, err := os.ReadDir(f.pods())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, f.wrap("read the list of expected pods", err)
	}
	var all []string
	for _, entry := range entries {
		if f.valid(entry.Name()) {
			all = append(all, entry.Name())
		}
	}
	return all, nil
}

// Any reports whether any pod is listed. It reads one name at most. A folder that does not exist lists none, and so does
// one that others than root can write: what they list must not keep containers from starting.
func (f Folder) Any() bool {
	if private(string(f)) != nil {
		return false
	}
	dir, err := os.Open(f.pods())
	if err != nil {
		return false
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(1) // an error is an empty folder
	return len(names) > 0
}

// Has reports whether a pod is listed.
func (f Folder) Has(uid string) bool {
	if !f.valid(uid) {
		return false
	}
	_, err := os.Lstat(f.file(uid))
	return err == nil
}

// private returns an error unless a folder belongs to the user of this process, which is root on a node, and no other
// can enter it.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ok && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a folder of this user that others cannot enter", dir)
	}
	return nil
}
