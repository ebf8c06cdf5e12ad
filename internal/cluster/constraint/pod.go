package constraint

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Pod holds the scheduling constraints of a pod, and what the constraints of other pods see of it. A [Compiler] makes
// it. It is immutable, and all pods that are equal in both share it.
type Pod struct {
	compiler *Compiler
	key      string
	static   *static
	identity *identity
	ports    []port
	affinity *affinity // nil: none
	apart    []apart
	spreads  []spreadTerm

	terminating bool // spread constraints do not count it
}

// port is a host port that a pod occupies.
type port struct {
	ip       string // "0.0.0.0" is all addresses
	protocol corev1.Protocol
	number   int32
	reason   string
}

// affinity is required pod affinity. All terms share one audience: a pod counts only if it matches every term.
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
	tally  int // the pods it keeps away from, by domain
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
	minDomains int // with fewer domains than this, the minimum over the domains is 0
	missing    string
	reason     string
}

// Key is equal for two pods of one [Compiler] if and only if they are the same *Pod: they have the same constraints and
// look the same to others. It is not human-readable.
func (p *Pod) Key() string { return p.key }

// Terminating returns the pod as it is while it is being deleted: spread constraints no longer count it, and all other
// constraints do. Equal pods give the same *Pod. It uses the compiler, so it must not run concurrently with other uses
// of it.
func (p *Pod) Terminating() *Pod {
	k := newKey(16)
	k.add("terminating")
	key := p.key + k.String()
	if known := p.compiler.pods[key]; known != nil {
		return known
	}
	leaving := *p
	leaving.key, leaving.terminating = key, true
	p.compiler.pods[key] = &leaving
	return &leaving
}

// StaticKey is equal for two pods if and only if [Pod.Admits] gives both the same result and reasons on every host.
// Many pods with different keys share it, so it is the right key for caching results.
func (p *Pod) StaticKey() string { return p.static.key + p.besidesKey() }

// Admits returns "" if nothing about the host and its residents rejects the pod. Otherwise it returns the first reason,
// in the order of kube-scheduler's filters: cordoned, node name, taints, node selector, node affinity, then what
// conflicts with a resident. It names the reason as a user would write it: `untolerated taint gpu=true:NoSchedule`,
// `node selector zone=b`.
//
// A host without a name does not satisfy an affinity to metadata.name.
func (p *Pod) Admits(h *Host) string {
	if why := p.static.admits(h); why != "" {
		return why
	}
	return p.besides(h.Residents)
}

// Rejections returns every reason for which the host or a resident rejects the pod, in the order of [Pod.Admits], but only
// the first one of residents; none if it is admitted. Of a required node affinity with one term, they are followed by the
// requirements that the host does not fulfil, which begin with [NodeAffinity], too.
func (p *Pod) Rejections(h *Host) (all []string) {
	p.reject(h, func(why string) { all = append(all, why) })
	return all
}

// RejectionsAmong returns those of some reasons that are [Pod.Rejections] of the host, too. It uses the memory of its
// argument, and needs less time than a comparison with all.
func (p *Pod) RejectionsAmong(h *Host, reasons []string) []string {
	found := 0
	p.reject(h, func(why string) {
		if at := slices.Index(reasons[found:], why); at >= 0 {
			reasons[found], reasons[found+at] = why, reasons[found]
			found++
		}
	})
	return reasons[:found]
}

// reject calls say with each of the [Pod.Rejections] of a host.
func (p *Pod) reject(h *Host, say func(why string)) {
	p.static.reject(h, func(why string) bool {
		say(why)
		return true
	})
	if why := p.besides(h.Residents); why != "" {
		say(why)
	}
	p.static.unmet(h, say)
}

// Plain reports whether the pod itself has no constraints that depend on other pods: pod affinity or anti-affinity,
// hard spread constraints, host ports. Other pods may still repel it: see [Coupled].
func (p *Pod) Plain() bool {
	return p.affinity == nil && len(p.apart) == 0 && len(p.spreads) == 0 && len(p.ports) == 0
}

// Apart returns the names of the mutually exclusive sets that contain the pod: no two pods of a set may share a domain
// of the topology key. There is one set for each anti-affinity term for that key that selects the pod itself and, for
// hosts, one for each host port of the pod. Names are unique within one [Compiler]. The pod may be incompatible with
// further pods.
func (p *Pod) Apart(topologyKey string) []string {
	var sets []string
	for i := range p.apart {
		term := &p.apart[i]
		audience := p.compiler.tallies[term.tally].audience
		if p.compiler.keys[term.key] == topologyKey && p.identity.belongsTo(audience) {
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

// OnlyKeepsApart reports whether [Pod.Apart] covers all the pod's constraints on other pods in its domain of the
// topology key: for that key it has no affinity and no spread constraint, and each of its anti-affinity terms selects
// the pod itself.
func (p *Pod) OnlyKeepsApart(topologyKey string) bool {
	is := func(key int) bool { return p.compiler.keys[key] == topologyKey }
	return !(p.affinity != nil && slices.ContainsFunc(p.affinity.terms, func(t affinityTerm) bool { return is(t.key) })) &&
		!slices.ContainsFunc(p.spreads, func(t spreadTerm) bool { return is(t.key) }) &&
		!slices.ContainsFunc(p.apart, func(t apart) bool {
			return is(t.key) && !p.identity.belongsTo(p.compiler.tallies[t.tally].audience)
		})
}

// TopologyKeys returns the topology keys of the pod's constraints on other pods, without duplicates.
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

// askedAbout reports whether one of those tallies and spreads selects p.
func (p *Pod) askedAbout(tally, spread func(id int) bool) bool {
	for _, a := range p.identity.audiences {
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

// tallyIDs calls use with every tally that the pod's own constraints need.
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

// Coupled returns the pods whose placement depends on other pods of the set: they have constraints that depend on other
// pods, or the affinity, anti-affinity or hard spread constraint of another pod selects them. All others can be packed
// in any order by free room alone. The pods must be of one [Compiler].
//
// Cost: O(pods × constraints about each).
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
		if !p.Plain() || p.askedAbout(func(id int) bool { return tallies[id] }, func(id int) bool { return spreads[id] }) {
			coupled[p] = true
		}
	}
	return coupled
}

// Tracked returns the pods of which a [Tracker] must know where they are: those that are [Coupled], and those that take
// volumes or ephemeral storage. The latter matter only for the room on their own host.
func Tracked(pods []*Pod) map[*Pod]bool {
	tracked := Coupled(pods)
	for _, p := range pods {
		if p.Attaches() {
			tracked[p] = true
		}
	}
	return tracked
}

// Attaches reports whether the pod takes something of its host that [Attached] counts.
func (p *Pod) Attaches() bool { return p != nil && (len(p.static.volumes) > 0 || p.static.disk > 0) }

// CoupledBeyond returns the pods that are coupled by constraints with a topology key other than the given one. For the
// other pods, the domains of those keys do not matter.
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
