package containerd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// established is the state of an established TCP connection in /proc/net/tcp.
const established = "01"

// connections counts the established TCP connections of a network namespace. dir is its folder in
// /proc.
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

// countEstablished counts the established connections in a table such as /proc/net/tcp. The
// fourth field of a line is the state.
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

// hasTmp reports whether the root of a container has a folder tmp. CRIU puts the old root there
// when it restores, or creates a folder of its own, which a read-only root does not allow. A
// symbolic link does not count: it leads elsewhere before the container has its mounts.
func hasTmp(root string) (bool, error) {
	info, err := os.Lstat(filepath.Join(root, "tmp"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}
