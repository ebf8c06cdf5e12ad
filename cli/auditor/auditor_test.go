package auditor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/cli/audit"
	"supercargo.dev/supercargo/cli/objects"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/input/catalogue"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/fixtures"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// podOf returns a pod of a ReplicaSet, which requests half a CPU and 1 GiB.
func podOf(name, node string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web", "pod-template-hash": "abc"}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-abc", Controller: new(true)}}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "web", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func observed(t *testing.T, o *objects.Objects, prices ...catalogue.Price) *audit.Input {
	t.Helper()
	seen, err := Of(context.Background(), o, Options{Now: now, Pricing: Pricing{Own: prices}})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// priceOf returns the user's price of an instance type with 2 CPUs and 8 GiB.
func priceOf(name string, onDemand int64, spot *int64) catalogue.Price {
	return catalogue.Price{SpotMicroDollarsPerHour: spot, Flavor: catalogue.Flavor{
		Flavor: cluster.Flavor{Name: name, Size: packing.Size{MilliCPU: 2000, MemoryBytes: 8 << 30}, MicroDollarsPerHour: onDemand},
	}}
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func TestANodeIsPricedByTheFirstThatKnowsItsPriceAndNeverGuessed(t *testing.T) {
	machineSet := func(n *corev1.Node) {
		n.Annotations["cluster.x-k8s.io/owner-kind"], n.Annotations["cluster.x-k8s.io/owner-name"] = "MachineSet", "workers-x7k2p"
		n.Annotations["cluster.x-k8s.io/cluster-namespace"] = "clusters"
	}
	annotated := func(text string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationPricePerHour] = text }
	}
	bare := func(n *corev1.Node) { n.Spec.ProviderID = "" }
	google := func(n *corev1.Node) {
		n.Spec.ProviderID, n.Labels[corev1.LabelTopologyRegion] = "gce://project/us-central1-a/n", "us-central1"
	}
	gpus := func(n *corev1.Node) { n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("2") }
	tests := []struct {
		name     string
		node     corev1.Node
		price    int64
		unpriced string // why
	}{
		{"the list price of its region", fixtures.CloudNode("n", "m5.xlarge"), 192_000, ""},
		{"its annotation", fixtures.CloudNode("n", "m5.xlarge", annotated("0.05"), machineSet), 50_000, ""},
		{"an annotation that is no price", fixtures.CloudNode("n", "m5.xlarge", annotated("cheap")), 0, "annotation supercargo.dev/price-per-hour"},
		{"the annotation of its MachineDeployment", fixtures.CloudNode("n", "m5.xlarge", machineSet), 70_000, ""},
		{"the user's own price", fixtures.CloudNode("n", "own.large"), 123_000, ""},
		{"a spot machine", fixtures.CloudNode("n", "m5.xlarge", label("karpenter.sh/capacity-type", "spot")), 0, "spot machine"},
		{"a spot machine with an annotation", fixtures.CloudNode("n", "m5.xlarge", label("karpenter.sh/capacity-type", "spot"), annotated("0.05")), 50_000, ""},
		{"a spot machine whose type has a price on demand only", fixtures.CloudNode("n", "own.large", label("karpenter.sh/capacity-type", "spot")), 0, "spot_price_per_hour of own.large in --prices"},
		{"a spot machine of Karpenter", fixtures.CloudNode("n", "both.large", label("karpenter.sh/capacity-type", "spot")), 45_000, ""},
		{"a spot machine of EKS", fixtures.CloudNode("n", "both.large", label("eks.amazonaws.com/capacityType", "SPOT")), 45_000, ""},
		{"a spot machine of GKE", fixtures.CloudNode("n", "both.large", label("cloud.google.com/gke-spot", "true")), 45_000, ""},
		{"a preemptible machine of GKE", fixtures.CloudNode("n", "both.large", label("cloud.google.com/gke-preemptible", "true")), 45_000, ""},
		{"a spot machine of AKS", fixtures.CloudNode("n", "both.large", label("kubernetes.azure.com/scalesetpriority", "spot")), 45_000, ""},
		{"a spot machine with an annotation and a price", fixtures.CloudNode("n", "both.large", label("karpenter.sh/capacity-type", "spot"), annotated("0.05")), 50_000, ""},
		{"a machine on demand of a type that is also sold as spot", fixtures.CloudNode("n", "both.large", label("karpenter.sh/capacity-type", "on-demand")), 150_000, ""},
		{"Windows", fixtures.CloudNode("n", "m5.xlarge", label(corev1.LabelOSStable, "windows")), 0, "it runs windows"},
		{"an instance type that nobody lists", fixtures.CloudNode("n", "z9.huge"), 0, "do not include instance type z9.huge"},
		{"a virtual node of AKS", fixtures.CloudNode("n", "", label("type", "virtual-kubelet")), 0, "it is a virtual node, whose provider bills each pod"},
		{"a virtual node with a taint alone", fixtures.CloudNode("n", "", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "virtual-kubelet.io/provider", Value: "azure", Effect: corev1.TaintEffectNoSchedule}}
		}), 0, "it is a virtual node"},
		{"a node of Fargate", fixtures.CloudNode("n", "", label("eks.amazonaws.com/compute-type", "fargate")), 0, "it is a virtual node"},
		{"a virtual node with an annotation", fixtures.CloudNode("n", "", label("type", "virtual-kubelet"), annotated("0.05")), 50_000, ""},
		{"a node of GKE Autopilot", fixtures.CloudNode("gk3-prod-pool-1-0a", "e2-standard-4", google), 0, "it is a node of GKE Autopilot, which bills pods"},
		{"a node of GKE Autopilot with an annotation", fixtures.CloudNode("gk3-prod-pool-1-0a", "e2-standard-4", google, annotated("0.05")), 50_000, ""},
		{"a node of another provider with such a name", fixtures.CloudNode("gk3-prod", "m5.xlarge"), 192_000, ""},
		{"a machine of Google Cloud", fixtures.CloudNode("n", "n1-standard-8", google), 379_998, ""},
		{"a machine of Google Cloud with GPUs that are sold separately", fixtures.CloudNode("n", "n1-standard-8", google, label("cloud.google.com/gke-accelerator", "nvidia-tesla-t4")), 0,
			"the list price of n1-standard-8 is without its GPUs, which Google Cloud sells separately: set annotation supercargo.dev/price-per-hour to the price of both"},
		{"the same without a label", fixtures.CloudNode("n", "n1-standard-8", google, gpus), 0, "without its GPUs"},
		{"a machine of Google Cloud whose type has GPUs", fixtures.CloudNode("n", "a2-highgpu-1g", google, gpus), 3_673_385, ""},
		{"no instance type", fixtures.CloudNode("n", ""), 0, "no label node.kubernetes.io/instance-type"},
		{"a machine of nobody known", fixtures.CloudNode("n", "m5.xlarge", bare), 0, "its cloud provider is unknown"},
		{"a label that tells who sells it", fixtures.CloudNode("n", "m5.xlarge", bare, label("eks.amazonaws.com/nodegroup", "a")), 192_000, ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := &objects.Objects{Nodes: []corev1.Node{tc.node}, Pods: []corev1.Pod{podOf("p", tc.node.Name)}}
			o.Deployments = []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Namespace: "clusters", Name: "workers", Annotations: map[string]string{v1alpha1.AnnotationPricePerHour: "0.07"}}}}
			n := observed(t, o, priceOf("own.large", 123_000, nil), priceOf("both.large", 150_000, new(int64(45_000)))).Nodes[0]
			if n.MicroDollarsPerHour != tc.price || (n.Unpriced == "") != (tc.unpriced == "") || !strings.Contains(n.Unpriced, tc.unpriced) {
				t.Errorf("%d (%q), want %d (%q)", n.MicroDollarsPerHour, n.Unpriced, tc.price, tc.unpriced)
			}
		})
	}
}

func TestTheObjectsAreNotKeptInMemory(t *testing.T) {
	o := &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge")}, Pods: []corev1.Pod{podOf("web", "a")}}
	first := weak.Make(&o.Pods[0])
	seen := observed(t, o)
	o = nil
	runtime.GC()
	if first.Value() != nil {
		t.Error("the input of an audit keeps the pods that it was made of in memory")
	}
	runtime.KeepAlive(seen)
}

func TestARegionThatIsNotCarriedIsPricedByTheNearestAndThatIsSaid(t *testing.T) {
	frankfurt := func(n *corev1.Node) {
		n.Labels[corev1.LabelTopologyRegion], n.Spec.ProviderID = "germanywestcentral", "azure:///x"
	}
	seen := observed(t, &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("n", "Standard_D4s_v5", frankfurt)}, Pods: []corev1.Pod{podOf("p", "n")}})
	want := "No list prices of azure in germanywestcentral are included: 1 node there has those of westeurope; " +
		"--region selects another region, and --prices states yours."
	if !slices.Contains(seen.Pricing, want) || seen.Source != "list prices of azure in westeurope" {
		t.Errorf("prices %q, source %q; want %q", seen.Pricing, seen.Source, want)
	}
	if seen.Nodes[0].MicroDollarsPerHour == 0 {
		t.Errorf("it has no price: %s", seen.Nodes[0].Unpriced)
	}
}

func TestAMachineOfATypeThatIsThereHasTheLeastRoomAndTheLowestPriceOfThose(t *testing.T) {
	less := func(n *corev1.Node) {
		n.Status.Allocatable["cpu"], n.Annotations[v1alpha1.AnnotationPricePerHour] = resource.MustParse("3"), "0.15"
	}
	more := func(n *corev1.Node) { n.Status.Allocatable["memory"] = resource.MustParse("13Gi") }
	for name, nodes := range map[string][]corev1.Node{
		"one order": {fixtures.CloudNode("a", "m5.xlarge", less), fixtures.CloudNode("b", "m5.xlarge", more)}, "the other": {fixtures.CloudNode("a", "m5.xlarge", more), fixtures.CloudNode("b", "m5.xlarge", less)},
	} {
		seen := observed(t, &objects.Objects{Nodes: nodes, Pods: []corev1.Pod{podOf("p", "a")}})
		at := slices.IndexFunc(seen.Flavors, func(f audit.Flavor) bool { return f.InstanceType == "m5.xlarge" })
		if f := seen.Flavors[at]; f.Size.MilliCPU != 3000 || f.Size.MemoryBytes != 13<<30 || f.MicroDollarsPerHour != 150_000 {
			t.Errorf("%s: %+v at %d, want 3 CPUs, 13 GiB and $0.15", name, f.Size, f.MicroDollarsPerHour)
		}
	}
}

// TestSpotMachinesAreSoldOnlyToPoolsOfSpotMachines, and those on demand only to the others: what may not run on spot
// machines is not priced as if it did.
func TestSpotMachinesAreSoldOnlyToPoolsOfSpotMachines(t *testing.T) {
	const capacity = "karpenter.sh/capacity-type"
	steady := podOf("steady", "a", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{capacity: "on-demand"} })
	annotated := func(n *corev1.Node) { n.Annotations[v1alpha1.AnnotationPricePerHour] = "0.04" }
	for _, tc := range []struct {
		name   string
		prices []catalogue.Price
		change func(*corev1.Node)
		want   map[string][]int64 // prices of own.large and other.large, by capacity type
	}{
		{"prices of the user", []catalogue.Price{priceOf("own.large", 100_000, new(int64(30_000))), priceOf("other.large", 90_000, new(int64(20_000)))}, func(*corev1.Node) {},
			map[string][]int64{"on-demand": {100_000, 90_000}, "spot": {30_000, 20_000}}},
		{"annotations", []catalogue.Price{priceOf("own.large", 100_000, nil), priceOf("other.large", 90_000, nil)}, annotated,
			map[string][]int64{"on-demand": {100_000, 90_000}, "spot": {40_000, 0}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seen := observed(t, &objects.Objects{
				Nodes: []corev1.Node{fixtures.CloudNode("a", "own.large", label(capacity, "on-demand")), fixtures.CloudNode("b", "own.large", label(capacity, "spot"), tc.change)},
				Pods:  []corev1.Pod{steady, podOf("p", "b")},
			}, tc.prices...)
			got := map[string][]int64{"on-demand": {0, 0}, "spot": {0, 0}}
			for _, f := range seen.Flavors {
				if at := slices.Index([]string{"own.large", "other.large"}, f.InstanceType); at >= 0 {
					got[f.Host.Labels[capacity]][at] = f.MicroDollarsPerHour
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if want := "The prices of spot machines"; !slices.ContainsFunc(seen.Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
				t.Errorf("notes %q, want one on spot machines", seen.Notes)
			}
		})
	}
}

func TestSpotMachinesAndOthersAreBothSoldToPodsThatReferToNeither(t *testing.T) {
	seen := observed(t, &objects.Objects{
		Nodes: []corev1.Node{fixtures.CloudNode("a", "own.large"), fixtures.CloudNode("b", "own.large", label("eks.amazonaws.com/capacityType", "SPOT"))},
		Pods:  []corev1.Pod{podOf("p", "a"), podOf("q", "b")},
	}, priceOf("own.large", 100_000, new(int64(30_000))))
	var got []int64
	for _, f := range seen.Flavors {
		if f.InstanceType == "own.large" {
			got = append(got, f.MicroDollarsPerHour)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff([]int64{30_000, 100_000}, got); diff != "" {
		t.Errorf("prices (-want +got):\n%s", diff)
	}
}

func TestOnlyInstanceTypesThatPatternsChooseAreBoughtBesideThoseOfTheNodes(t *testing.T) {
	from := &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge")}, Pods: []corev1.Pod{podOf("p", "a")}}
	seen, err := Of(t.Context(), from, Options{Now: now, InstanceTypes: []string{"c7i.*", "!*.metal*"}})
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, f := range seen.Flavors {
		if f.InstanceType != "m5.xlarge" && (!strings.HasPrefix(f.InstanceType, "c7i.") || strings.Contains(f.InstanceType, "metal")) {
			t.Errorf("%s may be bought", f.InstanceType)
		} else if f.InstanceType != "m5.xlarge" {
			others++
		}
	}
	if others == 0 {
		t.Error("none of the instance types that were chosen may be bought")
	}

	_, err = Of(t.Context(), from, Options{Now: now, InstanceTypes: []string{"c7i.*", "Standard_D*"}})
	if unknown := (*UnknownTypesError)(nil); !errors.As(err, &unknown) || !slices.Equal(unknown.Patterns, []string{"Standard_D*"}) || !strings.Contains(err.Error(), "aws in us-east-1") {
		t.Errorf("a pattern that matches nothing: %v", err)
	}
}

func TestMachinesForSaleHaveTheLabelsAndTaintsOfPoolsLessWhatDaemonSetsTake(t *testing.T) {
	gpuPool := func(n *corev1.Node) {
		n.Labels["pool"] = "fast"
		n.Spec.Taints = []corev1.Taint{{Key: "pool", Value: "fast", Effect: corev1.TaintEffectNoSchedule}}
	}
	daemon := podOf("agent-x", "a", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
	})
	picky := podOf("picky", "b", func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{"pool": "fast"}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "pool", Operator: corev1.TolerationOpExists}}
	})
	seen := observed(t, &objects.Objects{
		Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge"), fixtures.CloudNode("b", "m5.xlarge", gpuPool)}, Pods: []corev1.Pod{podOf("p", "a"), daemon, picky},
	})
	bySize := map[string]int64{}
	for _, f := range seen.Flavors {
		if f.InstanceType == "m5.xlarge" {
			bySize[fmt.Sprint(f.Host.Labels["pool"], len(f.Host.Taints))] = f.Size.MilliCPU
		}
	}
	// The agent tolerates no taint, so it runs only on machines of the other pool.
	if diff := cmp.Diff(map[string]int64{"0": 3420, "fast1": 3920}, bySize); diff != "" {
		t.Errorf("CPU of m5.xlarge by pool (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(seen.Notes, func(n string) bool { return strings.HasPrefix(n, "No DaemonSets were read") }) {
		t.Errorf("nothing is said of DaemonSets: %q", seen.Notes)
	}
	r := audit.Audit(*seen)
	if len(r.Staying) > 0 || r.Cheapest.PerHour >= r.Now.PerHour {
		t.Errorf("staying %v, cheapest %d of %d", r.Staying, r.Cheapest.PerHour, r.Now.PerHour)
	}
}

func TestEachThingThatKeepsAPodIsNamedWithWhatLiftsIt(t *testing.T) {
	annotate := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[key] = value }
	}
	scratch := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	bare := func(p *corev1.Pod) { p.OwnerReferences = nil }
	ofSystem := func(p *corev1.Pod) { p.Namespace = "kube-system" }
	tests := []struct {
		name   string
		pod    corev1.Pod
		budget bool
		want   []string // kind, subject and whether the pod can leave if it is lifted
	}{
		{"nothing", podOf("p", "n"), false, nil},
		{"a budget", podOf("p", "n"), true, []string{"PodDisruptionBudget that allows no disruption of shop/web true"}},
		{"do-not-disrupt", podOf("p", "n", annotate("karpenter.sh/do-not-disrupt", "true")), false, []string{"annotation karpenter.sh/do-not-disrupt of Deployment shop/web true"}},
		{"a local volume", podOf("p", "n", scratch), false, []string{"local storage of Deployment shop/web true"}},
		{"no controller", podOf("p", "n", bare), false, []string{"no controller of Pod shop/p true"}},
		{"safe-to-evict", podOf("p", "n", annotate("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")), false,
			[]string{"annotation cluster-autoscaler.kubernetes.io/safe-to-evict: false of Deployment shop/web true"}},
		{"no controller, and an annotation until a time that is past", podOf("p", "n", bare, annotate("karpenter.sh/do-not-disrupt", "5m"), func(p *corev1.Pod) {
			p.Status.StartTime = &metav1.Time{Time: now.Add(-time.Hour)}
		}), false, []string{"no controller of Pod shop/p true"}},
		{"no controller, and a local volume whose loss it accepts", podOf("p", "n", bare, scratch, annotate("cluster-autoscaler.kubernetes.io/safe-to-evict", "true")), false,
			[]string{"no controller of Pod shop/p true"}},
		{"of the system", podOf("p", "n", ofSystem), false, []string{"namespace kube-system without a PodDisruptionBudget of Deployment kube-system/web true"}},
		{"of the system, without a controller, and it may be restarted", podOf("p", "n", ofSystem, bare, annotate("supercargo.dev/migration", "restart")), false,
			[]string{"no controller of Pod kube-system/p true"}},
		{"two things, neither of which is all", podOf("p", "n", scratch, bare), true, []string{
			"PodDisruptionBudget that allows no disruption of shop/web false", "local storage of Pod shop/p false", "no controller of Pod shop/p false",
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			o := &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("n", "m5.xlarge")}, Pods: []corev1.Pod{tc.pod}, Missing: map[string]string{}}
			name := tc.pod.Namespace + "/p"
			if tc.budget {
				o.Budgets = []policyv1.PodDisruptionBudget{{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
					Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
				}}
			}
			seen := observed(t, o)
			var got []string
			anything := false
			for _, o := range seen.Obstacles {
				if o.Kind == world.Anything {
					anything = o.Ways[name] != 0
					continue
				}
				got = append(got, fmt.Sprintf("%s of %s %t", o.Kind, o.Subject, o.Ways[name] != 0))
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if anything != (len(tc.want) > 0) || seen.Nodes[0].Pods[0].Fixed != (len(tc.want) > 0) {
				t.Errorf("fixed %t, free without all %t; want both %t", seen.Nodes[0].Pods[0].Fixed, anything, len(tc.want) > 0)
			}
		})
	}
}

// TestWhatWasNotReadIsNotSaidToBeMissing compares a dump, which lacks kinds, with a cluster that has none of them.
func TestWhatWasNotReadIsNotSaidToBeMissing(t *testing.T) {
	claiming := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	bound := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "disk"}}
	for _, tc := range []struct {
		name         string
		pod          corev1.Pod
		claims       []corev1.PersistentVolumeClaim
		read, unread string
	}{
		{"a claim", podOf("p", "n", claiming), nil, "volume claim data does not exist", "volume claim data was not read"},
		{"a volume", podOf("p", "n", claiming), []corev1.PersistentVolumeClaim{bound}, "volume disk of claim data does not exist", "volume disk of claim data was not read"},
		{"a budget", podOf("p", "n", func(p *corev1.Pod) { p.Namespace = "kube-system" }), nil,
			"it is in namespace kube-system, and no PodDisruptionBudget selects it", "it is in namespace kube-system, and no PodDisruptionBudgets were read"},
		{"Migrations, which an audit never reads", podOf("p", "n", func(p *corev1.Pod) { p.Annotations["supercargo.dev/migration"] = "checkpoint" }), nil,
			"it is moved with its state only, and Migrations were not read", "it is moved with its state only, and Migrations were not read"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for want, missing := range map[string]map[string]string{tc.read: {}, tc.unread: nil} {
				seen := observed(t, &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("n", "m5.xlarge")}, Pods: []corev1.Pod{tc.pod}, Claims: tc.claims, Missing: missing})
				if got := seen.Nodes[0].Pods[0].Held; got != want {
					t.Errorf("it stays because %q, want %q", got, want)
				}
			}
		})
	}
}

func TestDemandsOnPlacesAreCompiledWithoutThemselves(t *testing.T) {
	apart := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, TopologyKey: corev1.LabelHostname},
		}}}
	}
	seen := observed(t, &objects.Objects{
		Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge"), fixtures.CloudNode("b", "m5.xlarge")}, Pods: []corev1.Pod{podOf("p", "a", apart), podOf("q", "b", apart)},
	})
	seen.MostObstacles = 5
	r := audit.Audit(*seen)
	if len(r.Obstacles) != 1 || r.Obstacles[0].Kind != "pod anti-affinity" || r.Obstacles[0].Subject != "Deployment shop/web" || r.Obstacles[0].Pods != 2 {
		t.Fatalf("obstacles %+v, want the anti-affinity of two pods", r.Obstacles)
	}
	if c := r.Obstacles[0]; c.SavesPerHour == nil || c.Lowers != audit.LowersCheapest || *c.SavesPerHour <= 0 {
		t.Errorf("%+v, want a known saving on other machines: both pods fit one", c)
	}
	if r.Cheapest.Nodes != 2 {
		t.Errorf("%d nodes, want 2 for pods that must be apart", r.Cheapest.Nodes)
	}
}

func TestAPodThatMachinesYetToBeBoughtMayNotHoldKeepsItsNode(t *testing.T) {
	gpu := podOf("p", "n", func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} })
	claim := podOf("q", "m", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	})
	seen := observed(t, &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("n", "m5.xlarge"), fixtures.CloudNode("m", "m5.xlarge")}, Pods: []corev1.Pod{gpu, claim}})
	for _, n := range seen.Nodes {
		if !strings.HasPrefix(n.Stays, "no machine is planned for its pod shop/") {
			t.Errorf("%s: %q, want why it stays", n.Name, n.Stays)
		}
	}
	want := "No PersistentVolumeClaims were read: 1 pod with such claims stays on its node."
	if !slices.Contains(seen.Notes, want) {
		t.Errorf("notes %q, want %q", seen.Notes, want)
	}
}

func TestPodsWhoseNodesWereNotReadAreCountedInANote(t *testing.T) {
	for _, tc := range []struct {
		pods []corev1.Pod
		want string
	}{
		{[]corev1.Pod{podOf("one", "gone")}, "1 pod is not included in any figure: its node gone was not read."},
		{
			[]corev1.Pod{podOf("one", "gone"), podOf("two", "away"), podOf("three", "away")},
			"3 pods are not included in any figure: their nodes, such as away, were not read.",
		},
	} {
		o := &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge")}, Pods: append([]corev1.Pod{podOf("web", "a"), podOf("waits", "")}, tc.pods...)}
		seen := observed(t, o)
		if !slices.Contains(seen.Notes, tc.want) {
			t.Errorf("notes %q lack %q", seen.Notes, tc.want)
		}
		if seen.Pending != 1 {
			t.Errorf("%d pods are pending", seen.Pending)
		}
	}
}

// daemonOf returns a DaemonSet whose pods request or are limited to an amount of CPU.
func daemonOf(name string, resources corev1.ResourceRequirements, change func(*corev1.PodSpec)) appsv1.DaemonSet {
	set := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID(name)}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Resources: resources}}
	if change != nil {
		change(&set.Spec.Template.Spec)
	}
	return set
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

// TestDaemonSetsCountWithTheirLimitsWhereTheyHaveNoRequests: the API server sets the requests of a pod, but not those of
// a template.
func TestDaemonSetsCountWithTheirLimitsWhereTheyHaveNoRequests(t *testing.T) {
	o := &objects.Objects{
		Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge")}, Pods: []corev1.Pod{podOf("p", "a")},
		Daemons: []appsv1.DaemonSet{daemonOf("agent", corev1.ResourceRequirements{Limits: cpu("1500m")}, nil)},
	}
	for _, f := range observed(t, o).Flavors {
		if f.InstanceType == "m5.xlarge" && f.Size.MilliCPU != 2420 {
			t.Errorf("pods may use %d milli-CPU of it", f.Size.MilliCPU)
		}
	}
}

// TestTypesWithUnknownLabelsMayRunAllDaemonSetsThatReferToThem has one DaemonSet for small and one for large machines.
// Whether a machine of a type that the cluster does not have is small is not known.
func TestTypesWithUnknownLabelsMayRunAllDaemonSetsThatReferToThem(t *testing.T) {
	const label = "karpenter.k8s.aws/instance-cpu"
	bySize := func(operator corev1.NodeSelectorOperator, than string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: operator, Values: []string{than}}}}},
			}}}
		}
	}
	windows := func(s *corev1.PodSpec) {
		s.NodeSelector = map[string]string{label: "4", corev1.LabelOSStable: "windows"}
	}
	o := &objects.Objects{
		Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge", func(n *corev1.Node) { n.Labels[label] = "4" })}, Pods: []corev1.Pod{podOf("p", "a")},
		Daemons: []appsv1.DaemonSet{
			daemonOf("small", corev1.ResourceRequirements{Requests: cpu("100m")}, bySize(corev1.NodeSelectorOpLt, "9")),
			daemonOf("large", corev1.ResourceRequirements{Requests: cpu("1")}, bySize(corev1.NodeSelectorOpGt, "8")),
			daemonOf("windows", corev1.ResourceRequirements{Requests: cpu("1")}, windows),
		},
	}
	seen, err := Of(context.Background(), o, Options{Now: now, InstanceTypes: []string{"m5.xlarge", "own.large"}, Pricing: Pricing{Own: []catalogue.Price{priceOf("own.large", 100_000, nil)}}})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, f := range seen.Flavors {
		found[f.InstanceType] = f.Size.MilliCPU
	}
	if diff := cmp.Diff(map[string]int64{"m5.xlarge": 3820, "own.large": 900}, found); diff != "" {
		t.Errorf("CPU by type (-want +got):\n%s", diff)
	}
}

// TestAPodDoesNotMoveToAPortThatADaemonSetTakes has a pod with the host port of a DaemonSet that runs on another pool.
func TestAPodDoesNotMoveToAPortThatADaemonSetTakes(t *testing.T) {
	port := func(spec *corev1.PodSpec) {
		spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}}
	}
	for _, tc := range []struct {
		name   string
		hasSet bool // the DaemonSets were read; otherwise they are derived from their pods
		takes  bool
	}{{"the port is taken", true, true}, {"by the pods alone", false, true}, {"the DaemonSet has none", true, false}} {
		t.Run(tc.name, func(t *testing.T) {
			onA := func(s *corev1.PodSpec) {
				s.NodeSelector = map[string]string{"pool": "a"}
				if tc.takes {
					port(s)
				}
			}
			proxy := podOf("proxy-1", "a", func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "proxy", Controller: new(true)}}
				onA(&p.Spec)
			})
			o := &objects.Objects{
				Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge", label("pool", "a")), fixtures.CloudNode("b", "m5.xlarge", label("pool", "b"))},
				Pods: []corev1.Pod{
					proxy, podOf("api", "a", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": "a"} }),
					podOf("gate", "b", func(p *corev1.Pod) { port(&p.Spec) }),
				},
			}
			if tc.hasSet {
				set := daemonOf("proxy", proxy.Spec.Containers[0].Resources, onA)
				set.Namespace, set.UID = "shop", ""
				o.Daemons = []appsv1.DaemonSet{set}
			}
			seen, err := Of(context.Background(), o, Options{Now: now, InstanceTypes: []string{"m5.xlarge"}})
			if err != nil {
				t.Fatal(err)
			}
			want := dollars.Amount(384_000)
			if !tc.takes {
				want /= 2
			}
			if r := audit.Audit(*seen); r.Moved.PerHour != want || r.Cheapest.PerHour != want {
				t.Errorf("by moving %d, cheapest %d, want %d", r.Moved.PerHour, r.Cheapest.PerHour, want)
			}
		})
	}
}

// TestAPodThatIsNominatedToANodeHasNoNode: it takes no room of the node, has no part of its bill, and keeps it for nothing.
// The pods that it preempts are still there.
func TestAPodThatIsNominatedToANodeHasNoNode(t *testing.T) {
	nominated := podOf("urgent", "", func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, NominatedNodeName: "a"}
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "absent"}}}}
	})
	o := &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge")}, Pods: []corev1.Pod{podOf("web", "a"), nominated}}
	got := observed(t, o)
	if n := got.Nodes[0]; n.AllPods != 1 || len(n.Pods) != 1 || n.Requested.MilliCPU != 500 || n.Stays != "" || got.Pending != 1 {
		t.Errorf("%d pods that request %d milli-CPUs on a node that stays for %q, %d pending; want web alone, and one pending", n.AllPods, n.Requested.MilliCPU, n.Stays, got.Pending)
	}
	if o.Pods[1].Status.NominatedNodeName != "a" {
		t.Error("the audit changes the objects")
	}
}

// TestANodeThatHasNoRoomYetDoesNotShrinkItsType, as of a kubelet that has not reported.
func TestANodeThatHasNoRoomYetDoesNotShrinkItsType(t *testing.T) {
	none := func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("0"), "memory": resource.MustParse("0"), "pods": resource.MustParse("0")}
	}
	seen := observed(t, &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge"), fixtures.CloudNode("new", "m5.xlarge", none)}, Pods: []corev1.Pod{podOf("p", "a")}})
	if f := flavorOf(seen, "m5.xlarge"); f == nil || f.Size.MilliCPU != 3920 {
		t.Errorf("%+v is for sale, want a machine with 3.92 CPUs", f)
	}
	if seen.Nodes[1].Unpriced != "" || seen.Nodes[1].MicroDollarsPerHour == 0 {
		t.Errorf("the new node has no price: %q", seen.Nodes[1].Unpriced)
	}
}

// TestMachinesForSaleAttachAsManyVolumesAsTheNodesThatAreThere has pods for which two machines have room.
func TestMachinesForSaleAttachAsManyVolumesAsTheNodesThatAreThere(t *testing.T) {
	attaches := func(count int32) []storagev1.CSINode {
		return []storagev1.CSINode{{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "ebs.csi.aws.com", Allocatable: &storagev1.VolumeNodeResources{Count: &count}},
		}}}}
	}
	for name, tc := range map[string]struct {
		drivers []storagev1.CSINode
		missing map[string]string
		want    int
	}{
		"four at most":                  {attaches(4), map[string]string{}, 2},
		"one at most":                   {attaches(1), map[string]string{}, 4},
		"CSINodes that may not be read": {nil, map[string]string{"CSINodes": "forbidden"}, 2},
		"a dump without CSINodes":       {nil, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			o := &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge"), fixtures.CloudNode("b", "m5.xlarge")}, Drivers: tc.drivers, Missing: tc.missing}
			for i, node := range []string{"a", "a", "b", "b"} {
				volume := fmt.Sprint("disk-", i)
				o.Pods = append(o.Pods, podOf(fmt.Sprint("p", i), node, func(p *corev1.Pod) {
					p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: volume}}}}
				}))
				o.Claims = append(o.Claims, corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: volume, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
					Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
				})
				o.Volumes = append(o.Volumes, corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: corev1.PersistentVolumeSpec{
					PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}},
					AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				}})
			}
			seen := observed(t, o)
			if r := audit.Audit(*seen); r.Cheapest.Nodes != tc.want || len(r.Staying) > 0 {
				t.Errorf("%d machines, want %d; staying %v", r.Cheapest.Nodes, tc.want, r.Staying)
			}
		})
	}
}

// TestAMachineForSaleAttachesWhatNodesOfItsTypeDo, and others what every node does.
func TestAMachineForSaleAttachesWhatNodesOfItsTypeDo(t *testing.T) {
	o := &objects.Objects{Nodes: []corev1.Node{fixtures.CloudNode("a", "m5.xlarge"), fixtures.CloudNode("b", "m5.2xlarge")}, Pods: []corev1.Pod{podOf("p", "a")}, Missing: map[string]string{}}
	for name, count := range map[string]int32{"a": 4, "b": 9} {
		o.Drivers = append(o.Drivers, storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: "ebs.csi.aws.com", Allocatable: &storagev1.VolumeNodeResources{Count: &count}},
		}}})
	}
	seen := observed(t, o)
	others := 0
	for i := range seen.Flavors {
		f, want := &seen.Flavors[i], int64(4)
		switch f.InstanceType {
		case "m5.xlarge":
		case "m5.2xlarge":
			want = 9
		default:
			others++
		}
		if got := f.Host.Attaches["ebs.csi.aws.com"]; got != want {
			t.Errorf("a machine of type %s attaches %d volumes, want %d", f.InstanceType, got, want)
		}
	}
	if flavorOf(seen, "m5.2xlarge") == nil || others == 0 {
		t.Errorf("for sale are %d machines of other types", others)
	}
}
