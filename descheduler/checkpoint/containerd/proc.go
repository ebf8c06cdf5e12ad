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

// hasTmp reports whether there is a folder tmp below the root of a container. CRIU puts
// the old root there when it restores, or makes a folder of its own, for which a read-only
// root has no room. What is behind a symbolic link is not asked for: it leads elsewhere
// before the container has its mounts.
func hasTmp(root string) (bool, error) {
	info, err := os.Lstat(filepath.Join(root, "tmp"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}
