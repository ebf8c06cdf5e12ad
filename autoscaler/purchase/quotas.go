package purchase

import (
	"math"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// quotas are the maximum numbers of certain pods in one domain.
type quotas struct {
	all []constraint.Quota
	of  []int32 // by pod: the quota that it counts to, or [mix.None]
}

// newQuotas returns the quotas for pods that are placed on nodes and machines. A pod counts to its most restrictive
// quota.
func newQuotas(pods []Pod, nodes []ExistingNode) *quotas {
	q := &quotas{of: make([]int32, len(pods))}
	var coming, there []*constraint.Pod
	var hosts []*constraint.Host
	for i := range pods {
		q.of[i] = mix.None
		if c := pods[i].Demands; c != nil && !c.Plain() {
			coming = append(coming, c)
		}
	}
	if len(coming) == 0 {
		return q
	}
	for i := range pods {
		if c := pods[i].Demands; c != nil && c.Plain() {
			there = append(there, c)
		}
	}
	for _, n := range nodes {
		hosts = append(hosts, hostOf(n.Host))
		there = append(there, n.Pods...)
	}
	all := constraint.Quotas(hosts, there, coming)
	members := make([]int, len(all))
	for _, c := range coming {
		for i := range all {
			if all[i].Pods[c] {
				members[i]++
			}
		}
	}
	q.all = all
	choices := map[*constraint.Pod]int32{}
	for i := range pods {
		c := pods[i].Demands
		if c == nil || c.Plain() {
			continue
		}
		if _, known := choices[c]; !known {
			choices[c] = q.narrowest(c, members)
		}
		q.of[i] = choices[c]
	}
	return q
}

// narrowest returns the quota of a pod that admits the smallest share of its members to a domain, the first of equals;
// [mix.None] if each admits all of them. members is the number of pods that count to each quota.
func (q *quotas) narrowest(c *constraint.Pod, members []int) int32 {
	best := mix.None
	for j := range q.all {
		if q.all[j].Pods[c] && q.all[j].Most < members[j] &&
			(best == mix.None || q.all[j].Most*members[best] < q.all[best].Most*members[j]) {
			best = int32(j)
		}
	}
	return best
}

// quotaOf returns the quota of a pod.
func (q *quotas) quotaOf(pod int) int32 {
	if q == nil {
		return mix.None
	}
	return q.of[pod]
}

// keys returns the topology keys of the quotas that pods count to, ordered.
func (q *quotas) keys() []string {
	if q == nil {
		return nil
	}
	var keys []string
	for _, i := range q.of {
		if i != mix.None && !slices.Contains(keys, q.all[i].TopologyKey) {
			keys = append(keys, q.all[i].TopologyKey)
		}
	}
	slices.Sort(keys)
	return keys
}

// input returns the quotas in numbers.
func (q *quotas) input(bins []mix.Bin, flavors []Flavor, rooms []*room) []mix.Quota {
	if q == nil {
		return nil
	}
	found := make([]mix.Quota, len(q.all))
	for i := range q.all {
		if !slices.Contains(q.of, int32(i)) {
			continue
		}
		domains := map[string]int{}
		number := func(h *constraint.Host) int {
			key := q.all[i].TopologyKey
			name := domainOf([]string{key}, h)
			if _, known := domains[name]; !known {
				domains[name] = len(domains)
				most := float64(q.all[i].Most)
				if _, has := hostOf(h).Labels[key]; !has {
					most = math.Inf(1)
				}
				found[i].Most = append(found[i].Most, most)
			}
			return domains[name]
		}
		for b := range bins {
			found[i].Bins = append(found[i].Bins, number(flavors[bins[b].Number].Host))
		}
		for _, r := range rooms {
			found[i].Rooms = append(found[i].Rooms, number(r.Host))
		}
	}
	return found
}
