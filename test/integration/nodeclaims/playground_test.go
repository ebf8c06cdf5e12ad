package nodeclaims

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/lab/playground/programs"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// TestTheSampleForAPlaygroundBuysMachines also shows that a playground starts Karpenter with the instance types that it is
// given.
func TestTheSampleForAPlaygroundBuysMachines(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, launching, "sample")
	b.Make(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "flavors"}, Data: map[string]string{
		"flavors.csv": "name,cpu,memory_gib,price_per_hour\nc-2x,2,4,0.10\nc-8x,8,16,0.30\n",
	}})
	b.Make(kit.Objects(t, "../../../manifests/samples/nodefleet-playground-karpenter.yaml")...)
	b.pods("p", 1, "7900m", "1Gi", func(p *corev1.Pod) { p.Spec.NodeSelector = nil })
	program := programs.Autoscaler(t.Context(), b.Site.Playground)
	b.Cleanup(func() {
		if err := program.Stop(); err != nil {
			t.Error(err)
		}
	})
	b.Runs(1)
	var nodes corev1.NodeList
	testapi.List(t, b, &nodes)
	if len(nodes.Items) != 1 || nodes.Items[0].Labels[corev1.LabelInstanceTypeStable] != "c-8x" {
		t.Errorf("nodes %v, want one c-8x", nodes.Items)
	}
}
