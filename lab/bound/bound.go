// Package bound computes the least that machines must cost under any policy: [Cost] for a run in
// which only the batch pods must complete, and [Served] for a run whose services must be served
// too.
//
// The bounds follow from linear programming duality. Give CPU and memory any prices such that no
// flavor's capacity is worth more than the flavor costs. At those prices, the pods' requests cost
// no more than the machines that hold them. The best such prices are found exactly.
// docs/lower-bound.md has the derivation.
//
// All arithmetic uses exact fractions, rounded once at the end towards the safe side. Every
// function is pure, and the order of its arguments does not matter.
package bound

import (
	"math"
	"math/big"
	"time"

	"supercargo.dev/supercargo/internal/cluster"
	"supercargo.dev/supercargo/internal/cluster/class"
)

// Flavor is a machine type. Its size and price are not negative. It accepts only pods of its own
// architecture and pods without one.
type Flavor struct {
	cluster.Flavor
	// Speed divides the runtimes of batch pods. A value that is not positive and finite counts as
	// 1.
	Speed float64
}

// Machines are identical machines that exist, and are paid for, from the start.
type Machines struct {
	Flavor Flavor
	// Count is the number of machines.
	Count int64
}

// Run is the input of a bound. It is independent of the policy.
type Run struct {
	// Pods are the workload. Only requests (not negative), class, architecture, Arrival since the
	// start of the run and Runtime count. The Runtime of a batch pod is at speed 1. The Runtime of
	// a service is its lifetime from its start at any speed; 0 means until the end of the run.
	// Every batch pod that some flavor holds must complete: leave out pods that a policy may leave
	// undone.
	Pods []cluster.Pod
	// Flavors can be bought at any time, without limit.
	Flavors []Flavor
	// Machines exist at the start. Their flavors need not be among Flavors.
	Machines []Machines
	// Fixed means that nothing is bought or released: Machines are paid for until the run ends, and
	// Flavors is ignored.
	Fixed bool
	// BillingPeriod is the billing unit. Every started period is paid in full, at least one for
	// each machine. 0 means that time is billed exactly.
	BillingPeriod time.Duration
	// ReleaseLag is the time from releasing a machine until billing stops.
	ReleaseLag time.Duration
	// End is a time before which the run cannot end under any policy, or 0 if none is known. Batch
	// pods can make it later: none completes before its arrival plus its runtime at the highest
	// speed.
	End time.Duration

	// The remaining fields are only for [Served].

	// StartLag is the minimum time from ordering a machine until pods can run on it.
	StartLag time.Duration
	// LagFree means that a machine is not billed during its start lag.
	LagFree bool
	// ServiceWait is the time that a service is without a machine, averaged over the services that
	// some flavor holds.
	ServiceWait time.Duration
}

// Bound is the least that a run must cost, in millionths of a dollar, and its parts.
type Bound struct {
	// MicroDollars is the bound: the greater of Start + Work, rounded down, and
	// Longest.
	MicroDollars int64
	// Start is the cost of the initial machines even if they are released at once, or for the whole
	// run if it is Fixed.
	Start int64
	// Work is the additional cost of the work that they cannot do meanwhile.
	Work int64
	// Longest is the cost of the most expensive single pod on the machine that is cheapest for it,
	// at least one billing period.
	Longest int64
	// Uncounted is the number of pods that no flavor holds. They add nothing.
	Uncounted int
}

// Cost returns a lower bound of the bill of a run under any policy that completes the batch pods of
// r. Services do not count: a policy may never start them. A policy may know the future, delay
// pods, stop and resume them, and move them at no cost. It may use more machines at once than any
// real limit allows.
//
// Start lag, copies, lost work and fragments that fit no pod only add to a bill, so the bound is
// seldom reached. It never falls when a pod is added. If all prices are multiplied by k, it is
// multiplied by k, apart from rounding. A runtime divided by a speed may be rounded down to the
// nanosecond, once per pod.
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

// problem is a run in the units of the arithmetic: milli-CPU and bytes, each times nanoseconds, and
// micro-dollars per hour times nanoseconds. The dollars method converts the latter to
// micro-dollars.
type problem struct {
	flavors   []candidate
	loads     []load
	services  []cluster.Pod // those that some flavor holds
	uncounted int
	machines  []held // their flavors are the first of flavors
	// paid is the minimum time for which every initial machine is billed, period the minimum for
	// every machine, and end the earliest end of the run.
	paid, period, end int64
	inDollars         bool
	// lag is the billed time of a bought machine before pods can run on it. Only [Served] sets it.
	lag int64
}

// candidate is a flavor with its speed as a fraction.
type candidate struct {
	Flavor
	speed *big.Rat
}

// held are initial machines. flavor is an index into problem.flavors.
type held struct {
	flavor int
	count  int64
}

// load is the work of a batch pod.
type load struct {
	cluster.Pod
	// duration is the runtime at speed 1.
	duration int64
	// early is the part of the duration that may pass while the initial machines are billed anyway.
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
			l.early = l.duration // no other machine ever exists, whenever the pods arrive
		}
		p.add(l)
	}
	return p
}

// add adds a pod, or counts it as uncounted if no flavor holds it.
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

// fastest returns the highest speed of any flavor, at least 1, and the number of nanoseconds of
// work that rounding down one runtime may save.
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

// start returns the unavoidable cost of the initial machines.
func (p *problem) start() *big.Rat {
	sum := new(big.Rat)
	for _, m := range p.machines {
		price := new(big.Rat).SetInt64(p.flavors[m.flavor].MicroDollarsPerHour)
		price.Mul(price, new(big.Rat).SetInt64(m.count))
		sum.Add(sum, price.Mul(price, new(big.Rat).SetInt64(p.paid)))
	}
	return p.dollars(sum)
}

// work returns the best bound among the views of the batch pods. Each view alone gives a valid
// bound.
func (p *problem) work() *big.Rat {
	best := new(big.Rat)
	for _, v := range p.views() {
		best = larger(best, p.viewWork(v))
	}
	return p.dollars(best)
}

// longest returns the cost of the most expensive batch pod on its cheapest machine. Splitting its
// run over several machines is no cheaper: each machine costs a period, and each unit of work costs
// at least its price on the cheapest machine.
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
			if i >= len(p.machines) { // it must be bought
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

// dollars converts micro-dollars per hour times nanoseconds to micro-dollars.
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

// started rounds t up to whole periods, at least one.
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

// floor and ceil round to an int64. Values out of range become math.MaxInt64.
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
