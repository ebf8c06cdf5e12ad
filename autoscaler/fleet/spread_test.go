package fleet

import (
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/autoscaler/provider"
)

// TestMachinesAreBoughtInTheZonesThatSoftSpreadConstraintsPrefer has pods of which each fills a machine, in zones of different
// prices.
func TestMachinesAreBoughtInTheZonesThatSoftSpreadConstraintsPrefer(t *testing.T) {
	for name, tc := range map[string]struct {
		price int64 // of zone b; that of a is 100_000
		soft  bool
		want  map[string]int
	}{
		"at 4 % more":            {104_000, true, map[string]int{"a": 2, "b": 2}},
		"not at 6 % more":        {106_000, true, map[string]int{"a": 4, "b": 0}},
		"not if nothing is said": {104_000, false, map[string]int{"a": 4, "b": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := modelFlavor("a", 4, 16, 100_000), modelFlavor("b", 4, 16, tc.price)
			for _, f := range []*provider.Flavor{&a, &b} {
				f.Labels = maps.Clone(f.Labels)
				if f.Labels == nil {
					f.Labels = map[string]string{}
				}
				f.Labels[corev1.LabelTopologyZone] = f.Name
			}
			m := newModel(t, alone(nil), []provider.Flavor{a, b})
			for i := range 4 {
				p := testPod(fmt.Sprint("p-", i), 3000, 1024, time.Hour)
				p.Labels = map[string]string{"app": "x"}
				if tc.soft {
					p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
					}}
				}
				m.add(p)
			}
			m.run(minute, "f")
			for zone, want := range tc.want {
				if got := m.flavor(zone).Want; got != want {
					t.Errorf("%d machines are wanted in zone %s, want %d", got, zone, want)
				}
			}
		})
	}
}
