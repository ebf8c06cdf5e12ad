package ociruntime

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"supercargo.dev/supercargo/descheduler/checkpoint/upper"
)

// changes applies a layer of an image to the root of a container that does not run yet. It never leaves the root, to
// which links in the image could lead.
type changes struct {
	root    *os.Root
	folders map[string]time.Time // modification times to set at the end
	volume  bool                 // it fills a volume, in which no name has a meaning
}

// applyChanges applies the layer in a tar.
func applyChanges(layer io.Reader, root *os.Root) error {
	c := changes{root: root, folders: map[string]time.Time{}}
	return c.apply(layer)
}

// fillVolume unpacks the archive of a volume.
func fillVolume(files io.Reader, root *os.Root) error {
	c := changes{root: root, folders: map[string]time.Time{}, volume: true}
	return c.apply(files)
}

func (c *changes) apply(layer io.Reader) error {
	for t := tar.NewReader(layer); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the files that the container changed: %w", err)
		}
		if err := c.entry(header, t); err != nil {
			return fmt.Errorf("restore %.200q, which the container changed: %w", header.Name, err)
		}
	}
	for name, changed := range c.folders {
		if err := c.root.Chtimes(name, time.Time{}, changed); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("restore %.200q, which the container changed: %w", name, err)
		}
	}
	return nil
}

func (c *changes) entry(header *tar.Header, content io.Reader) error {
	name := path.Clean(strings.TrimLeft(header.Name, "/"))
	if !filepath.IsLocal(name) {
		return errors.New("its path leaves the root of the container")
	}
	dir, base := path.Split(name)
	switch {
	case c.volume:
	case base == upper.Opaque:
		return c.empty(path.Clean(dir))
	case strings.HasPrefix(base, upper.Whiteout):
		return c.root.RemoveAll(path.Join(dir, strings.TrimPrefix(base, upper.Whiteout))) // an error if that is the root, or above it
	}
	if dir != "" {
		if err := c.root.MkdirAll(path.Clean(dir), 0o755); err != nil {
			return err
		}
	}
	if err := c.make(header, name, content); err != nil {
		return err
	}
	return c.describe(header, name)
}

// folder opens a folder. Anything else is an error: to open a pipe would wait for a writer.
func (c *changes) folder(name string) (*os.File, error) {
	return c.root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// empty removes what a folder contains.
func (c *changes) empty(dir string) error {
	f, err := c.folder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	for _, name := range names {
		err = errors.Join(err, c.root.RemoveAll(path.Join(dir, name)))
	}
	return err
}

// make makes a file, in place of what is there.
func (c *changes) make(header *tar.Header, name string, content io.Reader) error {
	there, err := c.root.Lstat(name)
	isFolder := err == nil && there.IsDir()
	if header.Typeflag == tar.TypeDir {
		if isFolder {
			return nil
		}
		if err == nil {
			if err := c.root.Remove(name); err != nil {
				return err
			}
		}
		return c.root.Mkdir(name, 0o755)
	}
	if err == nil {
		if err := c.root.RemoveAll(name); err != nil {
			return err
		}
	}
	switch header.Typeflag {
	case tar.TypeReg:
		if size, is := header.PAXRecords[upper.SparseRecord]; is && c.volume {
			return c.sparse(name, size, content)
		}
		return c.file(name, content)
	case tar.TypeSymlink:
		return c.root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		return c.root.Link(path.Clean(strings.TrimLeft(header.Linkname, "/")), name)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return c.node(header, name)
	}
	return fmt.Errorf("it is of the unknown type %q", header.Typeflag)
}

func (c *changes) file(name string, content io.Reader) error {
	f, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

// sparse writes a file with holes.
func (c *changes) sparse(name, size string, content io.Reader) error {
	bytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil || bytes < 0 {
		return fmt.Errorf("its size %.40q is no number of bytes", size)
	}
	f, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = f.Truncate(bytes)
	for err == nil {
		var where [upper.PartBytes]byte
		if _, err = io.ReadFull(content, where[:]); errors.Is(err, io.EOF) {
			return f.Close()
		}
		if err == nil {
			err = writePart(f, bytes, int64(binary.BigEndian.Uint64(where[:8])), int64(binary.BigEndian.Uint64(where[8:])), content)
		}
	}
	return errors.Join(err, f.Close())
}

// writePart writes a part of a file of that size.
func writePart(f *os.File, size, offset, length int64, content io.Reader) error {
	if offset < 0 || length < 0 || offset > size || length > size-offset {
		return fmt.Errorf("it has %d bytes, and no %d bytes at %d", size, length, offset)
	}
	_, err := io.CopyN(io.NewOffsetWriter(f, offset), content, length)
	return err
}

// node makes a device or a pipe.
func (c *changes) node(header *tar.Header, name string) error {
	parent, err := c.folder(path.Dir(name))
	if err != nil {
		return err
	}
	defer parent.Close()
	mode := uint32(0o600)
	switch header.Typeflag {
	case tar.TypeChar:
		mode |= unix.S_IFCHR
	case tar.TypeBlock:
		mode |= unix.S_IFBLK
	default:
		mode |= unix.S_IFIFO
	}
	return unix.Mknodat(int(parent.Fd()), path.Base(name), mode, int(unix.Mkdev(uint32(header.Devmajor), uint32(header.Devminor))))
}

// describe sets the owner, the mode, the attributes and the time of a file. The order matters: a change of the owner
// clears bits of the mode and attributes.
func (c *changes) describe(header *tar.Header, name string) error {
	if header.Typeflag == tar.TypeLink {
		return nil // it has those of the file that it is another name of
	}
	if err := c.root.Lchown(name, header.Uid, header.Gid); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeSymlink {
		return nil
	}
	if err := c.root.Chmod(name, header.FileInfo().Mode()); err != nil {
		return err
	}
	if header.Typeflag == tar.TypeReg || header.Typeflag == tar.TypeDir {
		if err := c.attributes(header, name); err != nil {
			return err
		}
	}
	if header.Typeflag == tar.TypeDir {
		c.folders[name] = header.ModTime
		return nil
	}
	return c.root.Chtimes(name, time.Time{}, header.ModTime)
}

// attributes sets the extended attributes of a file or folder.
func (c *changes) attributes(header *tar.Header, name string) error {
	var f *os.File
	for record, value := range header.PAXRecords {
		attribute, ok := strings.CutPrefix(record, upper.XattrRecord)
		if !ok {
			continue
		}
		if f == nil {
			var err error
			if f, err = c.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
				return err
			}
			defer f.Close()
		}
		if err := unix.Fsetxattr(int(f.Fd()), attribute, []byte(value), 0); err != nil {
			return fmt.Errorf("set its attribute %s: %w", attribute, err)
		}
	}
	return nil
}
