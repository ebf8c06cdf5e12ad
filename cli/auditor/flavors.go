package auditor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/world"
)

// machine is an instance type that can be bought.
type machine struct {
	name    string
	size    packing.Size
	maxPods int64
	arch    string
	price   int64
	labels  map[string]string // labels that pods refer to and that depend on the type
	seen    bool              // a node of it exists
	sold    string            // its capacity type
	// labelled is whether its nodes have its name as their instance type.
	labelled bool
}

// pool is the configured properties that nodes share: labels that pods refer to, and taints.
type pool struct {
	labels map[string]string
	taints []corev1.Taint
	nodes  []string
	offering
	static  packing.Size
	statics int64
}

// offering is what machines for sale and pools have in common.
type offering struct {
	spot bool
	// system is the operating system, as in GOOS.
	system string
}

// offeringOf returns the offering of a node.
func offeringOf(node *corev1.Node) offering { return offering{spot(node), systemOf(node)} }

// readFlavors builds the flavors: every machine with the labels and taints of each pool of nodes,
// in each zone if pods refer to zones. Spot machines are only for pools of spot machines, which have
// no others, and likewise for operating systems.
func (b *observer) readFlavors() {
	honoured := b.honoured()
	machines := map[offering][]machine{}
	zones := b.zones(honoured)
	pools := b.pools(honoured)
	for i := range pools {
		p := &pools[i]
		if _, known := machines[p.offering]; !known {
			machines[p.offering] = b.machines(honoured, p.offering)
		}
		p.static, p.statics = b.view.Static(p.nodes)
		for _, zone := range zones {
			for _, m := range machines[p.offering] {
				b.addFlavor(m, p, i, zone, honoured)
			}
		}
	}
}

// addFlavor adds a machine of a pool in a zone, minus the room of DaemonSet pods and static pods.
func (b *observer) addFlavor(m machine, p *pool, number int, zone map[string]string, honoured map[string]bool) {
	labels := map[string]string{
		corev1.LabelArchStable: m.arch, corev1.LabelOSStable: p.system,
	}
	if m.labelled {
		labels[corev1.LabelInstanceTypeStable], labels[corev1.LabelInstanceType] = m.name, m.name
	}
	for _, more := range []map[string]string{p.labels, m.labels, zone} {
		maps.Copy(labels, more)
	}
	constraint.AddFollowing(labels)
	host := &constraint.Host{Labels: labels, Taints: p.taints, Attaches: b.attaches(m.name)}
	view := b.view
	if !m.seen {
		view = b.unlabelled(honoured)
	}
	size, _, pods, residents := view.Overhead(host)
	host.Residents = residents
	size, pods = size.Plus(p.static), pods+p.statics
	f := audit.Flavor{InstanceType: m.name, CapacityType: m.sold, Flavor: cluster.Flavor{
		Name: fmt.Sprintf("%s pool %d %s", m.name, number, zone[corev1.LabelTopologyZone]), Size: m.size.Minus(size), Resources: b.view.Extended(), MaxPods: new(m.maxPods - pods), Arch: m.arch,
		MicroDollarsPerHour: m.price, Host: host,
	}}
	if f.Size.MilliCPU <= 0 || f.Size.MemoryBytes <= 0 || *f.MaxPods <= 0 {
		return // DaemonSets fill it
	}
	b.Flavors = append(b.Flavors, f)
}

// attaches returns how many volumes of each CSI driver a machine of a type can attach: the least of its nodes or, if there
// are none with a driver, of all nodes. It is nil if no driver is known.
func (b *observer) attaches(machineType string) map[string]int64 {
	if b.attached == nil {
		b.attached = map[string]map[string]int64{}
		nodes := map[string][]string{}
		for name, node := range b.view.Nodes {
			nodes[typeOf(node)] = append(nodes[typeOf(node)], name)
		}
		for of, names := range nodes {
			b.attached[of] = b.view.Attaches(names)
		}
		b.attachedAnywhere = b.view.Attaches(slices.Collect(maps.Keys(b.view.Nodes)))
	}
	if of := b.attached[machineType]; of != nil {
		return of
	}
	return b.attachedAnywhere
}

// unlabelled returns the view for machines of types of which there is no node. Their labels that depend on the type are
// unknown, except those that every machine has, so they may run any of the DaemonSets that refer to them.
func (b *observer) unlabelled(honoured map[string]bool) *world.View {
	if b.untyped == nil {
		b.untyped = b.view.WithoutLabels(func(label string) bool { return honoured[label] && ofType(label) && !known(label) })
	}
	return b.untyped
}

// known reports whether a label that depends on the type is known for types of which there is no node.
func known(label string) bool {
	switch label {
	case corev1.LabelInstanceTypeStable, corev1.LabelInstanceType, corev1.LabelArchStable, labelBetaArch:
		return true
	}
	return false
}

const labelBetaArch = "beta.kubernetes.io/arch"

// respected returns the node labels that pods, DaemonSets or volumes refer to.
func (b *observer) honoured() map[string]bool {
	all := map[string]bool{}
	terms := func(s *corev1.NodeSelector) {
		if s == nil {
			return
		}
		for _, t := range s.NodeSelectorTerms {
			for _, e := range t.MatchExpressions {
				all[e.Key] = true
			}
		}
	}
	read := func(spec *corev1.PodSpec) {
		for key := range spec.NodeSelector {
			all[key] = true
		}
		if a := spec.Affinity; a != nil {
			if a.NodeAffinity != nil {
				terms(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
			}
			if a.PodAffinity != nil {
				for _, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
					all[t.TopologyKey] = true
				}
			}
			if a.PodAntiAffinity != nil {
				for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
					all[t.TopologyKey] = true
				}
			}
		}
		for _, t := range spec.TopologySpreadConstraints {
			all[t.TopologyKey] = true
		}
	}
	for i := range b.view.Pods {
		read(&b.view.Pods[i].Spec)
	}
	for i := range b.view.Daemons {
		read(&b.view.Daemons[i].Spec.Template.Spec)
	}
	for i := range b.objects.Volumes {
		if a := b.objects.Volumes[i].Spec.NodeAffinity; a != nil {
			terms(a.Required)
		}
	}
	for i := range b.objects.Classes {
		for _, t := range b.objects.Classes[i].AllowedTopologies {
			for _, e := range t.MatchLabelExpressions {
				all[e.Key] = true
			}
		}
	}
	delete(all, corev1.LabelHostname)
	return all
}

// ofType reports whether a label of a node depends on its instance type.
func ofType(label string) bool {
	switch label {
	case corev1.LabelInstanceTypeStable, corev1.LabelInstanceType, corev1.LabelArchStable, labelBetaArch, "cloud.google.com/machine-family", v1alpha1.LabelMachineType:
		return true
	}
	for _, prefix := range []string{"karpenter.k8s.aws/instance-", "karpenter.azure.com/sku-", "karpenter.k8s.gcp/instance-", "nvidia.com/", "feature.node.kubernetes.io/", "cloud.google.com/gke-accelerator"} {
		if strings.HasPrefix(label, prefix) {
			return true
		}
	}
	return false
}

// ofZone reports whether a label of a node depends on its zone.
func ofZone(label string) bool {
	return constraint.NamesZone(label) || strings.HasPrefix(label, "topology.") && strings.HasSuffix(label, "/zone")
}

// some returns the respected labels of a node that are wanted.
func some(node *corev1.Node, honoured map[string]bool, wanted func(label string) bool) map[string]string {
	found := map[string]string{}
	for label := range honoured {
		if value, has := node.Labels[label]; has && wanted(label) {
			found[label] = value
		}
	}
	return found
}

// zones returns the labels of each zone; one without labels if no pod refers to zones.
func (b *observer) zones(honoured map[string]bool) []map[string]string {
	all := map[string]map[string]string{}
	for _, w := range b.workers {
		labels := some(w.node, honoured, ofZone)
		all[fmt.Sprint(labels)] = labels // maps are printed in sorted order
	}
	if len(all) == 0 {
		return []map[string]string{nil}
	}
	var zones []map[string]string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		zones = append(zones, all[key])
	}
	return zones
}

// pools returns the pools of nodes; nil if there are no nodes.
func (b *observer) pools(honoured map[string]bool) []pool {
	byKey := map[string]*pool{}
	for _, w := range b.workers {
		p := &pool{labels: some(w.node, honoured, func(label string) bool { return !ofType(label) && !ofZone(label) }), taints: world.Lasting(w.node), offering: offeringOf(w.node)}
		key := fmt.Sprint(p.labels, p.taints, p.offering)
		if byKey[key] == nil {
			byKey[key] = p
		}
		byKey[key].nodes = append(byKey[key].nodes, w.node.Name)
	}
	var all []pool
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		all = append(all, *byKey[key])
	}
	return all
}

// machines returns the instance types of an offering that can be bought, sorted by name: those of nodes, with the least room
// and the lowest price of their nodes, and those of the market for architectures of nodes, which has prices for Linux
// only. Of the latter it omits machines that another of the same
// architecture can replace at the same price or less, unless pods refer to labels of the type.
func (b *observer) machines(honoured map[string]bool, of offering) []machine {
	found := map[string]machine{}
	sold := audit.OnDemand
	if of.spot {
		sold = audit.Spot
	}
	for _, w := range b.workers {
		allocatable := w.node.Status.Allocatable
		m := machine{
			name: typeOf(w.node), arch: archOf(w.node), price: w.price, seen: true, sold: sold, labelled: InstanceType(w.node) != "",
			size:    b.view.Allocatable(w.node),
			maxPods: allocatable.Pods().Value(), labels: some(w.node, honoured, ofType),
		}
		if offeringOf(w.node) != of {
			continue
		}
		if known, is := found[m.name]; is {
			m.size = m.size.Least(known.size)
			m.maxPods, m.price, m.labels = min(m.maxPods, known.maxPods), min(m.price, known.price), known.labels
		}
		found[m.name] = m
	}
	market := b.forSale
	if of.system != string(corev1.Linux) {
		market = nil
	}
	for _, f := range market {
		price := b.pricer.sale(f, sold)
		if _, is := found[f.Name]; is || price == nil || !b.archs[cmp.Or(f.Arch, "amd64")] || f.Size == (packing.Size{}) {
			continue
		}
		found[f.Name] = machine{
			name: f.Name, arch: cmp.Or(f.Arch, "amd64"), price: *price, sold: sold, labelled: true, maxPods: ptr.Deref(f.MaxPods, defaultMaxPods),
			size: packing.Size{MilliCPU: f.Size.MilliCPU, MemoryBytes: f.Size.MemoryBytes},
		}
	}
	all := slices.SortedFunc(maps.Values(found), func(x, y machine) int { return cmp.Compare(x.name, y.name) })
	if !evaluatesTypes(honoured) {
		all = undominated(all)
	}
	return all
}

// defaultMaxPods is the default maximum number of pods: that of the kubelet.
const defaultMaxPods = 110

func evaluatesTypes(honoured map[string]bool) bool {
	for label := range honoured {
		if ofType(label) && label != corev1.LabelArchStable && label != labelBetaArch {
			return true
		}
	}
	return false
}

// undominated omits machines without nodes that another machine can replace. Of equal machines the
// first stays.
func undominated(all []machine) []machine {
	replaces := func(x, y *machine) bool {
		return x.arch == y.arch && y.size.Fits(x.size) && x.maxPods >= y.maxPods && x.price <= y.price
	}
	var left []machine
	for i := range all {
		dominated := false
		for j := range all {
			dominated = dominated || i != j && replaces(&all[j], &all[i]) && (j < i || !replaces(&all[i], &all[j]))
		}
		if all[i].seen || !dominated {
			left = append(left, all[i])
		}
	}
	return left
}

// readMarket reads the instance types that may be bought, sorted by name. A pattern without a match
// is an error: it is misspelt, or for another cloud provider.
func (b *observer) readMarket() error {
	all := b.market()
	slices.SortFunc(all, func(x, y catalogue.Flavor) int { return cmp.Compare(x.Name, y.Name) })
	var unmatched []string
	if b.forSale, unmatched = catalogue.Choose(b.options.InstanceTypes, all); len(unmatched) > 0 {
		return &UnknownTypesError{Patterns: unmatched, Source: b.Source}
	}
	b.omitted.archs = map[string]bool{}
	for _, f := range b.forSale {
		if arch := cmp.Or(f.Arch, "amd64"); !b.archs[arch] {
			b.omitted.archs[arch] = true
		}
	}
	return nil
}

// UnknownTypesError reports patterns that match no instance type with a price.
type UnknownTypesError struct {
	Patterns []string
	// Source is the source of the prices.
	Source string
}

// Error implements error.
func (e *UnknownTypesError) Error() string {
	return fmt.Sprintf("no instance type in %s matches %s", e.Source, strings.Join(e.Patterns, ", "))
}

// omitted are instance types that are not for sale: with architectures that no node has, and those that are no nodes, of
// which one is named.
type omitted struct {
	archs   map[string]bool
	unfit   int
	example string
}

// market returns the instance types for sale: the user's prices and, for other types, the price
// list of the place where most nodes are. It leaves out types that are no nodes unless the user names them.
func (b *observer) market() []catalogue.Flavor {
	var all []catalogue.Flavor
	b.Source = "the prices of the nodes"
	if b.pricer.sized > 0 {
		b.Source = "CPU and memory at the default prices"
	}
	for _, f := range b.pricer.own {
		all = append(all, f.Flavor)
		b.Source = "the prices given"
	}
	if at, is := b.pricer.market(); is {
		for _, name := range slices.Sorted(maps.Keys(b.pricer.list(at))) {
			f := b.pricer.list(at)[name]
			switch {
			case b.pricer.own[name] != nil:
			case isNode(at.list, f) || slices.Contains(b.options.InstanceTypes, name):
				all = append(all, *f)
			case b.archs[cmp.Or(f.Arch, "amd64")]:
				if chosen, _ := catalogue.Choose(b.options.InstanceTypes, []catalogue.Flavor{*f}); len(chosen) > 0 { // else the user leaves it out
					b.omitted.unfit++
					b.omitted.example = cmp.Or(b.omitted.example, name)
				}
			}
		}
		of := listPrices(at)
		if len(b.pricer.own) > 0 {
			of = "the prices given and " + of
		}
		b.Source = of
	}
	return all
}
