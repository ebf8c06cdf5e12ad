//go:build nodes

package agent

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// continues ends a migration with Thaw, and checks that the counter lost no value.
func (b *bench) continues(m *v1alpha1.Migration, pod *corev1.Pod) {
	b.Helper()
	b.order(m, v1alpha1.OrderThaw)
	b.sourceSays(m, v1alpha1.SourceThawed)
	if err := workload.CheckTicks(b.counts(pod.Name, 3), 1); err != nil {
		b.Error(err)
	}
	b.order(m, v1alpha1.OrderClean)
	b.sourceSays(m, v1alpha1.SourceCleaned)
	b.nothingLeft()
}

func TestDiskFullOnTheTargetIsReportedAndTheSourceContinues(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod := b.pod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "32"})
	b.counts(pod.Name, 3)
	m := b.prepare(pod, to, v1alpha1.BackendContainerd)
	// A smaller disk where checkpoints are staged.
	disk := filepath.Join(to.Dir, "agent", "staged")
	if output, err := to.Run(b.ctx(), "sh", "-c", "mkdir -p "+disk+" && mount -t tmpfs -o size=8m small "+disk); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	t.Cleanup(func() {
		if output, err := to.Run(b.ctx(), "umount", disk); err != nil {
			t.Errorf("%v: %s", err, output)
		}
	})
	b.order(m, v1alpha1.OrderFreeze)
	if r := b.targetSays(m, v1alpha1.TargetFailed); r.Reason != v1alpha1.MigrationReasonNoRoom {
		t.Errorf("the target says %s: %s, want reason NoRoom", r.Reason, r.Message)
	}
	if r := b.sourceSays(m, v1alpha1.SourceFailed); r.Reason != v1alpha1.MigrationReasonNoRoom {
		t.Errorf("the source says %s: %s, want reason NoRoom", r.Reason, r.Message)
	}
	b.continues(m, pod)
}

// run runs a shell command on a node.
func (b *bench) run(node *cluster.Node, command string) string {
	b.Helper()
	output, err := node.Run(b.ctx(), "sh", "-c", command)
	if err != nil {
		b.Fatalf("%s: %v: %s", command, err, output)
	}
	return string(output)
}

func TestDiskFullOnTheSourceIsReportedAndTheSourceContinues(t *testing.T) {
	work := func(node *cluster.Node) string { return filepath.Join(node.Dir, "agent-work") }
	state := func(node *cluster.Node) string { return filepath.Join(node.Dir, "agent", "ledger") }
	takeAllBut := func(left int) func(dir string) string {
		return func(dir string) string {
			return fmt.Sprintf("fallocate -l $(($(df --output=avail -B1 %[1]s | tail -n 1) - %[2]d)) %[1]s/full", dir, left)
		}
	}
	remove := func(dir string) string { return "rm " + dir + "/full" }
	for _, tc := range []struct {
		name       string
		dir        func(*cluster.Node) string
		fill, free func(dir string) string
		says       string
	}{
		{"no room to describe the container", work, takeAllBut(0), remove, "--work-size"},
		{"no room for CRIU's log", work, takeAllBut(20 << 10), remove, "--work-size"},
		{"no room for its memory", work, takeAllBut(4 << 20), remove, "--work-size"},
		{"no room for the ledger", state, func(dir string) string {
			return "mount -t tmpfs -o size=4k full " + dir + " && head -c 4k /dev/zero >" + dir + "/full.tmp"
		}, func(dir string) string { return "umount " + dir }, "--state-dir"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			from, to := b.Nodes[0], b.Nodes[1]
			pod := b.pod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "32"})
			b.counts(pod.Name, 3)
			m := b.prepare(pod, to, v1alpha1.BackendContainerd)
			b.run(from, tc.fill(tc.dir(from)))
			free := sync.OnceFunc(func() { b.run(from, tc.free(tc.dir(from))) })
			t.Cleanup(free)
			b.order(m, v1alpha1.OrderFreeze)
			if r := b.sourceSays(m, v1alpha1.SourceFailed); r.Reason != v1alpha1.MigrationReasonNoRoom || !strings.Contains(r.Message, tc.says) {
				t.Errorf("the source says %s: %s, want reason NoRoom and %s", r.Reason, r.Message, tc.says)
			}
			free()
			b.continues(m, pod)
		})
	}
}

func TestMissingImageIsFoundBeforeAnythingIsFrozen(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	const image = "localhost/only-here:1"
	if err := from.ImportOnlyHere(b.ctx(), image, "counter"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if output, err := from.Run(b.ctx(), "ctr", "-a", from.ContainerdSocket, "-n", "k8s.io", "images", "rm", "--sync", image); err != nil {
			t.Errorf("%v: %s", err, output)
		}
	})
	pod := b.pod("counter", from, image)
	m := b.migration(pod, v1alpha1.BackendContainerd)
	b.sourceSays(m, v1alpha1.SourcePrepared)
	b.reserve(m, pod, to)
	if r := b.targetSays(m, v1alpha1.TargetFailed); r.Reason != v1alpha1.MigrationReasonImageMissing {
		t.Errorf("the target says %s: %s, want reason ImageMissing", r.Reason, r.Message)
	}
	b.order(m, v1alpha1.OrderThaw)
	b.sourceSays(m, v1alpha1.SourceThawed)
}

// TestAgentsAreKilledAtEveryStep kills and restarts either agent at every step. The migration continues, and
// no value is lost.
func TestAgentsAreKilledAtEveryStep(t *testing.T) {
	for _, step := range []v1alpha1.SourceStep{v1alpha1.SourcePrepared, v1alpha1.SourceFrozen, v1alpha1.SourceDumped, v1alpha1.SourceShipped} {
		t.Run(string(step), func(t *testing.T) {
			b := newBench(t)
			from, to := b.Nodes[0], b.Nodes[1]
			pod := b.pod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "32"})
			b.counts(pod.Name, 3)
			m := b.prepare(pod, to, v1alpha1.BackendContainerd)
			if step == v1alpha1.SourcePrepared {
				b.restart(from)
				b.restart(to)
			}
			b.order(m, v1alpha1.OrderFreeze)
			if step != v1alpha1.SourcePrepared {
				b.reaches(m, step)
				b.restart(from)
				b.restart(to)
			}
			b.targetSays(m, v1alpha1.TargetStaged)
			b.sourceSays(m, v1alpha1.SourceShipped)
			moved := b.restored(m, to)
			if err := b.Delete(b.ctx(), pod, client.GracePeriodSeconds(600)); err != nil {
				t.Fatal(err)
			}
			b.order(m, v1alpha1.OrderKill)
			b.restart(from)
			b.sourceSays(m, v1alpha1.SourceKilled)
			b.order(m, v1alpha1.OrderClean)
			b.restart(from)
			b.restart(to)
			b.sourceSays(m, v1alpha1.SourceCleaned)
			b.targetSays(m, v1alpha1.TargetCleaned)
			if err := workload.CheckTicks(b.counts(moved.Name, 5), 1); err != nil {
				t.Error(err)
			}
			b.nothingLeft()
		})
	}
}

// reaches waits until the source has reached a step.
func (b *bench) reaches(m *v1alpha1.Migration, step v1alpha1.SourceStep) {
	b.Helper()
	way := map[v1alpha1.SourceStep]int{v1alpha1.SourcePrepared: 1, v1alpha1.SourceFrozen: 2, v1alpha1.SourceDumped: 3, v1alpha1.SourceShipped: 4}
	b.eventually("the source comes to "+string(step), func() error {
		if err := b.Get(b.ctx(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if r := m.Status.Source; r == nil || way[r.Step] < way[step] {
			return fmt.Errorf("it says %+v", r)
		}
		return nil
	})
}

func TestKilledAgentThawsWhenItIsOrdered(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod := b.pod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "32"})
	b.counts(pod.Name, 3)
	m := b.prepare(pod, to, v1alpha1.BackendContainerd)
	b.order(m, v1alpha1.OrderFreeze)
	b.reaches(m, v1alpha1.SourceFrozen)
	if err := b.Agents[from.Name].Kill(b.ctx()); err != nil {
		t.Fatal(err)
	}
	b.order(m, v1alpha1.OrderThaw)
	if err := b.Agents[from.Name].Start(); err != nil {
		t.Fatal(err)
	}
	b.continues(m, pod)
}

// TestAgentThatIsStoppedLetsContainersContinue checks that a stopped agent leaves no container frozen, and that
// its successor continues the migration: the DaemonSet may be updated or deleted.
func TestAgentThatIsStoppedLetsContainersContinue(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod := b.pod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "128"})
	b.counts(pod.Name, 3)
	m := b.prepare(pod, to, v1alpha1.BackendContainerd)
	b.order(m, v1alpha1.OrderFreeze)
	b.reaches(m, v1alpha1.SourceFrozen)
	if err := b.Agents[from.Name].Stop(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := b.Get(b.ctx(), client.ObjectKeyFromObject(m), m); err != nil {
		t.Fatal(err)
	}
	if r := m.Status.Target; r.Step == v1alpha1.TargetStaged {
		t.Fatal("the state was sent before the agent ended: give the counter more memory")
	}
	b.counts(pod.Name, 3) // no agent runs that would thaw it
	if err := b.Agents[from.Name].Start(); err != nil {
		t.Fatal(err)
	}
	b.targetSays(m, v1alpha1.TargetStaged)
	b.sourceSays(m, v1alpha1.SourceShipped)
	moved := b.restored(m, to)
	b.handOver(m, pod)
	if err := workload.CheckTicks(b.counts(moved.Name, 5), 1); err != nil {
		t.Error(err)
	}
}

// TestReadOnlyRootWithoutTmpIsRefusedWhileThePodRuns uses an image that has only the program: CRIU could not
// restore it.
func TestReadOnlyRootWithoutTmpIsRefusedWhileThePodRuns(t *testing.T) {
	b := newBench(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "read-only", Namespace: b.namespace},
		Spec: corev1.PodSpec{
			NodeName: b.Nodes[0].Name, RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To[int64](1), AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{
				Name: "main", Image: cluster.Images["counter"], ImagePullPolicy: corev1.PullNever,
				SecurityContext: &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)},
			}},
		},
	}
	b.make(pod)
	b.counts(b.runs(pod).Name, 3)
	m := b.migration(pod, v1alpha1.BackendContainerd)
	if r := b.sourceSays(m, v1alpha1.SourceFailed); r.Reason != v1alpha1.MigrationReasonNotSupported || !strings.Contains(r.Message, "/tmp") {
		t.Errorf("the source says %s: %s, want reason NotSupported and what to do about /tmp", r.Reason, r.Message)
	}
	if err := workload.CheckTicks(b.counts(pod.Name, 3), 1); err != nil {
		t.Error(err)
	}
	b.order(m, v1alpha1.OrderThaw)
	b.sourceSays(m, v1alpha1.SourceThawed)
}

func TestContainerOfADeletedMigrationContinuesWhenTheNewPodIsGone(t *testing.T) {
	b := newBench(t)
	pod := b.pod("counter", b.Nodes[0], cluster.Images["counter"])
	b.counts(pod.Name, 3)
	m := b.prepare(pod, b.Nodes[1], v1alpha1.BackendContainerd)
	b.order(m, v1alpha1.OrderFreeze)
	b.targetSays(m, v1alpha1.TargetStaged)
	b.sourceSays(m, v1alpha1.SourceShipped)
	moved := b.restored(m, b.Nodes[1])
	b.counts(moved.Name, 3)
	if err := b.Delete(b.ctx(), m); err != nil {
		t.Fatal(err)
	}
	b.targetLeft(m, b.Nodes[1])
	before := len(b.ticks(pod.Name))
	b.counts(moved.Name, 30)
	if got := len(b.ticks(pod.Name)); got > before {
		t.Errorf("the old container has printed %d values beside the new one", got-before)
	}
	// What the descheduler does with the new pod of a Migration that is gone.
	if err := b.Delete(b.ctx(), moved, client.GracePeriodSeconds(1)); err != nil {
		t.Fatal(err)
	}
	if err := workload.CheckTicks(b.counts(pod.Name, 3), 1); err != nil {
		t.Error(err)
	}
	b.nothingLeft()
}

// targetLeft waits until the agent of the target has noticed that a Migration is gone.
func (b *bench) targetLeft(m *v1alpha1.Migration, node *cluster.Node) {
	b.Helper()
	b.eventually("the checkpoint is removed", func() error {
		left, err := filepath.Glob(filepath.Join(node.Dir, "agent/staged", "*"+string(m.UID)+"*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("left: %q", left)
		}
		return err
	})
}

func TestContainerdIsKilledWhileTheCheckpointWaits(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod := b.pod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "16"})
	b.counts(pod.Name, 3)
	m := b.prepare(pod, to, v1alpha1.BackendContainerd)
	b.order(m, v1alpha1.OrderFreeze)
	b.targetSays(m, v1alpha1.TargetStaged)
	b.sourceSays(m, v1alpha1.SourceShipped)
	for _, n := range b.Nodes {
		if err := n.KillContainerd(b.ctx()); err != nil {
			t.Fatal(err)
		}
		if err := n.StartContainerd(b.ctx()); err != nil {
			t.Fatal(err)
		}
	}
	moved := b.restored(m, to)
	b.handOver(m, pod)
	if err := workload.CheckTicks(b.counts(moved.Name, 3), 1); err != nil {
		t.Error(err)
	}
}
