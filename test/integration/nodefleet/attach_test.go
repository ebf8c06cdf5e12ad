package nodefleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const diskDriver = "disk.example.com"

// withVolume gives a pod a volume of its own, and waits until its claim is bound.
func (b *bench) withVolume(p *corev1.Pod) {
	b.Helper()
	name, size, none := p.Namespace+"-"+p.Name, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, ""
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	b.Make(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: p.Namespace, Name: p.Name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: diskDriver, VolumeHandle: name}},
	}})
	b.Make(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &none, VolumeName: name, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	})
	b.Eventually("claim "+p.Name+" is bound", func() string {
		var claim corev1.PersistentVolumeClaim
		if !b.Find(p.Name, &claim) {
			return "it is gone"
		}
		return cmp.Diff(corev1.ClaimBound, claim.Status.Phase)
	})
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Name},
	}}}
}

// attachingOne is what the kubelet of a node says that can attach one volume.
func attachingOne(node string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
		{Name: diskDriver, NodeID: node, Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(1))}},
	}}}
}

// TestAMachineIsBoughtForAVolumeThatNoNodeCanAttach has a node with CPU and memory for all pods, which can attach one volume.
// The scheduler refuses it for the second one.
func TestAMachineIsBoughtForAVolumeThatNoNodeCanAttach(t *testing.T) {
	t.Parallel()
	b := newBench(t, "attach")
	first, second := b.pod("first", "500m", "1Gi", b.withVolume), b.pod("second", "500m", "1Gi", b.withVolume)
	b.flavor("a", "4", "8Gi", "0.10", begins(1))
	old := b.named("a", 1)[0]
	b.Make(attachingOne(old))
	b.Make(first)
	b.Runs(1)
	b.Make(second)
	b.wait(1)
	b.fleet("all")
	b.autoscale()
	for _, node := range b.named("a", 2) {
		if node != old {
			b.Make(attachingOne(node)) // as its kubelet does; the scheduler then tries again
		}
	}
	b.Runs(2)
	b.becomes(map[string]int{"a": 2})
}
