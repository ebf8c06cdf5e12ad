//go:build linux

// Init is process 1 of a test node: it makes the node's namespaces look like a separate machine, and then
// only reaps orphaned processes.
//
//	init -name NAME -dir DIR FOLDER...
//
// The folders are those to which programs of a node write at fixed paths. Files of the machine stay visible
// there. What the node writes is visible only to the node, and stored in DIR.
//
// It is started in new mount, network, process and host name namespaces, and writes a byte to file descriptor
// 3 when they are ready. When it ends, the kernel ends all other processes in them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func main() {
	name := flag.String("name", "", "host name")
	dir := flag.String("dir", "", "where what the node writes to the folders goes")
	flag.Parse()
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM)
	if err := prepare(*name, *dir, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "prepare node %s: %v\n", *name, err)
		os.Exit(1)
	}
	for {
		select {
		case <-children:
			reap()
		case <-stop:
			return
		}
	}
}

func prepare(name, dir string, private []string) error {
	if err := unix.Sethostname([]byte(name)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	// Mounts here do not propagate to the machine, but mounts of one program of the node propagate to the
	// others, which kubelets need.
	for _, flags := range []uintptr{unix.MS_REC | unix.MS_PRIVATE, unix.MS_REC | unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", flags, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, path := range private {
		if err := cover(path, dir); err != nil {
			return fmt.Errorf("cover %s: %w", path, err)
		}
	}
	// Pods can reach pods of other nodes.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("let packets through: %w", err)
	}
	ready := os.NewFile(3, "ready")
	_, err := ready.Write([]byte{1})
	return errors.Join(err, ready.Close())
}

// cover mounts a writable overlay, stored below dir, over path.
func cover(path, dir string) error {
	upper, work := filepath.Join(dir, path, "upper"), filepath.Join(dir, path, "work")
	for _, dir := range []string{upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("overlay", path, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", path, upper, work))
}

// reap reaps all children that have ended.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid == 0 {
			return
		}
	}
}
