package profile

import (
	"math"
	"strings"
	"time"
)

// Doubt is a set of reasons why a prediction is not trusted in full.
type Doubt uint8

// The reasons.
const (
	// CPUOutside and MemoryOutside: the pod requests less or more than any sample did.
	CPUOutside Doubt = 1 << iota
	MemoryOutside
	// PoorFit: the model is often off by more than a tenth.
	PoorFit
	// Old: nothing was learned for a long time.
	Old
	// Confined: the model's own answer was out of all proportion to what was seen.
	Confined
	// OtherGovernor: the model was learned under another CPU governor than the node's.
	OtherGovernor
)

var doubts = []string{"CPU outside the range learned", "memory outside the range learned", "poor fit", "old", "confined to what was seen", "learned under another CPU governor"}

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

// Prediction is a value and how far to trust it.
type Prediction struct {
	// Value is above 0.
	Value float64
	// Trust is from 0, no better than not knowing, to 1. Who uses the prediction moves
	// what follows from it towards neutral by the rest.
	Trust  float64
	Doubts Doubt
}

const (
	// goodSpread and poorSpread are the relative errors up to which a model is trusted
	// in full and from which on not at all; trust falls in a straight line between. HEATS
	// gives no figure; a tenth is the error that we hold our models to on sizes that they
	// have not seen, and at a half machines that differ twofold are no longer told apart.
	goodSpread, poorSpread = 0.1, 0.5
	// confine is by what factor a prediction may be beyond what was seen.
	confine = 2
)

// MaxAge is how old a profile may be and still be trusted in full: a week of missed
// refits (HEATS, section III, refits every 24 h). Trust is gone after twice that.
const MaxAge = 7 * 24 * time.Hour

// Predict returns the model's value at a size; age is how long ago it was learned. The
// model is a sound one, see [Model.Validate]. It allocates nothing.
//
// Trust is the product of three parts, each from 0 to 1: of the fit, by its spread; of
// the range, 1 within and less by how far the request is outside in widths of the range,
// a range narrower than half its upper end counting as that wide; and of the age.
func (m Model) Predict(s Size, age time.Duration) Prediction {
	value := 0.0
	for i, t := range m.Terms {
		value += float64(m.Coefficients[i] * t.value(s))
	}
	if math.IsNaN(value) { // an infinity less another
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

// doubt lowers trust to the part, where that is below 1, and says why.
func (p *Prediction) doubt(why Doubt, part float64) {
	if part < 1 {
		p.Trust *= max(0, part)
		p.Doubts |= why
	}
}

// outside returns how far v is from [least, most], in widths.
func outside(v, least, most int64) float64 {
	away := float64(max(least-v, v-most, 0))
	if away == 0 {
		return 0
	}
	return away / max(float64(most-least), float64(most)/2, 1)
}
