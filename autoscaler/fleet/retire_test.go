package fleet

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// releasing returns a fleet whose machines are released when it is deleted.
func releasing(name string) *v1alpha1.NodeFleet {
	f := fleetNamed(name)
	f.Spec.DeletionPolicy = v1alpha1.FleetDeletionRelease
	return f
}

// exists reports whether a fleet exists.
func (m *model) exists(fleet string) bool {
	err := m.client.Get(m.t.Context(), client.ObjectKey{Name: fleet}, &v1alpha1.NodeFleet{})
	if !apierrors.IsNotFound(err) {
		m.must(err)
	}
	return err == nil
}

// retire deletes a fleet, and runs its rounds until it is gone, for an hour at most.
func (m *model) retire(fleet string) {
	m.must(m.client.Delete(m.t.Context(), m.fleet(fleet)))
	for end := m.clock.Now().Add(time.Hour); m.exists(fleet) && m.clock.Now().Before(end); {
		m.pass(max(m.round(fleet), second))
	}
	m.round(fleet) // which forgets it
}

// restarting returns a pod of a Job that may be evicted.
func restarting(name string, cpu int64) *corev1.Pod {
	pod := testPod(name, cpu, 1024, time.Hour)
	pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
	return pod
}

// TestADeletedFleetKeepsOrReleasesItsMachines has a machine with a pod that may be evicted.
func TestADeletedFleetKeepsOrReleasesItsMachines(t *testing.T) {
	const released = "0 pods run, 0 wait, 0 have ended, lost []; small 0 of 0, at most 1; 1 were made, 0 nodes are cordoned"
	const kept = "1 pods run, 0 wait, 0 have ended, lost []; small 1 of 1, at most 1; 1 were made, 0 nodes are cordoned"
	for name, tc := range map[string]struct {
		change func(f *v1alpha1.NodeFleet)
		want   string
	}{
		"Release": {func(*v1alpha1.NodeFleet) {}, released},
		"Keep":    {func(f *v1alpha1.NodeFleet) { f.Spec.DeletionPolicy = v1alpha1.FleetDeletionKeep }, kept},
		"unset":   {func(f *v1alpha1.NodeFleet) { f.Spec.DeletionPolicy = "" }, kept},
		"Observe": {func(f *v1alpha1.NodeFleet) { f.Spec.Mode = v1alpha1.FleetObserve }, kept},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, []*v1alpha1.NodeFleet{releasing("f")}, smalls())
			m.add(restarting("p", 3000))
			m.run(5*minute, "f")
			f := m.fleet("f")
			tc.change(f)
			f.Generation++
			m.must(m.client.Update(t.Context(), f))
			m.run(second, "f")
			m.retire("f")
			m.checkOutcome(tc.want)
			if m.exists("f") {
				t.Error("the fleet exists")
			}
		})
	}
}

// TestADeletedFleetWaitsForPodsThatDoNotLeave has a pod of a Job that may not be evicted, and then may. Meanwhile the fleet
// says why it is left, buys nothing, and is gone at once if its policy becomes Keep.
func TestADeletedFleetWaitsForPodsThatDoNotLeave(t *testing.T) {
	for name, end := range map[string]func(m *model){
		"the pod may leave": func(m *model) {
			var pod corev1.Pod
			m.must(m.client.Get(m.t.Context(), client.ObjectKey{Namespace: "default", Name: "p"}, &pod))
			pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
			m.must(m.client.Update(m.t.Context(), &pod))
		},
		"the policy is Keep": func(m *model) {
			f := m.fleet("f")
			f.Spec.DeletionPolicy = v1alpha1.FleetDeletionKeep
			m.must(m.client.Update(m.t.Context(), f))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, []*v1alpha1.NodeFleet{releasing("f")}, smalls())
			pod := testPod("p", 3000, 1024, 0)
			pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationNever
			m.add(pod)
			m.run(5*minute, "f")
			m.must(m.client.Delete(t.Context(), m.fleet("f")))
			m.add(testPod("q", 3000, 1024, 0))
			m.run(5*minute, "f")
			c := meta.FindStatusCondition(m.fleet("f").Status.Conditions, v1alpha1.FleetReady)
			if c == nil || c.Reason != v1alpha1.FleetReasonReleasing || !strings.Contains(c.Message, "1 machine is left to release; node node-m01 has pod default/p, which does not leave: ") {
				t.Errorf("condition Ready is %+v", c)
			}
			if m.made != 1 {
				t.Errorf("%d machines were made", m.made)
			}
			end(m)
			for range 600 {
				if m.exists("f") {
					m.pass(max(m.round("f"), second))
				}
			}
			if m.exists("f") {
				t.Errorf("the fleet exists:\n%s", strings.Join(m.log, "\n"))
			}
		})
	}
}

// TestADeletedFleetReleasesMachinesOnOrder has one machine without a node, and one that is not made.
func TestADeletedFleetReleasesMachinesOnOrder(t *testing.T) {
	unmade, never := modelFlavor("unmade", 4, 16, 10_000), modelFlavor("never", 16, 64, 20_000)
	f := releasing("f")
	f.Spec.Scaling.JoinTimeout.Duration = time.Hour
	m := newModel(t, []*v1alpha1.NodeFleet{f}, append(smalls()[:0], unmade, never))
	m.add(testPod("p", 3000, 1024, time.Hour), testPod("q", 15_000, 1024, time.Hour))
	m.run(minute, "f")
	if m.flavor("unmade").Want != 1 || m.flavor("never").Want != 1 {
		t.Fatalf("the machines are not ordered: %s", m.outcome())
	}
	m.retire("f")
	m.checkOutcome("0 pods run, 2 wait, 0 have ended, lost []; unmade 0 of 0, at most 0; never 0 of 0, at most 1; 1 were made, 0 nodes are cordoned")
}
