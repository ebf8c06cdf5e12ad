package nodeclaims

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// replaced waits until another machine than the first one has its pod and the first one is gone.
func (b *bench) replaced(first string) {
	b.Helper()
	b.Eventually("another machine has replaced the first", func() string {
		claims := b.nodeClaims()
		if len(claims) != 1 || claims[0].GetName() == first {
			return fmt.Sprintf("%d NodeClaims, %s among them", len(claims), first)
		}
		return ""
	})
	b.Runs(1)
	b.HasEvent("NodeFleet", b.Space, v1alpha1.FleetReasonExchange, "")
}

func TestAMachineThatIsTooOldOrHasDriftedIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, "replace")
	b.install()
	b.class()
	b.karpenter()
	b.prices("small,2,4,0.10")
	b.fleet(func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.ExpireAfter = &metav1.Duration{Duration: time.Minute} })
	b.autoscale()
	b.movable("p")
	b.Runs(1)
	b.becomes(map[string]int{"small": 1})
	b.replaced(b.nodeClaims()[0].GetName())

	b.change(func(s *v1alpha1.NodeFleetSpec) { s.Consolidation.ExpireAfter = nil })
	second := b.nodeClaims()[0].GetName()
	b.change(func(s *v1alpha1.NodeFleetSpec) { s.Karpenter.Labels["generation"] = "two" })
	b.replaced(second)
}
