package constraint

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Quota says that of some pods no more than Most come to any one domain of a topology key, in
// whatever order they come and whatever hosts there are beside those that are known.
type Quota struct {
	TopologyKey string
	Most        int
	// Pods are the pods that count.
	Pods map[*Pod]bool
}

// Quotas returns those that follow from hard spread constraints and from anti-affinity by
// other keys than that of hosts, about pods that come, each as often as it does. Hosts are
// known to be there, and so are the pods on them. All hosts to come are there before the first
// pod comes. The order is that in which the pods first meet them.
//
// Of a spread with skew s, let x pods come to a domain in which one more comes last. Then x ≤ s
// + l, where l is the fewest pods in any of the D domains in the end, which all have x + (D −
// 1)·l at least of the N pods that count. So x ≤ (s·(D − 1) + N) / D, which is less the more
// domains there are. With fewer than minDomains, l counts as 0.
func Quotas(hosts []*Host, there, coming []*Pod) []Quota {
	t := NewTracker()
	for _, h := range hosts {
		t.AddHost(h)
	}
	var found []Quota
	at := map[string]int{}
	add := func(name, key string, most int, p *Pod) {
		if _, known := at[name]; !known {
			at[name] = len(found)
			found = append(found, Quota{TopologyKey: key, Most: most, Pods: map[*Pod]bool{}})
		}
		found[at[name]].Pods[p] = true
	}
	seen := map[*Pod]bool{}
	for _, p := range coming {
		if seen[p] {
			continue
		}
		seen[p] = true
		t.adopt(p)
		for _, key := range p.TopologyKeys() {
			if key == corev1.LabelHostname {
				continue
			}
			for _, name := range p.Apart(key) {
				add(name, key, 1, p)
			}
		}
		for i := range p.spreads {
			term := &p.spreads[i]
			def := p.compiler.spreads[term.spread]
			if term.self == 0 || def.audience == nil {
				continue
			}
			name := "spread " + strconv.Itoa(term.spread) + " " + strconv.Itoa(term.maxSkew) + " " + strconv.Itoa(term.minDomains)
			most := 0
			if _, known := at[name]; !known {
				most = t.most(term, slices.Concat(there, coming))
			}
			add(name, p.compiler.keys[term.key], most, p)
		}
	}
	return found
}

// most returns how many pods with the term come to one domain at most, of all pods that there
// will be.
func (t *Tracker) most(term *spreadTerm, all []*Pod) int {
	def, count := t.compiler.spreads[term.spread], 0
	for _, p := range all {
		if p != nil && p.look.belongsTo(def.audience) {
			count++
		}
	}
	known := t.spread(term.spread).domains
	domains := max(known, term.minDomains, 1)
	most := (term.maxSkew*(domains-1) + count) / domains
	if known < term.minDomains {
		most = max(most, term.maxSkew)
	}
	return most
}
