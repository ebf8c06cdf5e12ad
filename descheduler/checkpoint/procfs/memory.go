// Package procfs reads of /proc what back-ends need to know of the processes of a
// container, whatever runtime it has.
package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Memory adds up what some processes have written themselves, in bytes: what a dump of
// them will have to write. proc is the /proc in which they are found. A process that is
// not there has ended meanwhile, and counts nothing.
//
// The figures of container runtimes are of no use for that: containerd has none for a
// container that was restored, and they count what can be read from files again.
func Memory(proc string, pids []int) (int64, error) {
	var total int64
	for _, pid := range pids {
		f, err := os.Open(filepath.Join(proc, strconv.Itoa(pid), "status"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		bytes, err := ownMemory(f)
		f.Close()
		if errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, err)
		}
		total += bytes
	}
	return total, nil
}

// ownMemory adds up, of a file such as /proc/PID/status, the memory that no file backs.
func ownMemory(r io.Reader) (int64, error) {
	var total int64
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "RssAnon", "RssShmem", "VmSwap":
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil || kib < 0 || kib > math.MaxInt64>>12 {
				return 0, fmt.Errorf("read %s: %q is no size", name, value)
			}
			total += kib << 10
		}
	}
	return total, lines.Err()
}
