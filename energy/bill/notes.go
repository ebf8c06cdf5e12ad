package bill

import (
	"fmt"
	"slices"
	"strings"

	"supercargo.dev/supercargo/energy"
	"supercargo.dev/supercargo/internal/text/plural"
)

// AddNotes adds what a reader should know about the figures: they are those of the observations, whose power was
// modelled or read from meters, with samples that name no node.
func (r *Report) AddNotes(observed []Slice, modelled bool, nameless int) {
	note := func(is bool, format string, args ...any) {
		if is {
			r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
		}
	}
	pods, timed := false, false
	for _, s := range observed {
		pods = pods || len(s.Pods) > 0
		timed = timed || slices.ContainsFunc(s.Pods, func(p Pod) bool { return p.Used != nil })
	}
	known := r.Covered > 0
	note(!known && modelled, "No nodes were found: --power model reads their CPUs, which the metrics adapter or kube-state-metrics exports, in samples half a minute apart. A server that has just started has them after a minute.")
	note(!known && !modelled, "No power of any node was found: docs/power-meters.md lists the series that are read, --power-query uses your own query, and --power model needs no meter.")
	note(known && !pods, "No pods were found, so all energy is unallocated: query the metrics adapter, or scrape kube-scheduler's /metrics/resources or kube-state-metrics.")
	note(pods && !timed, "The CPU time of pods is unknown, so energy by load is shared by requests: scrape the kubelets' /metrics/resource, as the metrics adapter does.")
	note(r.Powerless > 0, "%s ran on %s whose power is unknown and %s not in the bill: check that power and pods use the same node names.",
		plural.Count(r.Powerless, "pod"), plural.Form(r.Powerless, "a node", "nodes"), plural.Form(r.Powerless, "is", "are"))
	note(r.Gaps > r.Covered/20, "The power of nodes was unknown for %.1f of %.1f node-hours; that energy is in no row.", r.Gaps.Hours(), (r.Covered + r.Gaps).Hours())
	note(r.HasPrice && r.PricedShare < 0.9999, "%.1f %% of the energy has no price, and is counted as $0.", 100*(1-r.PricedShare))
	note(r.HasCarbon && r.CarbonShare < 0.9999, "%.1f %% of the energy has no carbon intensity, and is counted as 0 g.", 100*(1-r.CarbonShare))
	note(nameless > 0, "%s of power %s no node: the query drops the label.", plural.Count(nameless, "sample"), plural.Form(nameless, "has", "have"))
	if n := r.Dropped.Dropped(); n > 0 {
		var faults []string
		for _, fault := range energy.Faults() {
			if k := r.Dropped.Of(fault); k > 0 {
				faults = append(faults, fmt.Sprintf("%d %s", k, fault))
			}
		}
		note(true, "%s of power %s implausible and %[2]s dropped: %[3]s.", plural.Count(n, "reading"), plural.Form(n, "was", "were"), strings.Join(faults, ", "))
	}
}
