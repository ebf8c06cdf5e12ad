package nodeclaims

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// Karpenter is stopped, its definitions are replaced, and a later version is started, while the fleet has a machine and
// needs another. Meanwhile, the definitions serve only a version that the fleet does not know.
func TestAFleetHoldsWhileKarpenterIsUpgradedAndContinues(t *testing.T) {
	b := newBench(t, "upgrade")
	if from, to := b.version(olderModule), b.version(currentModule); from == to {
		t.Fatalf("test/peers/%s and test/peers/%s both require Karpenter %s: have the first require an older one", olderModule, currentModule, to)
	}
	b.install(b.definitions(olderModule)...)
	b.class("0s")
	before := b.karpenterOf(older, b.Site.KubeconfigPath())
	b.runs(before)
	b.prices("small,2,4,0.10")
	ever := b.claimsEver()
	b.fleet()
	b.autoscale()
	b.pods("p", 1, "1900m", "1Gi")
	b.Runs(1)
	b.becomes(map[string]int{"small": 1})
	before.kill()

	b.install(b.servingOnly("v2")...)
	b.pods("q", 1, "1900m", "1Gi")
	b.Eventually("the fleet waits for the version that it knows", func() string {
		if says := b.has(v1alpha1.FleetReady, metav1.ConditionFalse, v1alpha1.FleetReasonNodeClaimsNotServed); !strings.Contains(says, "serves NodeClaims as karpenter.sh/v2, but not as karpenter.sh/v1") {
			return fmt.Sprintf("Ready says %q", says)
		}
		return ""
	})
	names := ever() // its watch ends with the version
	b.install()
	later := b.claimsEver()
	if says := b.has(v1alpha1.FleetReady, metav1.ConditionFalse, v1alpha1.FleetReasonProviderUnreachable); !strings.Contains(says, "check that it runs") {
		t.Errorf("Ready says %q", says)
	}
	b.runs(b.ownKarpenter())
	b.Runs(2)
	b.becomes(map[string]int{"small": 2})
	b.removePods()
	b.becomes(map[string]int{})
	names = slices.Concat(names, later())
	slices.Sort(names)
	if names = slices.Compact(names); len(names) != 2 {
		t.Errorf("NodeClaims %q were created, want two", names)
	}
}
