package energy

import (
	"errors"
	"fmt"
	"math"
	"sort"

	"supercargo.dev/supercargo/internal/input"
)

// Point is one point of a [Curve].
type Point struct {
	// Utilization is the busy share of a machine's CPU, from 0 to 1.
	Utilization float64
	// Share is the machine's power above idle at that utilisation, as a share of its power above idle at full load.
	Share float64
}

// Curve describes how a machine's power grows with its utilisation. It is piecewise linear between points, such as the
// ten load steps of SPECpower or the four of Teads. The zero value is the straight line from 0 to 1.
type Curve struct {
	points []Point
}

// NewCurve returns the curve through the points, which it copies. The points begin at (0, 0) and end at (1, 1).
// Utilization must increase strictly, the share weakly because a machine does not draw less for doing more.
func NewCurve(points ...Point) (Curve, error) {
	if len(points) < 2 {
		return Curve{}, fmt.Errorf("curve of %d points: must have at least (0, 0) and (1, 1)", len(points))
	}
	if first, last := points[0], points[len(points)-1]; first != (Point{}) || last != (Point{1, 1}) {
		return Curve{}, fmt.Errorf("curve from %v to %v: must be from (0, 0) to (1, 1)", first, last)
	}
	for i := 1; i < len(points); i++ {
		// Written so that NaN is rejected.
		if !(points[i].Utilization > points[i-1].Utilization) || !(points[i].Share >= points[i-1].Share) {
			return Curve{}, fmt.Errorf("curve point %d %v after %v: the utilisation must increase and the share must not decrease", i, points[i], points[i-1])
		}
	}
	return Curve{append([]Point(nil), points...)}, nil
}

// Points returns a copy of the curve's points. For the zero value they are those of the straight line.
func (c Curve) Points() []Point {
	if c.points == nil {
		return []Point{{0, 0}, {1, 1}}
	}
	return append([]Point(nil), c.points...)
}

// At returns the share at a utilisation, which is clamped to [0, 1]. NaN gives NaN. Cost: a binary search, no
// allocation.
func (c Curve) At(utilization float64) float64 {
	if math.IsNaN(utilization) {
		return utilization
	}
	u := min(max(utilization, 0), 1)
	if c.points == nil {
		return u
	}
	i := sort.Search(len(c.points), func(i int) bool { return c.points[i].Utilization >= u })
	if i == 0 {
		return 0
	}
	a, b := c.points[i-1], c.points[i]
	return a.Share + (b.Share-a.Share)*(u-a.Utilization)/(b.Utilization-a.Utilization)
}

// Model predicts a machine's power from its utilisation:
//
//	P(u) = Idle + (Full - Idle)·Curve(u)
//
// It is the model of Fan et al. (ISCA 2007, section 4) with a curve instead of their straight line.
type Model struct {
	// Idle and Full are the power without load and at full load, 0 < Idle <= Full.
	Idle, Full Watts
	// Curve is the shape between the two.
	Curve Curve
}

// Validate returns an error for an invalid model.
func (m Model) Validate() error {
	var errs input.Faults
	errs.If(!(m.Idle > 0) || math.IsInf(float64(m.Idle), 0), "idle power %v W: must be a finite number above 0", m.Idle)
	errs.If(!(m.Full >= m.Idle) || math.IsInf(float64(m.Full), 0), "full power %v W: must be a finite number of at least the idle power, %v W", m.Full, m.Idle)
	return errors.Join(errs...)
}

// At returns the power at a utilisation, which is clamped as in [Curve.At].
func (m Model) At(utilization float64) Watts {
	return m.Idle + (m.Full-m.Idle)*Watts(m.Curve.At(utilization))
}

// LeastPerUtilization returns the minimum of P(u)/u over all utilisations u above 0: machines that together do as much as
// n of them at full load draw at least n times that. Between two points of the curve, P(u)/u is monotonic, so the
// minimum is at one of them. Cost: O(points).
func (m Model) LeastPerUtilization() Watts {
	least := m.Full
	for _, p := range m.Curve.points {
		if p.Utilization > 0 {
			least = min(least, m.At(p.Utilization)/Watts(p.Utilization))
		}
	}
	return least
}

// Times returns the model of n such machines, or of a machine with n such CPUs.
func (m Model) Times(n float64) Model {
	return Model{Idle: m.Idle * Watts(n), Full: m.Full * Watts(n), Curve: m.Curve}
}
