package planner

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"supercargo.dev/supercargo/internal/cluster/constraint"
)

// domains assigns coupled pods to domains, such as zones, before machines are bought, so that
// these are bought for all pods together: whatever machines of its domain a pod then comes to,
// its demands of other domains are met. It asks a tracker in which each pod is on a host of
// its own.
type domains struct {
	*draft
	tracker *constraint.Tracker
	// keys are the topology keys that matter, beside that of hosts.
	keys []string
	// of is by flavor the name of its domain: its values of the keys. names are those of all
	// that there are to choose from, in order, and beside are the others.
	of            []string
	names, beside []string
	// bound are the pods whose domain matters.
	bound map[*constraint.Pod]bool
	// taken is by domain what the pods assigned to it cost, about.
	taken map[string]float64
	// elsewhere are the flavors in other domains, by domain, beside those that some pods except.
	elsewhere map[exceptBeside]*Exceptions
}

type exceptBeside struct {
	domain string
	except *Exceptions
}

// domainOf returns the name of the domain in which a host is: its values of the keys.
func domainOf(keys []string, h *constraint.Host) string {
	var name strings.Builder
	for _, key := range keys {
		if value, has := hostOf(h).Labels[key]; has {
			name.WriteByte('=') // no value is not an empty one
			name.WriteString(value)
		}
		name.WriteByte(0)
	}
	return name.String()
}

// assignable reports whether machines may be bought for the pod together with those for all
// others: at most, it keeps apart from its like on hosts, and asks for a domain.
func assignable(p *Pod) bool {
	return !negative(*p) && p.Demands.OnlyKeepsApart(corev1.LabelHostname)
}

// assign returns those of the coupled pods that are bought for together with all others, of
// which some have a domain now, and those that no domain lets come.
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

// divide finds the domains. Those to choose from are those in which there are nodes; if there are
// none in any domain of a flavor, those in which the pods cost no more than a fiftieth more than
// where they cost least. They count as being there, so that a spread is over them.
func (s *domains) divide(pods []Pod) {
	const dearer = 0.02
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
		if there[name] || !some && cost <= least*(1+dearer) {
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

// cheapest returns the flavor of a domain on which the pod costs least by the greatest part of a
// machine that it takes, and what it costs, or -1 if there is none and what no pod costs.
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

// choose assigns the pod to the domain where it costs least, and of those where it costs the same
// to the one with the least so far, if any lets it come.
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

// except returns the flavors that are not bought for a pod in a domain.
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
