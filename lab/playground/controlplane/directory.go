package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// lockName is the file that marks a directory as a playground's. The playground that uses the
// directory holds its lock.
const lockName = "playground.lock"

// maxSocketPath is the maximum length of a Unix socket's path on macOS, four bytes below that of
// Linux.
const maxSocketPath = 103

// Directory is the directory of one playground and its contents.
type Directory struct {
	dir        string
	temporary  bool   // remove dir on close
	sockets    string // directory of Unix sockets: dir, or a shorter path
	kubeconfig string
	written    []byte   // content written to kubeconfig; nil before that
	lock       *os.File // held while the directory is in use
}

// OpenDirectory creates or reopens the directory, locks it, and checks that the kubeconfig may be
// written.
func OpenDirectory(dir, kubeconfig string) (*Directory, error) {
	s := &Directory{dir: dir, temporary: dir == ""}
	if err := s.open(); err != nil {
		return nil, errors.Join(&InputError{Option: "Dir", Err: err}, s.Close())
	}
	if err := s.placeKubeconfig(kubeconfig); err != nil {
		return nil, errors.Join(&InputError{Option: "KubeconfigPath", Err: err}, s.Close())
	}
	return s, nil
}

func (s *Directory) open() error {
	if err := s.makeDir(); err != nil {
		return err
	}
	lock, err := lockFile(filepath.Join(s.dir, lockName))
	if err != nil {
		return err
	}
	s.lock = lock
	for _, sub := range []string{s.pkiDir(), s.LogDir(), s.etcdDir()} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return fmt.Errorf("create playground directory: %w", err)
		}
	}
	return s.placeSockets()
}

func (s *Directory) makeDir() error {
	if s.temporary {
		dir, err := os.MkdirTemp("", "supercargo-") // 0700
		if err != nil {
			return fmt.Errorf("create playground directory: %w", err)
		}
		s.dir = dir
		return nil
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return fmt.Errorf("find playground directory %s: %w", s.dir, err)
	}
	s.dir = dir
	if err := checkUsable(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create playground directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { // it may have existed with a wider mode
		return fmt.Errorf("close playground directory to others: %w", err)
	}
	return nil
}

// checkUsable rejects a directory with other files in it, because the playground changes its mode
// and fills it.
func checkUsable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read playground directory: %w", err)
	}
	if len(entries) == 0 {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
		return fmt.Errorf("use playground directory %s: it contains files that are not a playground's; use a new or empty directory", dir)
	}
	return nil
}

// placeSockets chooses the directory of Unix sockets. Their paths must be short, and the
// directories of Go tests are long.
func (s *Directory) placeSockets() error {
	s.sockets = s.dir
	if len(s.etcdSocket()) <= maxSocketPath {
		return nil
	}
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		dir, err := os.MkdirTemp(parent, "supercargo-") // 0700
		if err != nil {
			return fmt.Errorf("create socket directory: %w", err)
		}
		s.sockets = dir
		if len(s.etcdSocket()) <= maxSocketPath {
			return nil
		}
		if err := os.Remove(dir); err != nil {
			return fmt.Errorf("remove socket directory: %w", err)
		}
	}
	return fmt.Errorf("create socket %s: the path is longer than %d bytes", s.etcdSocket(), maxSocketPath)
}

// Path returns the path of the directory.
func (s *Directory) Path() string { return s.dir }

// KubeconfigPath returns the path of the administrator's kubeconfig.
func (s *Directory) KubeconfigPath() string { return s.kubeconfig }

// Kubeconfig returns what was written there, or nil before the API server was started.
func (s *Directory) Kubeconfig() []byte { return s.written }

// LogDir returns the directory of the log files.
func (s *Directory) LogDir() string { return filepath.Join(s.dir, "logs") }

func (s *Directory) pkiDir() string     { return filepath.Join(s.dir, "pki") }
func (s *Directory) etcdDir() string    { return filepath.Join(s.dir, "etcd") }
func (s *Directory) etcdSocket() string { return filepath.Join(s.sockets, "etcd.sock") }

// Close removes temporary files and releases the directory.
func (s *Directory) Close() error {
	var errs []error
	errs = append(errs, s.removeKubeconfig())
	if s.sockets != "" && s.sockets != s.dir {
		errs = append(errs, os.RemoveAll(s.sockets))
	}
	if s.temporary && s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}

// WriteFile writes a file of the state atomically, readable only by its owner.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}
