package gpushare

import (
	"os"
	"strings"
	"testing"

	"supercargo.dev/supercargo/internal/input/trace"
	"supercargo.dev/supercargo/internal/packing/gpus"
)

const folder = "../../test/data/openb/"

// openb returns the nodes and pods of the trace.
func openb(t *testing.T) ([]Node, []gpus.Request) {
	t.Helper()
	file, err := os.Open(folder + "nodes.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	nodes, err := ReadNodes(file)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.Open(folder + "pods-all.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	all, err := trace.ReadPods("pods-all.csv", list)
	if err != nil {
		t.Fatal(err)
	}
	pods := make([]gpus.Request, len(all))
	for i, p := range all {
		pods[i] = gpus.Request{MilliCPU: p.Size.MilliCPU, MemoryBytes: p.Size.MemoryBytes, Milli: p.MilliGPUs}
	}
	return nodes, pods
}

func policyOf(t *testing.T, name string) Policy {
	t.Helper()
	for _, p := range Policies() {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no policy is called %q", name)
	return Policy{}
}

// TestSupercargoLeavesLeastUnusable fails if the score of the plugins becomes worse than the policies of the paper, although
// these are told which pods will come.
func TestSupercargoLeavesLeastUnusable(t *testing.T) {
	nodes, pods := openb(t)
	if len(nodes) != 1523 || len(pods) != 8152 {
		t.Fatalf("the trace has %d nodes and %d pods", len(nodes), len(pods))
	}
	ours := Fill(nodes, pods, policyOf(t, "supercargo"), 1)
	for _, name := range []string{"fragmentation gradient descent", "LeastAllocated", "best fit of CPU and GPU", "supercargo without regard to GPUs"} {
		theirs := Fill(nodes, pods, policyOf(t, name), 1)
		if ours.AtEnd.Arrived != theirs.AtEnd.Arrived {
			t.Errorf("%d pods arrived for supercargo and %d for %s", ours.AtEnd.Arrived, theirs.AtEnd.Arrived, name)
		}
		if ours.AtEnd.Allocated < theirs.AtEnd.Allocated || ours.AtCapacity.Unusable > theirs.AtCapacity.Unusable {
			t.Errorf("supercargo fills the cluster to %+v, %s to %+v", ours, name, theirs)
		}
	}
}

func TestFillNeverSplitsAShare(t *testing.T) {
	nodes := []Node{{Name: "a", Size: gpus.Node{MilliCPU: 64_000, MemoryBytes: 1 << 40, Devices: gpus.Devices(2, nil)}}}
	pods := []gpus.Request{{MilliCPU: 1000, Milli: 600}}
	for _, p := range Policies() {
		run := Fill(nodes, pods, p, 1)
		if run.AtEnd.Placed != 2 || run.AtEnd.Allocated != 0.6 {
			t.Errorf("%s places %d pods with 0.6 of a GPU on two GPUs, %v of them allocated", p.Name, run.AtEnd.Placed, run.AtEnd.Allocated)
		}
		if run.AtEnd.Unusable != 0.4 {
			t.Errorf("%s: %v of the GPUs counts as unusable, want all that is free", p.Name, run.AtEnd.Unusable)
		}
		if run.AtCapacity.Arrived != 4 || run.AtEnd.Arrived != 5 {
			t.Errorf("%s: %d pods arrived for the first and %d for the second count", p.Name, run.AtCapacity.Arrived, run.AtEnd.Arrived)
		}
	}
}

// TestPoliciesPrefer has one decision for each policy of the paper.
func TestPoliciesPrefer(t *testing.T) {
	at := func(name string, milliCPU int64, devices []int64, pods ...int64) node {
		size := gpus.Node{MilliCPU: 64_000, MemoryBytes: 1 << 38, Devices: gpus.Devices(len(devices), nil)}
		n := node{Node: Node{Name: name, Size: size}, free: gpus.Node{MilliCPU: milliCPU, MemoryBytes: 1 << 37, Devices: devices}}
		for _, milli := range pods {
			n.pods = append(n.pods, gpus.Request{Milli: milli})
		}
		return n
	}
	share := gpus.Request{MilliCPU: 4000, MemoryBytes: 1 << 30, Milli: 500}
	tests := []struct {
		policy string
		nodes  []node
		want   string
	}{
		{"LeastAllocated", []node{at("full", 8000, []int64{1000}), at("free", 60_000, []int64{1000})}, "free"},
		{"MostAllocated", []node{at("full", 8000, []int64{1000}), at("free", 60_000, []int64{1000})}, "full"},
		{"dot product", []node{at("full", 8000, []int64{1000}), at("free", 60_000, []int64{1000})}, "full"},
		{"best fit of CPU and GPU", []node{at("little CPU", 8000, []int64{1000, 1000, 1000}), at("little GPU", 16_000, []int64{600})}, "little GPU"},
		{"GPU clustering", []node{at("others", 8000, []int64{600}, 400), at("same and others", 8000, []int64{1000, 1000}, 500, 300), at("same", 8000, []int64{1000, 1000}, 500)}, "same"},
		{"GPU clustering", []node{at("others", 8000, []int64{600}, 400), at("free", 8000, []int64{1000, 1000})}, "free"},
		{"GPU packing", []node{at("device in use", 8000, []int64{900, 1000}), at("node in use", 8000, []int64{100, 1000}), at("free", 8000, []int64{1000})}, "device in use"},
		{"GPU packing", []node{at("node in use", 8000, []int64{100, 1000}), at("free", 8000, []int64{1000})}, "node in use"},
		{"GPU packing", []node{at("large", 8000, []int64{1000, 1000}), at("small", 8000, []int64{1000})}, "small"},
		{"fragmentation gradient descent", []node{at("whole", 8000, []int64{1000}), at("half", 8000, []int64{500})}, "half"},
		{"supercargo without regard to GPUs", []node{at("b", 8000, []int64{500}), at("a", 8000, []int64{1000})}, "a"},
	}
	for _, tt := range tests {
		c := &cluster{nodes: tt.nodes, all: gpus.Mix{{Request: gpus.Request{MilliCPU: 1, Milli: 1000}, Weight: 1}}, running: map[gpus.Request]int64{}}
		got := policyOf(t, tt.policy).start(nil)(c, share, c.fitting(share))
		if name := c.nodes[got.node].Name; name != tt.want {
			t.Errorf("%s chooses %q, want %q", tt.policy, name, tt.want)
		}
	}
}

func TestDescentChoosesTheDevice(t *testing.T) {
	// Of two devices, the tighter one would lose what the pods that come need.
	m := gpus.Mix{{Request: gpus.Request{Milli: 600}, Weight: 1}}
	n := &node{free: gpus.Node{MilliCPU: 8, MemoryBytes: 8, Devices: []int64{600, 900}}}
	growth, device := leastGrowth(m, n, gpus.Request{Milli: 300})
	if device != 0 && device != 1 || growth > 300 {
		t.Errorf("device %d, growth %v", device, growth)
	}
	n.free.Devices = []int64{700, 900}
	if growth, device = leastGrowth(m, n, gpus.Request{Milli: 300}); device != 1 || growth != 0 {
		t.Errorf("device %d is chosen and %v are lost, want the second, of which 600 remain", device, growth)
	}
}

func TestReadNodesReportsFaults(t *testing.T) {
	tests := map[string]string{
		"":                          "read the header",
		"sn,cpu_milli,memory_mib\n": "has no column gpu",
		"sn,cpu_milli,memory_mib,gpu\n" + "a,x,1,1\n":     `line 2: cpu_milli: "x" must be an integer from 0`,
		"sn,cpu_milli,memory_mib,gpu\n" + "a,1,-1,1\n":    `line 2: memory_mib: "-1"`,
		"sn,cpu_milli,memory_mib,gpu\n" + "a,1,1,17\n":    "line 2: gpu: 17 must be at most 16",
		"sn,cpu_milli,memory_mib,gpu\n" + "a,1,1,1,1,1\n": "wrong number of fields",
	}
	for text, want := range tests {
		if _, err := ReadNodes(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", text, err, want)
		}
	}
}
