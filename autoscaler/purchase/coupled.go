package purchase

import (
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster/constraint"
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
		alike = d.inPasses(alike, d.join)
		assigned, others := d.assign(alike)
		d.together = assigned
		waiting = append(waiting, d.place(others)...)
	} else {
		waiting = d.place(waiting)
	}
	d.pending = slices.Concat(waiting, plain)
}

// inPasses tries to place pods in rounds while a round places any, and returns those left over.
func (d *draft) inPasses(waiting []Pod, place func(p Pod) bool) []Pod {
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
	waiting = d.inPasses(waiting, func(p Pod) bool { return d.join(p) || d.coupledBuyer.open(p) })
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
	d.coupled, d.demands = constraint.Tracked(all), all
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
	problem := mix.New(newInput(fit, d.flavors, nil, d.r.Options, nil))
	s.worth, s.preferred = problem.Least(), problem.Preferred()
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
	if p.RefusedBy(f) != "" || !s.budget.Has(f.Size, f.MicroDollarsPerHour) {
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
	d.budget.Pay(f.Size, f.MicroDollarsPerHour, n)
	if f.Most != nil {
		f.Most = new(max(*f.Most, 0) - n)
	}
}

// refusal describes why a coupled pod has no place.
func (s *coupledBuyer) refusal(p *Pod) string {
	if why := Refusal(p, s.r.Flavors); why != "" {
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
