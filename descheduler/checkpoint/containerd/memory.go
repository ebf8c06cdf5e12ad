package containerd

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

// memoryOf returns the memory that processes wrote themselves, in bytes: the expected size of their
// dump. proc is the /proc folder to use. A missing process has ended, and counts as zero.
//
// The statistics of container runtimes do not serve: containerd has none for a restored
// container, and they include memory that can be read from files again.
func memoryOf(proc string, pids []int) (int64, error) {
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

// ownMemory sums the memory without a file behind it, in a file such as /proc/PID/status.
func ownMemory(r io.Reader) (int64, error) {
	var total int64
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "RssAnon", "RssShmem", "VmSwap":
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			if err != nil || kib < 0 || kib > math.MaxInt64>>12 {
				return 0, fmt.Errorf("read %s: %q is not a size", name, value)
			}
			total += kib << 10
		}
	}
	return total, lines.Err()
}
