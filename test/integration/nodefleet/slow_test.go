package nodefleet

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/lab/playground"
	"supercargo.dev/supercargo/test/kit"
)

// TestASlowAPIServerCausesFewPurchases has 40 pods arrive. The first twenty, one after another, fill an existing node.
// Then come twenty small ones, of which four fill a machine, so that they need five, and two more may be on order.
func TestASlowAPIServerCausesFewPurchases(t *testing.T) {
	const large, small, bound = 20, 20, 5 + 2
	for _, tc := range []struct {
		name, space string
		wrap        func(http.RoundTripper) http.RoundTripper
	}{
		{"each request takes a second longer", "slowly", kit.Slowly(time.Second)},
		{"events come every five seconds", "inbursts", kit.InBursts(5 * time.Second)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.space)
			b.AddNode(playground.NodeSpec{Name: b.Node(0), CPU: "30", Memory: "64Gi"})
			b.flavor("m", "2", "4Gi", "0.10", comesAfter(5*time.Second))
			b.fleet("all", func(s *v1alpha1.NodeFleetSpec) {
				s.Scaling.JoinTimeout, s.Scaling.ExpectedLag = seconds(300), seconds(30)
			})
			highest := b.highest()
			b.autoscale(func(o *app.Options) { o.Config.Wrap(tc.wrap) })
			b.has("all", v1alpha1.FleetReady, metav1.ConditionTrue, "Reconciled")
			began, come := time.Now(), 0
			b.Eventually("the large pods have come", func() string {
				for ; come < large && time.Since(began) >= time.Duration(come)*time.Second; come++ {
					b.Make(b.pod(fmt.Sprintf("large-%02d", come), "1500m", "1Gi"))
				}
				if come < large {
					return fmt.Sprintf("%d have", come)
				}
				return ""
			})
			b.pods("small", small, "450m", "256Mi")
			b.Runs(large + small)
			_, most := highest()
			t.Logf("at most %d machines were desired; %v", most, time.Since(began).Round(time.Second))
			if most < 1 || most > bound {
				t.Errorf("up to %d machines are desired, want %d at most", most, bound)
			}
		})
	}
}
