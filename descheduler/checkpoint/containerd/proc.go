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
)

// established is the state of a TCP connection in /proc/net/tcp that both sides may use.
const established = "01"

// connections counts the established TCP connections of a network namespace, whose
// folder in /proc is given.
func connections(dir string) (int, error) {
	total := 0
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return 0, err
		}
		n, err := countEstablished(f)
		f.Close()
		if err != nil {
			return 0, fmt.Errorf("read %s: %w", name, err)
		}
		total += n
	}
	return total, nil
}

// countEstablished reads a table such as /proc/net/tcp: the fourth field of a line is
// the state.
func countEstablished(r io.Reader) (int, error) {
	count := 0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 3 && fields[3] == established {
			count++
		}
	}
	return count, lines.Err()
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
