package purchase

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
	"supercargo.dev/supercargo/lab/bound"
	"supercargo.dev/supercargo/test/draw"
)

func fitting(pods []Pod, flavors []Flavor) []Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p Pod) bool { return unplaceable(p, flavors) != "" })
}

func TestTheBoundIsNoMoreThanTheBestPlanCosts(t *testing.T) {
	reached := 0
	property := func(t *rapid.T) {
		pods, flavors := drawPods(t), drawFlavors(t)
		pods = fitting(pods, flavors)
		pods = pods[:min(len(pods), 7)]
		if len(pods) == 0 {
			return
		}
		for i := range pods {
			pods[i].Runtime = 0
		}
		best := int64(0)
		if s := bestOfAll(pods, flavors, MixOptions{}); s.missing == 0 {
			best = s.bill.Int64() / int64(24*hour)
		}
		p := mix.New(newInput(sorted(pods, Services), flavors, nil, MixOptions{}, nil))
		if least := p.Least(); least > best {
			t.Fatalf("bound %d, best %d", least, best)
		} else if least == best {
			reached++
		}
	}
	draw.Fixed(t, 30, property)
	if reached == 0 {
		t.Error("no bound is reached")
	}
	rapid.Check(t, property)
}

// cheapestWithNodes tries every way to put pods on nodes, with the best purchase of machines for the others.
func cheapestWithNodes(pods []Pod, nodes []*room, flavors []Flavor, at int, rest []Pod) int64 {
	best := int64(math.MaxInt64)
	if at == len(pods) {
		if s := bestOfAll(rest, flavors, MixOptions{}); s.missing == 0 {
			best = s.bill.Int64() / int64(24*hour)
		}
		return best
	}
	for i := range nodes {
		n := nodes[i]
		if p := pods[at]; p.Size.Fits(n.Free) && n.places != 0 && (p.Arch == "" || p.Arch == n.Arch) {
			n.Free, n.places = n.Free.Minus(p.Size), n.places-1
			best = min(best, cheapestWithNodes(pods, nodes, flavors, at+1, rest))
			n.Free, n.places = n.Free.Plus(p.Size), n.places+1
		}
	}
	return min(best, cheapestWithNodes(pods, nodes, flavors, at+1, append(slices.Clone(rest), pods[at])))
}

func TestPlansForFewPodsWithNodesAreTheBestThereAre(t *testing.T) {
	above := 0
	property := func(t *rapid.T) {
		pods, flavors := drawPods(t), drawFlavors(t)
		pods = fitting(pods, flavors)
		pods = pods[:min(len(pods), 5)]
		var nodes []ExistingNode
		for i := range rapid.IntRange(0, 2).Draw(t, "nodes") {
			nodes = append(nodes, ExistingNode{
				Name: fmt.Sprint("n", i), Free: size(rapid.Int64Range(0, 12).Draw(t, "cpu"), rapid.Int64Range(0, 12).Draw(t, "memory")),
				Places: rapid.Ptr(rapid.Int64Range(0, 3), true).Draw(t, "places"), Arch: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "arch"),
			})
		}
		for i := range pods {
			pods[i].Runtime = 0
		}
		got := Supercargo(Request{Pods: pods, Nodes: nodes, Flavors: flavors})
		best := cheapestWithNodes(pods, roomsOn(nodes), flavors, 0, nil)
		if got.LowerBoundMicroDollarsPerHour > best || got.MicroDollarsPerHour != best {
			t.Fatalf("bound %d, best %d, plan %d", got.LowerBoundMicroDollarsPerHour, best, got.MicroDollarsPerHour)
		}
		if len(nodes) > 0 && got.LowerBoundMicroDollarsPerHour > 0 {
			above++
		}
	}
	draw.Fixed(t, 30, property)
	if above == 0 {
		t.Error("with nodes there is never a bound")
	}
	rapid.Check(t, property)
}

// TestTheBoundIsAboveThatOfTotals also checks by how much, if cheap flavors hold few of the pods.
func TestTheBoundIsAboveThatOfTotals(t *testing.T) {
	for _, s := range supercargoScenes {
		flavors := ofCatalogue(s.chosen)
		pods := drawLoad(s.load, 500)
		p := mix.New(newInput(pods, flavors, nil, MixOptions{}, nil))
		var bp []cluster.Pod
		var bf []bound.Flavor
		for _, f := range flavors {
			bf = append(bf, bound.Flavor{Flavor: f})
		}
		for _, q := range pods {
			bp = append(bp, cluster.Pod{Item: packing.Item{Size: q.Size, Runtime: time.Hour}, Arch: q.Arch})
		}
		totals := bound.Cost(bound.Run{Pods: bp, Flavors: bf}).MicroDollars
		ratio := float64(p.Least()) / float64(totals)
		t.Logf("%s: %.3f of that of totals", s.name, ratio)
		if want := map[bool]float64{true: 1.4, false: 0.9999}[s.name[:3] == "all"]; ratio < want {
			t.Errorf("%s: %.3f of that of totals, want %.4f at least", s.name, ratio, want)
		}
	}
}

// TestRealisticPlansAreNearTheBound guards the quality of plans for many pods.
func TestRealisticPlansAreNearTheBound(t *testing.T) {
	for _, s := range supercargoScenes {
		flavors := ofCatalogue(s.chosen)
		most := map[string]map[int]float64{"cmr": {500: 0.03, 2000: 0.01}, "all": {500: 0.05, 2000: 0.05}}[s.name[:3]]
		for _, n := range []int{500, 2000} {
			got := Supercargo(Request{Pods: drawLoad(s.load, n), Flavors: flavors})
			t.Logf("%s, %d pods: gap %.2f %%", s.name, n, 100*got.Gap)
			if got.Gap > most[n] || len(got.Unplaceable) > 0 {
				t.Errorf("%s, %d pods: gap %.2f %%, want %.0f %% at most; %d left out", s.name, n, 100*got.Gap, 100*most[n], len(got.Unplaceable))
			}
		}
	}
}

func TestTheLowerBoundCountsWhatSomeFlavorHolds(t *testing.T) {
	flavors := []Flavor{{Name: "a", Size: size(4000, 16<<30), MicroDollarsPerHour: 200_000}}
	pods := []Pod{pod("p", 3000, 1<<30), pod("q", 3000, 1<<30), pod("huge", 5000, 1<<30)}
	least, uncounted := LowerBound(pods, flavors)
	if least <= 200_000 || least > 400_000 || uncounted != 1 {
		t.Errorf("at least %d micro-dollars per hour for all but %d pods", least, uncounted)
	}
	if least, uncounted := LowerBound(nil, flavors); least != 0 || uncounted != 0 {
		t.Errorf("nothing costs %d, and leaves out %d", least, uncounted)
	}
}

func TestANodeThatTakesNoPodsDoesNotLowerTheBound(t *testing.T) {
	r := Request{Pods: []Pod{pod("p", 3000, 1<<30), pod("q", 3000, 1<<30)}, Flavors: []Flavor{{Name: "a", Size: size(4000, 16<<30), MicroDollarsPerHour: 200_000}}}
	alone := Supercargo(r).LowerBoundMicroDollarsPerHour
	r.Nodes = []ExistingNode{{Name: "closed", Free: size(64_000, 256<<30), Places: new(int64(0))}}
	if with := Supercargo(r).LowerBoundMicroDollarsPerHour; with <= 200_000 || with > alone {
		t.Errorf("the bound is %d beside a node that takes no pods, and %d without it", with, alone)
	}
}
