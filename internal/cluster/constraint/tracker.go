package constraint

import (
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Tracker records which pods are on which hosts, and decides whether one more pod may be placed. It keeps counters per
// constraint and topology domain, so that [Tracker.Check] costs O(constraints of the pod + constraints that select it),
// however many pods are placed.
//
// Domains are those of the hosts in the tracker. A zone without a host is not a domain: as in kube-scheduler, it
// neither keeps the minimum of a spread constraint at 0 nor counts for minDomains. The first host in a new zone
// therefore makes constraints stricter for the others. A planner that may buy hosts in several zones and wants the pods
// spread should add the hosts before it fills them.
//
// All pods of a tracker and its clones must come from one [Compiler]; pods of another cause a panic.
type Tracker struct {
	me       *owner
	compiler *Compiler // of the first pod seen
	names    *names
	hosts    []*resident // by host id; nil: the id is free
	free     []int       // host ids
	columns  []*column   // by topology key; nil: not needed yet
	tallies  []*tally    // by id in the compiler; nil: not needed yet
	spreads  []*spread   // by id in the compiler; nil: not needed yet
}

// resident is a host and the pods on it.
type resident struct {
	owner *owner
	host  *Host
	pods  []*Pod
	ports []port
	// attached is what the pods take.
	attached Attached
}

// names numbers the domains. All clones share the numbers.
type names struct {
	mu     sync.Mutex // clones may be used concurrently
	byKeys []map[string]int32
}

func (n *names) domain(key int, value string) int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.byKeys) <= key {
		n.byKeys = append(n.byKeys, map[string]int32{})
	}
	id, ok := n.byKeys[key][value]
	if !ok {
		id = int32(len(n.byKeys[key]))
		n.byKeys[key][value] = id
	}
	return id
}

// NewTracker returns a tracker without hosts.
func NewTracker() *Tracker {
	return &Tracker{me: &owner{}, names: &names{}}
}

// AddHost adds a host without pods and returns its id, a small number that was not in use. Adding the same host again
// adds another one.
//
// Cost: O(topology keys + spread constraints in use).
func (t *Tracker) AddHost(h *Host) int {
	id := len(t.hosts)
	if last := len(t.free) - 1; last >= 0 {
		id, t.free = t.free[last], t.free[:last]
	} else {
		t.hosts = append(t.hosts, nil)
	}
	t.hosts[id] = &resident{owner: t.me, host: h}
	for key := range t.columns {
		if t.columns[key] != nil {
			t.setDomain(t.ownColumn(key), key, id)
		}
	}
	for s := range t.spreads {
		if t.spreads[s] != nil {
			t.joinSpread(t.ownSpread(s), s, id)
		}
	}
	return id
}

// RemoveHost removes a host and the pods on it. Its id may be reused.
func (t *Tracker) RemoveHost(id int) {
	for len(t.hosts[id].pods) > 0 {
		t.Unplace(t.hosts[id].pods[len(t.hosts[id].pods)-1], id)
	}
	for s := range t.spreads {
		if t.spreads[s] == nil || !t.spreads[s].eligible[id] {
			continue
		}
		t.ownSpread(s).leave(t.columns[t.compiler.spreads[s].key].domain[id])
	}
	t.hosts[id] = nil
	t.free = append(t.free, id)
}

// Place adds the pod to the host without checking whether it may run there. The same *Pod may be placed more than once.
//
// Cost: O(constraints that select the pod + its anti-affinity terms).
func (t *Tracker) Place(p *Pod, host int) {
	t.adopt(p)
	for _, term := range p.apart {
		t.tally(term.held)
	}
	r := t.ownResident(host)
	r.pods = append(r.pods, p)
	r.ports = append(r.ports, p.ports...)
	r.attached.Add(p)
	t.count(p, host, 1)
}

// Unplace removes the pod from the host. It panics if the pod is not there.
func (t *Tracker) Unplace(p *Pod, host int) {
	r := t.ownResident(host)
	at := slices.Index(r.pods, p)
	if at < 0 {
		panic("constraint: Unplace of a pod that is not on host " + strconv.Itoa(host))
	}
	last := len(r.pods) - 1
	r.pods[at], r.pods[last] = r.pods[last], nil
	r.pods = r.pods[:last]
	for i := range p.ports {
		at := slices.Index(r.ports, p.ports[i])
		r.ports = slices.Delete(r.ports, at, at+1)
	}
	r.attached.Remove(p)
	t.count(p, host, -1)
}

// count adds n to every counter in use that counts the pod.
func (t *Tracker) count(p *Pod, host int, n int32) {
	for _, a := range p.identity.audiences {
		for _, id := range a.tallies {
			if t.hasTally(id) {
				t.ownTally(id).add(t.domain(t.compiler.tallies[id].key, host), n)
			}
		}
		for _, id := range a.spreads {
			if !p.terminating && id < len(t.spreads) && t.spreads[id] != nil && t.spreads[id].eligible[host] {
				t.ownSpread(id).add(t.domain(t.compiler.spreads[id].key, host), n)
			}
		}
	}
	for _, term := range p.apart {
		t.ownTally(term.held).add(t.domain(term.key, host), n)
	}
}

// Check returns "" if no placed pod prevents the pod from running on the host. Otherwise it returns the first reason:
// host ports, ephemeral storage and volumes of the host, a spread constraint, pod affinity, the pod's own anti-affinity, that of other pods. [Pod.Admits] checks
// the constraints on the host alone.
//
// The first pod of a group with affinity to itself may go to any host that has the topology keys, as long as no pod of
// the group is placed anywhere.
//
// Cost: O(constraints of the pod + constraints that select it). The first check of a pod with constraints of its own
// also counts all placed pods for them; see [Tracker.Expect].
func (t *Tracker) Check(p *Pod, host int) string {
	t.adopt(p)
	r := t.hosts[host]
	for i := range p.ports {
		for j := range r.ports {
			if p.ports[i].clashes(&r.ports[j]) {
				return p.ports[i].reason
			}
		}
	}
	if reason := r.attached.Refuses(p, r.host); reason != "" {
		return reason
	}
	for i := range p.spreads {
		if reason := t.checkSpread(&p.spreads[i], host); reason != "" {
			return reason
		}
	}
	if p.affinity != nil {
		if reason := t.checkAffinity(p.affinity, host); reason != "" {
			return reason
		}
	}
	for i := range p.apart {
		term := &p.apart[i]
		if t.tally(term.tally).in(t.domain(term.key, host)) > 0 {
			return term.reason
		}
	}
	for _, a := range p.identity.audiences {
		for i := range a.repels {
			held := &a.repels[i]
			if t.hasTally(held.tally) && t.tallies[held.tally].in(t.domain(held.key, host)) > 0 {
				return held.reason
			}
		}
	}
	return ""
}

func (t *Tracker) checkSpread(term *spreadTerm, host int) string {
	s := t.spread(term.spread)
	domain := t.domain(term.key, host)
	if domain == nowhere {
		return term.missing
	}
	least := s.least
	if s.domains < term.minDomains {
		least = 0
	}
	if s.in(domain)+term.self-least > term.maxSkew {
		return term.reason
	}
	return ""
}

func (t *Tracker) checkAffinity(a *affinity, host int) string {
	reason, total := "", 0
	for i := range a.terms {
		term := &a.terms[i]
		domain := t.domain(term.key, host)
		if domain == nowhere {
			return term.missing
		}
		tally := t.tally(term.tally)
		if total += tally.total; reason == "" && tally.in(domain) == 0 {
			reason = term.reason
		}
	}
	if a.self && total == 0 {
		return ""
	}
	return reason
}

// Expect announces pods that may be checked or placed later. It sets up their counters now, so that clones share them.
func (t *Tracker) Expect(pods ...*Pod) {
	for _, p := range pods {
		t.adopt(p)
		p.tallyIDs(func(id int) { t.tally(id) })
		for i := range p.spreads {
			t.spread(p.spreads[i].spread)
		}
	}
}

// Clone returns an independent tracker with the same hosts and pods.
//
// Cost: one word per host, topology key and constraint. Afterwards each of the two trackers copies a host or a counter
// before it first changes it.
func (t *Tracker) Clone() *Tracker {
	t.me = &owner{} // what t owned is now shared
	c := *t
	c.me = &owner{}
	c.hosts, c.free = slices.Clone(t.hosts), slices.Clone(t.free)
	c.columns, c.tallies, c.spreads = slices.Clone(t.columns), slices.Clone(t.tallies), slices.Clone(t.spreads)
	return &c
}

// adopt records the pod's compiler.
func (t *Tracker) adopt(p *Pod) {
	if t.compiler == p.compiler {
		return
	}
	if t.compiler != nil {
		panic("constraint: pods of two compilers in one tracker")
	}
	t.compiler = p.compiler
}

// domain returns the domain of a host for a topology key.
func (t *Tracker) domain(key, host int) int32 {
	if key >= len(t.columns) || t.columns[key] == nil {
		t.addColumn(key)
	}
	return t.columns[key].domain[host]
}

func (t *Tracker) addColumn(key int) {
	for len(t.columns) <= key {
		t.columns = append(t.columns, nil)
	}
	column := &column{owner: t.me}
	t.columns[key] = column
	for id := range t.hosts {
		t.setDomain(column, key, id)
	}
}

func (t *Tracker) setDomain(c *column, key, id int) {
	c.domain = grow(c.domain, id+1)
	c.domain[id] = nowhere
	if t.hosts[id] == nil {
		return
	}
	name := t.compiler.keys[key]
	value, ok := t.hosts[id].host.Labels[name]
	switch {
	case ok:
		c.domain[id] = t.names.domain(key, value)
	case name == corev1.LabelHostname: // a template: its id, which is not a valid label value
		c.domain[id] = t.names.domain(key, "\x00"+strconv.Itoa(id))
	}
}

func (t *Tracker) hasTally(id int) bool { return id < len(t.tallies) && t.tallies[id] != nil }

// tally returns a tally for reading. It sets the tally up if necessary.
func (t *Tracker) tally(id int) *tally {
	if t.hasTally(id) {
		return t.tallies[id]
	}
	for len(t.tallies) <= id {
		t.tallies = append(t.tallies, nil)
	}
	def := t.compiler.tallies[id]
	tally := &tally{owner: t.me}
	t.tallies[id] = tally
	if def.audience == nil {
		return tally // Place sets these up before the first holder is placed
	}
	for host, r := range t.hosts {
		if r == nil {
			continue
		}
		for _, p := range r.pods {
			if p.identity.belongsTo(def.audience) {
				tally.add(t.domain(def.key, host), 1)
			}
		}
	}
	return tally
}

// spread returns the counters of a spread constraint for reading. It sets them up if necessary.
func (t *Tracker) spread(id int) *spread {
	if id < len(t.spreads) && t.spreads[id] != nil {
		return t.spreads[id]
	}
	for len(t.spreads) <= id {
		t.spreads = append(t.spreads, nil)
	}
	s := &spread{owner: t.me}
	t.spreads[id] = s
	def := t.compiler.spreads[id]
	for host, r := range t.hosts {
		t.joinSpread(s, id, host)
		if r == nil || !s.eligible[host] || def.audience == nil {
			continue
		}
		for _, p := range r.pods {
			if !p.terminating && p.identity.belongsTo(def.audience) {
				s.add(t.domain(def.key, host), 1)
			}
		}
	}
	return s
}

// joinSpread records whether the host is eligible for the spread constraint.
func (t *Tracker) joinSpread(s *spread, id, host int) {
	for len(s.eligible) <= host {
		s.eligible = append(s.eligible, false)
	}
	def := t.compiler.spreads[id]
	if s.eligible[host] = t.eligible(def, host); s.eligible[host] {
		s.join(t.domain(def.key, host))
	}
}

func (t *Tracker) eligible(def *spreadDef, host int) bool {
	r := t.hosts[host]
	if r == nil {
		return false
	}
	for _, key := range def.keys {
		if t.domain(key, host) == nowhere {
			return false
		}
	}
	return (def.affinity == nil || def.affinity.selects(r.host)) && (def.taints == nil || def.taints.untolerated(r.host) == nil)
}

// The functions below return a part of the state for writing. They copy it first if it is shared.

func (t *Tracker) ownResident(host int) *resident {
	r := t.hosts[host]
	if r.owner != t.me {
		r = &resident{owner: t.me, host: r.host, pods: slices.Clone(r.pods), ports: slices.Clone(r.ports), attached: r.attached.Clone()}
		t.hosts[host] = r
	}
	return r
}

func (t *Tracker) ownColumn(key int) *column {
	c := t.columns[key]
	if c.owner != t.me {
		c = &column{owner: t.me, domain: slices.Clone(c.domain)}
		t.columns[key] = c
	}
	return c
}

func (t *Tracker) ownTally(id int) *tally {
	y := t.tallies[id]
	if y.owner != t.me {
		y = &tally{owner: t.me, pods: slices.Clone(y.pods), total: y.total}
		t.tallies[id] = y
	}
	return y
}

func (t *Tracker) ownSpread(id int) *spread {
	s := t.spreads[id]
	if s.owner != t.me {
		s = &spread{
			owner: t.me, eligible: slices.Clone(s.eligible), hosts: slices.Clone(s.hosts), pods: slices.Clone(s.pods),
			domains: s.domains, with: slices.Clone(s.with), least: s.least,
		}
		t.spreads[id] = s
	}
	return s
}
