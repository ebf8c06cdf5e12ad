package energy

import (
	"errors"
	"fmt"
	"math"

	"supercargo.dev/supercargo/energy/regress"
)

// Sample is a machine's power at a known utilisation.
type Sample struct {
	// Utilization is the busy share of the CPU, from 0 to 1: of its time, or of its cycles, which predicts power better
	// if clock frequencies vary.
	Utilization float64
	Watts       Watts
}

// Quality describes how well a model fits samples.
type Quality struct {
	Samples int
	// MeanError is the mean of |predicted - measured| / measured, and RSquared the
	// share of the variance of the power that the model explains.
	MeanError, RSquared float64
	// Least and Most are the range of utilisation of the samples. Beyond it the model is constant.
	Least, Most float64
}

// fitKnots is the number of equal parts of the fitted curve: the ten steps of SPECpower.
const fitKnots = 10

// leastFitSamples is the minimum number of samples for a fit: two for each part of the curve.
const leastFitSamples = 2 * fitKnots

// Fit fits a power model to the samples: a non-decreasing piecewise linear curve with a knot at each tenth of
// utilisation, by non-negative least squares on its rises, with Huber's weights against outliers. Samples that are not
// finite, not above 0 W or outside [0, 1] are an error. Callers should filter them first, because many of them indicate
// a broken meter.
func Fit(samples []Sample) (Model, Quality, error) {
	if len(samples) < leastFitSamples {
		return Model{}, Quality{}, fmt.Errorf("fit power model to %d samples: must be at least %d samples", len(samples), leastFitSamples)
	}
	rows, watts := make([][]float64, len(samples)), make([]float64, len(samples))
	for i, s := range samples {
		if !(s.Utilization >= 0 && s.Utilization <= 1) || !(s.Watts > 0) || math.IsInf(float64(s.Watts), 0) {
			return Model{}, Quality{}, fmt.Errorf("fit power model: sample %d is %v W at utilisation %v: the power must be finite and above 0, and the utilisation in [0, 1]",
				i, s.Watts, s.Utilization)
		}
		rows[i], watts[i] = rises(s.Utilization), float64(s.Watts)
	}
	fit, err := regress.Huber(regress.NonNegative, rows, watts)
	if err != nil {
		return Model{}, Quality{}, fmt.Errorf("fit power model: %w", err)
	}
	m, err := modelOf(fit.Coefficients)
	if err != nil {
		return Model{}, Quality{}, fmt.Errorf("fit power model: %w", err)
	}
	return m, QualityOf(m, samples), nil
}

// rises returns the row of a sample: 1 for the idle power, then how far it is through each part of the curve.
func rises(u float64) []float64 {
	row := make([]float64, 1+fitKnots)
	row[0] = 1
	for k := range fitKnots {
		row[1+k] = min(max(u*fitKnots-float64(k), 0), 1)
	}
	return row
}

// modelOf converts idle power and the rises of the parts to a model.
func modelOf(b []float64) (Model, error) {
	if !(b[0] > 0) {
		return Model{}, errors.New("the samples do not determine the idle power")
	}
	rise := 0.0
	for _, d := range b[1:] {
		rise += d
	}
	m := Model{Idle: Watts(b[0]), Full: Watts(b[0] + rise)}
	if rise == 0 {
		return m, nil
	}
	points, share := []Point{{}}, 0.0
	for k, d := range b[1:] {
		share = min(1, share+d/rise)
		points = append(points, Point{float64(k+1) / fitKnots, share})
	}
	points[fitKnots].Share = 1 // exact despite rounding
	var err error
	m.Curve, err = NewCurve(points...)
	return m, err
}

// QualityOf returns how well a model fits samples, which may differ from those that it was fitted to.
func QualityOf(m Model, samples []Sample) Quality {
	q := qualityOf(len(samples), func(i int) (predicted, measured Watts) { return m.At(samples[i].Utilization), samples[i].Watts })
	q.Least, q.Most = math.Inf(1), math.Inf(-1)
	for _, s := range samples {
		q.Least, q.Most = min(q.Least, s.Utilization), max(q.Most, s.Utilization)
	}
	return q
}

// qualityOf returns a Quality without a range of utilisation.
func qualityOf(n int, at func(i int) (predicted, measured Watts)) Quality {
	q := Quality{Samples: n}
	mean := 0.0
	for i := range n {
		_, measured := at(i)
		mean += float64(measured) / float64(n)
	}
	var left, all float64
	for i := range n {
		predicted, measured := at(i)
		off, from := float64(predicted-measured), float64(measured)-mean
		q.MeanError += math.Abs(off) / float64(measured) / float64(n)
		left, all = left+off*off, all+from*from
	}
	if all > 0 {
		q.RSquared = 1 - left/all
	}
	return q
}
