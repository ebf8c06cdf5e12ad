package lives

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/input/trace"
)

// happens lets time pass, and then one thing happen.
func (l *life) happens() error {
	l.passes(oneOf(l, 300*time.Millisecond, 2*time.Second, time.Minute, 5*time.Minute))
	switch l.r.IntN(20) {
	case 0, 1:
		return l.nodeComes()
	case 2:
		return l.nodeGoes()
	case 3:
		return l.nodeChanges()
	case 4, 5, 6, 7:
		return l.workloadComes()
	case 8, 9, 10, 11, 12:
		return l.podsStart()
	case 13, 14, 15:
		return l.podEnds()
	case 16, 17:
		return l.podGoes()
	case 18:
		return l.observe(func() []trace.Row { return []trace.Row{l.tracker.Alive(l.now)} })
	}
	return l.interruption()
}

// passes lets some time pass, up to most.
func (l *life) passes(most time.Duration) {
	l.now = l.now.Add(time.Duration(l.r.Int64N(int64(most))).Truncate(time.Millisecond))
}

// interruption ends the recorder, or starts it again: as if its user or its computer did. It has no effect before the
// first recorder.
func (l *life) interruption() error {
	switch {
	case l.began.IsZero() || l.oneIn(2):
		return nil
	case l.file == nil:
		return l.begin()
	}
	return l.end(l.oneIn(2))
}

// podsStart starts pods that wait, each on the first node that has room for it.
func (l *life) podsStart() error {
	for i, p := range l.pods {
		if p.Spec.NodeName != "" || class.Ended(p) || l.oneIn(3) {
			continue
		}
		for _, node := range l.nodes {
			if !l.fits(p, node) {
				continue
			}
			p = p.DeepCopy()
			p.Spec.NodeName, p.Status.Phase, p.Status.StartTime = node.Name, corev1.PodRunning, new(metav1.NewTime(l.now.Add(l.skews[node.Name]).Truncate(time.Second)))
			l.pods[i] = p
			if err := l.observe(l.seenPod(p)); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// fits reports whether a node has what a pod selects and requests, by the rules that this package's pods need.
func (l *life) fits(p *corev1.Pod, node *corev1.Node) bool {
	for label, value := range p.Spec.NodeSelector {
		if node.Labels[label] != value {
			return false
		}
	}
	if node.Spec.Unschedulable || node.Status.Allocatable == nil || len(node.Spec.Taints) > 0 && len(p.Spec.Tolerations) == 0 {
		return false
	}
	left := node.Status.Allocatable.DeepCopy()
	for _, q := range append([]*corev1.Pod{p}, l.pods...) {
		if q != p && (q.Spec.NodeName != node.Name || class.Ended(q)) {
			continue
		}
		for name, amount := range q.Spec.Containers[0].Resources.Requests {
			has := left[name]
			if has.Sub(amount); has.Sign() < 0 {
				return false
			}
			left[name] = has
		}
	}
	return true
}

// podEnds lets a container of a pod that runs end, or the kubelet evict the pod.
func (l *life) podEnds() error {
	i := l.any(func(p *corev1.Pod) bool { return p.Status.StartTime != nil && !class.Ended(p) })
	if i < 0 {
		return nil
	}
	p := l.pods[i].DeepCopy()
	l.pods[i] = p
	p.Status.Phase = oneOf(l, corev1.PodSucceeded, corev1.PodSucceeded, corev1.PodFailed)
	if !l.oneIn(5) { // else evicted
		at := metav1.NewTime(l.now.Add(l.skews[p.Spec.NodeName]).Truncate(time.Second))
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at}}}}
	}
	return l.observe(l.seenPod(p))
}

// finished returns when a pod ended by its status, or a time after all others.
func finished(p *corev1.Pod) time.Time {
	for _, s := range p.Status.ContainerStatuses {
		return s.State.Terminated.FinishedAt.Time
	}
	return time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
}

// podGoes deletes a pod. That of a StatefulSet is created again under its name.
func (l *life) podGoes() error {
	i := l.any(func(*corev1.Pod) bool { return true })
	if i < 0 {
		return nil
	}
	p := l.pods[i]
	l.pods = append(l.pods[:i:i], l.pods[i+1:]...)
	if err := l.observe(l.podGone(p)); err != nil || l.oneIn(2) || class.EveryNode(p) {
		return err
	}
	again := l.pod(p.Namespace, p.Name, "", p.Spec.Containers[0].Resources.Requests)
	again.OwnerReferences = p.OwnerReferences
	l.pods = append(l.pods, again)
	return l.observe(l.seenPod(again))
}

// podsGo deletes the pods of a node.
func (l *life) podsGo(node string) error {
	var kept []*corev1.Pod
	for _, p := range l.pods {
		if p.Spec.NodeName != node {
			kept = append(kept, p)
			continue
		}
		if err := l.observe(l.podGone(p)); err != nil {
			return err
		}
	}
	l.pods = kept
	return nil
}

// any returns the index of some pod, or -1.
func (l *life) any(is func(*corev1.Pod) bool) int {
	var all []int
	for i, p := range l.pods {
		if is(p) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return -1
	}
	return oneOf(l, all...)
}

func (l *life) seen(node *corev1.Node) func() []trace.Row {
	return func() []trace.Row { return l.sees(node) }
}

func (l *life) seenPod(p *corev1.Pod) func() []trace.Row {
	return func() []trace.Row { return l.seesPod(p) }
}

func (l *life) nodeGone(node *corev1.Node) func() []trace.Row {
	return func() []trace.Row { return l.tracker.NodeGone(node, l.now) }
}

// podGone has the recorder observe that a pod was deleted. It may not have observed the pod before.
func (l *life) podGone(p *corev1.Pod) func() []trace.Row {
	return func() []trace.Row {
		rows := l.seesPod(p)
		if f := l.fates[string(p.UID)]; f != nil {
			f.ended = true
		}
		return append(rows, l.tracker.PodGone(p, l.now)...)
	}
}
