package nodefleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func TestALimitIsNeverExceededEvenByPodsThatComeWhileMachinesAreOnOrder(t *testing.T) {
	t.Parallel()
	// Each limit allows two machines of 2 CPUs, 4 GiB and $0.10, but not a third.
	for name, limits := range map[string]v1alpha1.FleetLimits{
		"machines":       {Machines: new(int32(2))},
		"cpu":            {CPU: quantity("5")},
		"memory":         {Memory: quantity("8Gi")},
		"dollarsPerHour": {DollarsPerHour: new("0.29")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "limit-"+strings.ToLower(name))
			b.flavor("a", "2", "4Gi", "0.10", comesAfter(4*time.Second))
			highest := b.highest()
			b.fleet("all", func(s *v1alpha1.NodeFleetSpec) { s.Limits = limits })
			b.autoscale()
			b.pods("first", 1, "1900m", "1Gi")
			b.Eventually("a machine is on order", func() string { return cmp.Diff(map[string]int{"a": 1}, b.replicas()) })
			b.pods("second", 2, "1900m", "1Gi")
			b.Eventually("another is on order", func() string { return cmp.Diff(map[string]int{"a": 2}, b.replicas()) })
			b.pods("third", 1, "1900m", "1Gi")
			b.Runs(2)
			b.wait(2)
			message := b.has("all", v1alpha1.FleetLimited, metav1.ConditionTrue, "LimitReached")
			if !strings.Contains(message, "spec.limits."+name) && !strings.Contains(message, "buy at most ") { // the limit is used up, or the rest is too small
				t.Errorf("limited with %q, which does not say by what", message)
			}
			b.Eventually("the waiting pods are counted", func() string {
				return cmp.Diff(int32(2), b.get("all").Status.PendingPods)
			})
			b.event("LimitReached")
			if _, together := highest(); together != 2 {
				t.Errorf("there were to be %d machines, want 2", together)
			}

			b.change("all", func(s *v1alpha1.NodeFleetSpec) { s.Limits = v1alpha1.FleetLimits{} })
			b.Runs(4)
			b.has("all", v1alpha1.FleetLimited, metav1.ConditionFalse, "WithinLimits")
			if _, together := highest(); together != 4 {
				t.Errorf("there were to be %d machines without the limit, want 4", together)
			}
		})
	}
}

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }

func TestTheBoundsOfAMachineDeploymentHold(t *testing.T) {
	t.Parallel()
	b := newBench(t, "bounds")
	b.flavor("a", "2", "4Gi", "0.10", func(s *spec) { s.Max = 1 })
	b.flavor("c", "2", "4Gi", "0.20", func(s *spec) { s.Min, s.Replicas, s.Max = 1, 2, 2 })
	highest := b.highest()
	b.becomes(map[string]int{"c": 2})
	b.fleet("all")
	b.autoscale()
	b.becomes(map[string]int{"c": 1}) // both are empty

	b.pods("p", 4, "1900m", "1Gi")
	b.Runs(3)
	b.wait(1)
	b.becomes(map[string]int{"a": 1, "c": 2})
	if each, _ := highest(); !cmp.Equal(map[string]int{"a": 1, "c": 2}, each) {
		t.Errorf("more machines than the MachineDeployments may have: %v", each)
	}
	b.removePods()
	b.becomes(map[string]int{"c": 1})
	b.Eventually("all is open", b.untouched)
	b.Eventually("flavor c has one machine from one to two", func() string {
		s := b.flavorStatus("all", "c")
		return cmp.Diff("1 2 1", fmt.Sprint(s.Min, s.Max, s.Machines))
	})
}
