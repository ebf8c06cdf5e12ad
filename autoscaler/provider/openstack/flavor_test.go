package openstack

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/limits"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"supercargo.dev/supercargo/api/v1alpha1"
	"supercargo.dev/supercargo/autoscaler/provider"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// shelf is a stock with two flavors in two zones, one of which is down.
func shelf() *stock {
	return &stock{
		flavors: []flavors.Flavor{{ID: "id-l", Name: "large", VCPUs: 4, RAM: 16384, Disk: 20}, {ID: "id-s", Name: "small", VCPUs: 1, RAM: 2048, Disk: 10}},
		zones:   map[string]bool{"up": true, "down": false},
		image:   &images.Image{ID: "id-i", Name: "node", MinDiskGigabytes: 10},
	}
}

func TestEachFlavorIsOfferedInEachZone(t *testing.T) {
	s := shelf()
	s.missing = []string{"huge"}
	tests := []struct {
		name string
		spec v1alpha1.OpenStackServers
		want map[string]string // the beginning of the problem, by name
	}{
		{"without zones", v1alpha1.OpenStackServers{}, map[string]string{"large": "", "small": "", "huge": "spec.openStack.flavors: the project has access to no flavor"}},
		{"in zones", v1alpha1.OpenStackServers{AvailabilityZones: []string{"up", "down", "moon"}}, map[string]string{
			"large@up": "", "large@down": `the cloud reports availability zone "down"`, "large@moon": "spec.openStack.availabilityZones: the cloud has no zone",
			"small@up": "", "small@down": `the cloud reports availability zone "down"`, "small@moon": "spec.openStack.availabilityZones: the cloud has no zone",
			"huge@up": "spec.openStack.flavors: the project has access to no flavor", "huge@down": "spec.openStack.flavors: the project has access to no flavor", "huge@moon": "spec.openStack.flavors: the project has access to no flavor",
		}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			all := s.offers(&tc.spec)
			if len(all) != len(tc.want) {
				t.Errorf("%d offers, want %d", len(all), len(tc.want))
			}
			for _, o := range all {
				want, ok := tc.want[o.name]
				if !ok || (o.problem == "") != (want == "") || !strings.HasPrefix(o.problem, want) {
					t.Errorf("offer %s has problem %q, want %q", o.name, o.problem, want)
				}
				if o.problem != "" && !o.named {
					t.Errorf("the problem of %s is for nobody", o.name)
				}
				if found, ok := s.find(&tc.spec, o.name); !ok || found.name != o.name {
					t.Errorf("offer %s is not found", o.name)
				}
			}
		})
	}
	if _, ok := s.find(&v1alpha1.OpenStackServers{}, "tiny"); ok {
		t.Error("what is not offered is found")
	}
}

func TestAFlavorThatCannotHoldTheImageSaysWhy(t *testing.T) {
	tests := []struct {
		name   string
		change func(*flavors.Flavor, *images.Image)
		says   string
	}{
		{"no disk", func(f *flavors.Flavor, _ *images.Image) { f.Disk = 0 }, "flavor large has no disk"},
		{"small disk", func(_ *flavors.Flavor, i *images.Image) { i.MinDiskGigabytes = 21 }, "has 20 GB, but image node needs 21"},
		{"little memory", func(_ *flavors.Flavor, i *images.Image) { i.MinRAMMegabytes = 16385 }, "has 16384 MiB of memory, but image node needs 16385"},
		{"just enough", func(_ *flavors.Flavor, i *images.Image) { i.MinDiskGigabytes, i.MinRAMMegabytes = 20, 16384 }, ""},
	}
	for _, tc := range tests {
		s := shelf()
		tc.change(&s.flavors[0], s.image)
		for _, named := range []bool{false, true} {
			spec := &v1alpha1.OpenStackServers{}
			if named {
				spec.Flavors = []string{"large"}
			}
			o, _ := s.find(spec, "large")
			if !strings.Contains(o.problem, tc.says) || (o.problem == "") != (tc.says == "") || o.named != named {
				t.Errorf("%s: problem %q, named %v; want %q, %v", tc.name, o.problem, o.named, tc.says, named)
			}
		}
	}
}

// fleetOf returns a fleet of batch machines with this spec.
func fleetOf(spec *v1alpha1.OpenStackServers) *v1alpha1.NodeFleet {
	return &v1alpha1.NodeFleet{ObjectMeta: metav1.ObjectMeta{Name: "batch"}, Spec: v1alpha1.NodeFleetSpec{Class: v1alpha1.FleetBatch, OpenStack: spec}}
}

func TestAFlavorPromisesWhatIsLeftOfItUntilANodeHasBeenSeen(t *testing.T) {
	spec := &v1alpha1.OpenStackServers{
		AvailabilityZones: []string{"up"}, Region: "North", MaxPods: 110, NodeLabels: map[string]string{"team": "a"},
		NodeTaints: []corev1.Taint{{Key: "rented", Effect: corev1.TaintEffectNoSchedule}},
		Reserved:   v1alpha1.OpenStackReserve{CPU: resource.MustParse("200m"), Memory: resource.MustParse("1Gi")},
	}
	s := shelf()
	o, _ := s.find(spec, "large@up")
	want := provider.Flavor{
		Name: "large@up", InstanceType: "large", MaxPods: 110, Template: "id-l/id-i",
		Sold: packing.Size{MilliCPU: 4000, MemoryBytes: 16 << 30}, Size: packing.Size{MilliCPU: 3800, MemoryBytes: 15 << 30},
		Taints: spec.NodeTaints, Stated: spec.NodeTaints, Presumed: true, EphemeralStorage: new(int64(20 << 30 / 100 * 85)),
		Labels: map[string]string{
			"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "large", "topology.kubernetes.io/zone": "up",
			"topology.kubernetes.io/region": "North", "supercargo.dev/fleet": "batch", "supercargo.dev/machine-type": "large", "supercargo.dev/class": "batch", "team": "a",
		},
	}
	constraint.AddFollowing(want.Labels)
	if diff := cmp.Diff(want, o.flavor(fleetOf(spec), spec, s, nil)); diff != "" {
		t.Errorf("promised (-want +got):\n%s", diff)
	}

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"kubernetes.io/hostname": "n", "extra": "yes"}}}
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("3900m"), corev1.ResourceMemory: resource.MustParse("14Gi"), corev1.ResourcePods: resource.MustParse("50"),
	}
	if got := o.flavor(fleetOf(spec), spec, s, node); got.Seen || got.Size != want.Size {
		t.Errorf("a node that is not ready counts: %+v", got)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable}, {Key: "kept"}}
	got := o.flavor(fleetOf(spec), spec, s, node)
	if !got.Seen || got.Size != (packing.Size{MilliCPU: 3900, MemoryBytes: 14 << 30}) || got.MaxPods != 50 || got.Labels["extra"] != "yes" ||
		got.Labels["kubernetes.io/hostname"] != "" || len(got.Taints) != 1 || got.Taints[0].Key != "kept" {
		t.Errorf("seen is %+v", got)
	}

	spec.Reserved.Memory = resource.MustParse("16Gi")
	if got := o.flavor(fleetOf(spec), spec, s, nil); !strings.Contains(got.Problem, "spec.openStack.reserved") {
		t.Errorf("a flavor that is all reserved has problem %q", got.Problem)
	}
}

func TestTheArchitectureIsThatOfTheFlavorElseOfTheImage(t *testing.T) {
	tests := []struct {
		name, demands, hwArchitecture, architecture, want string
	}{
		{"nothing is said", "", "", "", "amd64"},
		{"the image says it", "", "aarch64", "", "arm64"},
		{"the image says it as images did", "", "", "aarch64", "arm64"},
		{"the flavor demands it", "aarch64", "x86_64", "", "arm64"},
		{"the flavor demands it as a comparison", "s== aarch64", "", "", "arm64"},
		{"nobody knows it", "vax", "vax", "", "amd64"},
	}
	for _, tc := range tests {
		s := shelf()
		s.flavors[0].ExtraSpecs = map[string]string{"capabilities:cpu_info:arch": tc.demands}
		s.image.Properties = map[string]any{"hw_architecture": tc.hwArchitecture, "architecture": tc.architecture}
		o, _ := s.find(&v1alpha1.OpenStackServers{}, "large")
		if got := o.arch(s); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestANodeThatHasStartedTellsMoreThanAYoungerOne(t *testing.T) {
	node := func(name string, age time.Duration, ready bool) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))}}
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
		if ready {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
		return n
	}
	ordered := []*corev1.Node{node("c", time.Hour, true), node("d", 2*time.Hour, true), node("e", 2*time.Hour, true), node("a", time.Minute, false), node("b", time.Hour, false)}
	for i, a := range ordered {
		if better(nil, a) != a {
			t.Errorf("none is better than %s", a.Name)
		}
		for _, b := range ordered[i+1:] {
			if better(a, b) != a || better(b, a) != a {
				t.Errorf("%s is not better than %s", a.Name, b.Name)
			}
		}
	}
}

func TestTheQuotaIsWhatIsLeftOfTheLimits(t *testing.T) {
	tests := []struct {
		name  string
		of    limits.Absolute
		quota cluster.Limits
		large int // number of machines of 4 CPUs and 16 GiB
	}{
		{"some is left", limits.Absolute{MaxTotalInstances: 10, TotalInstancesUsed: 4, MaxTotalCores: 20, TotalCoresUsed: 4, MaxTotalRAMSize: 51200, TotalRAMUsed: 2048},
			cluster.Limits{Machines: new(int64(6)), MilliCPU: new(int64(16000)), MemoryBytes: new(int64(48 << 30))}, 3},
		{"nothing is bounded", limits.Absolute{MaxTotalInstances: -1, MaxTotalCores: -1, MaxTotalRAMSize: -1}, cluster.Limits{}, maxServers},
		{"CPUs are short", limits.Absolute{MaxTotalInstances: -1, MaxTotalCores: 7, MaxTotalRAMSize: -1}, cluster.Limits{MilliCPU: new(int64(7000))}, 1},
		{"more is used than allowed", limits.Absolute{MaxTotalInstances: 1, TotalInstancesUsed: 2, MaxTotalCores: 1, TotalCoresUsed: 2, MaxTotalRAMSize: 1, TotalRAMUsed: 2}, cluster.Limits{Machines: new(int64(0)), MilliCPU: new(int64(0)), MemoryBytes: new(int64(0))}, 0},
	}
	for _, tc := range tests {
		if diff := cmp.Diff(tc.quota, quota(&tc.of)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if got := room(&tc.of, offer{nova: shelf().flavors[0]}); got != tc.large {
			t.Errorf("%s: room for %d, want %d", tc.name, got, tc.large)
		}
	}
}

func TestARefusalIsForgottenWithTimeOrOtherLimits(t *testing.T) {
	now := time.Unix(1e9, 0)
	was := limits.Absolute{MaxTotalInstances: 3, TotalInstancesUsed: 3}
	tests := []struct {
		name string
		r    refusal
		may  limits.Absolute
		kept bool
	}{
		{"a quota as it was", refusal{until: now.Add(time.Second), limits: was}, was, true},
		{"a quota that others use less of", refusal{until: now.Add(time.Second), limits: was}, limits.Absolute{MaxTotalInstances: 3}, true},
		{"a quota that was raised", refusal{until: now.Add(time.Second), limits: was}, limits.Absolute{MaxTotalInstances: 4}, false},
		{"an old one", refusal{until: now, limits: was}, was, false},
		{"a flavor that cannot be made, whatever the quota", refusal{until: now.Add(time.Second), limits: was, problem: "no"}, limits.Absolute{MaxTotalInstances: 4}, true},
		{"one that was long ago", refusal{until: now, limits: was, problem: "no"}, was, false},
	}
	for _, tc := range tests {
		left := map[string]refusal{"large": tc.r}
		forget(left, &tc.may, now)
		if _, kept := left["large"]; kept != tc.kept {
			t.Errorf("%s is kept: %v, want %v", tc.name, kept, tc.kept)
		}
	}
}
