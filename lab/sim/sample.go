package sim

import "time"

// maxSamples is how many samples a run keeps at most; when there are more, every
// other one is dropped and the distance doubled.
const maxSamples = 600

// Sample is the state of a run at one moment.
type Sample struct {
	// CostMicroDollars is the bill so far.
	CostMicroDollars int64
	// CPU and Memory are the shares of all machines' capacity that are requested.
	CPU, Memory float64
	// Machines are paid for, Pending pods wait, Moves have been made.
	Machines, Pending, Moves int
}

// sampler takes samples at equal distances.
type sampler struct {
	step    time.Duration
	samples []Sample
}

// newSampler returns a sampler whose step is a whole number of seconds of the
// horizon.
func newSampler(horizon time.Duration) sampler {
	return sampler{step: max(time.Second, (horizon / 300).Truncate(time.Second))}
}

// until samples the moments before the given one, at which nothing has changed
// since the last event.
func (s *sampler) until(e *engine, at time.Duration) {
	for {
		next := time.Duration(len(s.samples)) * s.step
		if next >= at {
			return
		}
		s.samples = append(s.samples, e.sample(next))
		if len(s.samples) > maxSamples {
			s.thin()
		}
	}
}

// finish adds the end of the run.
func (s *sampler) finish(e *engine, over time.Duration) {
	s.samples = s.samples[:min(len(s.samples), int((over+s.step-1)/s.step))] // others are of a wait in vain
	s.samples = append(s.samples, e.sample(over))
	e.result.Step, e.result.Samples = s.step, s.samples
}

func (s *sampler) thin() {
	kept := s.samples[:0]
	for i := 0; i < len(s.samples); i += 2 {
		kept = append(kept, s.samples[i])
	}
	s.samples, s.step = kept, 2*s.step
}

// sample is the state as it is since the last event. Cost: that of bill.
func (e *engine) sample(at time.Duration) Sample {
	return Sample{
		CostMicroDollars: e.bill(at), CPU: quotient(e.used.MilliCPU, e.capacity.MilliCPU), Memory: quotient(e.used.MemoryBytes, e.capacity.MemoryBytes),
		Machines: e.paid, Pending: len(e.parked) + len(e.lost), Moves: e.result.Migrations + e.result.Evictions,
	}
}

func quotient(a, b int64) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}
