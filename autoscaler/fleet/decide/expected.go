package decide

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/planner"
	"supercargo.dev/supercargo/internal/class"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// mostExpected bounds how many pods that are expected a plan counts with.
const mostExpected = 500

// expectedPrefix begins the names of pods that are expected, in a plan. No pod has a name
// with a space.
const expectedPrefix = "expected "

// kindOfArrival is what pods have in common that come at one rate.
type kindOfArrival struct {
	size    packing.Size
	class   class.Class
	arch    string
	demands *constraint.Pod
}

// expected returns the pods that are expected to come and to find no room until a machine
// bought now would be ready, as [forecast.arrivals] repeats those that came lately. Pods whose
// place depends on that of others are left out.
func expected(s *cluster.State, coupled map[*constraint.Pod]bool) []planner.Pod {
	watched := *s
	watched.Recent = steady(s, coupled)
	if len(watched.Recent) == 0 {
		return nil
	}
	var pods []planner.Pod
	for i, w := range newForecast(&watched, untilReady(s), nil).run() {
		if w.since == 0 || w.pod.Nominated {
			continue
		}
		pod := plannerPod(w.pod)
		pod.Name = fmt.Sprintf("%s%d", expectedPrefix, i)
		if pods = append(pods, pod); len(pods) == mostExpected {
			break
		}
	}
	return pods
}

// together is how shortly after one another pods come that are taken to have come at once, as
// those of one Job do: that says nothing of more to come. Creation times are whole seconds.
const together = time.Second

// steady returns those of the pods that came within the last lag that are counted on to come
// again within the next, in their order: of each kind the last. If pods of a kind came at k
// times, they are counted on to come at k − √k, rounded down, which is one standard deviation
// less than k where they come by chance at a steady rate, with as many pods each time as before:
// so the room that is bought or kept for them is seldom unused. A kind that has come once, be it
// with many pods, is not expected to come again. Pods with demands that are coupled are left out.
func steady(s *cluster.State, coupled map[*constraint.Pod]bool) []cluster.Pod {
	window := min(s.Observed, s.Lag)
	kindOf := func(p *cluster.Pod) kindOfArrival { return kindOfArrival{p.Size, p.Class, p.Arch, p.Demands} }
	type seen struct {
		pods, times int
		last        time.Duration // how long ago the one before came
	}
	kinds := map[kindOfArrival]*seen{}
	for i := range s.Recent {
		p := &s.Recent[i]
		if p.Waited >= window || coupled[p.Demands] {
			continue
		}
		k := kinds[kindOf(p)]
		if k == nil {
			k = &seen{}
			kinds[kindOf(p)] = k
		}
		if k.times == 0 || p.Waited-k.last > together {
			k.times++
		}
		k.pods, k.last = k.pods+1, p.Waited
	}
	left := make(map[kindOfArrival]int, len(kinds))
	for kind, k := range kinds {
		left[kind] = k.pods * (k.times - int(math.Ceil(math.Sqrt(float64(k.times))))) / k.times
	}
	return keep(s.Recent, func(p *cluster.Pod) bool {
		kind := kindOf(p)
		left[kind]--
		return left[kind] >= 0 && p.Waited < window
	})
}

// grow plans again with the pods that are expected, and buys of that plan the machines that
// are for a pod which waits already: so nothing is bought before somebody needs it, and what
// is bought has room for those that come meanwhile. The first plan stays if pods depend on
// each other, if nothing is expected, or if the limits do not allow for more.
func (d *FleetDecision) grow(s *cluster.State, o FleetOptions, asking []planner.Pod, flavors []planner.Flavor, coupled map[*constraint.Pod]bool) {
	if len(d.Plan.Machines) == 0 || slices.ContainsFunc(asking, func(p planner.Pod) bool { return coupled[p.Constraints] }) {
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
	larger := planner.Supercargo(planner.Request{
		Pods: more, Flavors: flavors, Limits: o.Limits, Stop: o.Stop, Options: mixOptions(s),
	})
	if slices.ContainsFunc(larger.Unplaceable, func(u planner.Unplaceable) bool { return !isExpected(u.Pod) }) {
		return
	}
	d.Plan.Machines, d.Plan.MicroDollarsPerHour = nil, 0
	assigned := slices.DeleteFunc(d.Plan.Assignments, func(a planner.Assignment) bool { return !a.Waits })
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
			assigned = append(assigned, planner.Assignment{Pod: pod, Machine: m.Name})
		}
		d.Plan.Machines = append(d.Plan.Machines, m)
		d.Plan.MicroDollarsPerHour += m.MicroDollarsPerHour
	}
	slices.SortFunc(assigned, func(a, b planner.Assignment) int { return strings.Compare(a.Pod, b.Pod) })
	d.Plan.Assignments = assigned
	d.Plan.Gap = planner.Gap(d.Plan.MicroDollarsPerHour, d.Plan.LowerBoundMicroDollarsPerHour)
}

func isExpected(pod string) bool { return strings.HasPrefix(pod, expectedPrefix) }
