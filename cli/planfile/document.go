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

// Document is a plan as JSON. Money is in dollars. Scripts read it: fields may be added but never
// renamed.
type Document struct {
	// Algorithm is the name of the algorithm.
	Algorithm string `json:"algorithm"`
	// Machines are the numbers of machines to buy, ordered by flavor.
	Machines []Count `json:"machines"`
	// Assignments are ordered by pod.
	Assignments []Assignment `json:"assignments"`
	// PricePerHour is the price of all machines, and LowerBoundPerHour a lower bound for any plan.
	PricePerHour      float64 `json:"pricePerHour"`
	LowerBoundPerHour float64 `json:"lowerBoundPerHour"`
	// Gap is PricePerHour / LowerBoundPerHour - 1: 0 for an optimal plan, and otherwise the
	// greatest possible excess over the cheapest plan.
	Gap float64 `json:"gap"`
	// Unplaceable are the pods for which no machine is bought, ordered by pod.
	Unplaceable []Reason `json:"unplaceable"`
	// Skipped are the pods of the input that need no machine, in input order.
	Skipped []Reason `json:"skipped"`
	// Others counts the objects of the input that are not pods, by kind, and were ignored.
	Others map[string]int `json:"others,omitempty"`
	// ElapsedMillis is the planning time, without reading and printing.
	ElapsedMillis float64 `json:"elapsedMillis"`
	// Purchases are the individual machines.
	Purchases []Purchase `json:"purchases"`
	// Alternatives are the next best plans, if requested. Each omits one of the bought flavors;
	// those with the highest total price come first.
	Alternatives []Alternative `json:"alternatives,omitempty"`
}

// Alternative is the best plan found without a flavor.
type Alternative struct {
	Without      string  `json:"without"`
	PricePerHour float64 `json:"pricePerHour"`
	// Machines are ordered by flavor.
	Machines []Count `json:"machines"`
	// Unplaceable is the number of additional pods without a machine.
	Unplaceable int `json:"unplaceable,omitempty"`
}

// Count is a number of identical machines.
type Count struct {
	Flavor string `json:"flavor"`
	Count  int    `json:"count"`
	// PricePerHour is the price of one machine.
	PricePerHour float64 `json:"pricePerHour"`
}

// Assignment is the machine of a pod. Machines are named FLAVOR-N, with N from 0 for each flavor.
type Assignment struct {
	Pod     string `json:"pod"`
	Machine string `json:"machine"`
}

// Reason is the reason why a pod has no machine.
type Reason struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
}

// Purchase is one machine.
type Purchase struct {
	Machine string `json:"machine"`
	Flavor  string `json:"flavor"`
	// Zone is the zone of the machine, or empty if its flavor has no zones.
	Zone         string  `json:"zone,omitempty"`
	PricePerHour float64 `json:"pricePerHour"`
	Pods         int     `json:"pods"`
	// CPUPercent and MemoryPercent are the shares of the machine that its pods request.
	CPUPercent    float64 `json:"cpuPercent"`
	MemoryPercent float64 `json:"memoryPercent"`
	// Reason is the reason for the purchase in words, or empty if it is unknown.
	Reason string `json:"reason,omitempty"`
}

// NewDocument converts the result of an algorithm, and its planning time, to the printed form.
func NewDocument(algorithm string, r *Request, o Outcome, elapsed time.Duration) Document {
	d := Document{
		Algorithm: algorithm, PricePerHour: dollars.Of(o.Plan.MicroDollarsPerHour), LowerBoundPerHour: dollars.Of(o.Bound),
		Gap: Gap(o.Plan.MicroDollarsPerHour, o.Bound), ElapsedMillis: float64(elapsed.Microseconds()) / 1000, Others: r.others,
	}
	counts, nameOf := map[string]int{}, map[string]string{}
	for _, m := range o.Plan.Machines {
		from := r.origin[m.Flavor]
		name := from.flavor.Name
		// The planner numbers machines per zone, the document per flavor.
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

// Write writes the document as JSON, with nil lists as empty ones.
func (d Document) Write(w io.Writer) error {
	d.Machines, d.Assignments, d.Purchases = jsondoc.List(d.Machines), jsondoc.List(d.Assignments), jsondoc.List(d.Purchases)
	d.Unplaceable, d.Skipped = jsondoc.List(d.Unplaceable), jsondoc.List(d.Skipped)
	return jsondoc.Write(w, d)
}

// Gap returns the excess of the price over the bound as a share of the bound. A bound of 0 means a
// price of 0, because machines that cost nothing can be bought in any number.
func Gap(price, bound int64) float64 {
	if price <= bound || bound <= 0 {
		return 0
	}
	return float64(price-bound) / float64(bound)
}

// Percent returns a share of a machine in percent, rounded down to two decimals. It is 0 if whole
// is 0.
func Percent(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(int64(1e4*float64(part)/float64(whole))) / 100
}
