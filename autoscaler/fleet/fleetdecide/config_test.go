package fleetdecide

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
)

func TestPodsAndMachinesStayForAWhileWhereEmptyMachinesGoAtOnce(t *testing.T) {
	tests := []struct {
		name          string
		after         time.Duration
		pods          *metav1.Duration
		pod, machines time.Duration
	}{
		{"nothing stated", 0, nil, 5 * minute, 5 * minute},
		{"machines wait", minute, nil, minute, minute},
		{"pods stay as stated", 0, &metav1.Duration{Duration: time.Second}, time.Second, 5 * minute},
		{"or not at all", minute, &metav1.Duration{}, 0, minute},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c := v1alpha1.FleetConsolidation{After: metav1.Duration{Duration: tc.after}, PodResidence: tc.pods}
			if pod, machines := PodResidence(&c), Residence(&c); pod != tc.pod || machines != tc.machines {
				t.Errorf("pods stay for %v and machines for %v, want %v and %v", pod, machines, tc.pod, tc.machines)
			}
		})
	}
}

func TestLimitsAreThoseOfTheSpec(t *testing.T) {
	quantity := func(s string) *resource.Quantity { return new(resource.MustParse(s)) }
	for name, tc := range map[string]struct {
		limits v1alpha1.FleetLimits
		want   cluster.Limits
	}{
		"none":                             {v1alpha1.FleetLimits{}, cluster.Limits{}},
		"machines":                         {v1alpha1.FleetLimits{Machines: new(int32(5))}, cluster.Limits{Machines: new(int64(5))}},
		"no machine":                       {v1alpha1.FleetLimits{Machines: new(int32(0))}, cluster.Limits{Machines: new(int64(0))}},
		"CPU":                              {v1alpha1.FleetLimits{CPU: quantity("30500m")}, cluster.Limits{MilliCPU: new(int64(30500))}},
		"memory":                           {v1alpha1.FleetLimits{Memory: quantity("100Gi")}, cluster.Limits{MemoryBytes: new(int64(100 << 30))}},
		"dollars":                          {v1alpha1.FleetLimits{DollarsPerHour: new("0.56")}, cluster.Limits{MicroDollarsPerHour: new(int64(560_000))}},
		"more dollars than anything costs": {v1alpha1.FleetLimits{DollarsPerHour: new("999999999")}, cluster.Limits{MicroDollarsPerHour: new(int64(math.MaxInt64))}},
	} {
		if diff := cmp.Diff(tc.want, limitsOf(&tc.limits)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestServicesAreMovedWhereTheSpecLetsSome(t *testing.T) {
	for which, want := range map[v1alpha1.ServiceEviction]bool{
		"": false, v1alpha1.EvictServicesNever: false, v1alpha1.EvictServicesOptIn: true, v1alpha1.EvictServicesOptOut: true,
	} {
		c := v1alpha1.FleetConsolidation{EvictServices: which}
		config := ConfigOf(&v1alpha1.NodeFleetSpec{Consolidation: c})
		if drains, rounds := config.Moves().MoveServices, config.MoveServices; drains != want || rounds != want {
			t.Errorf("with evictServices %q drains move services: %t, exchanges: %t, want %t", which, drains, rounds, want)
		}
	}
}

func TestPodsWaitForNoLongerThanAMachineTakesUnlessTheOwnerAllowsForIt(t *testing.T) {
	var spec v1alpha1.NodeFleetSpec
	if got := ConfigOf(&spec).MaxWait; got != 0 {
		t.Errorf("where nothing is stated, pods may wait for %v", got)
	}
	spec.Scaling.MaxWait.Duration = 10 * minute
	if got := ConfigOf(&spec).MaxWait; got != 10*minute {
		t.Errorf("pods may wait for %v, want 10m", got)
	}
}

func TestNodesAreClosedForAsLongAsTheSpecSaysBeforeTheirMachinesGo(t *testing.T) {
	var spec v1alpha1.NodeFleetSpec
	spec.Consolidation.ReleaseDelay.Duration = minute
	s := newScene()
	s.c.ReleaseDelay = ConfigOf(&spec).ReleaseDelay
	s.drained("a", "small", minute-1)
	if a := s.round(); len(a.Release) > 0 || a.Wake != 1 {
		t.Errorf("%v is released too early, or it is looked again in %v, want 1ns", a.Release, a.Wake)
	}
	s.Observation = newScene().Observation
	s.drained("a", "small", minute)
	check(t, s.round(), "release a")
}

func TestAMachineIsUnderUsedBelowHalfUnlessTheSpecSaysOtherwise(t *testing.T) {
	for want, percent := range map[float64]*int32{0.5: nil, 0: new(int32(0)), 0.35: new(int32(35))} {
		c := ConfigOf(&v1alpha1.NodeFleetSpec{Consolidation: v1alpha1.FleetConsolidation{ThresholdPercent: percent}})
		if got := c.Moves().Threshold; got != want {
			t.Errorf("below %v, want %v", got, want)
		}
	}
}
