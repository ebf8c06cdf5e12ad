package profile

import (
	"math"
	"strings"
	"time"
)

// Doubt is a set of reasons why a prediction is not fully trusted.
type Doubt uint8

// The reasons.
const (
	// CPUOutside and MemoryOutside: the pod requests less or more than any sample.
	CPUOutside Doubt = 1 << iota
	MemoryOutside
	// PoorFit: the model is often off by more than a tenth.
	PoorFit
	// Old: the model was learned long ago.
	Old
	// Confined: the model's value was far outside the observed range.
	Confined
	// OtherGovernor: the model was learned under another CPU governor than the node's.
	OtherGovernor
)

var doubts = []string{"CPU outside the learned range", "memory outside the learned range", "poor fit", "old", "limited to the observed range", "learned under another CPU governor"}

// String lists the reasons, separated by commas.
func (d Doubt) String() string {
	var names []string
	for i, name := range doubts {
		if d&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Prediction is a value and the trust in it.
type Prediction struct {
	// Value is above 0.
	Value float64
	// Trust is from 0 (worthless) to 1. Users of the prediction move its effect towards neutral by 1 - Trust.
	Trust  float64
	Doubts Doubt
}

const (
	// goodSpread and poorSpread are the relative errors up to which a model is fully trusted and from which on it is
	// not trusted; trust is linear in between. HEATS gives no values. A tenth is the error that models must achieve on
	// unseen sizes, and at a half, machines that differ twofold cannot be distinguished.
	goodSpread, poorSpread = 0.1, 0.5
	// confine is the factor by which a prediction may be outside the observed range.
	confine = 2
)

// MaxAge is the age up to which a profile is fully trusted: a week of missed refits (HEATS, section III, refits every
// 24 h). After twice that time, trust is 0.
const MaxAge = 7 * 24 * time.Hour

// Predict returns the model's value at a size; age is the time since it was learned. The model must be valid, see
// [Model.Validate]. Predict does not allocate.
//
// Trust is the product of three factors, each from 0 to 1: the fit, by its spread; the range, which is 1 within it and
// less by the distance of the request from it in widths of the range, where a range narrower than half its upper end
// counts as that wide; and the age.
func (m Model) Predict(s Size, age time.Duration) Prediction {
	value := 0.0
	for i, t := range m.Terms {
		value += float64(m.Coefficients[i] * t.value(s))
	}
	if math.IsNaN(value) { // infinity minus infinity
		value = 0
	}
	p := Prediction{Value: min(max(value, m.Range.LeastValue/confine), m.Range.MostValue*confine), Trust: 1}
	if p.Value != value {
		p.Doubts |= Confined
	}
	p.doubt(PoorFit, (poorSpread-m.Quality.Spread)/(poorSpread-goodSpread))
	p.doubt(CPUOutside, 1-outside(s.MilliCPU, m.Range.Least.MilliCPU, m.Range.Most.MilliCPU))
	p.doubt(MemoryOutside, 1-outside(s.MemoryBytes, m.Range.Least.MemoryBytes, m.Range.Most.MemoryBytes))
	p.doubt(Old, 2-age.Seconds()/MaxAge.Seconds())
	return p
}

// doubt multiplies trust by part, if that is below 1, and records the reason.
func (p *Prediction) doubt(why Doubt, part float64) {
	if part < 1 {
		p.Trust *= max(0, part)
		p.Doubts |= why
	}
}

// outside returns the distance of v from [least, most], in widths.
func outside(v, least, most int64) float64 {
	away := float64(max(least-v, v-most, 0))
	if away == 0 {
		return 0
	}
	return away / max(float64(most-least), float64(most)/2, 1)
}
