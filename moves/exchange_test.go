package moves

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/internal/packing"
)

// flavor returns an amd64 machine with the given price in dollars per hour.
func flavor(name string, cpu, memory, dollarsPerHour int64) cluster.Flavor {
	return cluster.Flavor{Name: name, Size: size(cpu, memory), Arch: "amd64", MicroDollarsPerHour: dollarsPerHour * 1_000_000}
}

// thrifty buys the cheapest machines for up to five pods by trying all partitions.
func thrifty(pods []cluster.Pod, nodes []cluster.Node, flavors []cluster.Flavor, most int) ([]cluster.Purchase, []cluster.Move, bool) {
	if len(pods) > 5 {
		return nil, nil, false
	}
	var best []cluster.Purchase
	bestPrice := int64(-1)
	for _, groups := range partitions(pods) {
		buy, price := priced(groups, flavors)
		if buy != nil && len(buy) <= most && (bestPrice < 0 || price < bestPrice) && agree(nodes, groups, buy, flavors) {
			best, bestPrice = buy, price
		}
	}
	return best, nil, bestPrice >= 0
}

// partitions returns all partitions of the pods into groups.
func partitions(pods []cluster.Pod) [][][]cluster.Pod {
	all := [][][]cluster.Pod{nil}
	for _, p := range pods {
		var next [][][]cluster.Pod
		for _, groups := range all {
			for g := range groups {
				joined := slices.Clone(groups)
				joined[g] = append(slices.Clone(joined[g]), p)
				next = append(next, joined)
			}
			next = append(next, append(slices.Clone(groups), []cluster.Pod{p}))
		}
		all = next
	}
	return all
}

// agree reports whether the constraints between pods hold if they run on these machines beside the nodes.
func agree(nodes []cluster.Node, groups [][]cluster.Pod, buy []cluster.Purchase, flavors []cluster.Flavor) bool {
	w := &world{State: &cluster.State{Nodes: slices.Clone(nodes)}}
	for i, b := range buy {
		f := flavors[slices.IndexFunc(flavors, func(f cluster.Flavor) bool { return f.Name == b.Flavor })]
		w.Nodes = append(w.Nodes, cluster.Node{Host: f.Host, Pods: groups[i]})
	}
	tracker := w.tracker(-1)
	for i := range groups {
		if !together(tracker, groups[i], len(nodes)+i) {
			return false
		}
	}
	return true
}

// priced returns the cheapest machine for each group of pods.
func priced(groups [][]cluster.Pod, flavors []cluster.Flavor) (buy []cluster.Purchase, price int64) {
	counts := map[string]int{}
	for _, group := range groups {
		var best *cluster.Flavor
		for i := range flavors {
			f := &flavors[i]
			n := cluster.Node{Class: class.Any, Capacity: f.Size, Arch: f.Arch, Host: f.Host, Pods: group}
			fits := n.Free().MilliCPU >= 0 && n.Free().MemoryBytes >= 0 && (f.MaxPods == nil || int64(len(group)) <= *f.MaxPods)
			for j := range group {
				fits = fits && n.Suits(&group[j])
			}
			if fits && (f.Most == nil || counts[f.Name] < *f.Most) && (best == nil || f.MicroDollarsPerHour < best.MicroDollarsPerHour) {
				best = f
			}
		}
		if best == nil {
			return nil, 0
		}
		counts[best.Name]++
		buy = append(buy, cluster.Purchase{Flavor: best.Name, Class: class.Any, Pods: names(group)})
		price += best.MicroDollarsPerHour
	}
	return buy, price
}

// told formats exchanges as "NODES -> FLAVOR(PODS) ... POD>TARGET ...".
func told(all []cluster.Exchange) []string {
	lines := []string{}
	for _, e := range all {
		line := strings.Join(e.Nodes, " ") + " ->"
		for _, p := range e.Buy {
			line += fmt.Sprintf(" %s(%s)", p.Flavor, strings.Join(p.Pods, " "))
		}
		for _, m := range e.Moves {
			line += " " + m.Pod + ">" + m.Target
		}
		lines = append(lines, line)
	}
	return lines
}

// day has a horizon of a day.
var day = ExchangeConfig{Horizon: 24 * time.Hour, MoveServices: true}

func sized(n cluster.Node, cpu, memory int64) cluster.Node {
	n.Capacity = packing.Size{MilliCPU: cpu, MemoryBytes: memory}
	return n
}

func TestWhichMachinesAreExchanged(t *testing.T) {
	small, large := flavor("small", 4, 4, 20), flavor("large", 20, 20, 80)
	full := func(name string) cluster.Node { return node(name, fixed(service("f-"+name, 10, 10))) }
	tests := []struct {
		name    string
		config  ExchangeConfig
		nodes   []cluster.Node
		flavors []cluster.Flavor
		want    []string
	}{
		{"nothing there", day, nil, []cluster.Flavor{small}, []string{}},
		{"one for a cheaper one", day, []cluster.Node{node("a", service("p", 4, 4))}, []cluster.Flavor{small}, []string{"a -> small(p)"}},
		{"one for two", day, []cluster.Node{node("a", service("p", 4, 4), service("q", 2, 2))}, []cluster.Flavor{small},
			[]string{"a -> small(p) small(q)"}},
		{"two for one", day, []cluster.Node{node("a", service("p", 9, 9)), node("b", service("q", 8, 8))}, []cluster.Flavor{large},
			[]string{"a b -> large(p q)"}},
		{"three for two", day,
			[]cluster.Node{node("a", service("p", 9, 9)), node("b", service("q", 8, 8)), node("c", service("r", 8, 4))},
			[]cluster.Flavor{large, flavor("flat", 8, 4, 50)},
			[]string{"a b c -> large(p q) flat(r)"}},
		{"several of several", day,
			[]cluster.Node{node("a", service("p", 4, 4)), node("b", service("q", 4, 4)), node("c", service("r", 4, 4))},
			[]cluster.Flavor{small}, []string{"a b c -> small(p) small(q) small(r)"}},
		{"room on other nodes comes first", day, []cluster.Node{node("a", service("p", 4, 4), service("q", 2, 2)), node("b", fixed(service("r", 8, 8)))},
			[]cluster.Flavor{small}, []string{"a -> small(p) q>b"}},
		{"nothing need be bought", day, []cluster.Node{node("a", service("p", 2, 2)), node("b", fixed(service("r", 8, 8)))}, nil, []string{"a -> p>b"}},
		{"nothing can be bought", day, []cluster.Node{node("a", service("p", 4, 4))}, nil, []string{}},
		{"a flavor that is sold out", day, []cluster.Node{node("a", service("p", 4, 4))}, []cluster.Flavor{most(small, 0)}, []string{}},
		{"one is left, so one is exchanged", day, []cluster.Node{node("a", service("p", 6, 6)), node("b", service("q", 6, 5))},
			[]cluster.Flavor{most(flavor("middle", 6, 6, 30), 1)}, []string{"a -> middle(p)"}},
		{"not more expensive by as much as it must be cheaper", day, []cluster.Node{node("a", service("p", 4, 4))}, []cluster.Flavor{flavor("other", 4, 4, 52)}, []string{}},
		{"what is fixed stays", day, []cluster.Node{node("a", fixed(service("p", 4, 4)))}, []cluster.Flavor{small}, []string{}},
		{"so do services if they must", ExchangeConfig{Horizon: time.Hour}, []cluster.Node{node("a", service("p", 4, 4))}, []cluster.Flavor{small}, []string{}},
		{"a node that is kept", day, []cluster.Node{with(node("a", service("p", 4, 4)), keep)}, []cluster.Flavor{small}, []string{}},
		{"a node that is kept takes pods, even if it is empty", day, []cluster.Node{node("a", service("p", 4, 4)), with(node("b"), keep)}, nil, []string{"a -> p>b"}},
		{"an empty node does not", day, []cluster.Node{node("a", service("p", 4, 4)), node("b")}, nil, []string{}},
		{"a node to which pods are moving", day, []cluster.Node{with(node("a", service("p", 4, 4)), func(n *cluster.Node) { n.Incoming = 1 })}, []cluster.Flavor{small}, []string{}},
		{"a node that is being emptied", day, []cluster.Node{with(node("a", service("p", 4, 4)), func(n *cluster.Node) { n.Phase = cluster.Leaving })}, []cluster.Flavor{small}, []string{}},
		{"a node that is too young", ExchangeConfig{Horizon: time.Hour, MoveServices: true, Residence: 10*time.Minute + 1},
			[]cluster.Node{node("a", service("p", 4, 4))}, []cluster.Flavor{small}, []string{}},
		{"a node just old enough", ExchangeConfig{Horizon: time.Hour, MoveServices: true, Residence: 10 * time.Minute},
			[]cluster.Node{node("a", service("p", 4, 4))}, []cluster.Flavor{small}, []string{"a -> small(p)"}},
		{"as many as may be emptied", ExchangeConfig{Horizon: time.Hour, MoveServices: true, Limit: 2},
			[]cluster.Node{node("a", service("p", 6, 6)), node("b", service("q", 6, 6)), node("c", service("r", 6, 6))},
			[]cluster.Flavor{flavor("middle", 6, 6, 30)}, []string{"a b -> middle(p) middle(q)"}},
		{"a migrated pod stays on its architecture", day, []cluster.Node{node("a", service("p", 4, 4))}, []cluster.Flavor{arm(small)}, []string{}},
		{"an evicted one need not", ExchangeConfig{Horizon: time.Hour, MoveServices: true, Method: cluster.Evict},
			[]cluster.Node{node("a", service("p", 4, 4))}, []cluster.Flavor{arm(small)}, []string{"a -> small(p)"}},
		{"no pod is moved to where it will be moved on", day,
			[]cluster.Node{node("a", service("p", 2, 2)), node("b", service("q", 2, 2)), full("c")}, nil, []string{"a -> p>b"}},
		{"a machine is cordoned for a job that ends by itself", day, []cluster.Node{node("a", service("p", 2, 2), ending("q", time.Minute)), node("b", fixed(service("r", 8, 8)))}, nil, []string{"a -> p>b q>"}},
		{"as long as that takes no more patience than there is", patientFor(time.Minute),
			[]cluster.Node{node("a", service("p", 2, 2), ending("q", time.Minute)), node("b", fixed(service("r", 8, 8)))}, nil, []string{"a -> p>b q>"}},
		{"but not for one that ends later", patientFor(time.Minute - 1),
			[]cluster.Node{node("a", service("p", 2, 2), ending("q", time.Minute)), node("b", fixed(service("r", 8, 8)))}, nil, []string{}},
		{"one that may leave otherwise does, rather than be waited for beyond that", patientFor(time.Minute - 1),
			[]cluster.Node{node("a", service("p", 2, 2), orMoving(ending("q", time.Minute))), node("b", fixed(service("r", 6, 6)))}, nil, []string{"a -> p>b q>b"}},
		{"jobs that end soon are not worth a machine", ExchangeConfig{Horizon: 24 * time.Hour},
			[]cluster.Node{node("a", lasting(job("p", 4, 4), 10*time.Second))}, []cluster.Flavor{small}, []string{}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			s := state(tc.nodes...)
			s.Flavors = tc.flavors
			if diff := cmp.Diff(tc.want, told(Exchange(s, tc.config, thrifty))); diff != "" {
				t.Errorf("exchanges (-want +got):\n%s", diff)
			}
		})
	}
}

// ending returns a job that ends in the given time and may not leave otherwise.
func ending(name string, in time.Duration) cluster.Pod {
	p := lasting(job(name, 2, 2), in)
	p.Ways = cluster.WaysOf(cluster.Wait)
	return p
}

// orMoving returns the pod such that it may also be migrated.
func orMoving(p cluster.Pod) cluster.Pod {
	p.Ways = cluster.WaysOf(cluster.Wait, cluster.Migrate)
	return p
}

func patientFor(d time.Duration) ExchangeConfig {
	return ExchangeConfig{Horizon: 24 * time.Hour, MoveServices: true, Patience: d}
}

func keep(n *cluster.Node)                        { n.Kept = true }
func most(f cluster.Flavor, n int) cluster.Flavor { f.Most = &n; return f }
func arm(f cluster.Flavor) cluster.Flavor         { f.Arch = "arm64"; return f }
