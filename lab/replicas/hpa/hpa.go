// Package hpa implements the law of Kubernetes' HorizontalPodAutoscaler for utilisation, for comparison with other
// laws: as in current Kubernetes, and as in the DHPA paper.
package hpa

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"supercargo.dev/supercargo/autoscaler/replica/law"
	"supercargo.dev/supercargo/internal/input"
	"supercargo.dev/supercargo/internal/text/plural"
)

// The laws' names in the catalogue.
const (
	Name      = "hpa"
	PaperName = "hpa-dhpa"
)

// Config has the constants of both laws.
type Config struct {
	law.Limits
	// Target is the utilisation to keep, in percent.
	Target float64
	// Interval is the time between two evaluations.
	Interval time.Duration
	// Tolerance is the deviation of utilisation from the target, as a share, that does not cause scaling.
	Tolerance float64
	// Stabilization is the window whose greatest recommendation limits a scale-in. Current law only.
	Stabilization time.Duration
	// GrowPods and GrowShare bound one scale-out: to the greater of that many additional replicas and that share of the
	// present ones. 0 and 0 for no bound. Current law only.
	GrowPods  int
	GrowShare float64
	// AfterGrowth and AfterShrink are the cool-downs of the paper's law after a scale-out and a scale-in.
	AfterGrowth, AfterShrink time.Duration
	// MaxAge is the maximum age of a measurement; 0 for no bound.
	MaxAge time.Duration
}

// Default returns the defaults of the current law (autoscaling/v2 in Kubernetes 1.35): every 15 s, tolerance 10 %, at
// most doubling or 4 more in one step, scale-in to the greatest recommendation of 5 minutes. Target is 50 %, as in
// DHPA.
func Default() Config {
	return Config{Limits: law.Limits{Min: 1, Max: 1000}, Target: 50, Interval: 15 * time.Second, Tolerance: 0.1,
		Stabilization: 5 * time.Minute, GrowPods: 4, GrowShare: 1, MaxAge: 2 * time.Minute}
}

// Paper returns the HPA of the DHPA paper's simulator: every 30 s, cool-downs of 3 minutes after growing and 5 minutes
// after shrinking.
func Paper() Config {
	return Config{Limits: law.Limits{Min: 1, Max: 1000}, Target: 50, Interval: 30 * time.Second,
		AfterGrowth: 3 * time.Minute, AfterShrink: 5 * time.Minute, MaxAge: 2 * time.Minute}
}

// Validate returns all faults of the constants.
func (c Config) Validate() error {
	errs := input.Faults{c.Limits.Validate()}
	errs.If(!(c.Target > 0) || math.IsInf(c.Target, 1), "target %v: must be a percentage above 0", c.Target)
	errs.If(c.Interval <= 0, "interval %v: must be a time above 0", c.Interval)
	errs.If(!(c.Tolerance >= 0 && c.Tolerance < 1), "tolerance %v: must be at least 0 and below 1", c.Tolerance)
	errs.If(c.Stabilization < 0 || c.AfterGrowth < 0 || c.AfterShrink < 0 || c.MaxAge < 0, "all times must be 0 or more")
	errs.If(c.GrowPods < 0 || !(c.GrowShare >= 0), "growth by %d replicas or %v times: must be 0 or more", c.GrowPods, c.GrowShare)
	return errors.Join(errs...)
}

// Memory is the memory of both laws.
type Memory struct {
	// Recommended are the recommendations of the stabilisation window, the oldest first.
	Recommended []Recommendation `json:"recommended,omitempty"`
	// ScaledAt is the time when the paper's law last scaled, and Grew reports whether it scaled out.
	ScaledAt time.Time `json:"scaledAt,omitzero"`
	Grew     bool      `json:"grew,omitempty"`
}

// Recommendation is a recommended number of replicas with its time.
type Recommendation struct {
	At       time.Time `json:"at"`
	Replicas int       `json:"replicas"`
}

// New makes the current law.
func New(c Config) (law.Law, error) { return build(Name, c, Decide) }

// AtTarget returns the target of a law with a name such as hpa-80, and whether the name is one: N is from 1 to 100.
func AtTarget(name string) (percent int, is bool) {
	text, is := strings.CutPrefix(name, Name+"-")
	percent, err := strconv.Atoi(text)
	return percent, is && err == nil && strconv.Itoa(percent) == text && 1 <= percent && percent <= 100
}

// NewAtTarget makes the current law with the target in its name, such as hpa-80.
func NewAtTarget(name string, c Config) (law.Law, error) {
	percent, is := AtTarget(name)
	if !is {
		return nil, fmt.Errorf("law %q is not %s-N with N from 1 to 100", name, Name)
	}
	c.Target = float64(percent)
	return build(name, c, Decide)
}

// NewPaper makes the paper's law.
func NewPaper(c Config) (law.Law, error) { return build(PaperName, c, DecidePaper) }

func build(name string, c Config, decide func(Config, Memory, law.Observation) (Memory, law.Decision)) (law.Law, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("law %s: %w", name, err)
	}
	return law.New(name, func(m Memory, o law.Observation) (Memory, law.Decision) { return decide(c, m, o) }), nil
}

// Decide implements the current law: ⌈R·x/target⌉ for R Ready replicas at x percent, unless x is within the tolerance.
// On a scale-out, starting replicas count as idle; if that reverses the direction, it holds. It does not scale in below
// the greatest recommendation of the stabilisation window.
func Decide(c Config, m Memory, o law.Observation) (Memory, law.Decision) {
	if reason := o.Missing(law.Utilization, c.MaxAge); reason != "" {
		return m, c.Hold(o, c.Interval, reason)
	}
	n, why := c.recommend(o)
	n = c.Clamp(n)
	var kept []Recommendation
	greatest := n
	for _, r := range m.Recommended {
		if age := o.At.Sub(r.At); age < c.Stabilization && age >= 0 {
			kept = append(kept, r)
			greatest = max(greatest, r.Replicas)
		}
	}
	kept = append(kept, Recommendation{o.At, n})
	m.Recommended = kept
	switch {
	case n < o.Desired && greatest > n:
		n = min(greatest, o.Desired)
		why += fmt.Sprintf("; at least the number recommended in the last %v", c.Stabilization)
	case n > o.Desired:
		if limit := c.growth(o.Desired); n > limit {
			n = limit
			why += fmt.Sprintf("; at most %d in one step", limit)
		}
	}
	return m, c.Ask(n, c.Interval, why)
}

func (c Config) growth(from int) int {
	if c.GrowPods == 0 && c.GrowShare == 0 {
		return math.MaxInt
	}
	return max(from+c.GrowPods, int(math.Ceil(float64(from)*(1+c.GrowShare))))
}

// recommend returns the number before limits, stabilisation and bounds of growth.
func (c Config) recommend(o law.Observation) (int, string) {
	ratio := o.Utilization / c.Target
	if math.Abs(ratio-1) <= c.Tolerance {
		return o.Desired, fmt.Sprintf("utilisation %.4g %% is within tolerance of %.4g %%", o.Utilization, c.Target)
	}
	count := o.Ready
	if ratio > 1 && o.Starting() > 0 {
		count += o.Starting()
		ratio *= float64(o.Ready) / float64(count)
		if ratio <= 1+c.Tolerance {
			return o.Desired, fmt.Sprintf("utilisation %.4g %%, and %s starting", o.Utilization, plural.Count(o.Starting(), "replica")+plural.Form(o.Starting(), " is", " are"))
		}
	}
	return ceiling(float64(count) * ratio), fmt.Sprintf("utilisation %.4g %% over %s, target %.4g %%", o.Utilization, plural.Count(o.Ready, "replica"), c.Target)
}

// DecidePaper implements the HPA of the DHPA paper: ⌈R·x/target⌉, unless a cool-down has not passed.
func DecidePaper(c Config, m Memory, o law.Observation) (Memory, law.Decision) {
	if reason := o.Missing(law.Utilization, c.MaxAge); reason != "" {
		return m, c.Hold(o, c.Interval, reason)
	}
	if !m.ScaledAt.IsZero() {
		rest := c.AfterShrink
		if m.Grew {
			rest = c.AfterGrowth
		}
		if since := o.At.Sub(m.ScaledAt); since >= 0 && since < rest {
			return m, c.Hold(o, c.Interval, fmt.Sprintf("last scaled %v ago, less than %v", since, rest))
		}
	}
	n := c.Clamp(ceiling(float64(o.Ready) * o.Utilization / c.Target))
	if n != o.Desired {
		m.ScaledAt, m.Grew = o.At, n > o.Desired
	}
	return m, c.Ask(n, c.Interval, fmt.Sprintf("utilisation %.4g %% over %s, target %.4g %%", o.Utilization, plural.Count(o.Ready, "replica"), c.Target))
}

// ceiling rounds up, but ignores floating-point error above a whole number.
func ceiling(x float64) int { return int(min(math.Ceil(x-1e-9), 1<<30)) }
