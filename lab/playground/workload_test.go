package playground

import (
	"errors"
	"path/filepath"
	"testing"

	"supercargo.dev/supercargo/lab/playground/controlplane"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestLeasesOfRealKubeletsStay: kwok takes over the nodes that it simulates in another cluster, and
// no others.
func TestLeasesOfRealKubeletsStay(t *testing.T) {
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	}
	node := func(name string, annotations map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
	}
	simulated := map[string]string{kwokAnnotation: kwokFake}
	client := fake.NewClientset(
		node("real", nil), lease("real"), lease("joins-just-now"),
		node("simulated", simulated), lease("simulated"), node("new", simulated),
	)
	w := &workload{client: client, apart: true}
	if err := w.takeOverNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := client.CoordinationV1().Leases("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range left.Items {
		names = append(names, left.Items[i].Name)
	}
	if diff := cmp.Diff([]string{"joins-just-now", "real"}, names); diff != "" {
		t.Errorf("leases (-want +got):\n%s", diff)
	}
}

func TestAWorkloadClusterNeedsClusterAPIAndAKubeconfig(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	for name, opts := range map[string]Options{
		"no cluster-api": {WorkloadKubeconfig: nowhere},
		"nodes":          {WorkloadKubeconfig: nowhere, ClusterAPI: true, Nodes: Fleet(1)},
		"no file":        {WorkloadKubeconfig: nowhere, ClusterAPI: true},
	} {
		p := &Playground{opts: opts}
		var input *controlplane.InputError
		if _, err := p.findWorkload(); !errors.As(err, &input) || input.Option != "WorkloadKubeconfig" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
