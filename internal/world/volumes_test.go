package world

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

func inZone(zones ...string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: zones},
	}}
}

func claim(class, volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeName: volume}}
}

func storageClass(mode storagev1.VolumeBindingMode, provisioner string, zones ...string) *storagev1.StorageClass {
	c := &storagev1.StorageClass{VolumeBindingMode: &mode, Provisioner: provisioner}
	if len(zones) > 0 {
		c.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: corev1.LabelTopologyZone, Values: zones},
		}}}
	}
	return c
}

func disk(terms ...corev1.NodeSelectorTerm) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{}
	if len(terms) > 0 {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
	}
	return v
}

// TestVolumesSayWhichZonesAPodMayRunIn checks each settled pod on machines in three zones.
func TestVolumesSayWhichZonesAPodMayRunIn(t *testing.T) {
	v := &volumes{
		claims: map[string]*corev1.PersistentVolumeClaim{
			"ns/anywhere": claim("late", ""), "ns/in-b-or-c": claim("late-bc", ""), "ns/at-once": claim("now", ""), "ns/local": claim("local", ""),
			"ns/no-class": claim("none", ""), "ns/bound-a": claim("now", "disk-a"), "ns/bound-ab": claim("now", "disk-ab"),
			"ns/network": claim("now", "nfs"), "ns/lost": claim("now", "gone"), "ns/p-scratch": claim("late-bc", ""),
		},
		volumes: map[string]*corev1.PersistentVolume{"disk-a": disk(inZone("a")), "disk-ab": disk(inZone("a"), inZone("b")), "nfs": disk()},
		classes: map[string]*storagev1.StorageClass{
			"late": storageClass(storagev1.VolumeBindingWaitForFirstConsumer, "csi"), "now": storageClass(storagev1.VolumeBindingImmediate, "csi"),
			"late-bc": storageClass(storagev1.VolumeBindingWaitForFirstConsumer, "csi", "b", "c"),
			"local":   storageClass(storagev1.VolumeBindingWaitForFirstConsumer, "kubernetes.io/no-provisioner"),
		},
	}
	tests := []struct {
		name    string
		claims  string // of the pod, comma-separated
		own     []corev1.NodeSelectorTerm
		ask     string // an ephemeral volume with that name
		zones   string
		because string
	}{
		{name: "no volume", zones: "abc"},
		{name: "one that is made where the pod goes", claims: "anywhere", zones: "abc"},
		{name: "one that is made in some zones", claims: "in-b-or-c", zones: "bc"},
		{name: "one that is in a zone", claims: "bound-a", zones: "a"},
		{name: "one that can be reached from two", claims: "bound-ab", zones: "ab"},
		{name: "one that can be reached from everywhere", claims: "network", zones: "abc"},
		{name: "two must both be reached", claims: "bound-ab,in-b-or-c", zones: "b"},
		{name: "two that cannot both be reached", claims: "bound-a,in-b-or-c", zones: ""},
		{name: "what the pod demands itself holds too", claims: "bound-ab", own: []corev1.NodeSelectorTerm{inZone("b"), inZone("c")}, zones: "b"},
		{name: "a term that no node meets stays so", claims: "bound-ab", own: []corev1.NodeSelectorTerm{{}}, zones: ""},
		{name: "an ephemeral volume has a claim of its own", ask: "scratch", zones: "bc"},
		{name: "one that is going to be bound without checking the pod", claims: "at-once", because: "volume claim at-once is not bound yet"},
		{name: "one of an unknown class", claims: "no-class", because: "volume claim no-class is not bound yet"},
		{name: "a local one", claims: "local", because: "volume claim local requires a volume that no provisioner creates, and a new machine may have none"},
		{name: "one that is not there", claims: "typo", because: "volume claim typo does not exist"},
		{name: "one whose volume is not there", claims: "lost", because: "volume gone of claim lost does not exist"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			if tc.own != nil {
				pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: tc.own},
				}}
			}
			for name := range strings.SplitSeq(tc.claims, ",") {
				if name != "" {
					source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
					pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
				}
			}
			if tc.ask != "" {
				pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: tc.ask, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
			}
			before := pod.DeepCopy()
			settled, because := v.settle(pod)
			if because != tc.because {
				t.Fatalf("held because of %q, want %q", because, tc.because)
			}
			if pod.String() != before.String() {
				t.Error("the pod was changed")
			}
			if because != "" {
				return
			}
			if left := constraint.Unsupported(settled); left != "" {
				t.Errorf("what is left: %s", left)
			}
			compiled, err := constraint.NewCompiler(nil).Compile(settled)
			if err != nil {
				t.Fatal(err)
			}
			zones := ""
			for _, zone := range []string{"a", "b", "c"} {
				if compiled.Admits(&constraint.Host{Labels: map[string]string{corev1.LabelTopologyZone: zone}}) == "" {
					zones += zone
				}
			}
			if zones != tc.zones {
				t.Errorf("may run in zones %q, want %q", zones, tc.zones)
			}
		})
	}
}
