package purchase

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/autoscaler/purchase/mix"
	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// domains assigns coupled pods to domains, such as zones, before machines are bought, so that machines are bought for
// all pods together: the constraints of a pod on other domains hold on any machine of its domain. It uses a tracker in
// which each pod is on a host of its own.
type domains struct {
	*draft
	tracker *constraint.Tracker
	// keys are the relevant topology keys, without the hostname.
	keys []string
	// of is the name of the domain of each flavor: its values of the keys. names are the domains to choose from, in
	// order, and beside are the others.
	of            []string
	names, beside []string
	// bound are the pods whose domain matters.
	bound map[*constraint.Pod]bool
	// taken is the approximate cost of the pods assigned to each domain.
	taken map[string]float64
	// elsewhere are the flavors in other domains, plus the exceptions of the pod, by domain.
	elsewhere map[exceptBeside]*Exceptions
}

type exceptBeside struct {
	domain string
	except *Exceptions
}

// domainOf returns the name of the domain of a host: its values of the keys.
func domainOf(keys []string, h *constraint.Host) string {
	var name strings.Builder
	for _, key := range keys {
		if value, has := hostOf(h).Labels[key]; has {
			name.WriteByte('=') // distinguishes a missing value from an empty one
			name.WriteString(value)
		}
		name.WriteByte(0)
	}
	return name.String()
}

// assignable reports whether machines may be bought for the pod together with those for all others: its only
// constraints are anti-affinity on hosts and constraints on domains.
func assignable(p *Pod) bool {
	return !negative(*p) && p.Demands.OnlyKeepsApart(corev1.LabelHostname)
}

// assign assigns coupled pods to domains. It returns the pods that are bought for together with all others, and those
// that no domain admits.
func (d *draft) assign(pods []Pod) (assigned, others []Pod) {
	s := &domains{draft: d, tracker: d.tracker.Clone(), taken: map[string]float64{}, elsewhere: map[exceptBeside]*Exceptions{}}
	s.bound = constraint.CoupledBeyond(d.demands, corev1.LabelHostname)
	for _, c := range d.demands {
		for _, key := range c.TopologyKeys() {
			if key != corev1.LabelHostname && !slices.Contains(s.keys, key) {
				s.keys = append(s.keys, key)
			}
		}
	}
	slices.Sort(s.keys)
	var waiting []Pod
	for _, p := range pods {
		if s.bound[p.Demands] {
			waiting = append(waiting, p)
		} else {
			assigned = append(assigned, p)
		}
	}
	if len(waiting) == 0 {
		return assigned, nil
	}
	s.divide(waiting)
	for was := len(waiting) + 1; len(waiting) < was; {
		was = len(waiting)
		waiting = slices.DeleteFunc(waiting, func(p Pod) bool {
			placed := s.choose(&p)
			if placed {
				assigned = append(assigned, p)
			}
			return placed
		})
	}
	return assigned, waiting
}

// divide finds the domains. The choice is the domains with nodes, or, if no domain of a flavor has nodes, those in
// which the pods cost at most a fiftieth more than in the cheapest one. The chosen domains count as existing, so that
// pods spread over them.
func (s *domains) divide(pods []Pod) {
	const costlier = 0.02
	s.of = make([]string, len(s.flavors))
	costs := map[string]float64{}
	for i := range s.flavors {
		s.of[i] = domainOf(s.keys, s.flavors[i].Host)
		costs[s.of[i]] = 0
	}
	for i := range pods {
		for name := range costs {
			_, cost := s.cheapest(&pods[i], name)
			costs[name] += cost
		}
	}
	there, some := map[string]bool{}, false
	for _, r := range s.rooms {
		name := domainOf(s.keys, r.Host)
		there[name] = true
		if _, has := costs[name]; has {
			some = true
		}
	}
	least := -1.0
	for _, cost := range costs {
		if least < 0 || cost < least {
			least = cost
		}
	}
	for name, cost := range costs {
		if there[name] || !some && cost <= least*(1+costlier) {
			s.names = append(s.names, name)
		} else {
			s.beside = append(s.beside, name)
		}
	}
	slices.Sort(s.names)
	slices.Sort(s.beside)
	for _, name := range s.names {
		at := slices.Index(s.of, name)
		s.tracker.AddHost(hostOf(s.flavors[at].Host))
	}
}

// cheapest returns the flavor of a domain on which the pod costs least, by the largest part of a machine that it takes,
// and that cost; -1 and a prohibitive cost if there is none.
func (s *domains) cheapest(p *Pod, name string) (flavor int, cost float64) {
	const never = 1e18
	flavor, cost = -1, never
	for i := range s.flavors {
		f := &s.flavors[i]
		if s.of[i] != name || !p.Size.Fits(f.Size) {
			continue
		}
		part := max(float64(p.Size.MilliCPU)/float64(max(1, f.Size.MilliCPU)), float64(p.Size.MemoryBytes)/float64(max(1, f.Size.MemoryBytes)))
		if c := part * float64(f.MicroDollarsPerHour); c < cost && p.RefusedBy(f) == "" {
			flavor, cost = i, c
		}
	}
	return flavor, cost
}

// choose assigns the pod to the domain in which it costs least, on a tie to the one with the least cost so far, and
// reports whether any domain admits it.
func (s *domains) choose(p *Pod) bool {
	for _, names := range [][]string{s.names, s.beside} {
		type option struct {
			name   string
			flavor int
			cost   float64
		}
		var options []option
		for _, name := range names {
			if flavor, cost := s.cheapest(p, name); flavor >= 0 {
				options = append(options, option{name, flavor, cost})
			}
		}
		slices.SortStableFunc(options, func(a, b option) int {
			return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(s.taken[a.name], s.taken[b.name]))
		})
		for _, o := range options {
			host := s.tracker.AddHost(hostOf(s.flavors[o.flavor].Host))
			if s.tracker.Check(p.Demands, host) == "" {
				s.tracker.Place(p.Demands, host)
				p.Except = s.except(exceptBeside{o.name, p.Except})
				s.taken[o.name] += o.cost
				return true
			}
			s.tracker.RemoveHost(host)
		}
	}
	return false
}

// except returns the flavors that must not be bought for a pod in a domain.
func (s *domains) except(at exceptBeside) *Exceptions {
	if s.elsewhere[at] == nil {
		all := &Exceptions{Flavors: map[string]string{}}
		if at.except != nil {
			maps.Copy(all.Flavors, at.except.Flavors)
		}
		for i := range s.flavors {
			if s.of[i] != at.domain {
				all.Flavors[s.flavors[i].Name] = "is in another domain"
			}
		}
		s.elsewhere[at] = all
		s.assigned[all] = at.except
	}
	return s.elsewhere[at]
}

// spread decides in which zones the machines of the search are bought: each in the zone with the fewest machines, of the
// flavors that equal the chosen one and admit its pods. On a tie it is the first by name. Without it, all machines would
// be bought in the zone whose flavor comes first. It takes them from the budget.
func (d *draft) spread() {
	counts := maps.Clone(d.r.Zones)
	if counts == nil {
		counts = map[string]int{}
	}
	for _, r := range d.rooms {
		if r.flavor >= 0 {
			counts[zoneOf(r.Host)]++
		}
	}
	equals := map[int][]int{} // by flavor
	for i := range d.bought {
		b := &d.bought[i]
		if _, known := equals[b.Bin]; !known {
			equals[b.Bin] = d.equals(b.Bin)
		}
		best := b.Bin
		for _, at := range equals[b.Bin] {
			f := &d.flavors[at]
			if counts[zoneOf(f.Host)] < counts[zoneOf(d.flavors[best].Host)] && f.Sells(1) && d.holds(f, b) {
				best = at
			}
		}
		b.Bin = best
		counts[zoneOf(d.flavors[best].Host)]++
		d.purchase(best, 1)
	}
	d.spreadPods(counts)
	slices.SortStableFunc(d.bought, func(a, b mix.Bought) int {
		x, y := &d.flavors[a.Bin], &d.flavors[b.Bin]
		return cmp.Or(cmp.Compare(b.Paid, a.Paid), cmp.Compare(x.MicroDollarsPerHour, y.MicroDollarsPerHour), cmp.Compare(x.Name, y.Name))
	})
}

// SpreadShare is how much more a machine may cost, as a part of its price, to be in the zone that a soft topology spread
// constraint (whenUnsatisfiable: ScheduleAnyway) of its pods prefers.
const SpreadShare = 0.05

// spreadPods moves bought machines to the zones that the soft spread constraints of their pods prefer: those with the
// fewest pods that the constraints count. Of zones with equally many it takes the cheapest, then the one with the fewest
// machines. Each machine costs at most SpreadShare more than before; neither their number nor their pods change. machines
// are the numbers by zone.
//
// Cost: O(m·(f + p)) for m machines, f flavors and p pods on each.
func (d *draft) spreadPods(machines map[string]int) {
	there := map[string]map[string]int{} // by constraint and zone
	for i := range d.bought {
		b := &d.bought[i]
		pods := d.spreadsOf(b)
		if len(pods) == 0 {
			continue
		}
		best := b.Bin
		machines[zoneOf(d.flavors[best].Host)]--
		for _, at := range d.alikeWithin(b.Bin, SpreadShare) {
			if d.prefers(at, best, pods, there, machines) && d.changes(b, at) {
				best = at
			}
		}
		d.purchase(b.Bin, -1)
		d.purchase(best, 1)
		b.Bin = best
		zone := zoneOf(d.flavors[best].Host)
		machines[zone]++
		for key, n := range pods {
			if there[key] == nil {
				there[key] = map[string]int{}
			}
			there[key][zone] += n
		}
	}
}

// spreadsOf counts the pods of a bought machine by their soft spread constraint.
func (d *draft) spreadsOf(b *mix.Bought) map[string]int {
	var counts map[string]int
	for _, item := range b.Items {
		if key := d.asked[item].Spread; key != "" {
			if counts == nil {
				counts = map[string]int{}
			}
			counts[key]++
		}
	}
	return counts
}

// prefers reports whether pods prefer flavor a to flavor b, by the zones of both.
func (d *draft) prefers(a, b int, pods map[string]int, there map[string]map[string]int, machines map[string]int) bool {
	x, y := zoneOf(d.flavors[a].Host), zoneOf(d.flavors[b].Host)
	if x == y {
		return false
	}
	beside := func(zone string) (n int) {
		for key, of := range pods {
			n += of * (d.r.Spreads[key][zone] + there[key][zone])
		}
		return n
	}
	return cmp.Or(cmp.Compare(beside(x), beside(y)), cmp.Compare(d.flavors[a].MicroDollarsPerHour, d.flavors[b].MicroDollarsPerHour),
		cmp.Compare(machines[x], machines[y])) < 0
}

// changes reports whether a bought machine may become one of another flavor.
func (d *draft) changes(b *mix.Bought, at int) bool {
	f := &d.flavors[at]
	if !f.Sells(1) || !d.holds(f, b) {
		return false
	}
	d.purchase(b.Bin, -1)
	defer d.purchase(b.Bin, 1)
	return d.budget.Has(f.Size, f.MicroDollarsPerHour)
}

// equals returns the flavors in zones, by name, that equal a flavor in a zone: of the same price and architecture, and of
// the same instance type or nearly the same size. Nodes of one instance type differ a little, and what is stated about it
// differs more.
func (d *draft) equals(of int) []int {
	price := d.flavors[of].MicroDollarsPerHour
	return slices.DeleteFunc(d.alikeWithin(of, 0), func(at int) bool { return d.flavors[at].MicroDollarsPerHour != price })
}

// alikeWithin returns the flavors in zones, by name, that equal a flavor apart from their price, which is higher by at most
// a share.
func (d *draft) alikeWithin(of int, share float64) (all []int) {
	const nearly = 0.02
	f := &d.flavors[of]
	most := f.MicroDollarsPerHour + int64(share*float64(f.MicroDollarsPerHour))
	near := func(a, b int64) bool { return math.Abs(float64(a-b)) <= nearly*float64(max(a, b)) }
	for at := range d.flavors {
		o := &d.flavors[at]
		same := instanceTypeOf(f) != "" && instanceTypeOf(f) == instanceTypeOf(o)
		if zoneOf(f.Host) != "" && zoneOf(o.Host) != "" && o.MicroDollarsPerHour <= most && o.Arch == f.Arch &&
			(same || near(o.Size.MilliCPU, f.Size.MilliCPU) && near(o.Size.MemoryBytes, f.Size.MemoryBytes) && o.Size.Extended == f.Size.Extended) {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Compare(d.flavors[a].Name, d.flavors[b].Name) })
	return all
}

// holds reports whether a machine of a flavor holds the pods of a bought one.
func (d *draft) holds(f *Flavor, b *mix.Bought) bool {
	return b.Used.Fits(f.Size) && f.Takes(len(b.Items)) &&
		!slices.ContainsFunc(b.Items, func(item int) bool { return d.asked[item].admittedBy(f) != "" })
}

func zoneOf(h *constraint.Host) string { return hostOf(h).Labels[corev1.LabelTopologyZone] }

func instanceTypeOf(f *Flavor) string { return hostOf(f.Host).Labels[corev1.LabelInstanceTypeStable] }
