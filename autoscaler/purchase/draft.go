package purchase

import (
	"cmp"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// draft is a plan under construction.
type draft struct {
	r       *Request
	flavors []Flavor // with the remaining maximum of each
	budget  *mix.Budget
	stop    func() bool
	// rooms are the nodes, followed by the machines bought for coupled pods.
	rooms []*room
	// pending are the pods without a place, in packing order; reasons are the known reasons why, by pod name.
	pending []Pod
	reasons map[string]string
	// together are coupled pods for which machines are bought together with those for other pods.
	together []Pod
	// assigned maps the exceptions of pods assigned to domains to their original exceptions.
	assigned map[*Exceptions]*Exceptions
	// problem and solution are the purchases for all other pods: asked are its pods, bought the machines. priced is that
	// problem, even after its machines have become rooms.
	problem  *mix.Problem
	priced   *mix.Problem
	solution mix.Solution
	asked    []Pod
	bought   []mix.Bought
	// tracker is nil if no pod is coupled. Here, pods that take volumes or ephemeral storage are coupled too: see [constraint.Tracked].
	tracker      *constraint.Tracker
	coupled      map[*constraint.Pod]bool
	demands      []*constraint.Pod // of all pods
	coupledBuyer *coupledBuyer
}

// room is the free room of a node, or of a machine bought before the search.
type room struct {
	ExistingNode
	places int64 // how many more pods it takes; math.MaxInt64 for any number
	// flavor is the index of its flavor, or -1 for a node; bought is the name of its flavor, empty for a node that exists.
	flavor int
	bought string
	host   int // in the tracker
	pods   []Pod
}

func newDraft(r *Request) *draft {
	d := &draft{
		r: r, flavors: slices.Clone(r.Flavors), budget: newBudget(r.Limits, r.Options), stop: r.stop(),
		pending: sorted(r.Pods, Services), reasons: map[string]string{}, assigned: map[*Exceptions]*Exceptions{},
	}
	d.rooms = roomsOn(r.Nodes)
	return d
}

// roomsOn returns the rooms of the nodes, ordered by name.
func roomsOn(nodes []ExistingNode) []*room {
	all, rooms := make([]room, len(nodes)), make([]*room, len(nodes))
	for i := range nodes {
		all[i] = room{ExistingNode: nodes[i], places: orAny(nodes[i].Places), flavor: -1, bought: nodes[i].flavor}
		rooms[i] = &all[i]
	}
	slices.SortFunc(rooms, func(a, b *room) int { return cmp.Compare(a.Name, b.Name) })
	return rooms
}

// holds reports whether a room has enough left for a pod, and admits it without regard to others.
func (r *room) holds(p *Pod) bool {
	return p.Size.Fits(r.Free) && r.places > 0 && r.admits(p)
}

// admits reports whether a room admits a pod without regard to others.
func (r *room) admits(p *Pod) bool {
	there := r.flavor < 0
	return (!there || !p.OnlyBought) && p.admittedBy(&Flavor{Name: r.bought, Arch: r.Arch, Host: r.Host}) == ""
}

// take puts a pod into a room.
func (r *room) take(p Pod) {
	r.Free = r.Free.Minus(p.Size)
	if r.places < math.MaxInt64 {
		r.places--
	}
	r.pods = append(r.pods, p)
}

// refuse removes the pods that no flavor takes, and records the reasons.
func (d *draft) refuse(pods []Pod) []Pod {
	takes := d.placeable(pods)
	known := map[Pod]string{}
	i := -1
	return slices.DeleteFunc(pods, func(p Pod) bool {
		if i++; takes[i] {
			return false
		}
		like := Pod{Arch: p.Arch, Demands: p.Demands, Except: p.Except}
		like.Size = p.Size
		if _, ok := known[like]; !ok {
			known[like] = Refusal(&p, d.flavors)
		}
		d.reasons[p.Name] = known[like]
		return true
	})
}

// placeable reports, by pod, whether some flavor takes it. It evaluates each flavor once for each class of pods, and
// tries large flavors first.
func (d *draft) placeable(pods []Pod) []bool {
	a := newAdmission(pods)
	takes := make([]bool, len(pods))
	places := make([][]int, len(a.pods))
	for i := range d.flavors {
		column := a.column(&d.flavors[i])
		for class := range places {
			if column[class] == mix.Admitted && d.flavors[i].Sells(1) {
				places[class] = append(places[class], i)
			}
		}
	}
	for class := range places {
		slices.SortFunc(places[class], func(x, y int) int {
			return cmp.Compare(d.flavors[y].Size.MilliCPU, d.flavors[x].Size.MilliCPU)
		})
	}
	for i := range pods {
		takes[i] = !negative(pods[i]) && slices.ContainsFunc(places[a.classes[i]], func(at int) bool { return pods[i].Size.Fits(d.flavors[at].Size) })
	}
	return takes
}

// fillRooms puts pods that are not coupled into the rooms: those worth the most elsewhere or, for few pods, those whose
// absence makes the machines for the others cheapest.
func (d *draft) fillRooms() {
	const fewRooms = 8
	coupled, plain := d.split()
	inRoom := func(p *Pod) bool {
		return !negative(*p) && slices.ContainsFunc(d.rooms, func(r *room) bool { return r.holds(p) })
	}
	if !slices.ContainsFunc(plain, func(p Pod) bool { return inRoom(&p) }) {
		return
	}
	few := slices.DeleteFunc(slices.Clone(plain), func(p Pod) bool { return !inRoom(&p) && Refusal(&p, d.flavors) != "" })
	exact := len(few) <= mix.ExactItems && len(d.rooms) <= fewRooms && !d.r.limited()
	if !exact {
		few = slices.DeleteFunc(few, func(p Pod) bool { return !inRoom(&p) })
	}
	moved := map[string]bool{}
	for i, items := range mix.New(newInput(few, d.flavors, d.rooms, d.r.Options, nil)).FillRooms(exact) {
		for _, item := range items {
			moved[few[item].Name] = true
			d.rooms[i].take(few[item])
		}
	}
	d.pending = slices.Concat(coupled, slices.DeleteFunc(plain, func(p Pod) bool { return moved[p.Name] }))
}

// split returns the pending pods whose placement depends on other pods, and the others.
func (d *draft) split() (coupled, plain []Pod) {
	plain = make([]Pod, 0, len(d.pending)) // nearly all, in most plans
	for _, p := range d.pending {
		if d.coupled[p.Demands] {
			coupled = append(coupled, p)
		} else {
			plain = append(plain, p)
		}
	}
	return coupled, plain
}

// buy buys machines for the remaining pods that are not coupled, and for the coupled pods that are bought for together
// with them.
func (d *draft) buy() {
	coupled, plain := d.split()
	plain = d.refuse(sorted(append(plain, d.together...), Services))
	d.pending = coupled
	if len(plain) == 0 {
		return
	}
	d.asked = plain
	d.problem = mix.New(newInput(plain, d.flavors, nil, d.r.Options, d.assigned))
	d.priced = d.problem
	var others []mix.Rival
	if !d.r.constrained() && len(d.rooms) == 0 {
		others = rivals(plain, d.flavors)
	}
	d.solution = d.problem.Solve(d.budget, others, d.r.Options.effort(len(plain)), d.stop)
	var left []int
	d.bought, left = d.problem.Bought(&d.solution)
	d.spread()
	for _, item := range left {
		d.pending = append(d.pending, d.original(item))
	}
}

// original returns a pod of the problem as it was before it was assigned to a domain.
func (d *draft) original(item int) Pod {
	p := d.asked[item]
	if except, is := d.assigned[p.Except]; is {
		p.Except = except
	}
	return p
}

// result writes the plan.
func (d *draft) result() Result {
	var result Result
	plan := &result.Plan
	for _, r := range d.rooms {
		if r.flavor < 0 {
			for _, p := range r.pods {
				plan.Assignments = append(plan.Assignments, Assignment{Pod: p.Name, Machine: r.Name, Waits: true})
			}
			continue
		}
		if len(r.pods) == 0 {
			continue
		}
		names, used, paid := []string{}, packing.Size{}, time.Duration(0)
		for _, p := range r.pods {
			names = append(names, p.Name)
			used = used.Plus(p.Size)
			paid = max(paid, d.r.Options.Paid(p.Runtime))
		}
		plan.add(&d.r.Flavors[r.flavor], names, used, paid)
	}
	for _, b := range d.bought {
		var names []string
		for _, item := range b.Items {
			names = append(names, d.asked[item].Name)
		}
		plan.add(&d.r.Flavors[b.Bin], names, b.Used, b.Paid)
	}
	plan.name()
	for _, p := range d.pending {
		if d.reasons[p.Name] == "" {
			plan.Unplaceable = append(plan.Unplaceable, Unplaceable{Pod: p.Name, Reason: exhausted(d.r.Limits, d.r.Options), Limited: true})
		}
	}
	for name, why := range d.reasons {
		if why != "" {
			plan.Unplaceable = append(plan.Unplaceable, Unplaceable{Pod: name, Reason: why})
		}
	}
	plan.sort()
	result.LowerBoundMicroDollarsPerHour = d.least()
	result.Gap = Gap(result.MicroDollarsPerHour, result.LowerBoundMicroDollarsPerHour)
	return result
}
