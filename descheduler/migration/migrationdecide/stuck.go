package migrationdecide

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
)

// heldAt returns the condition that says what a migration waits for without a timeout; nil if it does not.
func heldAt(s *v1alpha1.MigrationStatus) *metav1.Condition {
	switch {
	case s.HeldBy == "":
		return nil
	case s.Commit == v1alpha1.CommitHandedOver:
		return condition(s, v1alpha1.MigrationHandedOver)
	case s.Commit == v1alpha1.CommitFrozen:
		return condition(s, v1alpha1.MigrationFrozen)
	}
	return condition(s, v1alpha1.MigrationCleanedUp)
}

// A hold is why a migration waits without a timeout.
type hold struct {
	// by is what it waits for; empty if there is nothing to report yet.
	by v1alpha1.MigrationHold
	// kind, value, reason and message are the condition that reports it.
	kind            string
	value           metav1.ConditionStatus
	reason, message string
	// until is when to decide again; zero if only a change can help.
	until time.Time
}

// heldByNewPod returns why the old container must not continue, or the migration not end, while the new pod is not gone.
func (c Config) heldByNewPod(o Observation, now time.Time) hold {
	m, name := o.Migration, o.restored().Spec.NodeName
	if name == "" {
		return hold{}
	}
	lost := o.Nodes[name] != nil && !movable.Ready(o.Nodes[name])
	until := c.silentFrom(&m.Status, v1alpha1.MigrationFinished)
	switch {
	case o.Nodes[name] == nil && everFrozen(m):
		return hold{by: v1alpha1.HoldNewPod, kind: v1alpha1.MigrationFrozen, value: yes, reason: v1alpha1.MigrationReasonWaitingForNewPod,
			message: "node " + name + " of the new pod no longer exists: the old pod stays frozen until the new pod does not exist either"}
	case lost && everFrozen(m):
		return hold{by: v1alpha1.HoldNewPod, kind: v1alpha1.MigrationFrozen, value: yes, reason: v1alpha1.MigrationReasonWaitingForNewPod,
			message: "node " + name + " of the new pod is not ready, so it is unknown whether the new pod runs: " +
				"the old pod stays frozen until the node is ready again, is removed, or has the taint node.kubernetes.io/out-of-service"}
	case now.Before(until): // the node need not be one of those observed
		return hold{until: until}
	case everFrozen(m):
		return hold{by: v1alpha1.HoldNewPod, kind: v1alpha1.MigrationFrozen, value: yes, reason: v1alpha1.MigrationReasonWaitingForNewPod,
			message: "node " + name + " has not confirmed that the new pod is gone: the old pod stays frozen until it does; check the kubelet there"}
	}
	return hold{by: v1alpha1.HoldNewPod, kind: v1alpha1.MigrationCleanedUp, value: no, reason: v1alpha1.MigrationReasonNewPodNotDeleted,
		message: "node " + name + " has not confirmed that the new pod is gone; the old pod was not frozen"}
}

// heldByAgent returns why the frozen container has not continued.
func (c Config) heldByAgent(o Observation, now time.Time) hold {
	m := o.Migration
	node := o.Nodes[m.Status.Plan.SourceNode]
	if !movable.Ready(node) {
		return hold{by: v1alpha1.HoldSourceNode, kind: v1alpha1.MigrationFrozen, value: yes, reason: v1alpha1.MigrationReasonSourceNotReady,
			message: "node " + node.Name + " is not ready: the pod continues when the agent of the node runs again"}
	}
	if until := c.silentFrom(&m.Status, v1alpha1.MigrationFinished); now.Before(until) {
		return hold{until: until}
	}
	return hold{by: v1alpha1.HoldSourceAgent, kind: v1alpha1.MigrationFrozen, value: yes, reason: v1alpha1.MigrationReasonAgentNotReporting,
		message: "the agent of node " + node.Name + " has not reported that the pod runs: check that the agent runs"}
}

// heldByOldPod returns why the old container may not be dead.
func (c Config) heldByOldPod(o Observation, now time.Time) hold {
	node := o.Nodes[o.Migration.Status.Plan.SourceNode]
	until := c.silentFrom(&o.Migration.Status, v1alpha1.MigrationHandedOver)
	switch {
	case node == nil:
		return hold{}
	case !movable.Ready(node):
		return hold{by: v1alpha1.HoldSourceNode, kind: v1alpha1.MigrationHandedOver, value: no, reason: v1alpha1.MigrationReasonSourceNotReady,
			message: "the new pod has taken over; node " + node.Name + " is not ready, so it is unknown whether the old container is dead: repair the node or remove it"}
	case now.Before(until):
		return hold{until: until}
	}
	return hold{by: v1alpha1.HoldSourceAgent, kind: v1alpha1.MigrationHandedOver, value: no, reason: v1alpha1.MigrationReasonAgentNotReporting,
		message: "the new pod has taken over; the agent of node " + node.Name + " has not reported that the old container is dead: check that the agent runs"}
}

// silentFrom returns when an agent or a kubelet counts as silent that has not reported since a
// condition changed.
func (c Config) silentFrom(s *v1alpha1.MigrationStatus, since string) time.Time {
	return condition(s, since).LastTransitionTime.Add(c.CleanPatience)
}
