package migration

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/descheduler/consolidation"
	"supercargo.dev/supercargo/internal/movable/capability"
	"supercargo.dev/supercargo/test/kit"
)

// bench is one test's part of the site.
type bench struct {
	*kit.Bench
	// agents are the agents of all nodes, if they are scripted.
	agents *agents
}

// newBench returns the bench with that name and the given number of nodes, NAME-0 and so on, with scripted
// agents.
func newBench(t *testing.T, name string, nodes int, from ...*kit.Sites) *bench {
	t.Helper()
	b := newEmptyBench(t, name, from...)
	can := capability.Node{Backends: []v1alpha1.MigrationBackend{v1alpha1.BackendSimulated}, Arch: "amd64", Restore: true}
	b.AddNodes(nodes, map[string]string{v1alpha1.AnnotationCapability: can.Encode()})
	b.agents = startAgents(b)
	return b
}

// newEmptyBench returns a bench without nodes and agents.
func newEmptyBench(t *testing.T, name string, from ...*kit.Sites) *bench {
	t.Helper()
	return &bench{Bench: append(from, sites)[0].Bench(t, name)}
}

// deschedule runs a descheduler until the returned function is called.
func (b *bench) deschedule(change ...func(*app.Options)) (stop func()) {
	b.Helper()
	return b.StartSound("the descheduler", b.descheduler(change...))
}

// descheduler returns a function that runs a descheduler.
func (b *bench) descheduler(change ...func(*app.Options)) func(context.Context) error {
	o := app.Defaults()
	o.Consolidation.Mode = consolidation.Off // its writes are not part of a migration
	o.Options = b.Options(b.Space)
	o.Config.QPS, o.Config.Burst = 200, 400
	for _, f := range change {
		f(&o)
	}
	o.Config.Wrap(b.View("/apis/supercargo.dev/v1alpha1/migrations", "/api/v1/pods", "/api/v1/services", "/apis/batch/v1/jobs",
		"/apis/apps/v1/replicasets", "/apis/policy/v1/poddisruptionbudgets"))
	return func(ctx context.Context) error { return app.Run(ctx, o) }
}

// template returns a pod from which those of a bench are made.
func (b *bench) template(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Space, Name: "work", Labels: map[string]string{"app": "work"},
			Annotations: map[string]string{v1alpha1.AnnotationMigration: v1alpha1.MigrationCheckpoint},
		},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{kit.BenchLabel: b.Space}, RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "work:1"}},
		},
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// job creates a Job named work with parallel pods, and waits until they run.
func (b *bench) job(pods int32, mode batchv1.CompletionMode, change ...func(*corev1.Pod)) *batchv1.Job {
	b.Helper()
	pod := b.template(change...)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "work"},
		Spec: batchv1.JobSpec{
			Parallelism: &pods, Completions: &pods, CompletionMode: &mode, BackoffLimit: new(int32(0)), PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec},
		},
	}
	b.Make(job)
	b.Runs(int(pods))
	return job
}

// bare creates a pod named work and waits until it runs.
func (b *bench) bare(change ...func(*corev1.Pod)) {
	b.Helper()
	b.Make(b.template(change...))
	b.Runs(1)
}

// move creates a Migration of a pod.
func (b *bench) move(pod string, change ...func(*v1alpha1.MigrationSpec)) *v1alpha1.Migration {
	b.Helper()
	m := &v1alpha1.Migration{ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: "move-" + pod}, Spec: v1alpha1.MigrationSpec{PodName: pod}}
	for _, f := range change {
		f(&m.Spec)
	}
	b.Make(m)
	return m
}

// ends waits until a migration has ended in this phase, and returns it.
func (b *bench) ends(name string, phase v1alpha1.MigrationPhase) *v1alpha1.Migration {
	b.Helper()
	m := &v1alpha1.Migration{}
	b.Eventually(fmt.Sprintf("migration %s ends as %s", name, phase), func() string {
		if !b.Find(name, m) {
			return "gone"
		}
		if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.MigrationFinished); c == nil || c.Status != metav1.ConditionTrue {
			return "in phase " + string(m.Status.Phase)
		}
		if m.Status.Phase == phase && len(m.Finalizers) > 0 {
			return "with its finalizer"
		}
		return ""
	})
	if m.Status.Phase != phase {
		b.Fatalf("migration %s ends as %s: %+v", name, m.Status.Phase, m.Status.Conditions)
	}
	return m
}

// is waits until check accepts the status of a migration.
func (b *bench) is(name, what string, check func(*v1alpha1.MigrationStatus) bool) *v1alpha1.Migration {
	b.Helper()
	m := &v1alpha1.Migration{}
	b.Eventually("migration "+name+" "+what, func() string {
		if !b.Find(name, m) {
			return "gone"
		}
		if !check(&m.Status) {
			return "in phase " + string(m.Status.Phase)
		}
		return ""
	})
	return m
}

// condition returns a condition of a migration.
func condition(m *v1alpha1.Migration, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(m.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// healthy waits until the Job has exactly the given number of active pods, and checks that it has counted no
// failure.
func (b *bench) healthy(job string, pods int) []corev1.Pod {
	b.Helper()
	var owned []corev1.Pod
	b.Eventually("the Job is as it was", func() string {
		j := &batchv1.Job{}
		if !b.Find(job, j) {
			return "gone"
		}
		owned = nil
		for _, p := range b.Pods() {
			if !metav1.IsControlledBy(&p, j) {
				return "there is also pod " + p.Name
			}
			owned = append(owned, p)
		}
		if len(owned) != pods || int(j.Status.Active) != pods || j.Status.Terminating != nil && *j.Status.Terminating != 0 {
			return fmt.Sprintf("%d pods, status %+v", len(owned), j.Status)
		}
		return ""
	})
	j := &batchv1.Job{}
	b.Find(job, j)
	if j.Status.Failed != 0 || len(j.Status.Conditions) > 0 {
		b.Errorf("the Job counts %d failures: %+v", j.Status.Failed, j.Status.Conditions)
	}
	return owned
}
