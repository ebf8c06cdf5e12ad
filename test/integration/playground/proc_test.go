package playground

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// children returns the processes whose parent is pid and that have not ended.
func children(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, path := range stats {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// pid (name) state ppid ...; the name may contain any character
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if fields[1] == strconv.Itoa(pid) && fields[0] != "Z" {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, child)
		}
	}
	return found
}

// listening returns the TCP addresses on which the processes listen.
func listening(t *testing.T, pids ...int) []net.TCPAddr {
	t.Helper()
	owned := map[string]bool{}
	for _, pid := range pids {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			if target, err := os.Readlink(fd); err == nil {
				owned[target] = true // socket:[inode]
			}
		}
	}
	var addrs []net.TCPAddr
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		addrs = append(addrs, listeningIn(t, table, owned)...)
	}
	return addrs
}

// listeningIn reads one of the kernel's socket tables.
func listeningIn(t *testing.T, table string, owned map[string]bool) []net.TCPAddr {
	t.Helper()
	f, err := os.Open(table)
	if os.IsNotExist(err) {
		return nil // a kernel without IPv6
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const stateListen = "0A"
	var addrs []net.TCPAddr
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != stateListen || !owned["socket:["+fields[9]+"]"] {
			continue
		}
		addrs = append(addrs, parseProcAddr(t, fields[1]))
	}
	return addrs
}

// parseProcAddr reads an address as the kernel prints it: 32-bit words in the
// machine's byte order, little-endian wherever these tests run.
func parseProcAddr(t *testing.T, s string) net.TCPAddr {
	t.Helper()
	host, port, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || len(host)%8 != 0 {
		t.Fatalf("%q is no address", s)
	}
	var ip net.IP
	for ; host != ""; host = host[8:] {
		word, err := strconv.ParseUint(host[:8], 16, 32)
		if err != nil {
			t.Fatalf("%q is no address: %v", s, err)
		}
		ip = append(ip, byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
	}
	return net.TCPAddr{IP: ip, Port: int(n)}
}
