package replica

import (
	"testing"

	"k8s.io/client-go/rest"

	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
)

func TestTheRightsInTheManifestsAreEnough(t *testing.T) {
	t.Parallel()
	const home, account = "supercargo-system", "supercargo-autoscaler"
	b := newBench(t, "rights")
	b.site.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/autoscaler/rbac.yaml")
	b.deployment("web", 2)
	b.policy("web")
	requests := &kit.Ledger{}
	b.autoscale(func(o *app.Options) {
		o.LeaderElection, o.LeaderElectionNamespace = true, home
		o.Config.Impersonate = rest.ImpersonationConfig{
			UserName: "system:serviceaccount:" + home + ":" + account,
			Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"},
		}
		o.Config.Wrap(requests.Wrap)
	})
	b.becomes(11, 20)
	b.event("web", "Scaled", "Scaled Deployment web from 2 to")
	if _, forbade := requests.Read(); len(forbade) > 0 {
		t.Errorf("forbidden: %v", forbade)
	}
}
