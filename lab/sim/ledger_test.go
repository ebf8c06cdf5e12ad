package sim_test

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"supercargo.dev/supercargo/internal/cluster/class"
	"supercargo.dev/supercargo/lab/scenario"
	"supercargo.dev/supercargo/lab/sim"
)

// ledger replays the facts of a run step by step and records impossible ones. It calls nothing of
// the package under test.
type ledger struct {
	sc       *scenario.Scenario
	groups   bool // the policy respects the classes of the initial machines
	asks     bool // the policy moves pods only as they declare
	machines map[string]*rented
	pods     map[string]*worked
	faults   []string

	completed, failed, evictions, migrations int
	lost                                     float64 // nanoseconds of work
	makespan                                 time.Duration
	peak                                     int
}

// rented is a machine.
type rented struct {
	flavor                 *scenario.Flavor
	class                  class.Class
	asked, ready, released time.Duration // -1: not yet
	holds                  map[string]bool
	changes                []change
}

// change is a change of the requests of pods at a time.
type change struct {
	at          time.Duration
	cpu, memory int64
}

// worked is a pod.
type worked struct {
	*scenario.Pod
	on, to       string        // its node, and its target during a move
	since        time.Duration // when it started to run or to move
	done         float64       // nanoseconds of work done before since
	first        time.Duration // its first start; -1: none
	ends         time.Duration // a service's end, once it has started
	evictions    int
	ended, given bool          // up
	without      time.Duration // start of the time without a machine, if it is on none
	waited       time.Duration // earlier time without a machine
}

func newLedger(sc *scenario.Scenario, pods []scenario.Pod, p sim.Policy) *ledger {
	l := &ledger{sc: sc, groups: p.Groups, asks: p.Asks, machines: map[string]*rented{}, pods: map[string]*worked{}}
	for i := range pods {
		l.pods[pods[i].Name] = &worked{Pod: &pods[i], first: -1, without: pods[i].Arrival}
	}
	return l
}

func (l *ledger) fault(format string, args ...any) {
	if len(l.faults) < 5 {
		l.faults = append(l.faults, fmt.Sprintf(format, args...))
	}
}

// process checks and books the next fact.
func (l *ledger) process(f sim.Fact) {
	m, p := l.machines[f.Node], l.pods[f.Pod]
	switch {
	case f.What != "asked for" && f.Node != "" && m == nil:
		l.fault("%v: %s: there is no machine %s", f.At, f.What, f.Node)
	case f.Pod != "" && (p == nil || p.ended || p.given || f.At < p.Arrival):
		l.fault("%v: pod %s %s, but it is unknown, over or not there yet", f.At, f.Pod, f.What)
	case f.Pod == "":
		l.applyMachine(f, m)
	default:
		l.applyPod(f, m, p)
	}
}

func (l *ledger) applyMachine(f sim.Fact, m *rented) {
	switch f.What {
	case "asked for":
		if m != nil {
			l.fault("%v: two machines are called %s", f.At, f.Node)
		}
		at := slices.IndexFunc(l.sc.Flavors, func(have scenario.Flavor) bool { return have.Name == f.Flavor })
		l.machines[f.Node] = &rented{
			flavor: &l.sc.Flavors[at], class: f.Class, asked: f.At, ready: -1, released: -1, holds: map[string]bool{},
		}
		there := 0
		for _, other := range l.machines {
			if other.released < 0 || other.released+l.sc.ReleaseLag > f.At {
				there++
			}
		}
		l.peak = max(l.peak, there)
		if there > int(l.sc.MaxNodes) {
			l.fault("%v: %d machines are there, the limit is %d", f.At, there, l.sc.MaxNodes)
		}
	case "ready":
		lag := max(1, l.sc.AcquisitionLag.Mean)
		ofTheStart := m.asked == 0 && f.At == 0
		if m.ready >= 0 || m.released >= 0 || !ofTheStart && (f.At <= m.asked || l.sc.AcquisitionLag.SD == 0 && f.At != m.asked+lag) {
			l.fault("%v: machine %s, asked for at %v, is ready", f.At, f.Node, m.asked)
		}
		m.ready = f.At
	case "asked to go":
		if m.ready < 0 || m.released >= 0 || len(m.holds) > 0 {
			l.fault("%v: machine %s is asked to go with %d pods", f.At, f.Node, len(m.holds))
		}
		m.released = f.At
	}
}

func (l *ledger) applyPod(f sim.Fact, m *rented, p *worked) {
	var ok bool
	switch f.What {
	case "started":
		ok = p.on == ""
		l.occupy(f.At, f.Node, m, p)
		p.on, p.since, p.done = f.Node, f.At, 0
		p.waited += f.At - p.without
		if p.first < 0 {
			p.first = f.At
			if p.Lifetime > 0 {
				p.ends = f.At + p.Lifetime
			}
		}
	case "ended":
		ok = l.ends(f, p)
		if p.on != "" {
			l.vacate(f.At, p.on, p)
		} else {
			p.waited += f.At - p.without
		}
		p.on, p.ended = "", true
		l.completed++
		if p.Class == class.Batch {
			l.makespan = max(l.makespan, f.At)
		}
	default:
		ok = l.processMove(f, m, p)
	}
	if !ok {
		l.fault("%v: pod %s %s: %s, which it cannot: %+v of %+v", f.At, f.Pod, f.What, f.Node, *p, *p.Pod)
	}
}

// processMove processes a step of a pod's move, and reports whether it is possible.
func (l *ledger) processMove(f sim.Fact, m *rented, p *worked) (ok bool) {
	switch f.What {
	case "frozen, on its way to the node":
		ok = p.on != "" && p.to == "" && p.on != f.Node && m.flavor.Arch == l.machines[p.on].flavor.Arch && l.may(p, scenario.MoveWithState)
		l.occupy(f.At, f.Node, m, p)
		p.done += l.work(p, f.At)
		p.to, p.since = f.Node, f.At
		l.migrations++
	case "moved":
		milliseconds := math.Ceil(float64(p.Size.MemoryBytes) * l.sc.Migration.BytesPerMemory * 8 / float64(l.sc.Migration.BitsPerSecond) * 1000)
		ok = p.to == f.Node && f.At == p.since+time.Duration(milliseconds)*time.Millisecond+l.sc.Migration.Fixed
		l.vacate(f.At, p.on, p)
		p.on, p.to, p.since = f.Node, "", f.At
	case "evicted":
		// The work of a batch pod that declares how it moves restarts only once.
		ok = p.on == f.Node && p.to == "" && l.may(p, scenario.MoveByRestart) &&
			(!l.asks || p.Class == class.Service || p.Migration != scenario.MoveByRestart || p.evictions == 0)
		if p.Class == class.Batch {
			l.lost += p.done + l.work(p, f.At)
		}
		l.vacate(f.At, p.on, p)
		p.on, p.without = "", f.At
		l.evictions++
		if p.evictions++; p.Class == class.Batch && p.evictions > 100 {
			p.given = true
			l.failed++
		}
	}
	return ok
}

// may reports whether a pod's declaration allows it to be moved that way.
func (l *ledger) may(p *worked, how scenario.Migratable) bool {
	return !l.asks || p.Migration == scenario.MoveAsLiked || p.Migration == how
}

// ends reports whether a pod may end now: a batch pod when its work is done, to the nanosecond, and
// a service when its lifetime is over.
func (l *ledger) ends(f sim.Fact, p *worked) bool {
	switch {
	case p.to != "" || p.on != f.Node:
		return false
	case p.on == "":
		return p.Class == class.Service && p.ends == f.At
	case p.Class == class.Service:
		return p.ends > 0 && f.At == max(p.ends, p.since)
	default:
		over := p.done + l.work(p, f.At) - float64(p.Runtime)
		// Work done is rounded down at each move, times are rounded up.
		return over >= -1e-3 && over <= 4*max(1, l.machines[p.on].flavor.Speed)+float64(p.Runtime)*1e-9
	}
}

// work returns the work of a running batch pod since it last started or resumed.
func (l *ledger) work(p *worked, now time.Duration) float64 {
	if p.Class != class.Batch || p.on == "" {
		return 0
	}
	return float64(now-p.since) * l.machines[p.on].flavor.Speed
}

// occupy adds a pod's request to a machine.
func (l *ledger) occupy(at time.Duration, name string, m *rented, p *worked) {
	if m.ready < 0 || m.released >= 0 {
		l.fault("%v: pod %s is put on %s, which is not there", at, p.Name, name)
	}
	if !m.class.Takes(p.Class) && l.groups || p.Arch != "" && p.Arch != m.flavor.Arch {
		l.fault("%v: pod %s of class %s for %q is put on %s of class %s with %s", at, p.Name, p.Class, p.Arch, name, m.class, m.flavor.Arch)
	}
	m.holds[p.Name] = true
	var cpu, memory int64
	for held := range m.holds {
		cpu, memory = cpu+l.pods[held].Size.MilliCPU, memory+l.pods[held].Size.MemoryBytes
	}
	if cpu > m.flavor.Size.MilliCPU || memory > m.flavor.Size.MemoryBytes || int64(len(m.holds)) > *m.flavor.MaxPods {
		l.fault("%v: %s holds %d pods with %dm and %d bytes", at, name, len(m.holds), cpu, memory)
	}
	m.changes = append(m.changes, change{at, p.Size.MilliCPU, p.Size.MemoryBytes})
}

func (l *ledger) vacate(at time.Duration, name string, p *worked) {
	m := l.machines[name]
	delete(m.holds, p.Name)
	m.changes = append(m.changes, change{at, -p.Size.MilliCPU, -p.Size.MemoryBytes})
}

// paid returns the start and end of a machine's billing, and false if it was not billed up to the
// end of the run.
func (l *ledger) paid(m *rented, over time.Duration) (from, to time.Duration, ok bool) {
	from, to = m.asked, over
	if l.sc.BilledFrom == scenario.FromReady {
		from = m.ready
	}
	if m.released >= 0 {
		to = min(over, m.released+l.sc.ReleaseLag)
	}
	return from, to, from >= 0 && from <= over
}

// bill returns the price of a machine in micro-dollars, in exact arithmetic.
func (l *ledger) bill(m *rented, over time.Duration) *big.Int {
	from, to, ok := l.paid(m, over)
	if !ok {
		return new(big.Int)
	}
	periods := max(1, (to-from+l.sc.BillingPeriod-1)/l.sc.BillingPeriod)
	price := new(big.Int).Mul(big.NewInt(m.flavor.MicroDollarsPerHour), big.NewInt(int64(periods)))
	price.Mul(price, big.NewInt(int64(l.sc.BillingPeriod)))
	rest := new(big.Int)
	if price.QuoRem(price, big.NewInt(int64(time.Hour)), rest); rest.Sign() > 0 {
		price.Add(price, big.NewInt(1))
	}
	return price
}

// settle compares the result with the facts and returns all faults.
func (l *ledger) settle(r *sim.Result) []string {
	l.settlePods(r)
	l.settleServices(r)
	l.settleMachines(r)
	for i := 1; i < len(r.Samples); i++ {
		if r.Samples[i].CostMicroDollars < r.Samples[i-1].CostMicroDollars || r.Samples[i].Moves < r.Samples[i-1].Moves {
			l.fault("cost or moves go back from sample %d: %+v", i-1, r.Samples[i-1:i+1])
		}
	}
	if last := r.Samples[len(r.Samples)-1]; last.CostMicroDollars != r.CostMicroDollars || len(r.Samples) > 602 {
		l.fault("the last of %d samples is %+v, the bill %d", len(r.Samples), last, r.CostMicroDollars)
	}
	return l.faults
}

// settleServices checks how long services were without a machine.
func (l *ledger) settleServices(r *sim.Result) {
	services, wait := 0, time.Duration(0)
	for _, p := range l.pods {
		if p.Class != class.Service || !l.canHold(p.Pod) {
			continue
		}
		services++
		if wait += p.waited; p.on == "" && !p.ended {
			wait += max(0, r.Over-p.without)
		}
	}
	if l.sc.Autoscale && (r.Services != services || r.ServiceWait != wait) {
		l.fault("%d services were without a machine for %v, want %d and %v", r.Services, r.ServiceWait, services, wait)
	}
}

func (l *ledger) settlePods(r *sim.Result) {
	var waits []time.Duration
	running := 0
	for _, p := range l.pods {
		if p.first >= 0 {
			waits = append(waits, p.first-p.Arrival)
		}
		if p.on == "" {
			continue
		}
		if running++; p.Class == class.Batch {
			l.fault("batch pod %s runs at the end", p.Name)
		}
	}
	slices.Sort(waits)
	want := sim.Result{
		Submitted: len(l.pods), Scheduled: len(waits), Completed: l.completed, Failed: l.failed,
		Pending:    len(l.pods) - l.completed - l.failed - running,
		Migrations: l.migrations, Evictions: l.evictions, Makespan: l.makespan,
	}
	got := sim.Result{
		Submitted: r.Submitted, Scheduled: r.Scheduled, Completed: r.Completed, Failed: r.Failed, Pending: r.Pending,
		Migrations: r.Migrations, Evictions: r.Evictions, Makespan: r.Makespan,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.fault("counts (-want +got):\n%s", diff)
	}
	if !slices.Equal(waits, r.Waits) {
		l.fault("waits are %v, want %v", r.Waits, waits)
	}
	var reasons int64
	for _, n := range r.PendingReasons {
		reasons += n
	}
	if reasons != int64(r.Pending) || r.PendingReasons[""] > 0 {
		l.fault("%d pods are pending for reasons %v", r.Pending, r.PendingReasons)
	}
	if lost := r.LostWork.Seconds() * 1e9; math.Abs(lost-l.lost) > 1e-9*l.lost+4*float64(1+l.evictions) {
		l.fault("%v of work are lost, want %v", r.LostWork, time.Duration(l.lost))
	}
	if end := max(l.sc.Horizon, l.makespan); r.Over < end || r.Over > end && !l.batchWaits() {
		l.fault("the run is over at %v, want %v", r.Over, end)
	}
}

// canHold reports whether some flavor holds a pod.
func (l *ledger) canHold(p *scenario.Pod) bool {
	return slices.ContainsFunc(l.sc.Flavors, func(f scenario.Flavor) bool {
		return (p.Arch == "" || p.Arch == f.Arch) && p.Size.Fits(f.Size)
	})
}

// batchWaits reports whether some batch pod is unfinished.
func (l *ledger) batchWaits() bool {
	for _, p := range l.pods {
		if p.Class == class.Batch && !p.ended {
			return true
		}
	}
	return false
}

func (l *ledger) settleMachines(r *sim.Result) {
	bill := new(big.Int)
	var hours, joules, tasks, taskJoules, cpu, memory, offered, offeredMemory float64
	byType := map[string]float64{}
	for _, m := range l.machines {
		bill.Add(bill, l.bill(m, r.Over))
		from, to, ok := l.paid(m, r.Over)
		if !ok {
			continue
		}
		seconds := (to - from).Seconds()
		hours += seconds
		offered, offeredMemory = offered+float64(m.flavor.Size.MilliCPU)*seconds, offeredMemory+float64(m.flavor.Size.MemoryBytes)*seconds
		for _, c := range m.changes {
			left := max(0, (to - c.at).Seconds())
			cpu, memory = cpu+float64(c.cpu)*left, memory+float64(c.memory)*left
		}
		drawn := m.joules(from, to)
		joules += drawn
		byType[m.flavor.MachineType] += drawn
		tasks += drawn - float64(m.flavor.MilliwattsIdle)*seconds/1000
	}
	if bill.Cmp(big.NewInt(r.CostMicroDollars)) != 0 {
		l.fault("the bill is %d micro-dollars, want %v", r.CostMicroDollars, bill)
	}
	if l.batchWaits() { // the rest is measured up to the time when the run was abandoned
		return
	}
	for _, e := range r.Energy {
		if want := byType[e.MachineType]; math.Abs(e.Joules-want) > 1e-6*max(1, want) || math.Abs(e.TaskJoules+e.IdleJoules-e.Joules) > 1e-6*max(1, want) {
			l.fault("machine type %q: %+v, want %v J", e.MachineType, *e, want)
		}
		taskJoules += e.TaskJoules
	}
	for what, pair := range map[string][2]float64{
		"machine seconds": {r.MachineSeconds, hours}, "energy": {r.EnergyJoules, joules}, "task energy": {taskJoules, tasks},
		"CPU used": {r.UsedMilliCPUSeconds, cpu}, "memory used": {r.UsedMemoryByteSeconds, memory},
		"CPU paid": {r.PaidMilliCPUSeconds, offered}, "memory paid": {r.PaidMemoryByteSeconds, offeredMemory},
	} {
		if got, want := pair[0], pair[1]; math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) || math.IsNaN(got) {
			l.fault("%s: %v, want %v", what, got, want)
		}
	}
}

// joules returns the energy of the machine between two times.
func (m *rented) joules(from, to time.Duration) float64 {
	changes := slices.Clone(m.changes)
	slices.SortStableFunc(changes, func(a, b change) int { return int(a.at - b.at) })
	sum, used := 0.0, int64(0)
	for _, c := range append(changes, change{at: to}) {
		if at := min(c.at, to); at > from {
			sum += milliwatts(m.flavor, float64(used)/float64(m.flavor.Size.MilliCPU)) * (at - from).Seconds() / 1000
			from = at
		}
		used += c.cpu
	}
	return sum
}

// milliwatts returns the power of a machine at a load, interpolated between points.
func milliwatts(f *scenario.Flavor, load float64) float64 {
	left := scenario.PowerPoint{Milliwatts: f.MilliwattsIdle}
	for _, right := range append(slices.Clone(f.PowerCurve), scenario.PowerPoint{Utilization: 1, Milliwatts: f.MilliwattsFull}) {
		if load <= right.Utilization {
			part := (load - left.Utilization) / (right.Utilization - left.Utilization)
			return float64(left.Milliwatts) + part*float64(right.Milliwatts-left.Milliwatts)
		}
		left = right
	}
	return math.NaN()
}

// uncountable reports whether the cost of the machines may overflow an int64.
func (l *ledger) uncountable() bool {
	bill := new(big.Int)
	for _, m := range l.machines {
		bill.Add(bill, l.bill(m, math.MaxInt64/2))
	}
	return !bill.IsInt64()
}
