package plugins_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"

	"supercargo.dev/supercargo/test/fixtures"
	"supercargo.dev/supercargo/test/scheduling"
)

const milliGPU corev1.ResourceName = "alibabacloud.com/gpu-milli"

// having gives a node devices.
func having(name corev1.ResourceName, amount int64) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Allocatable = n.Status.Allocatable.DeepCopy()
		n.Status.Allocatable[name] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
}

// requesting makes a pod request devices.
func requesting(name corev1.ResourceName, amount int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[name] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
}

// gpuCluster is a scheduler that narrows, or not, with nodes and running pods.
func gpuCluster(t *testing.T, configuration string, nodes []*corev1.Node, on map[string][]*corev1.Pod) *scheduling.Scheduler {
	t.Helper()
	s := scheduling.NewScheduler(t, configuration, clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
	for _, n := range nodes {
		s.AddNode(n)
		for _, p := range on[n.Name] {
			p.Spec.NodeName = n.Name
			if err := s.Cache.AddPod(klog.Background(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

func configurations() map[string]string {
	return map[string]string{"narrowing": scheduling.StrictConfiguration, "scanning": neverNarrow}
}

// TestNodesWithGPUsAreLeftToPodsWithGPUs has a node with GPUs that fits every pod best by memory and CPU.
func TestNodesWithGPUsAreLeftToPodsWithGPUs(t *testing.T) {
	for name, configuration := range configurations() {
		s := gpuCluster(t, configuration, []*corev1.Node{
			fixtures.Node("gpu", 4000, 4<<30, having("nvidia.com/gpu", 2)),
			fixtures.Node("plain", 8000, 16<<30),
			fixtures.Node("tighter", 6000, 8<<30),
		}, nil)
		batch := fixtures.Batch("10m")
		tests := []struct {
			pod  *corev1.Pod
			want string
		}{
			{fixtures.Pod("service", 1000, 1<<30), "tighter"},
			{fixtures.Pod("job", 1000, 1<<30, batch), "tighter"},
			{fixtures.Pod("training", 1000, 1<<30, batch, requesting("nvidia.com/gpu", 1)), "gpu"},
			{fixtures.Pod("inference", 1000, 1<<30, requesting("nvidia.com/gpu", 1)), "gpu"},
		}
		for _, tt := range tests {
			if got := s.Attempt(tt.pod); got.Node != tt.want {
				t.Errorf("%s: pod %s goes to %q (%v), want %q", name, tt.pod.Name, got.Node, got.Err, tt.want)
			}
		}
		full := gpuCluster(t, configuration, []*corev1.Node{
			fixtures.Node("gpu", 4000, 4<<30, having("nvidia.com/gpu", 2)), fixtures.Node("plain", 500, 1<<30),
		}, nil)
		if got := full.Attempt(fixtures.Pod("service", 1000, 1<<30)); got.Node != "gpu" || name == "narrowing" && got.Evaluated != 1 {
			t.Errorf("%s: a pod that fits nowhere else goes to %q of %d nodes (%v), want the one with GPUs", name, got.Node, got.Evaluated, got.Err)
		}
	}
}

// TestPodsWithGPUsGoWhereLeastBecomesUnusable has nodes on which memory and CPU would choose otherwise.
func TestPodsWithGPUsGoWhereLeastBecomesUnusable(t *testing.T) {
	share := func(name string, milli int64) *corev1.Pod {
		return fixtures.Pod(name, 500, 1<<28, requesting(milliGPU, milli))
	}
	nodes := []*corev1.Node{
		fixtures.Node("tight", 4000, 4<<30, having(milliGPU, 2000)),
		fixtures.Node("half", 32_000, 64<<30, having(milliGPU, 2000)),
		fixtures.Node("quarters", 16_000, 32<<30, having(milliGPU, 2000)),
	}
	on := map[string][]*corev1.Pod{
		"half":     {share("a", 500)},
		"quarters": {share("b", 750), share("c", 750)},
		"tight":    {share("d", 1000)},
	}
	for name, configuration := range configurations() {
		s := gpuCluster(t, configuration, nodes, on)
		if got := s.Attempt(share("half-of-one", 500)); got.Node != "half" {
			t.Errorf("%s: half a GPU goes to %q (%v), want the node with half of one free", name, got.Node, got.Err)
		}
		if got := s.Attempt(share("quarter", 250)); got.Node != "quarters" {
			t.Errorf("%s: a quarter of a GPU goes to %q (%v), want a node with a quarter of one free", name, got.Node, got.Err)
		}
		if got := s.Attempt(share("whole", 1000)); got.Node != "tight" {
			t.Errorf("%s: a whole GPU goes to %q (%v), want the tightest node that loses nothing by it", name, got.Node, got.Err)
		}
	}
}

// TestUnknownDevicesAreRankedByFit has a resource of which one is not a device.
func TestUnknownDevicesAreRankedByFit(t *testing.T) {
	const memory corev1.ResourceName = "aliyun.com/gpu-mem"
	s := gpuCluster(t, scheduling.StrictConfiguration, []*corev1.Node{
		fixtures.Node("loose", 8000, 16<<30, having(memory, 200)), fixtures.Node("tight", 4000, 4<<30, having(memory, 160)),
	}, nil)
	if got := s.Attempt(fixtures.Pod("p", 1000, 1<<30, requesting(memory, 100))); got.Node != "tight" {
		t.Errorf("the pod goes to %q (%v), want the tightest node", got.Node, got.Err)
	}
}

// TestGPUsOfRemovedPodsAndNodesAreForgotten has a pod with a whole GPU, for the like of which whole GPUs are kept, until the pod or
// its node is gone.
func TestGPUsOfRemovedPodsAndNodesAreForgotten(t *testing.T) {
	for _, remove := range []string{"pod", "node"} {
		whole := fixtures.Pod("whole", 500, 1<<28, requesting(milliGPU, 1000))
		on := fixtures.Node("z", 1000, 1<<30, having(milliGPU, 2000))
		s := gpuCluster(t, scheduling.StrictConfiguration, []*corev1.Node{
			on, fixtures.Node("tight", 4000, 4<<30, having(milliGPU, 1000)), fixtures.Node("loose", 8000, 8<<30, having(milliGPU, 2000)),
		}, map[string][]*corev1.Pod{"z": {whole}, "loose": {fixtures.Pod("half", 500, 1<<28, requesting(milliGPU, 500))}})
		share := fixtures.Pod("share", 2000, 1<<28, requesting(milliGPU, 500))
		if got := s.Attempt(share); got.Node != "loose" {
			t.Fatalf("half a GPU goes to %q (%v), want the half that is free", got.Node, got.Err)
		}
		err := s.RemovePod(whole)
		if remove == "node" {
			if err := s.AddPod(whole); err != nil {
				t.Fatal(err)
			}
			err = s.RemoveNode(on)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Attempt(share); got.Node != "tight" {
			t.Errorf("after the %s with a whole GPU is gone, half a GPU goes to %q (%v), want the tightest node", remove, got.Node, got.Err)
		}
	}
}

// TestPreferencesChooseAmongNodesWithGPUs has two equal nodes for a pod that fits no node without GPUs.
func TestPreferencesChooseAmongNodesWithGPUs(t *testing.T) {
	for name, configuration := range configurations() {
		s := gpuCluster(t, configuration, []*corev1.Node{
			fixtures.Node("first", 4000, 4<<30, having("nvidia.com/gpu", 2)), fixtures.Node("second", 4000, 4<<30, having("nvidia.com/gpu", 2)),
		}, nil)
		pod := fixtures.Pod("service", 1000, 1<<30)
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
			{Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"second"}}}}}}}}
		if got := s.Attempt(pod); got.Node != "second" {
			t.Errorf("%s: the pod goes to %q (%v), want the node that it prefers", name, got.Node, got.Err)
		}
	}
}
