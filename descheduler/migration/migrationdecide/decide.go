// Package migrationdecide determines what the controller of Migrations does next.
//
// The input of [Next] is one migration and everything that concerns it; its output is one write,
// or what to wait for. The write depends only on the state of the cluster. So any process that
// decides again after a crash gets the same step or, if that was done, the step after it.
//
// Invariants, whichever process crashes:
//
//   - No two copies of a container run. The old one is frozen before the new one can start. It is
//     killed by order of a migration that has handed over, and thawed only when the new pod is
//     gone.
//   - A Job counts no failure and creates no other pod. It sees the old pod as being deleted, and
//     so waits, until it owns the new one.
//   - A ReplicaSet creates no other pod and deletes none but the old one: it owns the new one
//     before it loses the old one.
//   - No work is done twice: a migration whose new pod has run goes only forward, unless that pod
//     ends.
//   - A migration can only go forward after the first write of the handover, and only back before
//     it if something is wrong.
//
// Each decision goes one way: the [Observation] selects the part of a migration's life, its function copies the status,
// sets in the copy what the observation shows, and returns the next [Step]. A changed status is itself such a step,
// [WriteStatus]; nothing else is written before it. Events and metrics follow from the two statuses (events.go).
//
// The files follow a migration's life: admit.go (may it begin?), forward.go (reserve, move,
// verify), onward.go (the new pod has run), newpod.go (does the new pod start?), budget.go (may the pod be frozen?), handover.go
// (and clean up), back.go (roll back), stuck.go (wait without a timeout), end.go (after the end),
// status.go (conditions and measurements), events.go (Events).
package migrationdecide

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/internal/movable"
)

// Config sets limits and timeouts.
type Config struct {
	// MaxMigrations is the maximum number of migrations in flight, and MaxPerNode that from a
	// node, and that to a node. Stuck migrations do not count: see [Flight].
	MaxMigrations, MaxPerNode int
	// MaxPerNamespace is the maximum number of migrations in flight of one namespace; 0 is half
	// of MaxMigrations, rounded up.
	MaxPerNamespace int
	// CleanPatience is how long the end of a migration waits for agents to clean up, where
	// nothing depends on it; they clean up later anyway. Where something does depend on an agent
	// or a kubelet, it is how long that may not report before it is called silent.
	CleanPatience time.Duration
	// KeepFinished is how long a finished Migration is kept, and MaxFinished how many are kept in
	// a namespace.
	KeepFinished time.Duration
	MaxFinished  int
}

// Observation is the input of a decision.
type Observation struct {
	// Migration, Source, Restored and Job are read without a cache.
	Migration *v1alpha1.Migration
	// Source is the pod to move; nil if it is gone. Before there is a plan, it is the pod with
	// the name.
	Source *corev1.Pod
	// Restored is the pod with the name of the new pod; nil if there is none.
	Restored *corev1.Pod
	// Job is the pod's controller; nil if that is no Job, or is gone.
	Job *batchv1.Job
	// ReplicaSet is the pod's controller; nil if that is none, or is gone. It may come from a
	// cache, since only its selector and its UID matter once there is a plan.
	ReplicaSet *appsv1.ReplicaSet
	// Services and Claims are those of the namespace. They are used before there is a plan.
	Services []corev1.Service
	Claims   map[string]*corev1.PersistentVolumeClaim
	// Budgets are those of the namespace, read without a cache. They are used where
	// DependsOnBudgets says so.
	Budgets []policyv1.PodDisruptionBudget
	// Nodes are those of the cluster, by name.
	Nodes map[string]*corev1.Node
	// Others are the other migrations in flight.
	Others []Flight
	// Trial is the result of the last [TryPod]; nil if there was none.
	Trial *Trial
	// Paused is why the cluster is paused; empty if it is not. It is used before there is a plan.
	Paused string
	// Surplus means that the migration has ended, and exceeds the limit of finished ones.
	Surplus bool
}

// Flight is a migration in flight: it has a plan and has not ended.
type Flight struct {
	// Namespace is that of the migration, and Name its namespace/name.
	Namespace, Name string
	// PodUID is the UID of the pod to move.
	PodUID string
	// Source and Target are its nodes. Target is empty until it is final.
	Source, Target string
	// StartedAt is when it began.
	StartedAt time.Time
	// Stuck means that it waits, without a timeout, for a lost node or for a silent agent or
	// kubelet. It does nothing meanwhile and counts towards no limit, so that a failed rack does
	// not stop the migrations of all other nodes.
	Stuck bool
}

// FlightOf returns the Flight of a migration; nil if it is not in flight.
func FlightOf(m *v1alpha1.Migration) *Flight {
	if m.Status.Plan == nil || Ended(m) {
		return nil
	}
	f := &Flight{
		Namespace: m.Namespace, Name: m.Namespace + "/" + m.Name, PodUID: m.Status.Plan.PodUID, Source: m.Status.Plan.SourceNode,
		StartedAt: m.Status.Plan.StartedAt.Time, Stuck: m.Status.HeldBy != "",
	}
	if r := m.Status.Reservation; r != nil && m.Status.Order != v1alpha1.OrderPrepare {
		f.Target = r.Node
	}
	return f
}

// Counts reports whether a migration counts towards the limits.
func Counts(m *v1alpha1.Migration) bool {
	f := FlightOf(m)
	return f != nil && !f.Stuck
}

// Trial is the result of a [TryPod].
type Trial struct {
	// Refusals are the objections to the new pod; none if it is admitted.
	Refusals []movable.Refusal
}

// Action is the action of a step.
type Action string

// The actions.
const (
	// Wait does nothing until a change or a time.
	Wait Action = "Wait"
	// WriteStatus writes the status.
	WriteStatus Action = "WriteStatus"
	// AddFinalizer and RemoveFinalizer add and remove the Migration's own finalizer.
	AddFinalizer    Action = "AddFinalizer"
	RemoveFinalizer Action = "RemoveFinalizer"
	// TryPod checks with a dry run whether the API server would create a pod, and decides again.
	// It is the only action besides Wait that writes nothing.
	TryPod Action = "TryPod"
	// CreatePod creates a pod, PatchPod changes labels, annotations, owners and finalizers of the
	// observed pod, and DeletePod deletes it.
	CreatePod Action = "CreatePod"
	PatchPod  Action = "PatchPod"
	DeletePod Action = "DeletePod"
	// WriteBudget writes the status of a PodDisruptionBudget.
	WriteBudget Action = "WriteBudget"
	// DeleteMigration deletes the Migration, which has ended.
	DeleteMigration Action = "DeleteMigration"
)

// Step is what to do next. Each write must fail if the object has changed since it was observed;
// then everything is observed again.
type Step struct {
	// Do selects the fields that apply.
	Do Action
	// Why is the reason, for logs.
	Why string
	// Status is the new status, for WriteStatus.
	Status *v1alpha1.MigrationStatus
	// Pod is the pod to try or to create, the pod after the patch, or the observed pod to delete.
	Pod *corev1.Pod
	// Budget is the budget to write, for WriteBudget.
	Budget *policyv1.PodDisruptionBudget
	// GraceSeconds is the grace period of a deletion.
	GraceSeconds int64
	// Until is when to decide again, for Wait; zero if only a change can help.
	Until time.Time
}

// Next returns the next step of a migration.
func Next(c Config, o Observation, now time.Time) Step {
	m := o.Migration
	switch {
	case Ended(m):
		return c.end(o, now)
	case m.Status.Plan == nil:
		return c.admit(o, now)
	case Back(m):
		return c.back(o, now)
	case HandingOver(m):
		return c.handOver(o, now)
	}
	return c.forward(o, now)
}

// Ended reports whether a migration has ended: its pod is not touched any more.
func Ended(m *v1alpha1.Migration) bool {
	c := condition(&m.Status, v1alpha1.MigrationFinished)
	return c != nil && c.Status == yes
}

// Back reports whether a migration is being rolled back.
func Back(m *v1alpha1.Migration) bool { return m.Status.Phase == v1alpha1.MigrationRollingBack }

// HandingOver reports whether a migration can no longer be rolled back.
func HandingOver(m *v1alpha1.Migration) bool {
	return m.Status.Commit == v1alpha1.CommitHandedOver
}

// restored returns the new pod; nil if there is none, or if another pod has its name. A pod that has lost its label, to a
// webhook or a user, is the new pod nevertheless: its copy may run, so it must go before the old pod continues.
func (o *Observation) restored() *corev1.Pod {
	pod := o.Restored
	if pod == nil || labelled(o.Migration, pod) {
		return pod
	}
	name, uid, ok := podedit.SourceOf(pod)
	plan := o.Migration.Status.Plan
	if ok && plan != nil && name == o.Migration.Spec.PodName && string(uid) == plan.PodUID && pod.Annotations[v1alpha1.AnnotationMigrationName] == o.Migration.Name {
		return pod
	}
	return nil
}

// labelled reports whether a pod has the label of a migration, which new pods have until that has ended.
func labelled(m *v1alpha1.Migration, pod *corev1.Pod) bool {
	return pod.Labels[v1alpha1.LabelMigration] == string(m.UID)
}

// ownedByReplicaSet reports whether the owner of a pod is a ReplicaSet.
func ownedByReplicaSet(owner *metav1.OwnerReference) bool {
	return owner != nil && owner.Kind == "ReplicaSet"
}

func wait(why string, until time.Time) Step { return Step{Do: Wait, Why: why, Until: until} }

// earlier returns the earlier of two times. Zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
