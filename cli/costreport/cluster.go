package costreport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/cli/auditor"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/world"
)

// OfCluster divides what the nodes of a cluster cost now over the pods on them, those of DaemonSets and static pods
// included. Pods without a node cost nothing.
//
// Cost: O(nodes + pods · log pods).
func OfCluster(from *objects.Objects, pricing auditor.Pricing, by By) *Report {
	pricer := auditor.NewPricer(from, pricing)
	r, a := &Report{By: by.String()}, newAccount()
	on := map[string][]*corev1.Pod{}
	for i := range from.Pods {
		if p := &from.Pods[i]; p.Spec.NodeName != "" {
			on[p.Spec.NodeName] = append(on[p.Spec.NodeName], p)
		}
	}
	nodes := make([]*corev1.Node, len(from.Nodes))
	for i := range from.Nodes {
		nodes[i] = &from.Nodes[i]
	}
	slices.SortFunc(nodes, func(x, y *corev1.Node) int { return cmp.Compare(x.Name, y.Name) })
	for _, node := range nodes {
		price, unpriced := pricer.Price(node)
		if unpriced != "" {
			r.Unpriced = append(r.Unpriced, Unpriced{node.Name, unpriced})
			continue
		}
		r.Nodes++
		pods := on[node.Name]
		slices.SortFunc(pods, func(x, y *corev1.Pod) int {
			return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
		})
		asks := make([]ask, len(pods))
		for i, p := range pods {
			size, _ := world.Requests(p)
			asks[i] = ask{by.of(p), size}
			a.pods[asks[i].group]++
		}
		allocatable := node.Status.Allocatable
		a.charge(float64(price), sharesOf(packing.Size{MilliCPU: allocatable.Cpu().MilliValue(), MemoryBytes: allocatable.Memory().Value()}, asks))
	}
	if sources := pricer.Sources(); len(sources) > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("Prices: %s.", strings.Join(sources, ", ")))
	}
	a.report(r, rate)
	return r
}

// of returns the group of a pod.
func (b By) of(p *corev1.Pod) string {
	if b.Label == "" {
		return p.Namespace
	}
	return p.Labels[b.Label]
}
