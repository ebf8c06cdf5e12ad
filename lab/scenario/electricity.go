package scenario

import (
	"errors"
	"slices"
	"time"

	yaml "go.yaml.in/yaml/v3"
)

// Electricity is the price and the emission of electricity in a zone.
type Electricity struct {
	// Zone is the zone of flavors; empty for flavors without one.
	Zone string
	// DollarsPerKWh and GramsPerKWh are the price and the carbon intensity in grams of CO2
	// equivalent over time. Empty means unknown.
	DollarsPerKWh, GramsPerKWh Course
}

// Course is a value that changes in steps, ordered by time; the first step is at 0.
type Course []Step

// Step is a value from a time on.
type Step struct {
	From  time.Duration
	Value float64
}

// At returns the value at a time, and until when it holds; 0 means forever. An empty course has the
// value 0.
func (c Course) At(at time.Duration) (value float64, until time.Duration) {
	i, _ := slices.BinarySearchFunc(c, at+1, func(s Step, t time.Duration) int { return int(min(1, max(-1, s.From-t))) })
	if i > 0 {
		value = c[i-1].Value
	}
	if i < len(c) {
		until = c[i].From
	}
	return value, until
}

// ElectricityOf returns the electricity of a zone, or nil.
func (s *Scenario) ElectricityOf(zone string) *Electricity {
	at := slices.IndexFunc(s.Electricity, func(e Electricity) bool { return e.Zone == zone })
	if at < 0 {
		return nil
	}
	return &s.Electricity[at]
}

// maxPerKWh limits prices and intensities.
const maxPerKWh = 1_000_000

func (b *builder) electricity(_ int, v value) {
	var e Electricity
	if !b.object(v,
		optional("zone", into(&e.Zone, b.label)),
		optional("pricePerKWh", into(&e.DollarsPerKWh, b.course)),
		optional("gramsPerKWh", into(&e.GramsPerKWh, b.course))) {
		return
	}
	if slices.ContainsFunc(b.s.Electricity, func(other Electricity) bool { return other.Zone == e.Zone }) {
		b.fault(v, "is a second entry for zone %q: zones must be unique", e.Zone)
	}
	b.s.Electricity = append(b.s.Electricity, e)
}

// course reads a number or a list of steps.
func (b *builder) course(v value) Course {
	number := b.ratio(0, maxPerKWh)
	if v.node.Kind == yaml.ScalarNode {
		return Course{{Value: number(v)}}
	}
	var c Course
	b.list(v, func(i int, v value) {
		var s Step
		if !b.object(v,
			required("from", "a duration such as 1h", into(&s.From, b.duration)),
			required("value", "a number such as 0.25", into(&s.Value, number))) {
			return
		}
		switch {
		case i == 0 && s.From > 0:
			b.bad(child(v, "from"), errors.New("must be 0s for the first step"))
		case len(c) > 0 && s.From <= c[len(c)-1].From:
			b.bad(child(v, "from"), errors.New("must be later than in the previous step"))
		}
		c = append(c, s)
	})
	return c
}

// zoneIsKnown records an error for a zone without electricity.
func (b *builder) zoneIsKnown(v value, zone string) {
	if !slices.ContainsFunc(b.s.Electricity, func(e Electricity) bool { return e.Zone == zone }) {
		b.bad(v, errors.New("must be a zone of spec.electricity"))
	}
}
