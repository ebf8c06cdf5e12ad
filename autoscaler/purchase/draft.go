package purchase

import (
	"cmp"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// draft is a plan under construction.
type draft struct {
	r       *Request
	flavors []Flavor // with the remaining maximum of each
	budget  *budget
	stop    func() bool
	// rooms are the nodes, followed by the machines bought for coupled pods.
	rooms []*room
	// pending are the pods without a place, in packing order; reasons are the known reasons why, by pod name.
	pending []Pod
	reasons map[string]string
	moved   map[string]bool // into rooms
	// together are coupled pods for which machines are bought together with those for other pods.
	together []Pod
	// assigned maps the exceptions of pods assigned to domains to their original exceptions.
	assigned map[*Exceptions]*Exceptions
	// problem and mix are the purchases for all other pods. priced is that problem, even after its machines have become
	// rooms.
	problem *problem
	priced  *problem
	mix     mix
	// tracker is nil if no pod is coupled.
	tracker      *constraint.Tracker
	coupled      map[*constraint.Pod]bool
	demands      []*constraint.Pod // of all pods
	coupledBuyer *coupledBuyer
}

// room is the free room of a node, or of a machine bought before the search.
type room struct {
	ExistingNode
	places int64 // how many more pods it takes; math.MaxInt64 for any number
	// flavor is the index of its flavor, or -1 for a node; bought is the name of its flavor, empty for a node.
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
	var rooms []*room
	for _, node := range nodes {
		rooms = append(rooms, &room{ExistingNode: node, places: orAny(node.Places), flavor: -1})
	}
	slices.SortFunc(rooms, func(a, b *room) int { return cmp.Compare(a.Name, b.Name) })
	return rooms
}

// orAny returns a number of pods; math.MaxInt64 for any number.
func orAny(pods *int64) int64 {
	if pods == nil {
		return math.MaxInt64
	}
	return *pods
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
			known[like] = refusal(&p, d.flavors)
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
			if column[class] == admitted && d.flavors[i].Sells(1) {
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
	few := slices.DeleteFunc(slices.Clone(plain), func(p Pod) bool { return !inRoom(&p) && refusal(&p, d.flavors) != "" })
	exact := len(few) <= exactPods && len(d.rooms) <= fewRooms && !d.r.limited()
	if !exact {
		few = slices.DeleteFunc(few, func(p Pod) bool { return !inRoom(&p) })
	}
	p := newProblem(few, d.flavors, d.rooms, d.r.Options)
	var found [][]int32
	if exact {
		found = p.exactRooms()
	} else {
		found = p.fillRooms()
	}
	d.move(p, found, plain)
	d.pending = slices.Concat(coupled, slices.DeleteFunc(plain, func(p Pod) bool { return d.moved[p.Name] }))
}

// move puts pods of kinds into rooms.
func (d *draft) move(p *problem, kinds [][]int32, pods []Pod) {
	d.moved = map[string]bool{}
	byName := map[string]Pod{}
	for _, pod := range pods {
		byName[pod.Name] = pod
	}
	served := make([]int, len(p.kinds))
	for i := range kinds {
		for _, k := range kinds[i] {
			name := p.kinds[k].pods[served[k]]
			served[k]++
			d.moved[name] = true
			d.rooms[i].take(byName[name])
		}
	}
}

// limited reports whether there is any limit on purchases.
func (r *Request) limited() bool {
	return newBudget(r.Limits, r.Options).tight || slices.ContainsFunc(r.Flavors, func(f Flavor) bool { return f.Most != nil })
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

// fillRooms returns, by room, the kinds of the pods that go there. Pods that fit no offer come first, then those worth
// the most.
func (p *problem) fillRooms() [][]int32 {
	at := pricing{parts: p.pricing.parts, worth: slices.Clone(p.pricing.worth)}
	for i := range p.kinds {
		k := &p.kinds[i]
		if !slices.ContainsFunc(p.all, func(at int) bool { return p.holds(at, k.size, k.on, 1) }) {
			at.worth[i] = 1 << priceBits
		}
	}
	k := &packer{p: p}
	k.stock(p.counts(), at)
	found := make([][]int32, len(p.rooms))
	for i, r := range p.rooms {
		f := filledBin{bin: bin{at: len(p.offers) + i, size: r.Free, places: min(r.places, int64(p.total)), enough: 1 << 63}, room: r.Free}
		k.fill(&f, &k.pool, 24)
		k.refine(&f, 2)
		for _, g := range f.items {
			found[i] = append(found[i], k.items[g].kind)
			k.mark(g, false)
		}
	}
	return found
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
	d.problem = newProblemInDomains(plain, d.flavors, nil, d.r.Options, d.assigned)
	d.priced = d.problem
	asked := plain
	if d.r.constrained() || len(d.rooms) > 0 {
		asked = nil
	}
	d.mix = d.problem.solve(d.budget.of(d.problem), asked, d.flavors, d.r.Options.effort(len(plain)), d.stop)
	for i := range d.mix.machines {
		d.purchase(d.problem.offers[d.mix.machines[i].offer].flavor, 1)
	}
	d.wait()
}

// wait makes the pods for which the mix has no machine pending, as they were before they were assigned to domains.
func (d *draft) wait() {
	var names []string
	for i := range d.problem.kinds {
		of := d.problem.kinds[i].pods
		names = append(names, of[len(of)-int(d.mix.waiting[i]):]...)
	}
	byName := make(map[string]*Pod, len(names))
	for _, name := range names {
		byName[name] = nil
	}
	for i := range d.r.Pods {
		if _, waits := byName[d.r.Pods[i].Name]; waits {
			byName[d.r.Pods[i].Name] = &d.r.Pods[i]
		}
	}
	for _, name := range names {
		d.pending = append(d.pending, *byName[name])
	}
}

// constrained reports whether there is anything that [Greedy] ignores.
func (r *Request) constrained() bool {
	return slices.ContainsFunc(r.Pods, func(p Pod) bool { return p.Demands != nil || p.Except != nil }) ||
		slices.ContainsFunc(r.Flavors, func(f Flavor) bool { return f.Most != nil })
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
			used = sum(used, p.Size)
			paid = max(paid, d.r.Options.Paid(p.Runtime))
		}
		plan.add(&d.r.Flavors[r.flavor], names, used, paid)
	}
	if d.problem != nil {
		d.problem.write(plan, d.mix)
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
