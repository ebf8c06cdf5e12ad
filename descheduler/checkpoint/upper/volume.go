package upper

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// SparseRecord is the name of a PAX record of a file with holes. Its value is the size of the file in bytes. The content
	// of the entry are the parts that have data, each after [PartBytes] bytes that say where it is.
	SparseRecord = "SUPERCARGO.sparse"
	// PartBytes is the size of what precedes a part: its offset and its length, both as big-endian 64-bit numbers.
	PartBytes = 16
)

// Volume is a folder that is archived as it is: no name in it has a meaning, and its own owner and mode are included.
type Volume struct {
	// Root is the folder.
	Root *os.Root
	// Skip are paths in it that are left out with everything below, such as those at which other volumes are mounted.
	Skip map[string]bool
}

// part is a part of a file that has data, in bytes.
type part struct{ offset, length int64 }

// Write writes the archive. Holes of files take no space in it. The files must not change meanwhile.
func (v *Volume) Write(w io.Writer) error {
	a := archiver{root: v.Root, tar: tar.NewWriter(w), names: map[uint64]string{}, volume: v}
	a.content = a.filled
	err := a.add(".")
	if err == nil {
		err = a.tar.Close()
	}
	if err != nil {
		return fmt.Errorf("archive the files of a volume: %w", err)
	}
	return nil
}

// errTooMany means that a volume has more than it may have.
var errTooMany = errors.New("too many bytes")

// Bytes returns the number of bytes that the files take, without holes and without the content of files that have several
// names counted twice. It reads no content, and stops once it has counted more than most. Files may change meanwhile.
func (v *Volume) Bytes(most int64) (int64, error) {
	total, seen := int64(0), map[uint64]bool{}
	err := v.walk(".", func(info fs.FileInfo) error {
		stat := info.Sys().(*syscall.Stat_t)
		if stat.Nlink > 1 && !info.IsDir() {
			if seen[stat.Ino] {
				return nil
			}
			seen[stat.Ino] = true
		}
		total += entryBytes
		if info.Mode().IsRegular() {
			total += min(stat.Blocks*512, info.Size())
		}
		if total > most {
			return errTooMany
		}
		return nil
	})
	if errors.Is(err, errTooMany) {
		err = nil
	}
	if err != nil {
		return 0, fmt.Errorf("measure the files of a volume: %w", err)
	}
	return total, nil
}

// entryBytes is what a file takes in an archive besides its content, about.
const entryBytes = 1 << 10

// walk visits all files. One that is gone when it is visited is left out.
func (v *Volume) walk(name string, visit func(fs.FileInfo) error) error {
	if v.Skip[name] {
		return nil
	}
	info, err := v.Root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := visit(info); err != nil || !info.IsDir() {
		return err
	}
	f, err := v.Root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	f.Close()
	if err != nil {
		return err
	}
	for _, below := range names {
		if err := v.walk(path.Join(name, below), visit); err != nil {
			return err
		}
	}
	return nil
}

// sparse finds the parts with data of the file that is about to be added, and describes them in its header.
func (a *archiver) sparse(header *tar.Header, name string) error {
	a.parts = nil
	f, err := a.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	parts, err := partsOf(f, header.Size)
	if err != nil {
		return err
	}
	if slices.Equal(parts, []part{{0, header.Size}}) || header.Size == 0 {
		return nil
	}
	if header.PAXRecords == nil {
		header.PAXRecords = map[string]string{}
	}
	header.PAXRecords[SparseRecord] = strconv.FormatInt(header.Size, 10)
	header.Size = 0
	for _, p := range parts {
		header.Size += PartBytes + p.length
	}
	a.parts = parts
	if a.parts == nil {
		a.parts = []part{}
	}
	return nil
}

// partsOf returns the parts of a file that have data.
func partsOf(f *os.File, size int64) (parts []part, err error) {
	for at := int64(0); at < size; {
		begin, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // only a hole is left
		}
		if errors.Is(err, unix.EINVAL) {
			return []part{{0, size}}, nil // the file system does not tell
		}
		if err != nil {
			return nil, err
		}
		if begin >= size {
			break
		}
		end, err := unix.Seek(int(f.Fd()), begin, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		end = min(end, size)
		parts, at = append(parts, part{begin, end - begin}), end
	}
	return parts, nil
}

// filled writes the content of a file of a volume: all of it, or its parts.
func (a *archiver) filled(w io.Writer, root *os.Root, name string, size int64) error {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if a.parts == nil {
		return exactly(w, f, size)
	}
	for _, p := range a.parts {
		var where [PartBytes]byte
		binary.BigEndian.PutUint64(where[:8], uint64(p.offset))
		binary.BigEndian.PutUint64(where[8:], uint64(p.length))
		if _, err := w.Write(where[:]); err != nil {
			return err
		}
		if err := exactly(w, io.NewSectionReader(f, p.offset, p.length), p.length); err != nil {
			return err
		}
	}
	return nil
}

// exactly copies that many bytes.
func exactly(w io.Writer, r io.Reader, size int64) error {
	n, err := io.Copy(w, io.LimitReader(r, size))
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
