package replica

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/replica/replicadecide"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// pods are the pods of one policy, as last counted.
type pods struct {
	mu       sync.Mutex
	selector labels.Selector
	owners   owners
	// counted is false if since then a pod was created, deleted, or changed in readiness.
	counted      bool
	total, ready int
	// foreign is the number of pods that match the selector and belong to others.
	foreign int
	// unready are the counted pods that are not Ready.
	unready []unready
	// starting has every observed pod, and whether it has never been Ready. A pod that was Ready when first observed
	// gives no start-up time, because it may have restarted.
	starting map[types.UID]bool
	startUp  *v1alpha1.LearnedTime
}

// unready is a pod that is not Ready, since when, and whether it has a node.
type unready struct {
	since  time.Time
	placed bool
}

// stuck returns the number of pods that have not been Ready for a time, with and without a node.
func stuck(pods []unready, now time.Time, after time.Duration) (placed, unplaced int) {
	for _, p := range pods {
		switch {
		case now.Sub(p.since) < after:
		case p.placed:
			placed++
		default:
			unplaced++
		}
	}
	return placed, unplaced
}

// readiness returns whether a pod is Ready, and since when.
func readiness(p *corev1.Pod) (ready bool, since time.Time) {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, time.Time{}
}

// counts reports whether a pod counts as a replica: it is neither terminating nor finished.
func counts(p *corev1.Pod) bool {
	return p.DeletionTimestamp.IsZero() && !class.Ended(p)
}

// podMatters reports whether a change of a pod affects the counts.
func podMatters(before, after *corev1.Pod) bool {
	was, _ := readiness(before)
	is, _ := readiness(after)
	return was != is || before.Spec.NodeName != after.Spec.NodeName || counts(before) != counts(after) || before.UID != after.UID || !maps.Equal(before.Labels, after.Labels)
}

// podChanged informs the policies that may count a pod. before is nil for a new pod, after for a deleted one.
func (r *Reconciler) podChanged(before, after *corev1.Pod) {
	pod := after
	if pod == nil {
		pod = before
	}
	r.mu.Lock()
	concerned := make([]*tracked, 0, 4)
	for key, t := range r.tracked {
		if key.Namespace == pod.Namespace {
			concerned = append(concerned, t)
		}
	}
	r.mu.Unlock()
	for _, t := range concerned {
		t.pods.changed(before, after)
	}
}

func (p *pods) changed(before, after *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	selects := func(pod *corev1.Pod) bool {
		return pod != nil && p.selector != nil && p.selector.Matches(labels.Set(pod.Labels))
	}
	if !selects(before) && !selects(after) {
		return
	}
	p.counted = false
	if after == nil {
		delete(p.starting, before.UID)
		return
	}
	p.watch(after)
}

// watch learns the start-up time of a pod whose start was observed, if the pod is known to belong to the target.
func (p *pods) watch(pod *corev1.Pod) {
	if p.starting == nil {
		p.starting = map[types.UID]bool{}
	}
	ready, since := readiness(pod)
	starting, known := p.starting[pod.UID]
	switch {
	case !counts(pod), restarted(pod):
		p.starting[pod.UID] = false
	case !known:
		p.starting[pod.UID] = !ready
	case ready && starting:
		if mine, _ := p.owners.mine(pod); mine {
			p.startUp = replicadecide.LearnStartUp(p.startUp, since.Sub(pod.CreationTimestamp.Time))
		}
		p.starting[pod.UID] = false // a later change from unready to Ready is not a start
	}
}

// restarted reports whether a container has restarted. The time until such a pod is Ready is not a start-up time.
func restarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 })
}

// census is a count of pods.
type census struct {
	total, ready, foreign int
	unready               []unready
	startUp               *v1alpha1.LearnedTime
}

func (p *pods) census() census { return census{p.total, p.ready, p.foreign, p.unready, p.startUp} }

// count returns the number of pods, those that are not Ready, and the learned start-up time. It lists pods only if one
// has changed since the last count.
func (r *Reconciler) count(ctx context.Context, t *tracked, target *scaled) (census, error) {
	p := &t.pods
	p.mu.Lock()
	if p.selector == nil || p.selector.String() != target.selector.String() || p.owners.target != target.uid {
		p.selector, p.counted, p.starting = target.selector, false, nil
		p.owners = owners{target: target.uid, apps: target.apps}
	}
	if p.counted {
		defer p.mu.Unlock()
		return p.census(), nil
	}
	// A change during the list is counted at the next evaluation.
	p.counted = true
	p.mu.Unlock()
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(t.key.Namespace), client.MatchingLabelsSelector{Selector: target.selector}, client.UnsafeDisableDeepCopy)
	found, sure := owners{target: target.uid, apps: target.apps}, false
	if err == nil {
		sure, err = found.find(ctx, r.Client, list.Items)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counted = p.counted && sure
	if err != nil {
		return census{}, fmt.Errorf("list the pods of ReplicaPolicy %s: %w", t.key, err)
	}
	p.owners = found
	p.total, p.ready, p.foreign, p.unready = 0, 0, 0, nil
	there := make(map[types.UID]bool, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		there[pod.UID] = true
		p.watch(pod)
		if !counts(pod) {
			continue
		}
		if mine, known := p.owners.mine(pod); known && !mine {
			p.foreign++
			continue
		}
		p.total++
		if is, since := readiness(pod); is {
			p.ready++
		} else {
			p.unready = append(p.unready, unready{since: later(pod.CreationTimestamp.Time, since), placed: pod.Spec.NodeName != ""})
		}
	}
	maps.DeleteFunc(p.starting, func(uid types.UID, _ bool) bool { return !there[uid] })
	return p.census(), nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
