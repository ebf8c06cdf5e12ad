package migration

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/job"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/test/kit"
)

// runJobController runs Kubernetes' Job controller for the bench, until the returned function is called.
func (b *bench) runJobController() (stop func()) {
	b.Helper()
	c, err := kubernetes.NewForConfig(b.Site.Config())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(b.Space))
	jobs, err := job.NewController(ctx, factory.Core().V1().Pods(), factory.Batch().V1().Jobs(), c)
	if err != nil {
		b.Fatalf("make a Job controller: %v", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	done := make(chan struct{})
	go func() {
		defer close(done)
		jobs.Run(ctx, 1)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done; factory.Shutdown() })
	b.Cleanup(stop)
	return stop
}

// letJobsSync runs a Job controller until it has synced all Jobs. It syncs them in order: when it has synced
// a Job that was created last, it has synced all others.
func (b *bench) letJobsSync(name string) {
	b.Helper()
	stop := b.runJobController()
	defer stop()
	last := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Space, Name: name},
		Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "none"}},
		}}},
	}
	b.Make(last)
	b.Eventually("the Job controller has seen all Jobs", func() string {
		if !b.Find(name, last) || len(last.Status.Conditions) == 0 {
			return "not yet"
		}
		return ""
	})
}

// The Job controller runs only once during the migration of a pod: after the first write of the descheduler,
// which waits meanwhile, after the second, and so on. Each time it must find nothing to do.
func TestWheneverTheJobControllerLooksItSeesAsManyPodsAsItWants(t *testing.T) {
	t.Parallel()
	const atOnce = 2
	end := kit.Series(t, atOnce, func(n int64) (reached bool) {
		t.Run(fmt.Sprintf("after write %d", n), func(t *testing.T) {
			reached = newBench(t, fmt.Sprintf("paused-%d", n), 2, quiet).pausedAfter(n)
		})
		return reached
	})
	if end < 10 || end > 40 {
		t.Errorf("a move has %d writes", end-1)
	}
}

// pausedAfter moves a pod, and lets the Job controller sync after that write. It reports whether there was
// such a write.
func (b *bench) pausedAfter(at int64) (reached bool) {
	b.Helper()
	stop := b.runJobController()
	b.job(1, batchv1.IndexedCompletion)
	stop()
	var seen atomic.Int64
	g := kit.NewGate(func(*http.Request) bool { return seen.Add(1) == at })
	b.deschedule(func(o *app.Options) { o.Config.Wrap(g.Wrap) })
	old := b.Pods()[0]
	name := b.move(old.Name).Name
	b.Eventually("the write has been done, or all has", func() string {
		select {
		case <-g.Reached:
			reached = true
			return ""
		default:
		}
		m := &v1alpha1.Migration{}
		if b.Find(name, m) && m.Status.Phase == v1alpha1.MigrationSucceeded && len(m.Finalizers) == 0 {
			return ""
		}
		return "not yet"
	})
	if reached {
		before := map[string]bool{}
		for _, p := range b.Pods() {
			before[p.Name] = true
		}
		b.letJobsSync("seen")
		j := &batchv1.Job{}
		b.Find("work", j)
		for _, p := range b.Pods() {
			// Only the descheduler's goroutine that writes waits: another may continue and create the pod
			// that takes over.
			made := !before[p.Name] && p.Annotations[v1alpha1.AnnotationMigrationName] == ""
			if made || p.DeletionTimestamp != nil && p.Name != old.Name {
				b.Errorf("the Job controller has made or deleted pod %s", p.Name)
			}
		}
		if j.Status.Failed > 0 || len(j.Status.Conditions) > 0 {
			b.Errorf("the Job counts %d failures: %+v", j.Status.Failed, j.Status)
		}
		close(g.Open)
	}
	m := b.ends(name, v1alpha1.MigrationSucceeded)
	b.took(&old, m)
	b.runJobController()
	b.healthy("work", 1)
	return reached
}
