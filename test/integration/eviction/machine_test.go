package eviction

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
)

// machineKind is the Machine of cluster-api.
var machineKind = schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "Machine"}

// machinePod restricts pods to machines of cluster-api.
func machinePod(deployment string) func(*corev1.PodTemplateSpec) {
	return func(t *corev1.PodTemplateSpec) {
		t.Spec.NodeSelector = map[string]string{corev1.LabelInstanceTypeStable: deployment}
	}
}

// TestAMachineOfClusterAPIIsDeletedUnderLoadAndNoJobFails deletes a Machine with Jobs on it while more Jobs
// arrive. cluster-api drains it with evictions.
func TestAMachineOfClusterAPIIsDeletedUnderLoadAndNoJobFails(t *testing.T) {
	t.Parallel()
	const deployment = "drained"
	b := newBench(t, "machine", 0)
	spec := playground.MachineDeploymentSpec{Name: deployment, Flavor: deployment, Replicas: 2, CPU: "8", Memory: "32Gi"}
	if err := b.Site.AddMachineDeployment(b.Context(), spec); err != nil {
		t.Fatal(err)
	}
	b.Eventually("both machines have agents", func() string {
		nodes := b.nodesOf(deployment)
		for i := range nodes {
			if nodes[i].Annotations[v1alpha1.AnnotationCapability] == "" {
				return nodes[i].Name + " has none"
			}
		}
		if len(nodes) != 2 {
			return fmt.Sprint(len(nodes))
		}
		return ""
	})
	const before, after = 8, 8
	for i := range before {
		b.machineJob(i, deployment)
	}
	victim := b.running(before)[0].Spec.NodeName
	moved := 0
	for _, p := range b.Pods() {
		if p.Spec.NodeName == victim {
			moved++
		}
	}
	machine := b.machineOf(victim)
	if err := b.Delete(b.Context(), machine); err != nil {
		t.Fatal(err)
	}
	for i := range after {
		b.machineJob(before+i, deployment)
	}
	b.Eventually("the Machine has gone", func() string {
		if err := b.Get(b.Context(), client.ObjectKeyFromObject(machine), machine); err == nil {
			return fmt.Sprint(machine.Object["status"])
		}
		return ""
	})
	all := b.Migrations() // some of the later Jobs may have been bound before the node was cordoned
	if len(all) < moved {
		t.Errorf("%d migrations, and %d pods were there when the Machine was deleted", len(all), moved)
	}
	b.allSucceeded(len(all))
	for _, p := range b.running(before + after) {
		if p.Spec.NodeName == victim {
			t.Errorf("pod %s runs on node %s, whose machine has gone", p.Name, victim)
		}
	}
	var jobs batchv1.JobList
	if err := b.List(b.Context(), &jobs, client.InNamespace(b.Space)); err != nil {
		t.Fatal(err)
	}
	for i := range jobs.Items {
		if s := jobs.Items[i].Status; s.Failed != 0 || s.Active != 1 {
			t.Errorf("Job %s has status %+v", jobs.Items[i].Name, s)
		}
	}
}

func (b *bench) machineJob(i int, deployment string) {
	b.Helper()
	b.Make(&batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: fmt.Sprintf("work-%d", i)},
		Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed), Template: b.template(corev1.RestartPolicyNever, machinePod(deployment)),
		},
	})
}

func (b *bench) nodesOf(deployment string) []corev1.Node {
	b.Helper()
	var list corev1.NodeList
	if err := b.List(b.Context(), &list, client.MatchingLabels{corev1.LabelInstanceTypeStable: deployment}); err != nil {
		b.Fatal(err)
	}
	return list.Items
}

// machineOf returns the Machine of a node.
func (b *bench) machineOf(node string) *unstructured.Unstructured {
	b.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(machineKind)
	if err := b.List(b.Context(), list); err != nil {
		b.Fatal(err)
	}
	for i := range list.Items {
		if name, _, _ := unstructured.NestedString(list.Items[i].Object, "status", "nodeRef", "name"); name == node {
			return &list.Items[i]
		}
	}
	b.Fatalf("no Machine has node %s", node)
	return nil
}
