package explain

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"supercargo.dev/supercargo/energy/score"
	"supercargo.dev/supercargo/energy/tariff"
)

// Pod is how EnergyPerformance rates the nodes for a pod.
type Pod struct {
	Pod          string       `json:"pod"`
	EnergyWeight float64      `json:"energyWeight"`
	WeightFrom   score.Origin `json:"weightFrom"`
	Note         string       `json:"note,omitempty"`
	Unit         tariff.Unit  `json:"energyCountsBy,omitempty"`
	Nodes        []PodNode    `json:"nodes"`
}

// PodNode is how it rates one node. Numbers are set if the machine type has a profile.
type PodNode struct {
	Node           string  `json:"node"`
	MachineType    string  `json:"machineType"`
	Governor       string  `json:"governor,omitempty"`
	Idle           bool    `json:"idle"`
	Score          int64   `json:"score"`
	Known          bool    `json:"known"`
	EnergyJoules   float64 `json:"energyJoules,omitempty"`
	RuntimeSeconds float64 `json:"runtimeSeconds,omitempty"`
	EnergyTrust    float64 `json:"energyTrustRatio"`
	RuntimeTrust   float64 `json:"runtimeTrustRatio"`
	Doubts         string  `json:"doubts,omitempty"`
	// Zone, PerKWh and Cost are set with a tariff, the last two only if it has a value.
	Zone   string   `json:"zone,omitempty"`
	PerKWh *float64 `json:"perKWh,omitempty"`
	Cost   *float64 `json:"energyCost,omitempty"`
}

// NewPod returns how nodes compare for a pod with an energy weight, and the cost of the energy on
// each if energy is counted in a unit of a tariff.
func NewPod(name string, weight score.Weight, unit tariff.Unit, lines []score.Line) Pod {
	e := Pod{Pod: name, EnergyWeight: weight.H, WeightFrom: weight.Origin, Unit: unit}
	for _, l := range lines {
		n := newPodNode(l)
		if unit != "" {
			n.priced(l)
		}
		e.Nodes = append(e.Nodes, n)
	}
	return e
}

func newPodNode(l score.Line) PodNode {
	n := PodNode{Node: l.Node.Name, MachineType: l.Node.MachineType, Governor: l.Node.Governor, Idle: l.Node.Idle, Score: l.Result.Score, Known: l.Option.Known}
	if l.Option.Known {
		n.EnergyJoules, n.RuntimeSeconds = float64(l.Option.Joules()), l.Option.Runtime.Value
		n.EnergyTrust, n.RuntimeTrust, n.Doubts = l.Option.Energy.Trust, l.Option.Runtime.Trust, l.Doubts().String()
	}
	return n
}

// priced sets the cost of the energy on the node.
func (n *PodNode) priced(l score.Line) {
	n.Zone = l.Node.Zone
	if p := l.Node.Price; p.Known {
		n.PerKWh = &p.PerKWh
	}
	if cost, known := l.Option.Cost(); known && l.Option.Known {
		n.Cost = &cost
	}
}

// Write prints the pod, and a line for each node.
func (e Pod) Write(w io.Writer) error {
	fmt.Fprintf(w, "Pod %s: weight of energy against runtime %g (%s)\n", e.Pod, e.EnergyWeight, e.WeightFrom)
	if e.Note != "" {
		fmt.Fprintln(w, e.Note)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	header := ""
	if e.Unit != "" {
		header = "ZONE\tENERGY COSTS\t"
	}
	fmt.Fprintf(t, "\nNODE\tMACHINE TYPE\tSCORE\tENERGY J\tRUNTIME S\tTRUST\t%sNOTE\n", header)
	for _, n := range e.Nodes {
		if !n.Known {
			fmt.Fprintf(t, "%s\t%s\t%d\t?\t?\t-\t%s%s\n", n.Node, cmp.Or(n.MachineType, "?"), n.Score, n.costText(e.Unit), "no prediction for this pod on this machine type")
			continue
		}
		var notes []string
		if n.Idle {
			notes = append(notes, "idle: its idle power is included")
		}
		if n.Doubts != "" {
			notes = append(notes, n.Doubts)
		}
		if e.Unit != "" && n.PerKWh == nil {
			notes = append(notes, "the price of the zone is unknown: the price of all other zones, or none, applies")
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%.4g\t%.4g\t%.0f %%\t%s%s\n", n.Node, n.MachineType, n.Score, n.EnergyJoules, n.RuntimeSeconds,
			100*min(n.EnergyTrust, n.RuntimeTrust), n.costText(e.Unit), strings.Join(notes, "; "))
	}
	return t.Flush()
}

// costText returns the cells that only exist with a tariff.
func (n *PodNode) costText(unit tariff.Unit) string {
	if unit == "" {
		return ""
	}
	cost := "?"
	if n.Cost != nil {
		cost = unit.Format(*n.Cost)
	}
	return cmp.Or(n.Zone, "?") + "\t" + cost + "\t"
}
