//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// pollInterval is the polling interval of conditions.
const pollInterval = 100 * time.Millisecond

// Node is a machine from the view of Kubernetes: a kubelet and a containerd in their own namespaces. Exported
// fields do not change while the cluster is up. Its methods may be called from any goroutine.
type Node struct {
	Name    string
	Address string // of the node, and of its kubelet

	// Dir is the node's disk: it holds all state of the node. The paths below are in it, and are the same for
	// the node and for this process.
	Dir              string
	ContainerdSocket string
	KubeletRoot      string // its folder checkpoints/ holds checkpoints
	Kubeconfig       string // with the node's own permissions
	PodLogs          string // NAMESPACE_POD_UID/CONTAINER/*.log in it
	Runtime          string // the program that containerd starts in place of runc
	RestoreDir       string // the folder that Runtime shares with the node's agent

	// CgroupRoot is the parent control group of those of pods, in each hierarchy.
	CgroupRoot string

	cluster    *Cluster
	index      int
	containerd *Program
	kubelet    *Program

	mu sync.Mutex
	up *space // nil while the node is down
}

func (c *Cluster) newNode(index int) *Node {
	name := fmt.Sprintf("node-%c", 'a'+index)
	dir := filepath.Join(c.Dir, name)
	n := &Node{
		Name: name, Address: c.slot.address(index), Dir: dir,
		ContainerdSocket: filepath.Join(dir, "state", "containerd.sock"),
		KubeletRoot:      filepath.Join(dir, "kubelet"),
		Kubeconfig:       filepath.Join(dir, "kubeconfig"),
		PodLogs:          filepath.Join(dir, "pods"),
		Runtime:          filepath.Join(dir, "bin", "runc-supercargo"),
		RestoreDir:       filepath.Join(dir, "restore"),
		CgroupRoot:       c.slot.cgroup(name),
		cluster:          c, index: index,
	}
	n.containerd = n.Program("containerd", "--config", filepath.Join(dir, "containerd.toml"))
	n.kubelet = n.Program("kubelet", "--config", n.kubeletConfigPath(), "--kubeconfig", n.Kubeconfig,
		"--root-dir", n.KubeletRoot, "--cert-dir", filepath.Join(dir, "pki"),
		"--hostname-override", n.Name, "--node-ip", n.Address, "-v", "2")
	return n
}

// make creates the files that the node has on its disk at its first start.
func (n *Node) make(ctx context.Context) error {
	for _, dir := range []string{n.logDir(), filepath.Join(n.Dir, "tmp"), n.PodLogs} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make node %s: %w", n.Name, err)
		}
	}
	if err := makeCgroup(n.CgroupRoot); err != nil {
		return fmt.Errorf("make node %s: %w", n.Name, err)
	}
	if n.cluster.bare {
		return errors.Join(n.installRuntime(), n.writeRuntimeConfig())
	}
	return errors.Join(n.installRuntime(), n.writeRuntimeConfig(), n.writeKubeletConfig(), n.writeKubeconfig(ctx))
}

// NetNS returns a path of the node's network namespace. It differs after each start of the node, and is empty
// while the node is down.
func (n *Node) NetNS() string {
	space, err := n.space()
	if err != nil {
		return ""
	}
	return space.netNS()
}

// space returns the namespaces of the node, or an error if it is down.
func (n *Node) space() (*space, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.up == nil {
		return nil, fmt.Errorf("node %s is down", n.Name)
	}
	return n.up, nil
}

// Run runs a command on the node and returns its whole output when it ends. Programs that `nodes.sh install`
// has built need no path.
func (n *Node) Run(ctx context.Context, command string, args ...string) ([]byte, error) {
	space, err := n.space()
	if err != nil {
		return nil, err
	}
	if !strings.Contains(command, "/") {
		if _, err := os.Stat(program(command)); err == nil {
			command = program(command)
		}
	}
	return space.run(ctx, "", command, args...)
}

// Start boots a node that is down: its disk is unchanged, and nothing runs. It returns when the node has
// joined, and its pods may still be starting. With Config.Bare, it returns when its containerd serves.
func (n *Node) Start(ctx context.Context) error {
	if err := n.boot(ctx); err != nil {
		return err
	}
	if err := n.StartContainerd(ctx); err != nil || n.cluster.bare {
		return err
	}
	return n.StartKubelet(ctx)
}

// boot makes the namespaces of the node, without programs in them.
func (n *Node) boot(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.up != nil {
		return fmt.Errorf("start node %s: it is up", n.Name)
	}
	// Files that are not on the disk of a real machine do not survive a restart.
	for _, dir := range []string{"state", "runc", "tmp", "restore"} {
		if err := os.RemoveAll(filepath.Join(n.Dir, dir)); err != nil {
			return fmt.Errorf("start node %s: %w", n.Name, err)
		}
	}
	log, err := os.OpenFile(n.logPath("init"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	defer log.Close()
	space, err := newSpace(ctx, n.Name, filepath.Join(n.Dir, "disk"), n.own(), log)
	if err != nil {
		return err
	}
	n.up = space // so that Kill ends it even if a later step fails
	if err := n.mount(ctx, space); err != nil {
		return err
	}
	return n.connect(ctx, space)
}

// own returns the folders of the machine in which only the node sees its changes. Pods of a control plane
// have some folders created below /usr.
func (n *Node) own() []string {
	own := []string{"/etc", "/var/lib", "/var/log"}
	if n.cluster.bare {
		own = append(own, "/usr")
	}
	return own
}

// mount mounts folders of a bare node, and CRIU, at the usual paths. They are not in the overlays over the
// machine's folders, because containerd creates overlays in one of them, and this process connects to the
// socket in another.
func (n *Node) mount(ctx context.Context, space *space) error {
	if !n.cluster.bare {
		return nil
	}
	for from, to := range map[string]string{
		filepath.Join(n.Dir, "root"):     "/var/lib/containerd",
		filepath.Dir(n.ContainerdSocket): "/run/containerd",
		n.KubeletRoot:                    "/var/lib/kubelet",
		n.PodLogs:                        "/var/log/pods",
	} {
		if err := os.MkdirAll(from, 0o700); err != nil {
			return fmt.Errorf("start node %s: %w", n.Name, err)
		}
		for _, command := range [][]string{{"mkdir", "-p", to}, {"mount", "--bind", from, to}} {
			if _, err := space.run(ctx, "", command[0], command[1:]...); err != nil {
				return fmt.Errorf("start node %s: %w", n.Name, err)
			}
		}
	}
	// A node agent in a pod also searches CRIU in the usual paths.
	if _, err := space.run(ctx, "", "ln", "-sf", program("criu"), "/usr/local/sbin/criu"); err != nil {
		return fmt.Errorf("start node %s: %w", n.Name, err)
	}
	return nil
}

// Kill ends everything on the node at once, including the processes of its pods, as when a machine loses
// power. The API server is not notified.
func (n *Node) Kill(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.up == nil {
		return nil
	}
	ctx, cancel := within(ctx, stopTimeout)
	defer cancel()
	if err := n.up.end(ctx, n.CgroupRoot); err != nil {
		return fmt.Errorf("kill node %s: %w", n.Name, err)
	}
	n.up = nil
	return n.disconnect(ctx)
}

// StartContainerd starts containerd and returns when it serves.
func (n *Node) StartContainerd(ctx context.Context) error {
	if err := n.containerd.Start(); err != nil {
		return err
	}
	return n.waitContainerd(ctx)
}

// StopContainerd ends containerd with SIGTERM. Containers continue without it.
func (n *Node) StopContainerd(ctx context.Context) error { return n.containerd.Stop(ctx) }

// KillContainerd kills containerd. Containers continue without it.
func (n *Node) KillContainerd(ctx context.Context) error { return n.containerd.Kill(ctx) }

// StartKubelet starts the kubelet and returns when it has reported the node as ready.
func (n *Node) StartKubelet(ctx context.Context) error {
	since := time.Now()
	if err := n.kubelet.Start(); err != nil {
		return err
	}
	return n.waitJoined(ctx, since)
}

// KillKubelet kills the kubelet. Pods continue without it.
func (n *Node) KillKubelet(ctx context.Context) error { return n.kubelet.Kill(ctx) }

// within adds a timeout to a context that may have no deadline.
func within(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %v", timeout))
}

// poll calls check until it returns nil, ctx ends, or program ends.
func (n *Node) poll(ctx context.Context, program *Program, check func(context.Context) error) error {
	ctx, cancel := within(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		doing := fmt.Sprintf("wait for %s of node %s, see %s", program.Name, n.Name, program.LogPath())
		if !program.Running() {
			return fmt.Errorf("%s: it has ended", doing)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, errors.Join(context.Cause(ctx), err))
		case <-ticker.C:
		}
	}
}

func (n *Node) logDir() string             { return filepath.Join(n.cluster.Dir, "logs") }
func (n *Node) logPath(name string) string { return filepath.Join(n.logDir(), n.Name+"-"+name+".log") }
