package planfile

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
)

// Document is a plan as JSON. Money is in dollars. Scripts read it: fields may be
// added and never renamed.
type Document struct {
	// Algorithm is who planned.
	Algorithm string `json:"algorithm"`
	// Machines are how many machines of each flavor to buy, ordered by flavor.
	Machines []Count `json:"machines"`
	// Assignments are ordered by pod.
	Assignments []Assignment `json:"assignments"`
	// PricePerHour is what all machines cost, and LowerBoundPerHour what those of any
	// plan must cost.
	PricePerHour      float64 `json:"pricePerHour"`
	LowerBoundPerHour float64 `json:"lowerBoundPerHour"`
	// Gap is PricePerHour / LowerBoundPerHour - 1: 0 for a plan that is as cheap as can
	// be, and by how much a better one could be cheaper at most.
	Gap float64 `json:"gap"`
	// Unplaceable are the pods for which nothing is bought, ordered by pod.
	Unplaceable []Reason `json:"unplaceable"`
	// Skipped are pods of the input that need no machine, in its order.
	Skipped []Reason `json:"skipped"`
	// ElapsedMillis is how long planning took, reading and printing left out.
	ElapsedMillis float64 `json:"elapsedMillis"`
	// Purchases are the machines one by one.
	Purchases []Purchase `json:"purchases"`
	// Alternatives are the plans next best, where they were asked for: each without one of
	// the flavors that are bought, those first on which the most is spent.
	Alternatives []Alternative `json:"alternatives,omitempty"`
}

// Alternative is what the best plan found without a flavor is like.
type Alternative struct {
	Without      string  `json:"without"`
	PricePerHour float64 `json:"pricePerHour"`
	// Machines are ordered by flavor.
	Machines []Count `json:"machines"`
	// Unplaceable is how many pods more it leaves without a machine.
	Unplaceable int `json:"unplaceable,omitempty"`
}

// Count is a number of equal machines.
type Count struct {
	Flavor string `json:"flavor"`
	Count  int    `json:"count"`
	// PricePerHour is that of one machine.
	PricePerHour float64 `json:"pricePerHour"`
}

// Assignment says which machine takes a pod. Machines are called FLAVOR-N, N from 0
// for each flavor.
type Assignment struct {
	Pod     string `json:"pod"`
	Machine string `json:"machine"`
}

// Reason says why a pod has no machine.
type Reason struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
}

// Purchase is one machine.
type Purchase struct {
	Machine string `json:"machine"`
	Flavor  string `json:"flavor"`
	// Zone is where to buy it; empty where its flavor names no zones.
	Zone         string  `json:"zone,omitempty"`
	PricePerHour float64 `json:"pricePerHour"`
	Pods         int     `json:"pods"`
	// CPUPercent and MemoryPercent are how much of the machine its pods ask for.
	CPUPercent    float64 `json:"cpuPercent"`
	MemoryPercent float64 `json:"memoryPercent"`
	// Reason says in words why it is bought; empty where nobody can tell.
	Reason string `json:"reason,omitempty"`
}

// NewDocument turns what an algorithm makes of a request, in so long a time, into what is
// printed.
func NewDocument(algorithm string, r *Request, o Outcome, elapsed time.Duration) Document {
	d := Document{
		Algorithm: algorithm, PricePerHour: dollars.Of(o.Plan.MicroDollarsPerHour), LowerBoundPerHour: dollars.Of(o.Bound),
		Gap: Gap(o.Plan.MicroDollarsPerHour, o.Bound), ElapsedMillis: float64(elapsed.Microseconds()) / 1000,
	}
	counts, nameOf := map[string]int{}, map[string]string{}
	for _, m := range o.Plan.Machines {
		from := r.origin[m.Flavor]
		name := from.flavor.Name
		// The planner numbers the machines of each zone.
		machine := fmt.Sprintf("%s-%d", name, counts[name])
		counts[name]++
		nameOf[m.Name] = machine
		d.Purchases = append(d.Purchases, Purchase{
			Machine: machine, Flavor: name, Zone: from.zone, PricePerHour: dollars.Of(m.MicroDollarsPerHour), Pods: len(m.Pods), Reason: m.Reason,
			CPUPercent:    Percent(m.Used.MilliCPU, from.flavor.Size.MilliCPU),
			MemoryPercent: Percent(m.Used.MemoryBytes, from.flavor.Size.MemoryBytes),
		})
	}
	for _, f := range r.catalogue { // ordered by name
		if n := counts[f.Name]; n > 0 {
			d.Machines = append(d.Machines, Count{Flavor: f.Name, Count: n, PricePerHour: dollars.Of(f.MicroDollarsPerHour)})
		}
	}
	for _, a := range o.Plan.Assignments {
		d.Assignments = append(d.Assignments, Assignment{Pod: a.Pod, Machine: nameOf[a.Machine]})
	}
	for _, u := range o.Plan.Unplaceable {
		d.Unplaceable = append(d.Unplaceable, Reason{Pod: u.Pod, Reason: u.Reason})
	}
	d.Unplaceable = append(d.Unplaceable, r.unplaceable...)
	slices.SortFunc(d.Unplaceable, func(a, b Reason) int { return cmp.Compare(a.Pod, b.Pod) })
	for _, s := range r.skipped {
		d.Skipped = append(d.Skipped, Reason{Pod: s.Name, Reason: s.Reason})
	}
	return d
}

// Write prints the document with its lists that are nil as empty ones.
func (d Document) Write(w io.Writer) error {
	d.Machines, d.Assignments, d.Purchases = jsondoc.List(d.Machines), jsondoc.List(d.Assignments), jsondoc.List(d.Purchases)
	d.Unplaceable, d.Skipped = jsondoc.List(d.Unplaceable), jsondoc.List(d.Skipped)
	return jsondoc.Write(w, d)
}

// Gap is by how much of the bound the price is above it. A bound of 0 goes with a
// price of 0: machines that cost nothing can be had in any number.
func Gap(price, bound int64) float64 {
	if price <= bound || bound <= 0 {
		return 0
	}
	return float64(price-bound) / float64(bound)
}

// Percent is a share of a machine, rounded down to two digits after the point; 0 of
// nothing.
func Percent(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(int64(1e4*float64(part)/float64(whole))) / 100
}
