package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/provider"
)

// TestEqualFlavorsAreBoughtEvenlyInAllZones has pods that need a machine each, at the same time or one after another.
func TestEqualFlavorsAreBoughtEvenlyInAllZones(t *testing.T) {
	for name, every := range map[string]time.Duration{"at the same time": 0, "one after another": 40 * second} {
		t.Run(name, func(t *testing.T) {
			var flavors []provider.Flavor
			for _, zone := range []string{"a", "b", "c"} {
				f := modelFlavor("small-"+zone, 4, 16, 100_000)
				f.Labels[corev1.LabelTopologyZone] = zone
				flavors = append(flavors, f)
			}
			m := newModel(t, alone(nil), flavors)
			for i := range 10 {
				m.add(testPod(fmt.Sprintf("p-%d", i), 3000, 1024, 10*time.Hour))
				if every > 0 {
					m.run(every, "f")
				}
			}
			m.run(5*minute, "f")
			zones := map[string]int{}
			for _, node := range m.nodes() {
				zones[node.Labels[corev1.LabelTopologyZone]]++
			}
			if diff := cmp.Diff(map[string]int{"a": 4, "b": 3, "c": 3}, zones); diff != "" {
				t.Errorf("machines by zone (-want +got):\n%s", diff)
			}
		})
	}
}
