// Package doublethreshold implements DHPA, a law with two thresholds of utilisation that samples more often as the load
// rises (Jiang and Wu, Scientific Programming 2021, section 3.2).
//
// The quantifiers in the paper's text and in its equation 4 contradict each other, and equation 6 would scale out where
// it should scale in. The comment of [Decide] defines the rules used here.
package doublethreshold

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
)

// Name is the law's name in the catalogue.
const Name = "doublethreshold"

// Config has the constants; [Default] returns those of the paper.
type Config struct {
	law.Limits
	// Alpha and Beta are the thresholds of utilisation, in percent.
	Alpha, Beta float64
	// Delta and Epsilon are the growth from one sample to the next that counts as normal and as rapid, as shares.
	Delta, Epsilon float64
	// Window is n, the number of samples in the window.
	Window int
	// RapidFactor multiplies the mean growth in a rapid scale-out.
	RapidFactor float64
	// Calm, Busy and Urgent are the time until the next sample below Alpha, from Alpha to Beta, and above Beta.
	Calm, Busy, Urgent time.Duration
	// MaxAge is the maximum age of a measurement; 0 for no bound.
	MaxAge time.Duration
}

// Default returns the paper's constants, and limits of 1 and 1000 replicas.
func Default() Config {
	return Config{
		Limits: law.Limits{Min: 1, Max: 1000}, Alpha: 50, Beta: 70, Delta: 0.1, Epsilon: 0.3, Window: 3, RapidFactor: 10,
		Calm: 30 * time.Second, Busy: 10 * time.Second, Urgent: time.Second, MaxAge: 2 * time.Minute,
	}
}

// Validate returns all faults of the constants.
func (c Config) Validate() error {
	return errors.Join(
		c.Limits.Validate(),
		law.Want(c.Alpha > 0, "a percentage above 0", "alpha %v", c.Alpha),
		law.Want(c.Beta > c.Alpha && !math.IsInf(c.Beta, 1), "a percentage above alpha", "beta %v", c.Beta),
		law.Want(c.Delta > 0, "a share above 0", "delta %v", c.Delta),
		law.Want(c.Epsilon > c.Delta && !math.IsInf(c.Epsilon, 1), "a share above delta", "epsilon %v", c.Epsilon),
		law.Want(c.Window >= 2 && c.Window <= 100, "2 to 100 samples", "window %d", c.Window),
		law.Want(c.RapidFactor > 0 && !math.IsInf(c.RapidFactor, 1), "a number above 0", "rapid factor %v", c.RapidFactor),
		law.Want(c.Urgent > 0 && c.Busy >= c.Urgent && c.Calm >= c.Busy, "times above 0 that do not grow with the load", "sampling every %v, %v and %v", c.Calm, c.Busy, c.Urgent),
		law.Want(c.MaxAge >= 0, "a time above 0, or 0 for no bound", "age %v", c.MaxAge),
	)
}

// Memory is the window of samples.
type Memory struct {
	// Window has the last utilisations in percent, the oldest first.
	Window []float64 `json:"window,omitempty"`
	// Quiet records how many replicas were Ready when requests were last answered, if the arrival rate is measured.
	Quiet law.Quiet `json:"quiet,omitzero"`
}

// New makes the law.
func New(c Config) (law.Law, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("law %s: %w", Name, err)
	}
	return law.New(Name, func(m Memory, o law.Observation) (Memory, law.Decision) { return Decide(c, m, o) }), nil
}

// Decide evaluates one sample x of the mean utilisation of the R Ready replicas. D is the growth from each sample of
// the window to the next, as a share, and phi = ΣD/n. The first matching rule applies:
//
//	rapid out   every D > epsilon, D increasing, every x > alpha:  ⌈R·x/alpha·|phi|·10⌉, no less than a normal step
//	normal out  every x > alpha, or every D > delta and the last x > alpha:    ⌈R·x/alpha⌉
//	rapid in    every D < -epsilon and every x < alpha:                        ⌈R·x/beta⌉
//	normal in   every x < alpha, or every D < -delta and the last x < alpha:   ⌈R·x/alpha⌉
//	hold        otherwise
//
// It holds while there are fewer than n samples. If the arrival rate is measured, it also holds at a utilisation of 0
// while [law.Quiet] doubts it. Growth from a sample of 0 is undefined; then only the normal scale-in by every x < alpha
// applies. There are no cool-downs. Starting replicas are not requested twice: R and x refer to Ready replicas, and the
// result is absolute. A scale-out never lowers the wanted number, even if a normal step gives fewer replicas than the
// rapid step one sample earlier, because both serve the same load.
func Decide(c Config, m Memory, o law.Observation) (Memory, law.Decision) {
	if reason := o.Missing(law.Utilization, c.MaxAge); reason != "" {
		return m, c.Hold(o, c.Busy, reason)
	}
	quiet, doubt := m.Quiet.See(o)
	if doubt != "" && o.Utilization == 0 { // a utilisation above 0 is not in doubt
		return m, c.Doubt(o, c.Busy, doubt)
	}
	x := o.Utilization
	next := c.next(x)
	keep := min(len(m.Window), c.Window-1)
	window := append(slices.Clone(m.Window[len(m.Window)-keep:]), x)
	m = Memory{Window: window, Quiet: quiet}
	if len(window) < c.Window {
		return m, c.Hold(o, next, fmt.Sprintf("%d of %d samples", len(window), c.Window))
	}
	t, reason := trendOf(window)
	normal := replicas(o.Ready, x, c.Alpha)
	switch {
	case reason != "" && t.under(c.Alpha):
		return m, c.Ask(normal, next, fmt.Sprintf("normal scale-in: utilisation %.4g %%, %s", x, reason))
	case reason != "":
		return m, c.Hold(o, next, reason)
	case t.grows(c.Epsilon) && t.accelerates() && t.over(c.Alpha):
		n := replicas(o.Ready, x*math.Abs(t.mean)*c.RapidFactor, c.Alpha)
		return m, c.Grow(o, max(n, normal), next, t.why("rapid scale-out", x))
	case t.over(c.Alpha), t.grows(c.Delta) && x > c.Alpha:
		return m, c.Grow(o, normal, next, t.why("normal scale-out", x))
	case t.falls(c.Epsilon) && t.under(c.Alpha):
		return m, c.Ask(replicas(o.Ready, x, c.Beta), next, t.why("rapid scale-in", x))
	case t.under(c.Alpha), t.falls(c.Delta) && x < c.Alpha:
		return m, c.Ask(normal, next, t.why("normal scale-in", x))
	}
	return m, c.Hold(o, next, t.why("no rule applies", x))
}

// next returns the time until the next sample.
func (c Config) next(x float64) time.Duration {
	switch {
	case x < c.Alpha:
		return c.Calm
	case x <= c.Beta:
		return c.Busy
	}
	return c.Urgent
}

// most bounds the result for an extreme utilisation before the limits do.
const most = 1 << 30

// replicas returns ⌈ready·x/target⌉. It ignores floating-point error above a whole number.
func replicas(ready int, x, target float64) int {
	return int(min(math.Ceil(float64(ready)*x/target-1e-9), most))
}

// trend is a window of samples with its growth.
type trend struct {
	x, growth []float64
	mean      float64 // ΣD/n: as in the paper, divided by the number of samples, not of growths
}

func trendOf(window []float64) (trend, string) {
	t := trend{x: window}
	for i := 1; i < len(window); i++ {
		if window[i-1] == 0 {
			return t, "growth from a utilisation of 0 is undefined"
		}
		d := (window[i] - window[i-1]) / window[i-1]
		t.growth = append(t.growth, d)
		t.mean += d / float64(len(window))
	}
	return t, ""
}

func every(values []float64, ok func(float64) bool) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !ok(v) })
}

func (t trend) grows(by float64) bool {
	return every(t.growth, func(d float64) bool { return d > by })
}
func (t trend) falls(by float64) bool {
	return every(t.growth, func(d float64) bool { return d < -by })
}
func (t trend) over(limit float64) bool {
	return every(t.x, func(x float64) bool { return x > limit })
}
func (t trend) under(limit float64) bool {
	return every(t.x, func(x float64) bool { return x < limit })
}

func (t trend) accelerates() bool {
	for i := 1; i < len(t.growth); i++ {
		if !(t.growth[i] > t.growth[i-1]) {
			return false
		}
	}
	return true
}

func (t trend) why(what string, x float64) string {
	return fmt.Sprintf("%s: utilisation %.4g %%, mean growth %+.3g", what, x, t.mean)
}
