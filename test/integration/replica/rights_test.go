package replica

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
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
	template := func(name string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
		labels := map[string]string{"app": name}
		return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}},
		}
	}
	store := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "store"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2))}}
	store.Spec.Selector, store.Spec.Template = template("store")
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "set"}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2))}}
	set.Spec.Selector, set.Spec.Template = template("set")
	b.Make(store, set)
	for name, kind := range map[string]string{"store": "StatefulSet", "set": "ReplicaSet"} {
		b.policy(name, func(s *v1alpha1.ReplicaPolicySpec) { s.Target = v1alpha1.ReplicaTarget{Kind: kind, Name: name} })
	}
	requests := &kit.Ledger{}
	b.autoscale(func(o *app.Options) {
		o.LeaderElection, o.LeaderElectionNamespace = true, home
		o.Config.Impersonate = kit.ServiceAccount(home, account)
		o.Config.Wrap(requests.Wrap)
		o.Actions = []string{app.ActServices}
	})
	b.becomes(11, 20)
	b.HasEvent("ReplicaPolicy", "web", "Scaled", "Scaled Deployment web from 2 to")
	b.HasEvent("ReplicaPolicy", "store", "Scaled", "Scaled StatefulSet store from 2 to")
	b.HasEvent("ReplicaPolicy", "set", "Scaled", "Scaled ReplicaSet set from 2 to")
	if _, forbade := requests.Read(); len(forbade) > 0 {
		t.Errorf("forbidden: %v", forbade)
	}
	requests.FitsMode(t, "services", account)
}
