//go:build nodes

package agent

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// TestContainersOfOtherPodsAreNotTouched simulates an attacker who may write the status of Migrations in a
// namespace, and names the container of another pod there.
func TestContainersOfOtherPodsAreNotTouched(t *testing.T) {
	b := newBench(t)
	node := b.Nodes[0]
	victim := b.pod("victim", node, cluster.Images["counter"])
	own := b.pod("own", node, cluster.Images["counter"])
	b.counts(victim.Name, 3)
	id := strings.TrimPrefix(victim.Status.ContainerStatuses[0].ContainerID, "containerd://")

	now := metav1.Now()
	plan := &v1alpha1.MigrationPlan{
		StartedAt: now, DeadlineAt: metav1.NewTime(now.Add(time.Minute)), SourceNode: node.Name, PodUID: string(own.UID), Container: "main", ContainerID: id,
		BaseImage: cluster.Images["counter"], Backend: v1alpha1.BackendContainerd, RestoredPod: own.Name + "-m",
	}
	if r := b.sourceSays(b.forge(own.Name, plan, nil), v1alpha1.SourceFailed); r.Reason != v1alpha1.MigrationReasonForeignContainer {
		t.Errorf("the source says %s: %s, want reason %s", r.Reason, r.Message, v1alpha1.MigrationReasonForeignContainer)
	}
	// An attacker who writes the status may also claim that every step except the kill is done.
	b.sourceSays(b.forge(own.Name, plan, func(s *v1alpha1.MigrationStatus) {
		s.Order = v1alpha1.OrderKill
		s.Conditions = []metav1.Condition{{Type: v1alpha1.MigrationHandedOver, Status: metav1.ConditionTrue, Reason: "Forged", LastTransitionTime: metav1.Now()}}
	}), v1alpha1.SourceKilled)
	b.sourceSays(b.forge(own.Name, plan, func(s *v1alpha1.MigrationStatus) {
		s.Order = v1alpha1.OrderFreeze
		s.Source = &v1alpha1.SourceReport{Step: v1alpha1.SourceFrozen, Time: metav1.NowMicro()}
	}), v1alpha1.SourceFailed)
	// It has run all the time, and is still running.
	if err := workload.CheckTicks(b.counts(victim.Name, 5), 1); err != nil {
		t.Error(err)
	}
}

// forge creates a Migration of a pod with a given plan and other false status; more may be nil.
func (b *bench) forge(pod string, plan *v1alpha1.MigrationPlan, more func(*v1alpha1.MigrationStatus)) *v1alpha1.Migration {
	b.Helper()
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, GenerateName: "forged-"},
		Spec:       v1alpha1.MigrationSpec{PodName: pod, Method: v1alpha1.MethodCheckpoint, Deadline: metav1.Duration{Duration: plan.DeadlineAt.Sub(plan.StartedAt.Time)}},
	}
	b.make(m)
	b.write(m, func(s *v1alpha1.MigrationStatus) {
		s.Plan, s.Order = plan.DeepCopy(), v1alpha1.OrderPrepare
		if more != nil {
			more(s)
		}
	})
	return m
}
