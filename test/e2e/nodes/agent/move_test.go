//go:build nodes

package agent

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

func TestCounterLosesNoValueOverThreeHops(t *testing.T) {
	b := newBench(t)
	pod := b.pod("counter", b.Nodes[0], cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "16"})
	b.counts(pod.Name, 5)
	for _, to := range []*cluster.Node{b.Nodes[1], b.Nodes[0], b.Nodes[1]} {
		pod = b.move(pod, to, v1alpha1.BackendContainerd)
		// The output from the earlier nodes has moved with the container.
		ticks := b.counts(pod.Name, 5)
		if err := workload.CheckTicks(ticks, 1); err != nil {
			t.Fatalf("on %s: %v", to.Name, err)
		}
		if pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("the container was started %d times", pod.Status.ContainerStatuses[0].RestartCount)
		}
		pause, after := workload.LongestPause(ticks)
		t.Logf("on %s: the longest pause so far is %v, after value %d", to.Name, pause, after)
	}
}

// TestMemoryIsSentBeforeTheFreeze: nearly all of it, since the counter only changes its count; and the counter, which checks its
// memory with each tick, finds it as it was. On the way back, the agent of the new node starts again during the dump, and everything
// is sent after the freeze.
func TestMemoryIsSentBeforeTheFreeze(t *testing.T) {
	b := newBench(t)
	const mebibytes = 128
	pod := b.pod("counter", b.Nodes[0], cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: strconv.Itoa(mebibytes)})
	b.counts(pod.Name, 5)
	for _, hop := range []struct {
		from, to *cluster.Node
		dies     bool
	}{{b.Nodes[0], b.Nodes[1], false}, {b.Nodes[1], b.Nodes[0], true}} {
		m := b.prepare(pod, hop.to, v1alpha1.BackendContainerd)
		if hop.dies {
			b.hang(m, hop.from)
			b.restart(hop.to)
			b.run(hop.from, `for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" != criu ] || kill -CONT ${p#/proc/}; done`)
		} else {
			b.order(m, v1alpha1.OrderFreeze)
		}
		b.targetSays(m, v1alpha1.TargetStaged)
		report := b.sourceSays(m, v1alpha1.SourceShipped)
		t.Logf("of %d bytes, %d were sent after the freeze", report.DumpBytes, report.ShipBytes)
		if few := report.ShipBytes < report.DumpBytes/4; report.DumpBytes < mebibytes<<20 || few == hop.dies {
			t.Errorf("to %s, %d bytes of %d were sent after the freeze", hop.to.Name, report.ShipBytes, report.DumpBytes)
		}
		moved := b.restored(m, hop.to)
		b.handOver(m, pod)
		pod = moved
		if err := workload.CheckTicks(b.counts(pod.Name, 5), 1); err != nil {
			t.Fatalf("on %s: %v", hop.to.Name, err)
		}
	}
	b.nothingLeft()
}

func TestChainEndsWithTheRightHash(t *testing.T) {
	b := newBench(t)
	const steps = 150
	pod := b.pod("chain", b.Nodes[0], cluster.Images["chain"],
		corev1.EnvVar{Name: "INDEX", Value: "7"}, corev1.EnvVar{Name: "STEPS", Value: strconv.Itoa(steps)}, corev1.EnvVar{Name: "STEP_MS", Value: "100"})
	for _, to := range []*cluster.Node{b.Nodes[1], b.Nodes[0]} {
		pod = b.move(pod, to, v1alpha1.BackendContainerd)
	}
	b.eventually("the chain ends", func() error {
		if err := b.Get(b.ctx(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	output, err := b.Cluster.Client().CoreV1().Pods(b.namespace).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(b.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := workload.LastLine(output), workload.ChainResult(7, steps); got != want {
		t.Errorf("the chain ends with %q, want %q: a step was lost or done twice", got, want)
	}
}

// root returns the path at which a node sees the root file system of a pod's container.
func (b *bench) root(n *cluster.Node, pod *corev1.Pod) string {
	b.Helper()
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	output, err := n.Run(b.ctx(), "ctr", "-a", n.ContainerdSocket, "-n", "k8s.io", "tasks", "ls")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == id {
			return "/proc/" + fields[1] + "/root"
		}
	}
	b.Fatalf("container %s has no task: %s", id, output)
	return ""
}

func TestFilesComeAlong(t *testing.T) {
	b := newBench(t)
	from, to := b.Nodes[0], b.Nodes[1]
	pod := b.pod("counter", from, cluster.Images["counter"])
	root := b.root(from, pod)
	if output, err := from.Run(b.ctx(), "sh", "-c", "mkdir "+root+"/data && echo kept >"+root+"/data/file && ln -s file "+root+"/data/link && chmod 640 "+root+"/data/file"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	moved := b.move(pod, to, v1alpha1.BackendContainerd)
	root = b.root(to, moved)
	output, err := to.Run(b.ctx(), "sh", "-c", "cat "+root+"/data/link && stat -c %a "+root+"/data/file")
	if err != nil || string(output) != "kept\n640\n" {
		t.Errorf("on the new node there is %q (%v)", output, err)
	}
}

func TestAgentStaysSmall(t *testing.T) {
	const limit = 64 << 20
	b := newBench(t)
	pod := b.pod("counter", b.Nodes[0], cluster.Images["counter"], corev1.EnvVar{Name: "MB", Value: "1024"})
	b.counts(pod.Name, 3)
	for _, n := range b.Nodes { // so that objects of other tests do not count
		b.restart(n)
	}
	moved := b.move(pod, b.Nodes[1], v1alpha1.BackendContainerd)
	if err := workload.CheckTicks(b.counts(moved.Name, 3), 1); err != nil {
		t.Error(err)
	}
	for _, n := range b.Nodes {
		peak, err := b.AgentPeak(b.ctx(), n)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("the agent of %s has used %d MiB at most", n.Name, peak>>20)
		if peak > limit {
			t.Errorf("the agent of %s has used %d bytes of memory for a move of 1 GiB, want at most %d", n.Name, peak, limit)
		}
	}
}

// restart kills and restarts the agent of a node.
func (b *bench) restart(n *cluster.Node) {
	b.Helper()
	if err := b.Agents[n.Name].Restart(b.ctx()); err != nil {
		b.Fatal(err)
	}
}
