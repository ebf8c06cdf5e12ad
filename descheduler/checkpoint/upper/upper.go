// Package upper archives the files that a container changed, from the upper folder of its overlayfs. The container must
// be frozen. Only what it changed is read, so the cost does not depend on the size of its image.
//
// The archive is a layer of an image: a tar in which a file .wh.NAME says that NAME was removed, and .wh..wh..opq that
// everything in its folder was.
//
// It also archives the volumes of a pod, see [Volume].
package upper

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrUnsupported means that an upper folder does not hold all that is needed: overlayfs refers to parts of the image
// (its features redirect_dir and metacopy), or a file has a name that means something in a layer.
var ErrUnsupported = errors.New("the upper folder of overlayfs cannot be archived")

const (
	// Whiteout is the start of the name of a file in a layer that says that another was removed.
	Whiteout = ".wh."
	// Opaque is the name of a file in a layer that says that everything in its folder was removed.
	Opaque = ".wh..wh..opq"
	// XattrRecord is the start of the name of a PAX record that holds an extended attribute.
	XattrRecord = "SCHILY.xattr."
)

// Size returns the size of the archive in bytes. It reads no content of files.
func Size(dir string) (int64, error) {
	var counted counter
	err := archive(dir, &counted, func(w io.Writer, _ *os.Root, _ string, size int64) error {
		_, err := io.CopyN(w, zeros{}, size)
		return err
	})
	return int64(counted), err
}

// Write writes the archive. It has the size that [Size] returns, unless a file has changed in between, which is an error.
func Write(w io.Writer, dir string) error {
	return archive(dir, w, func(w io.Writer, root *os.Root, name string, size int64) error {
		f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		return exactly(w, f, size)
	})
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// zeros is as long as needed.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// archiver writes one archive.
type archiver struct {
	root *os.Root
	tar  *tar.Writer
	// content writes the content of a file.
	content func(w io.Writer, root *os.Root, name string, size int64) error
	// names are the first names of files that have several, by inode.
	names map[uint64]string
	// volume is what the archive is of, if it is of a volume; nil if it is of an upper folder.
	volume *Volume
	// parts are the parts with data of the file that is being added; nil for all of it.
	parts []part
}

func archive(dir string, w io.Writer, content func(io.Writer, *os.Root, string, int64) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("archive the files that the container changed: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing was written
	a := archiver{root: root, tar: tar.NewWriter(w), content: content, names: map[uint64]string{}}
	err = a.inside(".")
	if err == nil {
		err = a.tar.Close()
	}
	if err != nil {
		return fmt.Errorf("archive the files that the container changed: %w", err)
	}
	return nil
}

// inside adds what is in a folder, in the order of the names.
func (a *archiver) inside(dir string) error {
	f, err := a.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := a.add(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// add adds a file, and what is in it.
func (a *archiver) add(name string) error {
	info, err := a.root.Lstat(name)
	if err != nil {
		return err
	}
	stat := info.Sys().(*syscall.Stat_t)
	switch base := path.Base(name); {
	case a.volume != nil: // no name has a meaning
	case info.Mode()&fs.ModeCharDevice != 0 && stat.Rdev == 0:
		return a.tar.WriteHeader(&tar.Header{Name: path.Join(path.Dir(name), Whiteout+base), Typeflag: tar.TypeReg})
	case strings.HasPrefix(base, Whiteout):
		return fmt.Errorf("%w: a file is named %.200q", ErrUnsupported, name)
	}
	if a.volume != nil && a.volume.Skip[name] || info.Mode()&fs.ModeSocket != 0 {
		return nil // a tar cannot hold a socket, and CRIU makes those that are open
	}
	header, err := a.header(name, info, stat)
	if err != nil {
		return err
	}
	hidden, err := a.attributes(header, name)
	if err == nil && a.volume != nil && header.Typeflag == tar.TypeReg {
		err = a.sparse(header, name)
	}
	if err != nil {
		return err
	}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeReg:
		return a.content(a.tar, a.root, name, header.Size)
	case tar.TypeDir:
		if hidden {
			if err := a.tar.WriteHeader(&tar.Header{Name: path.Join(name, Opaque), Typeflag: tar.TypeReg}); err != nil {
				return err
			}
		}
		return a.inside(name)
	}
	return nil
}

// header describes a file.
func (a *archiver) header(name string, info fs.FileInfo, stat *syscall.Stat_t) (*tar.Header, error) {
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		var err error
		if link, err = a.root.Readlink(name); err != nil {
			return nil, err
		}
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return nil, err
	}
	header.Name, header.Format = name, tar.FormatPAX
	header.Uname, header.Gname = "", "" // names of this machine's users, not of the container's
	if info.IsDir() {
		header.Name += "/"
	}
	if info.Mode().IsRegular() && stat.Nlink > 1 {
		if first, is := a.names[stat.Ino]; is {
			header.Typeflag, header.Linkname, header.Size = tar.TypeLink, first, 0
		} else {
			a.names[stat.Ino] = name
		}
	}
	return header, nil
}

// attributes adds the extended attributes of a file or folder to its header, and reports whether a folder hides that of
// the image.
func (a *archiver) attributes(header *tar.Header, name string) (hidden bool, err error) {
	if header.Typeflag != tar.TypeReg && header.Typeflag != tar.TypeDir {
		return false, nil
	}
	f, err := a.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	all, err := list(f)
	if err != nil {
		return false, err
	}
	for _, attribute := range all {
		value, err := get(f, attribute)
		if err != nil {
			return false, err
		}
		switch own, overlay := overlays(attribute); {
		case a.volume == nil && overlay && own == "opaque" && value == "y":
			hidden = true
		case a.volume == nil && overlay && slices.Contains([]string{"redirect", "metacopy", "whiteout", "opaque"}, own):
			return false, fmt.Errorf("%w: %.200q has attribute %s", ErrUnsupported, name, attribute)
		case (a.volume != nil || !overlay) && kept(attribute):
			if header.PAXRecords == nil {
				header.PAXRecords = map[string]string{}
			}
			header.PAXRecords[XattrRecord+attribute] = value
		}
	}
	return hidden, nil
}

// overlays returns the name that overlayfs gives to one of its attributes.
func overlays(attribute string) (string, bool) {
	if own, is := strings.CutPrefix(attribute, "trusted.overlay."); is {
		return own, true
	}
	return strings.CutPrefix(attribute, "user.overlay.")
}

// kept reports whether an attribute belongs to the file. A label of SELinux belongs to the container.
func kept(attribute string) bool {
	return attribute == "security.capability" || strings.HasPrefix(attribute, "user.") || strings.HasPrefix(attribute, "system.posix_acl_")
}

// list returns the names of a file's attributes, in order.
func list(f *os.File) ([]string, error) {
	text, err := sized(func(buffer []byte) (int, error) { return unix.Flistxattr(int(f.Fd()), buffer) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the attributes of %s: %w", f.Name(), err)
	}
	all := strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 })
	slices.Sort(all)
	return all, nil
}

func get(f *os.File, attribute string) (string, error) {
	text, err := sized(func(buffer []byte) (int, error) { return unix.Fgetxattr(int(f.Fd()), attribute, buffer) })
	if err != nil {
		return "", fmt.Errorf("read attribute %s of %s: %w", attribute, f.Name(), err)
	}
	return string(text), nil
}

// sized calls a function that first returns the size and then fills a buffer of this size.
func sized(fill func([]byte) (int, error)) ([]byte, error) {
	size, err := fill(nil)
	if err != nil || size == 0 {
		return nil, err
	}
	buffer := make([]byte, size)
	size, err = fill(buffer)
	if err != nil {
		return nil, err
	}
	return buffer[:size], nil
}
