package nodefleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAFleetGrowsByTheCheapestMixAndShrinksToNothing(t *testing.T) {
	b := newBench(t)
	b.flavor("small", "2", "4Gi", "0.10")
	b.flavor("large", "8", "16Gi", "0.30")
	b.fleet("all")
	b.autoscale()
	b.pods("p", 5, "1900m", "1Gi") // four on a large machine, one on a small one

	b.allRun(5)
	if diff := cmp.Diff(map[string]int{"small": 1, "large": 1}, b.nodes()); diff != "" {
		t.Errorf("machines (-want +got):\n%s", diff)
	}
	if err := b.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		t.Fatal(err)
	}
	b.noNodes()
}
