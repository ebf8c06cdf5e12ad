package purchase

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"supercargo.dev/supercargo/internal/cluster"
)

// Refusal describes why no flavor takes a pod, and counts flavors by reason: "0 of 12 flavors: 8 too small (CPU), 4 not
// admitted: node selector zone=b". It returns "" if some flavor that can be bought takes the pod.
func Refusal(p *Pod, flavors []Flavor) string {
	if negative(*p) {
		return fmt.Sprintf("requests a negative amount: CPU %dm, memory %d bytes", p.Size.MilliCPU, p.Size.MemoryBytes)
	}
	if len(flavors) == 0 {
		return "there are no flavors to buy"
	}
	counts := map[string]int{}
	for i := range flavors {
		why := p.RefusedBy(&flavors[i])
		if why == "" {
			return ""
		}
		counts[why]++
	}
	return tally(len(flavors), counts)
}

// TooSmall begins the reasons of flavors whose machines have less CPU or memory than the pod requests.
const TooSmall = "too small"

// RefusedBy returns why no machine of a flavor takes the pod, or "".
func (p *Pod) RefusedBy(f *Flavor) string {
	if !f.Sells(1) {
		return "at its maximum"
	}
	if why := p.admittedBy(f); why != "" {
		return "not admitted: " + why
	}
	switch cpu, memory := p.Size.MilliCPU > f.Size.MilliCPU, p.Size.MemoryBytes > f.Size.MemoryBytes; {
	case cpu && memory:
		return TooSmall + " (CPU and memory)"
	case cpu:
		return TooSmall + " (CPU)"
	case memory:
		return TooSmall + " (memory)"
	}
	return ""
}

// tally formats the reasons, the most frequent first.
func tally(flavors int, counts map[string]int) string {
	var whys []string
	for why := range counts {
		whys = append(whys, why)
	}
	slices.SortFunc(whys, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for i, why := range whys {
		whys[i] = fmt.Sprintf("%d %s", counts[why], why)
	}
	return fmt.Sprintf("0 of %d flavors: %s", flavors, strings.Join(whys, ", "))
}

// exhausted describes why a pod has no machine although flavors take it: every such flavor exceeds the limits.
func exhausted(l cluster.Limits, options MixOptions) string {
	var limits []string
	if most := machinesOf(l, options); most != nil {
		limits = append(limits, fmt.Sprintf("%d machines", *most))
	}
	if l.MilliCPU != nil {
		limits = append(limits, fmt.Sprintf("CPU %dm", *l.MilliCPU))
	}
	if l.MemoryBytes != nil {
		limits = append(limits, fmt.Sprintf("%d bytes of memory", *l.MemoryBytes))
	}
	if l.MicroDollarsPerHour != nil {
		limits = append(limits, fmt.Sprintf("$%.4f/h", float64(*l.MicroDollarsPerHour)/1e6))
	}
	if len(limits) == 0 {
		return "no more machines of the flavors that can hold it may be bought"
	}
	return "the plan may buy at most " + strings.Join(limits, ", ")
}
