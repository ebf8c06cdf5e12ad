package purchase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/extended"
	"supercargo.dev/supercargo/internal/packing"
)

// with has these amounts of extended resources.
func with(p Pod, amounts ...int16) Pod {
	p.Size.Extended = packing.Amounts(amounts...)
	return p
}

// has has these amounts of extended resources, of which the first is GPUs.
func has(f Flavor, amounts ...int16) Flavor {
	f.Size.Extended = packing.Amounts(amounts...)
	f.GPUs.Amounts = packing.Amounts(f.Size.Extended.At(0))
	f.GPUs.Any = f.Size.Extended.At(0) > 0
	return f
}

func TestMachinesWithGPUsAreBoughtForPodsThatRequestThem(t *testing.T) {
	f, g := flavor("f", 10, 10, 20), has(flavor("g", 10, 10, 10), 2)
	gpuNode := func(n int16) ExistingNode {
		e := standing("n", 4, 4, -1)
		e.Free.Extended = packing.Amounts(n)
		return e
	}
	c := newDemands()
	near := pod("b", 1, 1)
	near.Demands = c.of("b", beside("a", perHost))
	a := with(pod("a", 1, 1), 1)
	a.Demands = c.of("a", inZone("x"))
	z := zoned(g, "x")
	tests := []struct {
		name string
		r    Request
		want []string
	}{
		{"one pod", Request{Pods: []Pod{with(pod("a", 1, 1), 1)}, Flavors: []Flavor{f, g}}, []string{"g-0: a"}},
		{"none of another", Request{Pods: []Pod{pod("a", 1, 1)}, Flavors: []Flavor{f, g}}, []string{"f-0: a"}},
		{"none of another, and there is nothing else", Request{Pods: []Pod{pod("a", 1, 1)}, Flavors: []Flavor{g}}, []string{"a -"}},
		{"as many as have room", Request{Pods: []Pod{with(pod("a", 1, 1), 1), with(pod("b", 1, 1), 1), with(pod("c", 1, 1), 1)}, Flavors: []Flavor{f, g}}, []string{"g-0: a", "g-1: b c"}},
		{"others fill them", Request{Pods: []Pod{with(pod("a", 1, 1), 1), pod("b", 9, 9)}, Flavors: []Flavor{f, g}}, []string{"g-0: a b"}},
		{"others fill them, and get machines of their own", Request{Pods: []Pod{with(pod("a", 1, 1), 1), pod("b", 9, 9), pod("c", 9, 9)}, Flavors: []Flavor{f, g}}, []string{"g-0: a b", "f-0: c"}},
		{"others fill as many places as there are", Request{Pods: []Pod{with(pod("a", 1, 1), 1), pod("b", 1, 1), pod("c", 1, 1)},
			Flavors: []Flavor{f, func() Flavor { few := g; few.MaxPods = new(int64(2)); return few }()}}, []string{"g-0: a b", "f-0: c"}},
		{"not with those for which the flavor is excluded", Request{Pods: []Pod{with(pod("a", 1, 1), 1), func() Pod {
			p := pod("b", 1, 1)
			p.Except = &Exceptions{Flavors: map[string]string{"g": "no"}}
			return p
		}()}, Flavors: []Flavor{f, g}}, []string{"g-0: a", "f-0: b"}},
		{"a node has enough", Request{Pods: []Pod{with(pod("a", 1, 1), 1), with(pod("b", 1, 1), 1)}, Nodes: []ExistingNode{gpuNode(2)}, Flavors: []Flavor{f, g}}, []string{"a waits for n", "b waits for n"}},
		{"a node has one", Request{Pods: []Pod{with(pod("a", 1, 1), 1), with(pod("b", 1, 1), 1)}, Nodes: []ExistingNode{gpuNode(1)}, Flavors: []Flavor{f, g}}, []string{"g-0: b", "a waits for n"}},
		{"on a node others are beside them", Request{Pods: []Pod{with(pod("a", 2, 2), 1), pod("b", 3, 3)}, Nodes: []ExistingNode{gpuNode(1)}, Flavors: []Flavor{f, g}}, []string{"f-0: b", "a waits for n"}},
		{"more than any flavor has", Request{Pods: []Pod{with(pod("a", 1, 1), 3)}, Flavors: []Flavor{f, g}}, []string{"a -"}},
		{"another resource", Request{Pods: []Pod{with(pod("a", 1, 1), 0, 1)}, Flavors: []Flavor{f, has(f, 0, 1)}}, []string{"f-0: a"}},
		{"a limit that is used up", Request{Pods: []Pod{with(pod("a", 9, 9), 1), pod("b", 9, 9)}, Flavors: []Flavor{f, g}, Limits: cluster.Limits{Machines: new(int64(1))}}, []string{"g-0: a", "b -"}},
		{"a limit in options that is used up", Request{Pods: []Pod{with(pod("a", 9, 9), 1), pod("b", 9, 9)}, Flavors: []Flavor{f, g}, Options: MixOptions{MaxMachines: 1}}, []string{"g-0: a", "b -"}},
		{"a pod that wants to be beside one", Request{Pods: []Pod{a, near}, Flavors: []Flavor{zoned(f, "x"), z}}, []string{"g-0: a b"}},
		{"one that wants to be beside another", Request{Pods: []Pod{func() Pod {
			p := with(pod("b", 1, 1), 1)
			p.Demands = near.Demands
			return p
		}(), func() Pod {
			p := pod("a", 1, 1)
			p.Demands = a.Demands
			return p
		}()}, Nodes: []ExistingNode{func() ExistingNode {
			n := gpuNode(1)
			n.Host = zoned(f, "x").Host
			return n
		}()}, Flavors: []Flavor{zoned(f, "x"), z}}, []string{"a waits for n", "b waits for n"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, bought(Supercargo(tc.r).Plan)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheMissingResourceIsNamed(t *testing.T) {
	names := &extended.Names{"nvidia.com/gpu", "example.com/nic"}
	f := has(flavor("f", 10, 10, 1), 1)
	for _, tc := range []struct {
		p     Pod
		names *extended.Names
		want  string
	}{
		{with(pod("p", 1, 1), 1), names, ""},
		{with(pod("p", 1, 1), 2), names, "too small (nvidia.com/gpu)"},
		{with(pod("p", 11, 1), 2, 1), names, "too small (CPU and nvidia.com/gpu and example.com/nic)"},
		{with(pod("p", 1, 1), 2), nil, "too small (extended resources)"},
		{pod("p", 1, 1), names, "not admitted: it has GPUs, and the pod requests none of them"},
		{with(pod("p", 1, 1), 0, 1), names, "not admitted: it has GPUs, and the pod requests none of them"},
	} {
		f.Resources = tc.names
		if got := tc.p.RefusedBy(&f); got != tc.want {
			t.Errorf("%v of %v: %q, want %q", tc.p.Size, f.Size, got, tc.want)
		}
	}
}

// TestMachinesWithManyGPUsAreFilled has 40 pods with a GPU, and machines of which the largest is the cheapest for each GPU. With
// one more pod, another machine is needed.
func TestMachinesWithManyGPUsAreFilled(t *testing.T) {
	flavors := []Flavor{flavor("cpu", 64, 64, 100), has(flavor("one", 8, 8, 1000), 1), has(flavor("eight", 64, 64, 7000), 8)}
	for n, want := range map[int]int64{40: 35_000, 41: 36_000} {
		var pods []Pod
		for i := range n {
			pods = append(pods, with(pod(fmt.Sprintf("p%02d", i), 1, 1), 1))
		}
		r := Supercargo(Request{Pods: pods, Flavors: flavors})
		if r.MicroDollarsPerHour != want || len(r.Unplaceable) > 0 {
			t.Errorf("%d pods cost %d, want %d; %v are left", n, r.MicroDollarsPerHour, want, r.Unplaceable)
		}
		if r.LowerBoundMicroDollarsPerHour < 35_000 {
			t.Errorf("%d pods: the bound %d counts no GPUs", n, r.LowerBoundMicroDollarsPerHour)
		}
	}
}

// TestPlansWithExtendedResourcesHold draws pods and flavors with GPUs and another resource.
func TestPlansWithExtendedResourcesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Request{Options: MixOptions{Effort: 20_000}}
		for i := range rapid.IntRange(1, 4).Draw(t, "flavors") {
			f := flavor(fmt.Sprintf("f%d", i), rapid.Int64Range(1, 20).Draw(t, "cpu"), rapid.Int64Range(1, 20).Draw(t, "memory"), rapid.Int64Range(0, 50).Draw(t, "price"))
			r.Flavors = append(r.Flavors, has(f, rapid.Int16Range(0, 3).Draw(t, "gpus"), rapid.Int16Range(0, 2).Draw(t, "nics")))
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "pods") {
			p := pod(fmt.Sprintf("p%02d", i), rapid.Int64Range(0, 8).Draw(t, "cpu"), rapid.Int64Range(0, 8).Draw(t, "memory"))
			r.Pods = append(r.Pods, with(p, max(0, rapid.Int16Range(-2, 2).Draw(t, "gpus")), max(0, rapid.Int16Range(-3, 1).Draw(t, "nics"))))
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "nodes") {
			n := standing(fmt.Sprintf("n%d", i), rapid.Int64Range(0, 9).Draw(t, "cpu"), rapid.Int64Range(0, 9).Draw(t, "memory"), rapid.Int64Range(-1, 3).Draw(t, "places"))
			n.Free.Extended = packing.Amounts(rapid.Int16Range(-1, 2).Draw(t, "gpus"))
			r.Nodes = append(r.Nodes, n)
		}
		got := Supercargo(r)
		checkExtended(t, &r, &got)
		shuffled := r
		shuffled.Pods, shuffled.Flavors = slices.Clone(r.Pods), slices.Clone(r.Flavors)
		order := rand.New(rand.NewPCG(1, 2))
		order.Shuffle(len(shuffled.Pods), func(i, j int) { shuffled.Pods[i], shuffled.Pods[j] = shuffled.Pods[j], shuffled.Pods[i] })
		order.Shuffle(len(shuffled.Flavors), func(i, j int) {
			shuffled.Flavors[i], shuffled.Flavors[j] = shuffled.Flavors[j], shuffled.Flavors[i]
		})
		if diff := cmp.Diff(got, Supercargo(shuffled)); diff != "" {
			t.Errorf("in another order (-want +got):\n%s", diff)
		}
	})
}

// checkExtended checks that no machine or node is overfilled, that each machine with GPUs has a pod that requests some, that no
// pod is left that a flavor takes, and that the bound is one.
func checkExtended(t *rapid.T, r *Request, got *Result) {
	pods, flavors, free := map[string]Pod{}, map[string]*Flavor{}, map[string]packing.Size{}
	for _, p := range r.Pods {
		pods[p.Name] = p
	}
	for i := range r.Flavors {
		flavors[r.Flavors[i].Name] = &r.Flavors[i]
	}
	for _, n := range r.Nodes {
		free[n.Name] = n.Free
	}
	seen := 0
	for _, m := range got.Machines {
		var used packing.Size
		for _, name := range m.Pods {
			used = used.Plus(pods[name].Size)
			seen++
		}
		if f := flavors[m.Flavor]; !used.Fits(f.Size) || used != m.Used || !f.ServesGPUs(used) {
			t.Errorf("machine %+v uses %v of %v", m, used, f.Size)
		}
	}
	for _, a := range got.Assignments {
		if !a.Waits {
			continue
		}
		seen++
		if !pods[a.Pod].Size.Fits(free[a.Machine]) {
			t.Errorf("pod %s with %v finds %v on %s", a.Pod, pods[a.Pod].Size, free[a.Machine], a.Machine)
		}
		free[a.Machine] = free[a.Machine].Minus(pods[a.Pod].Size)
	}
	for _, u := range got.Unplaceable {
		seen++
		p := pods[u.Pod]
		if why := Refusal(&p, r.Flavors); why == "" || u.Reason != why {
			t.Errorf("pod %s is left because of %q, and flavors refuse it because of %q", u.Pod, u.Reason, why)
		}
	}
	if seen != len(r.Pods) {
		t.Errorf("%d pods are in the plan, of %d", seen, len(r.Pods))
	}
	if got.LowerBoundMicroDollarsPerHour > got.MicroDollarsPerHour {
		t.Errorf("the bound %d exceeds the price %d", got.LowerBoundMicroDollarsPerHour, got.MicroDollarsPerHour)
	}
}
