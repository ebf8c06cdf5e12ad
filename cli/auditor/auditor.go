// Package auditor converts the objects of a cluster to the input of an audit: prices of nodes,
// machines that can be bought, and demands that may be lifted.
package auditor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	// Pricing is what the user states about prices.
	Pricing
	// InstanceTypes are patterns of instance types that may be bought besides those of the nodes,
	// in the syntax of catalogue.Choose.
	InstanceTypes []string
	// Archs are CPU architectures, as in GOARCH, for which all images are expected to exist, besides those on which they
	// were seen.
	Archs []string
	// ByLabel is as in [audit.Input].
	ByLabel string
}

// Of returns the input of an audit of the objects.
func Of(ctx context.Context, from *objects.Objects, o Options) (*audit.Input, error) {
	withDaemons, derived := daemons(from)
	withDaemons = unnominated(apart(withDaemons))
	w, err := world.Read(ctx, withDaemons, false)
	if err != nil {
		return nil, fmt.Errorf("read the objects: %w", err)
	}
	w.Unread(unread(from)...)
	b := &observer{objects: withDaemons, options: o, view: world.NewView(w, o.Now, runtimes.NewLearner())}
	for name := range w.Nodes {
		b.view.EvictServices(name, v1alpha1.EvictServicesOptOut)
	}
	b.ByLabel = o.ByLabel
	b.pricer = NewPricer(from, o.Pricing)
	b.readUse()
	b.readImages()
	b.readNodes()
	if err := b.readMarket(); err != nil {
		return nil, err
	}
	b.readFlavors()
	b.readObstacles()
	b.countPending()
	b.notePrices()
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
	untyped *world.View // see unlabelled; nil until it is needed
	// attached is what nodes of each type can attach, attachedAnywhere what all can; nil until it is needed (see attaches).
	attached         map[string]map[string]int64
	attachedAnywhere map[string]int64
	pricer           *Pricer
	use              map[string]packing.Size
	images           images
	archs            map[string]bool // that machines may have
	forSale          []*catalogue.Flavor
	omitted          omitted
	workers          []worker // nodes whose instance type can be bought, by name
	unstarted        []string // nodes that have not started, with the reasons
}

// worker is a priced node, with room, of an instance type that can be bought.
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
		kind := typeOf(node)
		n := cluster.Node{Name: node.Name, Flavor: kind, Class: class.Any, MicroDollarsPerHour: price, Age: b.options.Now.Sub(node.CreationTimestamp.Time)}
		stays := ""
		if controlPlane(node) {
			stays = "it is a control plane node"
			n.Kept, n.KeptFor = true, stays
		} else if why := world.Unstarted(node); why != "" {
			n.Kept, n.KeptFor = true, "it has not started yet: "+why
			b.unstarted = append(b.unstarted, node.Name+": "+why)
		}
		all := audit.Node{Node: b.view.Node(node, n), InstanceType: kind, CapacityType: capacityType(node), Unpriced: unpriced, Stays: stays}
		all.Arch = archOf(node)
		_, ready := world.Ready(node)
		all.Unready, all.Goes = !ready, world.Goes(node)
		allocatable := node.Status.Allocatable
		all.Whole = packing.Size{MilliCPU: allocatable.Cpu().MilliValue(), MemoryBytes: allocatable.Memory().Value()}
		all.WholePods = allocatable.Pods().Value()
		b.readPods(&all)
		if used, measured := b.use[node.Name]; measured {
			all.Use = &used
		}
		if unpriced == "" && stays == "" && all.InstanceType != "" && all.Arch != "" && all.Whole.MilliCPU > 0 && all.Whole.MemoryBytes > 0 && all.WholePods > 0 {
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
	groups := map[[2]string]audit.Request{}
	for _, pod := range b.view.On(n.Name) {
		size, _ := world.Requests(pod)
		n.Requested = n.Requested.Plus(size)
		n.AllPods++
		key := [2]string{pod.Namespace, pod.Labels[b.ByLabel]}
		group := groups[key]
		groups[key] = audit.Request{Namespace: key[0], Label: key[1], Pods: group.Pods + 1, Size: group.Plus(size)}
		i, is := at[world.PodName(pod)]
		if !is {
			continue // a DaemonSet pod or a static pod
		}
		b.bindArch(&n.Pods[i], n.Arch)
		demands, held := b.view.Successor(pod)
		if held == "" {
			n.Pods[i].Demands = demands
		} else if n.Stays == "" {
			n.Stays = fmt.Sprintf("no machine is planned for its pod %s: %s", n.Pods[i].Name, held)
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(groups), func(x, y [2]string) int { return slices.Compare(x[:], y[:]) }) {
		n.Requests = append(n.Requests, groups[key])
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

// typeOf returns the instance type of a node. A node without one has that of its size, such as 4cpu-16gib; empty if the
// size is unknown, too.
func typeOf(node *corev1.Node) string {
	kind, size := InstanceType(node), capacityOf(node)
	if kind != "" || size.MilliCPU <= 0 || size.MemoryBytes <= 0 {
		return kind
	}
	return fmt.Sprintf("%vcpu-%.0fgib", float64(size.MilliCPU)/1000, float64(size.MemoryBytes)/(1<<30))
}

// InstanceType returns the instance type of a node; empty if unknown.
func InstanceType(node *corev1.Node) string {
	return cmp.Or(node.Labels[corev1.LabelInstanceTypeStable], node.Labels[corev1.LabelInstanceType])
}
