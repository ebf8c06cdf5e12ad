package purchase

import (
	"math"
	"slices"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// absorb turns the machines that the search has bought into rooms.
func (d *draft) absorb() {
	if d.problem == nil {
		return
	}
	for _, b := range d.bought {
		f := &d.r.Flavors[b.Bin]
		r := newRoom(f, b.Bin, d.tracker.AddHost(hostOf(f.Host)))
		for _, item := range b.Items {
			r.take(d.original(item))
		}
		d.rooms = append(d.rooms, r)
	}
	d.problem, d.bought = nil, nil
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
	r.Free = r.Free.Plus(r.pods[at].Size)
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
	budget  *mix.Budget
	tracker *constraint.Tracker
}

func (d *draft) snapshot() snapshot {
	s := snapshot{flavors: slices.Clone(d.flavors), budget: d.budget.Clone(), tracker: d.tracker.Clone()}
	for _, r := range d.rooms {
		copied := *r
		copied.pods = slices.Clone(r.pods)
		s.rooms = append(s.rooms, copied)
	}
	return s
}

func (d *draft) restore(s snapshot) {
	d.flavors, d.budget, d.tracker, d.rooms = slices.Clone(s.flavors), s.budget.Clone(), s.tracker.Clone(), nil
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
		used = used.Plus(r.pods[i].Size)
		if r.pods[i].admittedBy(f) != "" {
			return false
		}
	}
	if !used.Fits(f.Size) || !f.Takes(len(r.pods)) || !f.Sells(1) || !d.flavors[at].Sells(1) {
		return false
	}
	d.purchase(r.flavor, -1)
	fits := d.budget.Has(f.Size, f.MicroDollarsPerHour)
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
