package purchase

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// cliques are sets of pods of which no machine holds two: they repel each other by pod anti-affinity on nodes, or
// request the same host port.
type cliques struct {
	of    []int32 // by pod: its largest clique, or noClique
	sizes []int   // by clique, at least two
}

const (
	noClique int32 = -1
	// cliqueMeasures is the number of measures of cliques.
	cliqueMeasures = 2
	// wholeClique is the maximum that all cliques of a measure take of a machine together.
	wholeClique = 1 << 20
)

// newCliques returns the cliques of the pods, numbered in the order of first appearance. A pod in several cliques
// counts to the one with the most pods, the first by name.
func newCliques(pods []Pod) cliques {
	c := cliques{of: make([]int32, len(pods))}
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
		c.of[i] = noClique
		name := largest(&pods[i])
		if members[name] < 2 {
			continue
		}
		if _, known := numbers[name]; !known {
			numbers[name] = int32(len(numbers))
			c.sizes = append(c.sizes, members[name])
		}
		c.of[i] = numbers[name]
	}
	return c
}

// parts returns, by measure and clique, the part of a machine that a pod takes, in 1/wholeClique. A machine has at most
// one pod of each clique, so parts that sum to no more than the whole over all cliques are a measure. One measure
// divides the machine among the largest cliques, the other among those of more than half that size: prices determine
// which of them require more machines than the pods' sizes do.
func (c *cliques) parts() [][]uint64 {
	var found [][]uint64
	if len(c.sizes) == 0 {
		return nil
	}
	most := slices.Max(c.sizes)
	for _, least := range []int{most, most/2 + 1} {
		among := uint64(0)
		for _, size := range c.sizes {
			if size >= least {
				among++
			}
		}
		parts := make([]uint64, len(c.sizes))
		for i, size := range c.sizes {
			if size >= least {
				parts[i] = wholeClique / among
			}
		}
		if len(found) == 0 || !slices.Equal(found[0], parts) {
			found = append(found, parts)
		}
	}
	return found
}

// measuresOf returns some measures and those of the cliques of the problem.
func (p *problem) measuresOf(some []int) []int {
	return slices.Concat(some, between(byClique, byClique+p.cliqueMeasures))
}

// together reports whether one machine may hold pods of all these kinds: no two of one clique.
func (p *problem) together(kinds []int32) bool {
	if p.cliques == 0 {
		return true
	}
	for i, k := range kinds {
		if !p.joins(k, kinds[:i]) {
			return false
		}
	}
	return true
}

// joins reports whether a machine that holds pods of some kinds may also hold one of kind k.
func (p *problem) joins(k int32, kinds []int32) bool {
	c := p.kinds[k].clique
	return c == noClique || !slices.ContainsFunc(kinds, func(other int32) bool { return p.kinds[other].clique == c })
}
