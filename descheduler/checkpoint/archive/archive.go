// Package archive writes and reads a checkpoint of one container as a tar, in the layout that
// containerd's CRI plugin and CRI-O restore from:
//
//	config.dump      the container's identity and base image, as JSON
//	spec.dump        its OCI runtime specification, as JSON
//	status.dump      its CRI status, as JSON
//	checkpoint/      the images of CRIU
//	rootfs-diff.tar  the files that it changed relative to its image
//	volumes.json     where volumes that only its pod has were mounted, if there are any
//	volumes/N.tar    what the Nth of them contained
//	container.log    its log so far
//
// An entry that has the path of the one before continues that file: a file can be sent while it grows.
//
// Both directions stream through one small buffer. Only regular files and folders are written or
// read. Received archives are not trusted to stay within the folder that they are unpacked into.
package archive

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/checkpoint"
)

// Names of a checkpoint's parts.
const (
	Config     = "config.dump"
	Spec       = "spec.dump"
	Status     = "status.dump"
	Checkpoint = "checkpoint"
	RootfsDiff = "rootfs-diff.tar"
	Log        = "container.log"
	Volumes    = "volumes.json"
)

// VolumeFiles returns the name of the part with the files of the Nth volume, from 0.
func VolumeFiles(n int) string { return "volumes/" + strconv.Itoa(n) + ".tar" }

const (
	// bufferBytes is the size of the copy buffer.
	bufferBytes = 256 << 10
	// maxEntries bounds the entries of an archive. CRIU writes about ten files for a process.
	maxEntries = 1 << 17
	// maxName bounds the length of a path in an archive.
	maxName = 512

	// MaxOverhead is the maximum number of bytes of an archive besides the content of its files:
	// headers, names and padding to whole blocks.
	MaxOverhead = maxEntries * 2048
)

// Writer writes an archive.
type Writer struct {
	tar *tar.Writer
	buf []byte
	// pages announces pages of memory; nil if the underlying writer does not need to know.
	pages func(int64)
}

// NewWriter writes an archive to w. If that is a [checkpoint.PageWriter], it is told which bytes are memory.
func NewWriter(w io.Writer) *Writer {
	a := &Writer{tar: tar.NewWriter(w), buf: make([]byte, bufferBytes)}
	if p, is := w.(checkpoint.PageWriter); is {
		a.pages = p.Pages
	}
	return a
}

// Page returns the number in the path of a file with pages of memory, checkpoint/pages-1.img and so on; 0 for other files.
func Page(name string) int {
	number, is := strings.CutPrefix(name, Checkpoint+"/pages-")
	number, img := strings.CutSuffix(number, ".img")
	n, err := strconv.Atoi(number)
	if !is || !img || err != nil {
		return 0
	}
	return n
}

// Bytes adds a small file.
func (w *Writer) Bytes(name string, content []byte) error {
	if err := w.header(name, int64(len(content)), tar.TypeReg); err != nil {
		return err
	}
	if _, err := w.tar.Write(content); err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

// From adds a file of size bytes from r. A shorter r is an error; what exceeds size is not read.
// If the file was the last that was added, it is continued.
func (w *Writer) From(name string, size int64, r io.Reader) error {
	if err := w.header(name, size, tar.TypeReg); err != nil {
		return err
	}
	if w.pages != nil && Page(name) > 0 {
		w.pages(size) // the tar is not buffered: these are the next bytes
	}
	// Hiding the writer's other methods keeps io.CopyBuffer from allocating a buffer.
	n, err := io.CopyBuffer(struct{ io.Writer }{w.tar}, struct{ io.Reader }{io.LimitReader(r, size)}, w.buf)
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

// Via adds a file of size bytes that write writes. Fewer or more bytes are an error.
func (w *Writer) Via(name string, size int64, write func(io.Writer) error) error {
	if err := w.header(name, size, tar.TypeReg); err != nil {
		return err
	}
	err := write(struct{ io.Writer }{w.tar}) // hides ReadFrom, so that the caller chooses the buffer
	if err == nil {
		err = w.tar.Flush() // an error if bytes are missing
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

// Stream adds a file whose size is not known before write has written it.
func (w *Writer) Stream(name string, write func(io.Writer) error) error {
	pieces := bufio.NewWriterSize(piecewise{w, name}, pieceBytes)
	err := write(struct{ io.Writer }{pieces}) // hides ReadFrom, which would not fill the buffer
	if err == nil {
		err = pieces.Flush()
	}
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

// pieceBytes is the size of the pieces of a file whose size is not known.
const pieceBytes = 1 << 20

// piecewise adds each piece as a continuation of the file.
type piecewise struct {
	w    *Writer
	name string
}

// Write adds a piece.
func (p piecewise) Write(piece []byte) (int, error) { return len(piece), p.w.Bytes(p.name, piece) }

// File adds a file of the node.
func (w *Writer) File(name, file string) error {
	f, err := openRegular(file)
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return w.From(name, info.Size(), f)
}

// Tree adds a folder of the node and what is in it, without the files, by their paths in the folder, that wanted does not
// report.
func (w *Writer) Tree(name, dir string, wanted func(file string) bool) error {
	return filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("archive %s: %w", name, err)
		}
		below, err := filepath.Rel(dir, file)
		if err != nil {
			return fmt.Errorf("archive %s: %w", name, err)
		}
		inside := path.Join(name, filepath.ToSlash(below))
		switch {
		case entry.IsDir():
			return w.header(inside+"/", 0, tar.TypeDir)
		case !wanted(below):
			return nil
		case entry.Type().IsRegular():
			return w.File(inside, file)
		}
		return fmt.Errorf("archive %s: %s is neither a regular file nor a folder", name, file)
	})
}

// Close ends the archive. It does not close the underlying writer.
func (w *Writer) Close() error {
	if err := w.tar.Close(); err != nil {
		return fmt.Errorf("finish the archive: %w", err)
	}
	return nil
}

// header starts an entry. Owner, mode and time are constant: the restore does not read them, and
// equal checkpoints get equal archives.
func (w *Writer) header(name string, size int64, kind byte) error {
	mode := int64(0o600)
	if kind == tar.TypeDir {
		mode = 0o700
	}
	err := w.tar.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Size: size, Mode: mode, ModTime: time.Unix(0, 0)})
	if err != nil {
		return fmt.Errorf("archive %s: %w", name, err)
	}
	return nil
}

// openRegular opens a file without following a link, because others write to its folder.
func openRegular(file string) (*os.File, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", file)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Extract unpacks an archive into a folder and returns the total size of its files in bytes. It
// returns a [*checkpoint.Failure] with reason TooLarge if that exceeds maxBytes, InvalidArchive if it
// is not a checkpoint, and NoRoom if the disk is full. It returns errors of r unchanged, so that
// the caller knows why reading ended.
//
// It reads r to its end, where r verifies its checksum.
func Extract(r io.Reader, root *os.Root, maxBytes int64) (int64, error) {
	x := extraction{source: &notes{Reader: r}, root: root, left: maxBytes, max: maxBytes, buf: make([]byte, bufferBytes), seen: map[string]bool{}}
	if err := x.run(); err != nil {
		switch {
		case x.source.err != nil:
			return 0, x.source.err
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return 0, checkpoint.Fail(v1alpha1.MigrationReasonNoRoom, "unpack a checkpoint: %v: free space on the disk of --state-dir of the node agent", err)
		case checkpoint.AsFailure(err) != nil:
			return 0, err
		case errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, tar.ErrFieldTooLong):
			return 0, checkpoint.Fail(v1alpha1.MigrationReasonInvalidArchive, "the received data is not a checkpoint: %v", err)
		}
		return 0, fmt.Errorf("unpack a checkpoint: %w", err)
	}
	return maxBytes - x.left, nil
}

// notes records why reading ended.
type notes struct {
	io.Reader
	err error // not io.EOF
}

func (n *notes) Read(p []byte) (int, error) {
	read, err := n.Reader.Read(p)
	if err != nil && err != io.EOF {
		n.err = err
	}
	return read, err
}

type extraction struct {
	source    *notes
	root      *os.Root
	left, max int64 // bytes
	buf       []byte
	seen      map[string]bool
	last      string // the file of the last entry, which the next may continue
	entries   int
}

func (x *extraction) run() error {
	t := tar.NewReader(x.source)
	for {
		header, err := t.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := x.entry(header, t); err != nil {
			return err
		}
	}
	// The tar ends before the stream does. The rest may compress to nothing, so a sender could
	// make it endless.
	if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(x.source, bufferBytes+1), x.buf); err != nil {
		return err
	} else if n > bufferBytes {
		return bad("more than %d bytes follow its end", bufferBytes)
	}
	for _, name := range []string{Config, Spec, Status, Checkpoint} {
		if !x.seen[name] {
			return bad("%s is missing", name)
		}
	}
	return nil
}

func (x *extraction) entry(header *tar.Header, r io.Reader) error {
	name := path.Clean(header.Name)
	if len(name) > maxName || !filepath.IsLocal(name) || strings.Contains(header.Name, "\\") {
		return bad("it has an entry with the invalid path %.100q", header.Name)
	}
	continues := header.Typeflag == tar.TypeReg && name == x.last
	if x.seen[name] && header.Typeflag != tar.TypeDir && !continues {
		return bad("it has two entries with the path %.100q", name)
	}
	if x.entries++; x.entries > maxEntries { // parts of a file count, too
		return bad("it has more than %d entries", maxEntries)
	}
	x.seen[name], x.last = true, ""
	switch header.Typeflag {
	case tar.TypeDir:
		return x.root.MkdirAll(name, 0o700)
	case tar.TypeReg:
		x.last = name
		return x.file(name, continues, header.Size, r)
	}
	return bad("%.100q is neither a regular file nor a folder", name)
}

func (x *extraction) file(name string, continues bool, size int64, r io.Reader) error {
	if size > x.left {
		return checkpoint.Fail(v1alpha1.MigrationReasonTooLarge, "the checkpoint is larger than %d bytes, the maximum for an image on this node", x.max)
	}
	if dir := path.Dir(name); dir != "." {
		if err := x.root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		x.seen[strings.SplitN(name, "/", 2)[0]] = true
	}
	how := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if continues {
		how = os.O_WRONLY | os.O_APPEND
	}
	f, err := x.root.OpenFile(name, how, 0o600)
	if err != nil {
		return err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, r, x.buf)
	if closed := f.Close(); err == nil {
		err = closed
	}
	x.left -= n
	return err
}

func bad(format string, args ...any) error {
	return checkpoint.Fail(v1alpha1.MigrationReasonInvalidArchive, "the received data is not a checkpoint: "+format, args...)
}
