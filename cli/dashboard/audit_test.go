package dashboard

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/cli/status"
)

func TestEachBillDrawsAtLeastTheBoundOfThePower(t *testing.T) {
	o := &objects.Objects{}
	for i, kind := range []string{"m5.xlarge", "m5.xlarge", "m5.2xlarge"} {
		name := fmt.Sprintf("node-%d", i)
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelInstanceTypeStable: kind, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name, corev1.LabelTopologyRegion: "us-east-1",
		}}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0"}}
		node.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("3920m"), "memory": resource.MustParse("14Gi"), "pods": resource.MustParse("58")}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		o.Nodes = append(o.Nodes, node)
		o.Pods = append(o.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod-" + name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}},
			Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("900m"), "memory": resource.MustParse("1Gi")},
			}}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	found, err := (&accountant{}).of(t.Context(), o, now)
	if err != nil {
		t.Fatal(err)
	}
	a := status.Of(&status.Snapshot{Audit: found}, now).Summary.Audit
	if a.BoundWatts == nil || *a.BoundWatts <= 0 || a.Now.Watts == nil {
		t.Fatalf("the bound is %v W, the nodes draw %v W; both must be known", a.BoundWatts, a.Now.Watts)
	}
	if found.Result.MilliCPU != 2700 || found.Sizes["m5.2xlarge"] < 3920 {
		t.Errorf("%d milli-CPU requested, sizes %v; want 2700 and the nodes' types", found.Result.MilliCPU, found.Sizes)
	}
	for name, b := range map[string]status.Bill{"now": a.Now, "moved": a.Moved, "cheapest": a.Cheapest} {
		if b.Watts != nil && *b.Watts < *a.BoundWatts {
			t.Errorf("%s: %v W, less than the bound of %v W", name, *b.Watts, *a.BoundWatts)
		}
	}
}
