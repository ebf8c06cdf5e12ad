package constraint

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Quota is an upper bound on how many of some pods can be placed in any one domain of a topology key, whatever the
// order of placement and whatever further hosts are added.
type Quota struct {
	TopologyKey string
	Most        int
	// Pods are the pods that the bound counts.
	Pods map[*Pod]bool
}

// Quotas returns the quotas that follow from hard spread constraints and from anti-affinity by keys other than the host
// name. hosts are the known hosts, there the pods on them, coming the pods to place, repeated once per replica. All new
// hosts must exist before the first pod is placed. The quotas are in the order in which the pods first meet them.
//
// Let s be the skew of a spread, and x the pods in the domain that receives the last pod. Then x ≤ s
// + l, where l is the fewest pods in any of the D domains in the end, which all have x + (D −
// 1)·l at least of the N counted pods. So x ≤ (s·(D − 1) + N) / D, which decreases as D grows. With fewer domains than
// minDomains, l is 0.
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
	all := countPods(there, coming)
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
				most = t.most(term, all)
			}
			add(name, p.compiler.keys[term.key], most, p)
		}
	}
	return found
}

// countPods returns how often each pod is in the lists, without nil.
func countPods(lists ...[]*Pod) map[*Pod]int {
	count := map[*Pod]int{}
	for _, list := range lists {
		for _, p := range list {
			if p != nil {
				count[p]++
			}
		}
	}
	return count
}

// most returns an upper bound on the pods with the term in one domain. all are the numbers of all pods that will exist.
func (t *Tracker) most(term *spreadTerm, all map[*Pod]int) int {
	def, count := t.compiler.spreads[term.spread], 0
	for p, n := range all {
		if p.identity.belongsTo(def.audience) {
			count += n
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
