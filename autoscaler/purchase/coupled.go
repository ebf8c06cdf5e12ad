package purchase

import (
	"math"
	"slices"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// placeCoupled places the pods whose placement depends on other pods, one by one, by the rules of the scheduler: on a
// node, on a machine already bought for one of them, or on a new one. It repeats rounds while they place a pod, because
// one pod may depend on another.
//
// If together is set, pods that at most repel others on hosts are only placed on nodes, and otherwise assigned to
// domains: machines for them are bought together with those for all other pods.
func (d *draft) placeCoupled(together bool) {
	if !d.track() {
		return
	}
	waiting, plain := d.split()
	if together {
		assignable := func(p Pod) bool { return assignable(&p) }
		var alike []Pod
		for _, p := range waiting {
			if assignable(p) {
				alike = append(alike, p)
			}
		}
		waiting = d.place(slices.DeleteFunc(waiting, assignable))
		alike = d.inRounds(alike, d.join)
		assigned, others := d.assign(alike)
		d.together = assigned
		waiting = append(waiting, d.place(others)...)
	} else {
		waiting = d.place(waiting)
	}
	d.pending = slices.Concat(waiting, plain)
}

// inRounds tries to place pods in rounds while a round places any, and returns those left over.
func (d *draft) inRounds(waiting []Pod, place func(p Pod) bool) []Pod {
	for was := len(waiting) + 1; len(waiting) < was; {
		was = len(waiting)
		waiting = slices.DeleteFunc(waiting, func(p Pod) bool { return !negative(p) && place(p) })
	}
	return waiting
}

// place places coupled pods in rounds, and returns those left over, with reasons recorded.
func (d *draft) place(waiting []Pod) []Pod {
	if len(waiting) == 0 {
		return nil
	}
	if d.coupledBuyer == nil {
		d.coupledBuyer = newCoupledBuyer(d)
	}
	waiting = d.inRounds(waiting, func(p Pod) bool { return d.join(p) || d.coupledBuyer.open(p) })
	for i := range waiting {
		d.reasons[waiting[i].Name] = d.coupledBuyer.refusal(&waiting[i])
	}
	return waiting
}

// track sets up the tracker, and reports whether any pending pod is coupled.
func (d *draft) track() bool {
	var all, pending []*constraint.Pod
	seen := map[*constraint.Pod]bool{nil: true}
	add := func(p *constraint.Pod) {
		if !seen[p] {
			seen[p] = true
			all = append(all, p)
		}
	}
	for i := range d.pending {
		if c := d.pending[i].Demands; c != nil {
			pending = append(pending, c)
		}
		add(d.pending[i].Demands)
	}
	for _, r := range d.rooms {
		for _, p := range r.Pods {
			add(p)
		}
	}
	d.coupled, d.demands = constraint.Coupled(all), all
	if !slices.ContainsFunc(pending, func(p *constraint.Pod) bool { return d.coupled[p] }) {
		return false
	}
	d.tracker = constraint.NewTracker()
	d.tracker.Expect(all...)
	for _, r := range d.rooms {
		r.host = d.tracker.AddHost(hostOf(r.Host))
		for _, p := range r.Pods {
			if p != nil {
				d.tracker.Place(p, r.host)
			}
		}
	}
	return true
}

func hostOf(h *constraint.Host) *constraint.Host {
	if h == nil {
		return bareHost
	}
	return h
}

// join puts the pod into the first room that takes it.
func (d *draft) join(p Pod) bool {
	for _, r := range d.rooms {
		if r.holds(&p) && d.tracker.Check(p.Demands, r.host) == "" {
			d.put(p, r)
			return true
		}
	}
	return false
}

func (d *draft) put(p Pod, r *room) {
	r.take(p)
	if d.coupled[p.Demands] {
		d.tracker.Place(p.Demands, r.host)
	}
}

// coupledBuyer opens machines for coupled pods.
type coupledBuyer struct {
	*draft
	// byPrice are the indices of all flavors, cheapest first; preferred are those on which all pods together are
	// cheapest.
	byPrice, preferred []int
	// worth is the worth, on the scale of prices, of the pods that may fill machines up; it shrinks as machines are
	// opened.
	worth int64
}

func newCoupledBuyer(d *draft) *coupledBuyer {
	s := &coupledBuyer{draft: d, byPrice: placesByPrice(d.flavors)}
	var fit []Pod
	for _, p := range d.pending {
		if !negative(p) && slices.ContainsFunc(d.flavors, func(f Flavor) bool { return p.RefusedBy(&f) == "" }) {
			fit = append(fit, p)
		}
	}
	if len(fit) == 0 {
		return s
	}
	problem := newProblem(fit, d.flavors, nil, d.r.Options)
	s.worth = problem.least(problem.counts())
	for _, at := range problem.pricing.preferred {
		s.preferred = append(s.preferred, problem.offers[at].flavor)
	}
	return s
}

// open buys a machine for the pod: one of a preferred flavor, if the remaining pods are worth its price, or else the
// cheapest that takes the pod.
func (s *coupledBuyer) open(p Pod) bool {
	for _, at := range s.preferred {
		if s.flavors[at].MicroDollarsPerHour <= s.worth && s.try(p, at) {
			return true
		}
	}
	for _, at := range s.byPrice {
		if s.try(p, at) {
			return true
		}
	}
	return false
}

// try buys a machine of a flavor for the pod if the machine takes it.
func (s *coupledBuyer) try(p Pod, at int) bool {
	f := &s.flavors[at]
	if p.RefusedBy(f) != "" || !s.budget.has(f) {
		return false
	}
	host := s.tracker.AddHost(hostOf(f.Host))
	if s.tracker.Check(p.Demands, host) != "" {
		s.tracker.RemoveHost(host)
		return false
	}
	r := newRoom(f, at, host)
	s.rooms = append(s.rooms, r)
	s.purchase(at, 1)
	s.worth -= f.MicroDollarsPerHour
	s.put(p, r)
	return true
}

// newRoom returns an empty machine of a flavor.
func newRoom(f *Flavor, at, host int) *room {
	return &room{ExistingNode: ExistingNode{Free: f.Size, Arch: f.Arch, Host: f.Host}, places: orAny(f.MaxPods), flavor: at, bought: f.Name, host: host}
}

// purchase subtracts machines of a flavor from what may be bought.
func (d *draft) purchase(at, n int) {
	f := &d.flavors[at]
	d.budget.pay(f, n)
	if f.Most != nil {
		f.Most = new(max(*f.Most, 0) - n)
	}
}

// refusal describes why a coupled pod has no place.
func (s *coupledBuyer) refusal(p *Pod) string {
	if why := refusal(p, s.r.Flavors); why != "" {
		return why
	}
	counts := map[string]int{}
	limited := false
	for i := range s.flavors {
		f := &s.flavors[i]
		why := p.RefusedBy(f)
		if why == "" {
			host := s.tracker.AddHost(hostOf(f.Host))
			why = s.tracker.Check(p.Demands, host)
			s.tracker.RemoveHost(host)
		}
		if why == "" || !f.Sells(1) {
			limited = true
			continue
		}
		counts[why]++
	}
	if limited {
		return exhausted(s.r.Limits, s.r.Options)
	}
	return tally(len(s.flavors), counts)
}

// absorb turns the machines that the search has bought into rooms.
func (d *draft) absorb() {
	if d.problem == nil {
		return
	}
	served := make([]int, len(d.problem.kinds))
	byName := map[string]Pod{}
	for _, p := range d.r.Pods {
		byName[p.Name] = p
	}
	d.mix.sort()
	for i := range d.mix.machines {
		m := &d.mix.machines[i]
		at := d.problem.offers[m.offer].flavor
		f := &d.r.Flavors[at]
		r := newRoom(f, at, d.tracker.AddHost(hostOf(f.Host)))
		for _, k := range m.kinds {
			r.take(byName[d.problem.kinds[k].pods[served[k]]])
			served[k]++
		}
		d.rooms = append(d.rooms, r)
	}
	d.problem, d.mix = nil, mix{}
}

// repair places pods again that could not join their rooms if all machines existed from the beginning: a machine bought
// later may have added a zone that a spread counts. Pods that fail repeatedly are left out.
func (d *draft) repair() {
	if d.tracker == nil {
		return
	}
	d.absorb()
	const rounds = 4
	for round := 0; ; round++ {
		wrong := d.replay()
		if len(wrong) == 0 {
			return
		}
		if round < rounds {
			wrong = d.place(wrong)
		} else {
			for i := range wrong {
				d.reasons[wrong[i].Name] = "no machine of the plan satisfies its constraints"
			}
		}
		d.pending = append(d.pending, wrong...)
	}
}

// replay places the coupled pods in their rooms again, with all machines there, in an order in which each may join, and
// removes the pods that cannot, or could not join last. It releases machines without pods.
func (d *draft) replay() (wrong []Pod) {
	d.rooms = slices.DeleteFunc(d.rooms, func(r *room) bool {
		if r.flavor >= 0 && len(r.pods) == 0 {
			d.purchase(r.flavor, -1)
			return true
		}
		return false
	})
	d.tracker = constraint.NewTracker()
	d.tracker.Expect(d.demands...)
	waiting := make([][]Pod, len(d.rooms))
	for i, r := range d.rooms {
		r.host = d.tracker.AddHost(hostOf(r.Host))
		for _, p := range r.Pods {
			if p != nil {
				d.tracker.Place(p, r.host)
			}
		}
		for _, p := range r.pods {
			if d.coupled[p.Demands] {
				waiting[i] = append(waiting[i], p)
			}
		}
	}
	for placed := true; placed; {
		placed = false
		for i, r := range d.rooms {
			waiting[i] = slices.DeleteFunc(waiting[i], func(p Pod) bool {
				if d.tracker.Check(p.Demands, r.host) != "" {
					return false
				}
				d.tracker.Place(p.Demands, r.host)
				placed = true
				return true
			})
		}
	}
	for i, r := range d.rooms {
		for _, p := range waiting[i] {
			r.drop(p.Name)
			wrong = append(wrong, p)
		}
	}
	return append(wrong, d.misplaced()...)
}

// misplaced removes the coupled pods that could not join last, with all others in place: whether they could join
// earlier depends on an unknown order.
func (d *draft) misplaced() (wrong []Pod) {
	for _, r := range d.rooms {
		for _, p := range slices.Clone(r.pods) {
			if c := p.Demands; d.coupled[c] && !c.Plain() {
				d.tracker.Unplace(c, r.host)
				if d.tracker.Check(c, r.host) != "" {
					r.drop(p.Name)
					wrong = append(wrong, p)
					continue
				}
				d.tracker.Place(c, r.host)
			}
		}
	}
	return wrong
}

// drop removes a pod from a room.
func (r *room) drop(name string) {
	at := slices.IndexFunc(r.pods, func(p Pod) bool { return p.Name == name })
	r.Free = sum(r.Free, r.pods[at].Size)
	if r.places < math.MaxInt64 {
		r.places++
	}
	r.pods = slices.Delete(r.pods, at, at+1)
}

// shrink gives each machine bought for coupled pods the cheapest flavor that holds all its pods by all rules. If no
// order of pods allows that, flavors stay in their zones, or unchanged.
func (d *draft) shrink() {
	if d.tracker == nil {
		return
	}
	before := d.snapshot()
	for _, anywhere := range []bool{true, false} {
		d.shrinkAll(anywhere)
		if len(d.replay()) == 0 {
			return
		}
		d.restore(before)
	}
}

// snapshot is the state that shrink changes.
type snapshot struct {
	rooms   []room
	flavors []Flavor
	budget  *budget
	tracker *constraint.Tracker
}

func (d *draft) snapshot() snapshot {
	s := snapshot{flavors: slices.Clone(d.flavors), budget: d.budget.clone(), tracker: d.tracker.Clone()}
	for _, r := range d.rooms {
		copied := *r
		copied.pods = slices.Clone(r.pods)
		s.rooms = append(s.rooms, copied)
	}
	return s
}

func (d *draft) restore(s snapshot) {
	d.flavors, d.budget, d.tracker, d.rooms = slices.Clone(s.flavors), s.budget.clone(), s.tracker.Clone(), nil
	for _, r := range s.rooms {
		r.pods = slices.Clone(r.pods)
		d.rooms = append(d.rooms, &r)
	}
}

func (d *draft) shrinkAll(anywhere bool) {
	byPrice := placesByPrice(d.r.Flavors)
	for _, r := range d.rooms {
		if r.flavor < 0 {
			continue
		}
		for _, at := range byPrice {
			f := &d.r.Flavors[at]
			if f.MicroDollarsPerHour >= d.r.Flavors[r.flavor].MicroDollarsPerHour {
				break
			}
			if (anywhere || sameDomains(hostOf(f.Host), hostOf(r.Host))) && d.replace(r, at) {
				break
			}
		}
	}
}

// replace changes a machine to another flavor if all its pods may run there.
func (d *draft) replace(r *room, at int) bool {
	f := &d.r.Flavors[at]
	used := packing.Size{}
	for i := range r.pods {
		used = sum(used, r.pods[i].Size)
		if r.pods[i].admittedBy(f) != "" {
			return false
		}
	}
	if !used.Fits(f.Size) || !f.Takes(len(r.pods)) || !f.Sells(1) || !d.flavors[at].Sells(1) {
		return false
	}
	d.purchase(r.flavor, -1)
	fits := d.budget.has(f)
	d.purchase(r.flavor, 1)
	if !fits {
		return false
	}
	tracker := d.tracker.Clone()
	tracker.RemoveHost(r.host)
	host := tracker.AddHost(hostOf(f.Host))
	for i := range r.pods {
		if c := r.pods[i].Demands; d.coupled[c] {
			if tracker.Check(c, host) != "" {
				return false
			}
			tracker.Place(c, host)
		}
	}
	if !d.agree(tracker, r) {
		return false
	}
	d.tracker = tracker
	d.purchase(r.flavor, -1)
	d.purchase(at, 1)
	next := newRoom(f, at, host)
	next.pods, next.Free = r.pods, f.Size.Minus(used)
	*r = *next
	return true
}

// agree reports whether the coupled pods of all other rooms could still join them: some may be there because of pods on
// the changed machine.
func (d *draft) agree(tracker *constraint.Tracker, changed *room) bool {
	for _, r := range d.rooms {
		for i := range r.pods {
			c := r.pods[i].Demands
			if r == changed || !d.coupled[c] || c.Plain() {
				continue
			}
			tracker.Unplace(c, r.host)
			why := tracker.Check(c, r.host)
			tracker.Place(c, r.host)
			if why != "" {
				return false
			}
		}
	}
	return true
}
