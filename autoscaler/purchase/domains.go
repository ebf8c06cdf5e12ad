package purchase

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
