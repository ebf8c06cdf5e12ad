package nodefleet

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/app"
	"supercargo.dev/supercargo/test/kit"
	"supercargo.dev/supercargo/test/kit/testapi"
)

// home and account are the namespace and the service account of an installed autoscaler; installed
// impersonates it.
const home, account = "supercargo-system", "supercargo-autoscaler"

var installed = kit.ServiceAccount(home, account)

func TestTheRightsInTheManifestsAreEnough(t *testing.T) {
	t.Parallel()
	b := newBench(t, "rights")
	b.Site.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/autoscaler/rbac.yaml", "../../../manifests/catalogue/rbac.yaml")
	b.Make(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "kwok-machine-templates"}, Rules: []rbacv1.PolicyRule{{ // as the manifests have for other providers
		APIGroups: []string{"infrastructure.playground.supercargo.dev"}, Resources: []string{"kwokmachinetemplates"}, Verbs: []string{"get", "list", "create", "delete"},
	}}})
	b.Make(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kwok-machine-templates"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kwok-machine-templates"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: account}},
	})
	b.Make(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "prices"}, Data: map[string]string{"flavors.csv": "name,cpu,memory_gib,price_per_hour\nlarge,8,16,0.25\n"},
	})

	requests := &kit.Ledger{}
	growAndShrink(b, b.movable, func() {
		b.autoscale(func(o *app.Options) {
			o.LeaderElection, o.LeaderElectionNamespace = true, home
			o.Config.Impersonate = installed
			o.Config.Wrap(requests.Wrap)
			o.Actions = []string{app.ActMachines}
		})
	})
	b.change("all", func(s *v1alpha1.NodeFleetSpec) {
		s.Pricing.Catalogue = &v1alpha1.PriceCatalogue{Namespace: home, Name: "prices", Key: "flavors.csv"}
	})
	b.annotate("large", v1alpha1.AnnotationPricePerHour, "null")
	b.Eventually("the catalogue is read", func() string {
		if s := b.flavorStatus("all", "large"); s.PricePerHour != "0.25" {
			return s.PricePerHour + " by " + s.PriceSource
		}
		return ""
	})
	b.event("Released")

	// The machines of a market belong to another Cluster than those of the other fleet: one at a time has nodes.
	sets := &appsv1.ReplicaSetList{}
	testapi.List(t, b, sets, client.InNamespace(b.Space))
	for i := range sets.Items {
		b.removeSet(&sets.Items[i])
	}
	b.becomes(map[string]int{})
	b.market()
	b.fleet("catalogue", b.catalogue("c7i.large"))
	b.pods("any", 1, "1500m", "2Gi", func(p *corev1.Pod) { p.Spec.NodeSelector[corev1.LabelInstanceTypeStable] = "c7i.large" })
	b.Eventually("a machine of the catalogue comes", func() string {
		if got := b.count(); got["c7i.large"] != 1 {
			return fmt.Sprint(got)
		}
		return ""
	})
	testapi.Delete(t, b, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "any-000"}})
	b.Eventually("the MachineDeployment is removed", func() string {
		if left := b.madeDeployments("catalogue"); len(left) > 0 {
			return fmt.Sprint(len(left), " are left")
		}
		return ""
	})
	b.change("all", func(s *v1alpha1.NodeFleetSpec) { s.DeletionPolicy = v1alpha1.FleetDeletionRelease })
	b.retires("all")
	written, forbade := requests.Read()
	if len(forbade) > 0 {
		t.Errorf("forbidden: %v", forbade)
	}
	requests.FitsMode(t, "machines", account, "infrastructure.playground.supercargo.dev")
	if len(written) < 10 {
		t.Errorf("only %d writes: too few for a test", len(written))
	}
}
