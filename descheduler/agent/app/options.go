// Package app builds a node's agent from its flags.
package app

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/descheduler/checkpoint/restoreapi"
	"supercargo.dev/supercargo/descheduler/checkpoint/simulated"
)

// Options are the flags of the agent.
type Options struct {
	// Config connects to the API server.
	Config *rest.Config
	// Log receives the agent's log.
	Log logr.Logger

	// NodeName is the agent's node. Simulate is a label selector of nodes to simulate instead.
	NodeName, Simulate string
	// Model is for Simulate.
	Model Model

	// StateDir and WorkDir are the agent's folders. WorkSize is the size of the tmpfs to mount at
	// WorkDir; empty for none.
	StateDir, WorkDir, WorkSize string
	// RestoreDir is the folder that the agent shares with the container runtime.
	RestoreDir string
	// ListenAddress, AdvertiseHost and ServeAddress are as in [agent.Config].
	ListenAddress, AdvertiseHost, ServeAddress string

	// Containerd is its socket; empty if the node has none. Snapshotter is that of its CRI
	// plugin.
	Containerd, Snapshotter string
	// OpenConnections allows open TCP connections, which CRIU closes.
	OpenConnections bool
	// HostRoot is the node's root folder. CRIU is the program below it, and HostPath the folders
	// to find it in.
	HostRoot, CRIU, HostPath string

	// ProbeState is the folder where probes record the CPU governors that they change.
	ProbeState string

	// MaxMoves, MaxImages, MaxImageBytes and MaxTotalBytes are limits, as in [agent.Limits].
	MaxMoves, MaxImages          int
	MaxImageBytes, MaxTotalBytes string
	// PresendAbove is the memory from which on that of a container is sent before it is frozen too; 0 for never.
	PresendAbove string
	// Stalled is how long a transfer may make no progress before it is cancelled. Sweep is how
	// often leftovers are removed.
	Stalled, Sweep time.Duration
}

// Model is the flags of simulated migrations.
type Model struct {
	MemoryFactor       float64
	DumpRate, ShipRate string
	Freeze             time.Duration
}

// AddFlags adds the flags, with their defaults.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.NodeName, "node-name", "", "`name` of this agent's node (required, unless --simulate is given)")
	f.StringVar(&o.StateDir, "state-dir", "/var/lib/supercargo/agent", "`directory` on disk for state that survives a restart")
	f.StringVar(&o.WorkDir, "work-dir", "/run/supercargo/agent", "`directory` for checkpoints in transit; the container runtime must see it under the same path")
	f.StringVar(&o.WorkSize, "work-size", "8Gi", "`size` of the tmpfs to mount at --work-dir if none is mounted there; empty to mount none")
	f.StringVar(&o.RestoreDir, "restore-dir", restoreapi.DefaultFolder, "`directory` in memory that the agent shares with runc-supercargo, which restores containers; the node must have it under the same path")
	f.StringVar(&o.ListenAddress, "listen-address", ":8444", "`host:port` to receive checkpoints of other nodes on")
	f.StringVar(&o.AdvertiseHost, "advertise-host", "", "`host` at which other nodes reach --listen-address (default: the node's InternalIP)")
	f.StringVar(&o.ServeAddress, "serve-address", ":8085", "`host:port` for /metrics, /healthz and /readyz; 0 serves none")
	f.StringVar(&o.Containerd, "containerd", "/run/containerd/containerd.sock", "`socket` of containerd; empty if the node has another runtime")
	f.StringVar(&o.Snapshotter, "snapshotter", "overlayfs", "`name` of the snapshotter of containerd's CRI plugin: overlayfs or native")
	f.BoolVar(&o.OpenConnections, "allow-open-connections", false, "move containers with open TCP connections; CRIU closes them, if /etc/criu/runc.conf on every node has tcp-close")
	f.StringVar(&o.HostRoot, "host-root", "/", "`directory` with the node's root file system, such as /proc/1/root in a pod with hostPID")
	f.StringVar(&o.CRIU, "criu", "criu", "CRIU `program` on the node")
	f.StringVar(&o.HostPath, "host-path", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "`directories` of the node in which to find --criu")
	f.StringVar(&o.ProbeState, "probe-state-dir", DefaultProbeState, "`directory` where probes record the CPU governors that they change; the agent restores those of a probe that died")
	f.IntVar(&o.MaxMoves, "max-moves", 2, "maximum containers of the node to dump and ship at the same time")
	f.IntVar(&o.MaxImages, "max-images", 8, "maximum checkpoints to receive at the same time")
	f.StringVar(&o.MaxImageBytes, "max-image-bytes", "8Gi", "maximum `size` of a checkpoint")
	f.StringVar(&o.MaxTotalBytes, "max-total-bytes", "32Gi", "maximum total `size` of all checkpoints on the node")
	f.StringVar(&o.PresendAbove, "presend-above", "64Mi", "`size` of the memory from which on that of a container is sent before it is frozen too, which makes the freeze shorter; 0 for never")
	f.DurationVar(&o.Stalled, "stalled-after", 10*time.Second, "abort a transfer that makes no progress for this long")
	f.DurationVar(&o.Sweep, "sweep-every", time.Hour, "how often to remove state that belongs to no migration")
	f.StringVar(&o.Simulate, "simulate", "", "simulate the agents of all nodes with these labels, such as type=kwok; these nodes run no containers")
	f.Float64Var(&o.Model.MemoryFactor, "simulate-memory", 0.5, "memory usage of a simulated container, as a share of its request")
	f.StringVar(&o.Model.DumpRate, "simulate-dump-rate", "500Mi", "`bytes` per second of a simulated dump")
	f.StringVar(&o.Model.ShipRate, "simulate-ship-rate", "100Mi", "`bytes` per second of a simulated transfer")
	f.DurationVar(&o.Model.Freeze, "simulate-freeze", 20*time.Millisecond, "duration of a simulated freeze or thaw")
}

// sizes are the flags that are quantities, in bytes.
type sizes struct {
	work, image, total, presend, dumpRate, shipRate int64
}

// check parses and validates the flags, and returns an error for each invalid one.
func (o *Options) check() (sizes, labels.Selector, error) {
	var s sizes
	var errs []error
	for _, flag := range []struct {
		name, text string
		to         *int64
		optional   bool
		zero       bool // it may be 0
	}{
		{"work-size", o.WorkSize, &s.work, true, false}, {"max-image-bytes", o.MaxImageBytes, &s.image, false, false},
		{"max-total-bytes", o.MaxTotalBytes, &s.total, false, false}, {"presend-above", o.PresendAbove, &s.presend, false, true},
		{"simulate-dump-rate", o.Model.DumpRate, &s.dumpRate, false, false}, {"simulate-ship-rate", o.Model.ShipRate, &s.shipRate, false, false},
	} {
		if flag.optional && flag.text == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(flag.text)
		switch {
		case err == nil && flag.zero && quantity.Sign() < 0:
			err = errors.New("must not be negative")
		case err == nil && !flag.zero && quantity.Sign() <= 0:
			err = errors.New("must be more than 0")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s=%s: %w", flag.name, flag.text, err))
			continue
		}
		*flag.to = quantity.Value()
	}
	var selector labels.Selector
	switch {
	case o.Simulate == "" && o.NodeName == "":
		errs = append(errs, errors.New("--node-name or --simulate is required"))
	case o.Simulate != "" && o.NodeName != "":
		errs = append(errs, errors.New("--node-name and --simulate are mutually exclusive"))
	case o.Simulate != "":
		var err error
		if selector, err = labels.Parse(o.Simulate); err != nil {
			errs = append(errs, fmt.Errorf("--simulate=%s: %w", o.Simulate, err))
		} else if selector.Empty() {
			errs = append(errs, errors.New("--simulate must not select every node"))
		}
	}
	errs = append(errs, o.checkPlaces()...)
	errs = append(errs, o.checkNumbers()...)
	return s, selector, errors.Join(errs...)
}

func (o *Options) checkPlaces() []error {
	var errs []error
	for name, dir := range map[string]string{"state-dir": o.StateDir, "work-dir": o.WorkDir, "host-root": o.HostRoot, "probe-state-dir": o.ProbeState} {
		if !filepath.IsAbs(dir) {
			errs = append(errs, fmt.Errorf("--%s=%s: must be an absolute path", name, dir))
		}
	}
	if _, _, err := net.SplitHostPort(o.ListenAddress); err != nil {
		errs = append(errs, fmt.Errorf("--listen-address=%s: %w", o.ListenAddress, err))
	}
	if _, _, err := net.SplitHostPort(o.ServeAddress); err != nil && o.ServeAddress != "0" {
		errs = append(errs, fmt.Errorf("--serve-address=%s: %w", o.ServeAddress, err))
	}
	if o.Containerd != "" && !filepath.IsAbs(o.Containerd) {
		errs = append(errs, fmt.Errorf("--containerd=%s: must be the absolute path of a socket", o.Containerd))
	}
	return errs
}

func (o *Options) checkNumbers() []error {
	var errs []error
	for name, value := range map[string]int64{"max-moves": int64(o.MaxMoves), "max-images": int64(o.MaxImages), "stalled-after": int64(o.Stalled), "sweep-every": int64(o.Sweep)} {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("--%s: must be more than 0", name))
		}
	}
	if f := o.Model.MemoryFactor; !(f > 0 && f <= 16) {
		errs = append(errs, fmt.Errorf("--simulate-memory=%v: must be more than 0 and at most 16", f))
	}
	if o.Model.Freeze < 0 {
		errs = append(errs, fmt.Errorf("--simulate-freeze=%v: must not be negative", o.Model.Freeze))
	}
	return errs
}

// model returns the model of simulated migrations.
func (o *Options) model(s sizes) simulated.Model {
	return simulated.Model{MemoryFactor: o.Model.MemoryFactor, DumpRate: s.dumpRate, ShipRate: s.shipRate, Freeze: o.Model.Freeze}
}
