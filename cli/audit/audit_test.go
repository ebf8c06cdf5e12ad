package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/internal/text/dollars"
	"supercargo.dev/supercargo/internal/text/jsondoc"
	"supercargo.dev/supercargo/test/fixtures"
)

const gib = 1 << 30

func size(milliCPU, memoryGiB int64) packing.Size {
	return packing.Size{MilliCPU: milliCPU, MemoryBytes: memoryGiB * gib}
}

// flavors returns a machine and one of twice its size that costs less than two of it.
func flavors() []Flavor {
	flavor := func(name string, s packing.Size, price int64) Flavor {
		return Flavor{InstanceType: name, Flavor: cluster.Flavor{Name: name, Size: s, MaxPods: new(int64(10)), Arch: "amd64", MicroDollarsPerHour: price, Host: &constraint.Host{}}}
	}
	return []Flavor{flavor("large", size(4000, 16), 180_000), flavor("small", size(2000, 8), 100_000)}
}

// nodeOf returns a node of a flavor with evictable pods of one CPU and 2 GiB each.
func nodeOf(name string, f Flavor, pods ...string) Node {
	n := Node{InstanceType: f.InstanceType, Node: cluster.Node{
		Name: name, Flavor: f.InstanceType, Class: class.Any, Capacity: f.Size, MaxPods: f.MaxPods, Arch: f.Arch, Host: &constraint.Host{Name: name},
		Phase: cluster.Ready, MicroDollarsPerHour: f.MicroDollarsPerHour,
	}}
	n.Whole, n.WholePods = f.Size, *f.MaxPods
	for _, p := range pods {
		n.add(cluster.Pod{Item: packing.Item{Name: p, Size: size(1000, 2)}, Class: class.Service, Ways: cluster.WaysOf(cluster.Evict)})
	}
	return n
}

func (n *Node) add(p cluster.Pod) {
	n.Pods = append(n.Pods, p)
	n.AllPods++
	n.Requested = plus(n.Requested, p.Size)
}

// hold fixes all pods of a node.
func hold(n Node, why string) Node {
	for i := range n.Pods {
		n.Pods[i].Fixed, n.Pods[i].Ways, n.Pods[i].Held = true, 0, why
	}
	return n
}

func TestTheFiguresOfAClusterAreThoseWorkedOutByHand(t *testing.T) {
	large, small := flavors()[0], flavors()[1]
	tests := []struct {
		name                                     string
		nodes                                    []Node
		now, moved, homogeneous, cheapest, least dollars.Amount // least is the price of the needed part of the best machine
		emptied                                  []string
		moves                                    int
	}{
		{"one pod on a large machine fits a small one", []Node{nodeOf("a", large, "p")}, 180_000, 180_000, 100_000, 100_000, 45_000, nil, 0},
		{"two half empty machines become one", []Node{nodeOf("a", small, "p"), nodeOf("b", small, "q")}, 200_000, 100_000, 100_000, 100_000, 90_000, []string{"a"}, 1},
		{"an empty machine goes", []Node{nodeOf("a", small, "p"), nodeOf("b", large)}, 280_000, 100_000, 100_000, 100_000, 45_000, []string{"b"}, 0},
		{"what holds the pods does not change what machines could be bought",
			[]Node{hold(nodeOf("a", small, "p"), "told to"), hold(nodeOf("b", small, "q"), "told to")}, 200_000, 200_000, 100_000, 100_000, 90_000, nil, 0},
		{"five pods fit a large and a small machine, or two large ones",
			[]Node{nodeOf("a", large, "p", "q", "r"), nodeOf("b", large, "s", "t")}, 360_000, 360_000, 300_000, 280_000, 225_000, nil, 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			r := Audit(Input{Nodes: tc.nodes, Flavors: flavors()})
			got := []dollars.Amount{r.Now.PerHour, r.Moved.PerHour, r.Homogeneous.PerHour, r.Cheapest.PerHour}
			if diff := cmp.Diff([]dollars.Amount{tc.now, tc.moved, tc.homogeneous, tc.cheapest}, got); diff != "" {
				t.Errorf("now, moved, homogeneous, cheapest (-want +got):\n%s", diff)
			}
			if r.Bound < tc.least || r.Bound > tc.cheapest {
				t.Errorf("the bound is %d, want %d to %d", r.Bound, tc.least, tc.cheapest)
			}
			if diff := cmp.Diff(jsondoc.List(tc.emptied), r.Emptied); diff != "" {
				t.Errorf("emptied (-want +got):\n%s", diff)
			}
			if r.Moves != tc.moves {
				t.Errorf("%d pods move, want %d", r.Moves, tc.moves)
			}
		})
	}
}

func TestMachinesThatAreCheaperThanAnyForSaleStay(t *testing.T) {
	n := nodeOf("a", flavors()[1], "p")
	n.MicroDollarsPerHour = 10_000
	r := Audit(Input{Nodes: []Node{n}, Flavors: flavors()})
	if r.Cheapest.PerHour != 10_000 || r.Bound > 10_000 {
		t.Errorf("cheapest %d, bound %d; want the 10000 that are paid", r.Cheapest.PerHour, r.Bound)
	}
}

func TestANodeWithoutAPriceIsListedAndInNoFigure(t *testing.T) {
	small := flavors()[1]
	free := nodeOf("free", small, "x") // with room for p
	free.Unpriced = "nobody says"
	r := Audit(Input{Nodes: []Node{free, nodeOf("a", small, "p")}, Flavors: flavors()})
	if r.Now.PerHour != 100_000 || r.Now.Nodes != 1 || r.PlannedPods != 1 || r.Nodes != 2 || r.PricedNodes != 1 || r.Pods != 2 || r.PricedPods != 1 || r.Requested.Nodes != 1 || r.Requested.CPU != 0.5 {
		t.Errorf("now %+v of %d pods, want one small machine with one, of two nodes with two pods", r.Now, r.PlannedPods)
	}
	if diff := cmp.Diff([]Stay{{"free", "small", "nobody says"}}, r.Unpriced); diff != "" {
		t.Errorf("unpriced (-want +got):\n%s", diff)
	}
	if len(r.Emptied) > 0 || r.Moved.PerHour != 100_000 || r.Cheapest.PerHour != 100_000 {
		t.Errorf("%v are emptied, moved %d, cheapest %d: p has gone to a node without a price, or x has left it", r.Emptied, r.Moved.PerHour, r.Cheapest.PerHour)
	}
}

func TestANodeThatStaysIsPaidInEveryFigureAndItsRoomIsUsed(t *testing.T) {
	large, small := flavors()[0], flavors()[1]
	plane := nodeOf("plane", large, "x", "y", "z") // which leave room for p, and need no other machine
	plane.Stays, plane.Kept, plane.KeptFor = "it is of the control plane", true, "it is of the control plane"
	r := Audit(Input{Nodes: []Node{plane, nodeOf("a", small, "p")}, Flavors: flavors()})
	if r.Cheapest.PerHour != 180_000 || r.Moved.PerHour != 180_000 {
		t.Errorf("cheapest %d, moved %d; want 180000 for the node that stays with the pod on it", r.Cheapest.PerHour, r.Moved.PerHour)
	}
	if len(r.Staying) != 1 || r.Staying[0].Node != "plane" || r.Bound != 180_000 {
		t.Errorf("staying %v, bound %d; want plane and its price", r.Staying, r.Bound)
	}

	plane.add(nodeOf("", small, "full").Pods[0])
	r = Audit(Input{Nodes: []Node{plane, nodeOf("a", large, "p")}, Flavors: flavors()})
	if r.Cheapest.PerHour != 280_000 || r.Homogeneous.PerHour != 280_000 {
		t.Errorf("cheapest %+v, homogeneous %+v; want the node that stays with its pods, and a small one for p", r.Cheapest, r.Homogeneous)
	}
}

func TestAPodThatNoMachineForSaleHoldsKeepsItsNode(t *testing.T) {
	huge := Flavor{InstanceType: "huge", Flavor: cluster.Flavor{Name: "huge", Size: size(64_000, 256), MaxPods: new(int64(10)), Arch: "amd64", MicroDollarsPerHour: 3_000_000}}
	n := nodeOf("a", huge)
	n.add(cluster.Pod{Item: packing.Item{Name: "giant", Size: size(32_000, 100)}, Class: class.Service, Ways: cluster.WaysOf(cluster.Evict)})
	r := Audit(Input{Nodes: []Node{n, nodeOf("b", flavors()[1], "p")}, Flavors: flavors()})
	if len(r.Staying) != 1 || r.Staying[0].Node != "a" || !strings.Contains(r.Staying[0].Reason, "giant") {
		t.Errorf("staying: %v, want a because of giant", r.Staying)
	}
	if r.Cheapest.PerHour != 3_000_000 {
		t.Errorf("cheapest %d, want 3000000: p goes to the node that stays", r.Cheapest.PerHour)
	}
}

func TestWithoutATypeThatHoldsAllPodsThereIsNoHomogeneousBill(t *testing.T) {
	arm := Flavor{InstanceType: "arm", Flavor: cluster.Flavor{Name: "arm", Size: size(2000, 8), MaxPods: new(int64(10)), Arch: "arm64", MicroDollarsPerHour: 80_000, Host: &constraint.Host{}}}
	b := nodeOf("b", arm, "q")
	b.Pods[0].Arch = "arm64"
	a := nodeOf("a", flavors()[1], "p")
	a.Pods[0].Arch = "amd64"
	r := Audit(Input{Nodes: []Node{a, b}, Flavors: append(flavors(), arm)})
	if r.Homogeneous != nil || r.Cheapest.PerHour != 180_000 {
		t.Errorf("homogeneous %+v, cheapest %d; want none and 180000", r.Homogeneous, r.Cheapest.PerHour)
	}
	if len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "There is no cost on machines of one type, because none of the 3 types for sale holds all pods: ") {
		t.Errorf("notes: %q, want that no type holds all pods", r.Notes)
	}
}

// TestWithOneTypeForSaleThereIsItsBill: nodes whose pods its machines do not hold stay, as on the cheapest machines.
func TestWithOneTypeForSaleThereIsItsBill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		one := in.Flavors[rapid.IntRange(0, 1).Draw(t, "type")]
		one.Size = size(rapid.Int64Range(300, 4000).Draw(t, "type's cpu"), rapid.Int64Range(1, 16).Draw(t, "type's memory"))
		in.Flavors = []Flavor{one}
		if r := Audit(in); r.Homogeneous == nil || len(r.Notes) > len(in.Notes) {
			t.Fatalf("homogeneous %+v, notes %q; want a bill", r.Homogeneous, r.Notes)
		}
	})
}

func TestOfManyTypesThoseThatWerePlannedAreCounted(t *testing.T) {
	in := Input{Nodes: []Node{nodeOf("a", flavors()[0], "p"), nodeOf("b", flavors()[0], "q")}}
	in.Nodes[0].Pods[0].Arch, in.Nodes[1].Pods[0].Arch = "amd64", "arm64"
	for i := range 2 * mostTypes {
		f := flavors()[0]
		f.Name, f.Arch = fmt.Sprintf("t%d", i), []string{"amd64", "arm64"}[i%2]
		f.InstanceType = f.Name
		in.Flavors = append(in.Flavors, f)
	}
	const want = "There is no cost on machines of one type, because none of the 4 types that were planned, of 8 for sale, holds all pods: t0 does not hold pod q, for example: "
	if r := Audit(in); len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], want) || strings.HasSuffix(r.Notes[0], ": .") {
		t.Errorf("notes: %q, want %q", r.Notes, want)
	}
}

func TestATypeThatHoldsAllPodsIsFoundAmongManyThatSeemCheaperAndDoNot(t *testing.T) {
	large := flavors()[0]
	for name, unfit := range map[string]func(*Flavor){
		"too small":            func(f *Flavor) { f.Size = size(2000, 8) },
		"another architecture": func(f *Flavor) { f.Arch = "arm64" },
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Nodes: []Node{nodeOf("a", large)}, Flavors: []Flavor{large}}
			in.Nodes[0].add(cluster.Pod{Item: packing.Item{Name: "wide", Size: size(3000, 2)}, Arch: "amd64", Class: class.Service, Ways: cluster.WaysOf(cluster.Evict)})
			for i := range 2 * mostTypes {
				f := large
				f.Name = fmt.Sprintf("cheap-%d", i)
				f.InstanceType, f.MicroDollarsPerHour = f.Name, 10_000
				unfit(&f)
				in.Flavors = append(in.Flavors, f)
			}
			if r := Audit(in); r.Homogeneous == nil || r.Homogeneous.PerHour != dollars.Amount(large.MicroDollarsPerHour) {
				t.Errorf("homogeneous %+v, want one large machine: no other type holds the pod", r.Homogeneous)
			}
		})
	}
}

// TestOfTypesWithEqualBoundsTheCheapestArePlanned has a node that stays and accepts no pods. Its free room lowers the bounds of all
// types to the price of that node.
func TestOfTypesWithEqualBoundsTheCheapestArePlanned(t *testing.T) {
	stays := nodeOf("stays", Flavor{Flavor: cluster.Flavor{Name: "huge", Size: size(64_000, 256), MaxPods: new(int64(100)), Arch: "amd64", MicroDollarsPerHour: 900_000}})
	stays.Stays, stays.Kept, stays.KeptFor, stays.Host = "of a GPU", true, "of a GPU", &constraint.Host{Name: "stays", Unschedulable: true}
	in := Input{Nodes: []Node{stays, nodeOf("a", flavors()[0], "p"), nodeOf("b", flavors()[0], "q")}}
	demands, err := constraint.NewCompiler(nil).Compile(fixtures.Pod("p", 1000, 2*gib))
	if err != nil {
		t.Fatal(err)
	}
	in.Nodes[1].Pods[0].Demands, in.Nodes[2].Pods[0].Demands = demands, demands
	for i := range 2 * mostTypes {
		f := flavors()[0]
		f.Name = fmt.Sprintf("type-%d", i)
		f.InstanceType, f.MicroDollarsPerHour = f.Name, int64(100-i)*1000 // the last one by name is the cheapest
		in.Flavors = append(in.Flavors, f)
	}
	if r := Audit(in); r.Homogeneous == nil || r.Homogeneous.PerHour != r.Cheapest.PerHour {
		t.Errorf("homogeneous %+v, want machines of the cheapest type, as in %+v", r.Homogeneous, r.Cheapest)
	}
}

func TestOfTypesWithEqualBillsTheFirstByNameIsShown(t *testing.T) {
	in := Input{Nodes: []Node{nodeOf("a", flavors()[0], "p", "q", "r")}}
	for _, name := range []string{"c", "b", "a", "d"} {
		f := flavors()[0]
		f.Name, f.InstanceType = name, name
		in.Flavors = append(in.Flavors, f)
	}
	for range 20 { // types are planned at the same time
		if r := Audit(in); r.Homogeneous == nil || r.Homogeneous.Machines[0].InstanceType != "a" {
			t.Fatalf("homogeneous %+v, want a", r.Homogeneous)
		}
	}
}

// TestNoTypeIsCheaperThanTheHomogeneousBill plans every type, without bounds.
func TestNoTypeIsCheaperThanTheHomogeneousBill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		for i := range rapid.IntRange(0, mostTypes-2).Draw(t, "more types") {
			f := in.Flavors[0]
			f.Name = fmt.Sprintf("type-%d", i)
			f.InstanceType = f.Name
			f.Size = size(rapid.Int64Range(500, 9000).Draw(t, "cpu"), rapid.Int64Range(1, 40).Draw(t, "memory"))
			f.MicroDollarsPerHour = rapid.Int64Range(30_000, 400_000).Draw(t, "price")
			in.Flavors = append(in.Flavors, f)
		}
		r := Audit(in)
		if r.Homogeneous != nil && r.Homogeneous.PerHour < r.Cheapest.PerHour {
			t.Fatalf("the cheapest machines cost %d, those of one type %d", r.Cheapest.PerHour, r.Homogeneous.PerHour)
		}
		all := newScene(in)
		mix := all.buy(nil)
		for i := range in.Flavors {
			one := *all
			one.in.Flavors = in.Flavors[i : i+1]
			bill, unplaceable := one.hold(&mix)
			if len(unplaceable) == 0 && (r.Homogeneous == nil || bill.PerHour < r.Homogeneous.PerHour) {
				t.Fatalf("machines of %s cost %d, the homogeneous bill is %+v", in.Flavors[i].Name, bill.PerHour, r.Homogeneous)
			}
		}
	})
}

func TestAnObstacleCostsWhatTheBillIsLowerWithoutIt(t *testing.T) {
	small := flavors()[1]
	evict := cluster.WaysOf(cluster.Evict)
	nodes := []Node{hold(nodeOf("a", small, "p"), "x"), hold(nodeOf("b", small, "q"), "x"), hold(nodeOf("c", small, "r", "s"), "y")}
	obstacles := []Obstacle{
		{Kind: "budget", Subject: "one", Pods: []string{"p"}, Ways: map[string]cluster.Ways{"p": evict}},
		{Kind: "annotation", Subject: "with something else", Pods: []string{"q"}},
		{Kind: "annotation", Subject: "of a pod elsewhere", Pods: []string{"gone"}, Ways: map[string]cluster.Ways{"gone": evict}},
		{Kind: "storage", Subject: "full node", Pods: []string{"r", "s"}, Ways: map[string]cluster.Ways{"r": evict, "s": evict}},
	}
	r := Audit(Input{Nodes: nodes, Flavors: flavors(), Obstacles: obstacles, MostObstacles: 10})
	got := map[string]dollars.Amount{}
	for _, c := range r.Obstacles {
		if c.SavesPerHour == nil || c.Lowers != LowersMoved {
			t.Fatalf("%s: saves %v on the bill %s, want a number, by moving", c.Subject, c.SavesPerHour, c.Lowers)
		}
		got[c.Subject] = *c.SavesPerHour
	}
	want := map[string]dollars.Amount{"one": 100_000, "with something else": 0, "full node": 100_000}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what obstacles cost (-want +got):\n%s", diff)
	}
	if r.Obstacles[0].Subject != "one" {
		t.Errorf("the first is %q, want the one that costs most", r.Obstacles[0].Subject)
	}
}

// TestAnObstacleMayCostMoreThanTheNodesOfItsPods has a pod that keeps a cheap node from receiving the pod of an expensive one.
func TestAnObstacleMayCostMoreThanTheNodesOfItsPods(t *testing.T) {
	cheap, dear, other := nodeOf("cheap", flavors()[1], "p"), nodeOf("dear", flavors()[0]), nodeOf("other", flavors()[1], "x")
	cheap.MicroDollarsPerHour, dear.MicroDollarsPerHour = 10_000, 900_000
	dear.add(cluster.Pod{Item: packing.Item{Name: "wide", Size: size(2000, 2)}, Class: class.Service, Ways: cluster.WaysOf(cluster.Evict)})
	r := Audit(Input{Nodes: []Node{hold(cheap, "told to"), dear, hold(other, "told to")}, Flavors: flavors(), MostObstacles: 1, Obstacles: []Obstacle{
		{Kind: "k", Subject: "p", Pods: []string{"p"}, Ways: map[string]cluster.Ways{"p": cluster.WaysOf(cluster.Evict)}},
	}})
	if o := r.Obstacles[0]; o.NodesPerHour != 10_000 || *o.SavesPerHour != 900_000 {
		t.Errorf("nodes for %d, saves %d; want 10000 and the 900000 of the expensive node", o.NodesPerHour, *o.SavesPerHour)
	}
}

func TestBeyondTheNumberAskedForAnObstacleIsListedWithoutACost(t *testing.T) {
	small := flavors()[1]
	nodes := []Node{hold(nodeOf("a", small, "p"), "x"), hold(nodeOf("b", flavors()[0], "q"), "x")}
	evict := cluster.WaysOf(cluster.Evict)
	r := Audit(Input{Nodes: nodes, Flavors: flavors(), MostObstacles: 1, Obstacles: []Obstacle{
		{Kind: "k", Subject: "cheap", Pods: []string{"p"}, Ways: map[string]cluster.Ways{"p": evict}},
		{Kind: "k", Subject: "dear", Pods: []string{"q"}, Ways: map[string]cluster.Ways{"q": evict}},
	}})
	known := map[string]bool{}
	for _, c := range r.Obstacles {
		known[c.Subject] = c.SavesPerHour != nil
	}
	if diff := cmp.Diff(map[string]bool{"dear": true, "cheap": false}, known); diff != "" {
		t.Errorf("worked out (-want +got):\n%s", diff)
	}
}

func TestTheWorstNodesSayWhatWouldEmptyThem(t *testing.T) {
	large, small := flavors()[0], flavors()[1]
	cordoned := nodeOf("cordoned", small, "c")
	cordoned.Phase = cluster.Leaving
	unused := nodeOf("cordoned and empty", small)
	unused.Phase = cluster.Leaving
	nodes := []Node{
		unused, nodeOf("empty", large), hold(nodeOf("held", large, "h"), "told to stay"), cordoned, nodeOf("movable", small, "m"),
	}
	r := Audit(Input{Nodes: nodes, Flavors: flavors()})
	said := map[string]string{}
	for _, w := range r.Worst {
		said[w.Node] = w.Remedy
	}
	for node, want := range map[string]string{
		"empty": "it is empty", "held": "its pod may not be moved, h: told to stay", "cordoned": "moving its pod to a node that has room",
		"movable": "moving its pod to a node that has room", "cordoned and empty": "nothing: it is empty and accepts no pods, and can be released now",
	} {
		if !strings.Contains(said[node], want) {
			t.Errorf("%s: %q, want %q", node, said[node], want)
		}
	}
	if r.Worst[0].Node != "empty" || r.Worst[0].IdlePerHour != 180_000 {
		t.Errorf("the worst is %+v, want the empty one of which all is idle", r.Worst[0])
	}
}

// drawn draws nodes of the flavors for sale; some of the pods may not be moved.
func drawn(t *rapid.T) Input {
	in := Input{Flavors: flavors(), MostObstacles: 3}
	pods := 0
	held := Obstacle{Kind: "hold", Subject: "all", Ways: map[string]cluster.Ways{}}
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		f := in.Flavors[rapid.IntRange(0, 1).Draw(t, "flavor")]
		n := nodeOf(fmt.Sprintf("n%d", i), f)
		for range rapid.IntRange(0, 5).Draw(t, "pods") {
			p := cluster.Pod{Item: packing.Item{Name: fmt.Sprintf("p%d", pods), Size: size(rapid.Int64Range(1, 12).Draw(t, "cpu")*100, rapid.Int64Range(0, 4).Draw(t, "memory"))}, Class: class.Service}
			if !p.Size.Fits(n.Free()) {
				continue
			}
			pods++
			p.Ways = cluster.WaysOf(cluster.Evict)
			if rapid.IntRange(0, 3).Draw(t, "held") == 0 {
				p.Ways, p.Fixed, p.Held = 0, true, "told to"
				held.Pods = append(held.Pods, p.Name)
				held.Ways[p.Name] = cluster.WaysOf(cluster.Evict)
			}
			n.add(p)
		}
		in.Nodes = append(in.Nodes, n)
	}
	if slices.Sort(held.Pods); len(held.Pods) > 0 {
		in.Obstacles = []Obstacle{held}
	}
	return in
}

func TestWhereAllMachinesAreForSaleTheBillsAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		r := Audit(in)
		bills := []dollars.Amount{r.Bound, r.Cheapest.PerHour, r.Moved.PerHour, r.Now.PerHour}
		if !slices.IsSorted(bills) {
			t.Fatalf("bound, cheapest, moved and now are %v", bills)
		}
		// The planner's own bound holds without being cut off at the cheapest bill.
		c := newScene(in)
		if m := c.buy(nil); m.bound > r.Cheapest.PerHour {
			t.Fatalf("the bound %d is above the cheapest machines found, %d", m.bound, r.Cheapest.PerHour)
		}
		for _, o := range r.Obstacles {
			if saves := *o.SavesPerHour; saves < 0 || saves > r.Now.PerHour {
				t.Fatalf("%s costs %d of %d", o.Subject, saves, r.Now.PerHour)
			}
		}
	})
}

// TestMovesAloneKeepEveryPodAndOverfillNoNode checks the state after the moves.
func TestMovesAloneKeepEveryPodAndOverfillNoNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		after := newScene(in).move(nil)
		at, paid := map[string]string{}, dollars.Amount(0)
		for i := range after.state.Nodes {
			n := &after.state.Nodes[i]
			paid += dollars.Amount(n.MicroDollarsPerHour)
			if used := n.Used(); !used.Fits(n.Capacity) || int64(len(n.Pods)) > *n.MaxPods {
				t.Fatalf("node %s has %v and takes %v, %d pods", n.Name, used, n.Capacity, len(n.Pods))
			}
			for _, p := range n.Pods {
				at[p.Name] = n.Name
			}
		}
		if paid != after.bill.PerHour {
			t.Fatalf("the nodes left cost %d, the bill is %d", paid, after.bill.PerHour)
		}
		for i := range in.Nodes {
			for _, p := range in.Nodes[i].Pods {
				if at[p.Name] == "" || p.Fixed && at[p.Name] != in.Nodes[i].Name {
					t.Fatalf("pod %s, fixed %t, went from %s to %q", p.Name, p.Fixed, in.Nodes[i].Name, at[p.Name])
				}
			}
		}
	})
}

func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawn(t)
		want := Audit(in)
		shuffled := in
		shuffled.Nodes = rapid.Permutation(in.Nodes).Draw(t, "nodes in another order")
		shuffled.Flavors = rapid.Permutation(in.Flavors).Draw(t, "flavors in another order")
		for i := range shuffled.Nodes {
			shuffled.Nodes[i].Pods = rapid.Permutation(shuffled.Nodes[i].Pods).Draw(t, "pods in another order")
		}
		if diff := cmp.Diff(want, Audit(shuffled)); diff != "" {
			t.Fatalf("another order gives (-want +got):\n%s", diff)
		}
	})
}

func TestAnAuditThatIsStoppedSaysSoAndHasItsBills(t *testing.T) {
	small := flavors()[1]
	r := Audit(Input{
		Nodes: []Node{hold(nodeOf("a", small, "p"), "x"), nodeOf("b", small, "q")}, Flavors: flavors(), MostObstacles: 1, Stop: func() bool { return true },
		Obstacles: []Obstacle{{Kind: "k", Subject: "s", Pods: []string{"p"}, Ways: map[string]cluster.Ways{"p": cluster.WaysOf(cluster.Evict)}}},
	})
	if !r.Stopped || r.Now.PerHour != 200_000 || len(r.Obstacles) != 1 || r.Obstacles[0].SavesPerHour != nil {
		t.Errorf("stopped %t, now %d, obstacles %+v", r.Stopped, r.Now.PerHour, r.Obstacles)
	}
}

func TestUsageIsAShareOfTheNodesThatAreMeasured(t *testing.T) {
	measured, other := nodeOf("a", flavors()[1], "p"), nodeOf("b", flavors()[1])
	measured.Use = &packing.Size{MilliCPU: measured.Whole.MilliCPU / 4, MemoryBytes: measured.Whole.MemoryBytes / 2}
	r := Audit(Input{Nodes: []Node{measured, other}, Flavors: flavors()})
	want := &Shares{CPU: 0.25, Memory: 0.5, Nodes: 1}
	if diff := cmp.Diff(want, r.Used); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	for _, w := range r.Worst {
		if (w.Used != nil) != (w.Node == "a") || w.Node == "a" && *w.Used != *want {
			t.Errorf("%s: used %+v, want that of a alone", w.Node, w.Used)
		}
	}
}
