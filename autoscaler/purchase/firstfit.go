package purchase

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
	"supercargo.dev/supercargo/internal/packing"
)

// firstFit plans like many autoscalers: pods by CPU, then memory, largest first, each to the first node that takes it,
// else to the open machine with the fewest pods. An open machine stands for all flavors that still hold its pods, and
// in the end becomes the cheapest of them. It is a baseline for coupled pods, and ignores limits.
//
// Cost: O(n·m·f) at worst for n pods, m machines and f flavors.
type firstFit struct {
	*draft
	open []*openMachine
	// left is the unspent part of the limit.
	left int64
}

// openMachine is a machine whose flavor is still undecided.
type openMachine struct {
	room
	used packing.Size
	// options are the indices of the flavors that hold the pods, cheapest first; most is the maximum of each resource
	// over them.
	options []int
	most    packing.Size
}

// firstFit returns the plan of that algorithm. It returns false if the request has limits or no coupled pods, if the
// plan would violate constraints, or if it costs more than limit. It stops as soon as that is known, because the least
// price of an open machine never falls.
func (r *Request) firstFit(limit int64) (*draft, bool) {
	b := &firstFit{draft: newDraft(r), left: limit}
	if r.limited() || !b.track() {
		return nil, false
	}
	waiting := b.pending
	slices.SortStableFunc(waiting, func(p, q Pod) int {
		return cmp.Or(cmp.Compare(q.Size.MilliCPU, p.Size.MilliCPU), cmp.Compare(q.Size.MemoryBytes, p.Size.MemoryBytes), cmp.Compare(p.Name, q.Name))
	})
	for was := len(waiting) + 1; len(waiting) < was; {
		was = len(waiting)
		waiting = slices.DeleteFunc(waiting, func(p Pod) bool {
			return b.left >= 0 && !negative(p) && (b.joinNode(p) || b.joinOpen(p) || b.start(p))
		})
		if b.left < 0 || b.stop() {
			return nil, false
		}
	}
	b.pending = waiting
	for i := range waiting {
		b.reasons[waiting[i].Name] = cmp.Or(Refusal(&waiting[i], r.Flavors), "no node or machine satisfies its constraints")
	}
	for _, o := range b.open {
		f := newRoom(&r.Flavors[o.options[0]], o.options[0], o.host)
		for _, p := range o.pods {
			f.take(p)
		}
		b.rooms = append(b.rooms, f)
	}
	return b.draft, len(b.replay()) == 0
}

// allows reports whether other pods allow the pod on a host.
func (b *firstFit) allows(p Pod, host int) bool {
	return !b.coupled[p.Demands] || b.tracker.Check(p.Demands, host) == ""
}

func (b *firstFit) joinNode(p Pod) bool {
	for _, r := range b.rooms {
		if r.holds(&p) && b.allows(p, r.host) {
			b.put(p, r)
			return true
		}
	}
	return false
}

func (b *firstFit) joinOpen(p Pod) bool {
	for i, o := range b.open {
		used := o.used.Plus(p.Size)
		if !used.Fits(o.most) || !b.allows(p, o.host) {
			continue
		}
		if options := b.filter(o.options, p, used, len(o.pods)+1, o.Host); len(options) > 0 {
			b.settleOn(o, p, options)
			// Those with the fewest pods stay first.
			for ; i+1 < len(b.open) && len(b.open[i+1].pods) < len(o.pods); i++ {
				b.open[i], b.open[i+1] = b.open[i+1], b.open[i]
			}
			return true
		}
	}
	return false
}

// start opens a machine for the pod with the cheapest flavor that takes it.
func (b *firstFit) start(p Pod) bool {
	all := placesByPrice(b.flavors)
	for _, at := range all {
		f := &b.flavors[at]
		if p.RefusedBy(f) != "" {
			continue
		}
		host := b.tracker.AddHost(hostOf(f.Host))
		if !b.allows(p, host) {
			b.tracker.RemoveHost(host)
			continue
		}
		o := &openMachine{room: room{ExistingNode: ExistingNode{Host: hostOf(f.Host)}, host: host}}
		b.settleOn(o, p, b.filter(all, p, p.Size, 1, o.Host))
		b.open = slices.Insert(b.open, 0, o)
		for i := 0; i+1 < len(b.open) && len(b.open[i+1].pods) < len(o.pods); i++ {
			b.open[i], b.open[i+1] = b.open[i+1], b.open[i]
		}
		return true
	}
	return false
}

// filter returns the options that hold the used amounts and number of pods, admit the pod, and are in the same domains
// as the host.
func (b *firstFit) filter(options []int, p Pod, used packing.Size, pods int, host *constraint.Host) []int {
	var found []int
	for _, at := range options {
		f := &b.flavors[at]
		if used.Fits(f.Size) && f.Takes(pods) && p.admittedBy(f) == "" && sameDomains(hostOf(f.Host), host) {
			found = append(found, at)
		}
	}
	return found
}

// sameDomains reports whether two hosts are in the same domains of the usual topology keys. Other keys are checked at
// the end, when all pods are placed on their machines again.
func sameDomains(a, b *constraint.Host) bool {
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if a.Labels[key] != b.Labels[key] {
			return false
		}
	}
	return true
}

func (b *firstFit) settleOn(o *openMachine, p Pod, options []int) {
	if len(o.pods) > 0 {
		b.left += b.flavors[o.options[0]].MicroDollarsPerHour
	}
	b.left -= b.flavors[options[0]].MicroDollarsPerHour
	o.used, o.options, o.most = o.used.Plus(p.Size), options, packing.Size{}
	for _, at := range options {
		o.most = o.most.Most(b.flavors[at].Size)
	}
	o.pods = append(o.pods, p)
	if b.coupled[p.Demands] {
		b.tracker.Place(p.Demands, o.host)
	}
}
