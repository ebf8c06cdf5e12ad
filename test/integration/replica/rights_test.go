package replica

import (
	"testing"

	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
)

func TestTheRightsInTheManifestsAreEnough(t *testing.T) {
	t.Parallel()
	const home, account = "supercargo-system", "supercargo-autoscaler"
	b := newBench(t, "rights")
	b.Site.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/autoscaler/rbac.yaml")
	b.deployment("web", 2)
	b.policy("web")
	requests := &kit.Ledger{}
	b.autoscale(func(o *app.Options) {
		o.LeaderElection, o.LeaderElectionNamespace = true, home
		o.Config.Impersonate = kit.ServiceAccount(home, account)
		o.Config.Wrap(requests.Wrap)
	})
	b.becomes(11, 20)
	b.HasEvent("ReplicaPolicy", "web", "Scaled", "Scaled Deployment web from 2 to")
	if _, forbade := requests.Read(); len(forbade) > 0 {
		t.Errorf("forbidden: %v", forbade)
	}
}
