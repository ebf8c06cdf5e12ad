package sim

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/scenario"
)

// machine is one rented machine.
type machine struct {
	name   string
	flavor *scenario.Flavor
	class  class.Class
	node   *corev1.Node  // nil until the machine is ready
	from   time.Duration // start of billing; -1 before that
	due    time.Duration // when it is expected to be ready
	gone   time.Duration // end of billing; -1 until it is released
	// pods run on the machine, and coming are moving to it. Both occupy room.
	pods, coming []*running
	used         packing.Size
	drain        *drain
	replaces     *machine // the machine whose pods it was bought for
	metered      time.Duration
	power        energy.Model
	energy       *MachineEnergy        // of its machine type
	electricity  *scenario.Electricity // of its zone; nil if unknown
}

// drain is the emptying of a machine.
type drain struct {
	reason     string
	until      time.Duration // when its last pod is expected to have left
	waits      bool          // for pods to end, so the drain can be cancelled
	cordonOnly bool          // no release yet, see [cluster.Drain]
}

// addMachine adds an ordered machine.
func (e *engine) addMachine(flavor *scenario.Flavor, c class.Class) *machine {
	number := e.numbers[flavor.Name]
	e.numbers[flavor.Name]++
	m := &machine{
		name: fmt.Sprintf("%s-%d", flavor.Name, number), flavor: flavor, class: c,
		from: -1, gone: -1, due: e.now + e.input.Scenario.AcquisitionLag.Mean,
		power: flavor.Power(), energy: e.result.energyOf(flavor), electricity: e.input.Scenario.ElectricityOf(flavor.Zone),
	}
	e.all = append(e.all, m)
	at, _ := slices.BinarySearchFunc(e.machines, m, byName)
	e.machines = slices.Insert(e.machines, at, m)
	e.record(fact{what: machineAsked, node: m.name, flavor: flavor.Name, class: c})
	if e.input.Scenario.BilledFrom != scenario.FromReady {
		e.beginToPay(m)
	}
	return m
}

func (e *engine) beginToPay(m *machine) {
	m.from, m.metered = e.now, e.now
	e.paid++
	e.result.NodesPeak = max(e.result.NodesPeak, e.paid)
	e.capacity = e.capacity.Plus(m.flavor.Size)
}

func byName(a, b *machine) int { return cmp.Compare(a.name, b.name) }

// join adds the node of a machine.
func (e *engine) join(m *machine) error {
	if m.from < 0 {
		e.beginToPay(m)
	}
	m.node = nodeObject(m)
	e.sched.AddNode(m.node)
	e.record(fact{what: machineReady, node: m.name})
	e.roomier()
	if m.replaces != nil {
		return e.toReplacement(m)
	}
	return nil
}

// release releases an empty machine.
func (e *engine) release(m *machine) error {
	if m.gone >= 0 {
		return nil
	}
	if m.node != nil {
		if err := e.sched.RemoveNode(m.node); err != nil {
			return fmt.Errorf("remove node %s: %w", m.name, err)
		}
	}
	m.gone = e.now + e.input.Scenario.ReleaseLag
	at, _ := slices.BinarySearchFunc(e.machines, m, byName)
	e.machines = slices.Delete(e.machines, at, at+1)
	e.leaving = append(e.leaving, m)
	e.push(event{at: m.gone, kind: gone, machine: m})
	e.result.NodesRemoved++
	e.count("machinesReleased")
	e.record(fact{what: machineReleased, node: m.name})
	return nil
}

// bill returns the cost of all machines up to a time, or -1 if it overflows. Cost: O(m) for m
// machines that ever existed.
func (e *engine) bill(at time.Duration) int64 {
	var sum int64
	for _, m := range e.all {
		if m.from < 0 || m.from > at {
			continue
		}
		held := at - m.from
		if m.gone >= 0 {
			held = min(at, m.gone) - m.from
		}
		price := cluster.Bill(m.flavor.MicroDollarsPerHour, held, e.input.Scenario.BillingPeriod)
		if price > math.MaxInt64-sum {
			return -1
		}
		sum += price
	}
	return sum
}

// stopPaying ends the billing of a machine.
func (e *engine) stopPaying(m *machine, at time.Duration) {
	if m.from < 0 {
		return
	}
	e.meter(m, at)
	e.result.MachineSeconds += (at - m.from).Seconds()
	e.capacity = e.capacity.Minus(m.flavor.Size)
	e.paid--
}

// cordon cordons or uncordons the machine.
func (e *engine) cordon(m *machine, closed bool) {
	after := m.node.DeepCopy()
	after.Spec.Unschedulable = closed
	e.sched.UpdateNode(m.node, after)
	m.node = after
}

// room returns the free room of the machine.
func (m *machine) room() packing.Size { return m.flavor.Size.Minus(m.used) }

func (m *machine) count() int { return len(m.pods) + len(m.coming) }

// take adds a pod's request to a machine, drop removes it.
func (e *engine) take(m *machine, size packing.Size) {
	e.meter(m, e.now)
	m.used, e.used = m.used.Plus(size), e.used.Plus(size)
}

func (e *engine) drop(m *machine, size packing.Size) {
	e.meter(m, e.now)
	m.used, e.used = m.used.Minus(size), e.used.Minus(size)
}

// meter updates the machine's energy and utilization to the given time. The products are converted
// before they are added, which prevents fusing: the bits are then the same on every machine.
func (e *engine) meter(m *machine, now time.Duration) {
	since, seconds := m.metered, (now - m.metered).Seconds()
	m.metered = now
	size := m.flavor.Size
	r := &e.result
	r.UsedMilliCPUSeconds += float64(float64(m.used.MilliCPU) * seconds)
	r.UsedMemoryByteSeconds += float64(float64(m.used.MemoryBytes) * seconds)
	r.PaidMilliCPUSeconds += float64(float64(size.MilliCPU) * seconds)
	r.PaidMemoryByteSeconds += float64(float64(size.MemoryBytes) * seconds)
	e.meterEnergy(m, seconds)
	e.meterElectricity(m, since, now)
}

// addExtended adds the extended resources of a size to a list.
func addExtended(list corev1.ResourceList, size packing.Size) {
	for slot, amount := range size.Extended.BySlot() {
		if amount > 0 {
			list[scenario.Resources[slot]] = *resource.NewQuantity(int64(amount), resource.DecimalSI)
		}
	}
}

func nodeObject(m *machine) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(m.flavor.Size.MilliCPU, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(m.flavor.Size.MemoryBytes, resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(ptr.Deref(m.flavor.MaxPods, 0), resource.DecimalSI),
	}
	addExtended(capacity, m.flavor.Size)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: map[string]string{
			corev1.LabelHostname: m.name, corev1.LabelInstanceTypeStable: m.flavor.Name, corev1.LabelArchStable: m.flavor.Arch,
			v1alpha1.LabelClass: string(m.class), v1alpha1.LabelMachineType: m.flavor.MachineType,
		}},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
	if m.flavor.Zone != "" {
		node.Labels[corev1.LabelTopologyZone] = m.flavor.Zone
	}
	return node
}
