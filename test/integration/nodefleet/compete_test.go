package nodefleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testapi"
)

func TestTwoFleetsDoNotBuyForTheSamePods(t *testing.T) {
	t.Parallel()
	b := newBench(t, "compete")
	b.flavor("a", "2", "4Gi", "0.10", comesAfter(4*time.Second))
	b.flavor("c", "2", "4Gi", "0.10", comesAfter(4*time.Second))
	highest := b.highest()
	b.fleet("older", b.names("a"))
	b.fleet("younger", b.names("c"))
	b.autoscale()
	b.pods("p", 4, "1900m", "1Gi")
	b.Runs(4)
	if _, together := highest(); together != 4 {
		t.Errorf("there were to be %d machines for 4 pods that need one each", together)
	}
	b.removePods()
	b.becomes(map[string]int{})
}

func TestTheLimitsOfCompetingFleetsHoldForEach(t *testing.T) {
	t.Parallel()
	b := newBench(t, "share")
	b.flavor("a", "2", "4Gi", "0.10", comesAfter(3*time.Second))
	b.flavor("c", "2", "4Gi", "0.10", comesAfter(3*time.Second))
	highest := b.highest()
	b.fleet("older", b.names("a"), func(s *v1alpha1.NodeFleetSpec) { s.Limits.Machines = new(int32(2)) })
	b.fleet("younger", b.names("c"), func(s *v1alpha1.NodeFleetSpec) { s.Limits.Machines = new(int32(1)) })
	b.autoscale()
	b.pods("p", 5, "1900m", "1Gi")
	b.Runs(3)
	b.wait(2)
	b.has("older", v1alpha1.FleetLimited, metav1.ConditionTrue, "LimitReached")
	b.has("younger", v1alpha1.FleetLimited, metav1.ConditionTrue, "LimitReached")
	if each, _ := highest(); !cmp.Equal(map[string]int{"a": 2, "c": 1}, each) {
		t.Errorf("there were to be %v machines, want what the limits allow", each)
	}
}

func TestAMachineDeploymentOfTwoFleetsBelongsToTheOlder(t *testing.T) {
	t.Parallel()
	b := newBench(t, "same")
	b.flavor("a", "2", "4Gi", "0.10", comesAfter(2*time.Second))
	highest := b.highest()
	b.fleet("older")
	b.fleet("younger")
	b.autoscale()
	b.pods("p", 3, "1900m", "1Gi")
	b.Runs(3)
	if _, together := highest(); together != 3 {
		t.Errorf("there were to be %d machines for 3 pods that need one each", together)
	}
	b.Eventually("the younger fleet says whose the flavor is", func() string {
		return cmp.Diff("it belongs to NodeFleet same-older", b.flavorStatus("younger", "a").Message)
	})
	if n := b.get("younger").Status.Machines; n != 0 {
		t.Errorf("the younger fleet counts %d machines as its own", n)
	}

	testapi.Delete(t, b, b.get("older"))
	b.Eventually("the younger fleet takes over", func() string {
		return cmp.Diff(int32(3), b.get("younger").Status.Machines)
	})
	b.pods("q", 1, "1900m", "1Gi")
	b.Runs(4)
	b.removePods()
	b.becomes(map[string]int{})
}
