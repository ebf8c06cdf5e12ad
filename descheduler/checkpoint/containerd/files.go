package containerd

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// versioned matches the paths of files that the kubelet writes for volumes of ConfigMaps, Secrets, tokens and pod fields.
// They are in a folder with the time at which they were written, so a file has another path on another node, and after
// each update.
var versioned = regexp.MustCompile(`/\.\.\d{4}(_\d\d){5}\.\d+(/| |$)`)

// files are those that processes use and that CRIU cannot find on another node, or not lock. Each is the path of one, as
// an example; empty if there is none.
type files struct {
	// Versioned is a file of a volume that the kubelet writes: open, mapped, executed, or the working directory.
	Versioned string
	// Locked is a locked file of a volume. While the frozen process holds the lock, its copy would wait for it.
	Locked string
}

// filesOf reads what processes use. proc is the /proc folder to use, and moved has the mount points of volumes whose files
// are moved, so that locks on them are restored. A missing process has ended, and uses nothing.
func filesOf(proc string, pids []int, moved map[string]bool) (files, error) {
	var all files
	for _, pid := range pids {
		err := all.read(filepath.Join(proc, strconv.Itoa(pid)), moved)
		if err != nil && !hasEnded(err) {
			return files{}, fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return all, nil
}

// hasEnded reports whether an error means that a process, or the file that it had open, is gone.
func hasEnded(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

func (f *files) read(dir string, moved map[string]bool) error {
	for _, link := range []string{"cwd", "exe"} {
		if err := f.see(filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	if err := f.mapped(dir); err != nil {
		return err
	}
	volumes, err := mountPoints(dir, moved)
	if err != nil {
		return err
	}
	open, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return err
	}
	for _, fd := range open {
		if err := f.see(filepath.Join(dir, "fd", fd.Name())); err != nil {
			return err
		}
		if err := f.locked(dir, fd.Name(), volumes); err != nil {
			return err
		}
	}
	return nil
}

// see notes a file that a link in /proc names.
func (f *files) see(link string) error {
	path, err := os.Readlink(link)
	if err == nil && versioned.MatchString(path) {
		f.Versioned = path
	}
	if err != nil && !hasEnded(err) {
		return err
	}
	return nil
}

// mapped notes files that are mapped into memory.
func (f *files) mapped(dir string) error {
	text, err := os.Open(filepath.Join(dir, "maps"))
	if err != nil {
		return err
	}
	defer text.Close()
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		if at := strings.IndexByte(lines.Text(), '/'); at >= 0 && versioned.MatchString(lines.Text()[at:]) {
			f.Versioned = lines.Text()[at:]
		}
	}
	return lines.Err()
}

// locked notes a file descriptor that has a lock and is of a volume.
func (f *files) locked(dir, fd string, volumes map[string]string) error {
	info, err := os.ReadFile(filepath.Join(dir, "fdinfo", fd))
	if err != nil {
		if hasEnded(err) {
			return nil // it was closed meanwhile
		}
		return err
	}
	mount, locked := "", false
	for line := range strings.Lines(string(info)) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "mnt_id":
			mount = strings.TrimSpace(value)
		case "lock":
			locked = true
		}
	}
	if volume, is := volumes[mount]; locked && is {
		if path, err := os.Readlink(filepath.Join(dir, "fd", fd)); err == nil {
			volume = path
		}
		f.Locked = volume
	}
	return nil
}

// mountPoints returns the mount points of a process by the ID of the mount, without those of the container's own files:
// its root, what is below /dev, and volumes that are moved.
func mountPoints(dir string, moved map[string]bool) (map[string]string, error) {
	all, err := mountsOf(dir)
	if errors.Is(err, syscall.EINVAL) {
		return nil, nil // the process has ended, and its parent has not noticed
	}
	for id, at := range all {
		if at == "/" || strings.HasPrefix(at, "/dev/") || moved[at] {
			delete(all, id)
		}
	}
	return all, err
}

// escaped are the characters that the kernel writes as numbers in a list of mounts.
var escaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountsOf returns all mount points that a process sees, by the ID of the mount. dir is its folder in /proc.
func mountsOf(dir string) (map[string]string, error) {
	text, err := os.Open(filepath.Join(dir, "mountinfo"))
	if err != nil {
		return nil, err
	}
	defer text.Close()
	all := map[string]string{}
	lines := bufio.NewScanner(text)
	for lines.Scan() {
		fields := strings.Fields(lines.Text()) // ID, parent, device, root, mount point, ...
		if len(fields) > 4 {
			all[fields[0]] = escaped.Replace(fields[4])
		}
	}
	return all, lines.Err()
}
