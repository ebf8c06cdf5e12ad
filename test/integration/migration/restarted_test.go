package migration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/app"
	"supercargo.dev/supercargo/test/kit"
)

// runsContainer writes the container ID in a pod's status, as its kubelet does.
func (b *bench) runsContainer(pod, id string) {
	b.Helper()
	p := &corev1.Pod{}
	b.Find(pod, p)
	before := p.DeepCopy()
	p.Status.ContainerStatuses[0].ContainerID = "containerd://" + id
	if err := b.Status().Patch(b.Context(), p, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
}

// The old container restarts while no descheduler runs, and the new pod runs when one is back. The new pod has
// gone on with the work, which the fresh copy has begun again, so the fresh copy ends.
func TestAFreshCopyEndsBesideANewPodThatHasRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, "fresh-before", 2)
	b.agents.script(nil, stageNothing)
	stop := b.deschedule()
	b.job(1, batchv1.NonIndexedCompletion)
	old := b.Pods()[0]
	b.runsContainer(old.Name, "first")
	m := b.move(old.Name)
	m = b.is(m.Name, "is frozen", phase(v1alpha1.MigrationMoving))
	stop()
	b.agents.script(nil, func(*v1alpha1.Migration, *v1alpha1.TargetReport) bool { return true })
	b.Eventually("the new pod runs", func() string {
		p := &corev1.Pod{}
		if !b.Find(m.Status.Plan.RestoredPod, p) || p.Status.Phase != corev1.PodRunning {
			return "in phase " + string(p.Status.Phase)
		}
		return ""
	})
	b.runsContainer(old.Name, "again")
	b.deschedule()
	b.ends(m.Name, v1alpha1.MigrationSucceeded)
	if pods := b.healthy("work", 1); pods[0].Name != m.Status.Plan.RestoredPod {
		t.Errorf("pod %s continues, want %s", pods[0].Name, m.Status.Plan.RestoredPod)
	}
}

// The old container restarts when the hand-over begins: the fresh copy ends like any other pod, and its Job
// does not count it.
func TestAFreshCopyEndsOnceTheHandOverHasBegun(t *testing.T) {
	t.Parallel()
	b := newBench(t, "fresh-after", 2)
	b.agents.script(silentAt(v1alpha1.SourceKilled), nil)
	b.job(1, batchv1.NonIndexedCompletion)
	old := b.Pods()[0]
	b.runsContainer(old.Name, "first")
	// A slow kubelet: the pod stays while it has a finalizer.
	b.hold(old.Name)
	g := kit.NewGate(func(r *http.Request) bool {
		return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/pods/"+old.Name)
	})
	b.deschedule(func(o *app.Options) { o.Config.Wrap(g.Wrap) })
	m := b.move(old.Name)
	select {
	case <-g.Reached:
	case <-b.Context().Done():
		t.Fatal("the old pod is not deleted")
	}
	b.runsContainer(old.Name, "again")
	close(g.Open)
	b.Eventually("the old pod ends as any other, and its Job does not count it", func() string {
		p := &corev1.Pod{}
		if !b.Find(old.Name, p) {
			return "gone"
		}
		if p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds > 30 || len(p.Finalizers) != 1 {
			return fmt.Sprintf("finalizers %v, deleted %v", p.Finalizers, p.DeletionGracePeriodSeconds)
		}
		return ""
	})
	b.release(old.Name)
	b.agents.script(silentAt(""), nil)
	b.ends(m.Name, v1alpha1.MigrationSucceeded)
	b.healthy("work", 1)
}

// held keeps a pod's object from being removed.
const held = "test.supercargo.dev/held"

func (b *bench) hold(pod string) { b.finalizers(pod, true) }

func (b *bench) release(pod string) { b.finalizers(pod, false) }

func (b *bench) finalizers(pod string, hold bool) {
	b.Helper()
	p := &corev1.Pod{}
	b.Find(pod, p)
	before := p.DeepCopy()
	p.Finalizers = nil
	for _, f := range before.Finalizers {
		if f != held {
			p.Finalizers = append(p.Finalizers, f)
		}
	}
	if hold {
		p.Finalizers = append(p.Finalizers, held)
	}
	if err := b.Patch(b.Context(), p, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		b.Fatal(err)
	}
}
