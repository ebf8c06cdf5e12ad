package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

const stockConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`

// withoutStaging removes CheckpointStaging, to measure its cost for pods that do not move.
var withoutStaging = strings.NewReplacer("- {name: CheckpointStaging}", "", ", {name: CheckpointStaging}]", "]").Replace(scheduling.StrictConfiguration)

// BenchmarkAttempt measures one pass of the scheduling algorithm for a plain pod, and the pod's placement in the cache,
// which changes one node for the next pass.
func BenchmarkAttempt(b *testing.B) {
	for _, profile := range []struct{ name, configuration string }{
		{"default", stockConfiguration}, {"supercargo", scheduling.StrictConfiguration},
		{"without-CheckpointStaging", withoutStaging},
	} {
		for _, nodes := range []int{500, 5000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", profile.name, nodes), func(b *testing.B) {
				s := scheduling.NewScheduler(b, profile.configuration, clock.RealClock{})
				for i := range nodes {
					s.AddNode(fixtures.Node(fmt.Sprintf("node-%05d", i), 4000, 32<<30))
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					placed, a := s.Place(fixtures.Pod(fmt.Sprintf("pod-%d", i), 1, 1<<16))
					if a.Err != nil {
						b.Fatal(a.Err)
					}
					if i%2 == 1 { // so that no node runs out of pod slots
						if err := s.RemovePod(placed); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}

// spread makes a pod spread over zones with others of its app.
func spread(how corev1.UnsatisfiableConstraintAction) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels["app"] = "web"
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: how,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}
}

// BenchmarkSpreadAttempt measures one pass of the scheduling algorithm for a pod that spreads over three zones, in a
// cluster where every node runs ten pods, as in scheduler_perf's TopologySpreading and PreferredTopologySpreading.
func BenchmarkSpreadAttempt(b *testing.B) {
	const nodes = 500
	for _, constraint := range []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway} {
		for _, profile := range []struct{ name, configuration string }{
			{"default", stockConfiguration}, {"supercargo", scheduling.StrictConfiguration},
		} {
			b.Run(fmt.Sprintf("%s/%s", constraint, profile.name), func(b *testing.B) {
				s := scheduling.NewScheduler(b, profile.configuration, clock.RealClock{})
				for i := range nodes {
					name := fmt.Sprintf("node-%05d", i)
					s.AddNode(fixtures.Node(name, 4000, 32<<30, func(n *corev1.Node) {
						n.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%3)
					}))
					for j := range 10 {
						p := fixtures.Pod(fmt.Sprintf("%s-%d", name, j), 100, 500<<20)
						p.Spec.NodeName = name
						if err := s.AddPod(p); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					placed, a := s.Place(fixtures.Pod(fmt.Sprintf("pod-%d", i), 100, 500<<20, spread(constraint)))
					if a.Err != nil {
						b.Fatal(a.Err)
					}
					if i >= 2000 { // nodes have room for 30 more each
						if err := s.RemovePod(placed); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
