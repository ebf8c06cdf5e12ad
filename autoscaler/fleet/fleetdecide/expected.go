package fleetdecide

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// mostExpected bounds the number of expected pods in a plan.
const mostExpected = 500

// expectedPrefix begins the names of expected pods in a plan. No pod name contains a space.
const expectedPrefix = "expected "

// kindOfArrival groups pods whose arrivals are counted together.
type kindOfArrival struct {
	size    packing.Size
	class   class.Class
	arch    string
	demands *constraint.Pod
}

// expected returns the pods that are expected to arrive and to find no room before a machine bought now would be ready,
// where [forecast.arrivals] repeats the recent arrivals. Pods whose placement depends on other pods are left out.
func expected(s *cluster.State, coupled map[*constraint.Pod]bool) []purchase.Pod {
	watched := *s
	watched.Recent = steady(s, coupled)
	if len(watched.Recent) == 0 {
		return nil
	}
	var pods []purchase.Pod
	for i, w := range newForecast(&watched, untilReady(s), nil).run() {
		if w.since == 0 || w.pod.Nominated {
			continue
		}
		pod := purchase.PodOf(w.pod)
		pod.Name = fmt.Sprintf("%s%d", expectedPrefix, i)
		if pods = append(pods, pod); len(pods) == mostExpected {
			break
		}
	}
	return pods
}

// parts is the number of equal parts into which the last lag is divided to measure how steadily pods arrive. With more
// parts, a Job that creates its pods over some time would look like a stream.
const parts = 8

// kindSeen is the number of pods of a kind that arrived in each part. Pods that arrive at once, like those of one Job,
// may be split by the border of two parts, but not also by borders that are half a part later, so both divisions are
// counted.
type kindSeen struct {
	pods        int
	parts, half [parts + 1]int
}

// counted returns the number of pods of a kind that are expected again.
func (k *kindSeen) counted() int {
	least := k.pods
	for _, counts := range [][parts + 1]int{k.parts, k.half} {
		squares := 0
		for _, n := range counts {
			squares += n * n
		}
		least = min(least, k.pods-int(math.Ceil(math.Sqrt(float64(squares)))))
	}
	return least
}

// steady returns the pods of the last lag that are expected to arrive again within the next one, in their order, and of
// each kind the last ones. If n1, n2, ... pods arrived in the parts, all but √(n1² + n2² + ...) of them are expected.
// For n pods that arrive by chance at a steady rate, few in each part, that is n − √n, one standard deviation less than
// n. For b pods that arrive together k times, it is b·(k − √k). So the room that is bought or kept for them is seldom
// unused. Pods that arrived together once are not expected again. Pods with coupled demands are left out.
func steady(s *cluster.State, coupled map[*constraint.Pod]bool) []cluster.Pod {
	window := min(s.Observed, s.Lag)
	kindOf := func(p *cluster.Pod) kindOfArrival { return kindOfArrival{p.Size, p.Class, p.Arch, p.Demands} }
	kinds := map[kindOfArrival]*kindSeen{}
	for i := range s.Recent {
		p := &s.Recent[i]
		if p.Waited < 0 || p.Waited >= window || coupled[p.Demands] {
			continue
		}
		k := kinds[kindOf(p)]
		if k == nil {
			k = &kindSeen{}
			kinds[kindOf(p)] = k
		}
		at := parts * p.Waited.Seconds() / window.Seconds()
		k.pods++
		k.parts[min(int(at), parts)]++
		k.half[min(int(at+0.5), parts)]++
	}
	left := make(map[kindOfArrival]int, len(kinds))
	for kind, k := range kinds {
		left[kind] = k.counted()
	}
	return keep(s.Recent, func(p *cluster.Pod) bool {
		if p.Waited < 0 || p.Waited >= window { // as above
			return false
		}
		kind := kindOf(p)
		left[kind]--
		return left[kind] >= 0
	})
}

// grow plans again with the expected pods added, and of that plan buys the machines that hold a pending pod. So nothing
// is bought before a pod needs it, and what is bought has room for the pods that arrive meanwhile. The first plan stays
// if pods depend on each other, if no pods are expected, or if the limits do not allow more.
func (d *FleetDecision) grow(s *cluster.State, o FleetOptions, asking []purchase.Pod, flavors []cluster.Flavor, coupled map[*constraint.Pod]bool) {
	if len(d.Plan.Machines) == 0 || slices.ContainsFunc(asking, func(p purchase.Pod) bool { return coupled[p.Demands] }) {
		return
	}
	more := expected(s, coupled)
	if len(more) == 0 {
		return
	}
	housed := map[string]bool{} // on machines of the plan
	for _, m := range d.Plan.Machines {
		for _, pod := range m.Pods {
			housed[pod] = true
		}
	}
	for _, p := range asking {
		if housed[p.Name] {
			more = append(more, p)
		}
	}
	larger := purchase.Supercargo(purchase.Request{
		Pods: more, Flavors: flavors, Limits: o.Limits, Stop: o.Stop, Options: mixOptions(s),
	})
	if slices.ContainsFunc(larger.Unplaceable, func(u purchase.Unplaceable) bool { return !isExpected(u.Pod) }) {
		return
	}
	d.Plan.Machines, d.Plan.MicroDollarsPerHour = nil, 0
	assigned := slices.DeleteFunc(d.Plan.Assignments, func(a purchase.Assignment) bool { return !a.Waits })
	numbers := map[string]int{}
	for _, m := range larger.Machines {
		waiting := slices.DeleteFunc(slices.Clone(m.Pods), isExpected)
		if len(waiting) == 0 {
			continue
		}
		if n := len(m.Pods) - len(waiting); n > 0 {
			d.Expected += n
			m.Reason += fmt.Sprintf("; %d of them are expected within %v", n, s.Lag.Round(time.Second))
		}
		m.Pods = waiting
		m.Name = fmt.Sprintf("%s-%d", m.Flavor, numbers[m.Flavor])
		numbers[m.Flavor]++
		for _, pod := range waiting {
			assigned = append(assigned, purchase.Assignment{Pod: pod, Machine: m.Name})
		}
		d.Plan.Machines = append(d.Plan.Machines, m)
		d.Plan.MicroDollarsPerHour += m.MicroDollarsPerHour
	}
	slices.SortFunc(assigned, func(a, b purchase.Assignment) int { return strings.Compare(a.Pod, b.Pod) })
	d.Plan.Assignments = assigned
	d.Plan.Gap = purchase.Gap(d.Plan.MicroDollarsPerHour, d.Plan.LowerBoundMicroDollarsPerHour)
}

func isExpected(pod string) bool { return strings.HasPrefix(pod, expectedPrefix) }
