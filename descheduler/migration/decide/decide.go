// Package decide says what the controller of Migrations does next.
//
// [Next] looks at one migration and at all that concerns it and names one write, or
// what it waits for. The write depends on nothing but what is in the cluster: whoever
// asks again after a crash, in whatever process, is told to do the same or, if it was
// done, what comes after it.
//
// What holds at every moment, whoever dies:
//
//   - No two copies of a container run. The old one is frozen before the new one can
//     start. It is killed by order of a migration that has handed over, and let go on
//     only when the new pod is gone.
//   - A Job counts no failure and makes no other pod: it sees the old pod as being
//     deleted, and so waits, until it owns the new one.
//   - A ReplicaSet makes no other pod and deletes none but the old one: it owns the new
//     one before it loses that.
//   - After the first write of the hand-over there is only the way forward, before it
//     only the way back if something is wrong.
//
// The files follow a migration's life: admit.go (may it begin?), forward.go (reserve,
// move, verify), budget.go (may the pod be frozen?), handover.go (and clean up), back.go
// (roll back), end.go (what is left to do when it has ended), say.go (conditions and
// figures).
package decide

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/movable"
)

// Config bounds what is done.
type Config struct {
	// MaxMigrations is how many may be in flight; of them at most MaxPerNode leave a
	// node, and as many come to it. Those that are stuck do not count: see [Flight].
	MaxMigrations, MaxPerNode int
	// MaxPerNamespace is how many of one namespace may be in flight; 0 is half of
	// MaxMigrations, rounded up.
	MaxPerNamespace int
	// CleanPatience is how long an end waits for agents to remove what is left, where
	// nothing depends on it. They do so later anyway. Where something does depend on an
	// agent or a kubelet, it is how long that may say nothing until it is said to be silent.
	CleanPatience time.Duration
	// KeepFinished is how long a Migration that has ended stays to be read, and
	// MaxFinished how many of them in a namespace.
	KeepFinished time.Duration
	MaxFinished  int
}

// Observation is all that a decision looks at.
type Observation struct {
	// Migration is read past any cache, as are Source, Restored and Job.
	Migration *v1alpha1.Migration
	// Source is the pod that is moved; nil if it is gone. Before there is a plan it is
	// the one that has the name.
	Source *corev1.Pod
	// Restored is the pod with the name of the new one; nil if there is none.
	Restored *corev1.Pod
	// Job controls the pod; nil if no Job does, or if it is gone.
	Job *batchv1.Job
	// ReplicaSet controls the pod; nil if none does, or if it is gone. It may come from a
	// cache, since only its selector and its UID matter once there is a plan.
	ReplicaSet *appsv1.ReplicaSet
	// Services and Claims are those of the namespace. They matter before there is a plan.
	Services []corev1.Service
	Claims   map[string]*corev1.PersistentVolumeClaim
	// Budgets are those of the namespace, read as Migration is. They matter where
	// LooksAtBudgets says so.
	Budgets []policyv1.PodDisruptionBudget
	// Nodes are those of the cluster, by name.
	Nodes map[string]*corev1.Node
	// Others are the other migrations in flight.
	Others []Flight
	// Trial is what became of the last [TryPod]; nil if nothing was tried.
	Trial *Trial
	// Paused says that the cluster is paused, and why; empty if it is not. It matters before there is
	// a plan.
	Paused string
	// Surplus says that the migration has ended, and is one too many to be kept.
	Surplus bool
}

// Flight is a migration that has a plan and has not ended.
type Flight struct {
	// Namespace is that of the migration, Name its namespace and name.
	Namespace, Name string
	// PodUID is that of the pod that is moved.
	PodUID string
	// Source and Target are the nodes; Target is empty until it is known for certain.
	Source, Target string
	// StartedAt is when it began.
	StartedAt time.Time
	// Stuck says that it waits for a node that is lost, or for an agent or a kubelet that is
	// silent, which may take any time. It does nothing meanwhile and counts towards no limit,
	// so that a failed rack does not stop the migrations of all other nodes.
	Stuck bool
}

// FlightOf returns what others must know of a migration; nil if it is not in flight.
func FlightOf(m *v1alpha1.Migration) *Flight {
	if m.Status.Plan == nil || Ended(m) {
		return nil
	}
	f := &Flight{
		Namespace: m.Namespace, Name: m.Namespace + "/" + m.Name, PodUID: m.Status.Plan.PodUID, Source: m.Status.Plan.SourceNode,
		StartedAt: m.Status.Plan.StartedAt.Time, Stuck: stuckAt(&m.Status) != nil,
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

// Trial is the answer to a [TryPod].
type Trial struct {
	// Refusals say what stands against the new pod; none is a yes.
	Refusals []movable.Refusal
}

// Action is what a step does.
type Action string

// The actions.
const (
	// Wait does nothing until something changes, or until a time.
	Wait Action = "Wait"
	// WriteStatus writes the status.
	WriteStatus Action = "WriteStatus"
	// AddFinalizer and RemoveFinalizer do that with the Migration's own.
	AddFinalizer    Action = "AddFinalizer"
	RemoveFinalizer Action = "RemoveFinalizer"
	// TryPod asks whether the API server would make a pod, and then to decide anew. It
	// is the one action that writes nothing.
	TryPod Action = "TryPod"
	// CreatePod makes a pod, PatchPod changes labels, annotations, owners and finalizers
	// of the one observed, DeletePod deletes it.
	CreatePod Action = "CreatePod"
	PatchPod  Action = "PatchPod"
	DeletePod Action = "DeletePod"
	// WriteBudget writes the status of a PodDisruptionBudget.
	WriteBudget Action = "WriteBudget"
	// DeleteMigration deletes the Migration, which has ended.
	DeleteMigration Action = "DeleteMigration"
)

// Step is what to do next. Each write must be refused by the API server if the object
// has changed since it was observed; then everything is to be observed anew.
type Step struct {
	// Do says which of the fields matter.
	Do Action
	// Why says it in words, for logs.
	Why string
	// Status is the new status, for WriteStatus.
	Status *v1alpha1.MigrationStatus
	// Pod is the pod to try or to create, as it is to be after the patch, or as it was
	// observed before its deletion.
	Pod *corev1.Pod
	// Budget is the one to write, for WriteBudget.
	Budget *policyv1.PodDisruptionBudget
	// GraceSeconds is what a deleted pod is given to end.
	GraceSeconds int64
	// Until is when to look again, for Wait; zero if only a change can help.
	Until time.Time
}

// Next says what to do next with a migration.
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

// Ended reports whether a migration has ended: nothing is done with its pod any more.
func Ended(m *v1alpha1.Migration) bool {
	c := condition(&m.Status, v1alpha1.MigrationFinished)
	return c != nil && c.Status == yes
}

// Back reports whether a migration is on its way back.
func Back(m *v1alpha1.Migration) bool { return m.Status.Phase == v1alpha1.MigrationRollingBack }

// HandingOver reports whether there is no way back any more.
func HandingOver(m *v1alpha1.Migration) bool {
	return condition(&m.Status, v1alpha1.MigrationHandedOver) != nil
}

// mine reports whether a pod was made by the migration.
func mine(m *v1alpha1.Migration, pod *corev1.Pod) bool {
	return pod != nil && pod.Labels[v1alpha1.LabelMigration] == string(m.UID)
}

// restored returns the new pod, and nil if there is none or only a stranger of that
// name.
func (o *Observation) restored() *corev1.Pod {
	if mine(o.Migration, o.Restored) {
		return o.Restored
	}
	return nil
}

func wait(why string, until time.Time) Step { return Step{Do: Wait, Why: why, Until: until} }

// earlier returns the earlier of two times, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
