package purchase

import (
	"math"
	"slices"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// quotas are the maximum numbers of certain pods in one domain.
type quotas struct {
	all []constraint.Quota
	of  []int32 // by pod: the quota that it counts to, or noQuota
}

const noQuota int32 = -1

// newQuotas returns the quotas for pods that are placed on nodes and machines. A pod counts to its most restrictive
// quota.
func newQuotas(pods []Pod, nodes []ExistingNode) *quotas {
	q := &quotas{of: make([]int32, len(pods))}
	var coming, there []*constraint.Pod
	var hosts []*constraint.Host
	for i := range pods {
		q.of[i] = noQuota
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
// noQuota if each admits all of them. members is the number of pods that count to each quota.
func (q *quotas) narrowest(c *constraint.Pod, members []int) int32 {
	best := noQuota
	for j := range q.all {
		if q.all[j].Pods[c] && q.all[j].Most < members[j] &&
			(best == noQuota || q.all[j].Most*members[best] < q.all[best].Most*members[j]) {
			best = int32(j)
		}
	}
	return best
}

// keys returns the topology keys of the quotas that pods count to, ordered.
func (q *quotas) keys() []string {
	var keys []string
	for _, i := range q.of {
		if i != noQuota && !slices.Contains(keys, q.all[i].TopologyKey) {
			keys = append(keys, q.all[i].TopologyKey)
		}
	}
	slices.Sort(keys)
	return keys
}

// surplus returns how much more the pods are worth than without quotas, and raises the worth of each to its maximum
// over all domains. In each domain with machines, a pod is worth what it is on these machines. In a domain with only
// nodes, it is worth what it is anywhere, and it cannot be in any other domain. All pods of a quota are worth at least
// what they are in the division among domains that makes their total worth least and respects the quota.
func (p *problem) surplus(counts []int32, worth []uint64, v prices) bill {
	var sum bill
	if p.quotas == nil {
		return sum
	}
	members := map[int32][]int{}
	for i := range p.kinds {
		if q := p.kinds[i].quota; q != noQuota && counts[i] > 0 {
			members[q] = append(members[q], i)
		}
	}
	for q := range p.quotas.all {
		if kinds := members[int32(q)]; len(kinds) > 0 {
			s := p.newTransport(&p.quotas.all[q], kinds, counts, worth, v)
			sum = sum.plus(bill{0, s.surplus()})
			for i, k := range kinds {
				for _, w := range s.worth[i] {
					worth[k] = max(worth[k], w)
				}
			}
		}
	}
	return sum
}

// transport divides pods among domains with limited room.
type transport struct {
	most  []float64  // by domain
	pods  []float64  // by kind
	least []uint64   // by kind: the least worth of a pod
	worth [][]uint64 // by kind and domain; notThere where the pod cannot be
}

// notThere marks a domain where a pod cannot be. A pod whose least worth is 0 may be anywhere.
const notThere = 0

func (p *problem) newTransport(q *constraint.Quota, kinds []int, counts []int32, worth []uint64, v prices) *transport {
	s := &transport{}
	domains := map[string]int{}
	domain := func(h *constraint.Host) int {
		name := domainOf([]string{q.TopologyKey}, h)
		at, known := domains[name]
		if !known {
			at = len(domains)
			domains[name] = at
			most := float64(q.Most)
			if _, has := hostOf(h).Labels[q.TopologyKey]; !has {
				most = math.Inf(1)
			}
			s.most = append(s.most, most)
		}
		return at
	}
	in := make([]int, len(p.offers))
	for i := range p.offers {
		in[i] = domain(p.offers[i].Host)
	}
	there := map[int]bool{}
	for _, r := range p.rooms {
		there[domain(r.Host)] = true
	}
	for _, k := range kinds {
		s.pods, s.least = append(s.pods, float64(counts[k])), append(s.least, worth[k])
		of := make([]uint64, len(domains))
		for d := range of {
			of[d] = math.MaxUint64
		}
		for i := range p.offers {
			if kind := &p.kinds[k]; p.holds(i, kind.size, kind.on, 1) {
				of[in[i]] = v.on(p, kind, i, of[in[i]])
			}
		}
		for d := range of {
			if of[d] == math.MaxUint64 {
				of[d] = notThere
				if there[d] {
					of[d] = worth[k]
				}
			}
		}
		s.worth = append(s.worth, of)
	}
	return s
}

// surplus returns a lower bound of how much more the pods are worth together than if each domain had room for all. For
// any prices of a slot in a domain, the sum over the pods of their least worth plus price, minus the prices of all
// slots, is such a bound (weak duality). The prices are optimal up to rounding: the price of a slot is the cost of the
// cheapest way from its domain to one with room, when the pods are divided so that their total worth is least.
func (s *transport) surplus() uint64 {
	whole := 0.0
	for i := range s.pods {
		whole += s.pods[i] * float64(s.least[i])
	}
	in, count := s.divide()
	best := 0.0
	for d := range s.most { // if no domain has room, a slot in one of them is worth nothing
		prices, _, _ := s.ways(in, count, d)
		for d := range prices {
			if math.IsInf(prices[d], 1) {
				prices[d] = 0
			}
			prices[d] = max(0, prices[d])
		}
		best = max(best, s.value(prices))
	}
	// Far more than rounding can have lost.
	value := best - 1e-9*whole
	if value <= 0 || value >= 1<<63 {
		return 0
	}
	return uint64(value)
}

// value returns the bound of surplus for the given prices.
func (s *transport) value(prices []float64) float64 {
	value := 0.0
	for i := range s.pods {
		if d := s.cheapest(i, prices); d >= 0 {
			value += s.pods[i] * (s.more(i, d) + prices[d])
		}
	}
	for d, price := range prices {
		if price > 0 {
			value -= price * s.most[d]
		}
	}
	return value
}

// more returns by how much the worth of a pod of a kind in a domain exceeds its least worth; +Inf where it cannot be.
func (s *transport) more(kind, domain int) float64 {
	w := s.worth[kind][domain]
	if w == notThere && s.least[kind] > notThere {
		return math.Inf(1)
	}
	return float64(w - min(w, s.least[kind]))
}

// cheapest returns the domain where a pod's worth plus price is least, or -1 if it can be nowhere.
func (s *transport) cheapest(kind int, prices []float64) int {
	best, least := -1, math.Inf(1)
	for d := range s.worth[kind] {
		if more := s.more(kind, d) + prices[d]; more < least {
			best, least = d, more
		}
	}
	return best
}

// divide divides the pods so that their total worth is least, by successive shortest paths: while a domain has too many
// pods, some move along the cheapest way to a domain with room. It returns the number of pods by kind and domain, and
// by domain.
func (s *transport) divide() (in [][]float64, count []float64) {
	n := len(s.most)
	in, count = make([][]float64, len(s.pods)), make([]float64, n)
	for i := range s.pods {
		in[i] = make([]float64, n)
		if d := s.cheapest(i, make([]float64, n)); d >= 0 {
			in[i][d] = s.pods[i]
			count[d] += s.pods[i]
		}
	}
	for range 4 * n * (len(s.pods) + n) {
		cost, next, mover := s.ways(in, count, -1)
		from := -1
		for d := range count {
			if count[d] > s.most[d] && !math.IsInf(cost[d], 1) {
				from = d
			}
		}
		if from < 0 {
			break
		}
		amount, to := count[from]-s.most[from], from
		for ; next[to] >= 0; to = next[to] {
			amount = min(amount, in[mover[to]][to])
		}
		amount = min(amount, s.most[to]-count[to])
		for at := from; next[at] >= 0; at = next[at] {
			in[mover[at]][at] -= amount
			in[mover[at]][next[at]] += amount
		}
		count[from], count[to] = count[from]-amount, count[to]+amount
	}
	return in, count
}

// ways returns, by domain, the cost of the cheapest way to a domain with room, or to the domain room, the next domain
// on it, or -1 if there is room, and the kind that moves there (Bellman and Ford).
func (s *transport) ways(in [][]float64, count []float64, room int) (cost []float64, next, mover []int) {
	n := len(count)
	cost, next, mover = make([]float64, n), make([]int, n), make([]int, n)
	for d := range cost {
		next[d] = -1
		if d != room && count[d] >= s.most[d] {
			cost[d] = math.Inf(1)
		}
	}
	for range n {
		for i := range s.pods {
			for from := range n {
				if in[i][from] <= 0 || from == room || count[from] < s.most[from] {
					continue
				}
				for to := range n {
					if c := s.more(i, to) - s.more(i, from) + cost[to]; to != from && c < cost[from] {
						cost[from], next[from], mover[from] = c, to, i
					}
				}
			}
		}
	}
	return cost, next, mover
}
