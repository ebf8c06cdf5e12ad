package clusterapi

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/packing"
)

const (
	gib         = 1 << 30
	priceKey    = "supercargo.dev/price-per-hour"
	minKey      = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	maxKey      = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	cpuKey      = "capacity.cluster-autoscaler.kubernetes.io/cpu"
	memoryKey   = "capacity.cluster-autoscaler.kubernetes.io/memory"
	podsKey     = "capacity.cluster-autoscaler.kubernetes.io/maxPods"
	labelsKey   = "capacity.cluster-autoscaler.kubernetes.io/labels"
	taintsKey   = "capacity.cluster-autoscaler.kubernetes.io/taints"
	gpuTypeKey  = "capacity.cluster-autoscaler.kubernetes.io/gpu-type"
	gpuCountKey = "capacity.cluster-autoscaler.kubernetes.io/gpu-count"
	diskKey     = "capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk"
	driversKey  = "capacity.cluster-autoscaler.kubernetes.io/csi-driver"
	joinKey     = "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime"
	idleKey     = "cluster.x-k8s.io/autoscaling-options-scaledownunneededtime"
	shareKey    = "cluster.x-k8s.io/autoscaling-options-scaledownutilizationthreshold"
)

// deployment has three replicas and the annotations given as pairs.
func deployment(pairs ...string) *clusterv1.MachineDeployment {
	d := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "small", Annotations: map[string]string{}}}
	d.Spec.Replicas = new(int32(3))
	for i := 0; i < len(pairs); i += 2 {
		d.Annotations[pairs[i]] = pairs[i+1]
	}
	return d
}

// sized states the capacity of its machines.
func sized(pairs ...string) *clusterv1.MachineDeployment {
	return deployment(append([]string{cpuKey, "4", memoryKey, "16Gi"}, pairs...)...)
}

func nothing() *template { return &template{capacity: corev1.ResourceList{}} }

func capacity(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// readyNode is a node that has started.
func readyNode(name string, allocatable corev1.ResourceList) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Allocatable: allocatable,
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func TestAnnotationsOfClusterAutoscalerAreRead(t *testing.T) {
	got := flavor(sized(minKey, "1", maxKey, "9", podsKey, "32", labelsKey, "disk=ssd, zone=a,empty=,odd=x=y",
		taintsKey, "gpu=true:NoSchedule, spot:PreferNoSchedule,gone=:NoExecute", joinKey, "20m", idleKey, "90s", shareKey, "0.35", priceKey, "0.192"), nothing(), nil)
	want := provider.Flavor{
		Name: "small", Size: packing.Size{MilliCPU: 4000, MemoryBytes: 16 * gib}, MaxPods: 32, Min: 1, Max: 9, Want: 3,
		Labels: map[string]string{"disk": "ssd", "zone": "a", "empty": "", "odd": "x=y", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
			"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux"},
		Taints: []corev1.Taint{
			{Key: "gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}, {Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule},
			{Key: "gone", Effect: corev1.TaintEffectNoExecute},
		},
		JoinTimeout: new(20 * time.Minute), UnneededTime: new(90 * time.Second), Threshold: new(0.35),
		MicroDollarsPerHour: 192_000, HasPrice: true,
	}
	want.Stated = want.Taints
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flavor (-want +got):\n%s", diff)
	}
}

func TestATaintThatIsNamedForTheTimeOfTheStartIsNotExpectedOfNodes(t *testing.T) {
	const startup = "startup-taint.cluster-autoscaler.kubernetes.io/driver"
	d := sized(taintsKey, startup+"=x:NoSchedule,gpu=true:NoSchedule")
	node := readyNode("n", capacity("cpu", "4", "memory", "16Gi"))
	node.Spec.Taints = []corev1.Taint{{Key: startup, Value: "x", Effect: corev1.TaintEffectNoSchedule}, {Key: "gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	for _, n := range []*corev1.Node{nil, node} {
		if got := flavor(d, nothing(), n).Taints; len(got) != 1 || got[0].Key != "gpu" {
			t.Errorf("taints %v", got)
		}
	}
}

func TestWithoutAnnotationsThereAreDefaults(t *testing.T) {
	d := sized()
	d.Spec.Replicas = nil
	want := provider.Flavor{
		Name: "small", Size: packing.Size{MilliCPU: 4000, MemoryBytes: 16 * gib}, MaxPods: 110, Max: math.MaxInt32,
		Labels: map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux"},
	}
	if diff := cmp.Diff(want, flavor(d, nothing(), nil)); diff != "" {
		t.Errorf("flavor (-want +got):\n%s", diff)
	}
}

func TestAFaultInAnAnnotationIsAProblemThatNamesIt(t *testing.T) {
	tests := []struct{ key, value, want string }{
		{minKey, "-1", "a number of machines"},
		{minKey, "1.5", "a number of machines"},
		{minKey, "", "a number of machines"},
		{maxKey, "many", "a number of machines"},
		{maxKey, "2147483648", "a number of machines"},
		{cpuKey, "four", "a positive quantity"},
		{cpuKey, "0", "a positive quantity"},
		{cpuKey, "-4", "a positive quantity"},
		{memoryKey, "16 GiB", "a positive quantity"},
		{podsKey, "x", "a positive quantity"},
		{podsKey, "0", "a positive quantity"},
		{joinKey, "20", "a duration"},
		{joinKey, "-1m", "a duration"},
		{idleKey, "soon", "a duration"},
		{shareKey, "50%", "a share"},
		{shareKey, "1.01", "a share"},
		{shareKey, "-0.1", "a share"},
		{shareKey, "NaN", "a share"},
		{priceKey, "1e3", "dollars per hour"},
		{priceKey, "-1", "dollars per hour"},
		{labelsKey, "disk", "labels"},
		{labelsKey, "=ssd", "labels"},
		{labelsKey, "a=b,,c=d", "labels"},
		{gpuCountKey, "-1", "a number of GPUs"},
		{gpuCountKey, "two", "a number of GPUs"},
		{diskKey, "all", "a positive quantity"},
		{driversKey, "ebs.csi.aws.com", "CSI drivers"},
		{driversKey, "ebs.csi.aws.com=many", "CSI drivers"},
		{driversKey, "ebs.csi.aws.com=-1", "CSI drivers"},
		{taintsKey, "gpu=true", "taints"},
		{taintsKey, "gpu=true:Never", "taints"},
		{taintsKey, ":NoSchedule", "taints"},
		{taintsKey, "a=b:NoSchedule,", "taints"},
	}
	for _, tc := range tests {
		t.Run(tc.key+"="+tc.value, func(t *testing.T) {
			for _, node := range []*corev1.Node{nil, readyNode("n", capacity("cpu", "4", "memory", "16Gi", "pods", "10"))} {
				got := flavor(sized(tc.key, tc.value), nothing(), node).Problem
				if !strings.Contains(got, tc.key) || !strings.Contains(got, `"`+tc.value+`"`) || !strings.Contains(got, "must be "+tc.want) {
					t.Errorf("the problem is %q", got)
				}
			}
		})
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	got := flavor(deployment(cpuKey, "x", minKey, "y", priceKey, "z"), nothing(), nil).Problem
	for _, key := range []string{cpuKey, minKey, priceKey} {
		if !strings.Contains(got, key) {
			t.Errorf("%s is missing in %q", key, got)
		}
	}
}

func TestMachinesThatCannotBeBoughtSayWhy(t *testing.T) {
	changed := func(change func(d *clusterv1.MachineDeployment)) *clusterv1.MachineDeployment {
		d := sized()
		change(d)
		return d
	}
	tests := []struct {
		name string
		d    *clusterv1.MachineDeployment
		want string
	}{
		{"nothing is wrong", sized(), ""},
		{"it goes", changed(func(d *clusterv1.MachineDeployment) { d.DeletionTimestamp = new(metav1.Now()) }), "is being deleted"},
		{"it is paused", changed(func(d *clusterv1.MachineDeployment) { d.Spec.Paused = new(true) }), "is paused"},
		{"it is said not to be paused", changed(func(d *clusterv1.MachineDeployment) { d.Spec.Paused = new(false) }), ""},
		{"it is paused by annotation, whatever that says", sized("cluster.x-k8s.io/paused", "false"), "is paused"},
		{"no CPU is known", deployment(memoryKey, "1Gi"), "the capacity of its machines is unknown"},
		{"no memory is known", deployment(cpuKey, "1"), "the capacity of its machines is unknown"},
		{"more at least than at most", sized(minKey, "3", maxKey, "2"), "min-size is 3, must be at most"},
		{"as many at least as at most", sized(minKey, "3", maxKey, "3"), ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := flavor(tc.d, nothing(), nil)
			got := f.Problem
			if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("the problem is %q, want %q", got, tc.want)
			}
			if held := tc.want == "is paused"; (f.Held != "") != held {
				t.Errorf("it is held: %q", f.Held)
			}
		})
	}
}

func TestADrainTimeoutShorterThanAMigrationIsWarnedAbout(t *testing.T) {
	for _, tc := range []struct {
		name    string
		seconds *int32
		want    bool
	}{
		{"none", nil, false},
		{"without limit", new(int32(0)), false},
		{"a minute", new(int32(60)), true},
		{"a second less than a migration may take", new(int32(299)), true},
		{"as long as a migration may take", new(int32(300)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := sized()
			d.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = tc.seconds
			f := flavor(d, nothing(), nil)
			if f.Problem != "" {
				t.Errorf("none could be bought: %s", f.Problem)
			}
			if got := strings.Contains(f.Warning, "nodeDrainTimeoutSeconds") && strings.Contains(f.Warning, "5m0s"); got != tc.want {
				t.Errorf("the warning is %q, want one: %v", f.Warning, tc.want)
			}
		})
	}
}

// TestSizesAreThoseOfARealNodeThenOfAnnotationsThenOfTheTemplate uses the precedence of cluster-autoscaler: annotations
// that promise more than machines have must not make a fleet buy without end for a pod that fits only the promise.
func TestSizesAreThoseOfARealNodeThenOfAnnotationsThenOfTheTemplate(t *testing.T) {
	tmpl := func() *template { return &template{capacity: capacity("cpu", "1", "memory", "1Gi", "pods", "1")} }
	full := sized(podsKey, "4")
	tests := []struct {
		name      string
		d         *clusterv1.MachineDeployment
		t         *template
		node      *corev1.Node
		cpu, size int64
		pods      int64
	}{
		{"all say it", full, tmpl(), readyNode("n", capacity("cpu", "3900m", "memory", "15Gi", "pods", "30")), 3900, 15 * gib, 30},
		{"no node", full, tmpl(), nil, 4000, 16 * gib, 4},
		{"the template alone", deployment(), tmpl(), nil, 1000, gib, 1},
		{"each resource is taken from the first that says it", deployment(cpuKey, "2"), tmpl(), readyNode("n", capacity("memory", "3Gi")), 2000, 3 * gib, 1},
		{"nobody says how many pods", sized(), nothing(), nil, 4000, 16 * gib, 110},
		{"a fraction of a millicore does not count", sized(cpuKey, "0.5001"), nothing(), nil, 501, 16 * gib, 110},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := flavor(tc.d, tc.t, tc.node)
			if want := (packing.Size{MilliCPU: tc.cpu, MemoryBytes: tc.size}); f.Size != want || f.MaxPods != tc.pods || f.Problem != "" {
				t.Errorf("size %+v with %d pods (problem %q), want %+v with %d", f.Size, f.MaxPods, f.Problem, want, tc.pods)
			}
		})
	}
}

// TestGPUsAndOtherResourcesAreThoseOfTheFirstSourceThatHasSome: a node may not have published them yet.
func TestGPUsAndOtherResourcesAreThoseOfTheFirstSourceThatHasSome(t *testing.T) {
	type resources = map[corev1.ResourceName]int64
	tests := []struct {
		name string
		d    *clusterv1.MachineDeployment
		t    corev1.ResourceList
		node *corev1.Node
		want resources
	}{
		{"nothing", sized(), nil, readyNode("n", capacity("cpu", "4", "memory", "16Gi", "ephemeral-storage", "9Gi")), nil},
		{"their number", sized(gpuCountKey, "2"), nil, nil, resources{"nvidia.com/gpu": 2}},
		{"none", sized(gpuCountKey, "0", gpuTypeKey, "amd.com/gpu"), nil, nil, nil},
		{"their number and kind", sized(gpuCountKey, "2", gpuTypeKey, "amd.com/gpu"), nil, nil, resources{"amd.com/gpu": 2}},
		{"the template", sized(), capacity("nvidia.com/gpu", "1", "example.com/nic", "3"), nil, resources{"nvidia.com/gpu": 1, "example.com/nic": 3}},
		{"the template and annotations", sized(gpuCountKey, "2"), capacity("nvidia.com/gpu", "1", "example.com/nic", "3"), nil, resources{"nvidia.com/gpu": 2, "example.com/nic": 3}},
		{"a node that has fewer", sized(gpuCountKey, "2"), nil, readyNode("n", capacity("nvidia.com/gpu", "1", "hugepages-2Mi", "4Mi")), resources{"nvidia.com/gpu": 1, "hugepages-2Mi": 4 << 20}},
		{"a node that has none yet", sized(gpuCountKey, "2"), nil, readyNode("n", capacity("nvidia.com/gpu", "0")), resources{"nvidia.com/gpu": 2}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := flavor(tc.d, &template{capacity: tc.t}, tc.node)
			if diff := cmp.Diff(tc.want, f.Extended); diff != "" || f.Problem != "" {
				t.Errorf("problem %q (-want +got):\n%s", f.Problem, diff)
			}
		})
	}
	for _, kind := range []string{"cpu", "two words", "memory"} {
		if got := flavor(sized(gpuCountKey, "1", gpuTypeKey, kind), nothing(), nil).Problem; !strings.Contains(got, gpuTypeKey) || !strings.Contains(got, "the name of a resource") {
			t.Errorf("GPUs called %q: the problem is %q", kind, got)
		}
	}
}

func TestEphemeralStorageAndCSIDriversAreStated(t *testing.T) {
	f := flavor(sized(diskKey, "5Gi", driversKey, "ebs.csi.aws.com=25, files=0"), nothing(), nil)
	if diff := cmp.Diff(map[string]int64{"ebs.csi.aws.com": 25, "files": 0}, f.Attaches); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if f.EphemeralStorage == nil || *f.EphemeralStorage != 5*gib {
		t.Errorf("the ephemeral storage is %v", f.EphemeralStorage)
	}
	if f := flavor(sized(diskKey, "5Gi"), nothing(), readyNode("n", capacity("ephemeral-storage", "4Gi"))); *f.EphemeralStorage != 4*gib {
		t.Errorf("the ephemeral storage is %d, and that of a node 4 GiB", *f.EphemeralStorage)
	}
	if f := flavor(sized(), nothing(), nil); f.EphemeralStorage != nil || f.Attaches != nil {
		t.Errorf("%v and %v are known of a flavor that states neither", f.EphemeralStorage, f.Attaches)
	}
}

func TestLabelsAndTaintsOfNodesThatAreNotThereYet(t *testing.T) {
	d := sized(labelsKey, "disk=ssd,kubernetes.io/arch=riscv64", taintsKey, "gpu=true:NoSchedule")
	d.Spec.Template.Labels = map[string]string{
		"node-role.kubernetes.io/worker": "", "node.cluster.x-k8s.io/pool": "blue", "team": "red", "deep.node-restriction.kubernetes.io/a": "b",
		"topology.kubernetes.io/zone": "not copied",
	}
	d.Spec.Template.Spec.FailureDomain = "zone-1"
	d.Spec.Template.Spec.Taints = []clusterv1.MachineTaint{
		{Key: "always", Value: "x", Effect: corev1.TaintEffectNoExecute, Propagation: clusterv1.MachineTaintPropagationAlways},
		{Key: "first", Effect: corev1.TaintEffectNoSchedule, Propagation: clusterv1.MachineTaintPropagationOnInitialization},
		{Key: "gpu", Value: "false", Effect: corev1.TaintEffectNoSchedule, Propagation: clusterv1.MachineTaintPropagationAlways},
	}
	tmpl := nothing()
	tmpl.arch, tmpl.os = "arm64", "windows"

	f := flavor(d, tmpl, nil)
	labels := map[string]string{
		"kubernetes.io/arch": "riscv64", "kubernetes.io/os": "windows", "topology.kubernetes.io/zone": "zone-1", "disk": "ssd",
		"node-role.kubernetes.io/worker": "", "node.cluster.x-k8s.io/pool": "blue", "deep.node-restriction.kubernetes.io/a": "b",
		"beta.kubernetes.io/arch": "riscv64", "beta.kubernetes.io/os": "windows", "failure-domain.beta.kubernetes.io/zone": "zone-1",
		"topology.ebs.csi.aws.com/zone": "zone-1", "topology.gke.io/zone": "zone-1", "topology.disk.csi.azure.com/zone": "zone-1",
		"topology.cinder.csi.openstack.org/zone": "zone-1", "topology.csi.vmware.com/k8s-zone": "zone-1",
	}
	always := corev1.Taint{Key: "always", Value: "x", Effect: corev1.TaintEffectNoExecute}
	gpu := corev1.Taint{Key: "gpu", Value: "false", Effect: corev1.TaintEffectNoSchedule}
	if diff := cmp.Diff(labels, f.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Taint{always, gpu}, f.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}

	node := readyNode("n", capacity("cpu", "4", "memory", "16Gi"))
	node.Labels = map[string]string{
		"kubernetes.io/hostname": "n", "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.xlarge", "node.cluster.x-k8s.io/pool": "old",
	}
	own := corev1.Taint{Key: "dedicated", Value: "batch", Effect: corev1.TaintEffectNoSchedule}
	node.Spec.Taints = []corev1.Taint{
		own, {Key: "node.kubernetes.io/unschedulable", Effect: corev1.TaintEffectNoSchedule}, {Key: "node.cloudprovider.kubernetes.io/uninitialized"},
		{Key: "node.cluster.x-k8s.io/uninitialized"}, {Key: "supercargo.dev/x"}, {Key: "DeletionCandidateOfClusterAutoscaler"}, {Key: "ToBeDeletedByClusterAutoscaler"}, {Key: "status-taint.cluster-autoscaler.kubernetes.io/full"},
	}
	f = flavor(d, tmpl, node)
	labels = map[string]string{
		"kubernetes.io/arch": "amd64", "kubernetes.io/os": "windows", "topology.kubernetes.io/zone": "zone-1", "node.kubernetes.io/instance-type": "m5.xlarge",
		"node-role.kubernetes.io/worker": "", "node.cluster.x-k8s.io/pool": "blue", "deep.node-restriction.kubernetes.io/a": "b",
	}
	if diff := cmp.Diff(labels, f.Labels); diff != "" {
		t.Errorf("labels beside a node, which lacks what annotations promise (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Taint{own, always, gpu}, f.Taints); diff != "" {
		t.Errorf("taints beside a node (-want +got):\n%s", diff)
	}
	if f.InstanceType != "m5.xlarge" {
		t.Errorf("the instance type is %q", f.InstanceType)
	}
	if node.Labels["node.cluster.x-k8s.io/pool"] != "old" || len(node.Spec.Taints) != 8 {
		t.Error("the node was modified")
	}
}

func TestTaintsOfTheSameKeyDifferByEffect(t *testing.T) {
	f := flavor(sized(taintsKey, "a=1:NoSchedule,a=2:NoExecute,a=3:NoSchedule"), nothing(), nil)
	want := []corev1.Taint{{Key: "a", Value: "1", Effect: corev1.TaintEffectNoSchedule}, {Key: "a", Value: "2", Effect: corev1.TaintEffectNoExecute}}
	if diff := cmp.Diff(want, f.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}
}

func TestANodeThatIsStartingIsOnlyAskedWhereNothingElseIsKnown(t *testing.T) {
	node := readyNode("n", capacity("cpu", "3", "memory", "15Gi"))
	node.Spec.Taints = []corev1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule}}
	if got := flavorLike(sized(), nothing(), node, started(node)).Size.MilliCPU; got != 4000 {
		t.Errorf("CPU %d, want that of the annotation", got)
	}
	if got := flavorLike(deployment(), nothing(), node, started(node)).Size.MilliCPU; got != 3000 {
		t.Errorf("CPU %d, want that of the node", got)
	}
	if flavorLike(deployment(), nothing(), node, started(node)).Seen {
		t.Error("what a starting node has is taken for what machines hold")
	}
	node.Spec.Taints = nil
	if got := flavorLike(sized(), nothing(), node, started(node)); got.Size.MilliCPU != 3000 || !got.Seen {
		t.Errorf("CPU %d, seen %t; want that of the node, which has started", got.Size.MilliCPU, got.Seen)
	}
	if flavorLike(sized(), nothing(), nil, false).Seen {
		t.Error("a promise is taken for what machines hold")
	}
}

func TestTheInstanceTypeIsKnownWithoutANode(t *testing.T) {
	of := func(kind string, spec map[string]any) *template {
		found := nothing()
		found.read(infrastructureOf(kind, spec)[1].(*unstructured.Unstructured))
		return found
	}
	for _, tc := range []struct {
		name     string
		template *template
		node     map[string]string
		pairs    []string
		want     string
	}{
		{"AWS", of("AWSMachineTemplate", map[string]any{"instanceType": "m7i.large"}), nil, nil, "m7i.large"},
		{"Azure", of("AzureMachineTemplate", map[string]any{"vmSize": "Standard_D4s_v5"}), nil, nil, "Standard_D4s_v5"},
		{"OpenStack, as a filter", of("OpenStackMachineTemplate", map[string]any{"flavor": map[string]any{"filter": map[string]any{"name": "m1.large"}}}), nil, nil, "m1.large"},
		{"OpenStack, by an ID that takes precedence", of("OpenStackMachineTemplate", map[string]any{"flavor": "m1.large", "flavorID": "7"}), nil, nil, ""},
		{"a kind that is not known", of("DevMachineTemplate", map[string]any{"instanceType": "x"}), nil, nil, ""},
		{"an annotation takes precedence", of("AWSMachineTemplate", map[string]any{"instanceType": "m7i.large"}), nil,
			[]string{labelsKey, corev1.LabelInstanceTypeStable + "=m7i.xlarge"}, "m7i.xlarge"},
		{"a node takes precedence", of("AWSMachineTemplate", map[string]any{"instanceType": "m7i.large"}), map[string]string{corev1.LabelInstanceTypeStable: "m6i.large"}, nil, "m6i.large"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var node *corev1.Node
			if tc.node != nil {
				node = readyNode("n", capacity("cpu", "4", "memory", "16Gi"))
				node.Labels = tc.node
			}
			f := flavor(sized(tc.pairs...), tc.template, node)
			if f.InstanceType != tc.want || f.Labels[corev1.LabelInstanceTypeStable] != tc.want {
				t.Errorf("instance type %q, label %q, want %q", f.InstanceType, f.Labels[corev1.LabelInstanceTypeStable], tc.want)
			}
		})
	}
}

func TestTheStatusOfATemplateIsRead(t *testing.T) {
	got := nothing()
	got.read(&unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"capacity": map[string]any{"cpu": "2", "memory": "4Gi", "pods": int64(20), "broken": "x", "none": nil},
		"nodeInfo": map[string]any{"architecture": "arm64", "operatingSystem": "linux"},
	}}})
	if cpu, memory, pods := got.capacity.Cpu().MilliValue(), got.capacity.Memory().Value(), got.capacity.Pods().Value(); cpu != 2000 || memory != 4*gib || pods != 20 {
		t.Errorf("CPU %d, memory %d, pods %d", cpu, memory, pods)
	}
	if len(got.capacity) != 3 || got.arch != "arm64" || got.os != "linux" {
		t.Errorf("the template says %+v", got)
	}
	nobody := nothing()
	nobody.read(&unstructured.Unstructured{Object: map[string]any{"status": "odd"}})
	if len(nobody.capacity) != 0 || nobody.arch != "" {
		t.Errorf("a template without a status says %+v", nobody)
	}
}
