package decide

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
)

// The reasons of conditions of a migration that waits for a node, an agent or a kubelet
// without a limit, since to go on without it could let two copies run.
const (
	// held says that it is not known whether the new pod's container is dead.
	held = "Held"
	// sourceNotReady says that the node of the old pod is lost.
	sourceNotReady = "SourceNotReady"
	// agentSilent says that the node of the old pod is ready, and its agent says nothing.
	agentSilent = "AgentSilent"
	// newPodStays says that the new pod of a migration that has frozen nothing is not gone.
	newPodStays = "NewPodNotDeleted"
)

// stuckReasons are those reasons, by the type of the condition.
var stuckReasons = map[string][]string{
	v1alpha1.MigrationFrozen:     {held, sourceNotReady, agentSilent},
	v1alpha1.MigrationHandedOver: {sourceNotReady, agentSilent},
	v1alpha1.MigrationCleanedUp:  {newPodStays},
}

// stuckAt returns the condition that says what a migration waits for without a limit; nil
// if it does not.
func stuckAt(s *v1alpha1.MigrationStatus) *metav1.Condition {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; slices.Contains(stuckReasons[c.Type], c.Reason) {
			return c
		}
	}
	return nil
}

// heldByNewPod says that the old container must not go on, or the migration not end, since
// the new pod is not gone. It returns when to look again; zero if only a change can help.
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
		s.set(v1alpha1.MigrationFrozen, yes, held, "node "+name+" of the new pod is not ready, and it is not known whether that runs: "+
			"the old one is frozen until the node is back, or is removed, or has the taint node.kubernetes.io/out-of-service", now)
	case now.Before(until): // it need not be one of the nodes that were looked at
		return until
	case everFrozen(m):
		s.set(v1alpha1.MigrationFrozen, yes, held, "node "+name+" has not confirmed that the new pod is gone: the old one is frozen until it has; "+
			"look at the kubelet there", now)
	default:
		s.set(v1alpha1.MigrationCleanedUp, no, newPodStays, "node "+name+" has not confirmed that the new pod is gone; the old one runs", now)
	}
	return time.Time{}
}

// silentFrom is when an agent or a kubelet that has said nothing since a condition got its
// value is said to be silent.
func (c Config) silentFrom(s *v1alpha1.MigrationStatus, since string) time.Time {
	return condition(s, since).LastTransitionTime.Add(c.CleanPatience)
}
