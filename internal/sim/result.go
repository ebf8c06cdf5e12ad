package sim

import (
	"cmp"
	"slices"
	"time"

	"supercargo.dev/supercargo/internal/class"
)

// Placement is one pod's start on a node.
type Placement struct {
	At   time.Duration
	Pod  string
	Node string
}

// Result is what a run came to.
type Result struct {
	// Submitted, Scheduled and Completed count pods; Pending those that never
	// found room. A service that runs to the end is not completed.
	Submitted, Scheduled, Completed, Pending int
	// Placements are in the order they happened.
	Placements []Placement
	// Waits are the times from arrival to start of the scheduled pods, ascending.
	Waits []time.Duration
	// Makespan is when the last batch pod ended.
	Makespan time.Duration
	// Over is when the run ended.
	Over time.Duration
	// CostMicroDollars is the bill of all machines to the end of the run.
	CostMicroDollars int64
	// UsedMilliCPUSeconds and UsedMemoryByteSeconds are requests times the time
	// they were held.
	UsedMilliCPUSeconds, UsedMemoryByteSeconds float64
}

func (r *Result) begin(input Input) {
	r.Placements = make([]Placement, 0, len(input.Pods))
	r.Waits = make([]time.Duration, 0, len(input.Pods))
}

func (r *Result) submitted(time.Duration) { r.Submitted++ }

func (r *Result) started(p running, now time.Duration) {
	r.Scheduled++
	r.Placements = append(r.Placements, Placement{At: now, Pod: p.pod.Name, Node: p.object.Spec.NodeName})
	r.Waits = append(r.Waits, now-p.pod.Arrival)
}

func (r *Result) ended(p running, now time.Duration) {
	held := (now - p.start).Seconds()
	r.UsedMilliCPUSeconds += float64(p.pod.Size.MilliCPU) * held
	r.UsedMemoryByteSeconds += float64(p.pod.Size.MemoryBytes) * held
	if p.pod.Class == class.Batch || p.pod.Runtime > 0 {
		r.Completed++
	}
	if p.pod.Class == class.Batch {
		r.Makespan = max(r.Makespan, now)
	}
}

func (r *Result) finish(input Input, over time.Duration, pending int) {
	r.Over, r.Pending = over, pending
	slices.SortFunc(r.Waits, cmp.Compare)
	for _, m := range input.Machines {
		r.CostMicroDollars += Bill(m.Flavor.MicroDollarsPerHour, over, input.BillingPeriod)
	}
}

// Bill returns the price in micro-dollars of a machine held for a time: every
// started billing period is paid in full, at least one. A period of 0 bills by
// the nanosecond. Fractions of a micro-dollar are rounded up once, on the whole.
func Bill(microDollarsPerHour int64, held, period time.Duration) int64 {
	paid := held
	if period > 0 {
		paid = max(1, (held+period-1)/period) * period
	}
	// Hours and the rest apart, so that the product stays within 64 bits for any
	// price up to 2.5 million dollars an hour.
	hours, rest := int64(paid/time.Hour), int64(paid%time.Hour)
	return microDollarsPerHour*hours + ceilDiv(microDollarsPerHour*(rest/1000), int64(time.Hour)/1000)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
