package nodeclaims

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Karpenter is down, and the fleet holds. When it is up again, the NodeClass is gone, which Karpenter reports as a lack of
// capacity and deletes the NodeClaim: the fleet learns that, and buys the next best flavor when the NodeClass is back.
func TestAFleetHoldsWhileKarpenterIsDownAndLearnsOfALackOfCapacity(t *testing.T) {
	b := newBench(t, "down")
	b.install()
	b.class()
	o := b.ownKarpenter()
	b.prices("small,2,4,0.10", "dear,2,4,0.11")
	ever := b.claimsEver()
	b.fleet(func(s *v1alpha1.NodeFleetSpec) { s.Scaling.JoinTimeout = seconds(25) })
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	b.orders("small")
	says := b.has(v1alpha1.FleetReady, metav1.ConditionFalse, v1alpha1.FleetReasonProviderUnreachable)
	if !strings.Contains(says, "check that it runs") {
		t.Errorf("Ready says %q", says)
	}
	if names := ever(); len(names) != 1 {
		t.Errorf("NodeClaims %q were created while Karpenter is down, want one", names)
	}
	b.removeClass()
	b.runs(o)
	b.HasEvent("NodeFleet", b.Space, v1alpha1.FleetReasonMachineAbandoned, "InsufficientCapacityError")
	b.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, v1alpha1.FleetReasonFlavorsUnavailable)
	b.class()
	b.Runs(1)
	b.becomes(map[string]int{"dear": 1})
	if names := ever(); len(names) != 2 {
		t.Errorf("NodeClaims %q were created, want two", names)
	}
}

// Karpenter is killed at each stage of a machine, and another continues.
func TestWhereverKarpenterIsKilledNothingIsBoughtTwiceOrForgotten(t *testing.T) {
	b := newBench(t, "restart")
	b.install()
	b.class("0s")
	o := b.ownKarpenter()
	b.prices("small,2,4,0.10")
	ever := b.claimsEver()
	b.fleet()
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	for _, stage := range []string{"", "Launched", "Registered", "Initialized"} {
		b.orders("small")
		b.runs(o)
		b.Eventually("the NodeClaim is "+stage, func() string { return b.lacks(stage) })
		o.kill()
	}
	b.runs(o)
	b.Runs(1)
	b.becomes(map[string]int{"small": 1})
	o.kill()
	b.removePods()
	b.Eventually("the fleet deletes the NodeClaim", func() string {
		if all := b.nodeClaims(); len(all) != 1 || all[0].GetDeletionTimestamp() == nil {
			return fmt.Sprintf("%d NodeClaims", len(all))
		}
		return ""
	})
	b.pods("q", 1, "1900m", "1Gi") // needs another machine, because the first one leaves
	b.Eventually("there is another NodeClaim", func() string {
		if n := len(b.nodeClaims()); n != 2 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
	b.runs(o)
	b.Runs(1)
	b.becomes(map[string]int{"small": 1})
	if names := ever(); len(names) != 2 {
		t.Errorf("NodeClaims %q were created, want two", names)
	}
}

// lacks returns why no NodeClaim of the fleet has a condition; with "", why Karpenter has processed none.
func (b *bench) lacks(condition string) string {
	for _, c := range b.nodeClaims() {
		all, _, _ := unstructured.NestedSlice(c.Object, "status", "conditions")
		if condition == "" && len(all) > 0 || isTrue(&c, condition) {
			return ""
		}
	}
	return "it is not"
}

// isTrue reports whether a condition of a NodeClaim is true.
func isTrue(c *unstructured.Unstructured, condition string) bool {
	all, _, _ := unstructured.NestedSlice(c.Object, "status", "conditions")
	return slices.ContainsFunc(all, func(has any) bool {
		fields, _ := has.(map[string]any)
		return fields["type"] == condition && fields["status"] == "True"
	})
}

// removeClass deletes the NodeClass.
func (b *bench) removeClass() {
	b.Helper()
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.kwok.sh", Version: "v1alpha1", Kind: "KWOKNodeClass"})
	class.SetName(b.Space)
	if err := b.Delete(b.Context(), class); err != nil {
		b.Fatal(err)
	}
}

func TestAnAutoscalerThatIsEndedWhileItStartsReturnsNoError(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ended")
	b.install()
	ended, end := context.WithCancel(b.Context())
	end()
	if err := b.autoscaler()(ended); err != nil {
		t.Errorf("the autoscaler: %v", err)
	}
}
