package shortage

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/world"
	"supercargo.dev/supercargo/test/kit/sentences"
)

const gib = 1 << 30

// said returns what is said of nodes that lack a resource, each with what is free and what it has in all.
func said(name corev1.ResourceName, requested int64, rooms map[string][2]int64) []string {
	var all []world.Shortage
	for node, room := range rooms {
		all = append(all, world.Shortage{Node: node, Resource: name, Requested: requested, Free: room[0], Allocatable: room[1]})
	}
	var texts []string
	for _, s := range Of(all) {
		texts = append(texts, s.String())
	}
	return texts
}

func TestWhatAPodRequestsAndWhatNodesHaveIsSaidInOneUnit(t *testing.T) {
	const gpu, huge = corev1.ResourceName("example.com/gpu"), corev1.ResourceName("hugepages-2Mi")
	for _, tc := range []struct {
		name      string
		resource  corev1.ResourceName
		requested int64
		rooms     map[string][2]int64
		want      string
	}{
		{"one node", corev1.ResourceCPU, 9000, map[string][2]int64{"a": {3500, 8000}}, "It requests 9 CPUs; node a has 3.5 of 8 free."},
		{"one CPU, and a node that others overfill", corev1.ResourceCPU, 1000, map[string][2]int64{"a": {0, 8000}}, "It requests 1 CPU; node a has 0 of 8 free."},
		{"several nodes", corev1.ResourceCPU, 9000, map[string][2]int64{"a": {3500, 8000}, "b": {100, 8000}}, "It requests 9 CPUs; of the 2 nodes with too little free, a has the most free: 3.5 of 8."},
		{"the largest node has less free", corev1.ResourceCPU, 9000, map[string][2]int64{"a": {3500, 8000}, "b": {100, 16000}, "c": {100, 4000}},
			"It requests 9 CPUs; of the 3 nodes with too little free, a has the most free: 3.5 of 8. The largest of them, b, has 0.1 of 16 free."},
		{"equal nodes", corev1.ResourceCPU, 9000, map[string][2]int64{"b": {3500, 8000}, "a": {3500, 8000}}, "It requests 9 CPUs; of the 2 nodes with too little free, a has the most free: 3.5 of 8."},
		{"of equally free ones, the larger", corev1.ResourceCPU, 9000, map[string][2]int64{"a": {3500, 4000}, "b": {3500, 8000}}, "It requests 9 CPUs; of the 2 nodes with too little free, b has the most free: 3.5 of 8."},
		{"memory", corev1.ResourceMemory, 20 * gib, map[string][2]int64{"a": {gib * 5 / 2, 16*gib - 1}}, "It requests 20 GiB of memory; node a has 2.5 of 15.99 free."},
		{"a byte too little", corev1.ResourceMemory, 2 * gib, map[string][2]int64{"a": {2*gib - 1, 4 * gib}}, "It requests 2 GiB of memory; node a has 1.99 of 4 free."},
		{"a byte too much", corev1.ResourceMemory, 2*gib + 1, map[string][2]int64{"a": {2 * gib, 4 * gib}}, "It requests 2.01 GiB of memory; node a has 2 of 4 free."},
		{"less than a GiB", huge, 512 << 20, map[string][2]int64{"a": {256 << 20, gib}}, "It requests 512 MiB of hugepages-2Mi; node a has 256 of 1024 free."},
		{"a byte", corev1.ResourceEphemeralStorage, 1, map[string][2]int64{"a": {0, 2000}}, "It requests 1 byte of ephemeral-storage; node a has 0 of 2000 free."},
		{"bytes", corev1.ResourceEphemeralStorage, 1000, map[string][2]int64{"a": {999, 2000}}, "It requests 1000 bytes of ephemeral-storage; node a has 999 of 2000 free."},
		{"devices", gpu, 2, map[string][2]int64{"a": {1, 4}}, "It requests 2 example.com/gpu; node a has 1 of 4 free."},
		{"a node without a device", gpu, 2, map[string][2]int64{"a": {0, 0}}, "It requests 2 example.com/gpu; node a has none."},
		{"no node with a device", gpu, 1, map[string][2]int64{"a": {0, 0}, "b": {0, 0}}, "It requests 1 example.com/gpu; the 2 nodes with too little free have none."},
		{"one of the nodes has devices, all in use", gpu, 1, map[string][2]int64{"a": {0, 0}, "b": {0, 4}}, "It requests 1 example.com/gpu; of the 2 nodes with too little free, b has the most free: 0 of 4."},
	} {
		if diff := cmp.Diff([]string{tc.want}, said(tc.resource, tc.requested, tc.rooms)); diff != "" {
			t.Errorf("%s: it says (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestEachResourceIsSaidOnceAndCPUAndMemoryComeFirst(t *testing.T) {
	var all []world.Shortage
	for _, node := range []string{"a", "b"} {
		for _, name := range []corev1.ResourceName{"example.com/gpu", "cpu", "another.example/fpga", "memory"} {
			all = append(all, world.Shortage{Node: node, Resource: name, Requested: 2, Free: 1, Allocatable: 1})
		}
	}
	var names []string
	for _, s := range Of(all) {
		names = append(names, s.Resource)
		if s.Nodes != 2 {
			t.Errorf("%s lacks on %d nodes, want 2", s.Resource, s.Nodes)
		}
	}
	if diff := cmp.Diff([]string{"cpu", "memory", "another.example/fpga", "example.com/gpu"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestARequestThatExceedsWhatIsFreeAlsoDoesSoInTheText checks that rounding hides no shortage.
func TestARequestThatExceedsWhatIsFreeAlsoDoesSoInTheText(t *testing.T) {
	figures := regexp.MustCompile(`^It requests ([0-9.]+) [^;]*; node a has (?:([0-9.]+) of ([0-9.]+) free|none)\.$`)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]corev1.ResourceName{"cpu", "memory", "hugepages-1Gi", "example.com/gpu"}).Draw(t, "resource")
		requested := rapid.Int64Range(1, 1<<50).Draw(t, "requested")
		free := rapid.Int64Range(max(0, requested-2000), requested-1).Draw(t, "free")
		whole := rapid.Int64Range(free, 1<<50).Draw(t, "whole")
		text := said(name, requested, map[string][2]int64{"a": {free, whole}})[0]
		found := figures.FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("it says %q", text)
		}
		number := func(at int) float64 { f, _ := strconv.ParseFloat(found[at], 64); return f }
		if number(1) <= number(2) || found[2] != "" && number(2) > number(3) {
			t.Errorf("of a request of %d, and %d of %d free, it says %q", requested, free, whole, text)
		}
	})
}

func TestTheLargestFlavorOfEachResourceIsSaid(t *testing.T) {
	rooms := map[string]packing.Size{
		"b":    {MilliCPU: 7910, MemoryBytes: 29 * gib},
		"a":    {MilliCPU: 7910, MemoryBytes: 14 * gib},
		"wide": {MilliCPU: 64_000, MemoryBytes: 20 * gib},
	}
	var got []string
	for _, s := range OfFlavors(packing.Size{MilliCPU: 16_000, MemoryBytes: 32 * gib}, rooms) {
		got = append(got, s.String())
	}
	if diff := cmp.Diff([]string{
		"It requests 16 CPUs; of the 2 flavors with too little, a has the most room: 7.91.",
		"It requests 32 GiB of memory; of the 3 flavors with too little, b has the most room: 29.",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := OfFlavors(packing.Size{MilliCPU: 7910, MemoryBytes: 14 * gib}, rooms); len(got) > 0 {
		t.Errorf("of a pod that fits on each it says %+v", got)
	}
}

func TestEachSentenceIsSaidWhereItIsTrueAndNotWhereItIsNot(t *testing.T) {
	of := func(rooms map[string][2]int64) string { return said(corev1.ResourceCPU, 9000, rooms)[0] }
	one, two := of(map[string][2]int64{"a": {1, 8}}), of(map[string][2]int64{"a": {2, 8}, "b": {1, 8}})
	none := of(map[string][2]int64{"a": {0, 0}})
	flavors := func(n int) string {
		rooms := map[string]packing.Size{}
		for i := range n {
			rooms[strconv.Itoa(i)] = packing.Size{MilliCPU: 8000}
		}
		return OfFlavors(packing.Size{MilliCPU: 9000}, rooms)[0].String()
	}
	sentences.Check(t, []string{"*.go"}, []sentences.Case{
		{"It requests ", one, ""},
		{"%s; node %s has none.", none, one},
		{"%s; the %s with too little free have none.", of(map[string][2]int64{"a": {0, 0}, "b": {0, 0}}), none},
		{"%s; node %s has %s free.", one, two},
		{"%s; of the %s with too little free, %s has the most free: %s.", two, one},
		{" The largest of them, %s, has %s of %s free.", of(map[string][2]int64{"a": {2, 8}, "b": {1, 9}}), two},
		{"It requests %s; a machine of %s has room for %s.", flavors(1), flavors(2)},
		{"It requests %s; of the %s with too little, %s has the most room: %s.", flavors(2), flavors(1)},
	}, nil)
}
