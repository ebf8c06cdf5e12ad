package scenario

import (
	"errors"
	"time"

	"supercargo.dev/supercargo/energy"
)

// PowerPoint is one point of a machine's power curve.
type PowerPoint struct {
	// Utilization is the requested share of the machine's CPU, between 0 and 1.
	Utilization float64
	// Milliwatts is the power of the machine at that utilization.
	Milliwatts int64
}

// Standby is a state in which a machine accepts no pods and draws little power: suspended, or off
// with its management controller on.
type Standby struct {
	// Milliwatts is the power in standby, less than idle power.
	Milliwatts int64
	// Wake is the time from waking the machine until it accepts pods. Above zero.
	Wake time.Duration
	// WakeMilliwatts is the power while waking. The default is that of full load.
	WakeMilliwatts int64
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

// standby reads a machine's standby state.
func (b *builder) standby(target **Standby) func(v value) {
	return func(v value) {
		s := Standby{WakeMilliwatts: -1}
		b.object(v,
			required("watts", "a number such as 4.5", into(&s.Milliwatts, b.number(0, 1000, maxMilliwatts))),
			required("wake", "a duration such as 45s", into(&s.Wake, b.positive)),
			optional("wakeWatts", into(&s.WakeMilliwatts, b.number(0, 1000, maxMilliwatts))))
		*target = &s
	}
}

// powerSuits records contradictions in a flavor's power values.
func (b *builder) powerSuits(v value, f *Flavor) {
	stated := has(v, "wattsIdle") && has(v, "wattsFull")
	for _, name := range []string{"powerCurve", "standby"} {
		if has(v, name) && !stated {
			b.fault(child(v, name), "requires wattsIdle and wattsFull")
			return
		}
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
	if s := f.Standby; s != nil {
		if s.WakeMilliwatts < 0 {
			s.WakeMilliwatts = f.MilliwattsFull
		}
		if s.Milliwatts >= f.MilliwattsIdle {
			b.bad(child(child(v, "standby"), "watts"), errors.New("must be less than wattsIdle"))
		}
	}
}
