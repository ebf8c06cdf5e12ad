package fleet

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
)

// withVolume gives a pod a volume of its own.
func (m *model) withVolume(p *corev1.Pod) *corev1.Pod {
	m.t.Helper()
	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-" + p.Name}}
	disk.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	disk.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: p.Name}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	claim.Spec.VolumeName = disk.Name
	m.must(m.client.Create(m.t.Context(), disk))
	m.must(m.client.Create(m.t.Context(), claim))
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name},
	}})
	return p
}

// attach lets each node attach a number of volumes.
func (m *model) attach(count int32) {
	m.t.Helper()
	for _, node := range m.nodes() {
		of := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: "disk.example.com", NodeID: node.Name, Allocatable: &storagev1.VolumeNodeResources{Count: &count},
		}}}}
		m.must(m.client.Create(m.t.Context(), of))
	}
}

// TestMachinesAreBoughtForVolumesThatNodesCannotAttach has a node with one volume, on which further pods would find their CPU
// and memory. The scheduler of the model ignores volumes, so it does not run meanwhile.
func TestMachinesAreBoughtForVolumesThatNodesCannotAttach(t *testing.T) {
	for name, tc := range map[string]struct {
		most    int32 // of each node; 0: nodes say nothing
		waiting int
		want    int // machines of the flavor
	}{
		"the node can attach no more":            {most: 1, waiting: 1, want: 2},
		"it can attach one more":                 {most: 2, waiting: 1, want: 1},
		"it can attach one more of two":          {most: 2, waiting: 2, want: 2},
		"new machines can attach two each":       {most: 2, waiting: 4, want: 3},
		"nobody knows how many":                  {waiting: 2, want: 1},
		"no more than what CPU and memory allow": {most: 9, waiting: 2, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, alone(nil), smalls())
			m.add(m.withVolume(testPod("first", 500, 512, 10*time.Hour)))
			m.run(3*minute, "f")
			if tc.most > 0 {
				m.attach(tc.most)
			}
			for i := range tc.waiting {
				p := waitingPod(m.withVolume(testPod(fmt.Sprint("p-", i), 500, 512, time.Hour)))
				m.must(m.client.Create(t.Context(), p))
				m.must(m.client.Status().Update(t.Context(), p))
			}
			for range 3 {
				m.round("f")
				m.clock.SetTime(m.clock.Now().Add(second))
			}
			if got := m.flavor("small").Want; got != tc.want {
				t.Errorf("%d machines are wanted, want %d", got, tc.want)
			}
			m.checkCondition(v1alpha1.FleetDegraded, "False MachinesReady")
		})
	}
}

// TestAFlavorWithoutNodesAttachesWhatItsInstanceTypeDoes has two flavors of an instance type, in two MachineDeployments, of
// which only the one that is sold out has a node.
func TestAFlavorWithoutNodesAttachesWhatItsInstanceTypeDoes(t *testing.T) {
	old, next := modelFlavor("old", 4, 16, 100_000), modelFlavor("next", 4, 16, 110_000)
	old.Max = 1
	for _, f := range []*provider.Flavor{&old, &next} {
		f.Labels = map[string]string{corev1.LabelArchStable: "amd64", corev1.LabelInstanceTypeStable: "m"}
	}
	m := newModel(t, alone(nil), []provider.Flavor{next, old})
	m.add(m.withVolume(testPod("first", 500, 512, 10*time.Hour)))
	m.run(3*minute, "f")
	for _, node := range m.nodes() {
		node.Labels[corev1.LabelInstanceTypeStable] = "m"
		m.must(m.client.Update(t.Context(), node))
	}
	m.attach(1)
	for i := range 2 {
		p := waitingPod(m.withVolume(testPod(fmt.Sprint("p-", i), 500, 512, time.Hour)))
		m.must(m.client.Create(t.Context(), p))
		m.must(m.client.Status().Update(t.Context(), p))
	}
	for range 3 {
		m.round("f")
		m.clock.SetTime(m.clock.Now().Add(second))
	}
	if m.flavor("old").Want != 1 || m.flavor("next").Want != 2 {
		t.Errorf("%d and %d machines are wanted, want 1 and one for each of two volumes", m.flavor("old").Want, m.flavor("next").Want)
	}
}
