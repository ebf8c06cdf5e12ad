package purchase

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

// Refusal describes why no flavor takes a pod. If one or several rules exclude the pod from every flavor, it names these:
// "0 of 12 flavors: 12 not admitted: node selector zone=c". Otherwise it counts flavors by their first reason: "0 of 12
// flavors: 8 too small (CPU), 4 not admitted: node selector zone=b". It returns "" if some flavor that can be bought takes
// the pod.
//
// Cost: O(flavors · constraints of the pod).
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
	if all := p.refusedByAll(flavors); len(all) > 0 {
		counts = make(map[string]int, len(all))
		for _, why := range all {
			counts[why] = len(flavors)
		}
	}
	return tally(len(flavors), counts)
}

// The beginnings of reasons: of flavors whose machines have less of a resource than the pod requests, and of those whose
// machines it may not run on.
const (
	TooSmall    = "too small"
	notAdmitted = "not admitted: "
)

// RefusedBy returns why no machine of a flavor takes the pod, or "".
func (p *Pod) RefusedBy(f *Flavor) string {
	if !f.Sells(1) {
		return soldOut
	}
	if why := p.admittedBy(f); why != "" {
		return notAdmitted + why
	}
	if p.Size.Fits(f.Size) {
		return ""
	}
	return tooSmall(p.Size.MilliCPU > f.Size.MilliCPU, p.Size.MemoryBytes > f.Size.MemoryBytes, p.Size.Extended.Beyond(f.Size.Extended), f.Resources)
}

const soldOut = "at its maximum"

// tooSmall describes machines with too little of some resources; "" if they have enough. names are those of the extended ones.
func tooSmall(cpu, memory bool, others packing.Extended, names *extended.Names) string {
	var short []string
	if cpu {
		short = append(short, "CPU")
	}
	if memory {
		short = append(short, "memory")
	}
	for slot, amount := range others.BySlot() {
		if amount > 0 {
			short = append(short, names.Name(slot))
		}
	}
	if len(short) == 0 {
		return ""
	}
	return TooSmall + " (" + strings.Join(short, " and ") + ")"
}

// refusedByAll returns the reasons of which each alone excludes the pod from all flavors; none if there is no such reason.
func (p *Pod) refusedByAll(flavors []Flavor) (all []string) {
	sold, arch, cpu, memory, gpus, others := true, true, true, true, true, p.Size.Extended
	excepted, demands := p.excepted(&flavors[0]), p.rejections(&flavors[0])
	for i := range flavors {
		f := &flavors[i]
		sold, arch = sold && !f.Sells(1), arch && !suits(p.Arch, f.Arch)
		cpu, memory = cpu && p.Size.MilliCPU > f.Size.MilliCPU, memory && p.Size.MemoryBytes > f.Size.MemoryBytes
		gpus, others = gpus && !f.ServesGPUs(p.Size), others.Only(p.Size.Extended.Beyond(f.Size.Extended))
		if excepted != "" && p.excepted(f) != excepted {
			excepted = ""
		}
		if len(demands) > 0 {
			demands = p.Demands.RejectionsAmong(hostOf(f.Host), demands)
		}
	}
	if sold {
		all = append(all, soldOut)
	}
	if arch {
		all = append(all, notAdmitted+p.unsuited(&flavors[0]))
	}
	if excepted != "" {
		all = append(all, notAdmitted+excepted)
	}
	if gpus {
		all = append(all, notAdmitted+onlyForGPUs)
	}
	for _, why := range demands {
		if !hasPart(why, demands) {
			all = append(all, notAdmitted+why)
		}
	}
	if small := tooSmall(cpu, memory, others, flavors[0].Resources); small != "" {
		all = append(all, small)
	}
	return all
}

// rejections returns every reason why the constraints of the pod do not admit machines of a flavor.
func (p *Pod) rejections(f *Flavor) []string {
	if p.Demands == nil {
		return nil
	}
	return p.Demands.Rejections(hostOf(f.Host))
}

// hasPart reports whether a reason is a node affinity of which a part is another of these reasons.
func hasPart(why string, all []string) bool {
	whole, is := strings.CutPrefix(why, constraint.NodeAffinity)
	return is && slices.ContainsFunc(all, func(other string) bool {
		part, is := strings.CutPrefix(other, constraint.NodeAffinity)
		return is && part != whole && strings.Contains(whole, part)
	})
}

// mostReasons is how many reasons are counted one by one.
const mostReasons = 10

// tally formats the reasons, the most frequent first.
func tally(flavors int, counts map[string]int) string {
	var whys []string
	for why := range counts {
		whys = append(whys, why)
	}
	slices.SortFunc(whys, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	shown := whys[:min(len(whys), mostReasons)]
	others := 0
	for _, why := range whys[len(shown):] {
		others += counts[why]
	}
	for i, why := range shown {
		shown[i] = fmt.Sprintf("%d %s", counts[why], why)
	}
	if others > 0 {
		shown = append(shown, fmt.Sprintf("%d for other reasons", others))
	}
	return fmt.Sprintf("0 of %d flavors: %s", flavors, strings.Join(shown, ", "))
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
