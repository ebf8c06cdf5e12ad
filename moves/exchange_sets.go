package moves

import (
	"slices"
	"strings"

	"supercargo.dev/supercargo/internal/cluster"
)

const (
	// mostSets is how many sets of machines one search tries.
	mostSets = 256
	// mostTries is how many sets one call tries in total.
	mostTries = 2048
	// exhaustive is the number of candidates up to which all sets are tried.
	exhaustive = 5
)

// sets returns sets of candidates, most promising first. It respects the limits on drained machines and omits sets that
// did not pay.
func (x *exchanger) sets() [][]*cluster.Node {
	all := setList{most: len(x.candidates), unprofitable: x.unprofitable, seen: map[string]bool{}}
	if x.c.Limit > 0 {
		all.most = min(all.most, x.c.Limit-x.emptied)
	}
	if most := x.budget.Machines; most > 0 {
		all.most = min(all.most, most-x.budget.machines)
	}
	first := x.candidates[:min(exhaustive, len(x.candidates))]
	if len(x.candidates) <= exhaustive {
		all.addSubsets(first)
		return all.sets
	}
	for _, n := range x.candidates[:min(8, len(x.candidates))] {
		all.add([]*cluster.Node{n})
	}
	all.addPrefixes(x.candidates, 2, 4)
	kinds := groupByKind(x.candidates)
	for _, kind := range kinds {
		all.addPrefixes(kind, 2, 3)
	}
	all.addPrefixes(x.candidates, 5, len(x.candidates))
	all.addSubsets(first)
	for _, kind := range kinds {
		all.addPrefixes(kind, 4, len(kind))
		for i := 1; i+1 < len(kind); i++ {
			all.add(kind[i : i+2])
		}
	}
	for _, n := range x.candidates {
		all.add([]*cluster.Node{n})
	}
	return all.sets
}

// groupByKind groups machines of one flavor, class and architecture, in the order of the first of each group.
func groupByKind(nodes []*cluster.Node) [][]*cluster.Node {
	var kinds [][]*cluster.Node
	at := map[[3]string]int{}
	for _, n := range nodes {
		key := [3]string{n.Flavor, string(n.Class), n.Arch}
		i, ok := at[key]
		if !ok {
			i = len(kinds)
			at[key] = i
			kinds = append(kinds, nil)
		}
		kinds[i] = append(kinds[i], n)
	}
	return kinds
}

// setList collects sets without duplicates.
type setList struct {
	most               int // maximum number of machines in a set
	unprofitable, seen map[string]bool
	sets               [][]*cluster.Node
}

func (l *setList) add(set []*cluster.Node) {
	key := keyOf(set)
	if len(set) > l.most || len(l.sets) >= mostSets || l.unprofitable[key] || l.seen[key] {
		return
	}
	l.seen[key] = true
	l.sets = append(l.sets, slices.Clone(set)) // candidates will change
}

// addPrefixes adds the first n machines for n in [from, to]. Beyond 8, each prefix is half as long again as the
// previous one.
func (l *setList) addPrefixes(nodes []*cluster.Node, from, to int) {
	to = min(to, len(nodes), l.most)
	for n := from; n <= to; n++ {
		if n > 8 {
			n = min(n-1+(n-1)/2, to)
		}
		l.add(nodes[:n])
	}
}

// addSubsets adds all subsets of the machines, smallest first.
func (l *setList) addSubsets(nodes []*cluster.Node) {
	for size := 1; size <= len(nodes); size++ {
		for mask := range 1 << len(nodes) {
			var set []*cluster.Node
			for i, n := range nodes {
				if mask>>i&1 == 1 {
					set = append(set, n)
				}
			}
			if len(set) == size {
				l.add(set)
			}
		}
	}
}

// keyOf returns a key that is equal for equal sets.
func keyOf(set []*cluster.Node) string {
	all := make([]string, len(set))
	for i, n := range set {
		all[i] = n.Name
	}
	slices.Sort(all)
	return strings.Join(all, "\x00")
}
