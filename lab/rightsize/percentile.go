package rightsize

import (
	"math"
	"slices"
	"time"
)

// Percentile is the rule of KRR (robusta-dev/krr, strategy simple): the 95th percentile of CPU, and the peak of memory and
// 15 % more, both of the last 14 days, computed once a day.
type Percentile struct {
	static
	measured [resources]bool
	past     map[int]*[resources][]float64
	next     time.Duration
	step     time.Duration
}

// NewPercentile returns the policy for a trace.
func NewPercentile(t *Trace) *Percentile {
	return &Percentile{measured: t.Measured, past: map[int]*[resources][]float64{}, step: t.Step}
}

// Name implements [Policy].
func (*Percentile) Name() string { return "percentile" }

// Learn implements [Policy].
func (p *Percentile) Learn(entity int, _ time.Duration, used Amounts) {
	past := p.past[entity]
	if past == nil {
		past = &[resources][]float64{}
		p.past[entity] = past
	}
	most := int(14 * 24 * time.Hour / p.step)
	for r, x := range used {
		if math.IsNaN(x) {
			continue
		}
		past[r] = append(past[r], x)
		if len(past[r]) > most {
			past[r] = past[r][1:]
		}
	}
}

// Requests implements [Policy].
func (p *Percentile) Requests(now time.Duration, sets [][]int, requests []Amounts) map[int]Amounts {
	if now < p.next {
		return nil
	}
	p.next = now + 24*time.Hour
	wanted := map[int]Amounts{}
	for _, set := range sets {
		for _, e := range set {
			past := p.past[e]
			if past == nil {
				continue
			}
			want := requests[e]
			if cpu := past[CPU]; p.measured[CPU] && len(cpu) > 0 {
				want[CPU] = percentile(cpu, 0.95)
			}
			if memory := past[Memory]; p.measured[Memory] && len(memory) > 0 {
				want[Memory] = 1.15 * slices.Max(memory)
			}
			wanted[e] = want
		}
	}
	return wanted
}

// percentile returns the smallest amount that at least this share of the samples does not exceed.
func percentile(samples []float64, share float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	return s[min(len(s)-1, max(0, int(math.Ceil(share*float64(len(s))))-1))]
}
