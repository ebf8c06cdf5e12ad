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

// bootTimeout bounds how long a machine takes from power to ssh, and commandTimeout how long
// a connection takes: an emulated machine is slow, and this one may be busy.
const (
	bootTimeout    = 20 * time.Minute
	connectTimeout = 30 * time.Second
	pollInterval   = 500 * time.Millisecond
)

// memory is how much each machine has.
const memory = "3G"

// Machine is a virtual machine. Its disk outlives its power.
type Machine struct {
	Name    string
	Suite   string // the release of Debian, such as bookworm
	Address string // of the node, and of its kubelet

	cluster *Cluster
	index   int
	joined  bool
	qemu    *exec.Cmd // nil while the power is off
	ended   chan struct{}
}

// dir keeps what the machine has on this one: its disk, its console and the number of its
// process.
func (m *Machine) dir() string { return filepath.Join(m.cluster.Dir, m.Name) }

// PodRange is where the pods of the machine have their addresses.
func (m *Machine) PodRange() string { return fmt.Sprintf("10.88.%d.0/24", 240+m.index) }

// suiteDir is where vms.sh keeps a release.
func (m *Machine) suiteDir() string { return filepath.Join(vmsDir(), m.Suite) }

// On reports whether the machine has power.
func (m *Machine) On() bool { return m.qemu != nil }

// PowerOn boots the machine from its disk, and returns when ssh answers and its clock is
// right.
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
	// It starts with whole seconds.
	return m.SetClock(ctx, 0)
}

// makeDisk makes a disk on top of that of the release, unless there is one.
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

// start starts QEMU. It ends with this process, and its network device with it.
func (m *Machine) start() error {
	kernel, err := only(filepath.Join(m.suiteDir(), "root", "boot", "vmlinuz-*"))
	if err != nil {
		return err
	}
	initrd, err := only(filepath.Join(m.suiteDir(), "root", "boot", "initrd.img-*"))
	if err != nil {
		return err
	}
	up := filepath.Join(m.dir(), "up.sh") // QEMU names it the device that it has made
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
		// On a busy machine the timer is late, and the kernel would take it for broken. QEMU ends if it panics.
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
		// Linux ends the program with the thread that started it: this one lives as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is no concern of who ended it
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		return err
	}
	m.qemu, m.ended = cmd, ended
	return nil
}

// PowerOff cuts the power of the machine. Nobody tells the API server, and what was not
// written to the disk is lost.
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

// SetClock sets the clock of the machine to this one's, and some more.
func (m *Machine) SetClock(ctx context.Context, ahead time.Duration) error {
	// The time on its way is part of how far the clock is off: less than a second.
	now := strconv.FormatFloat(float64(time.Now().Add(ahead).UnixMicro())/1e6, 'f', 6, 64)
	_, err := m.Run(ctx, "date -s @"+now+" >/dev/null")
	return err
}

// Run runs a shell script on the machine to its end, and returns what it printed.
func (m *Machine) Run(ctx context.Context, script string) ([]byte, error) {
	return m.run(ctx, script, nil)
}

// RunWith writes files on the machine, by their paths, and runs a script. Both take one connection: to make one takes
// seconds.
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

// first is the first line of a script.
func first(script string) string {
	line, _, _ := strings.Cut(script, "\n")
	return line
}

// only is the one file that a pattern is the name of.
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
