//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/e2e/nodes/oci"
)

// startTimeout and stopTimeout bound each start or stop of a program, a node or the cluster. Each takes
// seconds; the rest is for machines that are busy with something else.
const (
	startTimeout = 5 * time.Minute
	stopTimeout  = 2 * time.Minute
)

// Config specifies a cluster. The zero value is two nodes that have the images of [Images].
type Config struct {
	// Nodes is the number of nodes; zero means two. They are named node-a, node-b and so on.
	Nodes int

	// Playground contains the options of the control plane. Up sets KubeletsReach and NoKwok.
	Playground playground.Options

	// Bare leaves out the control plane and the kubelets: the nodes are machines with only a container
	// runtime, on which the caller installs Kubernetes. They have only the image [PauseImage]. The files of
	// containerd and the kubelet, the socket and the pod logs are at the usual paths.
	Bare bool
}

// Cluster is a running cluster of real nodes.
type Cluster struct {
	Nodes []*Node
	Dir   string // holds the state of all nodes, and their logs in logs/

	*playground.Playground // nil with Config.Bare

	bare   bool
	slot   *slot
	config *rest.Config
	client kubernetes.Interface
}

// Gateway returns the address of this machine at which nodes and pods reach programs that listen here.
func (c *Cluster) Gateway() string { return c.slot.gateway() }

// Up starts a cluster and returns when all nodes have joined. If it fails, only the logs that the error names
// are left.
func Up(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.Nodes == 0 {
		cfg.Nodes = 2
	}
	if cfg.Nodes < 0 || cfg.Nodes > maxNodes {
		return nil, fmt.Errorf("start a cluster of %d nodes: there is room for 1 to %d", cfg.Nodes, maxNodes)
	}
	if _, err := os.Stat(program("kubelet")); err != nil {
		return nil, fmt.Errorf("start a cluster: %w; run `make nodes-install`", err)
	}
	ctx, cancel := within(ctx, startTimeout)
	defer cancel()
	slot, err := claimSlot(ctx)
	if err != nil {
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	c := &Cluster{slot: slot, bare: cfg.Bare, Dir: filepath.Join(nodesDir(), "run", strconv.Itoa(slot.number))}
	if err := c.start(ctx, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("start a cluster: %w", err), c.down(context.WithoutCancel(ctx), false))
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, cfg Config) error {
	if err := os.RemoveAll(c.Dir); err != nil { // left by a cluster that was killed
		return err
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, "logs"), 0o700); err != nil {
		return err
	}
	if err := c.slot.makeBridge(ctx); err != nil {
		return err
	}
	if !c.bare {
		if err := c.startControlPlane(ctx, cfg.Playground); err != nil {
			return err
		}
	}
	for i := range cfg.Nodes {
		c.Nodes = append(c.Nodes, c.newNode(i))
	}
	images, err := c.writeImages(filepath.Join(c.Dir, "images.tar"))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, n := range c.Nodes {
		group.Go(func() error { return n.startFirst(ctx, images) })
	}
	return group.Wait()
}

func (c *Cluster) startControlPlane(ctx context.Context, opts playground.Options) error {
	opts.KubeletsReach = net.ParseIP(c.slot.gateway())
	opts.NoKwok = true
	if opts.Dir == "" {
		opts.Dir = filepath.Join(c.Dir, "control-plane")
	}
	// The control plane outlives the deadline of the start.
	p, err := playground.Start(context.WithoutCancel(ctx), opts)
	if err != nil {
		return err
	}
	c.Playground, c.config, c.client = p, p.Config(), p.Client()
	return nil
}

// startFirst starts a node for the first time.
func (n *Node) startFirst(ctx context.Context, images string) error {
	if err := n.make(ctx); err != nil {
		return err
	}
	if err := n.boot(ctx); err != nil {
		return err
	}
	if err := n.StartContainerd(ctx); err != nil {
		return err
	}
	if err := n.Import(ctx, images); err != nil || n.cluster.bare {
		return err
	}
	return n.StartKubelet(ctx)
}

// Node returns a node by its name, or nil if there is none.
func (c *Cluster) Node(name string) *Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// Down stops all nodes and the control plane and removes their state, including logs. Its context bounds the
// wait; when it is done, the rest is removed as soon as this process ends.
func (c *Cluster) Down(ctx context.Context) error { return c.down(ctx, true) }

// Abandon is Down for a failed cluster: the logs in Dir stay.
func (c *Cluster) Abandon(ctx context.Context) error { return c.down(ctx, false) }

// down implements Down. Without remove, the logs stay.
func (c *Cluster) down(ctx context.Context, remove bool) error {
	ctx, cancel := within(ctx, stopTimeout)
	defer cancel()
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, n.Kill(ctx))
	}
	if c.Playground != nil {
		errs = append(errs, c.Stop())
	}
	if remove {
		errs = append(errs, os.RemoveAll(c.Dir))
	}
	if err := errors.Join(append(errs, c.slot.free())...); err != nil {
		return fmt.Errorf("stop the cluster: %w", err)
	}
	return nil
}

// Images maps each program to the name of the image that contains only this program. All nodes have these
// images, besides [PauseImage].
var Images = map[string]string{
	"chain":   "localhost/chain:1",
	"counter": "localhost/counter:1",
}

// writeImages writes an archive of all images that nodes have from the start.
func (c *Cluster) writeImages(path string) (string, error) {
	images := []oci.Image{{Name: PauseImage, Program: program("workload/pause")}}
	for _, name := range slices.Sorted(maps.Keys(Images)) {
		if !c.bare {
			images = append(images, oci.Image{Name: Images[name], Program: program("workload/" + name)})
		}
	}
	if err := oci.WriteFile(path, images...); err != nil {
		return "", fmt.Errorf("make images: %w", err)
	}
	return path, nil
}
