package migrationdecide

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
)

// newPodRan reports whether the new pod has continued the work of the old one: its kubelet has
// reported that its container runs. A pod that has failed since does not count. Its process has
// ended, so the old container may continue, and what it repeats is little compared to a restart from
// the beginning.
func (o *Observation) newPodRan() bool {
	m, r := o.Migration, o.restored()
	if r == nil || m.Status.Order != v1alpha1.OrderFreeze || m.Status.Target == nil {
		return false
	}
	s := containerStatus(r, m.Status.Plan.Container)
	return hasSucceeded(r) || r.Status.Phase == corev1.PodRunning && s != nil && s.State.Running != nil && s.RestartCount == 0
}

// hasSucceeded reports whether a pod has done all its work, so that its node no longer matters.
func hasSucceeded(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded }

// onward continues a migration whose new pod has run. If the old container continued, it would do
// again what the new pod has done. So neither the deadline, nor that the Migration is deleted, nor
// that the kubelet has started the old container again leads back any more: only what has ended, or
// is to end, the new pod.
func (c Config) onward(o Observation, now time.Time) Step {
	if f := o.endsNewPod(now); f != nil {
		return goBack(o, *f, now)
	}
	m, r := o.Migration, o.restored()
	held := o.heldFromHandOver(now)
	if held.by == "" && (verified(r, m.Status.Plan) || o.hurries(now)) {
		return startHandOver(o, now)
	}
	s := copyStatus(m)
	s.setProgress(o, now)
	s.Phase = v1alpha1.MigrationVerifying
	if held.by == "" {
		s.endHold(o, now)
	}
	s.setHold(held, now)
	var until time.Time
	if held.by == "" { // otherwise only a change can help
		until = m.Status.Plan.DeadlineAt.Time
	}
	return waitFrozen(o, s, "wait for the new pod to be ready", until, now)
}

// endsNewPod returns why the new pod cannot take over although it has run; nil if it can.
func (o *Observation) endsNewPod(now time.Time) *fault {
	if replaced(*o) || o.abandoned() {
		return o.faultOfSource()
	}
	if o.Nodes[o.restored().Spec.NodeName] == nil && !hasSucceeded(o.restored()) {
		return o.faultOfNode(o.restored().Spec.NodeName)
	}
	if o.restored().DeletionTimestamp != nil {
		return o.faultOfRestored(now)
	}
	return nil
}

// hurries reports whether a new pod that runs takes over although it is not ready. It may never be,
// and its owner deals with it as with any other pod.
func (o *Observation) hurries(now time.Time) bool {
	m := o.Migration
	return m.DeletionTimestamp != nil || !now.Before(m.Status.Plan.DeadlineAt.Time)
}

// heldFromHandOver returns why a new pod that has run must not take over yet, whatever the deadline.
func (o *Observation) heldFromHandOver(now time.Time) hold {
	m, r := o.Migration, o.restored()
	node := o.Nodes[r.Spec.NodeName]
	switch {
	case hasSucceeded(r):
	case !movable.Ready(node):
		return hold{by: v1alpha1.HoldNewPod, kind: v1alpha1.MigrationFrozen, value: yes, reason: v1alpha1.MigrationReasonWaitingForNewPod,
			message: "the new pod has run, and its node " + node.Name + " is not ready: " +
				"the old pod stays frozen until the node is ready again, is removed, or has the taint node.kubernetes.io/out-of-service"}
	case o.hurries(now) && ownedByReplicaSet(m.Status.Plan.Owner) && !isReady(r):
		return hold{by: v1alpha1.HoldNewPod, kind: v1alpha1.MigrationFrozen, value: yes, reason: v1alpha1.MigrationReasonWaitingForNewPod,
			message: "the new pod runs on node " + node.Name + " and is not ready, so its ReplicaSet would delete it: " +
				"the old pod stays frozen until the new pod is ready or is deleted"}
	}
	return hold{}
}
