package nodeclaims

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

func TestKarpenterLaunchesTheCheapestMixAndTerminatesIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "grow")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10", "large,8,16,0.30")
	b.pods("p", 5, "1900m", "1Gi") // four on a large machine, one on a small one
	b.wait(5)
	b.fleet()
	b.autoscale()

	b.Runs(5)
	b.becomes(map[string]int{"large": 1, "small": 1})
	b.removePods()
	b.becomes(map[string]int{})
	b.has(v1alpha1.FleetReady, metav1.ConditionTrue, v1alpha1.FleetReasonReconciled)
}

func TestAnInstanceTypeThatTheCloudLacksIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ghost")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10", "ghost,2,4,0.01")
	b.fleet(func(s *v1alpha1.NodeFleetSpec) { s.Scaling.JoinTimeout = seconds(10) })
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")

	b.Runs(1)
	b.becomes(map[string]int{"small": 1})
	if says := b.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, v1alpha1.FleetReasonMachinesNotReady); !strings.Contains(says, "ghost@a") {
		t.Errorf("Degraded says %q; want it to name ghost@a", says)
	}
	b.HasEvent("NodeFleet", b.Space, v1alpha1.FleetReasonMachineAbandoned, "instance type not found")
	b.removePods()
	b.becomes(map[string]int{})
}

func TestAFleetWaitsForItsNodeClass(t *testing.T) {
	t.Parallel()
	b := newBench(t, "class")
	b.install()
	b.karpenter()
	b.prices("small,2,4,0.10")
	b.fleet()
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")

	if says := b.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, v1alpha1.FleetReasonFlavorsUnavailable); !strings.Contains(says, "KWOKNodeClass class does not exist: create it") {
		t.Errorf("Degraded says %q", says)
	}
	b.class()
	b.Runs(1)
	b.has(v1alpha1.FleetDegraded, metav1.ConditionFalse, v1alpha1.FleetReasonMachinesReady)
	b.removePods()
	b.becomes(map[string]int{})
}

func TestANodeClaimThatSomebodyElseDeletesIsNotOrderedAgainAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "deleted")
	b.install()
	b.class("1h") // no node joins
	b.karpenter()
	b.prices("small,2,4,0.10", "dear,2,4,0.11")
	b.fleet()
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")

	b.deleteClaim(b.orders("small"))
	b.orders("dear")
	b.HasEvent("NodeFleet", b.Space, v1alpha1.FleetReasonMachineAbandoned, "was deleted before its node registered")
	if says := b.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, v1alpha1.FleetReasonMachinesNotReady); !strings.Contains(says, "small@a") {
		t.Errorf("Degraded says %q; want it to name small@a", says)
	}
}

func TestAFleetWaitsForKarpenter(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, without, "none")
	b.prices("small,2,4,0.10")
	b.fleet()
	b.autoscale()
	waits := func(says string) {
		t.Helper()
		b.Eventually("the fleet waits for Karpenter", func() string {
			if text := b.has(v1alpha1.FleetReady, metav1.ConditionFalse, v1alpha1.FleetReasonNodeClaimsNotServed); !strings.Contains(text, says) {
				return fmt.Sprintf("Ready says %q, want %q", text, says)
			}
			return ""
		})
	}
	waits("does not serve NodeClaims of karpenter.sh/v1: install Karpenter")
	unknown := b.ofVersion("v2")
	b.install(unknown...)
	waits("serves NodeClaims as karpenter.sh/v2, but not as karpenter.sh/v1")
	testapi.Delete(t, b, unknown[0].Object)
	b.Eventually("the unknown version is gone", func() string {
		if err := b.Get(b.Context(), client.ObjectKeyFromObject(unknown[0].Object), unknown[0].Object.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is still being deleted (%v)", err)
		}
		return ""
	})
	b.install()
	b.class()
	b.has(v1alpha1.FleetReady, metav1.ConditionTrue, v1alpha1.FleetReasonReconciled)
}

// The autoscaler is killed just after its first write, after its second, and so on, until a run has no such write. A
// new one must then reach the same result as an undisturbed one.
func TestWhereverItIsKilledNothingIsBoughtTwiceOrForgotten(t *testing.T) {
	t.Parallel()
	const atOnce = 6 // runs that wait most of the time
	shared := newBench(t, "kill")
	shared.install()
	shared.karpenter()
	n := kit.KillAtEveryWrite(t, atOnce, func(t *testing.T, name string, c *kit.Cut) {
		b := newBench(t, name)
		b.class()
		b.prices("small,2,4,0.10", "large,8,16,0.30")
		b.pods("p", 5, "1900m", "1Gi")
		b.wait(5)
		ever := b.claimsEver()
		b.fleet()
		b.autoscaleAgainAfter(c)
		b.Runs(5)
		b.becomes(map[string]int{"large": 1, "small": 1})
		b.removePods()
		b.becomes(map[string]int{})
		if names := ever(); len(names) != 2 {
			t.Errorf("NodeClaims %q were created, want two", names)
		}
	})
	if n < 6 || n > 60 {
		t.Errorf("the run without an autoscaler killed has %d writes", n)
	}
}
