package containerd

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"supercargo.dev/supercargo/test/kit/testfile"
)

// socket returns a line of a table such as /proc/net/tcp.
func socket(local, remote, state string, inode int) string {
	return fmt.Sprintf("   0: %s %s %s 00000000:00000000 00:00000000 00000000     0        0 %d 1 0 100 0 0 10 0\n", local, remote, state, inode)
}

const socketHeader = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// Addresses on a machine that puts the last byte first.
const (
	anyone, loopback, ofPod = "00000000:1F90", "0100007F:1F90", "0500000A:1F90" // 10.0.0.5
	nobody                  = "00000000:0000"
	anyone6, loopback6      = "00000000000000000000000000000000:1F90", "00000000000000000000000001000000:1F90"
	ofPod6                  = "000000FD000000000000000005000000:1F90" // fd00::5
	ofPodIn6                = "0000000000000000FFFF00000500000A:1F90" // ::ffff:10.0.0.5
)

func TestSocketsThatCannotBeMovedAreFound(t *testing.T) {
	for _, tc := range []struct {
		name, table, lines string
		want               sockets
	}{
		{"none", "tcp", "", sockets{}},
		{"one that listens everywhere", "tcp", socket(anyone, nobody, "0A", 1), sockets{}},
		{"one that listens on the loopback interface", "tcp", socket(loopback, nobody, "0A", 1), sockets{}},
		{"two that are connected", "tcp", socket(loopback, loopback, "01", 1) + socket(ofPod, ofPod, "01", 2), sockets{TCP: 2}},
		{"one that waits to be accepted", "tcp", socket(ofPod, ofPod, "01", 0), sockets{TCP: 1}},
		{"one that is being opened", "tcp", socket(ofPod, ofPod, "02", 1), sockets{TCP: 1}},
		{"one that the peer has closed", "tcp", socket(loopback, loopback, "08", 1), sockets{TCP: 1}},
		{"one that was shut down", "tcp", socket(ofPod, ofPod, "05", 1), sockets{TCP: 1}},
		{"one that the process has closed, and the peer not yet", "tcp", socket(ofPod, ofPod, "05", 0), sockets{}},
		{"one that both have closed", "tcp", socket(ofPod, ofPod, "06", 0), sockets{}},
		{"one that listens on the address of the pod", "tcp", socket(ofPod, nobody, "0A", 1), sockets{Bound: netip.MustParseAddrPort("10.0.0.5:8080")}},
		{"IPv6 everywhere", "tcp6", socket(anyone6, nobody, "0A", 1) + socket(loopback6, nobody, "0A", 1), sockets{}},
		{"IPv6 on the address of the pod", "tcp6", socket(ofPod6, nobody, "0A", 1), sockets{Bound: netip.MustParseAddrPort("[fd00::5]:8080")}},
		{"IPv4 in IPv6", "tcp6", socket(ofPodIn6, nobody, "0A", 1), sockets{Bound: netip.MustParseAddrPort("10.0.0.5:8080")}},
		{"UDP everywhere", "udp", socket(anyone, nobody, "07", 1), sockets{}},
		{"UDP on the address of the pod", "udp", socket(ofPod, nobody, "07", 1), sockets{Bound: netip.MustParseAddrPort("10.0.0.5:8080")}},
		{"UDP that is connected", "udp", socket(ofPod, ofPod, "01", 1), sockets{UDP: 1}},
		{"UDP that is connected to itself", "udp", socket(loopback, loopback, "01", 1), sockets{}},
		{"UDP over IPv6", "udp6", socket(ofPod6, ofPod6, "01", 1), sockets{UDP: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			testfile.Write(t, filepath.Join(dir, tc.table), socketHeader+tc.lines)
			if got, err := socketsOf(dir); err != nil || got != tc.want {
				t.Errorf("they are %+v (%v), want %+v", got, err, tc.want)
			}
		})
	}
	for _, address := range []string{"0100007F", "0100007F:", "0100007F:1F90F", "007F:1F90", "0100007G:1F90"} {
		dir := t.TempDir()
		testfile.Write(t, filepath.Join(dir, "tcp"), socketHeader+socket(address, nobody, "0A", 1))
		if _, err := socketsOf(dir); err == nil {
			t.Errorf("address %s was read", address)
		}
	}
}

// process writes the folder of a process in /proc, without open files.
func process(t *testing.T, proc string, pid int) string {
	t.Helper()
	dir := filepath.Join(proc, fmt.Sprint(pid))
	for _, folder := range []string{"fd", "fdinfo"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link(t, "/", filepath.Join(dir, "cwd"))
	link(t, "/program", filepath.Join(dir, "exe"))
	testfile.Write(t, filepath.Join(dir, "maps"), "7ffd000-7ffe000 rw-p 00000000 00:00 0   [stack]\n00400000-00500000 r-xp 00000000 00:35 7   /program\n")
	testfile.Write(t, filepath.Join(dir, "mountinfo"), "100 99 0:35 / / rw - overlay overlay rw\n101 100 0:40 / /shared rw - nfs server rw\n102 100 0:41 / /dev/shm rw - tmpfs shm rw\n103 100 0:42 / /moved\\040dir rw - ext4 disk rw\n")
	return dir
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.RemoveAll(at); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestFilesThatCannotBeMovedAreFound(t *testing.T) {
	const versioned = "/etc/config/..2026_11_30_09_48_23.1234567890/key"
	opened := func(path, info string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			link(t, path, filepath.Join(dir, "fd", "3"))
			testfile.Write(t, filepath.Join(dir, "fdinfo", "3"), "pos:\t0\nflags:\t0100000\n"+info)
		}
	}
	const lock = "lock:\t1: POSIX  ADVISORY  WRITE 7 00:40:5 0 EOF\n"
	for _, tc := range []struct {
		name string
		has  func(t *testing.T, dir string)
		want files
	}{
		{"none", func(*testing.T, string) {}, files{}},
		{"one of the container", opened("/data/file", "mnt_id:\t100\n"), files{}},
		{"one of a volume", opened("/shared/file", "mnt_id:\t101\n"), files{}},
		{"one of a ConfigMap", opened(versioned, "mnt_id:\t101\n"), files{Versioned: versioned}},
		{"one of a ConfigMap that was updated", opened(versioned+" (deleted)", ""), files{Versioned: versioned + " (deleted)"}},
		{"one whose name only begins alike", opened("/data/..2026_11_30/key", ""), files{}},
		{"the folder of a ConfigMap", func(t *testing.T, dir string) { link(t, filepath.Dir(versioned), filepath.Join(dir, "cwd")) }, files{Versioned: filepath.Dir(versioned)}},
		{"a program in a ConfigMap", func(t *testing.T, dir string) { link(t, versioned, filepath.Join(dir, "exe")) }, files{Versioned: versioned}},
		{"a mapped file of a ConfigMap", func(t *testing.T, dir string) {
			testfile.Write(t, filepath.Join(dir, "maps"), "00400000-00500000 r--p 00000000 00:35 7   "+versioned+"\n")
		}, files{Versioned: versioned}},
		{"a lock of a file of the container", opened("/data/file", "mnt_id:\t100\n"+lock), files{}},
		{"a lock of a file in shared memory", opened("/dev/shm/file", "mnt_id:\t102\n"+lock), files{}},
		{"a lock of a file of a volume", opened("/shared/file", "mnt_id:\t101\n"+lock), files{Locked: "/shared/file"}},
		{"a lock of a file of a volume that is moved", opened("/moved dir/file", "mnt_id:\t103\n"+lock), files{}},
		{"an open file that was closed meanwhile", func(t *testing.T, dir string) { link(t, "/shared/file", filepath.Join(dir, "fd", "3")) }, files{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			proc := t.TempDir()
			process(t, proc, 7)
			tc.has(t, process(t, proc, 8))
			if got, err := filesOf(proc, []int{7, 8, 9}, map[string]bool{"/moved dir": true}); err != nil || got != tc.want {
				t.Errorf("they are %+v (%v), want %+v", got, err, tc.want)
			}
		})
	}
}
