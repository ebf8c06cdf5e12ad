package halfempty

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// World is a cluster as it changes: where each pod is, and what each machine costs and when. Times are since the start.
// It refuses what could not happen, such as a pod on a node without room.
type World struct {
	flavors  map[string]*Flavor
	services []Service
	machines map[string]*machine // by node, also those that are gone
	pods     map[string]*pod
	moved    int
}

type machine struct {
	flavor      *Flavor
	ready       bool
	paid, until time.Duration // until is negative while it exists
	milli       int64         // free
	bytes       int64
	pods        map[string]bool
}

type pod struct {
	service int
	node    string // empty if it is on none
}

// NewWorld returns the world of a cluster.
func NewWorld(c *Cluster) (*World, error) {
	w := &World{flavors: map[string]*Flavor{}, services: c.Services, machines: map[string]*machine{}, pods: map[string]*pod{}}
	for i := range c.Flavors {
		w.flavors[c.Flavors[i].Name] = &c.Flavors[i]
	}
	for _, n := range c.Nodes {
		if err := w.Order(n.Name, n.Flavor, 0); err != nil {
			return nil, err
		}
		if err := w.Join(n.Name); err != nil {
			return nil, err
		}
	}
	for _, p := range c.Pods {
		if w.pods[p.Name] != nil {
			return nil, fmt.Errorf("pod %s exists twice", p.Name)
		}
		w.pods[p.Name] = &pod{service: p.Service}
		if err := w.bind(p.Name, p.Node); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// Order orders a machine, which is paid from then on.
func (w *World) Order(node, flavor string, at time.Duration) error {
	f := w.flavors[flavor]
	if f == nil {
		return fmt.Errorf("node %s: there is no flavor %s", node, flavor)
	}
	if w.machines[node] != nil {
		return fmt.Errorf("node %s exists twice", node)
	}
	w.machines[node] = &machine{flavor: f, paid: at, until: -1, milli: f.MilliCPU, bytes: f.MemoryBytes, pods: map[string]bool{}}
	return nil
}

// Join makes the node of an ordered machine ready.
func (w *World) Join(node string) error {
	m, err := w.existing(node)
	if err != nil {
		return err
	}
	m.ready = true
	return nil
}

// Remove removes a machine, which is paid until then. It must have no pods.
func (w *World) Remove(node string, at time.Duration) error {
	m, err := w.existing(node)
	if err != nil {
		return err
	}
	if len(m.pods) > 0 {
		return fmt.Errorf("node %s is removed with %d pods", node, len(m.pods))
	}
	m.until = at
	return nil
}

func (w *World) existing(node string) (*machine, error) {
	m := w.machines[node]
	if m == nil || m.until >= 0 {
		return nil, fmt.Errorf("there is no node %s", node)
	}
	return m, nil
}

// Evict takes a pod from its node.
func (w *World) Evict(name string) error {
	p := w.pods[name]
	if p == nil || p.node == "" {
		return fmt.Errorf("pod %s is on no node", name)
	}
	s, m := &w.services[p.service], w.machines[p.node]
	m.milli, m.bytes = m.milli+s.MilliCPU, m.bytes+s.MemoryBytes
	delete(m.pods, name)
	p.node = ""
	w.moved++
	return nil
}

// Replace evicts a pod, and adds another one of its service, which is on no node.
func (w *World) Replace(name, by string) error {
	if err := w.Evict(name); err != nil {
		return err
	}
	w.pods[by] = &pod{service: w.pods[name].service}
	delete(w.pods, name)
	return nil
}

// Bind binds a pod that is on no node.
func (w *World) Bind(name, node string) error {
	if w.pods[name] == nil || w.pods[name].node != "" {
		return fmt.Errorf("pod %s cannot be bound to node %s: it does not exist or is on a node", name, node)
	}
	return w.bind(name, node)
}

func (w *World) bind(name, node string) error {
	m, err := w.existing(node)
	if err != nil {
		return err
	}
	p := w.pods[name]
	s := &w.services[p.service]
	if !m.fits(s) {
		return fmt.Errorf("node %s has no room for pod %s", node, name)
	}
	m.milli, m.bytes = m.milli-s.MilliCPU, m.bytes-s.MemoryBytes
	m.pods[name] = true
	p.node = node
	return nil
}

func (m *machine) fits(s *Service) bool {
	return m.ready && m.until < 0 && m.milli >= s.MilliCPU && m.bytes >= s.MemoryBytes && len(m.pods) < MaxPods
}

// Tightest returns the node that has the smallest share of room left with the pod, of those that are open; an empty name
// if there is none. Ties go to the first name. Cost: O(nodes).
func (w *World) Tightest(name string, open func(node string) bool) (best string) {
	s, least := &w.services[w.pods[name].service], 0.0
	for node, m := range w.machines {
		if !m.fits(s) || !open(node) {
			continue
		}
		left := float64(m.milli-s.MilliCPU)/float64(m.flavor.MilliCPU) + float64(m.bytes-s.MemoryBytes)/float64(m.flavor.MemoryBytes)
		if best == "" || cmp.Or(cmp.Compare(left, least), cmp.Compare(node, best)) < 0 {
			best, least = node, left
		}
	}
	return best
}

// On returns the pods on a node, ordered by name.
func (w *World) On(node string) []string {
	if w.machines[node] == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(w.machines[node].pods))
}

// Homeless returns the number of pods that are on no node.
func (w *World) Homeless() (n int) {
	for _, p := range w.pods {
		if p.node == "" {
			n++
		}
	}
	return n
}

// Moved returns how often pods have been taken from their nodes.
func (w *World) Moved() int { return w.moved }

// Machines returns the number of machines that are paid at a time.
func (w *World) Machines(at time.Duration) (n int) {
	for _, m := range w.machines {
		if m.paidAt(at) {
			n++
		}
	}
	return n
}

// DollarsPerHour returns the price of all machines that are paid at a time.
func (w *World) DollarsPerHour(at time.Duration) float64 {
	var micros int64
	for _, m := range w.machines {
		if m.paidAt(at) {
			micros += m.flavor.MicroDollarsPerHour
		}
	}
	return float64(micros) / 1e6
}

// Bill returns what all machines have cost until a time, in dollars, by the second.
func (w *World) Bill(until time.Duration) (dollars float64) {
	for _, node := range slices.Sorted(maps.Keys(w.machines)) { // in order: the sum of floats depends on it
		m := w.machines[node]
		end := until
		if m.until >= 0 {
			end = min(end, m.until)
		}
		dollars += float64(m.flavor.MicroDollarsPerHour) / 1e6 * max(0, end-m.paid).Hours()
	}
	return dollars
}

func (m *machine) paidAt(at time.Duration) bool {
	return m.paid <= at && (m.until < 0 || at < m.until)
}
