package world

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/runtimes"
)

const gpu corev1.ResourceName = "nvidia.com/gpu"

// requests sets the request of a pod for a resource.
func requests(name corev1.ResourceName, amount string) func(*World, *corev1.Pod) {
	return func(_ *World, pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(amount)}
	}
}

// known is next in a cluster that has the pod: what it requests is considered.
func known(next func(*World, *corev1.Pod)) func(*World, *corev1.Pod) {
	return func(w *World, pod *corev1.Pod) {
		next(w, pod)
		w.Pods = append(w.Pods, pod)
	}
}

// besideGPUs is next in a cluster in which other pods request so many kinds of GPUs that plans consider no other extended
// resource.
func besideGPUs(next func(*World, *corev1.Pod)) func(*World, *corev1.Pod) {
	return func(w *World, pod *corev1.Pod) {
		next(w, pod)
		for i := range packing.Slots {
			other := pod.DeepCopy()
			other.Name, other.UID, other.Spec.NodeName = fmt.Sprint("gpu-", i), types.UID(fmt.Sprint("gpu-", i)), ""
			requests(corev1.ResourceName(fmt.Sprintf("example.com/gpu-%d", i)), "1")(w, other)
			other.Status.Conditions = nil
			w.Pods = append(w.Pods, other)
		}
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

// driver is what a node's CSINode says of a driver: how many volumes it attaches; none if negative.
func driver(name string, count int32) storagev1.CSINodeDriver {
	d := storagev1.CSINodeDriver{Name: name}
	if count >= 0 {
		d.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
	}
	return d
}

// having is next in a cluster whose node b has the drivers.
func having(next func(*World, *corev1.Pod), drivers ...storagev1.CSINodeDriver) func(*World, *corev1.Pod) {
	return func(w *World, pod *corev1.Pod) {
		next(w, pod)
		w.volumes.readDrivers([]storagev1.CSINode{{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: storagev1.CSINodeSpec{Drivers: drivers}}})
	}
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
		{"GPUs are counted", known(requests(gpu, "1")), evict, ""},
		{"no GPU", requests(gpu, "0"), evict, ""},
		{"huge pages are counted", known(requests("hugepages-2Mi", "4Mi")), evict, ""},
		{"more kinds of resources than are counted", besideGPUs(requests("example.com/nic", "1")), 0, "it requests example.com/nic"},
		{"the same, and it ends by itself", runs(besideGPUs(requests("example.com/nic", "1"))), wait, "it requests example.com/nic"},
		{"space on the node's disk", requests(corev1.ResourceEphemeralStorage, "1Gi"), evict, ""},
		{"devices by claims", func(_ *World, pod *corev1.Pod) {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "accelerator"}}
		}, 0, "resource claim accelerator"},
		{"a volume that is attached", mounts(func(*corev1.PersistentVolumeSpec) {}), 0, "volume disk of claim data"},
		{"a volume that is attached, and nodes say how many", having(mounts(func(*corev1.PersistentVolumeSpec) {}), driver("ebs.csi.aws.com", 1)), evict, ""},
		{"nodes attach any number", having(mounts(func(*corev1.PersistentVolumeSpec) {}), driver("ebs.csi.aws.com", -1)), evict, ""},
		{"nodes have another driver", having(mounts(func(*corev1.PersistentVolumeSpec) {}), driver("disk.csi.azure.com", 1)), 0, "volume disk of claim data"},
		{"a volume of a replaced plugin", having(mounts(func(spec *corev1.PersistentVolumeSpec) {
			spec.CSI, spec.AWSElasticBlockStore = nil, &corev1.AWSElasticBlockStoreVolumeSource{}
		}), driver("ebs.csi.aws.com", 1)), evict, ""},
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

// TestANodeIsNeededByAPodForWhichNothingIsBought uses a cordoned node with two of a resource that plans do not consider.
func TestANodeIsNeededByAPodForWhichNothingIsBought(t *testing.T) {
	const nic corev1.ResourceName = "example.com/nic"
	ask := func(amount string) func(*World, *corev1.Pod) { return besideGPUs(requests(nic, amount)) }
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
			w.Pods = append(w.Pods, other)
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
			w.Nodes["a"].Status.Allocatable[nic] = resource.MustParse("2")
			w.Nodes["a"].Spec.Unschedulable = true
			w.Nodes["a"].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
			pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
			tc.change(w, pod)
			w.Pods = append(w.Pods, pod)
			got := NewView(w, noon, runtimes.NewLearner()).NeededBy()
			if got["a"] != tc.want || got["b"] != "" {
				t.Errorf("needed: %v, want node a by %q", got, tc.want)
			}
		})
	}
}

// TestNodesHoldAsManyVolumesAsTheyCanAttach has node b, which can attach three volumes. Pods run there, and one more asks for
// room. A claim without a volume counts for the provisioner of its class.
func TestNodesHoldAsManyVolumesAsTheyCanAttach(t *testing.T) {
	const ebs = "ebs.csi.aws.com"
	late := storageClass(storagev1.VolumeBindingWaitForFirstConsumer, "kubernetes.io/aws-ebs")
	tests := []struct {
		name   string
		there  string // the claims of each pod there: those of one pod are joined by +
		daemon string // those of a DaemonSet's pod there
		asks   string
		csi    []storagev1.CSINodeDriver
		want   string
	}{
		{name: "the third", there: "x y", asks: "z"},
		{name: "the fourth", there: "x+y z", asks: "v", want: "no more volumes of CSI driver ebs.csi.aws.com can be attached"},
		{name: "two of which one has room", there: "x y", asks: "z+v", want: "no more volumes of CSI driver ebs.csi.aws.com can be attached"},
		{name: "more than the node can ever attach", asks: "x+y+z+v", want: "it has 4 volumes of CSI driver ebs.csi.aws.com, and 3 can be attached"},
		{name: "pods that share a volume", there: "x x y", asks: "z"},
		{name: "pods that share a volume, and a fourth", there: "x x y z", asks: "v", want: "no more volumes of CSI driver ebs.csi.aws.com can be attached"},
		{name: "the pod of a DaemonSet has one", there: "x y", daemon: "z", asks: "v", want: "no more volumes of CSI driver ebs.csi.aws.com can be attached"},
		{name: "a volume that is still to be created", there: "x y z", asks: "late", want: "no more volumes of CSI driver ebs.csi.aws.com can be attached"},
		{name: "one that is shared with the pod of a DaemonSet", there: "x", daemon: "x", asks: "y+z"},
		{name: "a volume of another driver", there: "x y z", asks: "file"},
		{name: "any number", there: "x y z", asks: "v", csi: []storagev1.CSINodeDriver{driver(ebs, -1)}},
		{name: "no driver yet", there: "x y z", asks: "v", csi: []storagev1.CSINodeDriver{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w, _ := scene()
			w.volumes = volumes{classes: map[string]*storagev1.StorageClass{"late": late}, claims: map[string]*corev1.PersistentVolumeClaim{"default/late": claim("late", "")}, volumes: map[string]*corev1.PersistentVolume{}}
			for _, name := range []string{"x", "y", "z", "v", "file"} {
				w.volumes.claims["default/"+name], w.volumes.volumes[name] = claim("late", name), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
				w.volumes.volumes[name].Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: ebs}
			}
			w.volumes.volumes["file"].Spec.CSI.Driver = "files"
			csi := []storagev1.CSINode{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver(ebs, 9)}}}}
			drivers := tc.csi
			if drivers == nil {
				drivers = []storagev1.CSINodeDriver{driver(ebs, 3), driver("files", -1)}
			}
			w.volumes.readDrivers(append(csi, storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: storagev1.CSINodeSpec{Drivers: drivers}}))
			add := func(claims, node string) *corev1.Pod {
				p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", len(w.Pods))}, Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{}}}}
				for _, name := range strings.Split(claims, "+") {
					p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
				}
				w.Pods = append(w.Pods, p)
				return w.Pods[len(w.Pods)-1]
			}
			for _, claims := range strings.Fields(tc.there) {
				add(claims, "b")
			}
			if tc.daemon != "" {
				add(tc.daemon, "b").OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", Controller: new(true)}}
			}
			add(tc.asks, "")
			v := NewView(w, noon, runtimes.NewLearner())
			node := v.Node(w.Nodes["b"], cluster.Node{Name: "b"})
			asks, held := v.wait(w.Pods[len(w.Pods)-1])
			if held != "" {
				t.Fatal(held)
			}
			attached := node.Attached()
			if got := cmp.Or(asks.Demands.Admits(node.Host), attached.Refuses(asks.Demands, node.Host)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			w.Nodes["b"].Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
			pod := w.Pods[len(w.Pods)-1]
			refusals, _, err := v.Refusals(pod)
			if err != nil {
				t.Fatal(err)
			}
			if got := refusals["b"]; (got == "") != (tc.want == "") || got != "" && !strings.Contains(got, " of CSI driver "+ebs+" can be attached there") {
				t.Errorf("it is refused by %q, planned %q", got, tc.want)
			}
			if got := v.Unchecked(pod); slices.Contains(got, "how many volumes a node can attach") {
				t.Errorf("not checked: %q", got)
			}
		})
	}
}

// TestVolumesOfANodeAreCountedAsTheSchedulerDoes has a node that can attach one volume.
func TestVolumesOfANodeAreCountedAsTheSchedulerDoes(t *testing.T) {
	using := func(claim string, priority int32, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-" + claim}, Spec: corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{{}}}}
		claiming(claim)(p)
		for _, f := range change {
			f(p)
		}
		return p
	}
	placed := func(p *corev1.Pod) { p.Spec.NodeName = "a" }
	nominated := func(p *corev1.Pod) { p.Status.NominatedNodeName = "a" }
	asks := func(claim string) *corev1.Pod {
		return using(claim, 5, func(p *corev1.Pod) { p.Name = "asks" })
	}
	for name, tc := range map[string]struct {
		there, asks *corev1.Pod
		taken       bool
	}{
		"another volume":                               {using("affine", 0, placed), asks("second"), true},
		"the volume that is there":                     {using("affine", 0, placed), asks("affine"), false},
		"another volume, of a pod that is less urgent": {using("affine", 0, nominated), asks("second"), false},
		"another volume, of a pod that is more urgent": {using("affine", 9, nominated), asks("second"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := stored(*tc.there, *tc.asks)
			second := w.volumes.claims["default/affine"].DeepCopy()
			second.Name, second.Spec.VolumeName = "second", "second"
			w.volumes.claims["default/second"] = second
			for _, volume := range []string{"affine", "second"} {
				v := w.volumes.volumes["affine"].DeepCopy()
				v.Name, v.Spec.CSI = volume, &corev1.CSIPersistentVolumeSource{Driver: "ebs"}
				w.volumes.volumes[volume] = v
			}
			w.volumes.readDrivers([]storagev1.CSINode{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver("ebs", 1)}}}})
			got := NewView(w, noon, runtimes.NewLearner()).overfull("a", tc.asks)
			if want := "1 volume of CSI driver ebs can be attached there, the pods there have 1, and this one has 1 more"; tc.taken && got != want || !tc.taken && got != "" {
				t.Errorf("%q; that there is no room: %t", got, tc.taken)
			}
		})
	}
}

// TestAPodLeavesForNodesWithTheDriverOfItsVolumeOnly has a driver that attaches any number.
func TestAPodLeavesForNodesWithTheDriverOfItsVolumeOnly(t *testing.T) {
	w, pod := scene()
	having(mounts(func(*corev1.PersistentVolumeSpec) {}), driver("ebs.csi.aws.com", -1))(w, pod)
	v := NewView(w, noon, runtimes.NewLearner())
	p, err := v.pod(pod, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "it is unknown how many volumes can be attached there", "b": ""} {
		if got := p.Demands.Admits(v.Node(w.Nodes[name], cluster.Node{Name: name}).Host); got != want {
			t.Errorf("node %s: %q, want %q", name, got, want)
		}
	}
}

func TestANewNodeAttachesWhatOthersLikeItDo(t *testing.T) {
	w, _ := scene()
	on := func(node string, drivers ...storagev1.CSINodeDriver) storagev1.CSINode {
		return storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: drivers}}
	}
	w.volumes.readDrivers([]storagev1.CSINode{on("a", driver("disk", 5), driver("files", -1)), on("b", driver("disk", 4)), on("joins"), on("c", driver("disk", 3))})
	for name, tc := range map[string]struct {
		like []string
		want map[string]int64
	}{
		"the least of two":              {[]string{"a", "b"}, map[string]int64{"disk": 4, "files": math.MaxInt64}},
		"one whose drivers start":       {[]string{"a", "joins"}, map[string]int64{"disk": 5, "files": math.MaxInt64}},
		"only one whose drivers start":  {[]string{"joins"}, nil},
		"one of which nothing is known": {[]string{"d"}, nil},
		"there is no node":              {nil, nil},
	} {
		if got := w.Attaches(tc.like); !maps.Equal(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
