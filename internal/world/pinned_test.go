package world

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/runtimes"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// requests sets the request of a pod for a resource.
func requests(name corev1.ResourceName, amount string) func(*World, *corev1.Pod) {
	return func(_ *World, pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(amount)}
	}
}

// mounts makes a pod mount a claim that is bound to a volume.
func mounts(change func(*corev1.PersistentVolumeSpec)) func(*World, *corev1.Pod) {
	return func(w *World, pod *corev1.Pod) {
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
		volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}
		change(&volume.Spec)
		w.volumes = volumes{
			claims: map[string]*corev1.PersistentVolumeClaim{"default/data": claim("fast", "disk")}, volumes: map[string]*corev1.PersistentVolume{"disk": volume},
		}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	}
}

func shared(spec *corev1.PersistentVolumeSpec) {
	spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
}

func TestAPodStaysThatNeedsMoreOfItsNodeThanPlansOfMovesCount(t *testing.T) {
	wait, evict := cluster.WaysOf(cluster.Wait), cluster.WaysOf(cluster.Evict)
	runs := func(next func(*World, *corev1.Pod)) func(*World, *corev1.Pod) {
		return func(w *World, pod *corev1.Pod) {
			pod.Annotations[v1alpha1.AnnotationRuntime] = "5m"
			next(w, pod)
		}
	}
	tests := []struct {
		name   string
		change func(*World, *corev1.Pod)
		want   cluster.Ways
		held   string
	}{
		{"CPU is counted", requests(corev1.ResourceCPU, "2"), evict, ""},
		{"memory is counted", requests(corev1.ResourceMemory, "2Gi"), evict, ""},
		{"a GPU", requests(gpu, "1"), 0, "it requests nvidia.com/gpu"},
		{"no GPU", requests(gpu, "0"), evict, ""},
		{"a GPU, and it ends by itself", runs(requests(gpu, "1")), wait, "it requests nvidia.com/gpu"},
		{"huge pages", requests("hugepages-2Mi", "4Mi"), 0, "it requests hugepages-2Mi"},
		{"space on the node's disk", requests(corev1.ResourceEphemeralStorage, "1Gi"), 0, "it requests ephemeral-storage"},
		{"devices by claims", func(_ *World, pod *corev1.Pod) {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "accelerator"}}
		}, 0, "resource claim accelerator"},
		{"a volume that is attached", mounts(func(*corev1.PersistentVolumeSpec) {}), 0, "volume disk of claim data"},
		{"a shared file system", mounts(shared), evict, ""},
		{"a shared block device", mounts(func(spec *corev1.PersistentVolumeSpec) {
			shared(spec)
			spec.VolumeMode = new(corev1.PersistentVolumeBlock)
		}), 0, "volume disk of claim data"},
		{"NFS, whatever it says", mounts(func(spec *corev1.PersistentVolumeSpec) {
			spec.CSI, spec.NFS = nil, &corev1.NFSVolumeSource{Server: "s", Path: "/"}
		}), evict, ""},
		{"a network file system for one node", mounts(func(spec *corev1.PersistentVolumeSpec) { spec.CSI.Driver = "efs.csi.aws.com" }), evict, ""},
		{"one of a cluster of Rook", mounts(func(spec *corev1.PersistentVolumeSpec) { spec.CSI.Driver = "rook-ceph.cephfs.csi.ceph.com" }), evict, ""},
		{"a block device of Ceph", mounts(func(spec *corev1.PersistentVolumeSpec) { spec.CSI.Driver = "rook-ceph.rbd.csi.ceph.com" }), 0, "volume disk of claim data"},
		{"a claim that is gone", func(w *World, pod *corev1.Pod) {
			mounts(shared)(w, pod)
			w.volumes.claims = nil
		}, 0, "volume claim data does not exist"},
		{"a kind of volume that is not known", func(_ *World, pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}}}
		}, 0, "volume v"},
		{"a directory of its own", func(_ *World, pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, evict, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w, pod := scene()
			pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
			tc.change(w, pod)
			v := NewView(w, noon, runtimes.NewLearner())
			got := v.Exit(pod)
			if got.Ways != tc.want || !strings.Contains(got.Held, tc.held) || (got.Held == "") != (tc.held == "") {
				t.Errorf("it may leave by %v (%q), want %v (%q)", got.Ways, got.Held, tc.want, tc.held)
			}
			p, err := v.pod(pod, false)
			if err != nil {
				t.Fatal(err)
			}
			if p.Fixed != (tc.want == 0) || p.Held != got.Held {
				t.Errorf("decisions see fixed %t (%q), want %t (%q)", p.Fixed, p.Held, tc.want == 0, got.Held)
			}
		})
	}
}

func TestAPodThatMovesGoesWhereItsVolumesCanBeReached(t *testing.T) {
	w, pod := scene()
	pod.Annotations[v1alpha1.AnnotationMigration] = v1alpha1.MigrationRestart
	mounts(func(spec *corev1.PersistentVolumeSpec) {
		shared(spec)
		spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{inZone("a")}}}
	})(w, pod)
	p, err := NewView(w, noon, runtimes.NewLearner()).pod(pod, false)
	if err != nil || p.Fixed {
		t.Fatalf("fixed %t (%s), %v", p.Fixed, p.Held, err)
	}
	for zone, want := range map[string]bool{"a": true, "b": false} {
		why := p.Demands.Admits(&constraint.Host{Name: zone, Labels: map[string]string{corev1.LabelTopologyZone: zone}})
		if (why == "") != want {
			t.Errorf("zone %s: %q", zone, why)
		}
	}
}

// TestANodeIsNeededByAPodForWhichNothingIsBought uses a cordoned node with two GPUs.
func TestANodeIsNeededByAPodForWhichNothingIsBought(t *testing.T) {
	ask := func(amount string) func(*World, *corev1.Pod) { return requests(gpu, amount) }
	tests := []struct {
		name   string
		change func(*World, *corev1.Pod)
		want   string
	}{
		{"it has enough", ask("2"), "default/p"},
		{"it has too little", ask("3"), ""},
		{"another pod has taken some", func(w *World, pod *corev1.Pod) {
			ask("2")(w, pod)
			other := pod.DeepCopy()
			other.Name, other.UID, other.Spec.NodeName = "other", "other", "a"
			ask("1")(w, other)
			w.Pods = append(w.Pods, *other)
		}, ""},
		{"it does not admit the pod", func(w *World, pod *corev1.Pod) {
			ask("1")(w, pod)
			pod.Spec.NodeSelector = map[string]string{"zone": "b"}
		}, ""},
		{"it is not ready", func(w *World, pod *corev1.Pod) {
			ask("1")(w, pod)
			w.Nodes["a"].Status.Conditions = nil
		}, ""},
		{"a machine is bought for the pod", requests(corev1.ResourceCPU, "1"), ""},
		{"the pod has not looked for room yet", func(w *World, pod *corev1.Pod) {
			ask("1")(w, pod)
			pod.Status.Conditions = nil
		}, ""},
		{"the pod cannot run anywhere", func(w *World, pod *corev1.Pod) {
			mounts(shared)(w, pod)
			ask("1")(w, pod)
			w.volumes.volumes = nil
		}, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w, pod := scene()
			for _, name := range []string{"a", "b"} {
				w.Nodes[name].Status.Allocatable = corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
				}
			}
			w.Nodes["a"].Status.Allocatable[gpu] = resource.MustParse("2")
			w.Nodes["a"].Spec.Unschedulable = true
			w.Nodes["a"].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
			pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			tc.change(w, pod)
			w.Pods = append(w.Pods, *pod)
			got := NewView(w, noon, runtimes.NewLearner()).NeededBy()
			if got["a"] != tc.want || got["b"] != "" {
				t.Errorf("needed: %v, want node a by %q", got, tc.want)
			}
		})
	}
}
