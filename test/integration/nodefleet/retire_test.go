package nodefleet

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// retires deletes a fleet whose policy is Release, once it has its finalizer, and waits until it is gone.
func (b *bench) retires(fleet string) {
	b.Helper()
	b.Eventually("the fleet has its finalizer", func() string {
		if !slices.Contains(b.get(fleet).Finalizers, v1alpha1.FinalizerReleaseMachines) {
			return "it has none"
		}
		return ""
	})
	if err := b.Delete(b.Context(), b.get(fleet)); err != nil {
		b.Fatal(err)
	}
	b.leaves(fleet)
}

// leaves waits until a fleet is gone.
func (b *bench) leaves(fleet string) {
	b.Helper()
	b.Eventually("the fleet is gone", func() string {
		f := &v1alpha1.NodeFleet{}
		err := b.Get(b.Context(), client.ObjectKey{Name: b.Space + "-" + fleet}, f)
		if client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		if err == nil {
			return "it exists"
		}
		return ""
	})
}

// TestADeletedFleetReleasesItsMachines has a pod that may be evicted, one that may not, which ends, and a machine of the
// minimum. The pods stay pending, because no other fleet buys for them.
func TestADeletedFleetReleasesItsMachines(t *testing.T) {
	t.Parallel()
	b := newBench(t, "retire")
	b.flavor("a", "2", "4Gi", "0.10", func(s *spec) { s.Min = 1 })
	b.fleet("all", func(s *v1alpha1.NodeFleetSpec) { s.DeletionPolicy = v1alpha1.FleetDeletionRelease })
	b.autoscale()
	set := b.movable("web", "1900m", "1Gi")
	b.pods("bare", 1, "1900m", "1Gi")
	b.Runs(2)
	b.Eventually("the fleet has its finalizer", func() string {
		if !slices.Contains(b.get("all").Finalizers, v1alpha1.FinalizerReleaseMachines) {
			return "it has none"
		}
		return ""
	})
	if err := b.Delete(b.Context(), b.get("all")); err != nil {
		t.Fatal(err)
	}
	b.becomes(map[string]int{"a": 1}) // that of the bare pod, which is not evicted
	b.has("all", v1alpha1.FleetReady, metav1.ConditionFalse, v1alpha1.FleetReasonReleasing)
	b.removeSet(set)
	b.removePods()
	b.leaves("all")
	b.becomes(map[string]int{})
	if got := b.replicas(); len(got) > 0 {
		t.Errorf("replicas are left: %v", got)
	}
}

// TestADeletedFleetKeepsItsMachinesByDefault changes the policy of one fleet while it is being deleted.
func TestADeletedFleetKeepsItsMachinesByDefault(t *testing.T) {
	t.Parallel()
	b := newBench(t, "keepmachines")
	b.flavor("a", "2", "4Gi", "0.10")
	b.fleet("all", func(s *v1alpha1.NodeFleetSpec) { s.DeletionPolicy = v1alpha1.FleetDeletionRelease })
	b.autoscale()
	b.pods("bare", 1, "1900m", "1Gi")
	b.Runs(1)
	b.Eventually("the fleet has its finalizer", func() string {
		if len(b.get("all").Finalizers) == 0 {
			return "it has none"
		}
		return ""
	})
	if err := b.Delete(b.Context(), b.get("all")); err != nil {
		t.Fatal(err)
	}
	b.has("all", v1alpha1.FleetReady, metav1.ConditionFalse, v1alpha1.FleetReasonReleasing)
	b.change("all", func(s *v1alpha1.NodeFleetSpec) { s.DeletionPolicy = v1alpha1.FleetDeletionKeep })
	b.leaves("all")
	if got := b.replicas(); got["a"] != 1 {
		t.Errorf("replicas are %v, want that of the pod", got)
	}
	b.Eventually("the node is not cordoned", func() string {
		for _, n := range b.Nodes() {
			if n.Spec.Unschedulable {
				return n.Name + " is"
			}
		}
		return ""
	})
}
