package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"supercargo.dev/supercargo/autoscaler/planner"
)

// planDocument is what `supercargo plan -o json` prints.
type planDocument struct {
	Algorithm string `json:"algorithm"`
	// Machines are how many machines of each flavor to buy, by the flavor's name.
	Machines []planFlavor `json:"machines"`
	// Assignments are ordered by the pod's name.
	Assignments []planAssignment `json:"assignments"`
	// PricePerHour is what all machines cost and LowerBoundPerHour what those of any
	// plan must cost that places the same pods, in dollars.
	PricePerHour      float64 `json:"pricePerHour"`
	LowerBoundPerHour float64 `json:"lowerBoundPerHour"`
	// Gap is by how much of the bound the price is above it, 0 for a plan that is as
	// cheap as can be.
	Gap float64 `json:"gap"`
	// Unplaceable are the pods for which nothing is bought, by name.
	Unplaceable []planUnplaceable `json:"unplaceable"`
	// ElapsedMillis is how long planning took, reading and printing left out.
	ElapsedMillis float64 `json:"elapsedMillis"`
	// Purchases are the machines one by one.
	Purchases []planPurchase `json:"purchases"`
}

type planFlavor struct {
	Flavor string `json:"flavor"`
	Count  int    `json:"count"`
	// PricePerHour is that of one machine, in dollars.
	PricePerHour float64 `json:"pricePerHour"`
}

type planAssignment struct {
	Pod     string `json:"pod"`
	Machine string `json:"machine"`
}

type planUnplaceable struct {
	Pod    string `json:"pod"`
	Reason string `json:"reason"`
}

// planPurchase is one machine.
type planPurchase struct {
	Machine      string  `json:"machine"`
	Flavor       string  `json:"flavor"`
	PricePerHour float64 `json:"pricePerHour"`
	Pods         int     `json:"pods"`
	// CPUPercent and MemoryPercent are how much of the machine its pods ask for.
	CPUPercent    float64 `json:"cpuPercent"`
	MemoryPercent float64 `json:"memoryPercent"`
	Reason        string  `json:"reason"`
}

func newPlanDocument(algorithm string, r planRequest, o planOutcome, elapsed time.Duration) planDocument {
	d := planDocument{
		Algorithm: algorithm, Machines: []planFlavor{}, Assignments: []planAssignment{}, Unplaceable: []planUnplaceable{}, Purchases: []planPurchase{},
		PricePerHour: dollars(o.plan.MicroDollarsPerHour), LowerBoundPerHour: dollars(o.bound), Gap: gap(o.plan.MicroDollarsPerHour, o.bound),
		ElapsedMillis: float64(elapsed.Microseconds()) / 1000,
	}
	flavors := map[string]planner.Flavor{}
	for _, f := range r.flavors {
		flavors[f.Name] = f
	}
	counts := map[string]int{}
	for _, m := range o.plan.Machines {
		counts[m.Flavor]++
		f := flavors[m.Flavor]
		d.Purchases = append(d.Purchases, planPurchase{
			Machine: m.Name, Flavor: m.Flavor, PricePerHour: dollars(m.MicroDollarsPerHour), Pods: len(m.Pods), Reason: m.Reason,
			CPUPercent: percent(m.Used.MilliCPU, f.Size.MilliCPU), MemoryPercent: percent(m.Used.MemoryBytes, f.Size.MemoryBytes),
		})
	}
	for name, count := range counts {
		d.Machines = append(d.Machines, planFlavor{Flavor: name, Count: count, PricePerHour: dollars(flavors[name].MicroDollarsPerHour)})
	}
	slices.SortFunc(d.Machines, func(a, b planFlavor) int { return cmp.Compare(a.Flavor, b.Flavor) })
	for _, a := range o.plan.Assignments {
		d.Assignments = append(d.Assignments, planAssignment{Pod: a.Pod, Machine: a.Machine})
	}
	for _, u := range o.plan.Unplaceable {
		d.Unplaceable = append(d.Unplaceable, planUnplaceable{Pod: u.Pod, Reason: u.Reason})
	}
	return d
}

// percent is a share with two digits after the point, and 0 of nothing.
func percent(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(int64(1e4*float64(part)/float64(whole))) / 100
}

// gap is price / bound - 1. A bound of 0 goes with a price of 0 alone: machines
// that cost nothing can be had in any number.
func gap(price, bound int64) float64 {
	if price <= bound || bound <= 0 {
		return 0
	}
	return float64(price-bound) / float64(bound)
}

func (d planDocument) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}

// mostLines is how many machines, and how many reasons, a table shows.
const mostLines = 20

// writeTable prints the plan for a terminal: what it costs, machines by flavor, then
// each machine with the reason for it, then the pods that have none.
func (d planDocument) writeTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pods on %d machines for $%.4f/h (%s).\n", len(d.Assignments), len(d.Purchases), d.PricePerHour, d.Algorithm)
	fmt.Fprintf(&b, "Any plan costs at least $%.4f/h: this one is at most %.2f %% above the cheapest there is.\n", d.LowerBoundPerHour, 100*d.Gap)
	if d.ElapsedMillis > 0 {
		fmt.Fprintf(&b, "Planned in %.3f s.\n", d.ElapsedMillis/1000)
	}
	if err := errors.Join(d.tabulateFlavors(&b), d.tabulateMachines(&b)); err != nil {
		return err
	}
	d.tellUnplaceable(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (d planDocument) tabulateFlavors(b *strings.Builder) error {
	if len(d.Machines) == 0 {
		return nil
	}
	pods := map[string]int{}
	for _, p := range d.Purchases {
		pods[p.Flavor] += p.Pods
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nFLAVOR\tMACHINES\tPODS\t$/H EACH\t$/H\n")
	for _, m := range d.Machines {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.4f\t%.4f\n", m.Flavor, m.Count, pods[m.Flavor], m.PricePerHour, float64(m.Count)*m.PricePerHour)
	}
	return t.Flush()
}

func (d planDocument) tabulateMachines(b *strings.Builder) error {
	if len(d.Purchases) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\nMACHINE\tPODS\tCPU\tMEMORY\tWHY\n")
	for _, m := range d.Purchases[:min(mostLines, len(d.Purchases))] {
		fmt.Fprintf(t, "%s\t%d\t%.0f %%\t%.0f %%\t%s\n", m.Machine, m.Pods, m.CPUPercent, m.MemoryPercent, m.Reason)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(d.Purchases) - mostLines; more > 0 {
		fmt.Fprintf(b, "... and %d more, which -o json lists.\n", more)
	}
	return nil
}

// tellUnplaceable groups the pods that have no machine by the reason.
func (d planDocument) tellUnplaceable(b *strings.Builder) {
	if len(d.Unplaceable) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d pods have no machine:\n", len(d.Unplaceable))
	var reasons []string
	names := map[string][]string{}
	for _, u := range d.Unplaceable {
		if names[u.Reason] == nil {
			reasons = append(reasons, u.Reason)
		}
		names[u.Reason] = append(names[u.Reason], u.Pod)
	}
	for _, reason := range reasons[:min(mostLines, len(reasons))] {
		pods, more := names[reason], ""
		if len(pods) > 3 {
			pods, more = pods[:3], fmt.Sprintf(" and %d more", len(pods)-3)
		}
		fmt.Fprintf(b, "  %s%s: %s\n", strings.Join(pods, ", "), more, reason)
	}
	if more := len(reasons) - mostLines; more > 0 {
		fmt.Fprintf(b, "  ... and %d more reasons, which -o json lists.\n", more)
	}
}
