//go:build nodes

package agent

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		s.Order, s.Commit = v1alpha1.OrderKill, v1alpha1.CommitHandedOver
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
		Spec:       v1alpha1.MigrationSpec{PodName: pod, Deadline: metav1.Duration{Duration: plan.DeadlineAt.Sub(plan.StartedAt.Time)}},
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

// TestAPodReachesNoCheckpointOfAnother simulates tenants who may create pods on a node where a checkpoint of another
// pod is staged, and who know the UIDs of its Migration and its new pod.
func TestAPodReachesNoCheckpointOfAnother(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	before := b.stores(to)
	pod, m := b.shipped(from, to)
	for _, stored := range b.stores(to) { // what earlier tests left may go meanwhile
		if !slices.Contains(before, stored) {
			t.Errorf("containerd has %s with a staged checkpoint: a pod could name it", stored)
		}
	}
	uid := m.Status.Reservation.PodUID
	claims := map[string]string{
		"io.kubernetes.cri.sandbox-uid": uid, "io.kubernetes.cri.container-name": "main", "io.kubernetes.pod.uid": uid,
		v1alpha1.AnnotationMigrationName: m.Name, v1alpha1.AnnotationBaseImage: v1alpha1.GroupName + "/checkpoint:" + string(m.UID),
	}
	started := time.Now()
	liar := b.bound("liar", to, cluster.Images["counter"], func(p *corev1.Pod) {
		p.Annotations, p.Labels = claims, map[string]string{v1alpha1.LabelMigration: string(m.UID), "io.kubernetes.pod.uid": uid}
	})
	if ticks := b.counts(b.runs(liar).Name, 2); ticks[0].Value != 1 || ticks[0].At.Before(started) {
		t.Errorf("the first value of a pod that claims to be another is %v", ticks[0])
	}
	for name, image := range map[string]string{
		"by-name": v1alpha1.GroupName + "/checkpoint:" + string(m.UID), "by-uid": string(m.UID), "by-digest": strings.TrimPrefix(m.Status.Target.Digest, "xxh64:"),
	} {
		guess := b.bound(name, to, image, nil)
		b.eventually("pod "+name+" is refused", func() error {
			if err := b.Get(b.ctx(), client.ObjectKeyFromObject(guess), guess); err != nil {
				return err
			}
			s := guess.Status.ContainerStatuses
			if len(s) != 1 || s[0].State.Waiting == nil || !slices.Contains([]string{"ErrImageNeverPull", "InvalidImageName"}, s[0].State.Waiting.Reason) {
				return fmt.Errorf("it is %s: %+v", guess.Status.Phase, s)
			}
			return nil
		})
	}
	moved := b.restored(m, to)
	b.handOver(m, pod)
	if err := workload.CheckTicks(b.counts(moved.Name, 5), 1); err != nil {
		t.Error(err)
	}
}

// bound creates a pod on a node; change may be nil.
func (b *bench) bound(name string, node *cluster.Node, image string, change func(*corev1.Pod)) *corev1.Pod {
	b.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace},
		Spec: corev1.PodSpec{
			NodeName: node.Name, RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "main", Image: image, ImagePullPolicy: corev1.PullNever}},
		},
	}
	if change != nil {
		change(pod)
	}
	b.make(pod)
	return pod
}

// stores returns what containerd's stores of a node contain that a pod can name.
func (b *bench) stores(node *cluster.Node) []string {
	b.Helper()
	var all []string
	for _, list := range []string{"images ls -q", "content ls -q", "snapshots ls"} {
		for line := range strings.Lines(b.run(node, "ctr --address "+node.ContainerdSocket+" -n k8s.io "+list+" 2>/dev/null")) {
			all = append(all, strings.Join(strings.Fields(line), " ")) // columns are as wide as their longest entry
		}
	}
	return all
}

func TestDumpsAreNeverSwapped(t *testing.T) {
	b := newBench(t)
	for _, node := range b.Nodes {
		b.eventually("the agent has mounted its work folder", func() error {
			mounts := b.run(node, "grep "+filepath.Join(node.Dir, "agent-work")+" /proc/mounts || true")
			if !strings.Contains(mounts, "tmpfs") || !strings.Contains(mounts, "noswap") {
				return fmt.Errorf("it is mounted as %q", mounts)
			}
			return nil
		})
	}
}
