package containerd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// States of sockets in tables such as /proc/net/tcp.
const (
	established = "01"
	timeWait    = "06"
	closed      = "07"
	listening   = "0A"
)

// sockets are those of a network namespace that CRIU does not dump, or cannot create on another node.
type sockets struct {
	// TCP is the number of TCP connections, also of those that one side has closed or is about to open.
	TCP int
	// UDP is the number of connected UDP sockets: each is bound to the address from which it sends.
	UDP int
	// Bound is the address of a socket that waits for data at an address of the pod; invalid if there is none.
	Bound netip.AddrPort
}

// socketsOf reads the sockets of a network namespace. dir is its folder in /proc.
func socketsOf(dir string) (sockets, error) {
	var all sockets
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		f, err := os.Open(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return sockets{}, err
		}
		err = all.read(f, strings.HasPrefix(name, "tcp"))
		f.Close()
		if err != nil {
			return sockets{}, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return all, nil
}

// read adds the sockets in a table such as /proc/net/tcp, whose lines are a number, the local and the remote address, the
// state, five other fields, and the inode.
func (s *sockets) read(r io.Reader, tcp bool) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[1] == "local_address" {
			continue
		}
		local, err := parseAddress(fields[1])
		if err != nil {
			return err
		}
		state, inode := fields[3], fields[9]
		switch {
		case tcp && connected(state, inode):
			s.TCP++
		case tcp && state != listening || everywhere(local.Addr()):
		case !tcp && state == established:
			s.UDP++
		case !s.Bound.IsValid():
			s.Bound = local
		}
	}
	return lines.Err()
}

// connected reports whether a TCP socket has or had a peer, and belongs to a process. Those that the process has closed
// have no inode, nor have established ones that it has not accepted yet.
func connected(state, inode string) bool {
	switch state {
	case listening, closed, timeWait:
		return false
	case established:
		return true
	}
	return inode != "0"
}

// parseAddress parses an address such as 0100007F:1F90. Each group of eight digits is a number in the order of bytes of
// the machine, and the last one, the port, is in that of numbers.
func parseAddress(text string) (netip.AddrPort, error) {
	digits, port, ok := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || len(digits) != 8 && len(digits) != 32 {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address", text)
	}
	var bytes []byte
	for ; digits != ""; digits = digits[8:] {
		word, err := strconv.ParseUint(digits[:8], 16, 32)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("%q is not an address", text)
		}
		bytes = binary.NativeEndian.AppendUint32(bytes, uint32(word))
	}
	address, _ := netip.AddrFromSlice(bytes) // it has 4 or 16 bytes
	return netip.AddrPortFrom(address.Unmap(), uint16(number)), nil
}

// everywhere reports whether a socket can be bound to an address on every node. CRIU binds IPv6 sockets to addresses that
// the node does not have, but they would receive nothing.
func everywhere(a netip.Addr) bool {
	return a.IsUnspecified() || a.IsLoopback() || a.IsMulticast()
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
