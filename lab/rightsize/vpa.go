package rightsize

import (
	"math"
	"time"

	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/logic"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender/model"
)

// VPA is the recommender of the VerticalPodAutoscaler with its defaults, called as a library. Its updater's rule decides
// when a request changes: at once if it is outside of the recommended range, else from the age of 12 hours on if it
// differs by a tenth from the target. CPU is taken as cores. Memory is taken as MiB, or if its unit is not known without
// the least recommendation of 250 MiB.
type VPA struct {
	static
	measured    [resources]bool
	recommender logic.PodResourceRecommender
	containers  map[int]*container
	next        time.Duration
	unit        float64 // bytes of a unit of memory
}

type container struct {
	state *model.ContainerState
	all   *model.AggregateContainerState
	since time.Duration
}

const (
	// updaterInterval is how often the updater looks.
	updaterInterval = time.Minute
	// settled is the age from which a request changes although it is within the recommended range.
	settled = 12 * time.Hour
	// leastChange is by how much it must then differ from the target.
	leastChange = 0.1
)

// NewVPA returns the policy for a trace. mib says that memory is in MiB.
func NewVPA(t *Trace, mib bool) *VPA {
	unit := float64(mebi)
	if !mib {
		unit = 1 << 30 // so that the least recommendation is a quarter of a unit
	}
	return &VPA{measured: t.Measured, recommender: logic.CreatePodResourceRecommender(), containers: map[int]*container{}, unit: unit}
}

// Name implements [Policy].
func (*VPA) Name() string { return "vpa" }

// epoch is the time 0 of a trace for VPA, to which a time of zero means none.
var epoch = time.Unix(1_500_000_000, 0).UTC()

// Learn implements [Policy].
func (v *VPA) Learn(entity int, at time.Duration, used Amounts) {
	c := v.containers[entity]
	if c == nil {
		all := model.NewAggregateContainerState()
		c = &container{state: model.NewContainerState(nil, all), all: all, since: at}
		v.containers[entity] = c
	}
	for r, name := range [resources]model.ResourceName{model.ResourceCPU, model.ResourceMemory} {
		if math.IsNaN(used[r]) {
			continue
		}
		amount := model.CPUAmountFromCores(used[r])
		if Resource(r) == Memory {
			amount = model.MemoryAmountFromBytes(used[r] * v.unit)
		}
		c.state.AddSample(&model.ContainerUsageSample{MeasureStart: epoch.Add(at), Usage: amount, Resource: name})
	}
}

// Requests implements [Policy].
func (v *VPA) Requests(now time.Duration, sets [][]int, requests []Amounts) map[int]Amounts {
	if now < v.next {
		return nil
	}
	v.next = now + updaterInterval
	wanted := map[int]Amounts{}
	for _, set := range sets {
		for _, e := range set {
			if want, change := v.wanted(e, now, requests[e]); change {
				wanted[e] = want
			}
		}
	}
	return wanted
}

// wanted returns the target of an entity, and whether its request changes to it.
func (v *VPA) wanted(entity int, now time.Duration, request Amounts) (Amounts, bool) {
	c := v.containers[entity]
	if c == nil || c.all.TotalSamplesCount == 0 {
		return request, false
	}
	of := v.recommender.GetRecommendedPodResources(model.ContainerNameToAggregateStateMap{"it": c.all})["it"]
	want, outside, difference := request, false, 0.0
	for r := range request {
		if !v.measured[r] {
			continue
		}
		want[r] = v.amount(Resource(r), of.Target)
		lower, upper := v.amount(Resource(r), of.LowerBound), v.amount(Resource(r), of.UpperBound)
		outside = outside || request[r] < lower || request[r] > upper
		difference += math.Abs(request[r]-want[r]) / max(request[r], 1e-9)
	}
	return want, outside || now-c.since >= settled && difference >= leastChange
}

// amount returns an amount in the units of the trace.
func (v *VPA) amount(r Resource, of model.Resources) float64 {
	if r == CPU {
		return model.CoresFromCPUAmount(of[model.ResourceCPU])
	}
	return model.BytesFromMemoryAmount(of[model.ResourceMemory]) / v.unit
}
