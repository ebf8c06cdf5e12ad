package nodeclaims

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/explain"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// A NodePool that is there before the fleet, and one that comes later.
func TestBesideANodePoolNothingIsBoughtTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, "pool")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10")
	b.fleet()
	b.autoscale()
	b.nodePool("dear")
	b.pods("both", 1, "1900m", "1Gi")
	b.Runs(1)
	b.HasEvent("NodeFleet", b.Space, v1alpha1.FleetReasonNodePoolsOverlap, "pod pool/both-0: no machine is bought, because NodePool pool fits it, too")
	b.pods("own", 1, "1900m", "1Gi", func(p *corev1.Pod) { p.Spec.NodeSelector[v1alpha1.LabelFleet] = b.Space })
	b.Runs(2)
	b.onTypes(map[string]int{"small": 1, "dear": 1})
	if ours, theirs := len(b.nodeClaims()), len(b.nodeClaimsOf(client.MatchingLabels{"karpenter.sh/nodepool": b.Space})); ours != 1 || theirs != 1 {
		t.Errorf("the fleet has %d NodeClaims and the NodePool %d, want one each", ours, theirs)
	}
	b.has(v1alpha1.FleetDegraded, metav1.ConditionFalse, v1alpha1.FleetReasonMachinesReady)
}

// The limits of the NodePool are reached: the condition goes when the fleet takes over.
func TestAFleetTakesOverWhatANodePoolMayNotBuy(t *testing.T) {
	t.Parallel()
	b := newBench(t, "limits")
	b.install()
	b.class("1h") // no node joins, so the pods wait
	b.karpenter()
	b.prices("small,2,4,0.10")
	pool := b.nodePool("ghost") // Karpenter finds no such instance type, so it buys nothing
	b.fleet()
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	says := b.has(v1alpha1.FleetDegraded, metav1.ConditionTrue, v1alpha1.FleetReasonNodePoolsOverlap)
	for _, part := range []string{"pod limits/p-0", "NodePool limits", "nodeSelector supercargo.dev/fleet: limits"} {
		if !strings.Contains(says, part) {
			t.Errorf("Degraded says %q; want it to name %q", says, part)
		}
	}
	if n := len(b.nodeClaims()); n != 0 {
		t.Errorf("the fleet has %d NodeClaims beside the NodePool", n)
	}
	why := b.explained("p-0")
	if want := "because NodePool limits fits it, too, and may buy one. For the fleet, set the pods' nodeSelector supercargo.dev/fleet: limits"; why.Doing != explain.Leaves || !strings.Contains(why.Because, want) {
		t.Errorf("the pod is explained by %s: %s\nwant %s: …%s…", why.Doing, why.Because, explain.Leaves, want)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"limits":{"cpu":"0"}}}`))
	if err := b.Patch(t.Context(), pool, patch); err != nil {
		t.Fatal(err)
	}
	b.orders("small")
	b.has(v1alpha1.FleetDegraded, metav1.ConditionFalse, v1alpha1.FleetReasonMachinesReady)
	if why := b.explained("p-0"); why.Doing != explain.Ordered {
		t.Errorf("the pod is explained by %s: %s\nwant %s", why.Doing, why.Because, explain.Ordered)
	}
}

// explained returns what supercargo explain pod says about the fleet.
func (b *bench) explained(name string) explain.FleetWhy {
	b.Helper()
	var pod corev1.Pod
	b.Read(name, &pod)
	read, err := explain.Read(b.Context(), b, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	for _, why := range read.Pod(b.Context(), &pod).Pending.Fleets {
		if why.Fleet == b.Space {
			return why
		}
	}
	b.Fatalf("the fleet does not explain pod %s", name)
	return explain.FleetWhy{}
}

// nodePool creates a NodePool whose machines pods of the bench select, of one instance type. It goes with its machines
// when the test ends.
func (b *bench) nodePool(instanceType string) *unstructured.Unstructured {
	b.Helper()
	in := func(key, value string) any {
		return map[string]any{"key": key, "operator": "In", "values": []any{value}}
	}
	n := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"disruption": map[string]any{"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{kit.BenchLabel: b.Space}},
			"spec": map[string]any{
				"nodeClassRef": map[string]any{"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": b.Space},
				"requirements": []any{in(corev1.LabelInstanceTypeStable, instanceType), in(corev1.LabelTopologyZone, "a"), in("karpenter.sh/capacity-type", "on-demand")},
			},
		},
	}}}
	n.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"})
	n.SetName(b.Space)
	b.Make(n)
	b.Cleanup(func() { _ = b.Delete(context.WithoutCancel(b.Context()), n) })
	return n
}

// nodeClaimsOf returns the NodeClaims with labels.
func (b *bench) nodeClaimsOf(labels client.MatchingLabels) []unstructured.Unstructured {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"})
	testapi.List(b, b, list, labels)
	return list.Items
}

// onTypes checks how many nodes of each instance type have pods of the bench.
func (b *bench) onTypes(want map[string]int) {
	b.Helper()
	types, got := map[string]string{}, map[string]int{}
	for _, n := range b.Nodes() {
		types[n.Name] = n.Labels[corev1.LabelInstanceTypeStable]
	}
	for _, p := range b.Running() {
		got[types[p.Spec.NodeName]]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("pods run on %v, want %v", got, want)
	}
}
