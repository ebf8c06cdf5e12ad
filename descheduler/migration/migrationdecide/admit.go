package migrationdecide

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/movable"
)

// admit decides about a migration without a plan. Nothing was touched yet, so deleting the
// Migration cancels it.
func (c Config) admit(o Observation, now time.Time) Step {
	m := o.Migration
	if m.DeletionTimestamp != nil {
		if !hasFinalizer(m) {
			return wait("the Migration is being deleted", time.Time{})
		}
		return Step{Do: RemoveFinalizer, Why: "the migration was cancelled before it changed anything"}
	}
	in, refusals := input(o)
	if len(refusals) > 0 {
		return refuse(m, refusals, now) // any claim is of another pod
	}
	if o.Paused != "" {
		return waitForResume(o, now)
	}
	if StillWaits(c, o) {
		return c.pending(o, now)
	}
	verdict := movable.Check(in)
	if len(verdict.Refusals) > 0 {
		return orRelease(o, refuse(m, verdict.Refusals, now))
	}
	for _, other := range o.Others {
		if other.PodUID == string(in.Pod.UID) {
			return refuse(m, []movable.Refusal{{Reason: v1alpha1.MigrationReasonAlreadyMoving, Message: fmt.Sprintf("Migration %s is already moving the pod: wait until it has finished", other.Name)}}, now)
		}
	}
	if short := c.full(o.Others, m.Namespace, in.Pod.Spec.NodeName); short != nil {
		return c.waitForOthers(m, short.why, now)
	}
	return begin(o, in, verdict, now)
}

// input returns the input of the rules for movable pods.
func input(o Observation) (movable.Input, []movable.Refusal) {
	spec := &o.Migration.Spec
	switch {
	case o.Source == nil:
		return movable.Input{}, []movable.Refusal{{Reason: v1alpha1.MigrationReasonPodNotFound, Message: fmt.Sprintf("pod %s not found in namespace %s", spec.PodName, o.Migration.Namespace)}}
	case spec.PodUID != "" && spec.PodUID != string(o.Source.UID):
		return movable.Input{}, []movable.Refusal{{Reason: v1alpha1.MigrationReasonPodReplaced, Message: fmt.Sprintf("pod %s has been replaced: its UID is %s, not %s", spec.PodName, o.Source.UID, spec.PodUID)}}
	}
	return movable.Input{
		Pod: o.Source, TargetNode: spec.TargetNode, Deadline: deadline(spec), Job: o.Job, ReplicaSet: o.ReplicaSet,
		Services: o.Services, Claims: o.Claims, Nodes: o.Nodes,
	}, nil
}

// deadline returns the deadline of a spec, or the default for a spec that was created without the
// API server's defaults.
func deadline(spec *v1alpha1.MigrationSpec) time.Duration {
	if d := spec.Deadline.Duration; d > 0 {
		return d
	}
	return v1alpha1.DefaultMigrationDeadline
}

// refuse ends a migration that has not begun.
func refuse(m *v1alpha1.Migration, refusals []movable.Refusal, now time.Time) Step {
	s := copyStatus(m)
	reason, message := movable.Reason(refusals), movable.Message(refusals)
	s.set(v1alpha1.MigrationEligible, no, reason, message, now)
	s.Phase = v1alpha1.MigrationRefused
	s.set(v1alpha1.MigrationFinished, yes, string(s.Phase), "nothing was changed: "+message, now)
	return s.write("refuse: " + message)
}

// StillWaits reports whether a pending migration still waits for others. It only uses the old pod
// and the others.
func StillWaits(c Config, o Observation) bool {
	return o.Migration.Status.Phase == v1alpha1.MigrationPending && o.Source != nil && c.Full(o.Others, o.Migration.Namespace, o.Source.Spec.NodeName)
}

// Full reports whether no migration from a node and of a namespace can begin now.
func (c Config) Full(others []Flight, namespace, node string) bool {
	return c.full(others, namespace, node) != nil
}

// shortage describes why a migration cannot begin yet.
type shortage struct {
	why string
	// newest is the latest start of the migrations that take up the room.
	newest time.Time
}

// full returns why a migration from a node and of a namespace cannot begin yet; nil if it can.
func (c Config) full(others []Flight, namespace, node string) *shortage {
	for _, limit := range []struct {
		most  int
		of    string
		takes func(Flight) bool
	}{
		{c.MaxMigrations, "migrations", func(Flight) bool { return true }},
		{c.perNamespace(), "migrations of namespace " + namespace, func(f Flight) bool { return f.Namespace == namespace }},
		{c.MaxPerNode, "migrations from node " + node, func(f Flight) bool { return f.Source == node }},
	} {
		n, newest := 0, time.Time{}
		for _, f := range others {
			if f.Stuck || !limit.takes(f) {
				continue
			}
			if n++; f.StartedAt.After(newest) {
				newest = f.StartedAt
			}
		}
		if n >= limit.most {
			return &shortage{fmt.Sprintf("%d of at most %d %s are in flight", n, limit.most, limit.of), newest}
		}
	}
	return nil
}

// perNamespace returns the limit of migrations in flight of one namespace.
func (c Config) perNamespace() int {
	if c.MaxPerNamespace > 0 {
		return c.MaxPerNamespace
	}
	return (c.MaxMigrations + 1) / 2
}

// fullTarget returns why no container that moves to a node can be frozen yet; empty if one can.
// Migrations from the node do not count. If they did, two nodes that exchange pods could
// deadlock: each would have begun its maximum, and none could continue. So a migration with a
// target always continues to its end.
func (c Config) fullTarget(others []Flight, node string) string {
	n := 0
	for _, f := range others {
		if f.Target == node && !f.Stuck {
			n++
		}
	}
	if n < c.MaxPerNode {
		return ""
	}
	return fmt.Sprintf("%d of at most %d migrations to node %s are in flight", n, c.MaxPerNode, node)
}

// waitForOthers sets a migration to wait for others to end.
func (c Config) waitForOthers(m *v1alpha1.Migration, why string, now time.Time) Step {
	s := copyStatus(m)
	s.Phase = v1alpha1.MigrationPending
	s.set(v1alpha1.MigrationEligible, unknown, v1alpha1.MigrationReasonWaitingForOthers, "the migration starts when the limit allows it: "+why, now)
	return s.write("wait for other migrations: " + why)
}

// waitForResume waits until the cluster is no longer paused, without a timeout.
func waitForResume(o Observation, now time.Time) Step {
	s := copyStatus(o.Migration)
	s.Phase = v1alpha1.MigrationPending
	s.set(v1alpha1.MigrationEligible, unknown, v1alpha1.MigrationReasonPaused, o.Paused, now)
	return s.writeOr(o.Migration, "wait: the cluster is paused", time.Time{})
}

// pending waits for room. A migration expires once it has waited for the duration of its
// deadline, unless one of those that take up the room has begun within that time: its requester
// must be told. While others begin and end, the oldest is next, and none expires only because the
// queue is long.
func (c Config) pending(o Observation, now time.Time) Step {
	m := o.Migration
	short := c.full(o.Others, m.Namespace, o.Source.Spec.NodeName)
	since := m.CreationTimestamp.Time
	if short.newest.After(since) {
		since = short.newest
	}
	patience := deadline(&m.Spec)
	if until := since.Add(patience); now.Before(until) {
		return wait("the limit of migrations in flight is reached", until)
	}
	s := copyStatus(m)
	s.Phase = v1alpha1.MigrationRolledBack
	s.set(v1alpha1.MigrationFinished, yes, string(s.Phase), fmt.Sprintf("%s: nothing was changed: the migration waited for %s, and none of those that it waits for began during that time: %s",
		v1alpha1.MigrationReasonDeadlineExceeded, patience, short.why), now)
	return o.remember(v1alpha1.MigrationReasonDeadlineExceeded, orRelease(o, s.write("the limit of migrations in flight did not allow it before its deadline")), now)
}

// begin checks with a dry run whether the new pod would be admitted, and makes the plan.
func begin(o Observation, in movable.Input, verdict movable.Verdict, now time.Time) Step {
	m := o.Migration
	plan := podedit.NewPlan(in, verdict, m.UID, now, in.Deadline)
	if o.Trial == nil {
		pod, err := podedit.NewPod(m, plan, in.Pod, in.Selector(), "")
		if err != nil {
			return refuse(m, []movable.Refusal{{Reason: v1alpha1.MigrationReasonPodNotCopyable, Message: err.Error()}}, now)
		}
		return Step{Do: TryPod, Why: "check with a dry run whether the new pod would be admitted", Pod: pod}
	}
	if len(o.Trial.Refusals) > 0 {
		return orRelease(o, refuse(m, o.Trial.Refusals, now))
	}
	if !hasFinalizer(m) {
		return Step{Do: AddFinalizer, Why: "the objects of the migration must be removed before the Migration is deleted"}
	}
	s := copyStatus(m)
	s.Plan = plan
	s.Order = v1alpha1.OrderPrepare
	s.Phase = v1alpha1.MigrationReserving
	s.set(v1alpha1.MigrationEligible, yes, v1alpha1.MigrationReasonMovable, fmt.Sprintf("back-end %s, from node %s", plan.Backend, plan.SourceNode), now)
	s.set(v1alpha1.MigrationReserved, no, v1alpha1.MigrationReasonPreparing, inspectionMessage(plan), now)
	return s.write("begin")
}

// inspectionMessage says what a migration waits for first.
func inspectionMessage(plan *v1alpha1.MigrationPlan) string {
	return "waiting for the agent of node " + plan.SourceNode + " to inspect the container"
}

func hasFinalizer(m *v1alpha1.Migration) bool {
	return slices.Contains(m.Finalizers, v1alpha1.FinalizerMigration)
}

// dead reports whether a pod has ended for good, or is gone.
func dead(pod *corev1.Pod) bool {
	return pod == nil || class.Ended(pod)
}
