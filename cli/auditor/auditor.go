// Package auditor converts the objects of a cluster to the input of an audit: prices of nodes,
// machines that can be bought, and demands that may be lifted.
package auditor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/internal/world"
)

// Options are the options of the user.
type Options struct {
	// Now is when the objects were read. Required.
	Now time.Time
	// Prices are the user's own prices, by instance type. They take precedence over list prices.
	Prices []catalogue.Price
	// InstanceTypes are patterns of instance types that may be bought besides those of the nodes,
	// in the syntax of catalogue.Choose.
	InstanceTypes []string
}

// Of returns the input of an audit of the objects.
func Of(ctx context.Context, from *objects.Objects, o Options) (*audit.Input, error) {
	withDaemons, derived := daemons(from)
	w, err := world.Read(ctx, withDaemons, false)
	if err != nil {
		return nil, fmt.Errorf("read the objects: %w", err)
	}
	b := &observer{objects: withDaemons, options: o, view: world.NewView(w, o.Now, runtimes.NewLearner())}
	for name := range w.Nodes {
		b.view.EvictServices(name, v1alpha1.EvictServicesOptOut)
	}
	b.pricer = NewPricer(from, o.Prices)
	b.readUse()
	b.readNodes()
	if err := b.readMarket(); err != nil {
		return nil, err
	}
	b.readFlavors()
	b.readObstacles()
	b.countPending()
	b.note(derived)
	in := b.Input // a pointer into b would keep all objects in memory
	return &in, nil
}

// observer builds the input of an audit.
type observer struct {
	audit.Input
	objects *objects.Objects
	options Options
	view    *world.View
	pricer  *Pricer
	use     map[string]packing.Size
	forSale []*catalogue.Flavor
	workers []worker // nodes whose instance type can be bought, by name
}

// worker is a priced node of an instance type that can be bought.
type worker struct {
	node  *corev1.Node
	price int64
}

// readUse reads the measured usage of nodes.
func (b *observer) readUse() {
	b.use = make(map[string]packing.Size, len(b.objects.Metrics))
	for i := range b.objects.Metrics {
		m := &b.objects.Metrics[i]
		b.use[m.Name] = packing.Size{MilliCPU: m.Usage.Cpu().MilliValue(), MemoryBytes: m.Usage.Memory().Value()}
	}
}

// readNodes converts nodes with their pods and prices to those of the audit.
func (b *observer) readNodes() {
	for i := range b.objects.Nodes {
		node := &b.objects.Nodes[i]
		price, unpriced := b.pricer.Price(node)
		n := cluster.Node{Name: node.Name, Flavor: InstanceType(node), Class: class.Any, MicroDollarsPerHour: price, Age: b.options.Now.Sub(node.CreationTimestamp.Time)}
		stays := ""
		if controlPlane(node) {
			stays = "it is a control plane node"
			n.Kept, n.KeptFor = true, stays
		}
		all := audit.Node{Node: b.view.Node(node, n), InstanceType: InstanceType(node), Unpriced: unpriced, Stays: stays}
		allocatable := node.Status.Allocatable
		all.Whole = packing.Size{MilliCPU: allocatable.Cpu().MilliValue(), MemoryBytes: allocatable.Memory().Value()}
		all.WholePods = allocatable.Pods().Value()
		b.readPods(&all)
		if used, measured := b.use[node.Name]; measured {
			all.Use = &used
		}
		if unpriced == "" && stays == "" && all.InstanceType != "" {
			b.workers = append(b.workers, worker{node, price})
		}
		b.Nodes = append(b.Nodes, all)
	}
	slices.SortFunc(b.workers, func(x, y worker) int { return cmp.Compare(x.node.Name, y.node.Name) })
}

// readPods sums the requests of all pods of a node, and checks whether one of them keeps the node.
func (b *observer) readPods(n *audit.Node) {
	at := make(map[string]int, len(n.Pods))
	for i := range n.Pods {
		at[n.Pods[i].Name] = i
	}
	for _, pod := range b.view.On(n.Name) {
		size, _ := world.Requests(pod)
		n.Requested.MilliCPU += size.MilliCPU
		n.Requested.MemoryBytes += size.MemoryBytes
		n.AllPods++
		i, is := at[world.PodName(pod)]
		if !is {
			continue // a DaemonSet pod or a static pod
		}
		demands, held := b.view.Successor(pod)
		if held == "" {
			n.Pods[i].Demands = demands
		} else if n.Stays == "" {
			n.Stays = fmt.Sprintf("no machine is planned for its pod %s: %s", n.Pods[i].Name, held)
		}
	}
}

func (b *observer) countPending() {
	for i := range b.view.Pods {
		if b.view.Pods[i].Spec.NodeName == "" {
			b.Pending++
		}
	}
}

// controlPlane reports whether a node runs the control plane.
func controlPlane(node *corev1.Node) bool {
	for _, label := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, is := node.Labels[label]; is {
			return true
		}
	}
	return false
}

// InstanceType returns the instance type of a node; empty if unknown.
func InstanceType(node *corev1.Node) string {
	return cmp.Or(node.Labels[corev1.LabelInstanceTypeStable], node.Labels[corev1.LabelInstanceType])
}
