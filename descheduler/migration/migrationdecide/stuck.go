package migrationdecide

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
)

// stuckReasons are the reasons, by type of the condition, of a migration that waits for a node, an agent or a kubelet without a
// timeout, because to continue could let two copies run.
var stuckReasons = map[string][]string{
	v1alpha1.MigrationFrozen:     {v1alpha1.MigrationReasonWaitingForNewPod, v1alpha1.MigrationReasonSourceNotReady, v1alpha1.MigrationReasonAgentNotReporting},
	v1alpha1.MigrationHandedOver: {v1alpha1.MigrationReasonSourceNotReady, v1alpha1.MigrationReasonAgentNotReporting},
	v1alpha1.MigrationCleanedUp:  {v1alpha1.MigrationReasonNewPodNotDeleted},
}

// stuckAt returns the condition for which a migration waits without a timeout; nil if there is
// none.
func stuckAt(s *v1alpha1.MigrationStatus) *metav1.Condition {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; slices.Contains(stuckReasons[c.Type], c.Reason) {
			return c
		}
	}
	return nil
}

// heldByNewPod reports in a condition that the old container must not continue, or the migration
// not end, because the new pod is not gone. It returns when to decide again; zero if only a
// change can help.
func (c Config) heldByNewPod(o Observation, s *status, now time.Time) time.Time {
	m, r := o.Migration, o.restored()
	name := r.Spec.NodeName
	if name == "" {
		return time.Time{}
	}
	lost := o.Nodes[name] == nil || !movable.Ready(o.Nodes[name])
	until := c.silentFrom(&m.Status, v1alpha1.MigrationFinished)
	switch {
	case lost && everFrozen(m):
		s.set(v1alpha1.MigrationFrozen, yes, v1alpha1.MigrationReasonWaitingForNewPod, "node "+name+" of the new pod is not ready, so it is unknown whether the new pod runs: "+
			"the old pod stays frozen until the node is ready again, is removed, or has the taint node.kubernetes.io/out-of-service", now)
	case now.Before(until): // the node need not be one of those observed
		return until
	case everFrozen(m):
		s.set(v1alpha1.MigrationFrozen, yes, v1alpha1.MigrationReasonWaitingForNewPod, "node "+name+" has not confirmed that the new pod is gone: the old pod stays frozen until it does; "+
			"check the kubelet there", now)
	default:
		s.set(v1alpha1.MigrationCleanedUp, no, v1alpha1.MigrationReasonNewPodNotDeleted, "node "+name+" has not confirmed that the new pod is gone; the old pod runs", now)
	}
	return time.Time{}
}

// silentFrom returns when an agent or a kubelet counts as silent that has not reported since a
// condition changed.
func (c Config) silentFrom(s *v1alpha1.MigrationStatus, since string) time.Time {
	return condition(s, since).LastTransitionTime.Add(c.CleanPatience)
}
