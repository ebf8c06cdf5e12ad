// Package report turns what was seen of a cluster into figures.
//
// [Account] says how many machines a run used, how full they were and what they
// cost. It is pure: no clock, client, logger or random source.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Never stands for a moment that did not come.
const Never time.Duration = -1

// Machine is a node with what it offers to pods and what it costs.
type Machine struct {
	Name                string
	MilliCPU            int64 // allocatable, in thousandths of a core
	MemoryBytes         int64 // allocatable
	MicroDollarsPerHour int64 // price while it is used
}

// Stay is one pod's time in the cluster. All moments count from the beginning of
// the window.
type Stay struct {
	Pod         string
	MilliCPU    int64 // requested
	MemoryBytes int64 // requested
	Created     time.Duration
	Bound       time.Duration // Never: it found no node
	Gone        time.Duration // when its requests were freed; Never: it is still there
	Node        string        // empty as long as Bound is Never
}

// Usage says what the pods of a window took of the cluster. A node is used from
// the moment its first pod is bound until its last pod is gone, both ends to the
// nanosecond: [Bound, Gone) is the time a pod counts.
type Usage struct {
	// Window is how long was looked at.
	Window time.Duration
	// PodsCreated counts the pods created inside the window, PodsBound those of
	// them that were bound inside it, and PodsNeverBound the rest: those still
	// waiting at its end and those taken away before they were bound.
	PodsCreated, PodsBound, PodsNeverBound int
	// NodesUsedPeak is the most nodes used at one time.
	NodesUsedPeak int
	// NodesUsedMean is the number of used nodes, averaged over the window.
	NodesUsedMean float64
	// CPUUtilisation and MemoryUtilisation are, over the used nodes only, the
	// integral of what pods requested over the integral of what those nodes
	// offer; in [0, 1] unless a node was overfilled, 0 when none was used.
	CPUUtilisation, MemoryUtilisation float64
	// MicroDollarsPerHour is the price of the used nodes, averaged over the
	// window and rounded to nearest, half up: what the cluster would cost per
	// hour if each machine were released the moment it has no pod and were
	// there again the moment it gets one. No real bill is that low.
	MicroDollarsPerHour int64
	// BindMean and BindP95 are the mean, rounded down, and the 95th percentile
	// (nearest rank) of the time from creation to binding, over the bound pods
	// alone: pods that still wait are left out, so compare PodsNeverBound first.
	BindMean, BindP95 time.Duration
}

// Account works out the usage of the window that begins at zero. Sums are exact
// integers; only the final quotients are rounded.
//
// Every fault of the input is reported: a window that is not positive, a machine
// named twice or without CPU or memory, a negative amount, a pod bound before it
// was created, gone before it was bound, or bound to an unknown machine.
//
// Cost: O(m + n log n) for m machines and n stays.
func Account(machines []Machine, stays []Stay, window time.Duration) (Usage, error) {
	index, err := check(machines, stays, window)
	if err != nil {
		return Usage{}, err
	}
	l := newLedger(machines, index)
	for _, change := range changesOf(stays, window) {
		l.advance(change.at)
		l.apply(change)
	}
	l.advance(window)

	u := Usage{Window: window}
	u.countPods(stays)
	l.fill(&u)
	return u, nil
}

// check collects the faults and returns the place of each machine by name.
func check(machines []Machine, stays []Stay, window time.Duration) (map[string]int, error) {
	var errs []error
	if window <= 0 {
		errs = append(errs, fmt.Errorf("window is %s, want more than zero", window))
	}
	index := make(map[string]int, len(machines))
	for i, m := range machines {
		if _, twice := index[m.Name]; twice {
			errs = append(errs, fmt.Errorf("machine %q is there twice", m.Name))
		}
		if m.MilliCPU <= 0 || m.MemoryBytes <= 0 || m.MicroDollarsPerHour < 0 {
			errs = append(errs, fmt.Errorf("machine %q offers %d milli-CPU and %d bytes for %d micro-dollars per hour, want CPU, memory and no negative price",
				m.Name, m.MilliCPU, m.MemoryBytes, m.MicroDollarsPerHour))
		}
		index[m.Name] = i
	}
	for _, s := range stays {
		if err := s.check(index); err != nil {
			errs = append(errs, fmt.Errorf("pod %q: %w", s.Pod, err))
		}
	}
	return index, errors.Join(errs...)
}

// check returns the first fault of a stay.
func (s Stay) check(machines map[string]int) error {
	_, known := machines[s.Node]
	switch {
	case s.MilliCPU < 0 || s.MemoryBytes < 0:
		return fmt.Errorf("requests %d milli-CPU and %d bytes, want no negative amount", s.MilliCPU, s.MemoryBytes)
	case s.Created < 0:
		return fmt.Errorf("created at %s, want no time before the window", s.Created)
	case s.Bound == Never && s.Node != "":
		return fmt.Errorf("is on node %q without a time of binding", s.Node)
	case s.Bound != Never && s.Bound < s.Created:
		return fmt.Errorf("bound at %s, before its creation at %s", s.Bound, s.Created)
	case s.Bound != Never && !known:
		return fmt.Errorf("bound to %q, which is none of the machines", s.Node)
	case s.Gone != Never && s.Gone < max(s.Bound, s.Created):
		return fmt.Errorf("gone at %s, before its creation at %s or its binding at %s", s.Gone, s.Created, s.Bound)
	}
	return nil
}

// change is a pod that comes to a node or leaves it.
type change struct {
	at   time.Duration
	stay *Stay
	sign int64 // +1 comes, -1 leaves
}

// changesOf returns what happens inside the window, by time. Changes of one
// moment may come in any order: nothing is counted between them.
func changesOf(stays []Stay, window time.Duration) []change {
	var changes []change
	for i := range stays {
		s := &stays[i]
		if s.Bound == Never || s.Bound >= window {
			continue
		}
		changes = append(changes, change{at: s.Bound, stay: s, sign: 1})
		if s.Gone != Never && s.Gone < window {
			changes = append(changes, change{at: s.Gone, stay: s, sign: -1})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return changes
}

// ledger holds the state at one moment and the integrals up to it.
type ledger struct {
	machines []Machine
	index    map[string]int
	pods     []int64 // on each machine
	now      time.Duration

	used, peak           int64
	price                int64 // of the used machines
	cpu, cpuOffer        int64 // requested on, and offered by, the used machines
	memory, memoryOffer  int64
	usedTime, cost       integral
	cpuTime, cpuRoom     integral
	memoryTime, memoRoom integral
}

func newLedger(machines []Machine, index map[string]int) *ledger {
	return &ledger{machines: machines, index: index, pods: make([]int64, len(machines))}
}

// advance adds the time up to at, during which nothing changed.
func (l *ledger) advance(at time.Duration) {
	elapsed := int64(at - l.now)
	if elapsed == 0 {
		return
	}
	l.now = at
	l.peak = max(l.peak, l.used)
	l.usedTime.add(l.used, elapsed)
	l.cost.add(l.price, elapsed)
	l.cpuTime.add(l.cpu, elapsed)
	l.cpuRoom.add(l.cpuOffer, elapsed)
	l.memoryTime.add(l.memory, elapsed)
	l.memoRoom.add(l.memoryOffer, elapsed)
}

// apply moves one pod.
func (l *ledger) apply(c change) {
	i := l.index[c.stay.Node]
	before := l.pods[i]
	l.pods[i] += c.sign
	l.cpu += c.sign * c.stay.MilliCPU
	l.memory += c.sign * c.stay.MemoryBytes
	if before != 0 && l.pods[i] != 0 {
		return
	}
	m := l.machines[i]
	l.used += c.sign
	l.price += c.sign * m.MicroDollarsPerHour
	l.cpuOffer += c.sign * m.MilliCPU
	l.memoryOffer += c.sign * m.MemoryBytes
}

// fill writes the integrals into u, whose window is set.
func (l *ledger) fill(u *Usage) {
	window := integralOf(int64(u.Window))
	u.NodesUsedPeak = int(l.peak)
	u.NodesUsedMean = l.usedTime.over(window)
	u.CPUUtilisation = l.cpuTime.over(l.cpuRoom)
	u.MemoryUtilisation = l.memoryTime.over(l.memoRoom)
	u.MicroDollarsPerHour = l.cost.roundedOver(window)
}

// countPods fills in what concerns pods alone. u.Window is set.
func (u *Usage) countPods(stays []Stay) {
	var waits []time.Duration
	var total integral
	for _, s := range stays {
		if s.Created >= u.Window {
			continue
		}
		u.PodsCreated++
		if s.Bound == Never || s.Bound >= u.Window {
			continue
		}
		waits = append(waits, s.Bound-s.Created)
		total.add(int64(s.Bound-s.Created), 1)
	}
	u.PodsBound = len(waits)
	u.PodsNeverBound = u.PodsCreated - u.PodsBound
	if len(waits) == 0 {
		return
	}
	slices.Sort(waits)
	u.BindMean = time.Duration(new(big.Int).Quo(&total.sum, big.NewInt(int64(len(waits)))).Int64())
	u.BindP95 = waits[(len(waits)*95+99)/100-1]
}

// integral is a sum of products that may exceed 64 bits: bytes times
// nanoseconds do so within seconds.
type integral struct{ sum, scratch big.Int }

func integralOf(value int64) integral {
	var i integral
	i.sum.SetInt64(value)
	return i
}

func (i *integral) add(value, times int64) {
	var factor big.Int
	i.scratch.Mul(i.scratch.SetInt64(value), factor.SetInt64(times))
	i.sum.Add(&i.sum, &i.scratch)
}

// over returns i/j, and 0 when j is.
func (i *integral) over(j integral) float64 {
	if j.sum.Sign() == 0 {
		return 0
	}
	quotient, _ := new(big.Rat).SetFrac(&i.sum, &j.sum).Float64()
	return quotient
}

// roundedOver returns i/j to the nearest integer, half up. Both are not
// negative and j is not zero.
func (i *integral) roundedOver(j integral) int64 {
	double := new(big.Int).Lsh(&i.sum, 1)
	double.Add(double, &j.sum)
	return double.Quo(double, new(big.Int).Lsh(&j.sum, 1)).Int64()
}
