package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

const stockConfiguration = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
`

// withoutStaging is what CheckpointStaging costs pods that do not move.
var withoutStaging = strings.NewReplacer("- {name: CheckpointStaging}", "", ", {name: CheckpointStaging}]", "]").Replace(scheduling.StrictConfiguration)

// BenchmarkAttempt is one pass of the scheduling algorithm for a plain pod, and
// the pod's placement in the cache, which changes one node for the next pass.
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
					if i%2 == 1 { // so that no node runs out of slots
						if err := s.RemovePod(placed); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
		}
	}
}
