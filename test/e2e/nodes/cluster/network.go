//go:build linux

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// makeBridge makes the network between this machine and the nodes.
func (s *slot) makeBridge(ctx context.Context) error {
	err := ip(ctx,
		"link add "+s.bridge()+" type bridge",
		"addr add "+s.gateway()+"/24 dev "+s.bridge(),
		"link set "+s.bridge()+" up")
	if err != nil {
		return fmt.Errorf("make the network of the nodes: %w", err)
	}
	return nil
}

// ip runs commands of ip on this machine.
func ip(ctx context.Context, commands ...string) error {
	cmd := exec.CommandContext(ctx, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// connect connects the namespaces of a node to the network, with routes to the pods of the other nodes.
func (n *Node) connect(ctx context.Context, space *space) error {
	slot := n.cluster.slot
	link := slot.link(n.index)
	err := ip(ctx,
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", link, space.init.cmd.Process.Pid),
		"link set "+link+" master "+slot.bridge()+" up",
		"route replace "+slot.podRange(n.index)+" via "+n.Address+" dev "+slot.bridge())
	if err != nil {
		return fmt.Errorf("connect node %s: %w", n.Name, err)
	}
	inside := []string{"link set lo up", "addr add " + n.Address + "/24 dev eth0", "link set eth0 up"}
	for _, other := range n.cluster.Nodes {
		if other != n {
			inside = append(inside, "route add "+slot.podRange(other.index)+" via "+other.Address)
		}
	}
	if _, err := space.run(ctx, strings.Join(inside, "\n"), "ip", "-batch", "-"); err != nil {
		return fmt.Errorf("connect node %s: %w", n.Name, err)
	}
	return nil
}

// disconnect removes the machine's end of the node's network link. The kernel removes it with the namespaces
// too, but later, and the next start creates it again.
func (n *Node) disconnect(ctx context.Context) error {
	link := n.cluster.slot.link(n.index)
	for {
		if _, err := os.Stat(filepath.Join("/sys/class/net", link)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// This fails if the kernel has already removed it.
		if err := ip(ctx, "link delete "+link); err != nil && ctx.Err() != nil {
			return fmt.Errorf("disconnect node %s: %w", n.Name, errors.Join(context.Cause(ctx), err))
		}
	}
}

// Slow limits what the node receives to a rate such as "1gbit", in the format of tc. It needs the kernel's token bucket filter.
func (n *Node) Slow(ctx context.Context, rate string) error {
	cmd := exec.CommandContext(ctx, "tc", "qdisc", "replace", "dev", n.cluster.slot.link(n.index), "root", "tbf", "rate", rate, "burst", "1mb", "latency", "50ms")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("limit the network of node %s to %s: %w: %s", n.Name, rate, err, out)
	}
	return nil
}

// Unplug takes the network from a running node, as if its cable were pulled. Its addresses and routes stay.
func (n *Node) Unplug(ctx context.Context) error { return n.plug(ctx, "down") }

// Plug gives the network back.
func (n *Node) Plug(ctx context.Context) error { return n.plug(ctx, "up") }

func (n *Node) plug(ctx context.Context, state string) error {
	if err := ip(ctx, "link set "+n.cluster.slot.link(n.index)+" "+state); err != nil {
		return fmt.Errorf("set the network of node %s %s: %w", n.Name, state, err)
	}
	return nil
}
