package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/agent"
	"supercargo.dev/supercargo/descheduler/agent/detect"
	"supercargo.dev/supercargo/descheduler/checkpoint"
	"supercargo.dev/supercargo/descheduler/checkpoint/containerd"
	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/energy/probe/governor"
	"supercargo.dev/supercargo/internal/movable/capability"
)

// tmpfsMagic is the type of a tmpfs in statfs(2).
const tmpfsMagic = 0x01021994

// Run runs the agent until ctx ends, or until an error that a restart may fix.
func Run(ctx context.Context, o Options) error {
	config, closeAll, err := o.config()
	if err != nil {
		return err
	}
	defer closeAll()
	a, err := agent.New(config)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// config returns the agent's configuration. The returned function closes what was opened.
func (o *Options) config() (agent.Config, func(), error) {
	s, selector, err := o.check()
	if err != nil {
		return agent.Config{}, nil, err
	}
	c := agent.Config{
		Client: throttle(o.Config), Node: o.NodeName, StateDir: o.StateDir, WorkDir: o.WorkDir,
		ListenAddress: o.ListenAddress, AdvertiseHost: o.AdvertiseHost, ServeAddress: o.ServeAddress,
		Limits:     agent.Limits{Moves: o.MaxMoves, Images: o.MaxImages, ImageBytes: s.image, TotalBytes: s.total, Stalled: o.Stalled},
		SweepEvery: o.Sweep, PresendAbove: s.presend, Clock: clock.RealClock{}, Log: o.Log,
	}
	if o.ServeAddress == "0" {
		c.ServeAddress = ""
	}
	if selector != nil {
		c.Simulation = &agent.Simulation{Selector: selector, Model: o.model(s)}
		return c, func() {}, nil
	}
	if err := o.keepOthersOut(); err != nil {
		return c, nil, err
	}
	if err := mountWork(o.WorkDir, s.work); err != nil {
		return c, nil, err
	}
	n := &node{Options: o, host: detect.Host{Root: o.HostRoot, CRIU: o.CRIU, Path: o.HostPath}}
	if err := n.open(s.image); err != nil {
		return c, nil, err
	}
	c.RestoreFolder = restoreapi.Folder(o.RestoreDir)
	c.Backends, c.Capability, c.Hardware, c.Runtime = n.backends, n.capability, n.hardware, n.answers
	c.FreeMemory = func() (int64, error) { return availableMemory(filepath.Join(o.HostRoot, "proc")) }
	c.Governor = func() (string, error) { return governor.Home(filepath.Join(o.HostRoot, "sys"), o.ProbeState) }
	c.Restore = func() (bool, error) { return governor.Recover(filepath.Join(o.HostRoot, "sys"), o.ProbeState) }
	return c, n.close, nil
}

// keepOthersOut makes the folders for root alone, since dumps contain all secrets of a process.
// It does not change the mode of an existing folder, which may have been given by mistake: that
// is an error.
func (o *Options) keepOthersOut() error {
	for flag, dir := range map[string]string{"state-dir": o.StateDir, "work-dir": o.WorkDir} {
		err := os.MkdirAll(dir, 0o700)
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("--%s=%s: the folder will contain secrets and other users can access it: use another folder, or run chmod 700 on it", flag, dir)
		}
	}
	return nil
}

// mountWork mounts a tmpfs of size bytes at dir, unless one is mounted there. Size 0 mounts none. What is in it is not
// swapped, unless the kernel is older than 6.4.
func mountWork(dir string, size int64) error {
	if size == 0 {
		return nil
	}
	mounted, err := isMountPoint(dir)
	if err != nil || mounted {
		return err
	}
	const flags = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC
	options := "mode=0700,size=" + strconv.FormatInt(size, 10)
	err = syscall.Mount("supercargo", dir, "tmpfs", flags, options+",noswap")
	if errors.Is(err, syscall.EINVAL) { // an older kernel
		err = syscall.Mount("supercargo", dir, "tmpfs", flags, options)
	}
	if err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w: run as root, or mount one there and set --work-size=", dir, err)
	}
	return nil
}

// availableMemory returns the memory that the kernel can give to programs without swapping, in bytes. proc is the /proc
// folder to use.
func availableMemory(proc string) (int64, error) {
	node, err := procfs.NewFS(proc)
	if err != nil {
		return 0, err
	}
	info, err := node.Meminfo()
	if err != nil {
		return 0, err
	}
	if info.MemAvailableBytes == nil {
		return 0, fmt.Errorf("%s/meminfo does not contain MemAvailable", proc)
	}
	return int64(min(*info.MemAvailableBytes, math.MaxInt64)), nil
}

// isMountPoint reports whether a tmpfs is mounted at dir.
func isMountPoint(dir string) (bool, error) {
	var here, above syscall.Stat_t
	var kind syscall.Statfs_t
	err := errors.Join(syscall.Stat(dir, &here), syscall.Stat(filepath.Dir(dir), &above), syscall.Statfs(dir, &kind))
	if err != nil {
		return false, fmt.Errorf("inspect %s: %w", dir, err)
	}
	return here.Dev != above.Dev && kind.Type == tmpfsMagic, nil
}

// throttle limits the agent's requests: an agent has a handful of migrations.
func throttle(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	if c.QPS == 0 {
		c.QPS, c.Burst = 50, 100
	}
	return c
}

// node is the real node and the clients of its runtimes.
type node struct {
	*Options
	host       detect.Host
	containerd *containerd.Client
}

// open makes the client of containerd. It does not wait for a containerd that is down.
func (n *node) open(maxImageBytes int64) error {
	if n.Containerd == "" {
		return nil
	}
	var err error
	n.containerd, err = containerd.New(containerd.Options{
		Socket: n.Containerd, Snapshotter: n.Snapshotter, MaxImageBytes: maxImageBytes, OpenConnections: n.OpenConnections,
		Proc: filepath.Join(n.HostRoot, "proc"), HostRoot: n.HostRoot, Requires: n.requires, Clock: clock.RealClock{},
		StagingDir: filepath.Join(n.StateDir, "staged"), Restore: restoreapi.Folder(n.RestoreDir),
	})
	return err
}

// answers returns an error if containerd does not answer.
func (n *node) answers(ctx context.Context) error {
	if n.containerd == nil {
		return nil
	}
	_, err := n.containerd.Version(ctx)
	return err
}

func (n *node) close() {
	if n.containerd != nil {
		_ = n.containerd.Close() // the process ends
	}
}

// backends returns the node's back-ends.
func (n *node) backends() map[v1alpha1.MigrationBackend]checkpoint.Backend {
	all := map[v1alpha1.MigrationBackend]checkpoint.Backend{}
	if n.containerd != nil {
		all[v1alpha1.BackendContainerd] = checkpoint.Backend{Source: n.containerd, Target: n.containerd}
	}
	return all
}

// requires returns what a target must have to restore a container of this node.
func (n *node) requires(ctx context.Context) (capability.Requirements, error) {
	features, err := n.host.CPUFeatures()
	if err != nil {
		return capability.Requirements{}, err
	}
	criu, err := n.host.CRIUVersion(ctx)
	if err != nil {
		return capability.Requirements{}, err
	}
	kernel, err := n.host.Kernel()
	return capability.Requirements{Arch: runtime.GOARCH, CPUFeatures: features, Kernel: detect.Release(kernel), CRIU: criu}, err
}

// capability returns the value of the node's annotation. A node whose CRIU does not work has
// no back-end. A CRIU that was interrupted, for instance together with the agent, tells
// nothing about the node: that is an error, and the annotation does not change.
func (n *node) capability(ctx context.Context, node *corev1.Node) (capability.Node, error) {
	can := capability.Node{
		Arch:   runtime.GOARCH,
		Kernel: node.Status.NodeInfo.KernelVersion, Runtime: node.Status.NodeInfo.ContainerRuntimeVersion,
	}
	var err error
	if can.CPUFeatures, err = n.host.CPUFeatures(); err != nil {
		return can, err
	}
	if can.Kernel == "" {
		if can.Kernel, err = n.host.Kernel(); err != nil {
			return can, err
		}
	}
	if n.containerd == nil {
		return can, nil
	}
	if can.CRIU, err = n.host.CRIUVersion(ctx); detect.Interrupted(err) {
		return can, err
	}
	if err != nil || can.CRIU == "" {
		n.Log.Info("The node cannot move containers with their state: it has no working CRIU", "error", err)
		return can, nil
	}
	if err = n.host.CheckCRIU(ctx); detect.Interrupted(err) {
		return can, err
	}
	if err != nil {
		n.Log.Info("The node cannot move containers with their state: its kernel lacks a feature that CRIU needs", "error", err)
		return can, nil
	}
	version, err := n.containerd.Version(ctx)
	if err != nil {
		return can, err
	}
	can.Runtime = "containerd://" + version
	can.Backends = append(can.Backends, v1alpha1.BackendContainerd)
	can.Restore, err = n.containerd.Restores(ctx)
	if err == nil && !can.Restore {
		n.Log.Info("The node restores no containers: its containerd does not start " + containerd.RuntimeName + " in place of runc")
	}
	return can, err
}
