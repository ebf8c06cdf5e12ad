package auditor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/fleet/pricelist"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/text/dollars"
)

// Pricer determines the prices of nodes. It is not safe for concurrent use.
type Pricer struct {
	own         map[string]*catalogue.Price // the user's prices, by instance type
	lists       map[place]map[string]*catalogue.Flavor
	deployments map[string]string // the price annotation of MachineDeployments, by namespace/name
	used        map[place]int     // the number of nodes with a price of a list
	asked       map[place]place   // the place whose prices are used, by the place of nodes
}

// place is a price list and one of its regions.
type place struct{ list, region string }

// NewPricer returns a Pricer that uses the annotations of MachineDeployments, the user's own prices
// and list prices.
func NewPricer(from *objects.Objects, own []catalogue.Price) *Pricer {
	p := &Pricer{
		own: byName(own, func(p *catalogue.Price) string { return p.Name }), lists: map[place]map[string]*catalogue.Flavor{}, deployments: map[string]string{},
		used: map[place]int{}, asked: map[place]place{},
	}
	for i := range from.Deployments {
		d := &from.Deployments[i]
		if text, is := d.Annotations[v1alpha1.AnnotationPricePerHour]; is {
			p.deployments[d.Namespace+"/"+d.Name] = text
		}
	}
	return p
}

func byName[F any](flavors []F, nameOf func(*F) string) map[string]*F {
	all := make(map[string]*F, len(flavors))
	for i := range flavors {
		all[nameOf(&flavors[i])] = &flavors[i]
	}
	return all
}

// Price returns the price of a node, in micro-dollars per hour, or why it is unknown. The
// annotation of the node takes precedence, then that of its MachineDeployment, the user's prices,
// and list prices. List prices are for Linux and on demand only: only an annotation or the user's
// prices of spot machines price a spot machine.
func (p *Pricer) Price(node *corev1.Node) (microDollars int64, unpriced string) {
	for _, text := range []string{node.Annotations[v1alpha1.AnnotationPricePerHour], p.deployments[deploymentOf(node)]} {
		if text == "" {
			continue
		}
		price, err := dollars.Parse(text)
		if err != nil {
			return 0, fmt.Sprintf("annotation %s: %v", v1alpha1.AnnotationPricePerHour, err)
		}
		return price, ""
	}
	kind := InstanceType(node)
	if kind == "" {
		return 0, "it has no label " + corev1.LabelInstanceTypeStable
	}
	if spot(node) {
		if price := p.spotPrice(kind); price != nil {
			return *price, ""
		}
		return 0, fmt.Sprintf("it is a spot machine, whose price changes: set annotation %s to its price, or spot_price_per_hour of %s in --prices",
			v1alpha1.AnnotationPricePerHour, kind)
	}
	if f := p.own[kind]; f != nil {
		return f.MicroDollarsPerHour, ""
	}
	if os := node.Labels[corev1.LabelOSStable]; os != "" && os != string(corev1.Linux) {
		return 0, "list prices are for Linux, and it runs " + os
	}
	list := provider(node)
	if list == "" {
		return 0, "its cloud provider is unknown: it has neither a provider ID nor a label of AWS, Azure or Google Cloud"
	}
	at := p.nearest(place{list, region(node)})
	f := p.list(at)[kind]
	if f == nil {
		return 0, fmt.Sprintf("the list prices of %s in %s do not include instance type %s", at.list, at.region, kind)
	}
	p.used[at]++
	return f.MicroDollarsPerHour, ""
}

// spotPrice returns the user's price of an instance type as a spot machine; nil if unknown.
func (p *Pricer) spotPrice(instanceType string) *int64 {
	if own := p.own[instanceType]; own != nil {
		return own.SpotMicroDollarsPerHour
	}
	return nil
}

// list returns the prices of a place, by instance type.
func (p *Pricer) list(at place) map[string]*catalogue.Flavor {
	if p.lists[at] == nil {
		types, err := pricelist.Read(at.list, at.region)
		if err != nil {
			panic(err) // nearest returns only places that exist
		}
		p.lists[at] = byName(types, func(f *catalogue.Flavor) string { return f.Name })
	}
	return p.lists[at]
}

// nearest returns the place whose prices are used for nodes of a place.
func (p *Pricer) nearest(of place) place {
	at, known := p.asked[of]
	if !known {
		at = place{of.list, nearestRegion(of.region, pricelist.Regions(of.list))}
		p.asked[of] = at
	}
	return at
}

// market returns the place whose prices most nodes have, if any; ties by name.
func (p *Pricer) market() (place, bool) {
	var most place
	for _, at := range slices.SortedFunc(maps.Keys(p.used), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.list, b.list), cmp.Compare(a.region, b.region))
	}) {
		if p.used[at] > p.used[most] {
			most = at
		}
	}
	return most, p.used[most] > 0
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

// spot reports whether a label marks a spot machine.
func spot(node *corev1.Node) bool {
	for label, value := range map[string]string{
		"karpenter.sh/capacity-type": "spot", "eks.amazonaws.com/capacityType": "SPOT", "cloud.google.com/gke-spot": "true",
		"cloud.google.com/gke-preemptible": "true", "kubernetes.azure.com/scalesetpriority": "spot",
	} {
		if node.Labels[label] == value {
			return true
		}
	}
	return false
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
