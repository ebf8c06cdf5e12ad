package playground_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
)

func TestAFleetTakesTurnsThroughPricedMachineTypes(t *testing.T) {
	fleet := playground.Fleet(7)
	names, types := map[string]bool{}, map[string]int{}
	for _, spec := range fleet {
		names[spec.Name] = true
		types[spec.MachineType]++
		if spec.Annotations[v1alpha1.AnnotationPricePerHour] == "" {
			t.Errorf("node %s has no price", spec.Name)
		}
	}
	if len(names) != 7 || len(types) != 5 || types["t3.xsmall"] != 2 {
		t.Errorf("names %v and types %v, want 7 names and 5 types, t3.xsmall twice", names, types)
	}
}

func TestANodeIsWhatItsSpecSays(t *testing.T) {
	node, err := playground.NodeSpec{
		Name: "a", CPU: "1500m", Memory: "3Gi", Pods: 5, MachineType: "m",
		Labels: map[string]string{corev1.LabelArchStable: "arm64", "zone": "z"},
		Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}},
	}.Node()
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range map[string]string{
		corev1.LabelHostname: "a", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "arm64",
		corev1.LabelInstanceTypeStable: "m", v1alpha1.LabelMachineType: "m", "zone": "z",
	} {
		if got := node.Labels[label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	free := node.Status.Allocatable
	if free.Cpu().MilliValue() != 1500 || free.Memory().Value() != 3<<30 || free.Pods().Value() != 5 {
		t.Errorf("allocatable is %v, want 1500m, 3Gi and 5 pods", free)
	}
	if len(node.Spec.Taints) != 1 || node.Status.NodeInfo.Architecture != "arm64" {
		t.Errorf("taints %v and architecture %s, want one taint and arm64", node.Spec.Taints, node.Status.NodeInfo.Architecture)
	}
}

func TestNodesThatAreThereStayAsTheyAre(t *testing.T) {
	client := fake.NewClientset()
	specs := playground.Fleet(20)
	for _, cpu := range []string{"3", "4"} {
		for i := range specs {
			specs[i].CPU = cpu
		}
		if err := playground.CreateNodes(t.Context(), client, specs); err != nil {
			t.Fatal(err)
		}
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 20 {
		t.Fatalf("%d nodes (%v), want 20", len(nodes.Items), err)
	}
	for _, node := range nodes.Items {
		if got := node.Status.Capacity.Cpu().String(); got != "3" {
			t.Errorf("node %s has %s CPUs, want 3", node.Name, got)
		}
	}
}

func TestANodeWithBadResourcesIsNamed(t *testing.T) {
	err := playground.CreateNodes(t.Context(), fake.NewClientset(), []playground.NodeSpec{{Name: "odd", CPU: "two", Memory: "1Gi"}})
	if err == nil || !strings.Contains(err.Error(), "node odd: cpu") {
		t.Errorf("error is %v, want one that names the node and the resource", err)
	}
}
