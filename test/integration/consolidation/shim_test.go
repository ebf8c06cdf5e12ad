//go:build soak

package consolidation

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// body is the simulated work of one pod. It is more exact than the API server: a frozen pod does no work, and
// a restored one continues from where its source was frozen.
type body struct {
	key  types.NamespacedName
	uid  types.UID
	work time.Duration // total work; 0 for a service
	done time.Duration // work done until since
	// since is when it started to run; zero while it does not run.
	since time.Time
	// frozen means that it is frozen, ended that it will not run again, and ending that its end is being
	// written.
	frozen, ended, ending bool
}

// progress returns the work done so far.
func (b *body) progress(now time.Time) time.Duration {
	if b.since.IsZero() {
		return b.done
	}
	return b.done + max(0, now.Sub(b.since))
}

// stop freezes it.
func (b *body) stop(at time.Time) {
	b.done, b.since = b.progress(at), time.Time{}
}

// shim simulates the work of pods, and writes to the API server when it is done. The ledger, which holds the
// lock, passes it all changes.
type shim struct {
	client client.Client
	bodies map[types.UID]*body
}

// saw records the state of a pod. moved is the Migration that created it, or nil. It returns the body, if the
// pod is running or has run.
func (s *shim) saw(pod *corev1.Pod, moved *v1alpha1.Migration, now time.Time) *body {
	b := s.bodies[pod.UID]
	runs := pod.Status.Phase == corev1.PodRunning
	switch {
	case b == nil && runs && pod.DeletionTimestamp == nil:
		b = &body{key: client.ObjectKeyFromObject(pod), uid: pod.UID, since: now}
		b.work, _ = time.ParseDuration(pod.Annotations[annotationWork]) // services have none
		if source := s.source(moved); source != nil {
			b.done = source.progress(now)
		}
		s.bodies[pod.UID] = b
	case b == nil:
	case !b.ended && (!runs || pod.DeletionTimestamp != nil && !b.frozen):
		b.stop(now)
		b.ended = true
	}
	return b
}

// source returns the body whose state a Migration moves.
func (s *shim) source(m *v1alpha1.Migration) *body {
	if m == nil || m.Status.Plan == nil {
		return nil
	}
	return s.bodies[types.UID(m.Status.Plan.PodUID)]
}

// migrates freezes and thaws the source of a Migration, as its agent reports.
func (s *shim) migrates(m *v1alpha1.Migration) {
	b, report := s.source(m), m.Status.Source
	if b == nil || b.ended || report == nil || report.FrozenAt == nil {
		return
	}
	switch thawed := report.ThawedAt; {
	case thawed == nil && !b.frozen:
		b.stop(report.FrozenAt.Time)
		b.frozen = true
	case thawed != nil && b.frozen:
		b.since, b.frozen = thawed.Time, false
	}
}

// finished returns bodies that have done their work and are not yet ending, and marks them as ending.
func (s *shim) finished(now time.Time) (all []*body) {
	for _, b := range s.bodies {
		if !b.ended && !b.ending && b.work > 0 && !b.since.IsZero() && b.progress(now) >= b.work {
			b.ending = true
			all = append(all, b)
		}
	}
	return all
}

// end writes that a pod has succeeded.
func (s *shim) end(ctx context.Context, b *body) error {
	const patience = 30 * time.Second // a hanging request on a busy machine must not block later ones
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pod := &corev1.Pod{}
	if err := s.client.Get(ctx, b.key, pod); apierrors.IsNotFound(err) || err == nil && (pod.UID != b.uid || pod.DeletionTimestamp != nil) {
		return nil // it was deleted at the last moment
	} else if err != nil {
		return fmt.Errorf("read pod %s, which is done: %w", b.key, err)
	}
	to, now := pod.DeepCopy(), metav1.Now()
	to.Status.Phase = corev1.PodSucceeded
	for i := range to.Status.Conditions {
		if c := &to.Status.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionFalse, "PodCompleted", now
		}
	}
	for i := range to.Status.ContainerStatuses {
		c := &to.Status.ContainerStatuses[i]
		c.Ready, c.Started = false, new(false)
		var started metav1.Time
		if c.State.Running != nil {
			started = c.State.Running.StartedAt
		}
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: started, FinishedAt: now}}
	}
	patch := client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{})
	if err := s.client.Status().Patch(ctx, to, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("end pod %s: %w", b.key, err)
	}
	return nil
}

// run ends pods until ctx ends. The lock is that of the ledger. A write may conflict with another change of
// the pod, and is then retried later.
func (s *shim) run(ctx context.Context, lock sync.Locker) {
	const workers = 4
	queue := make(chan *body)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for b := range queue {
				err := s.end(ctx, b)
				lock.Lock()
				b.ending = err == nil
				lock.Unlock()
			}
		})
	}
	defer all.Wait()
	defer close(queue)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			lock.Lock()
			finished := s.finished(now)
			lock.Unlock()
			for _, b := range finished {
				queue <- b
			}
		}
	}
}
