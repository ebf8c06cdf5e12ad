package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/plural"
)

// FromRecording returns a scenario that replays the recorded pods. The nodes at the start of the
// recording are the initial nodes, and machines of the observed flavors can be bought. Everything
// else has the defaults of a scenario. The notes say what is unknown about the recording.
//
// A flavor has the size of its smallest observed machine minus the maximum that the pods of
// DaemonSets and of the node itself requested. It returns an error if a flavor has no price or
// there is no node.
func FromRecording(name string, rec *trace.Recording) (*Scenario, []string, error) {
	s := defaults()
	s.Name = name
	from, to := rec.Span()
	s.Horizon = max(time.Second, to-from)
	if s.Horizon > MaxDuration {
		return nil, nil, fmt.Errorf("%s: the recording lasts %v: must last at most %v", name, s.Horizon, MaxDuration)
	}
	machines := recordedMachines(rec)
	if err := s.takeFlavors(name, machines); err != nil {
		return nil, nil, err
	}
	s.takeNodes(machines, from)
	pods, like, notes := rec.Workload()
	if len(pods) > MaxPods {
		return nil, nil, fmt.Errorf("%s: the recording has %s: must have at most %d", name, plural.Count(len(pods), "pod"), MaxPods)
	}
	t := Trace{TimeScale: 1}
	for i := range pods {
		p, err := recordedPod(&pods[i], like[i])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		t.Pods = append(t.Pods, p)
	}
	slices.SortStableFunc(t.Pods, func(a, b Pod) int { return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Name, b.Name)) })
	s.Workload.Traces = []Trace{t}
	return s, append(notes, recordedBill(machines, from, to)...), nil
}

// StatePrices sets the price of all nodes of the instance types that have no price in the recording: the price as a spot
// machine if it is stated, because recordings lack the prices of these, else the other price. It leaves out prices of other
// types. It changes the recording.
func StatePrices(rec *trace.Recording, prices []catalogue.Price) {
	known := map[string]bool{}
	for i := range rec.Rows {
		if row := &rec.Rows[i]; row.Event == trace.EventNode && row.MicroDollarsPerHour != nil {
			known[row.Flavor] = true
		}
	}
	stated := map[string]*int64{}
	for i := range prices {
		p := &prices[i]
		stated[p.Name] = cmp.Or(p.SpotMicroDollarsPerHour, &p.MicroDollarsPerHour)
	}
	for i := range rec.Rows {
		if row := &rec.Rows[i]; row.Event == trace.EventNode && !known[row.Flavor] {
			row.MicroDollarsPerHour = stated[row.Flavor]
		}
	}
}

// recordedPod converts a recorded pod to a pod of the workload.
func recordedPod(p *trace.Pod, like *trace.Recorded) (Pod, error) {
	pod := Pod{
		Pod:      cluster.Pod{Item: p.Item, Class: cmp.Or(p.Class, class.Service), Arch: p.Arch, Namespace: like.Namespace, EnergyWeight: like.EnergyWeight},
		Category: p.Category,
	}
	if pod.Class == class.Service {
		pod.Runtime, pod.Lifetime = 0, p.Runtime
	}
	switch m := Migratable(like.Migration); m {
	case MoveAsLiked, MoveWithState, MoveByRestart, MoveNever:
		pod.Migration = m
	default:
		return pod, fmt.Errorf("pod %q: migration %q must be checkpoint, restart, never or empty", p.Name, like.Migration)
	}
	if !validPodName(pod.Name) {
		return pod, fmt.Errorf("%q is not a valid pod name", pod.Name)
	}
	return pod, nil
}

// recordedMachine is a node of a recording.
type recordedMachine struct {
	trace.Row               // its last state
	came      time.Duration // when it was created or first observed
	gone      time.Duration // 0 while it exists
	reserved  packing.Size  // current requests of DaemonSet pods, and their maximum
	most      packing.Size
	slots     int64 // maximum number of DaemonSet pods
	there     int64
}

// recordedMachines returns the nodes of a recording, in file order, with the requests of their
// DaemonSet pods.
func recordedMachines(rec *trace.Recording) []*recordedMachine {
	byID := map[string]*recordedMachine{}
	var all []*recordedMachine
	daemons := map[string]trace.Row{}
	for i := range rec.Rows {
		switch row := rec.Rows[i]; row.Event {
		case trace.EventNode:
			m := byID[row.ID]
			if m == nil {
				m = &recordedMachine{came: row.Time}
				byID[row.ID] = m
				all = append(all, m)
			}
			price := m.MicroDollarsPerHour
			m.Row = row
			if m.MicroDollarsPerHour == nil {
				m.MicroDollarsPerHour = price
			}
		case trace.EventGone:
			if m := byID[row.ID]; m != nil {
				m.gone = row.Time
			}
		case trace.EventDaemon:
			if _, seen := daemons[row.ID]; !seen {
				daemons[row.ID] = row
				byID[row.Node].reserve(&row, 1)
			}
		case trace.EventEnd:
			if d, is := daemons[row.ID]; is {
				byID[d.Node].reserve(&d, -1)
			}
		}
	}
	return all
}

// reserve adds a DaemonSet pod to the machine, or removes it if n is -1.
func (m *recordedMachine) reserve(pod *trace.Row, n int64) {
	if m == nil {
		return // its node was not observed
	}
	m.reserved.MilliCPU += n * pod.MilliCPU
	m.reserved.MemoryBytes += n * pod.MemoryBytes
	m.there += n
	m.most = packing.Size{MilliCPU: max(m.most.MilliCPU, m.reserved.MilliCPU), MemoryBytes: max(m.most.MemoryBytes, m.reserved.MemoryBytes)}
	m.slots = max(m.slots, m.there)
}

// takeFlavors sets the scenario's flavors from the machines.
func (s *Scenario) takeFlavors(name string, machines []*recordedMachine) error {
	if len(machines) == 0 {
		return fmt.Errorf("%s: the recording has no nodes, so the machines are unknown: record a cluster that has nodes", name)
	}
	found := map[string]*Flavor{}
	var unpriced []string
	for _, m := range machines {
		f := found[m.Flavor]
		size := packing.Size{MilliCPU: m.MilliCPU, MemoryBytes: m.MemoryBytes}.Minus(m.most)
		if f == nil {
			f = &Flavor{Speed: 1, Flavor: catalogue.Flavor{MachineType: m.Flavor, Flavor: cluster.Flavor{
				Name: m.Flavor, Size: size, Arch: cmp.Or(m.Arch, "amd64"), MaxPods: new(m.MaxPods - m.slots), MicroDollarsPerHour: -1,
			}}}
			found[m.Flavor] = f
		}
		f.Size.MilliCPU, f.Size.MemoryBytes, f.MaxPods = min(f.Size.MilliCPU, size.MilliCPU), min(f.Size.MemoryBytes, size.MemoryBytes), new(min(*f.MaxPods, m.MaxPods-m.slots))
		if m.MicroDollarsPerHour != nil {
			f.MicroDollarsPerHour = *m.MicroDollarsPerHour
		}
	}
	var errs []error
	for _, flavor := range slices.Sorted(maps.Keys(found)) {
		f := found[flavor]
		switch {
		case f.MicroDollarsPerHour < 0:
			unpriced = append(unpriced, flavor)
		case f.Size.MilliCPU <= 0 || f.Size.MemoryBytes <= 0 || *f.MaxPods <= 0:
			errs = append(errs, fmt.Errorf("%s: the pods of DaemonSets use all of flavor %q", name, flavor))
		}
		s.Flavors = append(s.Flavors, *f)
	}
	if len(unpriced) > 0 {
		errs = append(errs, fmt.Errorf("%s: the price of %s is unknown: state it with --prices, continue the recording with --prices, or set price_per_hour in one of its rows with the event node", name, strings.Join(unpriced, ", ")))
	}
	return errors.Join(errs...)
}

// takeNodes sets the scenario's nodes from the machines at the start of the recording. The most
// frequent flavor becomes the homogeneous flavor; ties go to the first by name.
func (s *Scenario) takeNodes(machines []*recordedMachine, from time.Duration) {
	start, ever := map[string]int64{}, map[string]int64{}
	for _, m := range machines {
		ever[m.Flavor]++
		if m.came <= from {
			start[m.Flavor]++
		}
	}
	s.HomogeneousFlavor = ""
	for _, flavor := range slices.Sorted(maps.Keys(ever)) {
		if n := start[flavor]; n > 0 {
			s.Nodes = append(s.Nodes, Nodes{Flavor: flavor, Count: n, Class: class.Any})
		}
		if s.HomogeneousFlavor == "" || ever[flavor] > ever[s.HomogeneousFlavor] {
			s.HomogeneousFlavor = flavor
		}
	}
	s.MaxNodes = min(MaxMachines, max(s.MaxNodes, 2*int64(len(machines))))
}

// recordedBill returns the price of the machines during the recording, by the known prices.
func recordedBill(machines []*recordedMachine, from, to time.Duration) []string {
	var micro float64
	for _, m := range machines {
		until := cmp.Or(m.gone, to)
		if m.MicroDollarsPerHour != nil {
			micro += float64(*m.MicroDollarsPerHour) * max(0, until-max(m.came, from)).Hours()
		}
	}
	return []string{fmt.Sprintf("during the recording, %s cost $%.4f at these prices", plural.Count(len(machines), "node"), micro/1e6)}
}
