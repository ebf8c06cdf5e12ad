package workers

import (
	"math"
	"slices"
	"time"
)

// HPA is the HorizontalPodAutoscaler on the CPU utilization of worker pods, which request all cores
// of a worker. The paper compares itself with it, as of Kubernetes 1.13 (replica_calculator.go and
// horizontal.go there), with the defaults of that time.
//
// Every 15 s: ratio = utilization of the ready pods / target. Nothing changes if it is within 0.1
// of 1. The recommendation is ceil(ratio · ready pods). For scaling up, pods that are not ready
// count as idle and must not reverse the direction. One step at most doubles the number of pods, or
// goes to 4. The greatest recommendation of the last 5 minutes applies, so scaling down is delayed.
// Usage is the mean of one minute; a pod counts as ready only after that time.
//
// Surplus pods are deleted with the tasks that they run: pods that have not connected first, then
// the youngest.
type HPA struct {
	// Target is the target utilization, above 0: 0.2 for HPA-20.
	Target   float64
	Min, Max int

	recommended []recommendation
	usage       []reading
}

// recommendation is the recommended number of pods at a time.
type recommendation struct {
	at   time.Duration
	pods int
}

// reading has the CPU seconds of all workers at a time.
type reading struct {
	at  time.Duration
	cpu map[string]float64
}

// Settings of kube-controller-manager and metrics-server.
const (
	hpaPeriod    = 15 * time.Second
	hpaWindow    = time.Minute
	hpaStable    = 5 * time.Minute
	hpaTolerance = 0.1
	hpaFactor    = 2
	hpaLeastStep = 4
)

// Decide runs one round of the controller.
func (h *HPA) Decide(v View) (Order, error) {
	current := len(v.State.Workers)
	wanted := h.stable(v.Now, h.recommend(v, current))
	wanted = min(wanted, max(hpaFactor*current, hpaLeastStep))
	wanted = min(max(wanted, h.Min), h.Max)
	order := Order{Next: hpaPeriod, Add: max(0, wanted-current)}
	if current > wanted {
		order.Kill = youngest(v, current-wanted)
	}
	return order, nil
}

// recommend returns the number of pods that would meet the target.
func (h *HPA) recommend(v View, current int) int {
	used, requested, waiting := h.measure(v)
	ready := len(v.State.Workers) - waiting
	if ready == 0 || requested == 0 {
		return current // no metrics
	}
	ratio := used / requested / h.Target
	if waiting == 0 || ratio <= 1 {
		if math.Abs(1-ratio) <= hpaTolerance {
			return current
		}
		return int(math.Ceil(ratio * float64(ready)))
	}
	// All workers have the same requests.
	ratio *= float64(ready) / float64(ready+waiting)
	if ratio < 1 || math.Abs(1-ratio) <= hpaTolerance {
		return current
	}
	return int(math.Ceil(ratio * float64(ready+waiting)))
}

// measure returns the cores that ready pods use and request, and the number of pods that are not
// ready.
func (h *HPA) measure(v View) (used, requested float64, waiting int) {
	now := reading{at: v.Now, cpu: map[string]float64{}}
	for len(h.usage) > 1 && h.usage[1].at <= v.Now-hpaWindow {
		h.usage = h.usage[1:]
	}
	for i := range v.State.Workers {
		w, u := &v.State.Workers[i], v.Usage[i]
		now.cpu[w.Name] = u.CPUSeconds
		if !u.Connected || v.Now-u.ConnectedAt < hpaWindow {
			waiting++
			continue
		}
		before := 0.0 // no usage before the run
		if len(h.usage) > 0 && h.usage[0].at <= v.Now-hpaWindow {
			before = h.usage[0].cpu[w.Name]
		}
		used += (u.CPUSeconds - before) / hpaWindow.Seconds()
		requested += float64(w.Capacity.MilliCores) / 1000
	}
	h.usage = append(h.usage, now)
	return used, requested, waiting
}

// stable returns the greatest recommendation of the stabilization window.
func (h *HPA) stable(now time.Duration, pods int) int {
	h.recommended = slices.DeleteFunc(h.recommended, func(r recommendation) bool { return now-r.at >= hpaStable })
	h.recommended = append(h.recommended, recommendation{now, pods})
	for _, r := range h.recommended {
		pods = max(pods, r.pods)
	}
	return pods
}

// youngest returns the names of n workers to delete: first those that have not connected, then the
// youngest connected ones, in reverse order of request.
func youngest(v View, n int) []string {
	var names []string
	for _, connected := range []bool{false, true} {
		for i := len(v.State.Workers) - 1; i >= 0 && len(names) < n; i-- {
			if v.Usage[i].Connected == connected {
				names = append(names, v.State.Workers[i].Name)
			}
		}
	}
	return names
}
