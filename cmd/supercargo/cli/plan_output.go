package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"supercargo.dev/supercargo/lab/planfile"
)

// newPlanDocument turns what the planner says into what is printed.
func newPlanDocument(algorithm string, r *planRequest, o planOutcome, elapsed time.Duration) planfile.Document {
	d := planfile.Document{
		Algorithm: algorithm, PricePerHour: dollars(o.plan.MicroDollarsPerHour), LowerBoundPerHour: dollars(o.bound),
		Gap: planfile.Gap(o.plan.MicroDollarsPerHour, o.bound), ElapsedMillis: float64(elapsed.Microseconds()) / 1000,
	}
	counts, nameOf := map[string]int{}, map[string]string{}
	for _, m := range o.plan.Machines {
		from := r.origin[m.Flavor]
		name := from.flavor.Name
		// The planner numbers the machines of each zone.
		machine := fmt.Sprintf("%s-%d", name, counts[name])
		counts[name]++
		nameOf[m.Name] = machine
		d.Purchases = append(d.Purchases, planfile.Purchase{
			Machine: machine, Flavor: name, Zone: from.zone, PricePerHour: dollars(m.MicroDollarsPerHour), Pods: len(m.Pods), Reason: m.Reason,
			CPUPercent:    planfile.Percent(m.Used.MilliCPU, from.flavor.MilliCPU),
			MemoryPercent: planfile.Percent(m.Used.MemoryBytes, from.flavor.MemoryBytes),
		})
	}
	for _, f := range r.catalogue { // ordered by name
		if n := counts[f.Name]; n > 0 {
			d.Machines = append(d.Machines, planfile.Count{Flavor: f.Name, Count: n, PricePerHour: dollars(f.MicroDollarsPerHour)})
		}
	}
	for _, a := range o.plan.Assignments {
		d.Assignments = append(d.Assignments, planfile.Assignment{Pod: a.Pod, Machine: nameOf[a.Machine]})
	}
	for _, u := range o.plan.Unplaceable {
		d.Unplaceable = append(d.Unplaceable, planfile.Reason{Pod: u.Pod, Reason: u.Reason})
	}
	d.Unplaceable = append(d.Unplaceable, r.unplaceable...)
	slices.SortFunc(d.Unplaceable, func(a, b planfile.Reason) int { return cmp.Compare(a.Pod, b.Pod) })
	for _, s := range r.skipped {
		d.Skipped = append(d.Skipped, planfile.Reason{Pod: s.Name, Reason: s.Reason})
	}
	return d
}

// mostLines is how many lines of machines, and of reasons, a table shows.
const mostLines = 20

// writeTable prints the plan for a terminal: what it costs, machines by flavor, then
// each machine with the reason for it, then the pods that have none.
func writePlanTable(w io.Writer, d planfile.Document) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d pods on %d machines for $%.4f/h (%s).\n", len(d.Assignments), len(d.Purchases), d.PricePerHour, d.Algorithm)
	fmt.Fprintf(&b, "Any plan costs at least $%.4f/h: this one is at most %.2f %% above the cheapest there is.\n", d.LowerBoundPerHour, 100*d.Gap)
	if d.ElapsedMillis > 0 {
		fmt.Fprintf(&b, "Planned in %.3f s.\n", d.ElapsedMillis/1000)
	}
	if err := errors.Join(tabulateFlavors(&b, d), tabulateMachines(&b, d), tabulateAlternatives(&b, d)); err != nil {
		return err
	}
	tellReasons(&b, "have no machine", d.Unplaceable)
	tellReasons(&b, "need none", d.Skipped)
	_, err := io.WriteString(w, b.String())
	return err
}

func tabulateFlavors(b *strings.Builder, d planfile.Document) error {
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

func tabulateMachines(b *strings.Builder, d planfile.Document) error {
	if len(d.Purchases) == 0 {
		return nil
	}
	zone := func(planfile.Purchase) string { return "" }
	header := "MACHINE\t"
	if slices.ContainsFunc(d.Purchases, func(p planfile.Purchase) bool { return p.Zone != "" }) {
		zone = func(p planfile.Purchase) string { return p.Zone + "\t" }
		header += "ZONE\t"
	}
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\n"+header+"PODS\tCPU\tMEMORY\tWHY\n")
	shown := 0
	for line := 0; line < mostLines && shown < len(d.Purchases); line++ {
		first := d.Purchases[shown]
		alike := 1
		for shown+alike < len(d.Purchases) && sameButName(first, d.Purchases[shown+alike]) {
			alike++
		}
		name := first.Machine
		if alike > 1 {
			last := d.Purchases[shown+alike-1].Machine
			name += " to " + strings.TrimPrefix(last, first.Flavor+"-")
		}
		fmt.Fprintf(t, "%s\t%s%d\t%.0f %%\t%.0f %%\t%s\n", name, zone(first), first.Pods, first.CPUPercent, first.MemoryPercent, first.Reason)
		shown += alike
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(d.Purchases) - shown; more > 0 {
		fmt.Fprintf(b, "... and %d more, which -o json lists.\n", more)
	}
	return nil
}

// sameButName reports whether two machines are equal but for their names.
func sameButName(a, b planfile.Purchase) bool {
	a.Machine = b.Machine
	return a == b
}

// tellReasons groups pods by the reason.
func tellReasons(b *strings.Builder, what string, pods []planfile.Reason) {
	if len(pods) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d pods %s:\n", len(pods), what)
	var reasons []string
	names := map[string][]string{}
	for _, p := range pods {
		if names[p.Reason] == nil {
			reasons = append(reasons, p.Reason)
		}
		names[p.Reason] = append(names[p.Reason], p.Pod)
	}
	for _, reason := range reasons[:min(mostLines, len(reasons))] {
		some, more := names[reason], ""
		if len(some) > 3 {
			some, more = some[:3], fmt.Sprintf(" and %d more", len(some)-3)
		}
		fmt.Fprintf(b, "  %s%s: %s\n", strings.Join(some, ", "), more, reason)
	}
	if more := len(reasons) - mostLines; more > 0 {
		fmt.Fprintf(b, "  ... and %d more reasons, which -o json lists.\n", more)
	}
}
