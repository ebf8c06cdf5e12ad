package nodequery

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Report is what nodes were like. As JSON it is read by scripts: fields may be added and
// never renamed.
type Report struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// At is the moment at which nodes are shown.
	At time.Time `json:"at"`
	// StepSeconds is how far apart the looks are.
	StepSeconds float64 `json:"stepSeconds"`
	// Begins and Ends are the first and the last look that saw any node; nil if none did.
	Begins *time.Time `json:"begins,omitempty"`
	Ends   *time.Time `json:"ends,omitempty"`
	// MachineTypes are in the order of their names, as are Nodes. A node whose type was
	// changed is there once for each.
	MachineTypes []MachineType `json:"machineTypes"`
	Nodes        []Node        `json:"nodes"`
}

// The states of a node at a moment.
const (
	StateReady    = "ready"
	StateNotReady = "not ready" // or cordoned: it takes no pods
	StateAbsent   = "absent"    // it has not come yet, or has gone
)

// Node is one of a machine type.
type Node struct {
	Name string `json:"node"`
	// MachineType is empty where the node has no label that tells.
	MachineType string `json:"machineType"`
	State       string `json:"state"`
	// Pods is how many had not ended.
	Pods int `json:"pods"`
	// CPU is in cores and Memory in bytes.
	CPU    Resource `json:"cpu"`
	Memory Resource `json:"memory"`
	Busy
	// Came and Went are the first look that saw it there, and the first after the last one:
	// it came or went within a step before. They are nil where it was there from the
	// beginning of what is known, or to its end, and for what was there between two looks only.
	Came *time.Time `json:"came,omitempty"`
	Went *time.Time `json:"went,omitempty"`
	// ThereSeconds is for how long of the time it was there: so many looks times a step.
	ThereSeconds float64 `json:"thereSeconds"`
}

// MachineType is what all nodes of one had together.
type MachineType struct {
	MachineType string `json:"machineType"`
	// Nodes, Ready and Pods are how many there were at the moment.
	Nodes int `json:"nodes"`
	Ready int `json:"ready"`
	Pods  int `json:"pods"`
	// CPU is in cores and Memory in bytes.
	CPU    Resource `json:"cpu"`
	Memory Resource `json:"memory"`
	Busy
}

// Resource is an amount of one. What is not known is nil.
type Resource struct {
	// Capacity is what the machine has, or had when it was last seen; of a machine type,
	// what the nodes have that are there at the moment.
	Capacity *float64 `json:"capacity,omitempty"`
	// Available is what further pods may request at the moment.
	Available *float64 `json:"available,omitempty"`
	// Mean and Least are the same over the time: while the node was there, or while any of
	// the machine type was. Least of a node is that of everything written, of a machine type
	// that of the looks.
	Mean  *float64 `json:"meanAvailable,omitempty"`
	Least *float64 `json:"leastAvailable,omitempty"`
}

// Busy is until when batch pods are expected to run.
type Busy struct {
	// Finish is when the last batch pod is expected to end that runs at the moment; nil
	// where no pod tells.
	Finish *time.Time `json:"finish,omitempty"`
	// RemainingSeconds is Finish less the moment: below 0 for what is late.
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

// keys are the nodes that a look saw, and those that were there between two.
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
	n := Node{Name: k.node, MachineType: k.machineType, State: StateAbsent, ThereSeconds: f.looks[k] * r.StepSeconds}
	if open, there := f.ready[k]; there {
		n.State = StateNotReady
		if open > 0 {
			n.State = StateReady
		}
		n.Pods = int(f.pods[k])
	}
	n.CPU, n.Memory = f.resource(k, "cpu"), f.resource(k, "memory")
	if finish, busy := f.finish[k]; busy {
		n.Busy = busyUntil(*moment(finish), r.At)
	}
	if f.looks[k] == 0 {
		return n // it was there between two looks
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
	if sum, known := f.sums[of]; known && f.looks[k] > 0 {
		mean := sum / f.looks[k]
		r.Mean = &mean
	}
	return r
}

// types adds up the nodes, in their order.
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
		t.CPU.add(n.CPU)
		t.Memory.add(n.Memory)
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

// share is what a node adds to the mean of its machine type.
func (f found) share(k key) *float64 {
	sum, known := f.sums[k]
	looks := f.typeLooks[key{machineType: k.machineType}]
	if !known || looks == 0 {
		return nil
	}
	part := sum / looks
	return &part
}

// add adds what a node has at the moment.
func (r *Resource) add(n Resource) {
	r.Capacity, r.Available = plus(r.Capacity, n.Capacity), plus(r.Available, n.Available)
}

// plus adds what is known.
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

// moment returns the time of so many seconds since 1970.
func moment(seconds float64) *time.Time {
	const most = 253402300799 // the end of the year 9999, after which times have no JSON
	t := time.UnixMilli(int64(min(seconds, most) * 1e3)).UTC()
	return &t
}
