package fleet

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/events"

	"supercargo.dev/supercargo/api/v1alpha1"
)

// onDisks has nodes with the given ephemeral storage. A pod that requests 15Gi runs on one of them, and another pod that
// requests some finds no room there. It returns the Events of four minutes. The scheduler of the model ignores disks, so it does not run meanwhile.
func onDisks(t *testing.T, of, requests string) (m *model, said []string) {
	t.Helper()
	m = newModel(t, alone(nil), smalls())
	recorder := events.NewFakeRecorder(10_000)
	m.r.Events = recorder
	asks := func(p *corev1.Pod, amount string) *corev1.Pod {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse(amount)
		return p
	}
	m.add(asks(testPod("first", 1000, 1024, 10*time.Hour), "15Gi"))
	m.run(3*minute, "f")
	p := waitingPod(asks(testPod("p", 1000, 1024, time.Hour), requests))
	m.must(m.client.Create(t.Context(), p))
	m.must(m.client.Status().Update(t.Context(), p))
	for range 8 {
		for _, node := range m.nodes() {
			node.Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse(of)
			m.must(m.client.Status().Update(t.Context(), node))
		}
		m.round("f")
		m.clock.SetTime(m.clock.Now().Add(30 * second))
	}
	close(recorder.Events)
	for e := range recorder.Events {
		said = append(said, e)
	}
	return m, said
}

func TestAPodThatNoMachineHasEphemeralStorageForIsTold(t *testing.T) {
	m, said := onDisks(t, "20Gi", "25Gi")
	if m.flavor("small").Want != 1 {
		t.Errorf("%d machines are wanted, want the one that is there", m.flavor("small").Want)
	}
	m.checkCondition(v1alpha1.FleetDegraded, "True PodsDoNotFit")
	const why = "insufficient ephemeral-storage: it needs 25Gi of 20Gi that are free"
	for _, reason := range []string{"PodDoesNotFit pod default/p: ", "NoMachineFits default/p: "} {
		told := false
		for _, e := range said {
			told = told || strings.Contains(e, reason) && strings.Contains(e, why)
		}
		if !told {
			t.Errorf("no Event says %s%s:\n%s", reason, why, strings.Join(said[:min(len(said), 5)], "\n"))
		}
	}
}

func TestAMachineIsBoughtForAPodThatAFullDiskRefuses(t *testing.T) {
	m, said := onDisks(t, "20Gi", "10Gi")
	if m.flavor("small").Want != 2 {
		t.Errorf("%d machines are wanted, want another one:\n%s", m.flavor("small").Want, strings.Join(said[:min(len(said), 5)], "\n"))
	}
	m.checkCondition(v1alpha1.FleetDegraded, "False MachinesReady")
}

// TestAnUnderUsedNodeIsEmptiedIfOthersHaveWhatItsPodTakes has a pod of a service with ephemeral storage and a volume, which
// would find its CPU and memory on the other node. A pod there has as much.
func TestAnUnderUsedNodeIsEmptiedIfOthersHaveWhatItsPodTakes(t *testing.T) {
	for name, tc := range map[string]struct {
		disk   string // ephemeral storage of each node
		most   int32  // volumes of each node
		leaves bool
	}{
		"enough for both":              {disk: "20Gi", most: 2, leaves: true},
		"too little ephemeral storage": {disk: "19Gi", most: 2},
		"one volume on each node":      {disk: "20Gi", most: 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, alone(nil), smalls())
			pods := podsOfAnUnderUsedNode()[1:]
			pods = append(pods, testPod("web", 1000, 1024, 0))
			for _, p := range pods[1:] {
				m.withVolume(p).Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = resource.MustParse("10Gi")
			}
			m.add(pods...)
			m.run(90*second, "f") // pod early runs for another half a minute
			for _, node := range m.nodes() {
				node.Status.Allocatable[corev1.ResourceEphemeralStorage] = resource.MustParse(tc.disk)
				m.must(m.client.Status().Update(t.Context(), node))
			}
			m.attach(tc.most)
			m.run(14*minute, "f")
			if evicted := m.did("eviction of web"); evicted != tc.leaves {
				t.Errorf("it was evicted: %t\n%s", evicted, strings.Join(m.log, "\n"))
			}
		})
	}
}
