package purchase

import (
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// newCliques returns the clique of each pod, numbered in the order of first appearance, or [mix.None]. A clique is a set
// of at least two pods of which no machine holds two: they repel each other by pod anti-affinity on nodes, or request
// the same host port. A pod in several cliques counts to the one with the most pods, the first by name.
func newCliques(pods []Pod) []int32 {
	cliques := make([]int32, len(pods))
	names, all := map[*constraint.Pod][]string{}, map[string]int{}
	for i := range pods {
		demands := pods[i].Demands
		if demands == nil || demands.Plain() {
			continue
		}
		if _, known := names[demands]; !known {
			names[demands] = demands.Apart(corev1.LabelHostname)
		}
		for _, name := range names[demands] {
			all[name]++
		}
	}
	members := map[string]int{}
	largest := func(p *Pod) string {
		best := ""
		for _, name := range names[p.Demands] {
			if best == "" || all[name] > all[best] || all[name] == all[best] && name < best {
				best = name
			}
		}
		return best
	}
	for i := range pods {
		if name := largest(&pods[i]); name != "" {
			members[name]++
		}
	}
	numbers := map[string]int32{}
	for i := range pods {
		cliques[i] = mix.None
		name := largest(&pods[i])
		if members[name] < 2 {
			continue
		}
		if _, known := numbers[name]; !known {
			numbers[name] = int32(len(numbers))
		}
		cliques[i] = numbers[name]
	}
	return cliques
}
