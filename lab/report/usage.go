// Package report computes figures from observations of a cluster.
//
// [Account] computes how many machines a run used, their utilization and their price. It is pure:
// no clock, client, logger or random source.
package report

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Never is the time of an event that did not happen.
const Never time.Duration = -1

// Machine is a node with its allocatable resources and its price.
type Machine struct {
	Name                string
	MilliCPU            int64 // allocatable, in thousandths of a core
	MemoryBytes         int64 // allocatable
	MicroDollarsPerHour int64 // price while it is used
}

// Stay is one pod's time in the cluster. All times are relative to the beginning of the window.
type Stay struct {
	Pod         string
	MilliCPU    int64 // requested
	MemoryBytes int64 // requested
	Created     time.Duration
	Bound       time.Duration // Never if it was not bound
	Gone        time.Duration // when its requests were freed; Never if it still exists
	Node        string        // empty if Bound is Never
}

// Usage is what the pods of a window used. A node is used from the moment its first pod is bound
// until its last pod is gone: a pod counts in [Bound, Gone), to the nanosecond.
type Usage struct {
	// Window is the observed time.
	Window time.Duration
	// PodsCreated counts the pods created inside the window, PodsBound those of them that were
	// bound inside it, and PodsNeverBound the rest: pods that still wait at its end or were deleted
	// before they were bound.
	PodsCreated, PodsBound, PodsNeverBound int
	// NodesUsedPeak is the maximum number of nodes used at one time.
	NodesUsedPeak int
	// NodesUsedMean is the mean number of used nodes over the window.
	NodesUsedMean float64
	// CPUUtilisation and MemoryUtilisation are the integral of the requests over the integral of
	// the allocatable resources, for used nodes only. They are in [0, 1] unless a node was
	// overcommitted, and 0 if none was used.
	CPUUtilisation, MemoryUtilisation float64
	// MicroDollarsPerHour is the mean price of the used nodes over the window, rounded half up: the
	// price of the cluster if each machine were released the moment it has no pod and were back the
	// moment it gets one. No real bill is that low.
	MicroDollarsPerHour int64
	// BindMean and BindP95 are the mean, rounded down, and the 95th percentile (nearest rank) of
	// the time from creation to binding, over the bound pods only. Pods that still wait are
	// excluded, so compare PodsNeverBound first.
	BindMean, BindP95 time.Duration
}

// Account computes the usage of the window that begins at zero. Sums are exact integers; only the
// final quotients are rounded.
//
// It reports all invalid input: a window that is not positive, a machine that is listed twice or
// has no CPU or memory, a negative amount, and a pod that was bound before its creation, gone
// before its binding, or bound to an unknown machine.
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

// check collects errors and returns the index of each machine by name.
func check(machines []Machine, stays []Stay, window time.Duration) (map[string]int, error) {
	var errs []error
	if window <= 0 {
		errs = append(errs, fmt.Errorf("window is %s: must be more than 0", window))
	}
	index := make(map[string]int, len(machines))
	for i, m := range machines {
		if _, twice := index[m.Name]; twice {
			errs = append(errs, fmt.Errorf("machine %q occurs twice", m.Name))
		}
		if m.MilliCPU <= 0 || m.MemoryBytes <= 0 || m.MicroDollarsPerHour < 0 {
			errs = append(errs, fmt.Errorf("machine %q offers %d milli-CPU and %d bytes for %d micro-dollars per hour: CPU and memory must be more than 0, and the price 0 or more",
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

// check returns the first error of a stay.
func (s Stay) check(machines map[string]int) error {
	_, known := machines[s.Node]
	switch {
	case s.MilliCPU < 0 || s.MemoryBytes < 0:
		return fmt.Errorf("requests %d milli-CPU and %d bytes: must be 0 or more", s.MilliCPU, s.MemoryBytes)
	case s.Created < 0:
		return fmt.Errorf("created at %s: must not be before the window", s.Created)
	case s.Bound == Never && s.Node != "":
		return fmt.Errorf("is on node %q without a binding time", s.Node)
	case s.Bound != Never && s.Bound < s.Created:
		return fmt.Errorf("bound at %s, before its creation at %s", s.Bound, s.Created)
	case s.Bound != Never && !known:
		return fmt.Errorf("bound to %q, which is not one of the machines", s.Node)
	case s.Gone != Never && s.Gone < max(s.Bound, s.Created):
		return fmt.Errorf("removed at %s, before its creation at %s or its binding at %s", s.Gone, s.Created, s.Bound)
	}
	return nil
}

// change is a pod that is bound to a node or leaves it.
type change struct {
	at   time.Duration
	stay *Stay
	sign int64 // +1 comes, -1 leaves
}

// changesOf returns the changes inside the window by time. The order of simultaneous changes does
// not matter: nothing is counted between them.
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

// advance adds the time up to at, during which the state is constant.
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

// apply binds or removes one pod.
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

// fill sets the fields of u from the integrals. u.Window must be set.
func (l *ledger) fill(u *Usage) {
	window := integralOf(int64(u.Window))
	u.NodesUsedPeak = int(l.peak)
	u.NodesUsedMean = l.usedTime.over(window)
	u.CPUUtilisation = l.cpuTime.over(l.cpuRoom)
	u.MemoryUtilisation = l.memoryTime.over(l.memoRoom)
	u.MicroDollarsPerHour = l.cost.roundedOver(window)
}

// countPods sets the fields of u that concern only pods. u.Window must be set.
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

// integral is a sum of products that may exceed 64 bits: bytes times nanoseconds do so within
// seconds.
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

// over returns i/j, or 0 if j is 0.
func (i *integral) over(j integral) float64 {
	if j.sum.Sign() == 0 {
		return 0
	}
	quotient, _ := new(big.Rat).SetFrac(&i.sum, &j.sum).Float64()
	return quotient
}

// roundedOver returns i/j rounded half up. Both must not be negative, and j must not be zero.
func (i *integral) roundedOver(j integral) int64 {
	double := new(big.Int).Lsh(&i.sum, 1)
	double.Add(double, &j.sum)
	return double.Quo(double, new(big.Int).Lsh(&j.sum, 1)).Int64()
}
