package rightsize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Config says what is replayed.
type Config struct {
	Trace   *Trace
	Flavors []Flavor
	// TrainUntil is the end of the learned part: a policy knows what was used before when the first machines are bought.
	TrainUntil time.Duration
}

// Result is what a policy cost, and how often machines were overloaded, in the judged part of a trace.
type Result struct {
	Policy string
	// Machines is the mean number of machines, MachineIntervals of how many intervals of machines it is the mean.
	Machines         float64
	MachineIntervals int
	// MicroDollarsPerHour is the mean price of the machines.
	MicroDollarsPerHour float64
	// Overloaded is in how many intervals of machines the use of a resource exceeded the machine, and OverloadedMachines
	// the number of machines to which that happened.
	Overloaded         [resources]int
	OverloadedMachines int
	// Resizes is how many requests changed after the first machines were bought, and Moves how many entities changed
	// their machine.
	Resizes, Moves int
}

// Overload returns the share of the intervals of machines in which a resource was overloaded.
func (r *Result) Overload(of Resource) float64 {
	if r.MachineIntervals == 0 {
		return 0
	}
	return float64(r.Overloaded[of]) / float64(r.MachineIntervals)
}

// Validate checks that both parts of the trace have intervals, and that each entity has a request or is in the learned
// part.
func (c Config) Validate() error {
	first := c.Trace.interval(c.TrainUntil)
	if first <= 0 || first >= c.Trace.Intervals {
		return fmt.Errorf("--train-until: must be within the trace, later than %g and earlier than %g seconds",
			c.Trace.Begin.Seconds(), c.Trace.at(c.Trace.Intervals).Seconds())
	}
	var errs []error
	for _, e := range c.Trace.Entities {
		requested := asked(&e, first)
		for r := range resources {
			if c.Trace.Measured[r] && math.IsNaN(requested[r]) && e.End > first {
				errs = append(errs, fmt.Errorf("entity %q: %s_requested is not stated, and it has no use before --train-until from which to take it", e.Name, [...]string{"cpu", "mem"}[r]))
			}
		}
	}
	return errors.Join(errs...)
}

// asked returns what an entity requests before anything is known of it. If that is not stated, it is the peak of the
// learned part; NaN if there is none.
func asked(e *Entity, first int) Amounts {
	a := e.Requested
	for r, use := range e.Use {
		if !math.IsNaN(a[r]) || use == nil {
			continue
		}
		for _, x := range use[:first] {
			if !math.IsNaN(x) && !(x <= a[r]) {
				a[r] = x
			}
		}
	}
	return a
}

// replay is the state of the replay of one policy.
type replay struct {
	Config
	*cluster
	policy Policy
	first  int // the first judged interval
	result Result
	// effective is the machine of each entity in this interval, decided the one that is decided: a decision takes effect
	// an interval after the one in which it is made.
	effective, decided map[int]*hardware
	overloaded         map[*hardware]bool
	price              int64 // micro-dollars per hour, summed over intervals
	settled            bool  // nothing changed since no machine could be released
}

// Run replays a policy. Entities are placed when they start. At the end of each interval the policy is told what was
// used, and may change requests; entities that no longer fit their machine move, and once an hour a machine is released
// if others, or others and a cheaper one, hold its entities. All of that takes effect one interval later, the time for
// metrics to arrive and for moves to end. A machine is paid from the interval in which it is ordered until it is empty.
func Run(ctx context.Context, c Config, policy Policy) (*Result, error) {
	r := &replay{
		Config: c, cluster: newCluster(c.Trace, c.Flavors), policy: policy, first: c.Trace.interval(c.TrainUntil),
		overloaded: map[*hardware]bool{}, result: Result{Policy: policy.Name()},
	}
	r.learn()
	if err := r.begin(); err != nil {
		return nil, err
	}
	for interval := r.first; interval < c.Trace.Intervals; interval++ {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := r.step(interval); err != nil {
			return nil, err
		}
	}
	judged := float64(c.Trace.Intervals - r.first)
	r.result.Machines = float64(r.result.MachineIntervals) / judged
	r.result.MicroDollarsPerHour = float64(r.price) / judged
	r.result.OverloadedMachines = len(r.overloaded)
	return &r.result, nil
}

// learn tells the policy of the learned part.
func (r *replay) learn() {
	for interval := range r.first {
		for i := range r.Trace.Entities {
			e := &r.Trace.Entities[i]
			if e.First == interval {
				r.start(i, interval)
			}
			if e.runs(interval) {
				r.record(i, interval)
			}
		}
	}
}

// start gives an entity the request with which it starts.
func (r *replay) start(entity, interval int) {
	r.requests[entity] = known(asked(&r.Trace.Entities[entity], r.first))
	r.policy.Start(entity, r.requests[entity], r.Trace.at(interval))
}

// record lets the policy learn what an entity used in an interval.
func (r *replay) record(entity, interval int) {
	r.policy.Learn(entity, r.Trace.at(interval), r.used(entity, interval))
}

// used returns the use of an entity in an interval.
func (r *replay) used(entity, interval int) Amounts {
	used := Amounts{math.NaN(), math.NaN()}
	for of, use := range r.Trace.Entities[entity].Use {
		if use != nil {
			used[of] = use[interval]
		}
	}
	return used
}

// tries is how often the first machines are planned: the share of an entity depends on its machine, and its machine on
// the shares.
const tries = 8

// begin buys the first machines, the cheapest of some plans whose machines hold what they have.
func (r *replay) begin() error {
	var running []int
	for i := range r.Trace.Entities {
		if e := &r.Trace.Entities[i]; e.runs(r.first-1) && e.End > r.first {
			running = append(running, i)
		}
	}
	best, err := r.plans(running, r.Trace.at(r.first))
	if err != nil {
		return err
	}
	r.take(best)
	r.effective, r.decided = r.places(), r.places()
	r.result.Resizes = 0
	return nil
}

// plans plans machines for entities from scratch, and returns the cheapest plan whose machines hold what they have. If
// requests depend on who shares a machine, several plans are made: from requests of entities that are alone, and of
// entities that share one machine, and then each from the requests that follow from the plan before.
func (r *replay) plans(entities []int, now time.Duration) (*cluster, error) {
	refiner, refines := r.policy.(Refiner)
	var best *cluster
	held := false
	for _, sets := range [][][]int{alone(entities), {entities}} {
		for range tries {
			c := r.copy()
			c.machines, c.on = nil, map[int]*machine{}
			if refines {
				refiner.Refine()
			}
			c.change(r.policy.Requests(now, sets, c.requests))
			if err := c.buy(entities); err != nil {
				return nil, err
			}
			if holds := r.allHold(c); best == nil || holds && (!held || c.bill() < best.bill()) {
				best, held = c, holds
			}
			if !refines {
				return best, nil
			}
			sets = c.sets()
		}
	}
	return best, nil
}

// take puts machines and requests into effect.
func (r *replay) take(c *cluster) {
	r.count(c.requests)
	r.machines, r.on, r.requests, r.bought = c.machines, c.on, c.requests, c.bought
}

func alone(entities []int) [][]int {
	sets := make([][]int, len(entities))
	for i, e := range entities {
		sets[i] = []int{e}
	}
	return sets
}

// allHold reports whether the policy accepts the set of each machine.
func (r *replay) allHold(c *cluster) bool {
	return !slices.ContainsFunc(c.machines, func(m *machine) bool { return !r.policy.Holds(m.entities, m.flavor.Capacity) })
}

// holdsToo reports whether the policy accepts a set of entities beside those of a machine.
func (r *replay) holdsToo(m *machine, entities []int) bool {
	return r.policy.Holds(slices.Concat(m.entities, entities), m.flavor.Capacity)
}

// resize changes requests.
func (r *replay) resize(wanted map[int]Amounts) {
	before := slices.Clone(r.requests)
	r.change(wanted)
	after := r.requests
	r.requests = before
	r.count(after)
	r.requests = after
}

// count counts the requests that change by more than a hundredth.
func (r *replay) count(requests []Amounts) {
	for e, want := range requests {
		if differ(want, r.requests[e]) {
			r.result.Resizes++
			r.settled = false
		}
	}
}

func differ(want, have Amounts) bool {
	for of := range want {
		if math.Abs(want[of]-have[of]) > 0.01*have[of] {
			return true
		}
	}
	return false
}

// step replays one interval.
func (r *replay) step(interval int) error {
	if err := r.comeAndGo(interval); err != nil {
		return err
	}
	r.measure(interval)
	for _, e := range r.running() {
		r.record(e, interval)
	}
	before := r.places()
	if err := r.decide(interval + 1); err != nil {
		return err
	}
	after := r.places()
	for e, m := range after {
		if before[e] != m {
			r.result.Moves++
			r.settled = false
		}
	}
	r.effective, r.decided = r.decided, after
	return nil
}

// comeAndGo places entities that start with an interval, and removes those that have ended. Both take effect at once.
func (r *replay) comeAndGo(interval int) error {
	var homeless []int
	for i := range r.Trace.Entities {
		e := &r.Trace.Entities[i]
		switch running := e.runs(interval); {
		case running && r.on[i] == nil:
			r.start(i, interval)
			homeless = append(homeless, i)
		case !running && r.on[i] != nil:
			r.remove(i)
			delete(r.effective, i)
			delete(r.decided, i)
			r.settled = false
		}
	}
	r.release()
	if err := r.settle(homeless, exchangeEffort, func(m *machine) bool { return !r.holdsToo(m, homeless) }); err != nil {
		return err
	}
	for _, e := range homeless {
		r.effective[e], r.decided[e] = r.on[e].hardware, r.on[e].hardware
	}
	return nil
}

// measure counts machines, their prices and overloads in an interval.
func (r *replay) measure(interval int) {
	used := map[*hardware]Amounts{}
	paid := map[*hardware]bool{}
	for _, m := range r.machines {
		paid[m.hardware] = true
	}
	for _, e := range slices.Sorted(maps.Keys(r.effective)) { // floats are added in the same order each time
		m := r.effective[e]
		paid[m] = true
		sum := used[m]
		for of, x := range known(r.used(e, interval)) {
			sum[of] += x
		}
		used[m] = sum
	}
	for m := range paid {
		r.price += m.flavor.MicroDollarsPerHour
	}
	var overloaded [resources]int
	for m, sum := range used {
		for of := range sum {
			if sum[of] > m.flavor.Capacity[of]*(1+rounding) {
				overloaded[of]++
				r.overloaded[m] = true
			}
		}
	}
	for of := range overloaded {
		r.result.Overloaded[of] += overloaded[of]
	}
	r.result.MachineIntervals += len(used)
	r.policy.Realised(overloaded, len(used))
}

// rounding is by what share a sum of measurements may exceed a machine because they are rounded.
const rounding = 1e-9

// decide changes requests, moves what does not fit, and once an hour gives a machine up. now is the interval after the
// last one that is known.
func (r *replay) decide(now int) error {
	at := r.Trace.at(now)
	r.resize(r.policy.Requests(at, r.sets(), r.requests))
	for _, m := range slices.Clone(r.machines) {
		leave := r.overflowing(m)
		if len(leave) == 0 {
			leave = r.policy.Leave(m.entities, m.flavor.Capacity)
		}
		leave = slices.DeleteFunc(leave, func(e int) bool { return !r.sold(e) })
		if len(leave) == 0 {
			continue
		}
		for _, e := range leave {
			r.remove(e)
		}
		if err := r.settle(leave, exchangeEffort, func(other *machine) bool { return other == m || !r.holdsToo(other, leave) }); err != nil {
			return err
		}
	}
	r.release()
	if at%time.Hour >= r.Trace.Step || r.settled {
		return nil
	}
	if at%(24*time.Hour) < r.Trace.Step {
		if r.replan(at) {
			return nil
		}
	}
	r.exchange()
	return nil
}

const (
	// exchangeEffort bounds the search for few entities.
	exchangeEffort = 300_000
	// leastGain is the share of a machine's price that an exchange must save.
	leastGain = 0.05
)

// replan plans all machines from the beginning, and reports whether the plan is worth it and in effect. Machines of the same flavor
// stay where they keep most entities.
func (r *replay) replan(now time.Duration) bool {
	after, err := r.plans(r.running(), now)
	if err != nil {
		return false // an entity has outgrown all flavors
	}
	if float64(after.bill()) > (1-leastGain)*float64(r.bill()) || !r.allHold(after) {
		return false
	}
	after.keep(r.machines)
	r.take(after)
	return true
}

// exchange gives up the machine with which most is saved by moving its entities to others, or to others and a cheaper
// one.
func (r *replay) exchange() {
	var best *cluster
	most := int64(0)
	machines := slices.Clone(r.machines)
	slices.SortStableFunc(machines, func(a, b *machine) int {
		return cmp.Compare(b.flavor.MicroDollarsPerHour, a.flavor.MicroDollarsPerHour)
	})
	for _, m := range machines {
		if m.flavor.MicroDollarsPerHour <= most {
			break
		}
		entities := slices.Clone(m.entities)
		plan, err := r.plan(entities, exchangeEffort, func(other *machine) bool { return other == m })
		if err != nil {
			continue // an entity has outgrown all flavors: its machine stays
		}
		gain := m.flavor.MicroDollarsPerHour - plan.MicroDollarsPerHour
		if float64(gain) < leastGain*float64(m.flavor.MicroDollarsPerHour) || gain <= most {
			continue
		}
		after := r.copy()
		for _, e := range entities {
			after.remove(e)
		}
		after.apply(plan, entities)
		after.release()
		if r.allHold(after) {
			best, most = after, gain
		}
	}
	if r.settled = best == nil; !r.settled {
		r.take(best)
	}
}
