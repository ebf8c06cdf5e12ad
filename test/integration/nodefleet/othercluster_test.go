package nodefleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/lab/playground/machines"
	"supercargo.dev/supercargo/test/kit"
)

// copyOf creates a copy of an object of cluster-api under another name. change edits the copy.
func (b *bench) copyOf(kind, name, as string, change func(object map[string]any) error) {
	b.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: machineDeployments.Group, Version: machineDeployments.Version, Kind: kind})
	if err := b.Get(b.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, o); err != nil {
		b.Fatalf("read %s %s: %v", kind, name, err)
	}
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	delete(o.Object, "status")
	o.Object["metadata"] = map[string]any{"namespace": metav1.NamespaceDefault, "name": as}
	delete(labels, "cluster.x-k8s.io/cluster-name")
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
	if err := change(o.Object); err != nil {
		b.Fatalf("copy %s %s: %v", kind, name, err)
	}
	b.Make(o)
	b.Cleanup(func() { _ = b.Delete(b.Context(), o) })
}

// TestMachinesOfAnotherClusterAreNeitherBoughtNorAbandoned has two Clusters of cluster-api in one namespace, and a
// fleet of all MachineDeployments with a label. The machines of the other Cluster never become nodes here.
func TestMachinesOfAnotherClusterAreNeitherBoughtNorAbandoned(t *testing.T) {
	t.Parallel()
	b := newBench(t, "othercl")
	const other = "othercl"
	b.flavor("own", "2", "4Gi", "0.30")
	b.flavor("model", "2", "4Gi", "0.30", func(s *spec) { s.Fault = machines.FaultNever })
	b.copyOf("Cluster", playground.ClusterName, other, func(map[string]any) error { return nil })
	b.copyOf("MachineDeployment", "othercl-model", "othercl-foreign", func(d map[string]any) error {
		for _, field := range [][]string{{"spec", "clusterName"}, {"spec", "template", "spec", "clusterName"}} {
			if err := unstructured.SetNestedField(d, other, field...); err != nil {
				return err
			}
		}
		const selected = "cluster.x-k8s.io/deployment-name"
		for _, labels := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "template", "metadata", "labels"}} {
			if err := unstructured.SetNestedField(d, "othercl-foreign", append(labels, selected)...); err != nil {
				return err
			}
		}
		return unstructured.SetNestedField(d, int64(2), "spec", "replicas")
	})
	b.patchDeployment("model", `{"metadata":{"labels":{"`+kit.BenchLabel+`":null}}}`) // the fleet has own and foreign
	b.Eventually("the other Cluster has two machines", func() string { return cmp.Diff(2, len(b.machines())) })
	b.fleet("all", func(s *v1alpha1.NodeFleetSpec) {
		s.ClusterAPI.ClusterName, s.Scaling.JoinTimeout = playground.ClusterName, seconds(2)
	})
	b.pods("p", 1, "1900m", "1Gi")
	b.wait(1)
	b.autoscale()
	b.Runs(1)
	b.removePods()
	b.becomes(map[string]int{}) // the fleet has evaluated all machines long after the time for joining
	if diff := cmp.Diff(map[string]int{"foreign": 2}, b.replicas()); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if s := b.flavorStatus("all", "foreign"); s.Name != "" {
		t.Errorf("the MachineDeployment of the other Cluster is a flavor of the fleet: %+v", s)
	}
}
