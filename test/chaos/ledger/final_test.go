package ledger

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "work", Name: name, CreationTimestamp: metav1.NewTime(began)}
}

func node(name string, cordoned bool, mark string) corev1.Node {
	n := corev1.Node{ObjectMeta: meta(name), Spec: corev1.NodeSpec{Unschedulable: cordoned}}
	if mark != "" {
		n.Annotations = map[string]string{v1alpha1.AnnotationDraining: mark}
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func on(node string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{ObjectMeta: meta("p"), Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
}

func migration(name string, phase v1alpha1.MigrationPhase, source *v1alpha1.SourceReport) v1alpha1.Migration {
	return v1alpha1.Migration{ObjectMeta: meta(name), Spec: v1alpha1.MigrationSpec{PodName: "p"}, Status: v1alpha1.MigrationStatus{Phase: phase, Source: source}}
}

func job(name string, succeeded, failed int32, done bool) batchv1.Job {
	j := batchv1.Job{ObjectMeta: meta(name), Spec: batchv1.JobSpec{Completions: new(int32(2))}, Status: batchv1.JobStatus{Succeeded: succeeded, Failed: failed}}
	if done {
		j.Status.CompletionTime = new(metav1.NewTime(began))
	}
	return j
}

func service(name string, pods, ready int32) appsv1.Deployment {
	return appsv1.Deployment{ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}, Status: appsv1.DeploymentStatus{Replicas: pods, ReadyReplicas: ready}}
}

func TestWhatIsBrokenInTheEndIsNamed(t *testing.T) {
	at := metav1.NewMicroTime(began)
	frozen := func(step v1alpha1.SourceStep, thawed *metav1.MicroTime) *v1alpha1.SourceReport {
		return &v1alpha1.SourceReport{Step: step, FrozenAt: &at, ThawedAt: thawed}
	}
	whole := Final{
		Nodes: []corev1.Node{node("open", false, ""), node("emptied", true, "Descheduler/2026-11-27T12:00:00Z")}, Pods: []corev1.Pod{on("emptied", corev1.PodSucceeded)}, Jobs: []batchv1.Job{job("done", 2, 0, true)}, Deployments: []appsv1.Deployment{service("whole", 2, 2)},
		Migrations: []v1alpha1.Migration{
			migration("moved", v1alpha1.MigrationSucceeded, frozen(v1alpha1.SourceKilled, nil)), migration("refused", v1alpha1.MigrationRefused, nil),
			migration("thawed", v1alpha1.MigrationRolledBack, frozen(v1alpha1.SourceThawed, &at)), migration("early", v1alpha1.MigrationRolledBack, nil),
		},
	}
	expect(t, "all is well", whole.Broken())
	broken := Final{
		Nodes: []corev1.Node{
			node("cordoned", true, ""), node("marked", false, "Descheduler/2026-11-27T12:00:00Z"), node("used", true, "Descheduler/2026-11-27T12:00:00Z"), node("fleet's", true, "all/2026-11-27T12:00:00Z"),
		},
		Pods: []corev1.Pod{on("used", corev1.PodRunning)},
		Jobs: []batchv1.Job{job("failed", 2, 1, true), job("stuck", 1, 0, false)}, Deployments: []appsv1.Deployment{service("fewer", 1, 1), service("more", 3, 2)},
		Migrations: []v1alpha1.Migration{migration("stuck", v1alpha1.MigrationMoving, nil), migration("frozen", v1alpha1.MigrationRolledBack, frozen(v1alpha1.SourceFrozen, nil))},
	}
	expect(t, "all is broken", broken.Broken(),
		"Job work/failed counts 1 failed pods", "Job work/stuck has 1 of 2 pods succeeded",
		"Deployment work/fewer has 1 pods, 1 of them ready, and wants 2", "Deployment work/more has 3 pods",
		"Migration work/stuck of pod p is Moving", "Migration work/frozen of pod p is rolled back, and its pod was frozen and not thawed",
		"node left cordoned: cordoned", "node left cordoned: marked", "node left cordoned: used", "node left cordoned: fleet's")
}

func TestWhatLastsForTooLongIsNotSettled(t *testing.T) {
	pending, bound := corev1.Pod{ObjectMeta: meta("pending")}, corev1.Pod{ObjectMeta: meta("bound"), Spec: corev1.PodSpec{NodeName: "n"}}
	silent := node("silent", false, "")
	silent.Status.Conditions[0].Status = corev1.ConditionUnknown
	f := Final{
		Pods:       []corev1.Pod{pending, bound, on("drained", corev1.PodRunning)},
		Nodes:      []corev1.Node{node("drained", true, "all/2026-11-27T12:00:00Z"), node("emptied", true, "Descheduler/2026-11-27T12:00:00Z"), silent},
		Migrations: []v1alpha1.Migration{migration("moves", v1alpha1.MigrationMoving, nil), migration("moved", v1alpha1.MigrationSucceeded, nil)},
	}
	p := Patience{Pending: time.Minute, Migration: 2 * time.Minute, Drain: 3 * time.Minute}
	expect(t, "at once", f.Unsettled(began.Add(time.Minute), p), "node silent is not ready")
	expect(t, "later", f.Unsettled(began.Add(181*time.Second), p),
		"pod work/pending is pending since 12:00:00", "Migration work/moves is Moving", "node drained is drained by all", "node silent is not ready")
}
