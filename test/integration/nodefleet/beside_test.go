package nodefleet

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// No other test runs at the same time, because every fleet of the cluster holds.
func TestAFleetHoldsWhileAClusterAutoscalerRunsAndTakesOverWhenItHasStopped(t *testing.T) {
	b := newBench(t, "beside")
	alive := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler-status"}}
	writtenAt := func(at time.Time) {
		alive.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/last-updated": at.UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST")}
	}
	writtenAt(time.Now())
	b.Make(alive)
	t.Cleanup(func() {
		if err := b.Delete(context.WithoutCancel(t.Context()), alive); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	b.flavor("a", "2", "4Gi", "0.10")
	highest := b.highest()
	b.fleet("all")
	b.pods("p", 1, "1900m", "1Gi")
	b.wait(1)
	b.autoscale()
	b.has("all", v1alpha1.FleetReady, metav1.ConditionFalse, "ClusterAutoscalerActive")
	b.event("ClusterAutoscalerActive")
	if each, _ := highest(); len(each) > 0 {
		t.Errorf("the fleet has bought %v beside a cluster-autoscaler", each)
	}

	writtenAt(time.Now().Add(-11 * time.Minute))
	testapi.Update(t, b, alive)
	b.Runs(1)
	b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")

	writtenAt(time.Now())
	testapi.Update(t, b, alive)
	b.has("all", v1alpha1.FleetReady, metav1.ConditionFalse, "ClusterAutoscalerActive")
	if diff := cmp.Diff(map[string]int{"a": 1}, b.count()) + b.untouched(); diff != "" {
		t.Errorf("the fleet has released machines beside a cluster-autoscaler: %s", diff)
	}
	testapi.Delete(t, b, alive)
	b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
}
