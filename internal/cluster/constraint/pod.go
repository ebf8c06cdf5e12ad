package constraint

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Pod is what a pod demands of where it runs and how it looks to the demands of
// others. A [Compiler] makes it; it is immutable and shared by all pods that demand
// and look the same.
type Pod struct {
	compiler *Compiler
	key      string
	static   *static
	look     *look
	ports    []port
	affinity *affinity // nil: none
	apart    []apart
	spreads  []spreadTerm
}

// port is a port of the host that a pod takes for itself.
type port struct {
	ip       string // "0.0.0.0" is all addresses
	protocol corev1.Protocol
	number   int32
	reason   string
}

// affinity is required pod affinity. All terms are about the same audience: a pod
// counts only if it matches every term.
type affinity struct {
	terms []affinityTerm
	self  bool // the pod is in the audience
}

type affinityTerm struct {
	tally   int // the audience by domain
	key     int // the topology key
	missing string
	reason  string
}

// apart is a term of required pod anti-affinity.
type apart struct {
	tally  int // those the pod keeps away from, by domain
	held   int // the pods with this term, by domain
	key    int // the topology key
	reason string
}

// spreadTerm is a hard topology spread constraint.
type spreadTerm struct {
	spread     int
	key        int // the topology key
	self       int // 1 if the pod counts itself, else 0
	maxSkew    int
	minDomains int // fewer domains than these count as if one more were empty
	missing    string
	reason     string
}

// Key is equal for two pods of one [Compiler] exactly if they are the same *Pod:
// they demand the same and look the same to everybody else. It is not for people.
func (p *Pod) Key() string { return p.key }

// StaticKey is equal for two pods exactly if [Pod.Admits] gives both the same answer
// on every host for the same reasons. Many pods with different keys share it, so it
// is what to remember answers by.
func (p *Pod) StaticKey() string { return p.static.key }

// Admits returns "" if nothing about the host alone keeps the pod away, and else the
// first thing that does, in the order in which kube-scheduler's filters run:
// cordoned, node name, taints, node selector, node affinity. It names it as a user
// would: `untolerated taint gpu=true:NoSchedule`, `node selector zone=b`.
//
// An affinity to metadata.name is not met by a host without a name.
func (p *Pod) Admits(h *Host) string { return p.static.admits(h) }

// Plain reports whether the pod itself demands nothing that depends on other pods:
// no pod affinity or anti-affinity, hard spread constraint or host port. Others may
// still keep it away: see [Coupled] and [Tracker.Free].
func (p *Pod) Plain() bool {
	return p.affinity == nil && len(p.apart) == 0 && len(p.spreads) == 0 && len(p.ports) == 0
}

// Apart returns names of sets of pods of one [Compiler] of which no two share a domain of
// the topology key, by those sets that the pod is in. It is in one for each anti-affinity
// term about that key which the pod itself meets and, on hosts, for each port of the host
// that it takes. There may be more pods that it does not share a domain with.
func (p *Pod) Apart(topologyKey string) []string {
	var sets []string
	for i := range p.apart {
		term := &p.apart[i]
		audience := p.compiler.tallies[term.tally].audience
		if p.compiler.keys[term.key] == topologyKey && p.look.belongsTo(audience) {
			sets = append(sets, "term "+strconv.Itoa(term.tally))
		}
	}
	if topologyKey == corev1.LabelHostname {
		for i := range p.ports {
			sets = append(sets, p.ports[i].reason)
		}
	}
	return sets
}

// OnlyKeepsApart reports whether what the pod demands of other pods of its own domain of the
// topology key is all in [Pod.Apart]: it follows nobody there, is spread over no such domains,
// and keeps apart from nobody that may be there together with another like itself.
func (p *Pod) OnlyKeepsApart(topologyKey string) bool {
	is := func(key int) bool { return p.compiler.keys[key] == topologyKey }
	return !(p.affinity != nil && slices.ContainsFunc(p.affinity.terms, func(t affinityTerm) bool { return is(t.key) })) &&
		!slices.ContainsFunc(p.spreads, func(t spreadTerm) bool { return is(t.key) }) &&
		!slices.ContainsFunc(p.apart, func(t apart) bool {
			return is(t.key) && !p.look.belongsTo(p.compiler.tallies[t.tally].audience)
		})
}

// TopologyKeys returns the topology keys that the pod's demands of other pods are about, each once.
func (p *Pod) TopologyKeys() []string {
	var keys []string
	use := func(key int) {
		if name := p.compiler.keys[key]; !slices.Contains(keys, name) {
			keys = append(keys, name)
		}
	}
	if p.affinity != nil {
		for _, t := range p.affinity.terms {
			use(t.key)
		}
	}
	for _, t := range p.apart {
		use(t.key)
	}
	for _, t := range p.spreads {
		use(t.key)
	}
	return keys
}

// coupled reports whether p has demands of its own or somebody else has demands
// about it, of those that the two functions say matter.
func (p *Pod) coupled(tally, spread func(id int) bool) bool {
	if !p.Plain() {
		return true
	}
	return p.askedAbout(tally, spread)
}

// askedAbout reports whether one of those demands is about p.
func (p *Pod) askedAbout(tally, spread func(id int) bool) bool {
	for _, a := range p.look.audiences {
		for _, id := range a.tallies {
			if tally(id) {
				return true
			}
		}
		for _, r := range a.repels {
			if tally(r.tally) {
				return true
			}
		}
		for _, id := range a.spreads {
			if spread(id) {
				return true
			}
		}
	}
	return false
}

// tallyIDs calls use with every tally the pod's own demands need.
func (p *Pod) tallyIDs(use func(id int)) {
	if p.affinity != nil {
		for _, t := range p.affinity.terms {
			use(t.tally)
		}
	}
	for _, t := range p.apart {
		use(t.tally)
		use(t.held)
	}
}

// Coupled returns those of the pods whose place depends on that of others in the
// set: they have demands of their own that look at other pods, or another's
// affinity, anti-affinity or hard spread constraint is about them. All others may
// be packed in any order by room alone. The pods are of one [Compiler].
//
// Cost: O(pods × demands about each).
func Coupled(pods []*Pod) map[*Pod]bool {
	tallies, spreads := map[int]bool{}, map[int]bool{}
	for _, p := range pods {
		p.tallyIDs(func(id int) { tallies[id] = true })
		for _, t := range p.spreads {
			spreads[t.spread] = true
		}
	}
	coupled := map[*Pod]bool{}
	for _, p := range pods {
		if p.coupled(func(id int) bool { return tallies[id] }, func(id int) bool { return spreads[id] }) {
			coupled[p] = true
		}
	}
	return coupled
}

// CoupledBeyond returns those of the pods that are coupled by demands about domains of other
// topology keys than that: of all others, the domains of those keys do not matter.
func CoupledBeyond(pods []*Pod, topologyKey string) map[*Pod]bool {
	tallies, spreads, coupled := map[int]bool{}, map[int]bool{}, map[*Pod]bool{}
	for _, p := range pods {
		other := func(key int) bool { return p.compiler.keys[key] != topologyKey }
		p.tallyIDs(func(id int) {
			if other(p.compiler.tallies[id].key) {
				tallies[id], coupled[p] = true, true
			}
		})
		for _, t := range p.spreads {
			if other(t.key) {
				spreads[t.spread], coupled[p] = true, true
			}
		}
	}
	for _, p := range pods {
		if p.askedAbout(func(id int) bool { return tallies[id] }, func(id int) bool { return spreads[id] }) {
			coupled[p] = true
		}
	}
	return coupled
}
