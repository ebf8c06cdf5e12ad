package auditor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/plural"
)

// Pricing is what the user states about prices.
type Pricing struct {
	// Own are the user's prices, by instance type. They take precedence over list prices.
	Own []catalogue.Price
	// Region is the region whose list prices are used for all nodes of the providers that have it; empty for the region
	// of each node.
	Region string
	// Discounts are the fractions by which prices are lower, by capacity type, from 0 to less than 1. That of on-demand
	// machines applies to list prices. That of spot machines applies to the price on demand, a list price or one of Own,
	// of an instance type whose price as a spot machine is not stated.
	Discounts map[string]float64
	// PerCPU and PerGiB are the prices of a CPU and of a GiB of memory, in micro-dollars per hour, for nodes without any
	// other price. Both are 0 if there are none.
	PerCPU, PerGiB int64
}

// Pricer determines the prices of nodes. It is not safe for concurrent use.
type Pricer struct {
	Pricing
	own         map[string]*catalogue.Price // the user's prices, by instance type, with sizes if known
	nominal     []string                    // those of own whose stated size is more than pods can use
	lists       map[place]map[string]*catalogue.Flavor
	deployments map[string]string // the price annotation of MachineDeployments, by namespace/name
	used        map[place]int     // the number of nodes with a price of a list
	annotated   int               // the number of nodes with a price in an annotation
	given       int               // the number of nodes with a price of own
	asked       map[place]*asked  // by the place of nodes
	sized       int               // the number of nodes with a price of CPU and memory
}

// place is a price list and one of its regions.
type place struct{ list, region string }

// asked is the place whose prices are used for the nodes of a place, and their number.
type asked struct {
	place
	nodes int
}

// NewPricer returns a Pricer that uses the annotations of MachineDeployments, what the user states, and list prices.
func NewPricer(from *objects.Objects, stated Pricing) *Pricer {
	p := &Pricer{
		Pricing: stated, own: make(map[string]*catalogue.Price, len(stated.Own)), lists: map[place]map[string]*catalogue.Flavor{}, deployments: map[string]string{},
		used: map[place]int{}, asked: map[place]*asked{},
	}
	p.readOwn()
	for i := range from.Deployments {
		d := &from.Deployments[i]
		if text, is := d.Annotations[v1alpha1.AnnotationPricePerHour]; is {
			p.deployments[d.Namespace+"/"+d.Name] = text
		}
	}
	return p
}

// readOwn completes the user's prices of instance types that a list has: what pods can use, which is less than what the
// type has in name, the architecture, the maximum number of pods, and the kind.
func (p *Pricer) readOwn() {
	for _, own := range p.Own {
		p.own[own.Name] = &own
		known := p.anywhere(own.Name)
		if known == nil {
			continue
		}
		stated := own.Size
		if own.Size = known.Size; stated != (packing.Size{}) {
			own.Size = packing.Size{MilliCPU: min(stated.MilliCPU, known.Size.MilliCPU), MemoryBytes: min(stated.MemoryBytes, known.Size.MemoryBytes)}
			if own.Size != stated {
				p.nominal = append(p.nominal, own.Name)
			}
		}
		own.Arch, own.Kind = cmp.Or(own.Arch, known.Arch), cmp.Or(own.Kind, known.Kind)
		if own.MaxPods == nil {
			own.MaxPods = known.MaxPods
		}
	}
}

// anywhere returns an instance type of any list; nil if none has it. What pods can use of a type is the same in all
// regions.
func (p *Pricer) anywhere(instanceType string) *catalogue.Flavor {
	for _, list := range pricelist.Lists() {
		for _, region := range pricelist.Regions(list) {
			if f := p.list(place{list, region})[instanceType]; f != nil {
				return f
			}
		}
	}
	return nil
}

// Price returns the price of a node, in micro-dollars per hour, or why it is unknown. The
// annotation of the node takes precedence, then that of its MachineDeployment, the user's prices,
// list prices, and the user's prices of CPU and memory.
func (p *Pricer) Price(node *corev1.Node) (microDollars int64, unpriced string) {
	for _, text := range []string{node.Annotations[v1alpha1.AnnotationPricePerHour], p.deployments[deploymentOf(node)]} {
		if text == "" {
			continue
		}
		price, err := dollars.Parse(text)
		if err != nil {
			return 0, fmt.Sprintf("annotation %s: %v", v1alpha1.AnnotationPricePerHour, err)
		}
		p.annotated++
		return price, ""
	}
	if why := byPod(node); why != "" {
		return 0, why
	}
	price, unpriced := p.byType(node)
	if unpriced != "" && (p.PerCPU > 0 || p.PerGiB > 0) {
		p.sized++
		return p.bySize(node), ""
	}
	return price, unpriced
}

// byType returns the price of a node's instance type, or why it is unknown.
func (p *Pricer) byType(node *corev1.Node) (microDollars int64, unpriced string) {
	kind, sold := InstanceType(node), capacityType(node)
	if kind == "" {
		return 0, untyped
	}
	if own := p.own[kind]; own != nil {
		if price := p.sale(&own.Flavor, sold); price != nil {
			p.given++
			return *price, ""
		}
		return 0, unknownSpot(kind)
	}
	if os := node.Labels[corev1.LabelOSStable]; os != "" && os != string(corev1.Linux) {
		return 0, fmt.Sprintf("list prices are for Linux, and it runs %s: set annotation %s to its price", os, v1alpha1.AnnotationPricePerHour)
	}
	list := provider(node)
	if list == "" {
		return 0, "its cloud provider is unknown: it has neither a provider ID nor a label of AWS, Azure or Google Cloud"
	}
	at := p.nearest(place{list, region(node)})
	f := p.list(at.place)[kind]
	if f == nil {
		return 0, fmt.Sprintf("the list prices of %s in %s do not include instance type %s", at.list, at.region, kind)
	}
	if why := incomplete(node, f); why != "" {
		return 0, why
	}
	price := p.sale(f, sold)
	if price == nil {
		return 0, unknownSpot(kind)
	}
	p.used[at.place]++
	at.nodes++
	return *price, ""
}

// untyped is why the price of a node without an instance type is unknown.
const untyped = "it has no label " + corev1.LabelInstanceTypeStable

// unknownSpot is why the price of a spot machine is unknown.
func unknownSpot(instanceType string) string {
	return fmt.Sprintf("it is a spot machine, whose price changes: set annotation %s to its price, or spot_price_per_hour of %s in --prices",
		v1alpha1.AnnotationPricePerHour, instanceType)
}

// bySize returns the price of a node's CPU and memory.
func (p *Pricer) bySize(node *corev1.Node) int64 {
	size := capacityOf(node)
	price := float64(size.MilliCPU)/1000*float64(p.PerCPU) + float64(size.MemoryBytes)/(1<<30)*float64(p.PerGiB)
	if sold := capacityType(node); sold == audit.Spot {
		price *= 1 - p.Discounts[sold]
	}
	return int64(math.Round(price))
}

// capacityOf returns the CPU and memory of a node, with what the system reserves if that is known.
func capacityOf(node *corev1.Node) packing.Size {
	whole, pods := node.Status.Capacity, node.Status.Allocatable
	return packing.Size{
		MilliCPU:    cmp.Or(whole.Cpu().MilliValue(), pods.Cpu().MilliValue()),
		MemoryBytes: cmp.Or(whole.Memory().Value(), pods.Memory().Value()),
	}
}

// sale returns the price of an instance type, of a list or of the user, as a capacity type; nil if it is unknown.
func (p *Pricer) sale(f *catalogue.Flavor, sold string) *int64 {
	own, discount := p.own[f.Name], p.Discounts[sold]
	switch {
	case sold == audit.Spot && own != nil && own.SpotMicroDollarsPerHour != nil:
		return own.SpotMicroDollarsPerHour
	case sold == audit.Spot && discount == 0:
		return nil
	case sold == audit.OnDemand && own != nil:
		return &own.MicroDollarsPerHour
	}
	return new(int64(math.Round(float64(f.MicroDollarsPerHour) * (1 - discount))))
}

// list returns the prices of a place, by instance type.
func (p *Pricer) list(at place) map[string]*catalogue.Flavor {
	if p.lists[at] == nil {
		types, err := pricelist.Read(at.list, at.region)
		if err != nil {
			panic(err) // nearest returns only places that exist
		}
		p.lists[at] = make(map[string]*catalogue.Flavor, len(types))
		for i := range types {
			p.lists[at][types[i].Name] = &types[i]
		}
	}
	return p.lists[at]
}

// nearest returns the place whose prices are used for nodes of a place.
func (p *Pricer) nearest(of place) *asked {
	if p.asked[of] == nil {
		regions := pricelist.Regions(of.list)
		at := nearestRegion(of.region, regions)
		if slices.Contains(regions, p.Region) {
			at = p.Region
		}
		p.asked[of] = &asked{place: place{of.list, at}}
	}
	return p.asked[of]
}

// selects reports whether list prices of the region that was selected are used for a node.
func (p *Pricer) selects() bool {
	for _, at := range p.asked {
		if at.nodes > 0 && at.region == p.Region {
			return true
		}
	}
	return false
}

// Sources names where the prices of nodes come from. If there are several sources, it says how many nodes each has.
func (p *Pricer) Sources() []string {
	type source struct {
		name  string
		nodes int
	}
	var all []source
	for _, at := range slices.SortedFunc(maps.Keys(p.used), byListAndRegion) {
		all = append(all, source{listPrices(at), p.used[at]})
	}
	all = append(all, source{"the prices given", p.given}, source{"the annotations of nodes or MachineDeployments", p.annotated},
		source{"CPU and memory at the default prices", p.sized})
	all = slices.DeleteFunc(all, func(s source) bool { return s.nodes == 0 })
	names := make([]string, len(all))
	for i, s := range all {
		if names[i] = s.name; len(all) > 1 {
			names[i] += fmt.Sprintf(" (%s)", plural.Count(s.nodes, "node"))
		}
	}
	return names
}

// listPrices names the list prices of a place.
func listPrices(at place) string { return "list prices of " + at.list + " in " + at.region }

// market returns the place whose prices most nodes have, if any; ties by name.
func (p *Pricer) market() (place, bool) {
	var most place
	for _, at := range slices.SortedFunc(maps.Keys(p.used), byListAndRegion) {
		if p.used[at] > p.used[most] {
			most = at
		}
	}
	return most, p.used[most] > 0
}

func byListAndRegion(a, b place) int {
	return cmp.Or(cmp.Compare(a.list, b.list), cmp.Compare(a.region, b.region))
}

// deploymentOf returns namespace/name of the MachineDeployment of a node, from cluster-api's
// annotations: the name of a MachineSet is that of its MachineDeployment plus a suffix. "" if there
// is none.
func deploymentOf(node *corev1.Node) string {
	set := node.Annotations["cluster.x-k8s.io/owner-name"]
	dash := strings.LastIndex(set, "-")
	if node.Annotations["cluster.x-k8s.io/owner-kind"] != "MachineSet" || dash < 0 {
		return ""
	}
	return node.Annotations["cluster.x-k8s.io/cluster-namespace"] + "/" + set[:dash]
}

// capacityType returns how a node is sold.
func capacityType(node *corev1.Node) string {
	if spot(node) {
		return audit.Spot
	}
	return audit.OnDemand
}

// spot reports whether a label marks a spot machine.
func spot(node *corev1.Node) bool {
	return audit.StatedCapacityType(node.Labels) == audit.Spot
}

// provider returns the price list of a node's provider; "" if unknown.
func provider(node *corev1.Node) string {
	scheme, _, _ := strings.Cut(node.Spec.ProviderID, "://")
	switch scheme {
	case "aws", "azure":
		return scheme
	case "gce":
		return "gcp"
	}
	for _, of := range []struct{ domain, list string }{
		{"eks.amazonaws.com/", "aws"}, {"karpenter.k8s.aws/", "aws"}, {"kubernetes.azure.com/", "azure"}, {"cloud.google.com/", "gcp"},
	} {
		for label := range node.Labels {
			if strings.HasPrefix(label, of.domain) {
				return of.list
			}
		}
	}
	return ""
}
