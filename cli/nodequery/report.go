package nodequery

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Report describes the nodes over a span. Scripts read it as JSON: fields may be added but
// never renamed.
type Report struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// At is the time at which the state of nodes is shown.
	At time.Time `json:"at"`
	// StepSeconds is the time between samples.
	StepSeconds float64 `json:"stepSeconds"`
	// Begins and Ends are the times of the first and the last sample of any node; nil if
	// there is none.
	Begins *time.Time `json:"begins,omitempty"`
	Ends   *time.Time `json:"ends,omitempty"`
	// MachineTypes and Nodes are sorted by name. A node whose type changed is listed once for
	// each type.
	MachineTypes []MachineType `json:"machineTypes"`
	Nodes        []Node        `json:"nodes"`
}

// The states of a node.
const (
	StateReady    = "ready"
	StateNotReady = "not ready" // or cordoned
	StateAbsent   = "absent"    // not created yet, or already gone
)

// Node is a node with one machine type.
type Node struct {
	Name string `json:"node"`
	// MachineType is empty if the node has no label for it.
	MachineType string `json:"machineType"`
	State       string `json:"state"`
	// Pods is the number of pods that had not ended.
	Pods   int    `json:"pods"`
	CPU    CPU    `json:"cpu"`
	Memory Memory `json:"memory"`
	Busy
	// Came is the time of the first sample of the node, and Went is the first sample time
	// after its last one: it came or went up to one step earlier. Came is nil if the node was
	// there when the history begins, Went if it was there when it ends, and both if it has no
	// sample.
	Came *time.Time `json:"came,omitempty"`
	Went *time.Time `json:"went,omitempty"`
	// ThereSeconds is how long the node was there: the number of its samples times the step.
	ThereSeconds float64 `json:"thereSeconds"`
}

// MachineType is the total over all nodes of a machine type.
type MachineType struct {
	MachineType string `json:"machineType"`
	// Nodes, Ready and Pods are their numbers at the time At.
	Nodes  int    `json:"nodes"`
	Ready  int    `json:"ready"`
	Pods   int    `json:"pods"`
	CPU    CPU    `json:"cpu"`
	Memory Memory `json:"memory"`
	Busy
}

// CPU is in cores. JSON has each amount also with the unit in its name.
type CPU struct{ Resource }

// Memory is in bytes. JSON has each amount also with the unit in its name.
type Memory struct{ Resource }

// MarshalJSON implements [json.Marshaler].
func (c CPU) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Resource
		Capacity  *float64 `json:"capacityCores,omitempty"`
		Available *float64 `json:"availableCores,omitempty"`
		Mean      *float64 `json:"meanAvailableCores,omitempty"`
		Least     *float64 `json:"leastAvailableCores,omitempty"`
	}{c.Resource, c.Capacity, c.Available, c.Mean, c.Least})
}

// MarshalJSON implements [json.Marshaler].
func (m Memory) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Resource
		Capacity  *float64 `json:"capacityBytes,omitempty"`
		Available *float64 `json:"availableBytes,omitempty"`
		Mean      *float64 `json:"meanAvailableBytes,omitempty"`
		Least     *float64 `json:"leastAvailableBytes,omitempty"`
	}{m.Resource, m.Capacity, m.Available, m.Mean, m.Least})
}

// Resource is the amount of one resource. Unknown values are nil.
type Resource struct {
	// Capacity is the capacity of the node, now or when it was last seen; for a machine type,
	// the sum over the nodes that exist at the time At.
	Capacity *float64 `json:"capacity,omitempty"`
	// Available is what further pods may request at the time At.
	Available *float64 `json:"available,omitempty"`
	// Mean and Least are the mean and minimum of Available while the node, or any node of the
	// machine type, was there. Least covers every written value for a node, but only the
	// sample times for a machine type.
	Mean  *float64 `json:"meanAvailable,omitempty"`
	Least *float64 `json:"leastAvailable,omitempty"`
}

// Busy is the expected finish of batch pods.
type Busy struct {
	// Finish is the latest expected finish of the batch pods that run at the time At; nil if
	// no pod has one.
	Finish *time.Time `json:"finish,omitempty"`
	// RemainingSeconds is Finish minus At: negative if the pod is late.
	RemainingSeconds *float64 `json:"remainingSeconds,omitempty"`
}

func (f found) report(span Span) *Report {
	r := &Report{From: span.From.UTC(), To: span.To.UTC(), At: span.At.UTC(), StepSeconds: span.Step.Seconds(), MachineTypes: []MachineType{}, Nodes: []Node{}}
	if len(f.first) > 0 {
		r.Begins = moment(slices.Min(slices.Collect(maps.Values(f.first))))
		r.Ends = moment(slices.Max(slices.Collect(maps.Values(f.last))))
	}
	for _, k := range f.keys() {
		r.Nodes = append(r.Nodes, f.node(k, r))
	}
	slices.SortFunc(r.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MachineType, b.MachineType))
	})
	r.MachineTypes = f.types(r.Nodes, span.At)
	return r
}

// keys returns the nodes with a sample, and those that existed only between two samples.
func (f found) keys() []key {
	keys := map[key]bool{}
	for k := range f.first {
		keys[k] = true
	}
	for k := range f.ready {
		keys[k] = true
	}
	for k := range f.least {
		k.resource = ""
		keys[k] = true
	}
	return slices.Collect(maps.Keys(keys))
}

func (f found) node(k key, r *Report) Node {
	n := Node{Name: k.node, MachineType: k.machineType, State: StateAbsent, ThereSeconds: f.samples[k] * r.StepSeconds}
	if open, there := f.ready[k]; there {
		n.State = StateNotReady
		if open > 0 {
			n.State = StateReady
		}
		n.Pods = int(f.pods[k])
	}
	n.CPU, n.Memory = CPU{f.resource(k, "cpu")}, Memory{f.resource(k, "memory")}
	if finish, busy := f.finish[k]; busy {
		n.Busy = busyUntil(*moment(finish), r.At)
	}
	if f.samples[k] == 0 {
		return n // it existed only between two samples
	}
	if first := moment(f.first[k]); first.After(*r.Begins) {
		n.Came = first
	}
	if last := moment(f.last[k]); last.Before(*r.Ends) {
		n.Went = moment(f.last[k] + r.StepSeconds)
	}
	return n
}

func (f found) resource(k key, name string) Resource {
	of := k
	of.resource = name
	r := Resource{Capacity: f.capacity.of(of), Available: f.available.of(of), Least: f.least.of(of)}
	if sum, known := f.sums[of]; known && f.samples[k] > 0 {
		mean := sum / f.samples[k]
		r.Mean = &mean
	}
	return r
}

// types returns the sums over the nodes, sorted by machine type.
func (f found) types(nodes []Node, at time.Time) []MachineType {
	sums := map[string]*MachineType{}
	for _, n := range nodes {
		t := sums[n.MachineType]
		if t == nil {
			t = &MachineType{MachineType: n.MachineType}
			t.CPU.Least = f.typeLeast.of(key{"", n.MachineType, "cpu"})
			t.Memory.Least = f.typeLeast.of(key{"", n.MachineType, "memory"})
			sums[n.MachineType] = t
		}
		t.CPU.Mean = plus(t.CPU.Mean, f.share(key{n.Name, n.MachineType, "cpu"}))
		t.Memory.Mean = plus(t.Memory.Mean, f.share(key{n.Name, n.MachineType, "memory"}))
		if n.State == StateAbsent {
			continue
		}
		t.Nodes++
		t.Pods += n.Pods
		if n.State == StateReady {
			t.Ready++
		}
		t.CPU.add(n.CPU.Resource)
		t.Memory.add(n.Memory.Resource)
		if n.Finish != nil && (t.Finish == nil || n.Finish.After(*t.Finish)) {
			t.Busy = busyUntil(*n.Finish, at)
		}
	}
	types := []MachineType{}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		types = append(types, *sums[name])
	}
	return types
}

// share returns what a node contributes to the mean of its machine type.
func (f found) share(k key) *float64 {
	sum, known := f.sums[k]
	samples := f.typeSamples[key{machineType: k.machineType}]
	if !known || samples == 0 {
		return nil
	}
	part := sum / samples
	return &part
}

// add adds the current amounts of a node.
func (r *Resource) add(n Resource) {
	r.Capacity, r.Available = plus(r.Capacity, n.Capacity), plus(r.Available, n.Available)
}

// plus returns the sum of the known values.
func plus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	sum := *a + *b
	return &sum
}

func (v values) of(k key) *float64 {
	if x, known := v[k]; known {
		return &x
	}
	return nil
}

func busyUntil(finish, at time.Time) Busy {
	remaining := finish.Sub(at).Seconds()
	return Busy{Finish: &finish, RemainingSeconds: &remaining}
}

// moment returns the time for seconds since 1970.
func moment(seconds float64) *time.Time {
	const most = 253402300799 // the end of the year 9999; later times have no JSON form
	t := time.UnixMilli(int64(min(seconds, most) * 1e3)).UTC()
	return &t
}
