// Package bound computes what machines must cost at least, whatever a policy
// does: [Cost] for a run of which only the batch pods must be completed, and
// [Served] for one whose services must be served too.
//
// The bounds are those of linear programming duality. Give CPU and memory any
// prices such that no flavor's capacity is worth more than the flavor costs;
// then the pods' requests, at those prices, cost no more than the machines that
// hold them. The best such prices are found exactly. docs/lower-bound.md has
// the derivation.
//
// All arithmetic is on exact fractions, rounded once at the end and to the safe
// side. Every function is pure, and the order of its arguments does not matter.
package bound

import (
	"math"
	"math/big"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Flavor is a kind of machine. Its size and price are not negative. Only pods of its own or of
// any architecture go there.
type Flavor struct {
	cluster.Flavor
	// Speed divides the runtimes of batch pods. A value that is not above zero, or
	// not finite, counts as 1.
	Speed float64
}

// Machines are equal machines that are there, and paid for, from the start.
type Machines struct {
	Flavor Flavor
	// Count is how many there are.
	Count int64
}

// Run is what the bound of a run depends on. It says nothing of the policy.
type Run struct {
	// Pods are the workload. Of each count what it asks for, which is not negative, its
	// class, architecture, Arrival since the start of the run, and Runtime: of a batch pod
	// that on a machine of speed 1; of a service its lifetime from its start, at any speed, 0
	// for the end of the run. Every batch pod that some flavor holds is taken to complete:
	// leave out those that a policy may leave undone.
	Pods []cluster.Pod
	// Flavors can be bought at any time, without a limit.
	Flavors []Flavor
	// Machines are there at the start. Their flavors need not be among Flavors.
	Machines []Machines
	// Fixed says that nothing is bought and nothing released: Machines are paid
	// for until the run ends, and Flavors are not looked at.
	Fixed bool
	// BillingPeriod is the unit that is paid; every started one is paid in full,
	// and one at least for each machine. 0 means that time is paid as it passes.
	BillingPeriod time.Duration
	// ReleaseLag is from giving a machine back until it is no longer paid.
	ReleaseLag time.Duration
	// End is a time before which the run does not end, whatever is done; 0 if
	// none is known. Batch pods make it later by themselves: none completes
	// sooner than its arrival plus its runtime at the highest speed.
	End time.Duration

	// The rest is for [Served] alone.

	// StartLag is the least time from ordering a machine until pods can run on it.
	StartLag time.Duration
	// LagFree says that a machine is not paid for during its start lag.
	LagFree bool
	// ServiceWait is how long a service is without a machine, on average over the
	// services that some flavor holds.
	ServiceWait time.Duration
}

// Bound is what a run must cost at least, in millionths of a dollar, and why.
type Bound struct {
	// MicroDollars is the bound: the greater of Start + Work, rounded down, and
	// Longest.
	MicroDollars int64
	// Start is what must be paid for the machines that are there at the start even
	// if they are released at once, or for the whole run if it is Fixed.
	Start int64
	// Work is what must be paid on top for the work that they cannot do meanwhile.
	Work int64
	// Longest is what the dearest single pod must cost on the machine cheapest
	// for it, one billing period at least.
	Longest int64
	// Uncounted is how many pods no flavor holds; they add nothing.
	Uncounted int
}

// Cost returns a lower bound of the bill of a run, under any policy, present or
// future, that completes the batch pods of r. Services count nothing: a policy may
// never start them. A policy may know the future, delay pods, stop and resume
// them, and move them at no cost; more machines at once than any real limit allows
// are allowed.
//
// Start lag, copies, lost work and fragments of machines that no pod fits only
// add to a bill; so the bound is seldom reached. It never falls when a
// pod is added, and with all prices multiplied by k it is multiplied by k, apart
// from rounding. A runtime divided by a speed may be rounded down to
// the nanosecond, once per pod.
//
// Cost: O(n·f + f³) for n pods and f flavors.
func Cost(r Run) Bound {
	p := prepare(r)
	start, work, longest := p.start(), p.work(), p.longest()
	total := new(big.Rat).Add(start, work)
	if longest.Cmp(total) > 0 {
		total = longest
	}
	return Bound{
		MicroDollars: floor(total), Start: floor(start), Work: floor(work), Longest: floor(longest),
		Uncounted: p.uncounted,
	}
}

// problem is a run in the units of the arithmetic: milli-CPU and bytes, each
// times nanoseconds, and micro-dollars per hour times nanoseconds, which
// inDollars turns into micro-dollars.
type problem struct {
	flavors   []candidate
	loads     []load
	services  []cluster.Pod // that some flavor holds
	uncounted int
	machines  []held // their flavors are the first of flavors
	// paid is how long every machine of the start is paid for at least; period
	// how long every machine is; end when the run ends at the soonest.
	paid, period, end int64
	inDollars         bool
	// lag is how long a machine that is bought is paid for before pods can run on
	// it. Only [Served] sets it.
	lag int64
}

// candidate is a flavor with its speed as a fraction.
type candidate struct {
	Flavor
	speed *big.Rat
}

// held are machines of the start; flavor is an index.
type held struct {
	flavor int
	count  int64
}

// load is a batch pod.
type load struct {
	cluster.Pod
	// duration is for how long it must run at speed 1.
	duration int64
	// early is how much of the duration may pass while the machines of the start
	// are paid for anyway.
	early int64
}

var one = big.NewRat(1, 1)

func prepare(r Run) problem {
	p := problem{period: int64(r.BillingPeriod), inDollars: true}
	for _, m := range r.Machines {
		p.machines = append(p.machines, held{flavor: len(p.flavors), count: m.Count})
		p.flavors = append(p.flavors, candidates([]Flavor{m.Flavor})...)
	}
	if !r.Fixed {
		p.flavors = append(p.flavors, candidates(r.Flavors)...)
	}
	fastest, rounded := p.fastest()

	// No batch pod ends sooner than after running at the highest speed.
	p.end = max(int64(r.End), 0)
	for _, pod := range r.Pods {
		if pod.Class == class.Service || !p.holdable(pod) {
			continue
		}
		work := new(big.Rat).SetInt64(max(0, int64(pod.Runtime)-rounded))
		p.end = max(p.end, int64(pod.Arrival)+floor(work.Quo(work, fastest)))
	}

	p.paid = int64(r.ReleaseLag)
	if r.Fixed {
		p.paid = p.end
	}
	p.paid = started(p.paid, p.period)

	for _, pod := range r.Pods {
		l := load{Pod: pod, duration: max(0, int64(pod.Runtime)-rounded)}
		window := new(big.Rat).SetInt64(max(0, p.paid-int64(pod.Arrival)))
		l.early = min(l.duration, ceil(window.Mul(window, fastest)))
		if r.Fixed {
			l.early = l.duration // the machines are all there is, whenever the pods come
		}
		p.add(l)
	}
	return p
}

// add takes a pod in, or counts it if no flavor holds it.
func (p *problem) add(l load) {
	switch {
	case !p.holdable(l.Pod):
		p.uncounted++
	case l.Class == class.Service:
		p.services = append(p.services, l.Pod)
	default:
		p.loads = append(p.loads, l)
	}
}

func (p *problem) holdable(pod cluster.Pod) bool {
	for i := range p.flavors {
		if p.flavors[i].holds(pod) {
			return true
		}
	}
	return false
}

// fastest returns the highest speed of any flavor, 1 at least, and how many
// nanoseconds of work rounding one runtime down may save.
func (p *problem) fastest() (speed *big.Rat, rounded int64) {
	speed = one
	for _, f := range p.flavors {
		speed = larger(speed, f.speed)
		if f.speed.Cmp(one) != 0 {
			rounded = 1
		}
	}
	return speed, rounded * ceil(speed)
}

// start is what the machines of the start cost in any case.
func (p *problem) start() *big.Rat {
	sum := new(big.Rat)
	for _, m := range p.machines {
		price := new(big.Rat).SetInt64(p.flavors[m.flavor].MicroDollarsPerHour)
		price.Mul(price, new(big.Rat).SetInt64(m.count))
		sum.Add(sum, price.Mul(price, new(big.Rat).SetInt64(p.paid)))
	}
	return p.dollars(sum)
}

// work is the best bound among views of the batch pods, each true by itself.
func (p *problem) work() *big.Rat {
	best := new(big.Rat)
	for _, v := range p.views() {
		best = larger(best, p.viewWork(v))
	}
	return p.dollars(best)
}

// longest is the dearest batch pod on its cheapest machine. Splitting its run over
// several machines is no cheaper: each costs a period, and each unit of work
// costs what it costs on the machine cheapest for it.
func (p *problem) longest() *big.Rat {
	worst := new(big.Rat)
	for _, l := range p.loads {
		var cheapest *big.Rat
		for i := range p.flavors {
			f := &p.flavors[i]
			if !f.holds(l.Pod) {
				continue
			}
			held := new(big.Rat).SetInt64(l.duration)
			held.Quo(held, f.speed)
			if i >= len(p.machines) { // it has to be bought
				held.Add(held, new(big.Rat).SetInt64(p.lag))
			}
			held = larger(held, new(big.Rat).SetInt64(p.period))
			cost := held.Mul(held, new(big.Rat).SetInt64(f.MicroDollarsPerHour))
			if cheapest == nil || cost.Cmp(cheapest) < 0 {
				cheapest = cost
			}
		}
		worst = larger(worst, cheapest)
	}
	return p.dollars(worst)
}

// dollars turns micro-dollars per hour times nanoseconds into micro-dollars.
func (p *problem) dollars(x *big.Rat) *big.Rat {
	if !p.inDollars {
		return x
	}
	return new(big.Rat).Quo(x, new(big.Rat).SetInt64(int64(time.Hour)))
}

func (c *candidate) holds(p cluster.Pod) bool {
	return (p.Arch == "" || p.Arch == c.Arch) && p.Size.Fits(c.Size)
}

func candidates(flavors []Flavor) []candidate {
	var all []candidate
	for _, f := range flavors {
		c := candidate{Flavor: f, speed: one}
		if f.Speed > 0 && !math.IsInf(f.Speed, 0) {
			c.speed = new(big.Rat).SetFloat64(f.Speed)
		}
		all = append(all, c)
	}
	return all
}

// started rounds a time up to whole periods, one at least.
func started(t, period int64) int64 {
	if period <= 0 {
		return t
	}
	return max(1, (t+period-1)/period) * period
}

func larger(a, b *big.Rat) *big.Rat {
	if b.Cmp(a) > 0 {
		return b
	}
	return a
}

// floor and ceil round to a whole number of 64 bits; greater ones become the
// greatest of these.
func floor(x *big.Rat) int64 {
	return whole(new(big.Int).Div(x.Num(), x.Denom())) // Euclidean, and Denom is above zero
}

func ceil(x *big.Rat) int64 {
	up := new(big.Int).Sub(x.Denom(), big.NewInt(1))
	up.Add(up, x.Num())
	return whole(up.Div(up, x.Denom()))
}

func whole(x *big.Int) int64 {
	if !x.IsInt64() {
		return math.MaxInt64
	}
	return x.Int64()
}
