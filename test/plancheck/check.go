// Package plancheck checks plans of machines without trusting the planner that made them: it replays the
// assignments against the pods and the catalogue.
package plancheck

import (
	"errors"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/cli/planfile"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// mostFaults is the maximum number of reported faults.
const mostFaults = 10

// Plan returns the faults of a plan, or nil. It requires that
//
//   - every pod is assigned or unplaceable, once, and no other pod is;
//   - machines are called FLAVOR-N from 0, with correct counts and prices, and each
//     has a pod;
//   - no machine is overcommitted: CPU, memory, extended resources that its flavor states, number of pods;
//   - each pod may be on its machine: architecture, node selector, node affinity,
//     taints;
//   - there is an order in which the pods can be bound one by one, each satisfied by
//     those bound before it: spread, pod affinity and anti-affinity, host ports. All
//     machines exist from the start. The search of orders is not exhaustive, so Plan
//     may reject a plan that is only valid in an unusual order;
//   - the lower bound, if there is one, is at most the price.
//
// It does not check whether an unplaceable pod could have been placed.
func Plan(pods []planfile.Pod, flavors []planfile.Flavor, d planfile.Document) error {
	c := &checker{pods: map[string]planfile.Pod{}, flavors: map[string]planfile.Flavor{}, machines: map[string]*machine{}}
	for _, f := range flavors {
		c.flavors[f.Name] = f
	}
	for _, p := range pods {
		c.pods[p.Name] = p
	}
	c.purchases(d)
	c.assignments(d)
	c.bindings(d)
	if d.LowerBoundPerHour > d.PricePerHour {
		c.fault("the lower bound %v is above the price %v", d.LowerBoundPerHour, d.PricePerHour)
	}
	if c.more > 0 {
		c.faults = append(c.faults, fmt.Errorf("... and %d more", c.more))
	}
	return errors.Join(c.faults...)
}

type checker struct {
	pods     map[string]planfile.Pod
	flavors  map[string]planfile.Flavor
	machines map[string]*machine
	faults   []error
	more     int
}

// machine is one machine and its free room.
type machine struct {
	flavor planfile.Flavor
	host   *constraint.Host
	free   packing.Size
	places int64
	pods   int
	asked  map[corev1.ResourceName]int64 // extended resources of its pods
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) == mostFaults {
		c.more++
		return
	}
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

// purchases checks the machines.
func (c *checker) purchases(d planfile.Document) {
	counts := map[string]int{}
	var total int64
	for _, p := range d.Purchases {
		f, known := c.flavors[p.Flavor]
		if !known || c.machines[p.Machine] != nil {
			c.fault("machine %s is there twice or of no known flavor %q", p.Machine, p.Flavor)
			continue
		}
		if !slices.Contains(f.Zoned(), p.Zone) {
			c.fault("machine %s is in zone %q, want one of %q", p.Machine, p.Zone, f.Zoned())
		}
		c.machines[p.Machine] = &machine{
			flavor: f, free: f.Size, places: *f.MaxPods, asked: map[corev1.ResourceName]int64{},
			host: &constraint.Host{Name: p.Machine, Labels: f.NodeLabels(p.Zone), Taints: f.NodeTaints()},
		}
		counts[p.Flavor]++
		total += f.MicroDollarsPerHour
	}
	for flavor, count := range counts {
		for n := range count {
			if name := fmt.Sprintf("%s-%d", flavor, n); c.machines[name] == nil {
				c.fault("there are %d machines of flavor %s and none is called %s", count, flavor, name)
			}
		}
	}
	for _, m := range d.Machines {
		if counts[m.Flavor] != m.Count {
			c.fault("%d machines of flavor %s are counted, %d bought", m.Count, m.Flavor, counts[m.Flavor])
		}
		delete(counts, m.Flavor)
	}
	for flavor, count := range counts {
		c.fault("%d machines of flavor %s are bought and not counted", count, flavor)
	}
	if math.Abs(float64(total)/1e6-d.PricePerHour) > 1e-6 {
		c.fault("the price is given as %v, the machines cost %d millionths", d.PricePerHour, total)
	}
}

// assignments checks the machines of pods, and that there is room.
func (c *checker) assignments(d planfile.Document) {
	seen := map[string]bool{}
	once := func(pod string) planfile.Pod {
		p, known := c.pods[pod]
		if !known || seen[pod] {
			c.fault("pod %s is there twice or no pod of the input", pod)
		}
		seen[pod] = true
		return p
	}
	for _, a := range d.Assignments {
		p, m := once(a.Pod), c.machines[a.Machine]
		if m == nil {
			c.fault("pod %s is assigned to %s, which is not bought", a.Pod, a.Machine)
			continue
		}
		if p.Arch != "" && p.Arch != m.flavor.Arch {
			c.fault("pod %s needs %s and is on %s, which is %s", a.Pod, p.Arch, a.Machine, m.flavor.Arch)
		}
		m.free, m.pods = m.free.Minus(p.Size), m.pods+1
		for name, amount := range p.Extended {
			m.asked[name] += amount
		}
	}
	for _, u := range d.Unplaceable {
		once(u.Pod)
		if u.Reason == "" {
			c.fault("pod %s is unplaceable without a reason", u.Pod)
		}
	}
	if len(seen) < len(c.pods) {
		c.fault("%d pods are neither assigned nor unplaceable", len(c.pods)-len(seen))
	}
	for _, p := range d.Purchases {
		m := c.machines[p.Machine]
		switch {
		case m == nil:
		case m.pods == 0:
			c.fault("machine %s is bought for nobody", p.Machine)
		case m.free.MilliCPU < 0 || m.free.MemoryBytes < 0 || int64(m.pods) > m.places:
			c.fault("machine %s is over-filled: CPU %dm and %d bytes left, %d pods of %d", p.Machine, m.free.MilliCPU, m.free.MemoryBytes, m.pods, m.places)
		default:
			c.devices(p.Machine, m)
		}
	}
}

// devices checks the extended resources of a machine. Pods of tables are planned without what no flavor states.
func (c *checker) devices(name string, m *machine) {
	for resource, asked := range m.asked {
		stated := false
		for _, f := range c.flavors {
			stated = stated || f.Extended[resource] > 0
		}
		if stated && asked > m.flavor.Extended[resource] {
			c.fault("machine %s has %d of %s, and its pods request %d", name, m.flavor.Extended[resource], resource, asked)
		}
	}
}

// bindings binds one pod after the other.
func (c *checker) bindings(d planfile.Document) {
	compiler := constraint.NewCompiler(nil)
	tracker := constraint.NewTracker()
	ids := map[string]int{}
	for _, p := range d.Purchases {
		if m := c.machines[p.Machine]; m != nil {
			ids[p.Machine] = tracker.AddHost(m.host)
		}
	}
	var pending []binding
	for _, a := range d.Assignments {
		m, manifest := c.machines[a.Machine], c.pods[a.Pod].Manifest
		if m == nil || manifest == nil {
			continue // or a pod of a table, which has no other demands
		}
		pod, err := compiler.CompileSuccessor(withNamespace(manifest))
		if err != nil {
			c.fault("%v", err)
			continue
		}
		if reason := pod.Admits(m.host); reason != "" {
			c.fault("pod %s may not be on %s: %s", a.Pod, a.Machine, reason)
		}
		pending = append(pending, binding{pod, a.Pod, a.Machine})
	}
	for _, b := range pending {
		tracker.Expect(b.pod)
	}
	for _, b := range inOrder(pending, func(b binding) bool {
		if tracker.Check(b.pod, ids[b.machine]) != "" {
			return false
		}
		tracker.Place(b.pod, ids[b.machine])
		return true
	}) {
		c.fault("pod %s cannot be bound to %s after the others: %s", b.name, b.machine, tracker.Check(b.pod, ids[b.machine]))
	}
}

// binding is a pod and its machine.
type binding struct {
	pod     *constraint.Pod
	name    string
	machine string
}

// inOrder repeatedly binds the pods that can be bound, and returns those that never could. Plain pods, which
// have no constraints, wait, because they can only be counted by others. If no other pod can be bound, one
// plain pod is bound, because another pod may need it nearby.
func inOrder(pending []binding, bind func(binding) bool) []binding {
	var plain []binding
	looking := slices.Clone(pending)
	looking = slices.DeleteFunc(looking, func(b binding) bool {
		if b.pod.Plain() {
			plain = append(plain, b)
		}
		return b.pod.Plain()
	})
	var never []binding
	for len(looking) > 0 || len(plain) > 0 {
		before := len(looking)
		looking = slices.DeleteFunc(looking, bind)
		switch {
		case len(looking) < before:
		case len(plain) > 0:
			if !bind(plain[0]) {
				never = append(never, plain[0])
			}
			plain = plain[1:]
		default:
			return append(never, looking...)
		}
	}
	return never
}

// withNamespace returns the pod with its namespace, default if it has none.
func withNamespace(pod *corev1.Pod) *corev1.Pod {
	if pod.Namespace != "" {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Namespace = metav1.NamespaceDefault
	return pod
}
