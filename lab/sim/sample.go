package sim

import "time"

// maxSamples is the maximum number of samples of a run. If there are more, every other sample is
// dropped and the interval doubled.
const maxSamples = 600

// Sample is the state of a run at one moment.
type Sample struct {
	// CostMicroDollars is the bill so far.
	CostMicroDollars int64
	// CPU and Memory are the shares of all machines' capacity that are requested.
	CPU, Memory float64
	// Machines is the number of billed machines, Pending that of waiting pods, and Moves that of
	// moves so far.
	Machines, Pending, Moves int
}

// sampler takes samples at equal intervals.
type sampler struct {
	step    time.Duration
	samples []Sample
}

// newSampler returns a sampler with a step of about 1/300 of the horizon, in whole seconds.
func newSampler(horizon time.Duration) sampler {
	return sampler{step: max(time.Second, (horizon / 300).Truncate(time.Second))}
}

// until takes the samples before the given time, for which the state since the last event is valid.
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

// finish adds a sample at the end of the run.
func (s *sampler) finish(e *engine, over time.Duration) {
	s.samples = s.samples[:min(len(s.samples), int((over+s.step-1)/s.step))] // later samples show only unschedulable pods
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

// sample returns the state since the last event. Cost: that of bill.
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
