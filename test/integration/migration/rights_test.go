package migration

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/consolidation"
	"supercargo.dev/supercargo/test/kit"
)

func TestTheRightsInTheManifestsAreEnough(t *testing.T) {
	t.Parallel()
	const home, account = "supercargo-system", "supercargo-descheduler"
	b := newBench(t, "rights", 2)
	b.Site.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/descheduler/rbac.yaml")
	requests := &kit.Ledger{}
	b.deschedule(func(o *app.Options) {
		o.LeaderElection, o.LeaderElectionNamespace = true, home
		o.Migrations.KeepFinished = 0
		o.Config.Impersonate = kit.ServiceAccount(home, account)
		o.Config.Wrap(requests.Wrap)
		o.Actions = []string{app.ActMigrations}
	})
	b.job(1, batchv1.NonIndexedCompletion)
	b.Make(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "work"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "work"}},
	}})
	old := b.Pods()[0]
	b.move(old.Name)
	b.Eventually("the migration has ended and is not kept", func() string {
		if b.Find("move-"+old.Name, &v1alpha1.Migration{}) {
			return "there"
		}
		return ""
	})
	if pods := b.healthy("work", 1); pods[0].Name == old.Name {
		t.Error("the pod was not moved")
	}

	// Also the permissions that a roll-back needs.
	b.agents.script(failsAt(v1alpha1.SourceDumped, "DumpFailed"), nil)
	again := b.Pods()[0]
	b.move(again.Name)
	b.Eventually("the migration has gone back", func() string {
		if b.Find("move-"+again.Name, &v1alpha1.Migration{}) {
			return "there"
		}
		return ""
	})
	if pods := b.healthy("work", 1); pods[0].Name != again.Name {
		t.Error("the pod was moved")
	}
	written, forbade := requests.Read()
	if len(forbade) > 0 {
		t.Errorf("forbidden: %v", forbade)
	}
	requests.FitsMode(t, "migrations", account)
	if len(written) < 20 {
		t.Errorf("only %d writes: too few for a test", len(written))
	}
}

func TestWhatHasEndedDoesNotPileUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, "pile", 2)
	b.deschedule(func(o *app.Options) { o.Migrations.MaxFinished, o.Migrations.KeepFinished = 3, time.Hour })
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		b.move(name) // no such pods exist
		b.Eventually("it is refused", func() string {
			m := &v1alpha1.Migration{}
			if b.Find("move-"+name, m) && m.Status.Phase != v1alpha1.MigrationRefused {
				return "in phase " + string(m.Status.Phase)
			}
			return ""
		})
	}
	b.Eventually("three are left", func() string {
		if n := len(b.Migrations()); n != 3 {
			return fmt.Sprint(n)
		}
		return ""
	})
}

// TestTheRightsInTheManifestsAreEnoughToEmptyANode drains a node from which one pod is moved with its state and another
// is evicted.
func TestTheRightsInTheManifestsAreEnoughToEmptyANode(t *testing.T) {
	t.Parallel()
	const home, account = "supercargo-system", "supercargo-descheduler" // without leader election, since another test has the Lease
	b := newBench(t, "emptied", 2)
	b.Site.Install(t, "../../../manifests/namespace/namespace.yaml", "../../../manifests/descheduler/rbac.yaml")
	requesting := func(cpu, memory string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels[v1alpha1.LabelClass] = "batch"
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		}
	}
	set := func(name string, change func(*corev1.Pod)) {
		pod := b.template(says(v1alpha1.AnnotationMigration, v1alpha1.MigrationRestart), change, func(p *corev1.Pod) {
			p.Labels["app"], p.Spec.RestartPolicy = name, corev1.RestartPolicyAlways
		})
		b.Make(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name}, Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
		}})
	}
	b.cordon(1, true)
	set("stays", requesting("6", "24Gi"))
	b.Runs(1)
	b.cordon(0, true)
	b.cordon(1, false)
	set("evicted", requesting("500m", "64Mi"))
	b.Runs(2)
	b.Make(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "moved"}, Spec: batchv1.JobSpec{
		BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed),
		Template: func() corev1.PodTemplateSpec {
			pod := b.template(requesting("500m", "64Mi"))
			return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
		}(),
	}})
	b.Runs(3)
	b.cordon(0, false)

	requests := &kit.Ledger{}
	b.deschedule(func(o *app.Options) {
		c := &o.Consolidation
		c.Mode, c.Policy, c.NodeSelector, c.MoveServices = consolidation.Act, consolidation.HTAS, kit.BenchLabel+"="+b.Space, true
		c.Interval, c.After, c.QueueEmpty, c.Residence = time.Second, time.Second, time.Second, time.Second
		o.Actions = []string{app.ActMigrations, app.ActConsolidation}
		o.Config.Impersonate = kit.ServiceAccount(home, account)
		o.Config.Wrap(requests.Wrap)
	})
	b.Eventually("all pods are on the first node", func() string {
		for _, p := range b.Pods() {
			if p.Spec.NodeName != b.Node(0) {
				return p.Name + " is on " + p.Spec.NodeName
			}
		}
		return ""
	})
	if _, forbade := requests.Read(); len(forbade) > 0 {
		t.Errorf("forbidden: %v", forbade)
	}
	requests.FitsMode(t, "consolidation", account)
}
