package bound

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/packing"
)

// maxStretches is the maximum number of stretches of a run.
const maxStretches = 12

// Served returns a lower bound, in micro-dollars, of the bill of a run under any policy that
// completes the batch pods of r and serves its services. Each service that some flavor holds is on
// a machine from its arrival until the run ends or its lifetime, counted from its first start, is
// over, except for the time r.ServiceWait, averaged over these services. Otherwise a policy may do
// what it may do for [Cost].
//
// In addition to the work, it counts that a bought machine is billed before pods can run on it,
// that started billing periods are paid in full, and that a service keeps a whole machine busy. It
// is never below Cost(r). In a fixed cluster, whose machines are billed to the end anyway, it
// equals Cost(r).
//
// Cost: O(n·f + f³ + n·k) for n pods, f flavors and k = 13 stretches of the run, and about ten
// thousand evaluations of O(k²).
func Served(r Run) int64 {
	most := Cost(r).MicroDollars
	if r.Fixed {
		return most
	}
	p := prepare(r)
	s := serving{problem: &p, ready: int64(r.StartLag)}
	if !r.LagFree {
		p.lag = int64(r.StartLag)
	}
	if len(p.machines) == 0 { // nothing runs before the first bought machine is ready
		fastest, _ := p.fastest()
		for _, l := range p.loads {
			work := new(big.Rat).SetInt64(l.duration)
			p.end = max(p.end, max(int64(l.Arrival), s.ready)+floor(work.Quo(work, fastest)))
		}
	}
	s.missing = new(big.Rat).Mul(new(big.Rat).SetInt64(int64(r.ServiceWait)), new(big.Rat).SetInt64(int64(len(p.services))))
	best := larger(p.longest(), p.dollars(larger(s.work(), s.presence())))
	return max(most, floor(best))
}

// serving is a problem in which services must be served.
type serving struct {
	*problem
	ready   int64    // the time from which pods can run on a bought machine
	missing *big.Rat // the total time that services are without a machine
}

// stay is the interval in which a service must be on a machine.
type stay struct{ from, to int64 }

// stayOf returns the stay of a service in a run that ends at end.
func stayOf(pod *cluster.Pod, end int64) stay {
	of := stay{from: min(int64(pod.Arrival), end), to: end}
	if pod.Runtime > 0 && int64(pod.Runtime) < end-of.from {
		of.to = of.from + int64(pod.Runtime)
	}
	return of
}

// work returns the best bound among the views of all pods. It searches profiles only for the view
// that is best with an even profile.
func (s *serving) work() *big.Rat {
	views := s.views()
	var best *big.Rat
	var closer view
	for _, v := range views {
		sum := s.untouched(v)
		for _, of := range v {
			sum.Add(sum, s.partDemand(of).even())
		}
		if best == nil || sum.Cmp(best) > 0 {
			best, closer = sum, v
		}
	}
	sum := s.untouched(closer)
	for _, of := range closer {
		sum.Add(sum, s.closely(s.partDemand(of)))
	}
	return larger(best, sum)
}

// untouched returns the unavoidable cost of the initial machines whose flavors are in no part of
// the view.
func (s *serving) untouched(v view) *big.Rat {
	sum := new(big.Rat)
	for _, m := range s.machines {
		if slices.ContainsFunc(v, func(of part) bool { return slices.Contains(of.flavors, m.flavor) }) {
			continue
		}
		price := new(big.Rat).SetInt64(s.flavors[m.flavor].MicroDollarsPerHour)
		price.Mul(price, new(big.Rat).SetInt64(m.count))
		sum.Add(sum, price.Mul(price, new(big.Rat).SetInt64(s.paid)))
	}
	return sum
}

// partDemand returns the demand of a part at the prices that are best with an even profile.
func (s *serving) partDemand(of part) demand {
	w := s.tallies(of)
	var offers []offer
	offerOf := map[int]offer{}
	for _, i := range of.flavors {
		rate := s.flavors[i].speed
		if len(of.services) > 0 {
			rate = larger(rate, one) // services do not last longer on a slow machine
		}
		offerOf[i] = newOffer(&s.flavors[i], rate)
		offers = append(offers, offerOf[i])
	}
	var most *big.Rat
	var best demand
	for _, prices := range priceVectors(offers) {
		d := demand{least: s.paid, times: w.times, missed: s.missed(of, prices, s.end)}
		for i := range w.fixed {
			d.fixed = append(d.fixed, prices.worth(w.fixed[i].amounts()))
			d.free = append(d.free, prices.worth(w.free[i].amounts()))
		}
		for _, m := range s.machines {
			if o, ok := offerOf[m.flavor]; ok {
				d.supplies = append(d.supplies, supply{worth: prices.worth(o.amounts), price: o.price}.times(m.count))
			}
		}
		d.later = func(end int64) *big.Rat {
			sum := new(big.Rat).SetInt64(end - s.end)
			sum.Mul(sum, prices.worth(w.endless.amounts()))
			sum.Add(sum, d.even())
			return sum.Add(sum, new(big.Rat).Sub(d.missed, s.missed(of, prices, end)))
		}
		if even := d.even(); most == nil || even.Cmp(most) > 0 {
			most, best = even, d
		}
	}
	return best
}

// tallies are the requests of a part's pods in the stretches of a run.
type tallies struct {
	times       []int64
	fixed, free []tally
	endless     tally
}

// tallies divides the run up to its end and adds an empty stretch after it.
func (s *serving) tallies(of part) tallies {
	stays := make([]stay, len(of.services))
	for i, at := range of.services {
		stays[i] = stayOf(&s.services[at], s.end)
	}
	var arrivals []int64
	for _, i := range of.loads {
		arrivals = append(arrivals, int64(s.loads[i].Arrival))
	}
	w := tallies{times: append(s.divide(stays, arrivals), forever)}
	w.fixed, w.free = make([]tally, len(w.times)-1), make([]tally, len(w.times)-1)
	for _, i := range of.loads {
		l := &s.loads[i]
		w.free[stretchOf(w.times, int64(l.Arrival))].add(l.Size, l.duration)
	}
	for i, at := range of.services {
		pod := &s.services[at]
		for j := range w.fixed {
			if from, to := max(stays[i].from, w.times[j]), min(stays[i].to, w.times[j+1]); from < to {
				w.fixed[j].add(pod.Size, to-from)
			}
		}
		if pod.Runtime == 0 {
			w.endless.add(pod.Size, 1)
		}
	}
	return w
}

// divide returns times from 0 to the end of the run that divide it at events, or evenly if there
// are too many events.
func (s *serving) divide(stays []stay, arrivals []int64) []int64 {
	ends := []int64{0, min(s.ready, s.end), s.end}
	times := slices.Concat(ends, arrivals)
	for _, of := range stays {
		times = append(times, of.from, of.to)
	}
	slices.Sort(times)
	if times = slices.Compact(times); len(times) > maxStretches {
		for i := range int64(maxStretches - 1) {
			ends = append(ends, s.end/(maxStretches-1)*i)
		}
		slices.Sort(ends)
		return slices.Compact(ends)
	}
	// With few events, also divide the time between them: the best profile may change there.
	if parts := int64(maxStretches / max(1, len(times)-1)); parts > 1 {
		for i, from := range times[:len(times)-1] {
			for j := range parts - 1 {
				times = append(times, from+(times[i+1]-from)/parts*(j+1))
			}
		}
		slices.Sort(times)
	}
	return slices.Compact(times)
}

// stretchOf returns the index of the stretch that contains a time.
func stretchOf(times []int64, at int64) int {
	i, found := slices.BinarySearch(times, at)
	if !found {
		i--
	}
	return min(max(i, 0), len(times)-2)
}

// missed returns the maximum total value, at these prices, of the time that services are without a
// machine in a run that ends at end.
func (s *serving) missed(of part, prices amounts, end int64) *big.Rat {
	type kind struct {
		worth, time *big.Rat
	}
	bySize := map[packing.Size]*kind{}
	var kinds []*kind
	for _, at := range of.services {
		pod := &s.services[at]
		k := bySize[pod.Size]
		if k == nil {
			k = &kind{worth: prices.worth(asks(pod.Size)), time: new(big.Rat)}
			bySize[pod.Size] = k
			kinds = append(kinds, k)
		}
		there := stayOf(pod, end)
		k.time.Add(k.time, new(big.Rat).SetInt64(there.to-there.from))
	}
	slices.SortStableFunc(kinds, func(a, b *kind) int { return b.worth.Cmp(a.worth) })
	sum, left := new(big.Rat), new(big.Rat).Set(s.missing)
	for _, k := range kinds {
		time := k.time
		if left.Cmp(time) < 0 {
			time = left
		}
		sum.Add(sum, new(big.Rat).Mul(k.worth, time))
		left.Sub(left, time)
	}
	return sum
}

func asks(size packing.Size) amounts {
	return amounts{cpu: new(big.Rat).SetInt64(size.MilliCPU), memory: new(big.Rat).SetInt64(size.MemoryBytes), places: one}
}

// closely returns the best bound among the profiles that it finds. A profile is for runs that end
// by some time. In longer runs the remaining services cost more. The lower of both bounds counts.
func (s *serving) closely(d demand) *big.Rat {
	found, best := d.even(), math.Inf(-1)
	after := max(s.lag, s.period, 4)
	for _, more := range []int64{after / 4, after, 4 * after, forever} {
		at, later := d, (*big.Rat)(nil)
		if more < forever-s.end {
			at.times = slices.Clone(d.times)
			at.times[len(at.times)-1] = s.end + more
			later = d.later(s.end + more)
		}
		rough := valuate(quick, s, at)
		heights := climb(rough)
		value := rough.bound(heights)
		if later != nil {
			value = min(value, quick.of(later))
		}
		if value <= best {
			continue
		}
		best = value
		proven := valuate(exact, s, at).bound(fractions(heights))
		if later != nil && later.Cmp(proven) < 0 {
			proven = later
		}
		found = larger(found, proven)
	}
	return found
}

// presence returns the cost of keeping a machine for the services, whatever else runs there: at
// each moment at least the cheapest machine that holds the service for which that machine is the
// most expensive.
func (s *serving) presence() *big.Rat {
	levels := map[int64][]stay{}
	for i := range s.services {
		pod := &s.services[i]
		cheapest := int64(math.MaxInt64)
		for j := range s.flavors {
			if s.flavors[j].holds(*pod) {
				cheapest = min(cheapest, s.flavors[j].MicroDollarsPerHour)
			}
		}
		levels[cheapest] = append(levels[cheapest], stayOf(pod, s.end))
	}
	if len(levels) == 0 || s.end == 0 {
		return new(big.Rat)
	}
	var prices []int64
	var all []stay
	for price, stays := range levels {
		prices = append(prices, price)
		all = append(all, stays...)
	}
	slices.SortFunc(prices, func(a, b int64) int { return cmp.Compare(b, a) })
	d := demand{least: s.paid, times: s.divide(all, nil), missed: new(big.Rat).Mul(s.missing, new(big.Rat).SetInt64(prices[0]))}
	for range d.times[1:] {
		d.fixed, d.free = append(d.fixed, new(big.Rat)), append(d.free, new(big.Rat))
	}
	var there []stay
	for i, price := range prices { // in descending order: services of this level and above need that much
		step := price
		if i+1 < len(prices) {
			step -= prices[i+1]
		}
		there = merged(append(there, levels[price]...))
		for j := range d.fixed {
			for _, of := range there {
				if from, to := max(of.from, d.times[j]), min(of.to, d.times[j+1]); from < to {
					worth := new(big.Rat).SetInt64(step)
					d.fixed[j].Add(d.fixed[j], worth.Mul(worth, new(big.Rat).SetInt64(to-from)))
				}
			}
		}
	}
	for _, m := range s.machines {
		price := new(big.Rat).SetInt64(s.flavors[m.flavor].MicroDollarsPerHour)
		d.supplies = append(d.supplies, supply{worth: price, price: price}.times(m.count))
	}
	heights := climb(valuate(quick, s, d))
	return larger(d.even(), valuate(exact, s, d).bound(fractions(heights)))
}

// merged returns the union of the stays, sorted and without overlap.
func merged(stays []stay) []stay {
	slices.SortFunc(stays, func(a, b stay) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var union []stay
	for _, of := range stays {
		if n := len(union); n > 0 && of.from <= union[n-1].to {
			union[n-1].to = max(union[n-1].to, of.to)
			continue
		}
		union = append(union, of)
	}
	return union
}
