package scenario

import (
	"errors"

	"supercargo.dev/supercargo/energy"
)

// PowerPoint is one point of a machine's power curve.
type PowerPoint struct {
	// Utilization is the requested share of the machine's CPU, between 0 and 1.
	Utilization float64
	// Milliwatts is the power of the machine at that utilization.
	Milliwatts int64
}

// Power returns the power of a machine by utilization, in watts: a straight line from idle to full
// load if the file has no curve.
func (f *Flavor) Power() energy.Model {
	m := energy.Model{Idle: watts(f.MilliwattsIdle), Full: watts(f.MilliwattsFull)}
	if rise := f.MilliwattsFull - f.MilliwattsIdle; len(f.PowerCurve) > 0 && rise > 0 {
		points := make([]energy.Point, 1, len(f.PowerCurve)+2)
		for _, p := range f.PowerCurve {
			points = append(points, energy.Point{Utilization: p.Utilization, Share: float64(p.Milliwatts-f.MilliwattsIdle) / float64(rise)})
		}
		if curve, err := energy.NewCurve(append(points, energy.Point{Utilization: 1, Share: 1})...); err == nil { // already validated by the reader
			m.Curve = curve
		}
	}
	return m
}

func watts(milliwatts int64) energy.Watts { return energy.Watts(float64(milliwatts) / 1000) }

// powerPoint reads a point of a power curve.
func (b *builder) powerPoint(points *[]PowerPoint) func(_ int, v value) {
	return func(_ int, v value) {
		var p PowerPoint
		if b.object(v,
			required("utilization", "a share between 0 and 1 such as 0.5", into(&p.Utilization, b.ratio(1, 1))),
			required("watts", "a number such as 95.2", into(&p.Milliwatts, b.number(0, 1000, maxMilliwatts)))) {
			*points = append(*points, p)
		}
	}
}

// powerSuits records contradictions in a flavor's power values.
func (b *builder) powerSuits(v value, f *Flavor) {
	stated := has(v, "wattsIdle") && has(v, "wattsFull")
	if has(v, "powerCurve") && !stated {
		b.fault(child(v, "powerCurve"), "requires wattsIdle and wattsFull")
		return
	}
	last := PowerPoint{Milliwatts: f.MilliwattsIdle}
	for i, p := range f.PowerCurve {
		at := element(child(v, "powerCurve"), i)
		switch {
		case p.Utilization <= last.Utilization || p.Utilization >= 1:
			b.bad(child(at, "utilization"), errors.New("must be between 0 and 1, and more than in the previous point"))
		case p.Milliwatts < last.Milliwatts || p.Milliwatts > f.MilliwattsFull:
			b.bad(child(at, "watts"), errors.New("must be from wattsIdle to wattsFull, and not less than in the previous point"))
		}
		last = p
	}
}
