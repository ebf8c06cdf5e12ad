package purchase

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// admission is which pods may run on which machines, regardless of size: by CPU architecture, exceptions, whether they request
// GPUs, and node constraints. Pods with the same constraints are a class.
type admission struct {
	classes []int // by pod
	pods    []*Pod
}

func newAdmission(pods []Pod) *admission {
	extended := slices.ContainsFunc(pods, func(p Pod) bool { return !p.Size.Extended.None() })
	type key struct {
		arch, static string
		except       *Exceptions
		onlyBought   bool
		requested    packing.Extended
	}
	a := &admission{classes: make([]int, len(pods))}
	at := map[key]int{}
	for i := range pods {
		k := key{arch: pods[i].Arch, except: pods[i].Except, onlyBought: pods[i].OnlyBought}
		if c := pods[i].Demands; c != nil {
			k.static = c.StaticKey()
		}
		if extended {
			k.requested = pods[i].Size.Extended.Requested() // flavors with GPUs admit pods by these
		}
		class, ok := at[k]
		if !ok {
			class = len(a.pods)
			at[k] = class
			a.pods = append(a.pods, &pods[i])
		}
		a.classes[i] = class
	}
	return a
}

// column returns, by class, whether a flavor admits it.
func (a *admission) column(f *Flavor) string {
	return a.columnOf(func(p *Pod) bool { return p.admittedBy(f) == "" })
}

// columnOf returns, by class, whether the function admits it.
func (a *admission) columnOf(admits func(*Pod) bool) string {
	column := make([]byte, len(a.pods))
	for i, pod := range a.pods {
		column[i] = mix.Refused
		if admits(pod) {
			column[i] = mix.Admitted
		}
	}
	return string(column)
}

// orAny returns a number of pods; math.MaxInt64 for any number.
func orAny(pods *int64) int64 {
	if pods == nil {
		return math.MaxInt64
	}
	return *pods
}

// newInput says in numbers what to buy for pods that each fit some flavor or room, in the order in which they are
// served: the numbers of the bins are the indices of their flavors. assigned maps the exceptions of pods assigned to
// domains to their original ones.
func newInput(pods []Pod, flavors []Flavor, rooms []*room, opts MixOptions, assigned map[*Exceptions]*Exceptions) *mix.Input {
	return newInputWithin(nil, pods, flavors, rooms, opts, assigned)
}

// newBoundInput is newInput for a bound that respects the quotas of pods. It leaves out nodes that take no more pods,
// whose free room would be subtracted.
func newBoundInput(pods []Pod, flavors []Flavor, nodes []ExistingNode, opts MixOptions) *mix.Input {
	rooms := slices.DeleteFunc(roomsOn(nodes), func(r *room) bool { return r.places <= 0 })
	return newInputWithin(newQuotas(pods, nodes), pods, flavors, rooms, opts, nil)
}

// newInputWithin is newInput with quotas; nil if there are none.
func newInputWithin(q *quotas, pods []Pod, flavors []Flavor, rooms []*room, opts MixOptions, assigned map[*Exceptions]*Exceptions) *mix.Input {
	a := newAdmission(pods)
	keys := q.keys()
	in := &mix.Input{Items: make([]mix.Item, len(pods)), Classes: make([]mix.Class, len(a.pods)), Domains: len(assigned) > 0 || len(keys) > 0}
	for _, at := range placesByPrice(flavors) {
		if f := &flavors[at]; f.Sells(1) {
			in.Bins = append(in.Bins, mix.Bin{
				Number: at, Size: f.Size, Places: orAny(f.MaxPods), MicroDollarsPerHour: f.MicroDollarsPerHour, Most: f.Most,
				Admits: a.column(f), Domain: domainOf(keys, f.Host),
			})
		}
	}
	in.Rooms = make([]mix.Room, 0, len(rooms))
	for _, r := range rooms {
		in.Rooms = append(in.Rooms, mix.Room{Size: r.Free, Places: r.places, Admits: a.columnOf(r.admits)})
	}
	for class, pod := range a.pods {
		if original, is := assigned[pod.Except]; is {
			anywhere := *pod
			anywhere.Except = original
			in.Classes[class].Anywhere = func(at int) bool { return anywhere.admittedBy(&flavors[at]) == "" }
		}
	}
	cliques := newCliques(pods)
	for i := range pods {
		in.Items[i] = mix.Item{Size: pods[i].Size, Paid: opts.Paid(pods[i].Runtime), Class: a.classes[i], Clique: cliques[i], Quota: q.quotaOf(i)}
	}
	in.Quotas = q.input(in.Bins, flavors, rooms)
	return in
}

// placesByPrice returns the indices of the flavors by price, then name.
func placesByPrice(flavors []Flavor) []int {
	places := make([]int, len(flavors))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		return cmp.Or(cmp.Compare(flavors[a].MicroDollarsPerHour, flavors[b].MicroDollarsPerHour), cmp.Compare(flavors[a].Name, flavors[b].Name))
	})
	return places
}

// newBudget returns the budget of limits.
func newBudget(limits cluster.Limits, options MixOptions) *mix.Budget {
	limits.Machines = machinesOf(limits, options)
	return mix.NewBudget(mix.Limits(limits))
}

// machinesOf returns the maximum number of machines; nil means any number.
func machinesOf(limits cluster.Limits, options MixOptions) *int64 {
	if options.MaxMachines > 0 {
		limits = limits.And(cluster.Limits{Machines: new(int64(options.MaxMachines))})
	}
	return limits.Machines
}

// rivals are the plans of [Greedy] for the pods of an input, in both orders, where these differ.
func rivals(pods []Pod, flavors []Flavor) []mix.Rival {
	flavors = unlike(flavors)
	items := make(map[string]int, len(pods))
	for i := range pods {
		items[pods[i].Name] = i
	}
	rival := func(order Order) mix.Rival {
		return func(most int, enough func(items []int) bool) (left []int, whole bool) {
			var plan Plan
			whole = plan.buy(pods, flavors, GreedyOptions{Order: order, MaxMachines: most}, func(m *Machine) bool {
				held := make([]int, len(m.Pods))
				for i, name := range m.Pods {
					held[i] = items[name]
				}
				return enough(held)
			})
			for _, u := range plan.Unplaceable {
				left = append(left, items[u.Pod])
			}
			return left, whole
		}
	}
	if slices.ContainsFunc(pods, func(p Pod) bool { return p.Runtime != 0 }) {
		return []mix.Rival{rival(Services), rival(Batch)}
	}
	return []mix.Rival{rival(Services)}
}

// unlike removes flavors of the same shape as a cheaper one, or as an equal one whose name comes first: [Greedy] never
// buys them.
func unlike(flavors []Flavor) []Flavor {
	type shape struct {
		size    packing.Size
		maxPods int64
		arch    string
	}
	seen := map[shape]bool{}
	var found []Flavor
	for _, at := range placesByPrice(flavors) {
		f := flavors[at]
		if of := (shape{f.Size, orAny(f.MaxPods), f.Arch}); !seen[of] {
			seen[of] = true
			found = append(found, f)
		}
	}
	return found
}

// newCliques returns the clique of each pod, numbered in the order of first appearance, or [mix.None]. A clique is a set
// of at least two pods of which no machine holds two: they repel each other by pod anti-affinity on nodes, or request
// the same host port. A pod in several cliques counts to the one with the most pods, the first by name.
func newCliques(pods []Pod) []int32 {
	cliques := make([]int32, len(pods))
	names, all := map[*constraint.Pod][]string{}, map[string]int{}
	for i := range pods {
		demands := pods[i].Demands
		if demands == nil || demands.Plain() {
			continue
		}
		if _, known := names[demands]; !known {
			names[demands] = demands.Apart(corev1.LabelHostname)
		}
		for _, name := range names[demands] {
			all[name]++
		}
	}
	members := map[string]int{}
	largest := func(p *Pod) string {
		best := ""
		for _, name := range names[p.Demands] {
			if best == "" || all[name] > all[best] || all[name] == all[best] && name < best {
				best = name
			}
		}
		return best
	}
	for i := range pods {
		if name := largest(&pods[i]); name != "" {
			members[name]++
		}
	}
	numbers := map[string]int32{}
	for i := range pods {
		cliques[i] = mix.None
		name := largest(&pods[i])
		if members[name] < 2 {
			continue
		}
		if _, known := numbers[name]; !known {
			numbers[name] = int32(len(numbers))
		}
		cliques[i] = numbers[name]
	}
	return cliques
}
