//go:build linux

package machine

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// bootTimeout bounds the time from power on to ssh, and connectTimeout the time to connect. Both are
// long because emulation is slow and the host may be busy.
const (
	bootTimeout    = 20 * time.Minute
	connectTimeout = 30 * time.Second
	pollInterval   = 500 * time.Millisecond
)

// memory is the memory of each machine.
const memory = "3G"

// Machine is a virtual machine. Its disk survives a power cut.
type Machine struct {
	Name    string
	Suite   string // the release of Debian, such as bookworm
	Address string // of the node and of its kubelet

	cluster *Cluster
	index   int
	joined  bool
	qemu    *exec.Cmd // nil while the power is off
	ended   chan struct{}
}

// dir returns the machine's directory on the host, with its disk, console log and process ID.
func (m *Machine) dir() string { return filepath.Join(m.cluster.Dir, m.Name) }

// PodRange returns the address range of the machine's pods in CIDR notation.
func (m *Machine) PodRange() string { return fmt.Sprintf("10.88.%d.0/24", 240+m.index) }

// suiteDir returns the directory of the machine's release.
func (m *Machine) suiteDir() string { return filepath.Join(vmsDir(), m.Suite) }

// On reports whether the machine is powered on.
func (m *Machine) On() bool { return m.qemu != nil }

// PowerOn boots the machine from its disk. It returns when ssh works and the clock is set. It fails if
// the machine is already on.
func (m *Machine) PowerOn(ctx context.Context) error {
	if m.On() {
		return fmt.Errorf("boot %s: it has power", m.Name)
	}
	if err := m.makeDisk(ctx); err != nil {
		return fmt.Errorf("boot %s: %w", m.Name, err)
	}
	if err := m.start(); err != nil {
		return fmt.Errorf("boot %s: %w", m.Name, err)
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, pollInterval, bootTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-m.ended:
			return false, errors.New("QEMU has ended")
		default:
		}
		_, last = m.Run(ctx, "true")
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("boot %s, see %s: %w", m.Name, m.console(), errors.Join(err, last, m.PowerOff()))
	}
	// The emulated clock starts at whole seconds.
	return m.SetClock(ctx, 0)
}

// makeDisk creates a copy-on-write disk on top of the release's disk, unless it exists.
func (m *Machine) makeDisk(ctx context.Context) error {
	disk := filepath.Join(m.dir(), "disk.qcow2")
	if _, err := os.Stat(disk); err == nil {
		return nil
	}
	if err := os.MkdirAll(m.dir(), 0o700); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", filepath.Join(m.suiteDir(), "disk.img"), disk).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make its disk: %w: %s", err, out)
	}
	return nil
}

func (m *Machine) console() string { return filepath.Join(m.dir(), "console.log") }

// start starts QEMU. QEMU and its network device end with this process.
func (m *Machine) start() error {
	kernel, err := only(filepath.Join(m.suiteDir(), "root", "boot", "vmlinuz-*"))
	if err != nil {
		return err
	}
	initrd, err := only(filepath.Join(m.suiteDir(), "root", "boot", "initrd.img-*"))
	if err != nil {
		return err
	}
	up := filepath.Join(m.dir(), "up.sh") // QEMU passes the name of its network device
	script := fmt.Sprintf("#!/bin/sh\nexec ip link set \"$1\" master %s up\n", os.Getenv(bridgeVariable))
	if err := os.WriteFile(up, []byte(script), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(m.dir(), "qemu.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("qemu-system-x86_64", "-name", m.Name, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", memory,
		"-display", "none", "-no-reboot", "-nodefaults", "-pidfile", filepath.Join(m.dir(), "pid"),
		"-kernel", kernel, "-initrd", initrd,
		// no_timer_check: on a busy host the timer is late, and the kernel would consider it broken.
		// panic=-1: QEMU ends if the kernel panics.
		"-append", fmt.Sprintf("root=/dev/vda rw console=ttyS0 no_timer_check panic=-1 mitigations=off systemd.default_timeout_start_sec=600 net.ifnames=0 ip=%s::%s:255.255.255.0:%s:eth0:none systemd.hostname=%s",
			m.Address, m.cluster.gateway(), m.Name, m.Name),
		"-drive", "file="+filepath.Join(m.dir(), "disk.qcow2")+",if=virtio,cache=unsafe,discard=unmap",
		"-netdev", fmt.Sprintf("tap,id=n0,ifname=%s-%d,script=%s,downscript=no", os.Getenv(bridgeVariable), m.index, up),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=n0,mac=52:54:00:99:f0:%02x", m.index),
		"-object", "rng-random,id=r0,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=r0",
		"-chardev", "file,id=console,append=on,path="+m.console(), "-serial", "chardev:console")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		// Linux kills the child when the thread that started it ends (Pdeathsig), so the thread waits for it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit status does not matter
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	m.qemu, m.ended = cmd, ended
	return nil
}

// PowerOff cuts the power of the machine. The API server is not informed, and data that were not
// written to the disk are lost. It does nothing if the machine is off.
func (m *Machine) PowerOff() error {
	if !m.On() {
		return nil
	}
	if err := m.qemu.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("cut the power of %s: %w", m.Name, err)
	}
	<-m.ended
	m.qemu = nil
	return nil
}

// SetClock sets the clock of the machine ahead of the host's, or behind it if ahead is negative.
func (m *Machine) SetClock(ctx context.Context, ahead time.Duration) error {
	// The time that the command takes to arrive makes the clock late, by less than a second.
	now := strconv.FormatFloat(float64(time.Now().Add(ahead).UnixMicro())/1e6, 'f', 6, 64)
	_, err := m.Run(ctx, "date -s @"+now+" >/dev/null")
	return err
}

// Run runs a shell script on the machine and returns its standard output.
func (m *Machine) Run(ctx context.Context, script string) ([]byte, error) {
	return m.run(ctx, script, nil)
}

// RunWith writes files on the machine, by their paths, and runs a script. It uses one connection for both, because
// connecting takes seconds.
func (m *Machine) RunWith(ctx context.Context, files map[string][]byte, script string) ([]byte, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(path, "/"), Mode: 0o600, Size: int64(len(files[path]))}); err != nil {
			return nil, fmt.Errorf("pack %s for %s: %w", path, m.Name, err)
		}
		if _, err := w.Write(files[path]); err != nil {
			return nil, fmt.Errorf("pack %s for %s: %w", path, m.Name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack files for %s: %w", m.Name, err)
	}
	return m.run(ctx, "tar -C / -xf - && "+script, archive.Bytes())
}

func (m *Machine) run(ctx context.Context, script string, stdin []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "ssh", "-i", filepath.Join(vmsDir(), "key"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "LogLevel=ERROR", "-o", "BatchMode=yes", "-o", fmt.Sprintf("ConnectTimeout=%d", int(connectTimeout.Seconds())),
		"-o", "ServerAliveInterval=20", "root@"+m.Address, script)
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("run %q on %s: %w: %s", first(script), m.Name, errors.Join(err, context.Cause(ctx)), strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}

// first returns the first line of a script.
func first(script string) string {
	line, _, _ := strings.Cut(script, "\n")
	return line
}

// only returns the single file that matches a pattern, or an error if there is not exactly one.
func only(pattern string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("%d files are called %s, want 1: run hack/vms/vms.sh install", len(files), pattern)
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}
