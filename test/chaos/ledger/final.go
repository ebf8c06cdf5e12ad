package ledger

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/drain"
)

// Final is the observed state of the cluster, usually at the end of a run.
type Final struct {
	Nodes       []corev1.Node
	Pods        []corev1.Pod
	Jobs        []batchv1.Job
	Deployments []appsv1.Deployment
	Migrations  []v1alpha1.Migration
}

// Patience holds the longest durations that are accepted in a healthy cluster.
type Patience struct {
	// Pending is the time from the creation of a pod until it is bound, Migration from the creation
	// of a Migration until it has ended, and Drain from the cordoning of a node until it has no pods.
	Pending, Migration, Drain time.Duration
}

// Unsettled returns the pods, Migrations and drains that exceed the patience, and the nodes that are
// not ready. It is empty if the cluster works, whatever its load.
func (f *Final) Unsettled(now time.Time, p Patience) (all []string) {
	for i := range f.Pods {
		pod := &f.Pods[i]
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && now.Sub(pod.CreationTimestamp.Time) > p.Pending {
			all = append(all, fmt.Sprintf("pod %s/%s is pending since %s", pod.Namespace, pod.Name, clock(pod.CreationTimestamp.Time)))
		}
	}
	for i := range f.Migrations {
		m := &f.Migrations[i]
		if !ended(m) && now.Sub(m.CreationTimestamp.Time) > p.Migration {
			all = append(all, fmt.Sprintf("Migration %s/%s is %s since %s", m.Namespace, m.Name, m.Status.Phase, clock(m.CreationTimestamp.Time)))
		}
	}
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.DeletionTimestamp == nil {
			if mark, is := drain.MarkOf(n); is && f.used(n.Name) && now.Sub(mark.Since) > p.Drain {
				all = append(all, fmt.Sprintf("node %s is drained by %s since %s", n.Name, mark.Owner, clock(mark.Since)))
			}
			if !ready(n) {
				all = append(all, fmt.Sprintf("node %s is not ready", n.Name))
			}
		}
	}
	return all
}

// Broken returns what must not exist once all work is done and the cluster is idle: failed pods of a
// Job, a Job or a service that lacks pods, a Migration that has not ended or has left its pod
// frozen, and a cordoned node.
//
// A node that the descheduler has emptied is expected to stay cordoned and marked until a pod that
// fits it is pending.
func (f *Final) Broken() (all []string) {
	for i := range f.Jobs {
		all = append(all, brokenJob(&f.Jobs[i])...)
	}
	for i := range f.Deployments {
		d := &f.Deployments[i]
		if want := *d.Spec.Replicas; d.Status.ReadyReplicas != want || d.Status.Replicas != want {
			all = append(all, fmt.Sprintf("pod lost: Deployment %s/%s has %d pods, %d of them ready, and wants %d", d.Namespace, d.Name, d.Status.Replicas, d.Status.ReadyReplicas, want))
		}
	}
	for i := range f.Migrations {
		all = append(all, brokenMigration(&f.Migrations[i])...)
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		mark, marked := drain.MarkOf(n)
		if emptied := marked && n.Spec.Unschedulable && mark.Owner == drain.Descheduler && !f.used(n.Name); !emptied && (marked || n.Spec.Unschedulable) {
			all = append(all, fmt.Sprintf("node left cordoned: %s, unschedulable %t, %s %q", n.Name, n.Spec.Unschedulable, v1alpha1.AnnotationDraining, n.Annotations[v1alpha1.AnnotationDraining]))
		}
	}
	return all
}

// used reports whether a node has a pod that has not ended.
func (f *Final) used(node string) bool {
	return slices.ContainsFunc(f.Pods, func(p corev1.Pod) bool {
		return p.Spec.NodeName == node && !class.Ended(&p)
	})
}

func brokenJob(j *batchv1.Job) (all []string) {
	if j.Status.Failed > 0 {
		all = append(all, fmt.Sprintf("pod lost: Job %s/%s counts %d failed pods", j.Namespace, j.Name, j.Status.Failed))
	}
	if want := *j.Spec.Completions; j.Status.CompletionTime == nil || j.Status.Succeeded != want {
		all = append(all, fmt.Sprintf("pod lost: Job %s/%s has %d of %d pods succeeded, %d active", j.Namespace, j.Name, j.Status.Succeeded, want, j.Status.Active))
	}
	return all
}

func brokenMigration(m *v1alpha1.Migration) []string {
	what := fmt.Sprintf("Migration %s/%s of pod %s", m.Namespace, m.Name, m.Spec.PodName)
	source := m.Status.Source
	switch {
	case !ended(m):
		return []string{fmt.Sprintf("migration half done: %s is %s", what, m.Status.Phase)}
	case m.DeletionTimestamp != nil:
		return []string{fmt.Sprintf("migration half done: %s is being deleted", what)}
	case m.Status.Phase == v1alpha1.MigrationRolledBack && source != nil && source.FrozenAt != nil && source.ThawedAt == nil && source.Step != v1alpha1.SourceCleaned:
		return []string{fmt.Sprintf("migration half done: %s is rolled back, and its pod was frozen and not thawed; its agent says %s", what, source.Step)}
	}
	return nil
}

// ended reports whether a Migration is in a final phase.
func ended(m *v1alpha1.Migration) bool {
	switch m.Status.Phase {
	case v1alpha1.MigrationSucceeded, v1alpha1.MigrationRolledBack, v1alpha1.MigrationRefused:
		return true
	}
	return false
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
