package energy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"supercargo.dev/supercargo/energy/regress"
)

// Activity is a sample of a machine's power and hardware counters.
type Activity struct {
	// Rates are counts per second, such as of CPU cycles, CPU time, instructions and cache misses. All samples of a
	// series must have the same counters in the same order.
	Rates []float64
	Watts Watts
}

// CounterModel predicts a machine's power from its hardware counters:
//
//	P(r) = Idle + Σᵢ Sᵢ(rᵢ / Fullᵢ)
//
// where Sᵢ are non-decreasing piecewise linear curves with Sᵢ(0) = 0. A sum over several counters is the model of
// Bellosa (ACM SIGOPS European Workshop 2000, section 3). Curves replace his straight lines because the power of a
// machine does not grow linearly with its load.
//
// It distinguishes what utilisation cannot: the same number of cycles draws more power with more instructions or more
// waits for memory.
type CounterModel struct {
	// Idle is the power at rates of 0.
	Idle Watts
	// Full are the greatest observed rates. Beyond them the curves are constant.
	Full []float64
	// Rises are, for each counter, the power by which each part of its curve rises. The parts have equal widths.
	Rises [][]Watts
}

// counterKnots is the number of equal parts of a counter's curve. It is half that of utilisation because the counters
// of a machine are correlated.
const counterKnots = 5

// FitCounters fits a model by non-negative least squares on relative errors, with Huber's weights against outliers.
// Rates that are negative or not finite, or powers that are not positive, are an error. A counter that is always 0 has
// a flat curve.
func FitCounters(samples []Activity) (CounterModel, error) {
	if len(samples) == 0 || len(samples[0].Rates) == 0 {
		return CounterModel{}, errors.New("fit power model: samples must have at least one counter")
	}
	counters := len(samples[0].Rates)
	if least := 2 * counterKnots * counters; len(samples) < least {
		return CounterModel{}, fmt.Errorf("fit power model of %d counters to %d samples: must be at least %d samples", counters, len(samples), least)
	}
	m := CounterModel{Full: make([]float64, counters)}
	for i, s := range samples {
		if len(s.Rates) != counters || !(s.Watts > 0) || math.IsInf(float64(s.Watts), 0) ||
			slices.ContainsFunc(s.Rates, func(r float64) bool { return !(r >= 0) || math.IsInf(r, 0) }) {
			return CounterModel{}, fmt.Errorf("fit power model: sample %d is %v W at rates %v: the power must be finite and above 0, and the %d rates finite and 0 or more",
				i, s.Watts, s.Rates, counters)
		}
		for j, r := range s.Rates {
			m.Full[j] = max(m.Full[j], r)
		}
	}
	rows, ones := make([][]float64, len(samples)), make([]float64, len(samples))
	for i, s := range samples {
		rows[i], ones[i] = m.row(s.Rates), 1
		for j := range rows[i] {
			rows[i][j] /= float64(s.Watts) // minimises the relative error
		}
	}
	fit, err := regress.Huber(regress.NonNegative, rows, ones)
	if err != nil {
		return CounterModel{}, fmt.Errorf("fit power model: %w", err)
	}
	m.Idle = Watts(fit.Coefficients[0])
	for j := range counters {
		curve := make([]Watts, counterKnots)
		for k := range curve {
			curve[k] = Watts(fit.Coefficients[1+j*counterKnots+k])
		}
		m.Rises = append(m.Rises, curve)
	}
	return m, nil
}

// row returns 1 for the idle power, then for each counter how far its rate is through each part of its curve.
func (m CounterModel) row(rates []float64) []float64 {
	row := make([]float64, 1, 1+counterKnots*len(rates))
	row[0] = 1
	for j, r := range rates {
		for k := range counterKnots {
			row = append(row, m.through(j, k, r))
		}
	}
	return row
}

// through returns how far a rate is through a part of its counter's curve, from 0 to 1.
func (m CounterModel) through(counter, part int, rate float64) float64 {
	if m.Full[counter] == 0 {
		return 0
	}
	return min(max(rate/m.Full[counter]*counterKnots-float64(part), 0), 1)
}

// At returns the power at the given rates. It returns NaN if their number differs from that of the fitted counters, or
// if one of them is NaN. It does not allocate.
func (m CounterModel) At(rates []float64) Watts {
	if len(rates) != len(m.Full) {
		return Watts(math.NaN())
	}
	sum := m.Idle
	for j, r := range rates {
		if math.IsNaN(r) {
			return Watts(r)
		}
		for k, rise := range m.Rises[j] {
			sum += rise * Watts(m.through(j, k, r))
		}
	}
	return sum
}

// QualityOfCounters returns how well a model fits samples, which may differ from those that it was fitted to. The range
// of utilisation is 0 because there is none.
func QualityOfCounters(m CounterModel, samples []Activity) Quality {
	return qualityOf(len(samples), func(i int) (predicted, measured Watts) { return m.At(samples[i].Rates), samples[i].Watts })
}
