package fleet

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// deletedAt is the annotation that holds the end of the grace period of a model's pod: the fake client would use the
// real clock.
const deletedAt = "deleted-at"

// deletes makes pods with the annotation appear as being deleted.
func (m *model) deletes() {
	c := interceptor.NewClient(m.r.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pods, is := list.(*corev1.PodList); is {
				for i := range pods.Items {
					if at, err := time.Parse(time.RFC3339, pods.Items[i].Annotations[deletedAt]); err == nil {
						pods.Items[i].DeletionTimestamp = new(metav1.NewTime(at))
					}
				}
			}
			return err
		},
	})
	m.r.Client, m.r.Live = c, c
}

// remove deletes a pod whose grace period ends after the given time.
func (m *model) remove(name string, grace time.Duration) {
	pod := &corev1.Pod{}
	m.must(m.client.Get(m.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, pod))
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, deletedAt, m.clock.Now().Add(grace).Format(time.RFC3339))
	m.must(m.client.Update(m.t.Context(), pod))
}

// setReady changes the condition of a node.
func (m *model) setReady(name string, is corev1.ConditionStatus) {
	node := m.nodes()[name]
	node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = is, metav1.NewTime(m.clock.Now())
	m.must(m.client.Status().Update(m.t.Context(), node))
}

// died has one machine with two pods, whose node has just become unready.
func died(t *testing.T) *model {
	t.Helper()
	m := newModel(t, alone(nil), smalls())
	m.deletes()
	m.add(testPod("a", 1500, 1024, 10*time.Hour), testPod("b", 1500, 1024, 0))
	m.run(5*minute, "f")
	m.setReady("node-m01", corev1.ConditionUnknown)
	return m
}

func (m *model) there() bool { return len(m.machines) > 0 && m.machines[0].Name == "m01" }

// TestAMachineWithADeadNodeIsAbandonedOnceItsPodsAreBeingDeleted deletes its pods one after the other.
func TestAMachineWithADeadNodeIsAbandonedOnceItsPodsAreBeingDeleted(t *testing.T) {
	m := died(t)
	said := events.NewFakeRecorder(1000)
	m.r.Events = said
	m.run(time.Hour, "f")
	if !m.there() {
		t.Fatal("it is abandoned while pods may run on it")
	}
	m.checkCondition(v1alpha1.FleetDegraded, "True NodesNotReady")
	m.remove("a", 30*second)
	m.run(20*minute, "f")
	if !m.there() {
		t.Fatal("it is abandoned while a pod may run on it")
	}
	m.remove("b", 20*minute)
	m.run(19*minute, "f")
	if !m.there() {
		t.Fatal("it is abandoned while the grace period of a pod continues")
	}
	m.run(2*minute, "f")
	if m.there() || strings.Join(m.killed, " ") != "a b" {
		t.Errorf("it is there: %v; lost %v\n%s", m.there(), m.killed, strings.Join(m.log, "\n"))
	}
	close(said.Events)
	var all []string
	for e := range said.Events {
		all = append(all, e)
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{
		"NodesNotReady 1 machine is kept and billed although its node is not ready: node node-m01 is not ready, and pod default/a on it is not being deleted",
		"node node-m01 is not ready, and pod default/b on it is not being deleted",
		"node node-m01 has not been ready since 2026-01-01T00:05", "and the grace periods of the 2 terminating pods on it are over",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no Event says %q:\n%s", want, text)
		}
	}
}

func TestAMachineWithADeadNodeIsAbandonedNotBeforeOneThatDoesNotCome(t *testing.T) {
	m := died(t)
	m.remove("a", 0)
	m.remove("b", 0)
	m.run(9*minute, "f") // joinTimeout is 10 minutes
	if !m.there() {
		t.Fatal("it is abandoned early")
	}
	m.run(2*minute, "f")
	if m.there() {
		t.Error("it is kept")
	}
}

func TestPodsOfADaemonSetKeepNoDeadNode(t *testing.T) {
	m := died(t)
	for _, name := range []string{"a", "b"} {
		m.must(m.client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
	}
	daemon := testPod("daemon", 100, 100, 0)
	daemon.OwnerReferences[0].Kind = "DaemonSet"
	daemon.Spec.NodeName, daemon.Status.Phase = "node-m01", corev1.PodRunning
	m.must(m.client.Create(t.Context(), daemon))
	m.run(12*minute, "f")
	if m.there() {
		t.Error("it is kept")
	}
}

// TestANodeThatComesBackToLifeKeepsItsMachineWhilePodsAreOnIt has a node that is already cordoned, and that only the
// last read shows to be ready.
func TestANodeThatComesBackToLifeKeepsItsMachineWhilePodsAreOnIt(t *testing.T) {
	for _, stale := range []bool{false, true} {
		m := died(t)
		m.remove("a", 0)
		m.remove("b", 0)
		for range 100 {
			if m.nodes()["node-m01"].Spec.Unschedulable {
				break
			}
			m.run(10*second, "f")
		}
		if stale { // in the cache, but not on the API server
			old := m.nodes()["node-m01"]
			m.r.Client = interceptor.NewClient(m.r.Client.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					err := c.List(ctx, list, opts...)
					if nodes, is := list.(*corev1.NodeList); is {
						nodes.Items = []corev1.Node{*old}
					}
					return err
				},
			})
		}
		m.setReady("node-m01", corev1.ConditionTrue)
		m.run(4*minute, "f")
		if !m.there() {
			t.Errorf("stale %t: its machine is released with the pods on it, of which it can say whether they run", stale)
		}
	}
}
