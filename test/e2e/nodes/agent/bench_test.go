//go:build nodes

package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/descheduler/migration/podedit"
	"supercargo.dev/supercargo/test/e2e/nodes/cluster"
	"supercargo.dev/supercargo/test/e2e/nodes/fleet"
	"supercargo.dev/supercargo/test/e2e/nodes/workload"
)

// bench is the fleet as used by one test, with its own namespace.
type bench struct {
	*fleet.Fleet
	client.Client
	*testing.T
	namespace string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	f := shared.Get(t)
	b := &bench{Fleet: f, Client: f.Objects, T: t}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-"}}
	b.make(namespace)
	b.namespace = namespace.Name
	b.eventually("pods can be made", func() error {
		return b.Get(b.ctx(), client.ObjectKey{Namespace: b.namespace, Name: "default"}, &corev1.ServiceAccount{})
	})
	t.Cleanup(func() {
		if t.Failed() {
			b.KeepLogs(t, t.Name())
		}
		b.removeAll()
	})
	return b
}

// ctx outlives the test's own context, which ends before its cleanup.
func (b *bench) ctx() context.Context { return context.WithoutCancel(b.Context()) }

// removeAll removes what the test has created, and waits until the agents have no state of it.
func (b *bench) removeAll() {
	b.Helper()
	in := client.InNamespace(b.namespace)
	if err := b.DeleteAllOf(b.ctx(), &v1alpha1.Migration{}, in); err != nil {
		b.Error(err)
	}
	for deadline := time.Now().Add(patience); ; {
		var pods corev1.PodList
		err := b.List(b.ctx(), &pods, in)
		if err == nil && len(pods.Items) == 0 {
			break
		}
		if err == nil {
			err = b.DeleteAllOf(b.ctx(), &corev1.Pod{}, in, client.GracePeriodSeconds(0))
		}
		if time.Now().After(deadline) {
			b.Errorf("pods are left: %v", err)
			return
		}
		<-time.After(poll)
	}
	b.nothingLeft()
}

func (b *bench) make(obj client.Object) {
	b.Helper()
	if err := b.Create(b.ctx(), obj); err != nil {
		b.Fatalf("make %T %s: %v", obj, obj.GetName(), err)
	}
}

// eventually waits until look returns nil.
func (b *bench) eventually(what string, check func() error) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%s: not after %v: %v", what, patience, err)
		}
		<-time.After(poll)
	}
}

// pod creates a pod with one container that runs a program of ours on a node.
func (b *bench) pod(name string, node *cluster.Node, image string, env ...corev1.EnvVar) *corev1.Pod {
	b.Helper()
	pod := b.newPod(name, node, image, env...)
	b.make(pod)
	return b.runs(pod)
}

// newPod is pod, before it is created.
func (b *bench) newPod(name string, node *cluster.Node, image string, env ...corev1.EnvVar) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: b.namespace},
		Spec: corev1.PodSpec{
			NodeName: node.Name, RestartPolicy: corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To[int64](1), AutomountServiceAccountToken: ptr.To(false),
			Containers: []corev1.Container{{
				Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Env: env,
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
			}},
		},
	}
}

// runs waits until a pod is running or has succeeded.
func (b *bench) runs(pod *corev1.Pod) *corev1.Pod {
	b.Helper()
	b.eventually("pod "+pod.Name+" runs", func() error {
		if err := b.Get(b.ctx(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %s: %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return nil
	})
	return pod
}

// ticks returns the values that a counter has printed.
func (b *bench) ticks(pod string) []workload.Tick {
	b.Helper()
	output, err := b.Cluster.Client().CoreV1().Pods(b.namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(b.ctx())
	if err != nil {
		b.Logf("read what %s printed: %v", pod, err)
		return nil
	}
	ticks, err := workload.ParseTicks(output)
	if err != nil {
		b.Fatalf("what %s printed: %v", pod, err)
	}
	return ticks
}

// counts waits until a counter has printed more values.
func (b *bench) counts(pod string, more int) []workload.Tick {
	b.Helper()
	before := len(b.ticks(pod))
	var ticks []workload.Tick
	b.eventually("counter "+pod+" continues", func() error {
		if ticks = b.ticks(pod); len(ticks) < before+more {
			return fmt.Errorf("it has printed %d values", len(ticks))
		}
		return nil
	})
	return ticks
}

// migration creates a Migration of a pod with a plan and order Prepare.
func (b *bench) migration(pod *corev1.Pod, backend v1alpha1.MigrationBackend) *v1alpha1.Migration {
	b.Helper()
	m := &v1alpha1.Migration{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, GenerateName: "move-"},
		Spec:       v1alpha1.MigrationSpec{PodName: pod.Name, Deadline: metav1.Duration{Duration: 5 * time.Minute}},
	}
	b.make(m)
	now := metav1.Now()
	b.write(m, func(s *v1alpha1.MigrationStatus) {
		s.Plan = &v1alpha1.MigrationPlan{
			StartedAt: now, DeadlineAt: metav1.NewTime(now.Add(5 * time.Minute)), SourceNode: pod.Spec.NodeName, PodUID: string(pod.UID), Container: "main",
			ContainerID: strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://"),
			BaseImage:   pod.Spec.Containers[0].Image, Backend: backend, RestoredPod: pod.Name + "-m",
		}
		s.Order = v1alpha1.OrderPrepare
	})
	return m
}

// write changes the status as its other writers do: only their own fields.
func (b *bench) write(m *v1alpha1.Migration, change func(*v1alpha1.MigrationStatus)) {
	b.Helper()
	before := m.DeepCopy()
	change(&m.Status)
	if err := b.Status().Patch(b.ctx(), m, client.MergeFrom(before)); err != nil {
		b.Fatalf("write the status of Migration %s: %v", m.Name, err)
	}
}

func (b *bench) order(m *v1alpha1.Migration, order v1alpha1.MigrationOrder) {
	b.Helper()
	b.write(m, func(s *v1alpha1.MigrationStatus) { s.Order = order })
}

// reserve creates the new pod, which is not bound yet, and reserves a node for it.
func (b *bench) reserve(m *v1alpha1.Migration, pod *corev1.Pod, node *cluster.Node) {
	b.Helper()
	moved := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: m.Status.Plan.RestoredPod, Namespace: b.namespace}, Spec: *pod.Spec.DeepCopy()}
	moved.Spec.NodeName, moved.Spec.SchedulerName = "", "nobody"
	moved.Spec.Containers[0].Command = []string{podedit.RestoredCommand}
	b.make(moved)
	b.write(m, func(s *v1alpha1.MigrationStatus) {
		s.Reservation = &v1alpha1.MigrationReservation{Node: node.Name, PodUID: string(moved.UID), Time: metav1.Now()}
	})
}

// sourceSays waits until the source has reported a step. It stops waiting if the source reports a failure,
// unless the migration has been cancelled since.
func (b *bench) sourceSays(m *v1alpha1.Migration, step v1alpha1.SourceStep) *v1alpha1.SourceReport {
	b.Helper()
	b.eventually("the source is "+string(step), func() error {
		if err := b.Get(b.ctx(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		r := m.Status.Source
		if r != nil && r.Step == v1alpha1.SourceFailed && step != r.Step && m.Status.Order != v1alpha1.OrderThaw {
			b.Fatalf("the source has failed: %s: %s", r.Reason, r.Message)
		}
		if r == nil || r.Step != step {
			return fmt.Errorf("it says %+v", r)
		}
		return nil
	})
	return m.Status.Source
}

// targetSays waits until the target has reported a step. It fails if the target reports a failure.
func (b *bench) targetSays(m *v1alpha1.Migration, step v1alpha1.TargetStep) *v1alpha1.TargetReport {
	b.Helper()
	b.eventually("the target is "+string(step), func() error {
		if err := b.Get(b.ctx(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		r := m.Status.Target
		if r != nil && r.Step == v1alpha1.TargetFailed && step != r.Step {
			b.Fatalf("the target has failed: %s: %s", r.Reason, r.Message)
		}
		if r == nil || r.Step != step {
			return fmt.Errorf("it says %+v", r)
		}
		return nil
	})
	return m.Status.Target
}

// prepare starts a migration and waits until both agents are prepared.
func (b *bench) prepare(pod *corev1.Pod, to *cluster.Node, backend v1alpha1.MigrationBackend) *v1alpha1.Migration {
	b.Helper()
	m := b.migration(pod, backend)
	b.sourceSays(m, v1alpha1.SourcePrepared)
	b.reserve(m, pod, to)
	b.targetSays(m, v1alpha1.TargetPrepared)
	return m
}

// restored binds the new pod of a migration, and waits until it runs.
func (b *bench) restored(m *v1alpha1.Migration, to *cluster.Node) *corev1.Pod {
	b.Helper()
	return b.runs(b.bind(m, to))
}

// bind binds the new pod of a migration.
func (b *bench) bind(m *v1alpha1.Migration, to *cluster.Node) *corev1.Pod {
	b.Helper()
	moved := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: m.Status.Plan.RestoredPod, Namespace: b.namespace}}
	binding := &corev1.Binding{ObjectMeta: moved.ObjectMeta, Target: corev1.ObjectReference{Kind: "Node", Name: to.Name}}
	if err := b.SubResource("binding").Create(b.ctx(), moved, binding); err != nil {
		b.Fatalf("bind pod %s: %v", moved.Name, err)
	}
	return moved
}

// handOver ends the old pod, and cleans up.
func (b *bench) handOver(m *v1alpha1.Migration, pod *corev1.Pod) {
	b.Helper()
	if err := b.Delete(b.ctx(), pod, client.GracePeriodSeconds(600)); err != nil {
		b.Fatal(err)
	}
	b.order(m, v1alpha1.OrderKill)
	b.sourceSays(m, v1alpha1.SourceKilled)
	b.order(m, v1alpha1.OrderClean)
	b.sourceSays(m, v1alpha1.SourceCleaned)
	b.targetSays(m, v1alpha1.TargetCleaned)
	b.eventually("the old pod is gone", func() error {
		err := b.Get(b.ctx(), client.ObjectKeyFromObject(pod), &corev1.Pod{})
		if client.IgnoreNotFound(err) == nil && err != nil {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
}

// move migrates a pod, and returns the new one.
func (b *bench) move(pod *corev1.Pod, to *cluster.Node, backend v1alpha1.MigrationBackend) *corev1.Pod {
	b.Helper()
	m := b.prepare(pod, to, backend)
	b.order(m, v1alpha1.OrderFreeze)
	b.targetSays(m, v1alpha1.TargetStaged)
	report := b.sourceSays(m, v1alpha1.SourceShipped)
	moved := b.restored(m, to)
	b.Logf("moved %d MiB to %s: dump %s s, ship %s s in %d tries, %d MiB on the wire", report.DumpBytes>>20, to.Name, report.DumpSeconds, report.ShipSeconds, report.ShipTries, report.ShipBytes>>20)
	b.handOver(m, pod)
	return moved
}

// nothingLeft waits until neither the agents nor containerd have any state of a migration.
func (b *bench) nothingLeft() {
	b.Helper()
	for _, n := range b.Nodes {
		b.eventually("nothing is left on "+n.Name, func() error {
			var left []string
			for _, pattern := range []string{"agent/ledger/*", "agent/staged/*", "agent-work/*", "restore/pods/*"} {
				files, err := filepath.Glob(filepath.Join(n.Dir, pattern))
				if err != nil {
					return err
				}
				left = append(left, files...)
			}
			for _, list := range [][]string{{"images", "ls", "-q"}, {"leases", "ls", "-q"}, {"snapshots", "ls"}} {
				output, err := n.Run(b.ctx(), "ctr", append([]string{"-a", n.ContainerdSocket, "-n", "k8s.io"}, list...)...)
				if err != nil {
					return err
				}
				for _, line := range strings.Split(string(output), "\n") {
					if strings.Contains(line, "supercargo") {
						left = append(left, line)
					}
				}
			}
			if len(left) > 0 {
				return fmt.Errorf("left: %q", left)
			}
			return nil
		})
	}
}
