package upper

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// folder makes a folder with files, each with its path as its content.
func folder(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// names returns the names of a layer, with what they link to.
func names(t *testing.T, dir string) string {
	t.Helper()
	var layer bytes.Buffer
	if err := Write(&layer, dir); err != nil {
		t.Fatal(err)
	}
	var all []string
	for r := tar.NewReader(&layer); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(all, " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		name := header.Name
		if header.Linkname != "" {
			name += "->" + header.Linkname
		}
		all = append(all, name)
	}
}

func TestAFileWithSeveralNamesIsArchivedOnce(t *testing.T) {
	dir := folder(t, "a", "d/b")
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "d/c")); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, dir), "a d/ d/b d/c->a"; got != want {
		t.Errorf("it has %s, want %s", got, want)
	}
}

func TestASocketIsLeftOut(t *testing.T) {
	dir := folder(t, "a")
	if err := unix.Mknod(filepath.Join(dir, "s"), unix.S_IFSOCK|0o600, 0); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); got != "a" {
		t.Errorf("it has %s, want a", got)
	}
}

func TestAFolderThatHidesThatOfTheImageSaysSoBeforeItsFiles(t *testing.T) {
	dir := folder(t, "d/-", "d/a")
	if err := unix.Setxattr(filepath.Join(dir, "d"), "user.overlay.opaque", []byte("y"), 0); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, dir), "d/ d/.wh..wh..opq d/- d/a"; got != want {
		t.Errorf("it has %s, want %s", got, want)
	}
}

// TestWhatRefersToTheImageIsNotArchived: other features of overlayfs keep parts of a file in the image.
func TestWhatRefersToTheImageIsNotArchived(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"a renamed folder":         attribute("d", "user.overlay.redirect", "/e"),
		"a file without content":   attribute("d/a", "user.overlay.metacopy", ""),
		"a removal by attribute":   attribute("d/a", "user.overlay.whiteout", "y"),
		"a folder with such files": attribute("d", "user.overlay.opaque", "x"),
		"a name of a layer's":      func(dir string) error { return os.Rename(filepath.Join(dir, "d/a"), filepath.Join(dir, "d/.wh.a")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, "d/a")
			if err := spoil(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := Size(dir); !errors.Is(err, ErrUnsupported) {
				t.Errorf("its size is found: %v", err)
			}
			if err := Write(io.Discard, dir); !errors.Is(err, ErrUnsupported) {
				t.Errorf("it is archived: %v", err)
			}
		})
	}
}

func attribute(name, attribute, value string) func(string) error {
	return func(dir string) error { return unix.Setxattr(filepath.Join(dir, name), attribute, []byte(value), 0) }
}

func TestAFileThatHasBecomeShorterIsAnError(t *testing.T) {
	err := archive(folder(t, "a"), io.Discard, func(w io.Writer, _ *os.Root, _ string, size int64) error {
		_, err := w.Write(make([]byte, size-1))
		return err
	})
	if err == nil {
		t.Error("it is archived")
	}
}
