package world

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volumehelpers "k8s.io/component-helpers/storage/volume"

	"supercargo.dev/supercargo/internal/runtimes"
	"supercargo.dev/supercargo/test/fixtures"
)

// stored returns a world with three nodes in two zones, one of which has no zone label, and with claims of each kind.
func stored(pods ...corev1.Pod) *World {
	zone := func(name string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = name }
	}
	of := func(name string, c *corev1.PersistentVolumeClaim, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		c.Namespace, c.Name = "default", name
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		if c.Spec.VolumeName != "" {
			c.Annotations = map[string]string{volumehelpers.AnnBindCompleted: "yes"}
			c.Status.Phase = corev1.ClaimBound
		}
		for _, f := range change {
			f(c)
		}
		return c
	}
	volume := func(name string, v *corev1.PersistentVolume, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		v.Name = name
		for _, f := range change {
			f(v)
		}
		return v
	}
	w := &World{
		Nodes: map[string]*corev1.Node{
			"a": fixtures.Node("a", 4000, 1<<30, zone("a")), "b": fixtures.Node("b", 4000, 1<<30, zone("b")), "plain": fixtures.Node("plain", 4000, 1<<30),
		},
		Pods: pointersTo(pods),
		volumes: volumes{
			claims: map[string]*corev1.PersistentVolumeClaim{}, volumes: map[string]*corev1.PersistentVolume{}, classes: map[string]*storagev1.StorageClass{
				"late": storageClass(storagev1.VolumeBindingWaitForFirstConsumer, "csi"), "now": storageClass(storagev1.VolumeBindingImmediate, "csi"),
				"late-b": storageClass(storagev1.VolumeBindingWaitForFirstConsumer, "csi", "b"), "hand": storageClass(storagev1.VolumeBindingImmediate, noProvisioner),
				"local": storageClass(storagev1.VolumeBindingWaitForFirstConsumer, noProvisioner),
			},
		},
	}
	for name, c := range w.volumes.classes {
		c.Name = name
	}
	for _, c := range []*corev1.PersistentVolumeClaim{
		of("late", claim("late", "")), of("late-b", claim("late-b", "")), of("now", claim("now", "")), of("hand", claim("hand", "")), of("local", claim("local", "")),
		of("no-class", claim("", "")), of("default-class", claim("", ""), func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }), of("typo-class", claim("typo", "")), of("lost", claim("now", "gone")), of("affine", claim("now", "affine")),
		of("labelled", claim("now", "labelled")), of("named", claim("now", "labelled"), func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }),
		of("leaving", claim("late", ""), func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} }),
		of("sole", claim("now", "labelled"), func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
		}),
		of("chosen", claim("late", ""), func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{volumehelpers.AnnSelectedNode: "b"}
		}),
		of("p-scratch", claim("late", "")),
	} {
		w.volumes.claims["default/"+c.Name] = c
	}
	for _, v := range []*corev1.PersistentVolume{
		volume("affine", disk(inZone("a"))),
		volume("labelled", disk(), func(v *corev1.PersistentVolume) {
			v.Labels = map[string]string{corev1.LabelFailureDomainBetaZone: "b__c"}
		}),
		volume("spare", disk(inZone("a")), func(v *corev1.PersistentVolume) {
			v.Spec.StorageClassName, v.Status.Phase = "local", corev1.VolumeAvailable
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
		}),
	} {
		w.volumes.volumes[v.Name] = v
	}
	return w
}

// claiming makes a pod use claims.
func claiming(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		}
	}
}

func TestEachClaimSaysWhyItKeepsItsPodFromAllNodes(t *testing.T) {
	ephemeral := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		}
	}
	other := *fixtures.Pod("other", 100, 1<<20, claiming("sole"), func(p *corev1.Pod) { p.Spec.NodeName = "b" })
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		want string
	}{
		{"no volumes", func(*corev1.Pod) {}, ""},
		{"a missing claim", claiming("nope"), "volume claim nope does not exist: create it, or correct the name in the pod"},
		{"a bound one and a missing one", claiming("affine", "nope"), "volume claim nope does not exist"},
		{"one whose volume is gone", claiming("lost"), "bound to volume gone, which does not exist"},
		{"one that is being deleted", claiming("leaving"), "volume claim leaving is being deleted"},
		{"one that names a volume that is not bound to it", claiming("named"), "names volume labelled and is not bound to it"},
		{"one that waits for a default class", claiming("default-class"), "names no StorageClass: mark a StorageClass as the default, or create a volume"},
		{"one without a class", claiming("no-class"), "names no StorageClass: create a volume that it matches"},
		{"one of a class that is missing", claiming("typo-class"), "its StorageClass typo does not exist"},
		{"one of a class without provisioner", claiming("hand"), "create a volume of StorageClass hand that it matches"},
		{"one that a provisioner serves at once", claiming("now"), "provisioner csi of StorageClass now must create its volume first"},
		{"one that waits for its pod", claiming("late"), ""},
		{"one that another pod uses alone", claiming("sole"), "access mode ReadWriteOncePod, and pod default/other uses it"},
		{"an ephemeral one that is not made yet", ephemeral("none"), "the claim p-none of its ephemeral volume does not exist yet"},
		{"an ephemeral one of another's making", ephemeral("scratch"), "was not created for the pod's ephemeral volume"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := fixtures.Pod("p", 100, 1<<20, tc.pod)
			got := NewView(stored(*pod, other), time.Time{}, runtimes.NewLearner()).Blocked(pod)
			if !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
				t.Errorf("it is blocked by %q, want %q", got, tc.want)
			}
		})
	}
}

func TestEachNodeSaysWhyItCannotHaveTheVolumesOfAPod(t *testing.T) {
	const another = "the volume of claim chosen is to be created for node b (annotation volume.kubernetes.io/selected-node)"
	for name, want := range map[string]map[string]string{
		"late": {"a": "", "b": "", "plain": ""}, "nope": {"a": "", "b": "", "plain": ""},
		"late-b":   {"a": "StorageClass late-b creates no volumes there (allowedTopologies)", "b": "", "plain": "StorageClass late-b creates no volumes there (allowedTopologies)"},
		"affine":   {"a": "", "b": "volume affine of claim affine cannot be used there (its node affinity)", "plain": "volume affine of claim affine cannot be used there (its node affinity)"},
		"labelled": {"a": "volume labelled of claim labelled is in another zone (its labels)", "b": "", "plain": ""},
		"chosen":   {"a": another, "b": "", "plain": another},
		"local":    {"a": "", "b": "no free volume there for claim local", "plain": "no free volume there for claim local"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixtures.Pod("p", 100, 1<<20, claiming(name))
			got, _, err := NewView(stored(*pod), time.Time{}, runtimes.NewLearner()).Refusals(pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("two claims for one volume", func(t *testing.T) {
		w := stored()
		second := w.volumes.claims["default/local"].DeepCopy()
		second.Name = "second"
		w.volumes.claims["default/second"] = second
		got, _, err := NewView(w, time.Time{}, runtimes.NewLearner()).Refusals(fixtures.Pod("p", 100, 1<<20, claiming("local", "second")))
		if err != nil || got["a"] != "no free volume there for claim second" {
			t.Errorf("node a is refused by %q (%v)", got["a"], err)
		}
	})
}

// TestMachinesAreBoughtInTheZoneThatTheLabelsOfAVolumeName checks the constraints that plans use.
func TestMachinesAreBoughtInTheZoneThatTheLabelsOfAVolumeName(t *testing.T) {
	w := stored()
	settled, held := w.volumes.settle(fixtures.Pod("p", 100, 1<<20, claiming("labelled")))
	if held != "" {
		t.Fatal(held)
	}
	demands, err := w.Compiler().Compile(settled)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"a": false, "b": true, "plain": true} {
		if got := demands.Admits(opened(w.Nodes[name])); (got == "") != want {
			t.Errorf("node %s: %q, want it to be taken: %v", name, got, want)
		}
	}
}

func TestWhatIsNotCheckedAboutNodesIsSaid(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  func(*corev1.Pod)
		want string
	}{
		{"nothing", func(*corev1.Pod) {}, ""},
		{"a volume that is attached", claiming("affine"), "how many volumes a node can attach"},
		{"a volume to be created", claiming("late"), "how many volumes a node can attach, the free capacity of storage"},
		{"devices", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, "the devices of nodes"},
		{"a disk of a cloud", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}}}
		}, "how many volumes a node can attach, which disks other pods use"},
		{"a gang", fixtures.Gang("train"), "whether all pods of gang train find room"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := fixtures.Pod("p", 100, 1<<20, tc.pod)
			if got := strings.Join(NewView(stored(), time.Time{}, runtimes.NewLearner()).Unchecked(pod), ", "); got != tc.want {
				t.Errorf("not checked: %q, want %q", got, tc.want)
			}
		})
	}
}
