//go:build nodes

package agent

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// TestContainerContinuesAfterContainerdWasKilledWhileItWasFrozen rolls a move back after containerd has read the
// states of all containers again, and the kubelet has read them from it.
func TestContainerContinuesAfterContainerdWasKilledWhileItWasFrozen(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod, m := b.shipped(from, to)
	if err := from.KillContainerd(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := from.StartContainerd(b.ctx()); err != nil {
		t.Fatal(err)
	}
	b.syncs(pod, from)
	b.same(pod)
	b.continues(m, pod)
	b.same(pod)
}

// TestContainerContinuesAfterItWasFrozenForTwoMinutes has its liveness probe fail for two minutes, during which its
// kubelet syncs it, and containerd restarted before.
func TestContainerContinuesAfterItWasFrozenForTwoMinutes(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod := b.newPod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "LISTEN", Value: ":8080"})
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}},
		// CRIU does not dump a connection of a probe that is not accepted yet, and the kubelet reports only ten failures
		// in a row.
		InitialDelaySeconds: 30, PeriodSeconds: 15, TimeoutSeconds: 1, FailureThreshold: 37,
	}
	b.make(pod)
	b.runs(pod)
	b.counts(pod.Name, 3)
	m := b.prepare(pod, to, v1alpha1.BackendContainerd)
	b.order(m, v1alpha1.OrderFreeze)
	b.targetSays(m, v1alpha1.TargetStaged)
	b.sourceSays(m, v1alpha1.SourceShipped)
	if err := from.KillContainerd(b.ctx()); err != nil {
		t.Fatal(err)
	}
	if err := from.StartContainerd(b.ctx()); err != nil {
		t.Fatal(err)
	}
	b.syncs(pod, from)
	b.eventually("probes have failed for two minutes", func() error {
		var events corev1.EventList
		if err := b.List(b.ctx(), &events, client.InNamespace(b.namespace)); err != nil {
			return err
		}
		var first, last time.Time
		for _, e := range events.Items {
			if e.Reason != "Unhealthy" || e.InvolvedObject.Name != pod.Name {
				continue
			}
			if first.IsZero() || e.FirstTimestamp.Time.Before(first) {
				first = e.FirstTimestamp.Time
			}
			if e.LastTimestamp.After(last) {
				last = e.LastTimestamp.Time
			}
		}
		if last.Sub(first) < 2*time.Minute {
			return fmt.Errorf("they failed from %v to %v", first, last)
		}
		return nil
	})
	b.same(pod)
	b.continues(m, pod)
	b.same(pod)
}

// syncs has the kubelet of a node compare a pod with its containers, which it does for each change of the pod.
// Otherwise, it does so once a minute.
func (b *bench) syncs(pod *corev1.Pod, node *cluster.Node) {
	b.Helper()
	before := pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, "test/changed", "true")
	if err := b.Patch(b.ctx(), pod, client.MergeFrom(before)); err != nil {
		b.Fatal(err)
	}
	// A pod that is created later runs later.
	b.counts(b.pod("beside", node, cluster.Images["counter"]).Name, 30)
}

// same checks that a pod has the container that it had.
func (b *bench) same(pod *corev1.Pod) {
	b.Helper()
	now := &corev1.Pod{}
	if err := b.Get(b.ctx(), client.ObjectKeyFromObject(pod), now); err != nil {
		b.Fatal(err)
	}
	is, was := now.Status.ContainerStatuses[0], pod.Status.ContainerStatuses[0]
	if is.ContainerID != was.ContainerID || is.RestartCount != was.RestartCount || is.State.Running == nil {
		b.Errorf("the pod has container %+v, had %+v", is, was)
	}
}

// TestACRIUThatHangsDoesNotKeepItsContainerFrozen stops CRIU while it writes the memory of a container.
func TestACRIUThatHangsDoesNotKeepItsContainerFrozen(t *testing.T) {
	for _, tc := range []struct {
		name string
		then func(*bench, *v1alpha1.Migration, *cluster.Node)
	}{
		{"it is ended after a while", func(b *bench, m *v1alpha1.Migration, _ *cluster.Node) {
			if r := b.sourceSays(m, v1alpha1.SourceFailed); r.Reason != v1alpha1.MigrationReasonDumpFailed || !strings.Contains(r.Message, "written nothing") {
				b.Errorf("the source says %s: %s, want reason DumpFailed and that CRIU has written nothing", r.Reason, r.Message)
			}
		}},
		{"the move is cancelled", func(*bench, *v1alpha1.Migration, *cluster.Node) {}},
		{"the agent is killed and the move is cancelled", func(b *bench, m *v1alpha1.Migration, from *cluster.Node) {
			if err := b.Agents[from.Name].Kill(b.ctx()); err != nil {
				b.Fatal(err)
			}
			b.order(m, v1alpha1.OrderThaw)
			if err := b.Agents[from.Name].Start(); err != nil {
				b.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			from, to := b.Nodes[0], b.Nodes[1]
			pod := b.pod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "256"})
			b.counts(pod.Name, 3)
			m := b.prepare(pod, to, v1alpha1.BackendContainerd)
			b.hang(m, from)
			tc.then(b, m, from)
			b.continues(m, pod)
			b.same(pod)
		})
	}
}

func TestAnAgentThatIsKilledWhileCRIUHangsTakesTheStateAgain(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod := b.pod("counter", from, cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "256"})
	b.counts(pod.Name, 3)
	m := b.prepare(pod, to, v1alpha1.BackendContainerd)
	b.hang(m, from)
	b.restart(from)
	b.targetSays(m, v1alpha1.TargetStaged)
	b.sourceSays(m, v1alpha1.SourceShipped)
	moved := b.restored(m, to)
	b.handOver(m, pod)
	if err := workload.CheckTicks(b.counts(moved.Name, 3), 1); err != nil {
		t.Error(err)
	}
}

// hang orders a freeze, and stops CRIU once it writes memory.
func (b *bench) hang(m *v1alpha1.Migration, node *cluster.Node) {
	b.Helper()
	b.order(m, v1alpha1.OrderFreeze)
	b.run(node, `until set -- `+filepath.Join(node.Dir, "agent-work", "*", "checkpoint", "pages-*.img")+` && [ -e "$1" ]; do sleep 0.01; done
		stopped=1
		for p in /proc/[0-9]*; do
			[ "$(cat $p/comm 2>/dev/null)" != criu ] || { kill -STOP ${p#/proc/} && stopped=0; }
		done
		exit $stopped`)
}
