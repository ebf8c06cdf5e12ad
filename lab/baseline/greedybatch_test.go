package baseline

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/purchase"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// waits returns a batch pod.
func waits(name string, cpu, memory int64, runtime time.Duration) purchase.Pod {
	return purchase.Pod{Item: packing.Item{Name: name, Size: size(cpu, memory), Runtime: runtime}}
}

// planned formats a plan as "MACHINE: PODS", "POD waits for NODE" and "POD -".
func planned(p purchase.Plan) []string {
	lines := []string{}
	for _, m := range p.Machines {
		lines = append(lines, m.Name+": "+strings.Join(m.Pods, " "))
	}
	for _, a := range p.Assignments {
		if a.Waits {
			lines = append(lines, a.Pod+" waits for "+a.Machine)
		}
	}
	for _, u := range p.Unplaceable {
		lines = append(lines, u.Pod+" -")
	}
	return lines
}

func TestForBatchPodsNodesInBinZeroCount(t *testing.T) {
	const cycle = 5 * time.Minute
	at := func(name string, remaining time.Duration, maxPods *int64) standing {
		return standing{name: name, capacity: size(10, 10), remaining: remaining, maxPods: maxPods}
	}
	flavors := []cluster.Flavor{{Name: "f", Size: size(10, 10), MicroDollarsPerHour: 1}}
	tests := []struct {
		name  string
		pods  []purchase.Pod
		nodes []standing
		cycle time.Duration
		want  []string
	}{
		{"nothing is bought if they are enough", []purchase.Pod{waits("a", 5, 5, time.Hour), waits("b", 5, 5, time.Minute)},
			[]standing{at("n", cycle-1, nil)}, cycle, []string{"a waits for n", "b waits for n"}},
		{"what is left over is bought for", []purchase.Pod{waits("a", 6, 6, 1), waits("b", 6, 6, 2), waits("c", 4, 4, 3)},
			[]standing{at("n", 0, nil)}, cycle, []string{"f-0: a", "b waits for n", "c waits for n"}},
		{"totals that fit are not enough where pods do not", []purchase.Pod{waits("a", 6, 6, 2), waits("b", 6, 6, 1)},
			[]standing{at("n", 0, nil), {name: "o", capacity: size(3, 3)}}, cycle, []string{"f-0: b", "a waits for n"}},
		{"other bins do not count", []purchase.Pod{waits("a", 1, 1, 1)}, []standing{at("n", cycle, nil)}, cycle, []string{"f-0: a"}},
		{"an overdue node is in bin 0", []purchase.Pod{waits("a", 1, 1, 1)}, []standing{at("n", -time.Hour, nil)}, cycle, []string{"a waits for n"}},
		{"without a cycle all are", []purchase.Pod{waits("a", 1, 1, 1)}, []standing{at("n", time.Hour, nil)}, 0, []string{"a waits for n"}},
		{"max pods of the node", []purchase.Pod{waits("a", 1, 1, 2), waits("b", 1, 1, 1)}, []standing{at("n", 0, new(int64(1)))}, cycle,
			[]string{"f-0: b", "a waits for n"}},
		{"what no flavor holds may wait", []purchase.Pod{waits("a", 12, 1, 1)}, []standing{{name: "n", capacity: size(12, 1)}}, cycle,
			[]string{"a waits for n"}},
		{"architecture", []purchase.Pod{{Item: packing.Item{Name: "a"}, Arch: "arm64"}}, []standing{at("n", 0, nil)}, cycle, []string{"a -"}},
		{"a negative request is nothing to wait for", []purchase.Pod{waits("a", -1, 1, 1)}, []standing{at("n", 0, nil)}, cycle, []string{"a -"}},
		{"long jobs are bought for first", []purchase.Pod{waits("a", 9, 9, 1), waits("b", 9, 9, 2)}, nil, cycle, []string{"f-0: b", "f-1: a"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, planned(greedyBatch(tc.pods, tc.nodes, tc.cycle, flavors, purchase.GreedyOptions{}))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func first(nodes iter.Seq[packing.IndexedNode]) (packing.IndexedNode, bool) {
	for n := range nodes {
		return n, true
	}
	return packing.IndexedNode{}, false
}

// TestWaitingPodsArePlacedAsThePackingDefinesIt compares with an index of nodes, which does not
// support max pods and architectures.
func TestWaitingPodsArePlacedAsThePackingDefinesIt(t *testing.T) {
	const cycle = 2 * time.Minute
	amount := rapid.Int64Range(0, 12)
	rapid.Check(t, func(t *rapid.T) {
		var pods []purchase.Pod
		for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
			p := waits(fmt.Sprintf("p%d", i), amount.Draw(t, "cpu"), amount.Draw(t, "memory"), time.Duration(rapid.IntRange(0, 3).Draw(t, "runtime"))*time.Minute)
			pods = append(pods, p)
		}
		nodes := make([]standing, rapid.IntRange(0, 4).Draw(t, "nodes"))
		now := time.Unix(0, 0)
		freeing := packing.NewIndex(cycle, now)
		for i := range nodes {
			nodes[i] = standing{
				name: fmt.Sprintf("n%d", i), capacity: size(amount.Draw(t, "cpu"), amount.Draw(t, "memory")),
				remaining: time.Duration(rapid.IntRange(-60, 200).Draw(t, "remaining")) * time.Second,
			}
			if nodes[i].remaining < cycle {
				freeing.Put(packing.IndexedNode{Name: nodes[i].name, Free: nodes[i].capacity, Finish: now.Add(nodes[i].remaining)})
			}
		}
		want := map[string]string{}
		var left []purchase.Pod
		slices.SortFunc(pods, func(a, b purchase.Pod) int { return packing.LongestFirst(a.Item, b.Item) })
		for _, pod := range pods {
			node, found := first(freeing.Fitting(pod.Size, pod.Runtime))
			if !found {
				left = append(left, pod)
				continue
			}
			want[pod.Name] = node.Name
			node.Free = node.Free.Minus(pod.Size)
			if ends := now.Add(pod.Runtime); ends.After(node.Finish) {
				node.Finish = ends
			}
			freeing.Put(node)
		}
		flavors := []cluster.Flavor{{Name: "f", Size: size(5, 5), MicroDollarsPerHour: 2}, {Name: "g", Size: size(10, 10), MicroDollarsPerHour: 3}}
		plan, got := greedyBatch(pods, nodes, cycle, flavors, purchase.GreedyOptions{}), map[string]string{}
		for _, a := range plan.Assignments {
			if a.Waits {
				got[a.Pod] = a.Machine
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("waiting pods (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(purchase.Greedy(left, flavors, purchase.GreedyOptions{Order: purchase.Batch}).Machines, plan.Machines); diff != "" {
			t.Fatalf("machines for those left (-want +got):\n%s", diff)
		}
		if len(plan.Assignments)+len(plan.Unplaceable) != len(pods) {
			t.Fatalf("%d pods have a place and %d none, of %d", len(plan.Assignments), len(plan.Unplaceable), len(pods))
		}
	})
}
