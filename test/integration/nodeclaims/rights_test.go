package nodeclaims

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
)

// home is the namespace of an installed autoscaler.
const home = "supercargo-system"

// TestTheRightsInTheManifestsAreEnough also shows that the autoscaler starts without them in a cluster with Karpenter.
func TestTheRightsInTheManifestsAreEnough(t *testing.T) {
	t.Parallel()
	b := newBench(t, "rights")
	b.install()
	b.class()
	b.karpenter()
	b.Site.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/autoscaler/rbac.yaml")
	b.Make(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "prices"}, Data: map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\nsmall,2,4,0.10\n"},
	})
	b.fleet(func(s *v1alpha1.NodeFleetSpec) { s.Pricing.Catalogue.Namespace = home })
	b.pods("p", 1, "1900m", "1Gi")
	requests := &kit.Ledger{}
	run := func() (stop func()) {
		return b.StartSound("the autoscaler", b.autoscaler(func(o *app.Options) {
			o.Config.Impersonate = kit.ServiceAccount(home, "supercargo-autoscaler")
			o.Config.Wrap(requests.Wrap)
			o.Actions = []string{app.ActMachines}
		}))
	}

	stop := run()
	if says := b.has(v1alpha1.FleetReady, metav1.ConditionFalse, v1alpha1.FleetReasonForbidden); !strings.Contains(says, "apply manifests/karpenter") {
		t.Errorf("Ready says %q", says)
	}
	stop()

	b.Site.Install(t, "../../../manifests/karpenter/rbac.yaml")
	requests = &kit.Ledger{}
	run()
	b.Runs(1)
	b.removePods()
	b.becomes(map[string]int{})
	if _, forbade := requests.Read(); len(forbade) > 0 {
		t.Errorf("forbidden: %v", forbade)
	}
}
