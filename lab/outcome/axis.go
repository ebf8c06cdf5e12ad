package outcome

import (
	"math"
	"slices"
	"strconv"
)

// axis covers 0 to max, which is above zero.
type axis struct {
	max   float64
	ticks []tick
}

// tick is a labelled position on an axis; at is from 0 to 1.
type tick struct {
	at    float64
	label string
}

// smallest is the smallest amount that an axis distinguishes from zero.
const smallest = 1e-9

// amountAxis covers 0 to largest in two to five equal steps of 1, 2 or 5 times a power of ten and
// ends at a tick. With whole, steps are at least 1, and there may be fewer. Thousands are written
// as k, M, G and T once the axis reaches 10,000.
func amountAxis(largest float64, whole bool) axis {
	if largest < smallest {
		largest = 1
	}
	step := roundStep(largest / 5)
	if whole {
		step = max(step, 1)
	}
	steps := max(1, int(math.Ceil(largest/step-1e-8)))
	a := axis{max: step * float64(steps)}
	divisor, suffix := 1.0, ""
	for _, prefix := range []string{"k", "M", "G", "T"} {
		if a.max/divisor < 10_000 {
			break
		}
		divisor, suffix = 1000*divisor, prefix
	}
	digits := stepDigits(step / divisor)
	for i := range steps + 1 {
		a.ticks = append(a.ticks, tick{float64(i) / float64(steps), fixed(float64(i)*step/divisor, digits) + suffix})
	}
	return a
}

// shareAxis covers 0 % to 100 %, or more if a share is larger.
func shareAxis(largest float64) axis {
	if largest > 1 {
		return amountAxis(100*largest, true).scaled(0.01)
	}
	a := axis{max: 1}
	for i := range 5 {
		a.ticks = append(a.ticks, tick{float64(i) / 4, strconv.Itoa(25 * i)})
	}
	return a
}

// labelled returns the axis with a prefix and a suffix on each label.
func (a axis) labelled(prefix, suffix string) axis {
	for i := range a.ticks {
		a.ticks[i].label = prefix + a.ticks[i].label + suffix
	}
	return a
}

// scaled returns the axis with the same labels for values that are larger by factor.
func (a axis) scaled(factor float64) axis {
	a.max *= factor
	return a
}

// timeAxis covers exactly 0 to span seconds, with three to seven ticks that suit the returned unit.
func timeAxis(span float64) (axis, unit) {
	u := unitFor(span)
	if span <= 0 {
		return axis{max: 1, ticks: []tick{{0, "0"}}}, u
	}
	long := span / u.seconds
	step := roundStep(long / 6)
	if i := slices.IndexFunc(u.steps, func(s float64) bool { return s >= long/6 }); i >= 0 && long >= 2 {
		step = u.steps[i] // the unit's steps are too long for short spans
	}
	a := axis{max: span}
	for i := 0; float64(i)*step <= long*(1+1e-9); i++ {
		a.ticks = append(a.ticks, tick{float64(i) * step / long, fixed(float64(i)*step, stepDigits(step))})
	}
	return a, u
}

// roundStep returns the smallest of 1, 2 and 5 times a power of ten that is at
// least v, which is positive.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= v*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// stepDigits returns the number of decimals that distinguish multiples of step.
func stepDigits(step float64) int {
	return max(0, -int(math.Floor(math.Log10(step)+1e-9)))
}
