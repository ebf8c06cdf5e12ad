package constraint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/test/fixtures"
)

func TestUnsupportedNamesWhatIsNotSeen(t *testing.T) {
	volumes := func(sources ...corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for i, s := range sources {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v" + string(rune('0'+i)), VolumeSource: s})
			}
		}
	}
	tests := []struct {
		name string
		has  func(*corev1.Pod)
		want string
	}{
		{"nothing", func(*corev1.Pod) {}, ""},
		{"demands that are seen", awayFrom("web", zone), ""},
		{"a gate", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}} }, "scheduling gate example.com/quota"},
		{"a claim", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, "resource claim gpu"},
		{"a gang", fixtures.Gang("train"), "gang train"},
		{"volumes that any node can mount", volumes(
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}},
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}},
			corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}},
			corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}, corev1.VolumeSource{Image: &corev1.ImageVolumeSource{}},
			corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}},
		), ""},
		{"a claim to a volume", volumes(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pg-0"}}),
			"volume v1 (persistentVolumeClaim pg-0)"},
		{"a claim made with the pod", volumes(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), "volume v0 (ephemeral)"},
		{"a disk in the pod", volumes(corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}), "volume v0 (unknown type)"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := constraint.Unsupported(pod("web", tc.has)); got != tc.want {
				t.Errorf("Unsupported = %q, want %q", got, tc.want)
			}
		})
	}
}
