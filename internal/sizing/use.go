// Package sizing decides how much of a resource containers should request, from what they have used.
//
// A machine may be overloaded in a stated share of the time: its containers together use more than it has. The package
// computes what a set of containers needs on a machine so that this share is kept ([Required]), and divides that amount
// among them ([Shares]), so that schedulers and planners, which add up requests, need to know nothing of it. Use is not
// stationary, so a [Correction] compares what happened with what was stated.
//
// The package is pure: it has no clock and no client. Amounts are in any unit, such as cores or bytes; times are
// durations since any epoch that begins at midnight UTC.
package sizing

import (
	"math"
	"time"
)

// Hours is how many hours of use a [Use] keeps: a week.
const Hours = 7 * 24

// Use is what one container has used of one resource: mean and variance of its samples in each of the last [Hours]
// hours. It takes the same memory however long the container runs, less than 3 KiB.
type Use struct {
	// request is what the container asked for before anything was known of it.
	request float64
	hours   [Hours]hour
	// latest is the number of the hour of the last sample since the epoch; -1 before the first sample.
	latest int64
	// last and previous are the last two samples, NaN before they exist.
	last, previous float64
	// change is the mean square of the difference between a sample and the one before the previous one, of about the
	// last day.
	change  float64
	changes int
}

// hour holds the samples of one hour: their number, mean, sum of squared differences from it, and maximum.
type hour struct {
	samples       float32
	mean, squares float32
	peak          float32
}

// NewUse returns the use of a container of which nothing is known except its request.
func NewUse(request float64) *Use {
	return &Use{request: request, latest: -1, last: math.NaN(), previous: math.NaN()}
}

// Add adds a sample, such as the mean of five minutes. Samples must be in chronological order: one that is earlier than
// the hour of the last one is ignored, and so is one that is not a number of 0 or more.
func (u *Use) Add(at time.Duration, amount float64) {
	number := int64(at / time.Hour)
	if number < u.latest || number < 0 || !(amount >= 0) || math.IsInf(amount, 0) {
		return
	}
	u.advance(number)
	h := &u.hours[number%Hours]
	h.samples++
	difference := amount - float64(h.mean)
	h.mean += float32(difference / float64(h.samples))
	h.squares += float32(difference * (amount - float64(h.mean)))
	h.peak = max(h.peak, float32(amount))
	u.follow(amount)
}

// advance forgets the hours that are more than a week before this one.
func (u *Use) advance(number int64) {
	if u.latest >= 0 {
		for n := max(u.latest+1, number-Hours+1); n <= number; n++ {
			u.hours[n%Hours] = hour{}
		}
	}
	u.latest = number
}

// memoryOfChanges is of how many samples the mean square of changes is: a day of samples of five minutes.
const memoryOfChanges = 288

func (u *Use) follow(amount float64) {
	if difference := amount - u.previous; !math.IsNaN(difference) {
		u.changes = min(u.changes+1, memoryOfChanges)
		u.change += (difference*difference - u.change) / float64(u.changes)
	}
	u.previous, u.last = u.last, amount
}

// Gap says that a sample is missing, so that the difference across the gap does not count as a change.
func (u *Use) Gap() { u.previous, u.last = math.NaN(), math.NaN() }

// Profile is what a container is expected to use in each hour of the last week, as if that week came again. Index 0 is
// the hour of the time for which the profile was made, index 1 the hour before.
type Profile struct {
	Mean, Variance [Hours]float64
	// Overall is the mean of Mean.
	Overall float64
	// Most is the most that the container is expected ever to use: what it requested before anything was known of it,
	// or its peak in the last week if that is more.
	Most float64
}

// youth is how many hours a container is known before its request is forgotten.
const youth = 6

// Profile returns the profile at a time. Hours without a sample are filled with the mean of the same hours of other
// days, else with the mean of all. A container that is known for less than six hours may still use what it requested:
// hours without a sample are filled with its request as far as these six are missing. Cost: O(Hours).
func (u *Use) Profile(now time.Duration) *Profile {
	p := &Profile{}
	number := int64(now / time.Hour)
	of := u.averages(number)
	p.Most = max(u.request, of.peak)
	for age := range Hours {
		p.Mean[age], p.Variance[age] = u.expected(number-int64(age), of)
		p.Overall += p.Mean[age] / Hours
	}
	return p
}

// averages are means over known hours.
type averages struct {
	known           int
	mean, variance  float64
	peak            float64
	daily           [24]float64
	variances, days [24]float64
}

func (u *Use) averages(number int64) *averages {
	a := &averages{}
	squares := 0.0
	for age := range int64(Hours) {
		h, known := u.hour(number - age)
		if !known {
			continue
		}
		mean, variance := float64(h.mean), h.variance()
		of := hourOfDay(number - age)
		a.known++
		a.peak = max(a.peak, float64(h.peak))
		a.mean += mean
		a.variance += variance
		squares += mean * mean
		a.daily[of] += mean
		a.variances[of] += variance
		a.days[of]++
	}
	if a.known == 0 {
		return a
	}
	n := float64(a.known)
	a.mean /= n
	// The variance of any sample is that within hours plus that between them.
	a.variance = a.variance/n + max(0, squares/n-a.mean*a.mean)
	for of := range a.daily {
		if a.days[of] > 0 {
			a.daily[of] /= a.days[of]
			a.variances[of] /= a.days[of]
		}
	}
	return a
}

// expected returns mean and variance of an hour, known or not.
func (u *Use) expected(number int64, of *averages) (mean, variance float64) {
	if h, known := u.hour(number); known {
		return float64(h.mean), h.variance()
	}
	day := hourOfDay(number)
	switch {
	case of.known == 0:
		return u.request, 0
	case of.days[day] > 0:
		mean, variance = of.daily[day], of.variances[day]
	default:
		mean, variance = of.mean, of.variance
	}
	young := max(0, 1-float64(of.known)/youth)
	return mean + young*max(0, u.request-mean), variance
}

// hour returns the samples of an hour of the last week, if there are any.
func (u *Use) hour(number int64) (hour, bool) {
	if number < 0 || number > u.latest || number <= u.latest-Hours {
		return hour{}, false
	}
	h := u.hours[number%Hours]
	return h, h.samples > 0
}

// variance is the variance of a sample in the hour.
func (h hour) variance() float64 {
	if h.samples < 2 {
		return 0
	}
	return float64(h.squares) / float64(h.samples-1)
}

// hourOfDay returns the hour of the day of a number of hours since the epoch, which may be negative.
func hourOfDay(number int64) int { return int((number%24 + 24) % 24) }

// Last returns the last sample and the standard deviation of the change until the one after the next; false if there is
// no last sample. The deviation is 0 until two changes are known.
func (u *Use) Last() (amount, deviation float64, known bool) {
	if math.IsNaN(u.last) {
		return 0, 0, false
	}
	if u.changes < 2 {
		return u.last, 0, true
	}
	return u.last, math.Sqrt(u.change), true
}

// Known returns in how many of the last [Hours] hours the container has samples.
func (u *Use) Known() int {
	n := 0
	for _, h := range u.hours {
		if h.samples > 0 {
			n++
		}
	}
	return n
}
